//! What a worker shows of its partition while it works.

use crate::pipeline::ledger::{MarkCell, Ownership, TopicPartition};
use crate::pipeline::state::PauseReason;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// What a worker counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::pipeline) enum Count {
    In,
    Handled,
    Ignored,
    DeadLetters,
    Delayed,
    Repeated,
    Retries,
    Probes,
}

impl Count {
    pub(super) const ALL: [Count; 8] = [
        Count::In,
        Count::Handled,
        Count::Ignored,
        Count::DeadLetters,
        Count::Delayed,
        Count::Repeated,
        Count::Retries,
        Count::Probes,
    ];
}

/// What a worker shows at each of its turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::pipeline) struct Shown {
    pub(in crate::pipeline) in_flight: usize,
    pub(in crate::pipeline) bytes: usize,
    pub(in crate::pipeline) uncommitted: usize,
    /// Whether the oldest record waits for its time, and not for anybody.
    pub(in crate::pipeline) gated: bool,
    pub(in crate::pipeline) paused: Option<PauseReason>,
    pub(in crate::pipeline) user_paused: bool,
}

/// What is to be seen of one partition in one ownership: written by its worker without a lock or a
/// clock, read by whoever asks. Cloning shares it.
#[derive(Clone)]
pub struct PartitionGauge(Arc<Inner>);

struct Inner {
    partition: TopicPartition,
    mark: MarkCell,
    counts: [AtomicU64; Count::ALL.len()],
    in_flight: AtomicUsize,
    bytes: AtomicUsize,
    uncommitted: AtomicUsize,
    gated: AtomicBool,
    paused: AtomicU8,
    user_paused: AtomicBool,
    /// What is staged of it cannot be written for now; said by whoever writes, not by the worker.
    unwritten: AtomicBool,
    /// Of those who look, not of the worker.
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    oldest: Option<(i64, Instant)>,
    due_since: Option<Instant>,
    #[cfg(feature = "kafka")]
    told: [u64; Count::ALL.len()],
}

impl PartitionGauge {
    /// Of the partition whose worker raises `mark`.
    pub fn new(partition: TopicPartition, mark: MarkCell) -> Self {
        PartitionGauge(Arc::new(Inner {
            partition,
            mark,
            counts: std::array::from_fn(|_| AtomicU64::new(0)),
            in_flight: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            uncommitted: AtomicUsize::new(0),
            gated: AtomicBool::new(false),
            paused: AtomicU8::new(0),
            user_paused: AtomicBool::new(false),
            unwritten: AtomicBool::new(false),
            seen: Mutex::default(),
        }))
    }

    /// Which partition.
    pub fn partition(&self) -> &TopicPartition {
        &self.0.partition
    }

    /// In which ownership.
    pub fn ownership(&self) -> Ownership {
        self.0.mark.ownership()
    }

    /// Counts without a locked instruction: only for the worker itself.
    #[inline]
    pub(in crate::pipeline) fn count(&self, what: Count, by: u64) {
        if let Some(count) = self.0.counts.get(what as usize) {
            let before = count.load(Ordering::Relaxed);
            count.store(before.wrapping_add(by), Ordering::Relaxed);
        }
    }

    /// Counts from several tasks at once.
    pub(in crate::pipeline) fn count_shared(&self, what: Count, by: u64) {
        if let Some(count) = self.0.counts.get(what as usize) {
            count.fetch_add(by, Ordering::Relaxed);
        }
    }

    pub(in crate::pipeline) fn show(&self, shown: &Shown) {
        let inner = &*self.0;
        inner.in_flight.store(shown.in_flight, Ordering::Relaxed);
        inner.bytes.store(shown.bytes, Ordering::Relaxed);
        inner
            .uncommitted
            .store(shown.uncommitted, Ordering::Relaxed);
        inner.gated.store(shown.gated, Ordering::Relaxed);
        let paused = shown.paused.map_or(0, |reason| reason as u8 + 1);
        inner.paused.store(paused, Ordering::Relaxed);
        inner
            .user_paused
            .store(shown.user_paused, Ordering::Relaxed);
    }

    /// Says whether what is staged of it cannot be written; true when that is news.
    #[cfg(feature = "kafka")]
    pub(in crate::pipeline) fn set_unwritten(&self, unwritten: bool) -> bool {
        self.0.unwritten.swap(unwritten, Ordering::Relaxed) != unwritten
    }

    pub(in crate::pipeline) fn shown(&self) -> Shown {
        let inner = &*self.0;
        let paused = usize::from(inner.paused.load(Ordering::Relaxed)).checked_sub(1);
        let paused = paused.and_then(|index| PauseReason::ALL.get(index).copied());
        let unwritten = inner.unwritten.load(Ordering::Relaxed);
        Shown {
            in_flight: inner.in_flight.load(Ordering::Relaxed),
            bytes: inner.bytes.load(Ordering::Relaxed),
            uncommitted: inner.uncommitted.load(Ordering::Relaxed),
            gated: inner.gated.load(Ordering::Relaxed),
            paused: paused.or(unwritten.then_some(PauseReason::Unwritten)),
            user_paused: inner.user_paused.load(Ordering::Relaxed),
        }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lowest record that is taken and not finished, and for how long it has been seen to be:
    /// somebody must look now and then.
    pub fn oldest_in_flight(&self, now: Instant) -> Option<(i64, Duration)> {
        let mut seen = self.seen();
        let offset = self.0.mark.oldest();
        seen.oldest = match (offset, seen.oldest) {
            (Some(offset), Some((same, since))) if offset == same => Some((offset, since)),
            (offset, _) => offset.map(|offset| (offset, now)),
        };
        seen.oldest
            .map(|(offset, since)| (offset, now.saturating_duration_since(since)))
    }

    /// Says whether something finished waits to be committed.
    pub fn due(&self, due: bool, now: Instant) {
        let mut seen = self.seen();
        seen.due_since = due.then(|| seen.due_since.unwrap_or(now));
    }

    /// For how long that has been so.
    pub fn commit_age(&self, now: Instant) -> Option<Duration> {
        let since = self.seen().due_since?;
        Some(now.saturating_duration_since(since))
    }

    /// What was counted since this was asked last.
    #[cfg(feature = "kafka")]
    pub(super) fn take_counts(&self) -> [u64; Count::ALL.len()] {
        let mut seen = self.seen();
        let mut news = [0; Count::ALL.len()];
        for ((count, told), news) in self.0.counts.iter().zip(&mut seen.told).zip(&mut news) {
            let now = count.load(Ordering::Relaxed);
            *news = now.wrapping_sub(*told);
            *told = now;
        }
        news
    }
}

impl fmt::Debug for PartitionGauge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartitionGauge")
            .field("partition", &self.0.partition)
            .field("shown", &self.shown())
            .finish_non_exhaustive()
    }
}
