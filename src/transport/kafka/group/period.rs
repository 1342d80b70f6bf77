//! One ownership of one partition, and who reads it.

use super::bell::Bell;
use super::context::GroupContext;
use crate::transport::kafka::ffi::{PartitionQueue, SharedConsumer};
use crate::transport::kafka::source::KafkaRecord;
use rdkafka::error::RDKafkaErrorCode;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

/// A partition in one period in which it was ours. The broker checks a group's generation, not
/// which of its periods a commit means, so each assignment gets a number of our own, which rises
/// and is never used twice by one consumer.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OwnedPartition {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition's number.
    pub partition: i32,
    /// The number of this ownership.
    pub ownership: u64,
}

impl fmt::Display for OwnedPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}#{}", self.topic, self.partition, self.ownership)
    }
}

impl fmt::Debug for OwnedPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The most records of one batch.
const LARGEST_BATCH: usize = 10_000;

/// The most errors of partitions that wait for the polling thread; more repeat what is known.
const ERRORS: usize = 16;

/// Errors that came instead of records, for the polling thread to judge.
#[derive(Debug, Default)]
pub(super) struct Errors {
    waiting: Mutex<VecDeque<(OwnedPartition, RDKafkaErrorCode)>>,
}

impl Errors {
    pub(super) fn take(&self) -> VecDeque<(OwnedPartition, RDKafkaErrorCode)> {
        std::mem::take(&mut lock(&self.waiting))
    }

    fn put(&self, partition: &OwnedPartition, code: RDKafkaErrorCode) {
        let mut waiting = lock(&self.waiting);
        if waiting.len() < ERRORS {
            waiting.push_back((partition.clone(), code));
        }
    }
}

/// One ownership of one partition. The queue is there while records are given.
pub(super) struct Period {
    pub(super) owned: OwnedPartition,
    pub(super) paused: AtomicBool,
    reading: Mutex<Reading>,
    wake: Arc<Notify>,
    errors: Arc<Errors>,
    bell: Arc<Bell>,
}

struct Reading {
    /// Inside the lock, so that no reader of an ended period takes what belongs to the next one:
    /// inside librdkafka the queue of both is the same.
    queue: Option<PartitionQueue>,
    next: NextOffset,
    /// Positions that say nothing: an earlier ownership's, and the one after the latest error.
    not_ours: Option<i64>,
    after_error: Option<i64>,
}

impl Reading {
    /// Up to where nothing comes any more, if that is news.
    fn passed(&mut self) -> Option<i64> {
        let position = self.queue.as_mut()?.position();
        if position == self.not_ours || position == self.after_error {
            return None;
        }
        position.filter(|position| self.next.skip_to(*position))
    }

    /// After an error librdkafka would go on one record too far.
    fn mend_position(&mut self, offset: i64, code: RDKafkaErrorCode) {
        self.after_error = self.after_error.max(Some(offset.saturating_add(1)));
        // What cannot be read is passed over.
        let passed = matches!(
            code,
            RDKafkaErrorCode::BadMessage
                | RDKafkaErrorCode::BadCompression
                | RDKafkaErrorCode::NotImplemented
        );
        let behind = offset >= 0 && self.next.0 <= offset;
        if let Some(queue) = self.queue.as_mut().filter(|_| behind && !passed) {
            queue.seek(offset);
        }
    }
}

/// How far a partition was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadTo {
    /// Records were added.
    Records,
    /// None is there, and none below this offset comes any more: markers of transactions, and
    /// records of aborted ones, were passed.
    End(i64),
}

/// The lowest offset that was not given yet. After any pause and resume, librdkafka's own at each
/// rebalance included, it may hand out again what it handed out before.
#[derive(Debug, Default)]
struct NextOffset(i64);

impl NextOffset {
    /// Whether the record of this offset is to be given, now that it has come.
    fn accepts(&mut self, offset: i64) -> bool {
        let new = offset >= self.0;
        if new {
            self.0 = offset.saturating_add(1);
        }
        new
    }

    /// Gives nothing below `offset` any more; whether that is news.
    fn skip_to(&mut self, offset: i64) -> bool {
        let new = offset > self.0;
        self.0 = self.0.max(offset);
        new
    }
}

impl Period {
    pub(super) fn open(
        consumer: &Arc<SharedConsumer<GroupContext>>,
        owned: OwnedPartition,
        errors: &Arc<Errors>,
        bell: &Arc<Bell>,
    ) -> Option<Arc<Self>> {
        let wake = Arc::new(Notify::new());
        let mut queue =
            PartitionQueue::open(consumer, &owned.topic, owned.partition, Arc::clone(&wake))?;
        let not_ours = queue.position();
        Some(Arc::new(Period {
            owned,
            paused: AtomicBool::new(false),
            reading: Mutex::new(Reading {
                queue: Some(queue),
                next: NextOffset::default(),
                not_ours,
                after_error: None,
            }),
            wake,
            errors: Arc::clone(errors),
            bell: Arc::clone(bell),
        }))
    }

    /// No reader gets anything from here on.
    pub(super) fn end(&self) {
        drop(lock(&self.reading).queue.take());
        // Those that wait now, and the one that is about to.
        self.wake.notify_waiters();
        self.wake.notify_one();
    }

    /// Adds what is there now; `None` when the period is over, `Some(None)` when nothing is there.
    fn take(&self, max: usize, records: &mut Vec<KafkaRecord>) -> Option<Option<ReadTo>> {
        let max = max.clamp(1, LARGEST_BATCH);
        let before = records.len();
        let mut reading = lock(&self.reading);
        let mut failed = None;
        // Stale entries are skipped without a place in the batch, so an empty one with a full
        // count is all that must be asked again.
        let read = loop {
            let Reading { queue, next, .. } = &mut *reading;
            let taken = queue.as_ref()?.take(max, |item| match item {
                Ok(message) => {
                    if next.accepts(message.offset()) {
                        records.push(KafkaRecord(message));
                    }
                }
                Err((code, offset)) => failed = Some((code, offset)),
            });
            if let Some((code, offset)) = failed.take() {
                reading.mend_position(offset, code);
                self.errors.put(&self.owned, code);
                self.bell.ring();
            }
            if records.len() > before {
                break Some(ReadTo::Records);
            }
            if taken < max {
                break reading.passed().map(ReadTo::End);
            }
        };
        Some(read)
    }
}

/// Gives the records of one partition, in order, as long as it is ours.
///
/// Dropping it loses nothing: [`GroupHandle::reader`](super::GroupHandle::reader) gives another.
/// Two at once share the records between them.
pub struct PartitionReader {
    period: Arc<Period>,
    waiting: Option<Pin<Box<OwnedNotified>>>,
}

impl PartitionReader {
    pub(super) fn new(period: Arc<Period>) -> Self {
        PartitionReader {
            period,
            waiting: None,
        }
    }

    /// Which partition, and in which ownership.
    pub fn partition(&self) -> &OwnedPartition {
        &self.period.owned
    }

    /// The next records, at least one and at most `max` (and 10,000): what librdkafka has ready,
    /// never waiting for more. Offsets rise strictly. `None` when the ownership ends, from the
    /// moment the partition is to be given back.
    ///
    /// A batch is not limited in bytes: it holds what was fetched ahead at the most (see
    /// [`group_settings`](super::group_settings)). Dropping the future loses nothing.
    pub async fn next_batch(&mut self, max: usize) -> Option<Vec<KafkaRecord>> {
        let mut records = Vec::new();
        loop {
            if self.period.take(max, &mut records)? == Some(ReadTo::Records) {
                return Some(records);
            }
            self.period.wake.notified().await;
        }
    }

    /// [`next_batch`](Self::next_batch) for who polls: adds the next records to `into`, or tells
    /// that offsets without a record were passed, each once. `None` when the ownership ends.
    pub fn poll_take(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        into: &mut Vec<KafkaRecord>,
    ) -> Poll<Option<ReadTo>> {
        loop {
            match self.period.take(max, into) {
                None => return Poll::Ready(None),
                Some(Some(read)) => return Poll::Ready(Some(read)),
                Some(None) => {}
            }
            // What comes from here on leaves a permit, or wakes whoever waits already.
            let wake = &self.period.wake;
            let waiting = self
                .waiting
                .get_or_insert_with(|| Box::pin(Arc::clone(wake).notified_owned()));
            if waiting.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            self.waiting = None;
        }
    }
}

impl fmt::Debug for PartitionReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PartitionReader")
            .field(&self.period.owned)
            .finish()
    }
}

/// A topic and the number of a partition.
pub(super) type Place = (Arc<str>, i32);

/// The ownerships of now.
#[derive(Default)]
pub(super) struct Table {
    periods: Mutex<HashMap<Place, Arc<Period>>>,
}

impl Table {
    pub(super) fn insert(&self, period: Arc<Period>) -> Option<Arc<Period>> {
        let key = (Arc::clone(&period.owned.topic), period.owned.partition);
        lock(&self.periods).insert(key, period)
    }

    pub(super) fn find(&self, topic: &Arc<str>, partition: i32) -> Option<Arc<Period>> {
        lock(&self.periods)
            .get(&(Arc::clone(topic), partition))
            .cloned()
    }

    /// The period of exactly this ownership, if it is the present one.
    pub(super) fn current(&self, owned: &OwnedPartition) -> Option<Arc<Period>> {
        self.find(&owned.topic, owned.partition)
            .filter(|period| period.owned.ownership == owned.ownership)
    }

    pub(super) fn remove(&self, topic: &Arc<str>, partition: i32) -> Option<Arc<Period>> {
        lock(&self.periods).remove(&(Arc::clone(topic), partition))
    }

    pub(super) fn all(&self) -> Vec<Arc<Period>> {
        lock(&self.periods).values().cloned().collect()
    }
}

impl Period {
    pub(super) fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Acquire)
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_given_before_are_not_given_again_and_gaps_are_no_matter() {
        let mut next = NextOffset::default();
        let given: Vec<i64> = [3, 4, 7, 4, 3, 7, 8, 2, 12, i64::MAX]
            .into_iter()
            .filter(|offset| next.accepts(*offset))
            .collect();
        assert_eq!(given, [3, 4, 7, 8, 12, i64::MAX]);
    }

    #[test]
    fn what_was_passed_is_news_once_and_only_forwards() {
        let mut next = NextOffset::default();
        assert!(next.accepts(3));
        let news: Vec<i64> = [4, 3, 6, 6, 5, 9]
            .into_iter()
            .filter(|offset| next.skip_to(*offset))
            .collect();
        assert_eq!(news, [6, 9]);
        assert!(!next.accepts(8));
        assert!(next.accepts(9));
    }
}
