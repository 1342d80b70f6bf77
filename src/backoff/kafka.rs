//! The backoff of Kafka's clients (KIP-580).

use super::Backoff;
use super::limits;
use super::limits::chance_of;
use crate::config::{BackoffSpec, KeySpec};
use crate::error::{Error, Result};
use crate::tree::Tree;
use std::fmt;
use std::time::Duration;

/// The default of `retry.backoff.ms`.
const DEFAULT_BACKOFF_MS: u64 = 100;
/// The default of `retry.backoff.max.ms`.
const DEFAULT_MAX_MS: u64 = 1000;

const MULTIPLIER: u32 = 2;
const JITTER: f64 = 0.2;

/// Waits that double from retry to retry up to a maximum, each spread by a fifth, without an end.
///
/// These are the values of `ExponentialBackoff` in Kafka's Java client, in whole milliseconds, with
/// its rounding: `initial * multiplier^(retry - 1)`, spread evenly over `1 ± jitter` of that, cut
/// off at the maximum. An initial wait that is not below the maximum is the maximum at every retry,
/// not spread at all. One thing is not Java's: its floating point stays a millisecond below some
/// maxima (100 ms, times 10, at most 100,000 ms stops at 99,999 ms), where this reaches them.
///
/// By itself it never ends; [`max_retries`](Self::max_retries) gives it an end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Kafka {
    initial_ms: u64,
    multiplier: u32,
    max_ms: u64,
    jitter: f64,
    max_retries: Option<u32>,
}

impl Default for Kafka {
    fn default() -> Self {
        Kafka {
            initial_ms: DEFAULT_BACKOFF_MS,
            multiplier: MULTIPLIER,
            max_ms: DEFAULT_MAX_MS,
            jitter: JITTER,
            max_retries: None,
        }
    }
}

impl Kafka {
    /// The defaults of KIP-580: 100 ms, doubled up to 1 s, jitter 0.2, no end.
    pub fn new() -> Self {
        Self::default()
    }

    /// The backoff of `retry.backoff.ms` and `retry.backoff.max.ms`, as far as they are set.
    ///
    /// As KIP-580 says, a maximum that is not set is `retry.backoff.ms` if that is set, so that
    /// whoever set a fixed wait before keeps it, and 1000 otherwise. (Java's clients do so for
    /// `reconnect.backoff.ms` alone, which this serves as well.) Without a wait at all, 0, there is
    /// nothing to keep and the maximum is its default.
    ///
    /// # Errors
    /// Of kind Config, if one is negative; the message names it.
    pub fn from_config(backoff_ms: Option<i64>, max_ms: Option<i64>) -> Result<Self> {
        let backoff = at_least_0("retry.backoff.ms", backoff_ms)?;
        let max = at_least_0("retry.backoff.max.ms", max_ms)?;
        let kept = backoff.filter(|backoff| *backoff > 0);
        Ok(Kafka {
            initial_ms: backoff.unwrap_or(DEFAULT_BACKOFF_MS),
            max_ms: max.or(kept).unwrap_or(DEFAULT_MAX_MS),
            ..Self::default()
        })
    }

    /// A backoff of other numbers than KIP-580's, in milliseconds.
    ///
    /// # Errors
    /// Of kind Config, unless the waits are at most `i64::MAX`, the multiplier is from 1 to
    /// `i32::MAX` and the jitter from 0 to 1.
    pub fn exponential(initial_ms: u64, multiplier: u32, max_ms: u64, jitter: f64) -> Result<Self> {
        for (name, value) in [
            ("the initial wait", initial_ms),
            ("the maximum wait", max_ms),
        ] {
            if i64::try_from(value).is_err() {
                return Err(Error::config(format!(
                    "{name} is at most {} ms, not {value}",
                    i64::MAX
                )));
            }
        }
        if multiplier == 0 || i32::try_from(multiplier).is_err() {
            return Err(Error::config(format!(
                "the multiplier is from 1 to {}, not {multiplier}",
                i32::MAX
            )));
        }
        let kafka = Kafka {
            initial_ms,
            multiplier,
            max_ms,
            ..Self::default()
        };
        kafka.jitter(jitter)
    }

    /// How far each wait is spread: 0.2 is from 80% to 120%, but never above the maximum.
    ///
    /// # Errors
    /// Of kind Config, unless it is from 0 to 1.
    pub fn jitter(self, jitter: f64) -> Result<Self> {
        if (0.0..=1.0).contains(&jitter) {
            return Ok(Kafka { jitter, ..self });
        }
        Err(Error::config(format!(
            "the jitter is from 0 to 1, not {jitter}"
        )))
    }

    /// Ends after this many retries.
    #[must_use]
    pub fn max_retries(self, max_retries: u32) -> Self {
        Kafka {
            max_retries: Some(max_retries),
            ..self
        }
    }

    /// The wait before the first retry in milliseconds, without jitter.
    pub fn initial_ms(&self) -> u64 {
        self.initial_ms.min(self.max_ms)
    }

    /// The longest wait in milliseconds.
    pub fn max_ms(&self) -> u64 {
        self.max_ms
    }

    /// Whether every wait is the same, since the first one is not below the maximum.
    pub fn is_constant(&self) -> bool {
        self.initial_ms >= self.max_ms
    }

    fn wait_ms(&self, retry: u32, chance: f64) -> u64 {
        if self.is_constant() {
            return self.max_ms;
        }
        let multiplier = f64::from(self.multiplier);
        let growth = as_f64(self.max_ms) / as_f64(self.initial_ms.max(1));
        // A multiplier of 1 makes this infinite: then every retry is below it.
        let last = growth.ln() / multiplier.ln();
        let exponent = f64::from(retry.max(1) - 1);
        let term = if exponent < last {
            as_f64(self.initial_ms) * multiplier.powf(exponent)
        } else if self.initial_ms > 0 {
            as_f64(self.max_ms)
        } else {
            0.0
        };
        let spread = 1.0 - self.jitter + 2.0 * self.jitter * chance_of(chance);
        truncated(term * spread).min(self.max_ms)
    }
}

/// As Java converts a `long`.
fn as_f64(value: u64) -> f64 {
    value as f64
}

/// As Java casts to `long`: the fraction goes, and what is too large becomes the largest.
fn truncated(value: f64) -> u64 {
    (value as i64).max(0).cast_unsigned()
}

fn at_least_0(name: &str, value: Option<i64>) -> Result<Option<u64>> {
    let check = |value: i64| {
        u64::try_from(value)
            .map_err(|_| Error::config(format!("{name} is at least 0 ms, not {value}")))
    };
    value.map(check).transpose()
}

impl Backoff for Kafka {
    fn wait(&self, retry: u32, chance: f64) -> Option<Duration> {
        match self.max_retries {
            Some(max_retries) if retry.max(1) > max_retries => None,
            _ => Some(Duration::from_millis(self.wait_ms(retry, chance))),
        }
    }

    fn retries(&self) -> Option<u32> {
        self.max_retries
    }

    fn describe(&self) -> Tree {
        Tree::leaf("kafka")
    }
}

impl fmt::Display for Kafka {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "kafka: {} ms at first, times {}, at most {} ms, jitter {}, ",
            self.initial_ms(),
            self.multiplier,
            self.max_ms,
            self.jitter
        )?;
        match self.max_retries {
            Some(max_retries) => write!(f, "{max_retries} retries"),
            None => f.write_str("no end"),
        }
    }
}

const KEYS: &[KeySpec] = &[
    KeySpec::new("retry.backoff.ms", "milliseconds", "The first wait; 100 when it is not set.")
        .kafka(&["retry.backoff.ms"]),
    KeySpec::new(
        "retry.backoff.max.ms",
        "milliseconds",
        "The longest wait, jitter included; when it is not set, retry.backoff.ms if that is, else 1000.",
    )
    .kafka(&["retry.backoff.max.ms"]),
    KeySpec::new("maxAttempts", "whole number", "How many retries there are; without it no end."),
];

/// The backoff as properties name it.
pub(crate) fn spec() -> BackoffSpec {
    BackoffSpec::new("kafka", |scope| {
        let what = "a number of milliseconds of at least 0";
        let backoff = scope.parse::<i64>("retry.backoff.ms", what, |ms| *ms >= 0);
        let max = scope.parse::<i64>("retry.backoff.max.ms", what, |ms| *ms >= 0);
        let attempts = limits::attempts_of(scope, "maxAttempts");
        let (backoff, max, attempts) = (backoff?, max?, attempts?);
        let built = Kafka::from_config(backoff, max).map(|kafka| match attempts {
            Some(attempts) => kafka.max_retries(attempts),
            None => kafka,
        });
        limits::shared(scope, "retry.backoff.ms", built)
    })
    .doc("Kafka's clients (KIP-580): doubles up to a maximum, jitter 0.2.")
    .keys(KEYS)
}
