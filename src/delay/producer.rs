//! Writes delayed records to a topic in which they wait, in batches that share a time.

mod runs;

pub use runs::{Run, Slack, Timed, runs};

use super::DelaySink;
use super::deliver::{DELIVER_AFTER_RECORD, addressed};
use super::item::{DelayId, Delayed, Durability, IdSource, Limits, Receipt, Scheduled};
use super::together::Together;
use super::worker::ID_HEADER;
use crate::answer::BoxFuture;
use crate::clock::{Clock, SystemClock};
use crate::error::{Error, Result};
use crate::record::OutgoingRecord;
use crate::transport::{Delivered, Partitions, Sink, partition_of};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// How long a number of partitions is believed.
const PARTITIONS_AGE: Duration = Duration::from_secs(60);

/// How a [`DelayedProducer`] works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerOptions {
    /// How far apart the times of one batch may be.
    pub slack: Slack,
    /// The furthest a record may be delayed; 366 days unless set.
    pub max_delay: Duration,
}

impl Default for ProducerOptions {
    fn default() -> Self {
        ProducerOptions {
            slack: Slack::default(),
            max_delay: Limits::default().max_delay,
        }
    }
}

/// Writes records to the topic of a scheduler, so that whatever keeps an index of that topic needs
/// one entry a batch and not one a record.
///
/// The records of one [`schedule`](DelaySink::schedule) are grouped by partition (the Java client's for
/// the key; those without a key are kept together in one) and by time. Each group, a batch, is
/// written in one go, so that its offsets follow one another as far as no other producer writes to
/// the partition; its records have the latest of their times as `deliver-after`, and their own in
/// `deliver-after-record`. Times that are further apart than the [`Slack`] make two batches: no
/// record is early, and none is later than its time and the slack.
///
/// It is a client's rendering of the batch-wide `deliver-after` of KIP-1277; a batch here is a run of
/// records, not one of the protocol's.
///
/// An id travels along in the header `deliver-id`; whether two of one id are one is for the scheduler
/// to say, not for the topic.
pub struct DelayedProducer<S> {
    sink: S,
    topic: String,
    options: ProducerOptions,
    clock: Arc<dyn Clock>,
    ids: IdSource,
    durability: Durability,
    partitions: Mutex<Option<(Instant, i32)>>,
    /// Held while a batch is put in the sink's queue, so that batches do not mix.
    turn: Mutex<()>,
}

impl<S: Sink + Partitions> DelayedProducer<S> {
    /// A producer to `topic`.
    pub fn new(sink: S, topic: impl Into<String>, options: ProducerOptions) -> Self {
        DelayedProducer {
            sink,
            topic: topic.into(),
            options,
            clock: Arc::new(SystemClock),
            ids: IdSource::random(),
            durability: Durability::Synced,
            partitions: Mutex::default(),
            turn: Mutex::default(),
        }
    }

    /// The same by another clock.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// The same, saying so of what the topic survives; [`Durability::Synced`] unless said, as is right for a
    /// topic with more than one replica and a producer with `acks=all`.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    async fn partitions(&self) -> Result<i32> {
        let mut known = self.partitions.lock().await;
        if let Some((since, count)) = *known
            && since.elapsed() < PARTITIONS_AGE
        {
            return Ok(count);
        }
        match self.sink.partitions(&self.topic).await? {
            Some(count) if count > 0 => {
                *known = Some((Instant::now(), count));
                Ok(count)
            }
            _ => Err(Error::unavailable(format!(
                "topic {} does not exist",
                self.topic
            ))),
        }
    }

    async fn write(&self, batch: Vec<Delayed>) -> Vec<Result<Receipt>> {
        let partitions = match self.partitions().await {
            Ok(partitions) => partitions,
            Err(error) => {
                let same = || Error::new(error.kind(), error.status(), error.message().to_owned());
                return batch.iter().map(|_| Err(same())).collect();
            }
        };
        let now = self.clock.now_rounded_up();
        let (mut waiting, mut answers) = (Vec::with_capacity(batch.len()), Vec::new());
        for item in batch {
            answers.push(match item.when.resolve(now, self.options.max_delay) {
                Ok(own) => {
                    waiting.push(Some((answers.len(), own, item)));
                    None
                }
                Err(error) => Some(Err(error)),
            });
        }
        let (mut receipts, mut records) = (Vec::new(), Vec::new());
        for (partition, timed) in by_partition(&waiting, partitions) {
            for run in runs(timed, now, self.options.slack) {
                for place in run.places {
                    let Some((answer, own, item)) = waiting.get_mut(place).and_then(Option::take)
                    else {
                        continue;
                    };
                    let id = item.id.unwrap_or_else(|| self.ids.next(now));
                    records.push(self.record(item.record, partition, run.at, own, &id));
                    receipts.push((answer, id, own));
                }
            }
        }
        for ((answer, id, deliver_at), sent) in receipts.into_iter().zip(self.send(records).await) {
            if let Some(slot) = answers.get_mut(answer) {
                *slot = Some(sent.map(|_| Receipt {
                    id,
                    deliver_at,
                    scheduled: Scheduled::New,
                }));
            }
        }
        let lost = || Err(Error::unavailable("the record was not sent"));
        (answers.into_iter())
            .map(|answer| answer.unwrap_or_else(lost))
            .collect()
    }

    async fn send(&self, records: Vec<OutgoingRecord>) -> Vec<Result<Delivered>> {
        let turn = self.turn.lock().await;
        let sends = records.into_iter().map(|record| self.sink.send(record));
        let started = Together::start(sends.collect()).await;
        drop(turn);
        started.finish().await
    }

    fn record(
        &self,
        record: OutgoingRecord,
        partition: i32,
        at: i64,
        own: i64,
        id: &DelayId,
    ) -> OutgoingRecord {
        let mut record = addressed(record, &self.topic, at);
        record.partition = Some(partition);
        record.timestamp = None;
        record
            .headers
            .push(DELIVER_AFTER_RECORD, Some(own.to_string()));
        record.headers.remove(ID_HEADER);
        record.headers.push(ID_HEADER, Some(id.as_str().to_owned()));
        record
    }
}

/// Where in `waiting` the records of each partition stand. Those without a key go to one by chance.
fn by_partition(
    waiting: &[Option<(usize, i64, Delayed)>],
    partitions: i32,
) -> BTreeMap<i32, Vec<Timed>> {
    let keyless = rand::random_range(0..partitions.max(1));
    let mut all: BTreeMap<i32, Vec<Timed>> = BTreeMap::new();
    for (place, item) in waiting.iter().enumerate() {
        let Some((_, at, item)) = item else { continue };
        let key = item.record.key.as_deref();
        let partition = key.map_or(keyless, |key| partition_of(key, partitions));
        let timed = Timed { place, at: *at };
        all.entry(partition).or_default().push(timed);
    }
    all
}

impl<S: Sink + Partitions> DelaySink for DelayedProducer<S> {
    fn schedule(&self, batch: Vec<Delayed>) -> BoxFuture<'_, Vec<Result<Receipt>>> {
        Box::pin(self.write(batch))
    }

    fn durability(&self) -> Durability {
        self.durability
    }
}

impl<S> fmt::Debug for DelayedProducer<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DelayedProducer")
            .field("topic", &self.topic)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
