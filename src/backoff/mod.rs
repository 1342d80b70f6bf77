//! How long to wait before the n-th retry: pure strategies, given a chance.

mod exponential;
mod fibonacci;
mod fixed;
mod kafka;
mod limits;
mod list;
mod none;

pub use exponential::{Exponential, Jitter};
pub use fibonacci::Fibonacci;
pub use fixed::Fixed;
pub use kafka::Kafka;
pub use limits::{MAX_ATTEMPTS, MAX_DELAY_SECONDS, MAX_INTERVAL_SECONDS, MAX_WAITS};
pub use list::List;
pub use none::NoRetries;

pub(crate) use exponential::spec as exponential_spec;
pub(crate) use fibonacci::spec as fibonacci_spec;
pub(crate) use fixed::spec as fixed_spec;
pub(crate) use kafka::spec as kafka_spec;
pub(crate) use list::spec as list_spec;
pub(crate) use none::spec as none_spec;

use crate::error::Error;
use crate::tree::Tree;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// How long to wait before each retry. Pure: no state, no clock, no randomness of its own, so asking
/// never advances anything and one value serves all records at once.
pub trait Backoff: Send + Sync {
    /// The wait before retry number `retry` (1 is the first), or `None` when there is no such retry.
    ///
    /// `chance` in `[0, 1]` places the wait within the jitter; 1.0 is the longest. A stated maximum
    /// is never exceeded, jitter included. `retry` 0 is read as 1.
    fn wait(&self, retry: u32, chance: f64) -> Option<Duration>;

    /// How many retries there are; `None` when the backoff never ends by itself.
    fn retries(&self) -> Option<u32>;

    /// The strategy as a chain prints it, such as `exponential`.
    fn describe(&self) -> Tree {
        Tree::opaque("backoff")
    }
}

tokio::task_local! {
    /// Chains are called through traits of users' own, which such a thing cannot be an argument of.
    static LONGEST: Duration;
}

/// Runs `future`, in which no retry of a chain waits longer than `longest`.
pub(crate) async fn with_longest_wait<F: Future>(longest: Duration, future: F) -> F::Output {
    LONGEST.scope(longest, future).await
}

/// The wait of a retry, no longer than it may be here and now.
pub(crate) fn cut(wait: Duration) -> Duration {
    LONGEST
        .try_with(|longest| wait.min(*longest))
        .unwrap_or(wait)
}

/// How many waits the worst case adds up before it calls the sum endless.
const MAX_SUMMED: u32 = 100_000;

/// The longest time that all waits of `backoff` take together, at the highest chance; `None` when
/// the backoff never ends, or goes on for more than 100,000 retries.
pub fn worst_case(backoff: &dyn Backoff) -> Option<Duration> {
    let retries = backoff.retries().filter(|retries| *retries <= MAX_SUMMED)?;
    (1..=retries)
        .map_while(|retry| backoff.wait(retry, 1.0))
        .try_fold(Duration::ZERO, |sum, wait| Some(sum.saturating_add(wait)))
}

/// A backoff that can be shared and whose type is known at run time only.
#[derive(Clone)]
pub struct SharedBackoff(Arc<dyn Backoff>);

impl SharedBackoff {
    /// Shares `backoff`.
    pub fn new(backoff: impl Backoff + 'static) -> Self {
        SharedBackoff(Arc::new(backoff))
    }
}

#[deny(clippy::missing_trait_methods)]
impl Backoff for SharedBackoff {
    fn wait(&self, retry: u32, chance: f64) -> Option<Duration> {
        self.0.wait(retry, chance)
    }

    fn retries(&self) -> Option<u32> {
        self.0.retries()
    }

    fn describe(&self) -> Tree {
        self.0.describe()
    }
}

impl fmt::Debug for SharedBackoff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.describe())
    }
}

/// A retry that is about to wait.
#[derive(Debug)]
pub struct RetryEvent<'a> {
    /// The retry's name or label.
    pub stage: &'a str,
    /// What the attempt failed with.
    pub error: &'a Error,
    /// How many calls there were so far, the first included.
    pub attempts: u32,
    /// How long it waits before the next call.
    pub wait: Duration,
}

/// Told of each retry before its wait. It learns what was decided and changes nothing.
pub trait RetryObserver: Send + Sync {
    /// A call failed and will be tried again.
    fn retrying(&self, event: &RetryEvent<'_>);
}

impl<F: Fn(&RetryEvent<'_>) + Send + Sync> RetryObserver for F {
    fn retrying(&self, event: &RetryEvent<'_>) {
        self(event);
    }
}
