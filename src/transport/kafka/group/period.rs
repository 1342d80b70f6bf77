//! One ownership of one partition, and who reads it.

use super::bell::Bell;
use super::context::GroupContext;
use super::news::News;
use super::next_offset::NextOffset;
use crate::transport::kafka::ffi::{PartitionQueue, SharedConsumer};
use crate::transport::kafka::source::KafkaRecord;
use rdkafka::error::RDKafkaErrorCode;
use std::collections::VecDeque;
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

/// One ownership of one partition. The queue is there while records are given.
pub(super) struct Period {
    pub(super) owned: OwnedPartition,
    pub(super) paused: AtomicBool,
    reading: Mutex<Reading>,
    wake: Arc<Notify>,
    news: Arc<News>,
    bell: Arc<Bell>,
}

struct Reading {
    /// Inside the lock, so that no reader of an ended period takes what belongs to the next one:
    /// inside librdkafka the queue of both is the same.
    queue: Option<PartitionQueue>,
    next: NextOffset,
    /// Taken, and to be given before anything else.
    aside: VecDeque<KafkaRecord>,
    /// Whether the polling thread is to say first what that is, from a record on whose offset was
    /// given before.
    in_doubt: bool,
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

    fn take_aside(&mut self, max: usize, records: &mut Vec<KafkaRecord>) {
        for _ in 0..max {
            let Some(record) = self.aside.pop_front() else {
                return;
            };
            if !self.next.accepts(record.0.offset()) {
                self.aside.push_front(record);
                self.in_doubt = true;
                return;
            }
            records.push(record);
        }
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
        let next = match self.aside.back() {
            Some(last) => last.0.offset().saturating_add(1),
            None => self.next.get(),
        };
        let behind = offset >= 0 && next <= offset;
        if let Some(queue) = self.queue.as_mut().filter(|_| behind && !passed) {
            queue.seek(offset);
        }
    }
}

/// What is left of an ownership whose log is another: records of the new one.
pub(super) struct Remains {
    pub(super) records: VecDeque<KafkaRecord>,
    lost: Option<i64>,
}

impl Remains {
    pub(super) fn first(&self) -> Option<i64> {
        self.records.front().map(|record| record.0.offset())
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

impl Period {
    pub(super) fn open(
        consumer: &Arc<SharedConsumer<GroupContext>>,
        owned: OwnedPartition,
        news: &Arc<News>,
        bell: &Arc<Bell>,
        remains: Option<Remains>,
    ) -> Option<Arc<Self>> {
        let wake = Arc::new(Notify::new());
        let mut queue =
            PartitionQueue::open(consumer, &owned.topic, owned.partition, Arc::clone(&wake))?;
        let not_ours = queue.position();
        let (aside, lost) = match remains {
            Some(Remains { records, lost }) => (records, lost),
            None => (VecDeque::new(), None),
        };
        Some(Arc::new(Period {
            owned,
            paused: AtomicBool::new(false),
            reading: Mutex::new(Reading {
                queue: Some(queue),
                next: NextOffset::new(lost),
                aside,
                in_doubt: false,
                not_ours,
                after_error: None,
            }),
            wake,
            news: Arc::clone(news),
            bell: Arc::clone(bell),
        }))
    }

    /// No reader gets anything from here on.
    pub(super) fn end(&self) {
        let reading = &mut *lock(&self.reading);
        drop(reading.queue.take());
        reading.aside.clear();
        reading.in_doubt = false;
        self.wake_all();
    }

    pub(super) fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Acquire)
    }

    fn wake_all(&self) {
        // Those that wait now, and the one that is about to.
        self.wake.notify_waiters();
        self.wake.notify_one();
    }

    /// Goes on at this offset, and not with what was taken or fetched.
    pub(super) fn go_back(&self, offset: i64) {
        let reading = &mut *lock(&self.reading);
        reading.aside.clear();
        reading.next = NextOffset::new(reading.next.lost());
        if let Some(queue) = &mut reading.queue {
            queue.seek(offset);
        }
    }

    #[cfg(test)]
    pub(super) fn seek(&self, offset: i64) {
        if let Some(queue) = &mut lock(&self.reading).queue {
            queue.seek(offset);
        }
    }

    /// The position was lost, which had been this, and another took its place.
    pub(super) fn lose_position(&self, position: i64) {
        lock(&self.reading).next.lose(position);
    }

    /// Says of records in doubt that they are of the same log, and come again; unless they are of
    /// another one: then this ownership is to end, with what remains of it.
    ///
    /// To be called when every loss of a position from before they were taken is told.
    pub(super) fn is_of_another_log(&self) -> bool {
        let reading = &mut *lock(&self.reading);
        if !reading.in_doubt {
            return false;
        }
        let first = reading.aside.front();
        let epoch = first.map_or(-1, |record| record.0.leader_epoch());
        if reading.next.is_another_log(epoch) {
            return true;
        }
        let mut next = reading.next.get();
        reading.aside.retain(|record| {
            let new = record.0.offset() >= next;
            next = next.max(record.0.offset().saturating_add(1));
            new
        });
        reading.in_doubt = false;
        self.wake_all();
        false
    }

    /// What is in doubt, for the ownership that follows.
    pub(super) fn remains(&self) -> Remains {
        let mut reading = lock(&self.reading);
        Remains {
            records: std::mem::take(&mut reading.aside),
            lost: reading.next.lost(),
        }
    }

    /// Adds what is there now; `None` when the period is over, `Some(None)` when nothing is there.
    fn take(&self, max: usize, records: &mut Vec<KafkaRecord>) -> Option<Option<ReadTo>> {
        let max = max.clamp(1, LARGEST_BATCH);
        let before = records.len();
        let reading = &mut *lock(&self.reading);
        reading.queue.as_ref()?;
        let mut passed = None;
        if !reading.in_doubt {
            match reading.aside.is_empty() {
                true => passed = self.take_queued(reading, max, records),
                false => reading.take_aside(max, records),
            }
            if reading.in_doubt {
                self.news.put_doubt(&self.owned);
                self.bell.ring();
            }
        }
        let Some(last) = records.get(before..).and_then(<[_]>::last) else {
            return Some(passed.map(ReadTo::End));
        };
        reading.next.was_of(last.0.leader_epoch());
        Some(Some(ReadTo::Records))
    }

    /// What the queue has; if that is nothing, up to where nothing comes any more.
    fn take_queued(
        &self,
        reading: &mut Reading,
        max: usize,
        records: &mut Vec<KafkaRecord>,
    ) -> Option<i64> {
        let before = records.len();
        // Errors have a place in the count, so a full one with no record must be asked again.
        loop {
            let Reading {
                queue, next, aside, ..
            } = &mut *reading;
            let mut failed = None;
            let taken = queue.as_ref()?.take(max, |item| match item {
                Ok(message) => match aside.is_empty() && next.accepts(message.offset()) {
                    true => records.push(KafkaRecord(message)),
                    false => aside.push_back(KafkaRecord(message)),
                },
                Err((code, offset)) => failed = Some((code, offset)),
            });
            reading.in_doubt = !reading.aside.is_empty();
            if let Some((code, offset)) = failed {
                reading.mend_position(offset, code);
                self.news.put_error(&self.owned, code);
                self.bell.ring();
            }
            if records.len() > before || reading.in_doubt {
                return None;
            }
            if taken < max {
                return reading.passed();
            }
        }
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

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
