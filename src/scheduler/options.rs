use crate::delay::Limits;
use crate::delay::deliver::DeliverRules;
use crate::error::{Error, Result};
use crate::transport::Settings;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

/// Where what waits is kept (`scheduler.durability`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScheduleDurability {
    /// `changelog`: in a compacted topic beside the source; the folder is a cache.
    #[default]
    Changelog,
    /// `local`: in the folder alone, of one static member. With the folder or its disk, every record
    /// that was taken in and not delivered is lost: their offsets are committed.
    Local {
        /// Goes on without them when the folder does not know a partition that others have worked
        /// on. Refused otherwise.
        accept_loss: bool,
    },
}

impl fmt::Display for ScheduleDurability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ScheduleDurability::Changelog => "what waits is kept in a topic: nothing is lost with this disk",
            ScheduleDurability::Local { .. } => {
                "what waits is kept in this folder alone: with the folder or its disk, every record \
                 that was taken in and not delivered is lost"
            }
        })
    }
}

/// What a scheduler goes by.
#[derive(Clone, Debug)]
pub struct SchedulerOptions {
    /// The topic whose records wait.
    pub topic: String,
    /// The consumer's settings: `bootstrap.servers`, `group.id` and security at least.
    pub consumer: Settings,
    /// The producer's, beside what it has from the consumer's.
    pub producer: Settings,
    /// Where records may be delivered to.
    pub rules: DeliverRules,
    /// Whether the settings of the changelog are looked at; true unless set. False is for brokers
    /// that do not tell them, such as the embedded one: asking takes 10 s there.
    pub check_topics: bool,
    /// The folder of the index; one process has it at a time.
    pub folder: PathBuf,
    /// Where what waits is kept.
    pub durability: ScheduleDurability,
    /// The template of the topic of dead letters; see
    /// [`destination`](crate::dead_letter::destination).
    pub dead_letter_topic: String,
    /// `max_record_bytes` and `max_delay` of a record, and the `capacity` of the index in records a
    /// partition: beyond it nothing more is taken in. `max_attempts` is how often a record that its
    /// target refuses for now is tried, while others are delivered, before it is a dead letter.
    pub limits: Limits,
    /// How many records of a partition are delivered at once, and thus delivered again when the
    /// process dies in the middle; 1,000 unless set, at least 1. A run is not parted.
    pub batch: usize,
    /// How much of the index is kept in memory, in bytes; 64 MiB unless set.
    pub cache_bytes: usize,
    /// How long what the index was told may take until it is on disk; 200 ms unless set. With a
    /// changelog, a crash costs no more than reading that much of it again.
    pub interval: Duration,
    /// How often offsets are committed; 200 ms unless set.
    pub commit_interval: Duration,
    /// How old an index may be to be gone on with; 12 h unless set. It must be less than
    /// `delete.retention.ms` of the changelog (24 h unless set there): an older index may have missed
    /// that a record was delivered.
    pub max_index_age: Duration,
    /// The longest sleep: how late a step of the clock is noticed. 1 s unless set.
    pub poll: Duration,
    /// How long partitions that are given back may take for what is in flight; 5 s unless set.
    pub drain: Duration,
}

impl SchedulerOptions {
    /// A scheduler of `topic` with its index in `folder`.
    pub fn new(
        topic: impl Into<String>,
        consumer: Settings,
        rules: DeliverRules,
        folder: impl Into<PathBuf>,
    ) -> Self {
        SchedulerOptions {
            topic: topic.into(),
            consumer,
            producer: Settings::new(),
            rules,
            check_topics: true,
            folder: folder.into(),
            durability: ScheduleDurability::default(),
            dead_letter_topic: crate::dead_letter::DEFAULT_DESTINATION.to_owned(),
            limits: Limits::default(),
            batch: 1_000,
            cache_bytes: 64 << 20,
            interval: Duration::from_millis(200),
            commit_interval: Duration::from_millis(200),
            max_index_age: Duration::from_secs(12 * 60 * 60),
            poll: Duration::from_secs(1),
            drain: Duration::from_secs(5),
        }
    }

    /// The topic in which what waits is kept.
    pub fn changelog(&self) -> String {
        format!("{}.schedule", self.topic)
    }

    pub(super) fn group(&self) -> &str {
        self.consumer.get("group.id").unwrap_or_default()
    }

    pub(super) fn is_local(&self) -> bool {
        matches!(self.durability, ScheduleDurability::Local { .. })
    }

    pub(super) fn check(&self) -> Result<()> {
        self.limits.check()?;
        if self.rules.is_empty() {
            return Err(Error::config(
                "deliver.allow is empty: no record could be delivered",
            ));
        }
        if self.is_local() && self.consumer.get("group.instance.id").is_none() {
            return Err(Error::config(
                "scheduler.durability=local is for one static member: group.instance.id is missing",
            ));
        }
        Ok(())
    }
}

/// What a scheduler has done so far.
#[derive(Debug, Default)]
pub struct SchedulerCounts {
    /// Records that were taken in.
    pub ingested: AtomicU64,
    /// The entries that hold them: runs of consecutive records that are due at one time.
    pub entries: AtomicU64,
    /// Records that a former owner had taken in already.
    pub known: AtomicU64,
    /// Records that were delivered.
    pub delivered: AtomicU64,
    /// Records that were written to the topic of dead letters.
    pub dead_lettered: AtomicU64,
    /// Deliveries that have failed and are tried again.
    pub retried: AtomicU64,
    /// Records that were about to be delivered before their time, and held back. Anything but 0 is
    /// a bug.
    pub early: AtomicU64,
    /// Entries of the changelog that were read to begin or to go on with.
    pub restored: AtomicU64,
    /// Partitions that were begun with from the changelog alone.
    pub cold: AtomicU64,
    /// The latest that a delivery began after its time, or after it was taken in where that was
    /// later, in milliseconds.
    pub latest: AtomicI64,
    /// How often a loop of the scheduler woke.
    pub wakes: AtomicU64,
}

impl SchedulerCounts {
    pub(super) fn add(count: &AtomicU64, more: usize) {
        count.fetch_add(more as u64, Ordering::Relaxed);
    }
}
