//! How an application steers a running pipeline.

use super::ledger::TopicPartition;
use super::observe::{Health, Watch};
use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// What a pipeline is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wish {
    pub(super) stop: Stop,
    /// Raised by each change of what is paused or resumed.
    changes: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stop {
    #[default]
    No,
    /// With its own limit, or the configured one.
    Gracefully(Option<Duration>),
    Now,
}

#[derive(Default)]
struct Partitions {
    paused: HashSet<TopicPartition>,
    resumed: HashSet<TopicPartition>,
}

struct Shared {
    watch: Arc<Watch>,
    wish: watch::Sender<Wish>,
    partitions: Mutex<Partitions>,
}

/// Stops, pauses and resumes a pipeline, from any task or thread. Cloning is cheap; a clone may outlive
/// the pipeline.
#[derive(Clone)]
pub struct PipelineHandle(Arc<Shared>);

impl PipelineHandle {
    pub(super) fn new() -> Self {
        PipelineHandle(Arc::new(Shared {
            watch: Arc::default(),
            wish: watch::Sender::new(Wish::default()),
            partitions: Mutex::default(),
        }))
    }

    fn partitions(&self) -> MutexGuard<'_, Partitions> {
        let partitions = &self.0.partitions;
        partitions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now(&self) -> Stop {
        self.0.wish.borrow().stop
    }

    /// Whether it was told to stop.
    pub fn is_stopping(&self) -> bool {
        self.now() != Stop::No
    }

    /// Done when it is told to stop.
    pub(super) async fn stopping(&self) {
        let mut wishes = self.watch();
        // Its sender is ours too.
        let _ = wishes.wait_for(|wish| wish.stop != Stop::No).await;
    }

    /// Done when it is told to stop at once.
    pub(super) async fn stopping_now(&self) {
        let mut wishes = self.watch();
        // Its sender is ours too.
        let _ = wishes.wait_for(|wish| wish.stop == Stop::Now).await;
    }

    /// How the pipeline is: for an operator, and for whoever asks whether it lives and is ready.
    pub fn health(&self) -> Health {
        self.0.watch.health(self.is_stopping(), Instant::now())
    }

    pub(super) fn seen(&self) -> Arc<Watch> {
        Arc::clone(&self.0.watch)
    }

    pub(super) fn watch(&self) -> watch::Receiver<Wish> {
        self.0.wish.subscribe()
    }

    /// Stops gracefully: nothing more is taken, what is in flight finishes within
    /// `stop.timeout.ms`, marks are committed, the group is left. `run` returns then.
    pub fn stop(&self) {
        self.tell(Stop::Gracefully(None));
    }

    /// [`stop`](Self::stop)s with another limit for what is in flight.
    pub fn stop_within(&self, limit: Duration) {
        self.tell(Stop::Gracefully(Some(limit)));
    }

    /// Stops at once: what is in flight is dropped and nothing more is committed. All of it comes
    /// again.
    pub fn stop_now(&self) {
        self.tell(Stop::Now);
    }

    fn tell(&self, stop: Stop) {
        self.0.wish.send_if_modified(|wish| {
            let more = match (wish.stop, stop) {
                (Stop::No, _) | (Stop::Gracefully(_), Stop::Now) => true,
                // The earlier limit may have been longer.
                (Stop::Gracefully(_), Stop::Gracefully(Some(_))) => true,
                _ => false,
            };
            if more {
                wish.stop = stop;
            }
            more
        });
    }

    /// Takes nothing more of a partition until it is [resumed](Self::resume). It need not be ours: a
    /// pause survives rebalances, and holds whenever the partition comes back.
    pub fn pause(&self, topic: &str, partition: i32) {
        let place = TopicPartition::new(topic, partition);
        {
            let mut partitions = self.partitions();
            partitions.resumed.remove(&place);
            partitions.paused.insert(place);
        }
        self.0.wish.send_modify(|wish| wish.changes += 1);
    }

    /// Ends a pause of a partition: a user's, one that waits for the end of an outage, and the flood
    /// breaker's. What is held is tried again at once.
    pub fn resume(&self, topic: &str, partition: i32) {
        let place = TopicPartition::new(topic, partition);
        {
            let mut partitions = self.partitions();
            partitions.paused.remove(&place);
            partitions.resumed.insert(place);
        }
        self.0.wish.send_modify(|wish| wish.changes += 1);
    }

    /// The partitions that users paused, in no order.
    pub fn paused(&self) -> Vec<TopicPartition> {
        self.partitions().paused.iter().cloned().collect()
    }

    pub(super) fn is_paused(&self, place: &TopicPartition) -> bool {
        self.partitions().paused.contains(place)
    }

    pub(super) fn take_resumed(&self) -> HashSet<TopicPartition> {
        std::mem::take(&mut self.partitions().resumed)
    }
}

impl fmt::Debug for PipelineHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PipelineHandle")
            .field("stop", &self.0.wish.borrow().stop)
            .finish_non_exhaustive()
    }
}
