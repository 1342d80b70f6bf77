//! The polling thread's loop.

use super::commit::{Commit, CommitResults};
use super::committer::Committer;
use super::context::GroupContext;
use super::events::GroupEvent;
use super::period::{OwnedPartition, Period};
use super::rebalance::Rebalancing;
use super::{Shared, deadline};
use crate::error::{Error, Result};
use crate::status::{ErrorKind, Status};
use crate::transport::kafka::ffi::{self, SharedConsumer};
use crate::transport::kafka::{errors, pump};
use rdkafka::TopicPartitionList;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::topic_partition_list::Offset;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};

/// The longest wait between two polls.
const IDLE: Duration = Duration::from_secs(1);

/// The most events and commands of one cycle.
const CYCLE: usize = 256;

/// What a handle asks of the polling thread.
pub(super) enum Command {
    Commit {
        commits: Vec<Commit>,
        reply: oneshot::Sender<CommitResults>,
    },
    Pause {
        partition: OwnedPartition,
        paused: bool,
        reply: oneshot::Sender<Result<bool>>,
    },
    Subscribe {
        topics: Vec<String>,
        reply: oneshot::Sender<Result<()>>,
    },
}

/// What the polling thread has.
pub(super) struct Member {
    pub(super) consumer: Arc<SharedConsumer<GroupContext>>,
    pub(super) shared: Arc<Shared>,
    pub(super) committer: Committer,
    pub(super) rebalancing: Rebalancing,
    commands: mpsc::Receiver<Command>,
    events: mpsc::Sender<GroupEvent>,
    /// Events there was no room for. Bounded by the partitions owned: an assignment is only taken
    /// when this is empty, and what is revoked or lost was assigned before.
    outbox: VecDeque<GroupEvent>,
}

impl Member {
    pub(super) fn new(
        consumer: Arc<SharedConsumer<GroupContext>>,
        shared: Arc<Shared>,
        commands: mpsc::Receiver<Command>,
        events: mpsc::Sender<GroupEvent>,
        drain: Duration,
    ) -> Self {
        Member {
            consumer,
            shared,
            committer: Committer::default(),
            rebalancing: Rebalancing::new(drain),
            commands,
            events,
            outbox: VecDeque::new(),
        }
    }

    /// Polls until asked to leave or until an error that does not pass, then leaves.
    pub(super) fn run(mut self) {
        loop {
            if let Some(leave) = self.shared.take_leave() {
                return self.leave(leave);
            }
            if let Err(error) = self.cycle() {
                self.tell(GroupEvent::Failed(error));
                return self.leave(super::Leave {
                    until: deadline(super::LEAVE),
                    limit: super::LEAVE,
                    farewell: None,
                });
            }
            self.rest(None);
        }
    }

    /// One turn: poll, then everything that a poll may have made possible. Never waits.
    pub(super) fn cycle(&mut self) -> Result<()> {
        self.poll()?;
        self.take_commands();
        self.step()?;
        self.finish_restarts()?;
        self.commit();
        self.flush();
        Ok(())
    }

    /// Waits for the bell or for whatever is due first.
    pub(super) fn rest(&self, until: Option<Instant>) {
        let now = Instant::now();
        let due = [until, self.committer.due(), self.rebalancing.due()];
        let first = due
            .iter()
            .flatten()
            .map(|instant| instant.saturating_duration_since(now));
        // What is overdue was seen to in the last cycle, or waits for something else.
        let wait = first.min().unwrap_or(IDLE).min(IDLE);
        self.shared.bell.wait(wait.max(Duration::from_millis(1)));
    }

    pub(super) fn with(&self) -> Result<&BaseConsumer<GroupContext>> {
        self.consumer
            .get()
            .ok_or_else(|| Error::unavailable("the consumer is closed"))
    }

    fn poll(&mut self) -> Result<()> {
        let context = Arc::clone(self.with()?.client().context());
        // What made them came before them: once nothing is left to poll it is known.
        let doubts = self.shared.news.take_doubts();
        let mut polled_all = false;
        for _ in 0..CYCLE {
            let calls = context.calls();
            match self.consumer.poll(Duration::ZERO) {
                // It would leave a gap in its partition's order, so it may not be dropped.
                Some(Ok(_)) => {
                    return Err(Error::new(
                        ErrorKind::Other,
                        Status::Permanent,
                        "a record came outside its partition's queue",
                    ));
                }
                Some(Err(cause)) => self.judge(&cause)?,
                None if context.calls() == calls => {
                    polled_all = true;
                    break;
                }
                None => {}
            }
        }
        self.shared.polled();
        for reset in context.take_resets() {
            self.tell(GroupEvent::OffsetReset(reset));
        }
        for ((topic, partition), position) in context.take_lost_positions() {
            if let Some(period) = self.shared.table.find(&topic, partition) {
                period.lose_position(position);
            }
        }
        self.settle_doubts(doubts, polled_all)?;
        for (partition, code) in self.shared.news.take_errors() {
            if self.shared.table.current(&partition).is_some() {
                let doing = format!("{} [{}]", partition.topic, partition.partition);
                let error = errors::error(&format!("could not consume {doing}"), code);
                self.judge_as(&KafkaError::MessageConsumption(code), error)?;
            }
        }
        while let Some(answer) = context.next_commit_answer() {
            self.committer.answered(Instant::now(), &answer);
        }
        Ok(())
    }

    fn judge(&mut self, cause: &KafkaError) -> Result<()> {
        match cause {
            KafkaError::PartitionEOF(_) => Ok(()),
            cause => self.judge_as(cause, errors::from_kafka("could not consume", cause)),
        }
    }

    fn judge_as(&mut self, cause: &KafkaError, error: Error) -> Result<()> {
        if pump::ends(cause, &error) {
            return Err(error);
        }
        self.shared.warn(error);
        Ok(())
    }

    fn take_commands(&mut self) {
        for _ in 0..CYCLE {
            if !self.committer.has_room() {
                return;
            }
            match self.commands.try_recv() {
                Ok(Command::Commit { commits, reply }) => self.committer.add(commits, reply),
                Ok(Command::Pause {
                    partition,
                    paused,
                    reply,
                }) => {
                    // Whoever asked may have gone.
                    let _ = reply.send(self.pause(&partition, paused));
                }
                Ok(Command::Subscribe { topics, reply }) => {
                    let topics: Vec<&str> = topics.iter().map(String::as_str).collect();
                    let subscribed = self
                        .with()
                        .and_then(|consumer| subscribe(consumer, &topics));
                    let _ = reply.send(subscribed);
                }
                Err(_) => return,
            }
        }
        self.shared.bell.ring();
    }

    fn pause(&self, partition: &OwnedPartition, paused: bool) -> Result<bool> {
        let Some(period) = self.shared.table.current(partition) else {
            return Ok(false);
        };
        self.set_paused(&[&period], paused)?;
        Ok(true)
    }

    /// Pauses or resumes; of a partition that is not being fetched yet librdkafka keeps it in mind.
    pub(super) fn set_paused(&self, periods: &[&Arc<Period>], paused: bool) -> Result<()> {
        if periods.is_empty() {
            return Ok(());
        }
        let mut list = TopicPartitionList::with_capacity(periods.len());
        for period in periods {
            list.add_partition(&period.owned.topic, period.owned.partition);
        }
        let consumer = self.with()?;
        match paused {
            true => consumer.pause(&list),
            false => consumer.resume(&list),
        }
        .map_err(|cause| errors::from_kafka("could not pause or resume", &cause))?;
        for period in periods {
            period.paused.store(paused, Ordering::Release);
        }
        Ok(())
    }

    /// Sends what is to be committed, at most once a cycle.
    pub(super) fn commit(&mut self) {
        let now = Instant::now();
        let table = &self.shared.table;
        let owns = |partition: &OwnedPartition| table.current(partition).is_some();
        let Some(commits) = self.committer.next(now, owns) else {
            return;
        };
        let mut list = TopicPartitionList::with_capacity(commits.len());
        for commit in &commits {
            let mut element =
                list.add_partition(&commit.partition.topic, commit.partition.partition);
            // Never refused: the committer takes no negative offset.
            let _ = element.set_offset(Offset::Offset(commit.offset));
            if let Some(metadata) = &commit.metadata {
                element.set_metadata(metadata);
            }
        }
        let sent = match self.consumer.get() {
            Some(consumer) => ffi::commit(consumer, &list),
            None => Err(RDKafkaErrorCode::State),
        };
        if let Err(code) = sent {
            self.committer.failed(now, code);
        }
    }

    pub(super) fn tell(&mut self, event: GroupEvent) {
        self.outbox.push_back(event);
        self.flush();
    }

    /// Whether everything told so far has found room.
    pub(super) fn all_told(&self) -> bool {
        self.outbox.is_empty()
    }

    fn flush(&mut self) {
        while let Some(event) = self.outbox.pop_front() {
            match self.events.try_send(event) {
                Ok(()) => {}
                Err(mpsc::error::TrySendError::Full(event)) => {
                    self.outbox.push_front(event);
                    return;
                }
                // Nobody listens any more: we shall be asked to leave.
                Err(mpsc::error::TrySendError::Closed(_)) => {}
            }
        }
    }
}

pub(super) fn subscribe(consumer: &BaseConsumer<GroupContext>, topics: &[&str]) -> Result<()> {
    // rdkafka panics where a name has one.
    if topics.iter().any(|topic| topic.contains('\0')) {
        return Err(Error::config("a topic's name contains NUL"));
    }
    consumer.subscribe(topics).map_err(|cause| {
        let doing = format!("could not subscribe to {}", topics.join(", "));
        errors::from_kafka(&doing, &cause)
    })
}

/// No reader may keep the consumer alive through its queue.
impl Drop for Member {
    fn drop(&mut self) {
        // After an error nobody has asked, and whoever does must not wait.
        self.shared.over();
        for period in self.shared.table.all() {
            self.shared
                .table
                .remove(&period.owned.topic, period.owned.partition);
            period.end();
        }
    }
}
