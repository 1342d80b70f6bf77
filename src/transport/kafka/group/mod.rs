//! A member of a consumer group for one ordered worker a partition.
//!
//! ```text
//! librdkafka ── rebalances, commit answers, errors ──► polling thread ──► GroupEvent
//!     └── one queue a partition ──► PartitionReader::next_batch (any task)      ▲
//!                                          commit, pause ─────────── GroupHandle ┘
//! ```
//!
//! The polling thread never waits for anything but its bell: rebalances are handed over by
//! librdkafka's callback and answered from the loop, commits are sent without waiting for their
//! answer, records do not pass through it at all.

mod bell;
mod commit;
mod committer;
mod context;
mod events;
mod lag;
mod leave;
mod member;
mod metadata;
mod news;
mod next_offset;
mod period;
mod rebalance;
mod restart;
mod settings;
mod table;
#[cfg(test)]
mod tests;

pub use commit::{Commit, CommitError, CommitFailure, CommitResults};
pub use events::{AssignedPartition, GroupEvent, Revoked};
pub use lag::{PartitionLag, statistics_lags};
pub use metadata::GroupMetadata;
pub use period::{OwnedPartition, PartitionReader, ReadTo};
pub use settings::group_settings;

use super::errors;
use super::ffi::SharedConsumer;
use super::properties::client_config;
use crate::error::{Error, Result};
use crate::transport::Settings;
use bell::Bell;
use context::GroupContext;
use leave::{Farewell, Leave};
use member::{Command, Member};
use news::News;
use period::lock;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::BaseConsumer;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::{Duration, Instant};
use table::Table;
use tokio::sync::{mpsc, oneshot};

/// How many events and commands wait in their channels.
const ROOM: usize = 64;

/// How long leaving the group may take when nobody says a limit.
const LEAVE: Duration = Duration::from_secs(30);

/// How a member behaves, beside its settings.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GroupOptions {
    /// How long a partition that is to be given back may take to be drained; 5 s unless set.
    /// Meanwhile the partitions that are kept fetch nothing, and the rest of the group waits.
    pub drain: Duration,
}

impl Default for GroupOptions {
    fn default() -> Self {
        GroupOptions {
            drain: Duration::from_secs(5),
        }
    }
}

/// A member of a consumer group (classic, eager or cooperative, or KIP-848), whose partitions are
/// read one by one.
///
/// Events of rebalances come by [`next_event`](Self::next_event); everything else is done through
/// a [`handle`](Self::handle). Works on any runtime, a current-thread one too.
///
/// Dropping it leaves the group in the background, without a last commit; [`close`](Self::close)
/// waits and commits.
pub struct GroupConsumer {
    events: mpsc::Receiver<GroupEvent>,
    handle: GroupHandle,
}

/// What everybody needs who works for a [`GroupConsumer`]. Cloning is cheap; a clone may outlive
/// the consumer.
#[derive(Clone)]
pub struct GroupHandle {
    commands: mpsc::Sender<Command>,
    shared: Arc<Shared>,
    /// A handle does not keep the consumer alive.
    consumer: Weak<SharedConsumer<GroupContext>>,
}

/// What the polling thread and the handles share.
struct Shared {
    bell: Arc<Bell>,
    table: Table,
    news: Arc<News>,
    started: Instant,
    /// Milliseconds from `started` to the last poll.
    polled: AtomicU64,
    warning: Mutex<Option<Error>>,
    /// Of the latest statistics, ended ownerships included.
    lags: Arc<Mutex<Vec<PartitionLag>>>,
    leave: Mutex<Asked>,
}

/// Whether the group is to be left.
#[derive(Default)]
enum Asked {
    #[default]
    Nothing,
    Leave(Leave),
    /// The polling thread has ended, or is about to: nobody hears any more.
    Over,
}

impl Shared {
    fn warn(&self, warning: Error) {
        *lock(&self.warning) = Some(warning);
    }

    fn polled(&self) {
        let millis = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.polled.store(millis, Ordering::Release);
    }

    /// The first to ask is heard. Whoever comes when it is over waits for nothing: what would be
    /// answered is dropped.
    fn leave(&self, leave: Leave) {
        let mut asked = lock(&self.leave);
        if matches!(*asked, Asked::Nothing) {
            *asked = Asked::Leave(leave);
        }
        drop(asked);
        self.bell.ring();
    }

    /// What was asked for, once; then nothing is heard any more.
    fn take_leave(&self) -> Option<Leave> {
        let mut asked = lock(&self.leave);
        match std::mem::replace(&mut *asked, Asked::Over) {
            Asked::Leave(leave) => Some(leave),
            Asked::Nothing => {
                *asked = Asked::Nothing;
                None
            }
            Asked::Over => None,
        }
    }

    /// Nothing is heard from here on.
    fn over(&self) {
        *lock(&self.leave) = Asked::Over;
    }
}

impl GroupConsumer {
    /// Joins the group `group.id` with [`group_settings`] and subscribes to `topics` (one that
    /// begins with `^` is a pattern, which librdkafka or the brokers resolve). Without topics it joins
    /// when it [subscribes](GroupHandle::subscribe).
    ///
    /// # Errors
    /// Kind Config when settings are missing or refused (all of them are named).
    pub fn start<T: AsRef<str>>(
        settings: &Settings,
        topics: &[T],
        options: &GroupOptions,
    ) -> Result<Self> {
        let settings = group_settings(settings)?;
        let topics: Vec<&str> = topics.iter().map(AsRef::as_ref).collect();
        let bell = Arc::new(Bell::default());
        let lags = Arc::default();
        let mut config = client_config(&settings)?;
        // Warnings tell of offset resets; what the application logs is chosen afterwards.
        if (config.log_level as i32) < RDKafkaLogLevel::Warning as i32 {
            config.set_log_level(RDKafkaLogLevel::Warning);
        }
        let mut consumer: BaseConsumer<GroupContext> = config
            .create_with_context(GroupContext::new(Arc::clone(&bell), Arc::clone(&lags)))
            .map_err(|cause| errors::from_kafka("could not start a consumer", &cause))?;
        let ringing = Arc::clone(&bell);
        consumer.set_nonempty_callback(move || ringing.ring());
        if !topics.is_empty() {
            member::subscribe(&consumer, &topics)?;
        }
        let shared = Arc::new(Shared {
            bell,
            table: Table::default(),
            news: Arc::default(),
            started: Instant::now(),
            polled: AtomicU64::new(0),
            warning: Mutex::default(),
            lags,
            leave: Mutex::default(),
        });
        let (give_events, events) = mpsc::channel(ROOM);
        let (commands, take_commands) = mpsc::channel(ROOM);
        let consumer = SharedConsumer::new(consumer);
        let weak = Arc::downgrade(&consumer);
        let member = Member::new(
            consumer,
            Arc::clone(&shared),
            take_commands,
            give_events,
            options.drain,
        );
        thread::Builder::new()
            .name("kafka-group".to_owned())
            .spawn(move || member.run())
            .map_err(|cause| {
                Error::unavailable("could not start the polling thread").with_source(cause)
            })?;
        Ok(GroupConsumer {
            events,
            handle: GroupHandle {
                commands,
                shared,
                consumer: weak,
            },
        })
    }

    /// The next event; `None` when the consumer is over, after [`GroupEvent::Failed`] or
    /// [`close`](Self::close). Dropping the future loses nothing.
    ///
    /// It must be awaited all the time: an assignment is only taken while no earlier event waits.
    pub async fn next_event(&mut self) -> Option<GroupEvent> {
        let event = self.events.recv().await;
        // There is room again.
        self.handle.shared.bell.ring();
        event
    }

    /// For the workers.
    pub fn handle(&self) -> GroupHandle {
        self.handle.clone()
    }

    /// Stops giving records, commits `last`, and leaves the group, so that the next member need not
    /// wait for a timeout; within `limit` (and at most a second more), of which the commit may take
    /// two thirds. What became of `last` is answered in its order.
    ///
    /// A record that is still held, by a handler that does not return, does not delay this: the
    /// group is left all the same. It keeps its own memory, and librdkafka's threads, until it is
    /// dropped; then the rest is freed in the background.
    ///
    /// A KIP-848 member that is closed before its first assignment does not tell the coordinator
    /// (librdkafka 2.12): the others get its partitions when its session ends.
    pub async fn close(self, last: Vec<Commit>, limit: Duration) -> CommitResults {
        let (results, answer) = oneshot::channel();
        let unheard = last.clone();
        self.handle.shared.leave(Leave {
            until: deadline(limit),
            limit,
            farewell: Some(Farewell { last, results }),
        });
        answer.await.unwrap_or_else(|_| not_owned(unheard))
    }
}

impl Drop for GroupConsumer {
    fn drop(&mut self) {
        // After `close` this comes second and is not heard.
        self.handle.shared.leave(Leave {
            until: deadline(LEAVE),
            limit: LEAVE,
            farewell: None,
        });
    }
}

impl GroupHandle {
    /// Commits offsets; there when the coordinator has answered for all of them, in their order.
    /// What is no longer ours is not sent. Requests made at the same time go together, and of a
    /// partition's offsets the highest. At most one try a poll cycle; after a failure at most one
    /// in 100 ms, at last one in 1 s, however often it is asked for: whoever wants to try again
    /// just asks again.
    pub async fn commit(&self, commits: Vec<Commit>) -> CommitResults {
        if commits.is_empty() {
            return Vec::new();
        }
        let (reply, answer) = oneshot::channel();
        let unheard = commits.clone();
        let sent = self.send(Command::Commit { commits, reply }).await;
        match (sent, answer.await) {
            (true, Ok(results)) => results,
            _ => not_owned(unheard),
        }
    }

    /// The group as a transaction that commits offsets must know it.
    pub fn group_metadata(&self) -> GroupMetadata {
        GroupMetadata::new(Weak::clone(&self.consumer), Arc::clone(&self.shared))
    }

    /// The group's committed offset of each partition, in their order; `None` where there is none.
    /// Offsets of transactions that are not over yet are waited for.
    ///
    /// # Errors
    /// When the coordinator does not answer for all of them within 5 s, or the consumer is closed.
    pub async fn committed(&self, partitions: &[OwnedPartition]) -> Result<Vec<Option<i64>>> {
        let consumer = Weak::clone(&self.consumer);
        let places = partitions.iter().map(metadata::place).collect();
        super::blocking(move || metadata::committed(&consumer, places)).await
    }

    /// Stops fetching a partition, or starts again, in this ownership only: it survives rebalances
    /// in which the partition is kept (not those of an eager group, which give everything back),
    /// and the partition's next ownership begins unpaused. What was fetched ahead is thrown away
    /// and fetched again, so this is for long waits; for short ones do not call `next_batch`.
    ///
    /// False when the partition is no longer ours.
    ///
    /// # Errors
    /// When librdkafka refuses.
    pub async fn pause(&self, partition: &OwnedPartition, paused: bool) -> Result<bool> {
        let (reply, answer) = oneshot::channel();
        let command = Command::Pause {
            partition: partition.clone(),
            paused,
            reply,
        };
        match (self.send(command).await, answer.await) {
            (true, Ok(result)) => result,
            _ => Ok(false),
        }
    }

    /// Subscribes to these topics instead of the former. What is no longer among them is given back by
    /// a rebalance, what is new comes by one; an eager group gives everything back meanwhile.
    ///
    /// # Errors
    /// Permanent when there are none or one occurs twice; kind Unavailable when the consumer is closed.
    pub async fn subscribe(&self, topics: Vec<String>) -> Result<()> {
        let (reply, answer) = oneshot::channel();
        let command = Command::Subscribe { topics, reply };
        match (self.send(command).await, answer.await) {
            (true, Ok(result)) => result,
            _ => Err(Error::unavailable("the consumer is closed")),
        }
    }

    async fn send(&self, command: Command) -> bool {
        let sent = self.commands.send(command).await.is_ok();
        self.shared.bell.ring();
        sent
    }

    /// Another reader of a partition, if it is still ours in this ownership.
    pub fn reader(&self, partition: &OwnedPartition) -> Option<PartitionReader> {
        let period = self.shared.table.current(partition)?;
        Some(PartitionReader::new(period))
    }

    /// Whether the partition is still ours in this ownership.
    pub fn owns(&self, partition: &OwnedPartition) -> bool {
        self.shared.table.current(partition).is_some()
    }

    /// The partitions that are ours now, in no order.
    pub fn owned(&self) -> Vec<OwnedPartition> {
        let periods = self.shared.table.all();
        periods.iter().map(|period| period.owned.clone()).collect()
    }

    /// How long ago the polling thread polled. More than two seconds mean that the process gets no
    /// time, or that librdkafka hangs.
    pub fn last_poll_age(&self) -> Duration {
        let polled = Duration::from_millis(self.shared.polled.load(Ordering::Acquire));
        self.shared.started.elapsed().saturating_sub(polled)
    }

    /// The lag of each partition that is ours, by the latest statistics
    /// (`statistics.interval.ms`).
    pub fn lags(&self) -> Vec<PartitionLag> {
        let mut lags = lock(&self.shared.lags).clone();
        let topic = |lag: &PartitionLag| Arc::from(lag.topic.as_str());
        lags.retain(|lag| {
            let found = self.shared.table.find(&topic(lag), lag.partition);
            found.is_some()
        });
        lags
    }

    /// The latest error that was expected to pass, once.
    pub fn take_warning(&self) -> Option<Error> {
        lock(&self.shared.warning).take()
    }
}

fn not_owned(commits: Vec<Commit>) -> CommitResults {
    let lost = |commit| Err(CommitError::not_owned(commit));
    commits.into_iter().map(lost).collect()
}

/// The longest limit that is kept: far beyond what anybody waits.
const FOREVER: Duration = Duration::from_secs(86_400 * 365);

/// `limit` from now.
fn deadline(limit: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(limit.min(FOREVER)).unwrap_or(now)
}

impl fmt::Debug for GroupConsumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("GroupConsumer")
            .field(&self.handle.owned())
            .finish()
    }
}

impl fmt::Debug for GroupHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("GroupHandle").field(&self.owned()).finish()
    }
}
