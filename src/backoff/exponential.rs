//! Exponential backoff with the meaning of a `Retry` in AWS Step Functions.

use super::Backoff;
use super::limits;
use super::limits::{
    MAX_ATTEMPTS, MAX_DELAY_SECONDS, MAX_INTERVAL_SECONDS, at_most, chance_of, seconds,
};
use crate::config::{BackoffSpec, KeySpec, Scope};
use crate::error::{Error, Result};
use crate::tree::Tree;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Waits `interval * rate^(retry - 1)`, at most the maximum delay, for a number of retries.
///
/// The names, the defaults (1 s, 3 retries, rate 2.0, no maximum, no jitter) and their meaning are
/// those of `Retry` in the Amazon States Language, to which KIP-873 refers. `maxAttempts` is the
/// number of retries: the delegate is called once more than that, and 0 means that nothing is
/// retried. Unlike there, seconds may have a fraction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exponential {
    interval: f64,
    max_attempts: u32,
    rate: f64,
    max_delay: Option<f64>,
    jitter: Jitter,
}

/// How a wait is spread, so that many clients do not come back at once (`JitterStrategy`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Jitter {
    /// Not at all.
    #[default]
    None,
    /// Evenly over everything from zero to the wait itself, its maximum applied.
    Full,
}

impl Jitter {
    /// The name in properties, `NONE` or `FULL`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Jitter::None => "NONE",
            Jitter::Full => "FULL",
        }
    }
}

impl fmt::Display for Jitter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Jitter {
    type Err = Error;

    /// Reads `NONE` or `FULL`; case counts, as in Step Functions.
    fn from_str(name: &str) -> Result<Self> {
        match name {
            "NONE" => Ok(Jitter::None),
            "FULL" => Ok(Jitter::Full),
            _ => Err(Error::config(format!(
                "jitterStrategy is NONE or FULL, not `{name}`"
            ))),
        }
    }
}

impl Default for Exponential {
    fn default() -> Self {
        Exponential {
            interval: 1.0,
            max_attempts: 3,
            rate: 2.0,
            max_delay: None,
            jitter: Jitter::None,
        }
    }
}

impl Exponential {
    /// The defaults: waits of 1, 2 and 4 seconds.
    pub fn new() -> Self {
        Self::default()
    }

    /// The wait before the first retry, in seconds (`intervalSeconds`).
    ///
    /// # Errors
    /// Of kind Config, unless it is above 0 (at least a nanosecond) and at most
    /// [`MAX_INTERVAL_SECONDS`](super::MAX_INTERVAL_SECONDS).
    pub fn interval_seconds(self, interval: f64) -> Result<Self> {
        let interval = seconds("intervalSeconds", interval, MAX_INTERVAL_SECONDS)?;
        Ok(Exponential { interval, ..self })
    }

    /// The wait before the first retry; see [`interval_seconds`](Self::interval_seconds).
    ///
    /// # Errors
    /// The same.
    pub fn interval(self, interval: Duration) -> Result<Self> {
        self.interval_seconds(interval.as_secs_f64())
    }

    /// The number of retries (`maxAttempts`).
    ///
    /// # Errors
    /// Of kind Config, if it is above [`MAX_ATTEMPTS`](super::MAX_ATTEMPTS).
    pub fn max_attempts(self, max_attempts: u32) -> Result<Self> {
        at_most("maxAttempts", max_attempts, MAX_ATTEMPTS)?;
        Ok(Exponential {
            max_attempts,
            ..self
        })
    }

    /// By how much each wait is longer than the one before (`backoffRate`).
    ///
    /// # Errors
    /// Of kind Config, unless it is a finite number of at least 1.
    pub fn backoff_rate(self, rate: f64) -> Result<Self> {
        if rate.is_finite() && rate >= 1.0 {
            return Ok(Exponential { rate, ..self });
        }
        Err(Error::config(format!(
            "backoffRate is a finite number of at least 1.0, not {rate}"
        )))
    }

    /// The longest wait, in seconds (`maxDelaySeconds`).
    ///
    /// # Errors
    /// Of kind Config, unless it is above 0 (at least a nanosecond) and at most
    /// [`MAX_DELAY_SECONDS`](super::MAX_DELAY_SECONDS).
    pub fn max_delay_seconds(self, max_delay: f64) -> Result<Self> {
        let max_delay = Some(seconds("maxDelaySeconds", max_delay, MAX_DELAY_SECONDS)?);
        Ok(Exponential { max_delay, ..self })
    }

    /// The longest wait; see [`max_delay_seconds`](Self::max_delay_seconds).
    ///
    /// # Errors
    /// The same.
    pub fn max_delay(self, max_delay: Duration) -> Result<Self> {
        self.max_delay_seconds(max_delay.as_secs_f64())
    }

    /// How each wait is spread (`jitterStrategy`).
    #[must_use]
    pub fn jitter(self, jitter: Jitter) -> Self {
        Exponential { jitter, ..self }
    }
}

impl Backoff for Exponential {
    fn wait(&self, retry: u32, chance: f64) -> Option<Duration> {
        let retry = retry.max(1);
        if retry > self.max_attempts {
            return None;
        }
        let grown = self.interval * self.rate.powf(f64::from(retry - 1));
        let capped = self.max_delay.map_or(grown, |max| grown.min(max));
        let seconds = match self.jitter {
            Jitter::None => capped,
            // Without a maximum a wait may be infinite, and no chance of it is no number.
            Jitter::Full => capped.min(f64::MAX) * chance_of(chance),
        };
        Some(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
    }

    fn retries(&self) -> Option<u32> {
        Some(self.max_attempts)
    }

    fn describe(&self) -> Tree {
        Tree::leaf("exponential")
    }
}

impl fmt::Display for Exponential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "exponential: {} s at first, rate {}, {} retries, ",
            self.interval, self.rate, self.max_attempts
        )?;
        match self.max_delay {
            Some(max_delay) => write!(f, "at most {max_delay} s, ")?,
            None => f.write_str("no maximum, ")?,
        }
        write!(f, "jitter {}", self.jitter)
    }
}

const KEYS: &[KeySpec] = &[
    KeySpec::new("intervalSeconds", "seconds", "The first wait.").or("1"),
    KeySpec::new(
        "maxAttempts",
        "whole number",
        "How many retries there are; 0 is none.",
    )
    .or("3"),
    KeySpec::new(
        "backoffRate",
        "number",
        "By how much each wait is longer than the last.",
    )
    .or("2.0"),
    KeySpec::new(
        "maxDelaySeconds",
        "seconds",
        "The longest wait, jitter included.",
    ),
    KeySpec::new(
        "jitterStrategy",
        "NONE or FULL",
        "FULL spreads each wait from 0 to itself.",
    )
    .or("NONE"),
];

/// The backoff as properties name it.
pub(crate) fn spec() -> BackoffSpec {
    BackoffSpec::new("exponential", |scope| {
        let interval = limits::seconds_of(scope, "intervalSeconds");
        let attempts = limits::attempts_of(scope, "maxAttempts");
        let rate = scope.parse::<f64>("backoffRate", "a number of at least 1", |rate| {
            rate.is_finite() && *rate >= 1.0
        });
        let max_delay = limits::seconds_of(scope, "maxDelaySeconds");
        let jitter = jitter(scope);
        let (interval, attempts, rate) = (interval??, attempts??, rate??);
        let (max_delay, jitter) = (max_delay?, jitter?);
        let built = Exponential::new()
            .interval_seconds(interval)
            .and_then(|backoff| backoff.max_attempts(attempts))
            .and_then(|backoff| backoff.backoff_rate(rate))
            .and_then(|backoff| match max_delay {
                Some(max_delay) => backoff.max_delay_seconds(max_delay),
                None => Ok(backoff),
            });
        limits::shared(
            scope,
            "intervalSeconds",
            built.map(|backoff| backoff.jitter(jitter)),
        )
    })
    .doc("AWS Step Functions: each wait is backoffRate times the last (KIP-873).")
    .class("org.apache.kafka.common.serialization.RetryDeserializer.ExponentialBackoff")
    .class("org.apache.kafka.common.serialization.RetrySerializer.ExponentialBackoff")
    .keys(KEYS)
}

fn jitter(scope: &mut Scope<'_, '_, '_>) -> Option<Jitter> {
    match scope.text("jitterStrategy").as_deref() {
        Some("NONE") | None => Some(Jitter::None),
        Some("FULL") => Some(Jitter::Full),
        Some(other) => {
            let message = format!("`{other}` is not a jitter strategy: it is NONE or FULL");
            scope.problem("jitterStrategy", message);
            None
        }
    }
}
