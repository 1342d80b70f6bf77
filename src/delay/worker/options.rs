use crate::delay::{Claimed, MAX_CLAIM, Released};
use crate::error::Error;
use crate::transport::Delivered;
use std::borrow::Cow;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// The header that carries a record's id, so that whoever reads it can tell a second delivery of
/// one record from another record of the same bytes.
pub const ID_HEADER: &str = "deliver-id";

/// How a worker works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerOptions {
    /// How many records it claims at once, 1 to 256; 256 unless set.
    pub batch: usize,
    /// How long they are its own; 30 s unless set. The lease is extended while it publishes, so it
    /// need not outlast a slow broker; it is how long a record waits after a worker was killed.
    pub lease: Duration,
    /// The longest publishing may take before it is given up and the leases are left to end; 10
    /// minutes unless set.
    pub publish_limit: Duration,
    /// The longest sleep, however far away the next record is: how late a step of the clock, or a
    /// record scheduled elsewhere, is noticed. 1 s unless set, at least 1 ms.
    pub poll: Duration,
    /// The wait after a first failure; doubled with every further one. 100 ms unless set.
    pub first_backoff: Duration,
    /// The longest such wait; 10 s unless set.
    pub last_backoff: Duration,
    /// The header for the record's id; [`ID_HEADER`] unless set, `None` adds none.
    pub id_header: Option<Cow<'static, str>>,
}

impl Default for WorkerOptions {
    fn default() -> Self {
        WorkerOptions {
            batch: MAX_CLAIM,
            lease: Duration::from_secs(30),
            publish_limit: Duration::from_secs(600),
            poll: Duration::from_secs(1),
            first_backoff: Duration::from_millis(100),
            last_backoff: Duration::from_secs(10),
            id_header: Some(Cow::Borrowed(ID_HEADER)),
        }
    }
}

impl WorkerOptions {
    pub(super) fn backoff(&self, failures: u32) -> Duration {
        let doubled = 2_u32.saturating_pow(failures.saturating_sub(1).min(31));
        let wait = self.first_backoff.saturating_mul(doubled);
        wait.min(self.last_backoff).max(Duration::from_millis(1))
    }
}

/// Told what a worker did. Every method does nothing unless written; none may block.
pub trait DeliveryObserver: Send + Sync {
    /// The record was written. It may be delivered once more if it cannot be finished.
    fn delivered(&self, _record: &Claimed, _delivered: Delivered) {}

    /// The record was not written and was given back.
    fn failed(&self, _record: &Claimed, _error: &Error, _released: Released) {}

    /// The store did not answer; the worker tries again.
    fn store_failed(&self, _error: &Error) {}
}

/// Observes nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unobserved;

impl DeliveryObserver for Unobserved {}

/// What a worker has done so far.
#[derive(Debug, Default)]
pub struct WorkerCounts {
    /// Records that were written and finished.
    pub delivered: AtomicU64,
    /// Attempts that failed.
    pub failed: AtomicU64,
    /// Records whose lease had gone to another worker when this one finished them: delivered twice.
    pub stale: AtomicU64,
    /// Records that were given out before they were due, and held back. Anything but 0 is a bug.
    pub early: AtomicU64,
    /// How often the worker woke.
    pub wakes: AtomicU64,
}
