//! What a pipeline tells.

use super::contain::panicked;
use super::observe::TARGET;
use super::source::Event;
use super::topics::{OwnTopic, TopicProblem};
use crate::error::Error;
use crate::transport::kafka::{CommitError, NewTopic, OwnedPartition};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What happens in a pipeline. Nothing of it needs an answer.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum PipelineEvent<'a> {
    /// A record was handled, failed, or its partition pauses or goes on.
    Record {
        /// Its partition.
        partition: &'a OwnedPartition,
        /// What happened.
        event: Event<'a>,
    },
    /// Partitions are ours.
    Assigned(&'a [OwnedPartition]),
    /// Partitions are given back: what is in flight finishes first.
    Revoked(&'a [OwnedPartition]),
    /// Partitions are another's already; what was in flight comes again there.
    Lost(&'a [OwnedPartition]),
    /// A position was no longer there and `auto.offset.reset` took its place: records were skipped
    /// or come again. In librdkafka's words.
    OffsetReset(&'a str),
    /// Offsets were committed.
    Committed {
        /// Of how many partitions.
        partitions: usize,
    },
    /// An offset was not committed. What may succeed later is tried again with the next commit.
    CommitFailed(&'a CommitError),
    /// An error of the connection or the group that is expected to pass.
    Warning(&'a Error),
    /// This many records in flight were given up at the end of their time; they come again.
    Abandoned {
        /// Their partition.
        partition: &'a OwnedPartition,
        /// How many.
        records: usize,
    },
    /// A topic does not fit, or could not be looked at for want of a right.
    TopicProblem {
        /// What is wrong.
        problem: &'a TopicProblem,
        /// What mends it, to be pasted into a shell where Kafka's tools are.
        command: Option<&'a str>,
    },
    /// A topic that was missing was created.
    TopicCreated(&'a NewTopic),
    /// A pattern matches this topic, but it is one of ours: it is read only when its name is given.
    TopicLeftOut {
        /// The topic.
        topic: &'a str,
        /// What it holds.
        kind: OwnTopic,
    },
    /// A pattern matches other topics than before: all that is subscribed to now.
    Subscribed(&'a [String]),
    /// The oldest record in flight is older than `stall.warn.ms`: told once a stall.
    Stalled {
        /// Its partition.
        partition: &'a OwnedPartition,
        /// Its offset.
        offset: i64,
        /// For how long it has been the oldest.
        age: Duration,
    },
    /// That is over: it is finished or held, or the partition is not ours any more.
    StallEnded {
        /// Its partition.
        partition: &'a OwnedPartition,
        /// Its offset.
        offset: i64,
        /// For how long it was the oldest.
        age: Duration,
    },
    /// The pipeline is told to stop.
    Stopping,
}

/// Learns what happens; called on the pipeline's tasks, so it must not block.
pub trait PipelineObserver: Send + Sync + 'static {
    /// Something happened.
    fn event(&self, event: &PipelineEvent<'_>);
}

impl<F: Fn(&PipelineEvent<'_>) + Send + Sync + 'static> PipelineObserver for F {
    fn event(&self, event: &PipelineEvent<'_>) {
        self(event);
    }
}

/// Several, in turn. A panic of one ends nothing.
#[derive(Default)]
pub(super) struct Observers {
    pub(super) all: Vec<Box<dyn PipelineObserver>>,
    panicked: AtomicBool,
}

impl PipelineObserver for Observers {
    fn event(&self, event: &PipelineEvent<'_>) {
        for observer in &self.all {
            let told = catch_unwind(AssertUnwindSafe(|| observer.event(event)));
            if let Err(panic) = told {
                drop(panicked(panic));
                if !self.panicked.swap(true, Ordering::Relaxed) {
                    tracing::error!(target: TARGET, "an observer of the pipeline panics");
                }
            }
        }
    }
}
