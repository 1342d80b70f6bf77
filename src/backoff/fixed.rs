//! The same wait before every retry.

use super::Backoff;
use super::limits;
use super::limits::duration;
use crate::config::{BackoffSpec, KeySpec};
use crate::error::Result;
use crate::tree::Tree;
use std::fmt;
use std::time::Duration;

/// Waits the same time before each of a number of retries. Zero retries at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fixed {
    interval: Duration,
    max_attempts: u32,
}

impl Default for Fixed {
    /// 1 s, 3 retries.
    fn default() -> Self {
        Fixed::new(Duration::from_secs(1), 3)
    }
}

impl Fixed {
    /// Waits `interval` before each of `max_attempts` retries.
    pub const fn new(interval: Duration, max_attempts: u32) -> Self {
        Fixed {
            interval,
            max_attempts,
        }
    }

    /// Waits so many seconds, which may have a fraction (`intervalSeconds`).
    ///
    /// # Errors
    /// Of kind Config, unless it is from 0 to
    /// [`MAX_INTERVAL_SECONDS`](super::MAX_INTERVAL_SECONDS).
    pub fn interval_seconds(self, interval: f64) -> Result<Self> {
        let interval = duration("intervalSeconds", interval)?;
        Ok(Fixed { interval, ..self })
    }

    /// The number of retries (`maxAttempts`); 0 means that nothing is retried.
    #[must_use]
    pub const fn max_attempts(self, max_attempts: u32) -> Self {
        Fixed {
            max_attempts,
            ..self
        }
    }
}

impl Backoff for Fixed {
    fn wait(&self, retry: u32, _: f64) -> Option<Duration> {
        (retry.max(1) <= self.max_attempts).then_some(self.interval)
    }

    fn retries(&self) -> Option<u32> {
        Some(self.max_attempts)
    }

    fn describe(&self) -> Tree {
        Tree::leaf("fixed")
    }
}

impl fmt::Display for Fixed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "fixed: {} s, {} retries",
            self.interval.as_secs_f64(),
            self.max_attempts
        )
    }
}

const KEYS: &[KeySpec] = &[
    KeySpec::new("intervalSeconds", "seconds", "Each wait.").or("1"),
    KeySpec::new(
        "maxAttempts",
        "whole number",
        "How many retries there are; 0 is none.",
    )
    .or("3"),
];

/// The backoff as properties name it.
pub(crate) fn spec() -> BackoffSpec {
    BackoffSpec::new("fixed", |scope| {
        let interval = limits::seconds_of(scope, "intervalSeconds");
        let attempts = limits::attempts_of(scope, "maxAttempts");
        let (interval, attempts) = (interval??, attempts??);
        let built = Fixed::default()
            .max_attempts(attempts)
            .interval_seconds(interval);
        limits::shared(scope, "intervalSeconds", built)
    })
    .doc("The same wait before each retry.")
    .keys(KEYS)
}
