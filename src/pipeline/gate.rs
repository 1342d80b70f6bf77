//! Records that may not be handled before their time.

use super::source::SourceRecord;
use super::work::Job;
use crate::answer::BoxFuture;
use crate::record::Record;
use std::cmp::Ordering;
use std::collections::{BTreeSet, BinaryHeap};
use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Says when records may be handled, in milliseconds since the epoch.
///
/// A record that must wait is taken and held in memory, within the limits of its
/// [worker](super::WorkerSettings); others overtake it. When partitions are given back it is dropped
/// unhandled at once.
pub trait Gate: Send + Sync + 'static {
    /// The instant before which `record` is not handled; `None` is at once.
    fn opens_at(&self, record: &Record<'_>) -> Option<i64>;

    /// The time, rounded down.
    fn now(&self) -> i64;

    /// Done when the time has come. It holds nothing up when dropped.
    fn reached(&self, at: i64) -> BoxFuture<'static, ()>;
}

/// A gate that workers share.
#[derive(Clone)]
pub struct SharedGate(Arc<dyn Gate>);

impl SharedGate {
    /// Shares `gate`.
    pub fn new(gate: impl Gate) -> Self {
        SharedGate(Arc::new(gate))
    }
}

impl fmt::Debug for SharedGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedGate")
    }
}

/// Jobs before a gate, by when it opens for them, then by offset.
pub(super) struct Gated<R> {
    gate: Option<SharedGate>,
    waiting: BinaryHeap<Waiting<R>>,
    offsets: BTreeSet<i64>,
    /// For the first of them.
    opening: Option<(i64, BoxFuture<'static, ()>)>,
}

struct Waiting<R> {
    at: i64,
    offset: i64,
    job: Job<R>,
}

impl<R: SourceRecord> Gated<R> {
    pub(super) fn new(gate: Option<SharedGate>) -> Self {
        Gated {
            gate,
            waiting: BinaryHeap::new(),
            offsets: BTreeSet::new(),
            opening: None,
        }
    }

    /// The job, unless it must wait.
    pub(super) fn admit(&mut self, job: Job<R>) -> Option<Job<R>> {
        let Some(SharedGate(gate)) = &self.gate else {
            return Some(job);
        };
        match gate.opens_at(&job.record()) {
            Some(at) if at > gate.now() => {
                let offset = job.offset;
                self.offsets.insert(offset);
                self.waiting.push(Waiting { at, offset, job });
                None
            }
            _ => Some(job),
        }
    }

    /// Ready when the gate opens for somebody.
    pub(super) fn poll_opens(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let (Some(SharedGate(gate)), Some(first)) = (&self.gate, self.waiting.peek()) else {
            self.opening = None;
            return Poll::Pending;
        };
        let at = first.at;
        if self.opening.as_ref().is_none_or(|(armed, _)| *armed != at) {
            self.opening = Some((at, gate.reached(at)));
        }
        match &mut self.opening {
            Some((_, opening)) => opening.as_mut().poll(cx),
            None => Poll::Pending,
        }
    }

    /// The next job whose time has come.
    pub(super) fn next(&mut self) -> Option<Job<R>> {
        self.opening = None;
        let SharedGate(gate) = self.gate.as_ref()?;
        if self.waiting.peek()?.at > gate.now() {
            return None;
        }
        let waiting = self.waiting.pop()?;
        self.offsets.remove(&waiting.offset);
        Some(waiting.job)
    }

    /// Whether the record of this offset waits here.
    pub(super) fn holds(&self, offset: i64) -> bool {
        self.offsets.contains(&offset)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.waiting.clear();
        self.offsets.clear();
        self.opening = None;
    }
}

// The heap gives out its greatest: the first.
impl<R> Ord for Waiting<R> {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.offset).cmp(&(self.at, self.offset))
    }
}

impl<R> PartialOrd for Waiting<R> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<R> PartialEq for Waiting<R> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<R> Eq for Waiting<R> {}
