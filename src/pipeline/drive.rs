//! From the first attempt to the last: bounded retries of the handler.

use super::contain::panicked;
use super::control::WorkerOrders;
use super::observe::{Count, PartitionGauge, TARGET};
use super::source::{Origin, SourceRecord};
use super::work::{Attempted, Job, Work};
use crate::backoff::{Backoff, Exponential, SharedBackoff};
use crate::error::Error;
use crate::status::Status;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tracing::{Instrument, debug_span};

/// How often a handler is called for one record, and the waits between. Temporary errors of the
/// handler are tried again; those of the chain are not, for the chain has its own retry.
#[derive(Clone, Debug)]
pub struct Attempts {
    limit: Option<u32>,
    backoff: SharedBackoff,
    gives_up: bool,
    seeds: Arc<AtomicU64>,
}

/// How often a handler is called by default.
pub const DEFAULT_ATTEMPTS: u32 = 5;

impl Attempts {
    /// At most `limit` calls (0 is read as 1), or as many as `backoff` allows.
    pub fn new(limit: Option<u32>, backoff: SharedBackoff) -> Self {
        Attempts {
            limit,
            backoff,
            gives_up: false,
            seeds: Arc::new(AtomicU64::new(rand::random())),
        }
    }

    /// One call.
    pub fn once() -> Self {
        Attempts::new(Some(1), SharedBackoff::new(Exponential::default()))
    }

    /// Counts a single call that fails as a retry that gave up: what comes again later is not held
    /// here.
    #[must_use]
    pub fn giving_up(mut self) -> Self {
        self.gives_up = true;
        self
    }

    /// Makes the jitter repeatable.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seeds = Arc::new(AtomicU64::new(seed));
        self
    }

    fn wait(&self, made: u32, chance: &mut Option<StdRng>) -> Option<Duration> {
        if self.limit.is_some_and(|limit| made >= limit) {
            return None;
        }
        let chance = chance.get_or_insert_with(|| {
            StdRng::seed_from_u64(self.seeds.fetch_add(1, Ordering::Relaxed))
        });
        self.backoff.wait(made, chance.random())
    }
}

impl Default for Attempts {
    /// 5 calls; waits of 1, 2, 4 and 8 seconds.
    fn default() -> Self {
        let backoff = Exponential::new().max_attempts(DEFAULT_ATTEMPTS - 1);
        Attempts::new(
            Some(DEFAULT_ATTEMPTS),
            SharedBackoff::new(backoff.unwrap_or_default()),
        )
    }
}

/// Attempts `jobs` until each is done, failed for good, or abandoned because the worker ends.
pub(super) async fn drive<R: SourceRecord, W: Work<R>>(
    work: &W,
    jobs: &mut [Job<R>],
    attempts: &Attempts,
    orders: &WorkerOrders,
    gauge: &PartitionGauge,
) {
    for job in &mut *jobs {
        job.outcome = Attempted::Open;
    }
    let (mut made, mut failing, mut chance) = (0_u32, None, None);
    loop {
        if made == 0 {
            work.attempt(jobs).await;
        } else {
            let is_open = |job: &&Job<R>| matches!(job.outcome, Attempted::Open);
            gauge.count_shared(Count::Retries, jobs.iter().filter(is_open).count() as u64);
            let retry = debug_span!(target: TARGET, "retry", attempt = made.saturating_add(1));
            work.attempt(jobs).instrument(retry).await;
        }
        made = made.saturating_add(1);
        if !jobs.iter().any(to_be_retried) {
            if made > 1 {
                record_attempts(jobs, made, failing);
            }
            return;
        }
        let failing_since = *failing.get_or_insert_with(Instant::now);
        // A single call is no retry that gave up, unless it is to count as one.
        let waiting = AssertUnwindSafe(|| attempts.wait(made, &mut chance));
        let waiting = catch_unwind(waiting).map_err(|panic| drop(panicked(panic)));
        let Ok(Some(wait)) = waiting else {
            for job in jobs.iter_mut().filter(|job| to_be_retried(job)) {
                close(job, |error| match made {
                    _ if waiting.is_err() => Error::config("the backoff of the handler panicked"),
                    1 if !attempts.gives_up => error,
                    _ => error.with_status(Status::Exhausted),
                });
            }
            record_attempts(jobs, made, Some(failing_since));
            return;
        };
        if ends_during(sleep(wait), orders).await {
            for job in jobs.iter_mut().filter(|job| to_be_retried(job)) {
                job.outcome = Attempted::Abandoned;
            }
            return;
        }
        for job in jobs.iter_mut().filter(|job| to_be_retried(job)) {
            job.outcome = Attempted::Open;
        }
    }
}

fn to_be_retried<R>(job: &Job<R>) -> bool {
    matches!(&job.outcome, Attempted::Failed(Origin::Handler, error)
        if error.status() == Status::Temporary)
}

fn close<R>(job: &mut Job<R>, change: impl FnOnce(Error) -> Error) {
    job.outcome = match std::mem::replace(&mut job.outcome, Attempted::Open) {
        Attempted::Failed(origin, error) => Attempted::Failed(origin, change(error)),
        other => other,
    };
}

/// Writes the calls into the handler's errors; those of the chain know their own.
fn record_attempts<R>(jobs: &mut [Job<R>], made: u32, since: Option<Instant>) {
    let elapsed = since.map_or(Duration::ZERO, |since| since.elapsed());
    for job in jobs {
        if matches!(job.outcome, Attempted::Failed(Origin::Handler, _)) {
            close(job, |error| error.with_attempts(made, elapsed));
        }
    }
}

/// Whether the worker is to end before `wait` is over.
async fn ends_during(wait: impl Future<Output = ()>, orders: &WorkerOrders) -> bool {
    let (mut wait, mut ending) = (std::pin::pin!(wait), std::pin::pin!(orders.ending()));
    std::future::poll_fn(|cx| {
        if ending.as_mut().poll(cx).is_ready() {
            return std::task::Poll::Ready(true);
        }
        wait.as_mut().poll(cx).map(|()| false)
    })
    .await
}
