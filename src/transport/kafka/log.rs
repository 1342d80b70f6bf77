//! One partition as a log that is read to its end, outside of any group.

use super::errors;
use super::ffi::SharedConsumer;
use super::properties::client_config;
use super::pump;
use super::source::{KafkaRecord, SourceContext};
use crate::error::{Error, Result};
use crate::transport::Settings;
use rdkafka::TopicPartitionList;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::topic_partition_list::Offset;
use std::fmt;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tokio::sync::mpsc;

/// How long the offsets of both ends may take.
const WATERMARKS: Duration = Duration::from_secs(10);

/// How long one poll waits; also how late the thread sees that nobody reads any more.
const POLL: Duration = Duration::from_millis(50);

/// The most records of one batch.
const BATCH: usize = 500;

/// How many batches wait to be taken.
const READY: usize = 4;

/// A partition and the offsets that it had when it was opened.
pub struct PartitionLog {
    consumer: Arc<SharedConsumer<SourceContext>>,
    topic: String,
    partition: i32,
    low: i64,
    high: i64,
}

impl PartitionLog {
    /// Looks up the first offset of the partition and the one after its last. Records of open and
    /// aborted transactions count, unless `isolation.level` says otherwise.
    ///
    /// # Errors
    /// Kind Config when settings are refused; Temporary when no broker answers within 10 s or there
    /// is no such partition.
    pub async fn open(settings: &Settings, topic: &str, partition: i32) -> Result<Self> {
        let mut settings = settings.clone();
        settings
            .set("enable.auto.commit", "false")
            .set("enable.partition.eof", "true")
            .set("auto.offset.reset", "error")
            // The end is only known when a fetch has found nothing more.
            .set("fetch.wait.max.ms", "10")
            .set_default("allow.auto.create.topics", "false")
            .set_default("reconnect.backoff.max.ms", "1000");
        // It joins no group, so what is said about one is not checked either.
        for name in ["group.instance.id", "group.protocol"] {
            settings.remove(name);
        }
        settings.set_default("group.id", "kafka-chain-log");
        let config = client_config(&settings)?;
        let topic = topic.to_owned();
        super::blocking(move || {
            let doing = format!("could not open {topic} [{partition}]");
            let failed = |cause: KafkaError| errors::from_kafka(&doing, &cause);
            let consumer: BaseConsumer<SourceContext> =
                config.create_with_context(SourceContext).map_err(failed)?;
            let (low, high) = consumer
                .fetch_watermarks(&topic, partition, WATERMARKS)
                .map_err(failed)?;
            Ok(PartitionLog {
                consumer: SharedConsumer::new(consumer),
                topic,
                partition,
                low,
                high,
            })
        })
        .await
    }

    /// The first offset that was there.
    pub fn low(&self) -> i64 {
        self.low
    }

    /// The offset after the last that was there.
    pub fn high(&self) -> i64 {
        self.high
    }

    /// Reads from offset `from` to the end, which is that of [`high`](Self::high) or a later one.
    ///
    /// # Errors
    /// When librdkafka refuses.
    pub fn read(self, from: i64) -> Result<LogReader> {
        let PartitionLog {
            consumer,
            topic,
            partition,
            high,
            ..
        } = self;
        let doing = format!("could not read {topic} [{partition}]");
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(&topic, partition, Offset::Offset(from))
            .and_then(|()| match consumer.get() {
                Some(consumer) => consumer.assign(&list),
                None => Ok(()),
            })
            .map_err(|cause| errors::from_kafka(&doing, &cause))?;
        let (give, batches) = mpsc::channel(READY);
        thread::Builder::new()
            .name("kafka-log".to_owned())
            .spawn(move || pull(&consumer, &doing, &give))
            .map_err(|cause| Error::unavailable("could not start a thread").with_source(cause))?;
        Ok(LogReader {
            batches,
            end: from.max(high),
        })
    }
}

impl fmt::Debug for PartitionLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (low, high) = (self.low, self.high);
        write!(f, "{}-{} {low}..{high}", self.topic, self.partition)
    }
}

/// Reads a [`PartitionLog`]. Dropping it ends the reading.
pub struct LogReader {
    batches: mpsc::Receiver<Result<Vec<KafkaRecord>>>,
    end: i64,
}

impl LogReader {
    /// The next records, at least one; `None` when the end was reached. Errors that pass are waited
    /// out.
    ///
    /// # Errors
    /// One that does not pass, or an offset that is no longer there; the reader is over then.
    pub async fn next_batch(&mut self) -> Option<Result<Vec<KafkaRecord>>> {
        let batch = self.batches.recv().await?;
        if let Ok(records) = &batch
            && let Some(last) = records.last()
        {
            self.end = self.end.max(last.record().offset.saturating_add(1));
        }
        Some(batch)
    }

    /// Once the end was reached: the offset after the last record.
    pub fn end(&self) -> i64 {
        self.end
    }
}

impl fmt::Debug for LogReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LogReader")
    }
}

fn pull(
    consumer: &Arc<SharedConsumer<SourceContext>>,
    doing: &str,
    give: &mpsc::Sender<Result<Vec<KafkaRecord>>>,
) {
    let mut records = Vec::new();
    while !give.is_closed() {
        let wait = match records.is_empty() {
            true => POLL,
            false => Duration::ZERO,
        };
        let polled = consumer.poll(wait);
        let more = matches!(polled, Some(Ok(_)));
        let ended = matches!(polled, Some(Err(KafkaError::PartitionEOF(_))));
        match polled {
            Some(Ok(message)) => records.push(KafkaRecord(message)),
            None | Some(Err(KafkaError::PartitionEOF(_))) => {}
            Some(Err(cause)) => {
                let error = errors::from_kafka(doing, &cause);
                let gone = cause.rdkafka_error_code()
                    == Some(rdkafka::error::RDKafkaErrorCode::AutoOffsetReset);
                if gone || pump::ends(&cause, &error) {
                    let _ = give.blocking_send(Err(error));
                    return;
                }
                thread::sleep(POLL);
            }
        }
        if records.len() == BATCH || (!more && !records.is_empty()) {
            let batch = std::mem::take(&mut records);
            if give.blocking_send(Ok(batch)).is_err() {
                return;
            }
        }
        if ended {
            return;
        }
    }
}
