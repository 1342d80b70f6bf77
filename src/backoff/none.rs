//! No retry at all.

use super::Backoff;
use super::SharedBackoff;
use crate::config::BackoffSpec;
use crate::tree::Tree;
use std::fmt;
use std::time::Duration;

/// Ends before the first retry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoRetries;

impl Backoff for NoRetries {
    fn wait(&self, _: u32, _: f64) -> Option<Duration> {
        None
    }

    fn retries(&self) -> Option<u32> {
        Some(0)
    }

    fn describe(&self) -> Tree {
        Tree::leaf("none")
    }
}

impl fmt::Display for NoRetries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("none: no retries")
    }
}

/// The backoff as properties name it.
pub(crate) fn spec() -> BackoffSpec {
    BackoffSpec::new("none", |_| Some(SharedBackoff::new(NoRetries))).doc("No retry at all.")
}
