//! Reading chosen partitions from chosen offsets, as a member of no group.

use super::errors;
use super::ffi::{PartitionQueue, SharedConsumer};
use super::group::GroupMetadata;
use super::lookup::{self, Committed, PartitionBounds};
use super::properties::client_config;
use super::pump;
use super::source::{KafkaRecord, SourceContext};
use crate::error::{Error, Result};
use crate::status::Status;
use crate::transport::Settings;
use rdkafka::TopicPartitionList;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::topic_partition_list::Offset;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// How long a wait for records lasts before the consumer's events are looked at again.
const LOOK: Duration = Duration::from_millis(100);

/// How long a question that is refused for now is asked again.
const ASKING: Duration = Duration::from_secs(10);

/// The most errors that are taken from one look.
const ERRORS: usize = 100;

/// What a read brought.
#[derive(Debug, Default)]
pub struct Read {
    /// Records; those of a partition in order.
    pub records: Vec<KafkaRecord>,
    /// Partitions with the offset that was read up to: nothing below comes any more.
    pub ends: Vec<(i32, i64)>,
}

/// Reads partitions of a topic from chosen offsets, by itself: it joins no group and stores no
/// offsets, but can look up and, in a transaction, commit those of the group `group.id` as long as
/// that has no members.
///
/// `read_committed` unless set otherwise. An offset that is no longer there is an error
/// (`auto.offset.reset=error`).
pub struct OffsetReader {
    consumer: Arc<SharedConsumer<SourceContext>>,
    wake: Arc<Notify>,
    open: Vec<Open>,
    first: usize,
    topic: String,
    warning: Option<Error>,
}

struct Open {
    partition: i32,
    next: i64,
    queue: PartitionQueue,
}

impl OffsetReader {
    /// Starts a consumer that reads nothing yet.
    ///
    /// # Errors
    /// Kind Config when settings are missing or refused (all of them are named).
    pub fn start(settings: &Settings) -> Result<Self> {
        let mut settings = settings.clone();
        settings
            .set("enable.auto.offset.store", "false")
            .set("enable.auto.commit", "false")
            .set("enable.partition.eof", "true")
            .set("auto.offset.reset", "error")
            .set_default("allow.auto.create.topics", "false")
            .set_default("reconnect.backoff.max.ms", "1000")
            .set_default("queued.max.messages.kbytes", "4096")
            .set_default("queued.min.messages", "10000")
            .set_default("fetch.queue.backoff.ms", "20")
            .set_default("fetch.max.bytes", "16777216");
        if settings.get("group.id").is_none_or(str::is_empty) {
            return Err(Error::config("group.id is missing"));
        }
        let consumer: BaseConsumer<SourceContext> = client_config(&settings)?
            .create_with_context(SourceContext)
            .map_err(|cause| errors::from_kafka("could not start a consumer", &cause))?;
        Ok(OffsetReader {
            consumer: SharedConsumer::new(consumer),
            wake: Arc::new(Notify::new()),
            open: Vec::new(),
            first: 0,
            topic: String::new(),
            warning: None,
        })
    }

    /// How many partitions `topic` has; `None` when it does not exist.
    ///
    /// # Errors
    /// When no broker answers within 20 s.
    pub async fn partitions(&self, topic: &str) -> Result<Option<i32>> {
        let topic = topic.to_owned();
        self.ask(move |consumer| {
            let refused =
                |doing: &str, code| errors::error(&format!("{doing} topic {topic}"), code);
            lookup::partitions(consumer.client(), &topic, refused)
        })
        .await
    }

    /// Where the records of each of these partitions begin and end.
    ///
    /// # Errors
    /// When one of them does not exist, or its leader does not answer within 20 s.
    pub async fn bounds(&self, topic: &str, partitions: &[i32]) -> Result<Vec<PartitionBounds>> {
        let (topic, partitions) = (topic.to_owned(), partitions.to_vec());
        self.ask(move |consumer| lookup::bounds(consumer, &topic, &partitions))
            .await
    }

    /// What the group has committed for each of the first `count` partitions. Offsets of
    /// transactions that are not over yet are waited for.
    ///
    /// # Errors
    /// When the coordinator does not answer within 20 s.
    pub async fn committed(&self, topic: &str, count: i32) -> Result<Vec<Committed>> {
        let topic = topic.to_owned();
        self.ask(move |consumer| lookup::committed(consumer, &topic, count))
            .await
    }

    /// Asks again what is refused for now: a coordinator or a leader may be about to move.
    async fn ask<T: Send + 'static>(
        &self,
        question: impl Fn(&BaseConsumer<SourceContext>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let consumer = Arc::clone(&self.consumer);
        super::blocking(move || {
            let until = std::time::Instant::now() + ASKING;
            loop {
                let answer = question(consumer.get().ok_or_else(closed)?);
                let passes = |error: &Error| error.status() == Status::Temporary;
                if !answer.as_ref().is_err_and(passes) || std::time::Instant::now() >= until {
                    return answer;
                }
                std::thread::sleep(LOOK);
            }
        })
        .await
    }

    /// The group as a transaction that commits its offsets must know it; without members, and so
    /// without a generation.
    pub fn group_metadata(&self) -> GroupMetadata {
        GroupMetadata::alone(Arc::downgrade(&self.consumer))
    }

    /// Reads these partitions of `topic` from these offsets on, and no others any more.
    ///
    /// # Errors
    /// When librdkafka refuses.
    pub fn assign(&mut self, topic: &str, positions: &[(i32, i64)]) -> Result<()> {
        let doing = format!("could not read topic {topic}");
        // A partition's earlier queue goes before its later one is opened.
        self.open.clear();
        topic.clone_into(&mut self.topic);
        let mut list = TopicPartitionList::with_capacity(positions.len());
        for (partition, next) in positions {
            let queue =
                PartitionQueue::open(&self.consumer, topic, *partition, Arc::clone(&self.wake))
                    .ok_or_else(|| errors::error(&doing, Code::InvalidTopic))?;
            list.add_partition_offset(topic, *partition, Offset::Offset(*next))
                .map_err(|cause| errors::from_kafka(&doing, &cause))?;
            self.open.push(Open {
                partition: *partition,
                next: *next,
                queue,
            });
        }
        self.consumer
            .get()
            .ok_or_else(closed)?
            .assign(&list)
            .map_err(|cause| errors::from_kafka(&doing, &cause))
    }

    /// Reads a partition no further; what is fetched of it stays within the limits of its queue.
    pub fn stop(&mut self, partition: i32) {
        self.open.retain(|open| open.partition != partition);
    }

    /// What is there now, `max` records at most; waits up to `limit` for something to come. Empty
    /// when nothing came.
    ///
    /// Errors that pass are kept for [`take_warning`](Self::take_warning).
    ///
    /// # Errors
    /// One that does not pass; Permanent with an offset that is not there any more.
    pub async fn read(&mut self, max: usize, limit: Duration) -> Result<Read> {
        let until = Instant::now() + limit;
        loop {
            self.serve()?;
            let read = self.take(max)?;
            if !read.records.is_empty() || !read.ends.is_empty() {
                return Ok(read);
            }
            let look = until.min(Instant::now() + LOOK);
            if timeout_at(look, self.wake.notified()).await.is_err() && look >= until {
                return Ok(read);
            }
        }
    }

    /// The latest error that was expected to pass, once.
    pub fn take_warning(&mut self) -> Option<Error> {
        self.warning.take()
    }

    fn take(&mut self, max: usize) -> Result<Read> {
        let mut read = Read::default();
        let mut failed = None;
        let count = self.open.len();
        let first = self.first;
        self.first = first.wrapping_add(1);
        for turn in 0..count {
            let left = max.saturating_sub(read.records.len());
            let at = first.wrapping_add(turn) % count;
            let (Some(open), 1..) = (self.open.get_mut(at), left) else {
                continue;
            };
            let (partition, next) = (open.partition, &mut open.next);
            let (records, ends) = (&mut read.records, &mut read.ends);
            let taken = open.queue.take(left, |item| match item {
                // librdkafka may hand out again what it handed out before.
                Ok(message) if message.offset() >= *next => {
                    *next = message.offset().saturating_add(1);
                    records.push(KafkaRecord(message));
                }
                Ok(_) => {}
                Err((Code::PartitionEOF, offset)) => ends.push((partition, offset)),
                Err((code, _)) => failed = Some((partition, code)),
            });
            if taken == left {
                // More is there, and its wake-up is spent.
                self.wake.notify_one();
            }
        }
        if let Some((partition, code)) = failed {
            let doing = format!("could not read {} [{partition}]", self.topic);
            self.judge(
                &KafkaError::MessageConsumption(code),
                errors::error(&doing, code),
            )?;
        }
        Ok(read)
    }

    /// Events of the consumer itself, such as lost connections.
    fn serve(&mut self) -> Result<()> {
        for _ in 0..ERRORS {
            match self.consumer.poll(Duration::ZERO) {
                None => return Ok(()),
                Some(Ok(_)) => {}
                Some(Err(cause)) => {
                    let error = errors::from_kafka("could not consume", &cause);
                    self.judge(&cause, error)?;
                }
            }
        }
        Ok(())
    }

    fn judge(&mut self, cause: &KafkaError, error: Error) -> Result<()> {
        if pump::ends(cause, &error) {
            return Err(error);
        }
        self.warning = Some(error);
        Ok(())
    }
}

fn closed() -> Error {
    Error::unavailable("the consumer is closed")
}

impl fmt::Debug for OffsetReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OffsetReader").field(&self.topic).finish()
    }
}
