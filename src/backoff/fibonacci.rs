//! Waits that grow like Fibonacci's numbers: slower than doubling, faster than a fixed step.

use super::Backoff;
use super::limits;
use super::limits::{MAX_DELAY_SECONDS, MAX_INTERVAL_SECONDS, duration, seconds};
use crate::config::{BackoffSpec, KeySpec};
use crate::error::Result;
use crate::tree::Tree;
use std::fmt;
use std::time::Duration;

/// The first of Fibonacci's numbers, counted from 1, that 64 bits do not hold.
const SATURATED: u32 = 94;

/// Waits 1, 1, 2, 3, 5, 8 … times the interval, at most the maximum delay, for a number of retries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fibonacci {
    interval: Duration,
    max_attempts: u32,
    max_delay: Option<Duration>,
}

impl Default for Fibonacci {
    /// 1 s, 3 retries, no maximum.
    fn default() -> Self {
        Fibonacci {
            interval: Duration::from_secs(1),
            max_attempts: 3,
            max_delay: None,
        }
    }
}

impl Fibonacci {
    /// The defaults: waits of 1, 1 and 2 seconds.
    pub fn new() -> Self {
        Self::default()
    }

    /// The wait before the first and the second retry, in seconds (`intervalSeconds`).
    ///
    /// # Errors
    /// Of kind Config, unless it is above 0 (at least a nanosecond) and at most
    /// [`MAX_INTERVAL_SECONDS`](super::MAX_INTERVAL_SECONDS).
    pub fn interval_seconds(self, interval: f64) -> Result<Self> {
        let interval = seconds("intervalSeconds", interval, MAX_INTERVAL_SECONDS)?;
        Ok(Fibonacci {
            interval: duration("intervalSeconds", interval)?,
            ..self
        })
    }

    /// The number of retries (`maxAttempts`); 0 means that nothing is retried.
    #[must_use]
    pub const fn max_attempts(self, max_attempts: u32) -> Self {
        Fibonacci {
            max_attempts,
            ..self
        }
    }

    /// The longest wait, in seconds (`maxDelaySeconds`).
    ///
    /// # Errors
    /// Of kind Config, unless it is above 0 (at least a nanosecond) and at most
    /// [`MAX_DELAY_SECONDS`](super::MAX_DELAY_SECONDS).
    pub fn max_delay_seconds(self, max_delay: f64) -> Result<Self> {
        let max_delay = seconds("maxDelaySeconds", max_delay, MAX_DELAY_SECONDS)?;
        Ok(Fibonacci {
            max_delay: Some(duration("maxDelaySeconds", max_delay)?),
            ..self
        })
    }
}

impl Backoff for Fibonacci {
    fn wait(&self, retry: u32, _: f64) -> Option<Duration> {
        let retry = retry.max(1);
        if retry > self.max_attempts {
            return None;
        }
        let (mut number, mut next) = (1_u64, 1_u64);
        for _ in 1..retry.min(SATURATED) {
            (number, next) = (next, number.saturating_add(next));
        }
        let grown = nanos(self.interval.as_nanos().saturating_mul(u128::from(number)));
        Some(self.max_delay.map_or(grown, |max| grown.min(max)))
    }

    fn retries(&self) -> Option<u32> {
        Some(self.max_attempts)
    }

    fn describe(&self) -> Tree {
        Tree::leaf("fibonacci")
    }
}

fn nanos(nanos: u128) -> Duration {
    const SECOND: u128 = 1_000_000_000;
    let subsecond = u32::try_from(nanos % SECOND).unwrap_or(0);
    u64::try_from(nanos / SECOND).map_or(Duration::MAX, |s| Duration::new(s, subsecond))
}

impl fmt::Display for Fibonacci {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let interval = self.interval.as_secs_f64();
        write!(
            f,
            "fibonacci: {interval} s at first, {} retries, ",
            self.max_attempts
        )?;
        match self.max_delay {
            Some(max_delay) => write!(f, "at most {} s", max_delay.as_secs_f64()),
            None => f.write_str("no maximum"),
        }
    }
}

const KEYS: &[KeySpec] = &[
    KeySpec::new(
        "intervalSeconds",
        "seconds",
        "The first and the second wait.",
    )
    .or("1"),
    KeySpec::new(
        "maxAttempts",
        "whole number",
        "How many retries there are; 0 is none.",
    )
    .or("3"),
    KeySpec::new("maxDelaySeconds", "seconds", "The longest wait."),
];

/// The backoff as properties name it.
pub(crate) fn spec() -> BackoffSpec {
    BackoffSpec::new("fibonacci", |scope| {
        let interval = limits::seconds_of(scope, "intervalSeconds");
        let attempts = limits::attempts_of(scope, "maxAttempts");
        let max_delay = limits::seconds_of(scope, "maxDelaySeconds");
        let (interval, attempts, max_delay) = (interval??, attempts??, max_delay?);
        let built = Fibonacci::new()
            .max_attempts(attempts)
            .interval_seconds(interval);
        let built = built.and_then(|backoff| match max_delay {
            Some(max_delay) => backoff.max_delay_seconds(max_delay),
            None => Ok(backoff),
        });
        limits::shared(scope, "intervalSeconds", built)
    })
    .doc("Each wait is the sum of the two before it.")
    .keys(KEYS)
}
