//! A topic whose records are delivered at any time they ask for.
//!
//! ```text
//! topic ──► changelog `<topic>.schedule` ──► index ──── due ────► target
//!   ▲ committed        │ to its end, by an owner without files ▲      │
//!   └── acknowledged ──┘                                       └──────┴─► taken back in both
//! ```
//!
//! A record says by `deliver-after` (or `deliver-after-delay`) when and by `deliver-to` where it is
//! to be delivered, see [`deliver`](crate::delay::deliver); one that does not say when is due at
//! once. Consecutive records of a partition that are due at one time are one entry, of the changelog
//! and of the index: what a [`DelayedProducer`](crate::delay::producer) writes as a batch is one.
//!
//! **Kafka holds the truth.** What waits is in a compacted topic with as many partitions as the
//! source; an offset of the source is committed once its entry is acknowledged there, and an entry is
//! taken back once its delivery is acknowledged. The index, a file, is a cache of it. Whoever becomes
//! the owner of a partition reads the changelog from where its index ends, or all of it when there is
//! no index or it is too old, and delivers nothing of the partition before the end.
//!
//! **At least once, never early.** A record is compared with the time rounded down. It is delivered
//! again when its owner died between the delivery and taking it back: at most the batch that each
//! partition had in flight ([`SchedulerOptions::batch`] or about 4 MiB, and one entry more).
//!
//! What cannot be delivered becomes a dead letter with the reason: a broken header, no target or one
//! that `deliver.allow` does not allow, an internal topic, a topic the scheduler reads, a time beyond
//! the maximum, a record that its target refuses for good, and, after `max_attempts` tries, a target
//! that does not exist. An outage makes no dead letters.
//!
//! A partition of an eager group, or one whose owner changed, keeps its rows in the file as a cache;
//! nothing of them is delivered by who is not the owner.

mod changelog;
mod deliver;
mod ingest;
mod options;
mod partition;
mod plan;
mod restore;
mod run;
mod running;
mod settings;
mod spans;
mod topics;

pub use options::{ScheduleDurability, SchedulerCounts, SchedulerOptions};
pub(crate) use settings::section;

use crate::clock::{Clock, SystemClock};
use crate::dead_letter::DeadLetters;
use crate::delay::embedded::runs::{RunIndex, RunIndexOptions};
use crate::error::{Error, Result};
use crate::transport::kafka::{GroupConsumer, GroupOptions, KafkaSink};
use crate::transport::{Settings, producer_settings};
use changelog::Shared;
use running::Running;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Delivers the records of one topic at their times, as a member of a group. See
/// [the module](self).
pub struct Scheduler {
    shared: Arc<Shared>,
    partitions: usize,
    client: Settings,
}

impl Scheduler {
    /// Opens the index, and looks at the topics: the changelog is created if it is not there.
    ///
    /// # Errors
    /// Kind [`Config`](crate::ErrorKind::Config): settings or limits that make no sense, a topic that
    /// is not there, a changelog with another number of partitions or one that would forget what
    /// waits, a folder that another process or
    /// another scheduler has. Temporary when no broker answers.
    pub async fn start(options: SchedulerOptions) -> Result<Self> {
        Self::with_clock(options, Arc::new(SystemClock)).await
    }

    /// The same by `clock`.
    ///
    /// # Errors
    /// As for [`start`](Self::start).
    pub async fn with_clock(mut options: SchedulerOptions, clock: Arc<dyn Clock>) -> Result<Self> {
        options.check()?;
        let changelog = (!options.is_local()).then(|| options.changelog());
        let reads = changelog.clone().into_iter().chain([options.topic.clone()]);
        options.rules = options
            .rules
            .reading(reads)
            .max_delay(options.limits.max_delay);
        let mut producer = producer_settings(&options.consumer, &options.producer);
        producer
            .set_default("linger.ms", "1")
            .set_default("message.max.bytes", topics::LARGEST)
            // How long a topic that is not there holds up what was sent together with it.
            .set_default("topic.metadata.propagation.max.ms", "2000")
            .set_default("delivery.timeout.ms", "30000");
        let sink = KafkaSink::start(&producer)?;
        let partitions = topics::look(&options, &sink, changelog.as_deref()).await?;
        let index = RunIndex::open(RunIndexOptions {
            folder: &options.folder,
            cache_bytes: options.cache_bytes,
            interval: options.interval,
            owner: format!("topic {} and group {}", options.topic, options.group()),
        });
        let index = index.await?;
        let client = options.consumer.clone();
        let letters = DeadLetters::new()
            .group(options.group())
            .to(options.dead_letter_topic.clone());
        Ok(Scheduler {
            shared: Arc::new(Shared {
                changelog,
                index,
                sink,
                letters,
                counts: Arc::default(),
                clock,
                warning: Mutex::default(),
                options,
            }),
            partitions: usize::try_from(partitions).unwrap_or(0),
            client,
        })
    }

    /// What it has done; the counts go on.
    pub fn counts(&self) -> Arc<SchedulerCounts> {
        Arc::clone(&self.shared.counts)
    }

    /// The latest error that is expected to pass, once.
    pub fn take_warning(&self) -> Option<Error> {
        let mut warning = (self.shared.warning.lock()).unwrap_or_else(PoisonError::into_inner);
        warning.take()
    }

    /// Joins the group and works until `stop` is done; then finishes what is in flight, commits, and
    /// leaves the group.
    ///
    /// # Errors
    /// What no record is to blame for: an error of the client that does not pass, the wiring, a
    /// damaged index or changelog, with `scheduler.durability=local` another member.
    pub async fn run(&self, stop: impl Future<Output = ()>) -> Result<()> {
        let topics = [&self.shared.options.topic];
        let group = GroupConsumer::start(&self.client, &topics, &self.group_options())?;
        Running::new(Arc::clone(&self.shared), self.partitions, group)
            .run(stop)
            .await
    }

    fn group_options(&self) -> GroupOptions {
        let mut options = GroupOptions::default();
        options.drain = self.shared.options.drain;
        options
    }

    /// Makes the index durable and lets its folder go. After [`run`](Self::run) has ended nothing is
    /// left to be waited for but this; without it the folder is let go in the background.
    pub async fn close(self) {
        if let Some(shared) = Arc::into_inner(self.shared) {
            shared.index.close().await;
        }
    }
}

impl fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scheduler")
            .field("topic", &self.shared.options.topic)
            .field("counts", &self.shared.counts)
            .finish_non_exhaustive()
    }
}
