//! Waits given one by one.

use super::Backoff;
use super::limits;
use super::limits::{MAX_WAITS, duration};
use crate::config::{BackoffSpec, KeySpec};
use crate::error::{Error, Result};
use crate::tree::Tree;
use std::fmt;
use std::time::Duration;

/// The waits of a list, in its order; after the last one it ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List(Vec<Duration>);

impl List {
    /// The waits before the first retry, the second, and so on. They need not grow.
    ///
    /// # Errors
    /// Of kind Config, if there is none (see [`NoRetries`](super::NoRetries)) or more than
    /// [`MAX_WAITS`](super::MAX_WAITS).
    pub fn new(waits: impl IntoIterator<Item = Duration>) -> Result<Self> {
        let waits: Vec<Duration> = waits.into_iter().take(MAX_WAITS + 1).collect();
        match waits.len() {
            1..=MAX_WAITS => Ok(List(waits)),
            0 => Err(Error::config("the list of waits is empty")),
            _ => Err(Error::config(format!(
                "a list has at most {MAX_WAITS} waits"
            ))),
        }
    }

    /// The waits in seconds, which may have a fraction.
    ///
    /// # Errors
    /// As [`new`](Self::new), and unless each is from 0 to
    /// [`MAX_INTERVAL_SECONDS`](super::MAX_INTERVAL_SECONDS).
    pub fn of_seconds(waits: impl IntoIterator<Item = f64>) -> Result<Self> {
        let waits = waits.into_iter().take(MAX_WAITS + 1);
        let waits: Result<Vec<Duration>> = waits
            .map(|wait| duration("a wait in seconds", wait))
            .collect();
        Self::new(waits?)
    }
}

impl Backoff for List {
    fn wait(&self, retry: u32, _: f64) -> Option<Duration> {
        let index = usize::try_from(retry.max(1) - 1).ok()?;
        self.0.get(index).copied()
    }

    fn retries(&self) -> Option<u32> {
        u32::try_from(self.0.len()).ok()
    }

    fn describe(&self) -> Tree {
        Tree::leaf("list")
    }
}

impl fmt::Display for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 8;
        f.write_str("list:")?;
        for (index, wait) in self.0.iter().take(SHOWN).enumerate() {
            write!(
                f,
                "{}{} s",
                if index == 0 { " " } else { ", " },
                wait.as_secs_f64()
            )?;
        }
        match self.0.len().checked_sub(SHOWN) {
            None | Some(0) => Ok(()),
            Some(more) => write!(f, " and {more} more"),
        }
    }
}

const KEYS: &[KeySpec] = &[KeySpec::new(
    "waitsSeconds",
    "seconds, separated by commas",
    "The waits, one a retry.",
)];

/// The backoff as properties name it.
pub(crate) fn spec() -> BackoffSpec {
    BackoffSpec::new("list", |scope| {
        let Some(text) = scope.text("waitsSeconds") else {
            scope.problem("waitsSeconds", "the waits are missing, as in `1, 5, 30`");
            return None;
        };
        let waits: Option<Vec<f64>> = text
            .split(',')
            .map(|wait| wait.trim().parse().ok())
            .collect();
        let Some(waits) = waits else {
            let message = format!("`{text}` is not a list of seconds, as in `1, 5, 30`");
            scope.problem("waitsSeconds", message);
            return None;
        };
        limits::shared(scope, "waitsSeconds", List::of_seconds(waits))
    })
    .doc("Waits written out one by one.")
    .keys(KEYS)
}
