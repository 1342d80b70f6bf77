//! The producer of a pipeline, whose clients can be replaced while it runs.

use super::client::{Start, kafka};
use super::fleet::{Fleet, Started};
use super::line::{Fleets, How, Line};
use super::settings::{alone, letter_producer_settings};
use crate::answer::BoxFuture;
use crate::error::{Error, Result};
use crate::pipeline::source::Written;
use crate::record::OutgoingRecord;
use crate::status::Status;
use crate::transport::{Delivered, Settings, Sink, WriteFailure};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// From how many topics on those are forgotten that nobody is writing to.
const TOPICS: usize = 1_000;

/// The producer of a pipeline: of its dead letters, and of what its handlers produce.
///
/// It differs from a [`KafkaSink`](crate::transport::kafka::KafkaSink) in two ways. After an error that
/// a client of librdkafka keeps to itself (a right that was missing, a topic that did not exist, a
/// fatal one) the next write to that topic goes through a new client, at most one a second. And
/// a record that is refused with its batch goes again, alone, so that no record fails by the fault
/// of a neighbour; it then stands behind those that were sent after it.
///
/// Cloning is cheap and gives the same producer.
#[derive(Clone)]
pub struct PipelineProducer {
    shared: Arc<Shared>,
}

struct Shared {
    fleets: Arc<Fleets>,
    lines: Mutex<HashMap<String, Arc<Line>>>,
}

impl PipelineProducer {
    /// Starts a producer with these settings and, where they say nothing, those of
    /// [`letter_producer_settings`]. It connects when it is first used.
    ///
    /// # Errors
    /// Kind Config when settings are missing or refused (all of them are named).
    pub fn start(settings: &Settings) -> Result<Self> {
        Self::with(kafka(), settings)
    }

    pub(super) fn with(start: Start, settings: &Settings) -> Result<Self> {
        let start = Arc::new(start);
        let batched = Fleet::new(Arc::clone(&start), letter_producer_settings(settings));
        batched.newer_than(0)?;
        let alone = Fleet::new(start, alone(settings));
        Ok(PipelineProducer {
            shared: Arc::new(Shared {
                fleets: Arc::new(Fleets { batched, alone }),
                lines: Mutex::default(),
            }),
        })
    }

    /// Writes `record`; there when it is acknowledged. Writes to a topic that are polled one after the
    /// other are queued in that order. The topic is looked up first, so that one that does not exist is
    /// known at once.
    ///
    /// # Errors
    /// Those of [`KafkaSink::send`](crate::transport::kafka::KafkaSink::send).
    pub fn send(&self, record: OutgoingRecord) -> BoxFuture<'static, Result<Delivered>> {
        let line = self.line(&record.topic);
        Box::pin(async move {
            let sent = match line.start(|_| record.clone()).await {
                Ok(sending) => sending.done().await,
                Err(error) => Err(error),
            };
            match sent {
                Err(error) if is_of_batch(&error) => line.send(How::Alone, record).await,
                sent => sent,
            }
        })
    }

    /// Writes all of them, those of a topic queued in their order by the first poll. Acknowledged when
    /// all are; Failed with the first that is refused for what it is; else with the first error Partly,
    /// if some are there, or Held.
    pub fn write_all(&self, records: Arc<[OutgoingRecord]>) -> BoxFuture<'static, Written> {
        if let [record] = &*records {
            let sending = self.send(record.clone());
            return Box::pin(async move {
                let sent = sending.await;
                sent.map_or_else(unwritten, |_| Written::Acknowledged)
            });
        }
        let producer = self.clone();
        Box::pin(async move {
            let (mut tasks, mut wrong) = (JoinSet::new(), BTreeMap::new());
            for (index, record) in records.iter().enumerate() {
                let mut sending = producer.send(record.clone());
                match poll_fn(|cx| Poll::Ready(sending.as_mut().poll(cx))).await {
                    Poll::Ready(sent) => wrong.extend(sent.err().map(|error| (index, error))),
                    Poll::Pending => drop(tasks.spawn(async move { (index, sending.await) })),
                }
            }
            let mut open: BTreeSet<usize> = BTreeSet::new();
            while let Some(sent) = tasks.join_next().await {
                match sent {
                    Ok((index, sent)) => wrong.extend(sent.err().map(|error| (index, error))),
                    // Never: a write does not panic, and nobody aborts it.
                    Err(_) => open.extend(0..records.len()),
                }
            }
            open.extend(wrong.keys());
            let refused = wrong.iter().find(|(_, error)| is_refused(error));
            let refused = refused.map(|(index, _)| *index);
            if let Some(error) = refused.and_then(|index| wrong.remove(&index)) {
                return unwritten(error);
            }
            let gone = || Error::unavailable("a write was given up");
            match wrong.pop_first().map(|(_, error)| error) {
                None if open.is_empty() => Written::Acknowledged,
                error if open.len() == records.len() => unwritten(error.unwrap_or_else(gone)),
                error => {
                    let left = open.iter().filter_map(|index| records.get(*index).cloned());
                    Written::Partly(left.collect(), error.unwrap_or_else(gone))
                }
            }
        })
    }

    /// How many partitions `topic` has; `None` when there is no such topic. What is known is believed
    /// for a minute, and no longer than until a write there fails.
    ///
    /// # Errors
    /// When no broker answers within 10 s and nothing was known, or a right is missing.
    pub fn partitions(&self, topic: &str) -> BoxFuture<'static, Result<Option<i32>>> {
        let line = self.line(topic);
        Box::pin(async move { line.partitions().await })
    }

    /// Waits until everything queued so far is acknowledged or given up.
    ///
    /// # Errors
    /// Kind Timeout when that takes longer than `limit`.
    pub async fn flush(&self, limit: Duration) -> Result<()> {
        let mut tasks = JoinSet::new();
        for started in self.clients() {
            tasks.spawn(started.client.flush(limit));
        }
        let all = async {
            let mut result = Ok(());
            while let Some(flushed) = tasks.join_next().await {
                let gone = |_| Err(Error::unavailable("a flush was given up"));
                result = result.and(flushed.unwrap_or_else(gone));
            }
            result
        };
        let late = |_| {
            Err(Error::timeout(format!(
                "what was queued is not acknowledged within {limit:?}"
            )))
        };
        timeout(limit, all).await.unwrap_or_else(late)
    }

    /// [`flush`](Self::flush)es, and writes nothing any more.
    ///
    /// # Errors
    /// Those of the flush; it is closed all the same.
    pub async fn close(&self, limit: Duration) -> Result<()> {
        let flushed = self.flush(limit).await;
        self.shared.fleets.batched.close();
        self.shared.fleets.alone.close();
        for (_, line) in self.lines().drain() {
            line.close();
        }
        flushed
    }

    /// The way to `topic`.
    pub(super) fn line(&self, topic: &str) -> Arc<Line> {
        let mut lines = self.lines();
        if let Some(line) = lines.get(topic) {
            return Arc::clone(line);
        }
        if lines.len() >= TOPICS {
            lines.retain(|_, line| Arc::strong_count(line) > 1);
        }
        let line = Arc::new(Line::new(topic, Arc::clone(&self.shared.fleets)));
        lines.insert(topic.to_owned(), Arc::clone(&line));
        line
    }

    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        self.lines().len()
    }

    /// Every client in use, once.
    fn clients(&self) -> Vec<Started> {
        let Fleets { batched, alone } = &*self.shared.fleets;
        let newest = [batched.newest(), alone.newest()].into_iter().flatten();
        let mut clients: Vec<Started> = newest.collect();
        for line in self.lines().values() {
            for started in line.clients() {
                let same = |other: &Started| Arc::ptr_eq(&other.client, &started.client);
                if !clients.iter().any(same) {
                    clients.push(started);
                }
            }
        }
        clients
    }

    fn lines(&self) -> MutexGuard<'_, HashMap<String, Arc<Line>>> {
        let lines = self.shared.lines.lock();
        lines.unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a record that was written alone is refused for what it is, for ever.
pub(in crate::pipeline) fn is_refused(error: &Error) -> bool {
    matches!(
        WriteFailure::of(error),
        Some(
            WriteFailure::TooLarge
                | WriteFailure::InvalidTimestamp
                | WriteFailure::UnknownPartition
        )
    )
}

fn unwritten(error: Error) -> Written {
    match is_refused(&error) {
        true => Written::Failed(error.with_status(Status::Permanent)),
        false => Written::Held(error),
    }
}

/// Whether a record may have failed by the fault of another one of its batch.
pub(super) fn is_of_batch(error: &Error) -> bool {
    matches!(
        WriteFailure::of(error),
        Some(WriteFailure::TooLarge | WriteFailure::BatchRefused | WriteFailure::InvalidTimestamp)
    )
}

impl Sink for PipelineProducer {
    fn send(&self, record: OutgoingRecord) -> BoxFuture<'_, Result<Delivered>> {
        PipelineProducer::send(self, record)
    }
}

impl fmt::Debug for PipelineProducer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PipelineProducer")
    }
}
