//! What was taken and not started: in the order of the partition, or of each key.

use super::source::SourceRecord;
use super::work::Job;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};

/// Which records wait for one another (`processing.order`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// All of a partition: one at a time.
    #[default]
    Partition,
    /// Those of one key; records without a key wait for none.
    Key,
    /// None.
    Unordered,
}

impl Order {
    /// Every order.
    pub const ALL: [Order; 3] = [Order::Partition, Order::Key, Order::Unordered];

    /// The value of `processing.order`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Order::Partition => "partition",
            Order::Key => "key",
            Order::Unordered => "unordered",
        }
    }

    /// The order with this name, if there is one.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|order| order.as_str() == name)
    }
}

/// Jobs that are ready to start, and behind each busy lane those that wait for it.
///
/// A lane is a hash of a key: two keys of one lane wait for one another, which is harmless. A lane is
/// there from the moment its first job is ready until no job of it is left.
pub(super) struct Queue<R> {
    order: Order,
    hashes: RandomState,
    ready: VecDeque<Job<R>>,
    lanes: HashMap<u64, VecDeque<Job<R>>>,
}

impl<R: SourceRecord> Queue<R> {
    pub(super) fn new(order: Order) -> Self {
        Queue {
            order,
            hashes: RandomState::new(),
            ready: VecDeque::new(),
            lanes: HashMap::new(),
        }
    }

    pub(super) fn lane(&self, key: Option<&[u8]>) -> Option<u64> {
        match self.order {
            Order::Key => key.map(|key| self.hashes.hash_one(key)),
            Order::Partition | Order::Unordered => None,
        }
    }

    /// Adds a job behind all others of its lane.
    pub(super) fn push(&mut self, job: Job<R>) {
        if let Some(lane) = job.lane {
            if let Some(waiting) = self.lanes.get_mut(&lane) {
                waiting.push_back(job);
                return;
            }
            self.lanes.insert(lane, VecDeque::new());
        }
        self.ready.push_back(job);
    }

    /// The next job that waits for none.
    pub(super) fn pop(&mut self) -> Option<Job<R>> {
        self.ready.pop_front()
    }

    /// The job that held this lane is settled.
    pub(super) fn free(&mut self, lane: Option<u64>) {
        let Some(lane) = lane else { return };
        match self.lanes.get_mut(&lane).map(VecDeque::pop_front) {
            Some(Some(next)) => self.ready.push_front(next),
            Some(None) => {
                self.lanes.remove(&lane);
            }
            None => {}
        }
    }

    /// Puts jobs that hold their lanes before all others.
    pub(super) fn put_back(&mut self, jobs: Vec<Job<R>>) {
        for job in jobs.into_iter().rev() {
            self.ready.push_front(job);
        }
    }

    pub(super) fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Whether nothing waits, and nothing that runs or is held has a lane.
    pub(super) fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.lanes.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.ready.clear();
        self.lanes.clear();
    }
}
