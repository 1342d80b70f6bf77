//! The producer: sends that wait for their acknowledgement and never block a runtime.

use super::errors;
use super::ffi;
use super::lookup;
use super::properties::client_config;
use crate::answer::BoxFuture;
use crate::error::{Error, Result};
use crate::record::OutgoingRecord;
use crate::transport::{Delivered, Partitions, Settings, Sink, WriteFailure};
use rdkafka::client::ClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Message};
use rdkafka::producer::{NoCustomPartitioner, Producer, ProducerContext, ThreadedProducer};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, Notify, oneshot};
use tokio::task::unconstrained;
use tokio::time::{Instant, timeout, timeout_at};

/// librdkafka's default of `delivery.timeout.ms`; also the limit of waiting for a place in the
/// queue where that setting is 0, which means none.
const DELIVERY: Duration = Duration::from_secs(300);

/// First and longest wait before a full queue is tried again though no report came.
const QUEUE_WAITS: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));

type Report = std::result::Result<Delivered, RDKafkaErrorCode>;

struct SinkContext {
    reported: Arc<Notify>,
}

impl ClientContext for SinkContext {
    // Errors of a record come with its report; those of a connection pass.
    fn error(&self, _: KafkaError, _: &str) {}
}

impl ProducerContext for SinkContext {
    type DeliveryOpaque = Box<oneshot::Sender<Report>>;

    fn delivery(&self, result: &DeliveryResult<'_>, opaque: Self::DeliveryOpaque) {
        let report = match result {
            Ok(message) => Ok(Delivered {
                partition: message.partition(),
                offset: message.offset(),
            }),
            Err((cause, _)) => Err(cause.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Fail)),
        };
        // Nobody may be waiting any more.
        let _ = opaque.send(report);
        self.reported.notify_one();
    }
}

/// A producer whose [`send`](Self::send) is there when the brokers have acknowledged.
///
/// Without settings of their own: `partitioner=murmur2_random` (the Java client's: librdkafka's
/// default puts keys elsewhere), `acks=all`, `enable.idempotence=true`,
/// `allow.auto.create.topics=false`, `reconnect.backoff.max.ms=1000` (the Java client's).
/// `acks=0` is refused, for nothing would be acknowledged. See
/// [`producer_settings`](crate::transport::producer_settings) for a producer beside a consumer.
///
/// Cloning is cheap and gives the same producer. The last clone's drop gives up what is still
/// queued, in the background; [`flush`](Self::flush) before.
#[derive(Clone)]
pub struct KafkaSink {
    inner: Arc<Inner>,
}

struct Inner {
    /// Always there but in drop.
    producer: Option<Arc<ThreadedProducer<SinkContext>>>,
    /// Held by the one send that waits for a place in the queue; the others come after it in turn.
    turn: Mutex<()>,
    reported: Arc<Notify>,
    limit: Duration,
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(producer) = self.producer.take() {
            super::drop_elsewhere(producer);
        }
    }
}

/// `settings` with our defaults for a producer.
pub(super) fn producer_defaults(settings: &Settings) -> Result<Settings> {
    let mut settings = settings.clone();
    settings
        .set_default("partitioner", "murmur2_random")
        .set_default("acks", "all")
        .set_default("enable.idempotence", "true")
        .set_default("allow.auto.create.topics", "false")
        .set_default("reconnect.backoff.max.ms", "1000");
    match settings.get("acks") {
        Some("0") => Err(Error::config(
            "acks=0: a send without acknowledgement is not supported",
        )),
        _ => Ok(settings),
    }
}

impl KafkaSink {
    /// Starts a producer; connects when it is first used.
    ///
    /// # Errors
    /// Kind Config when settings are missing or refused (all of them are named).
    pub fn start(settings: &Settings) -> Result<Self> {
        let settings = producer_defaults(settings)?;
        let limit = match settings.get("delivery.timeout.ms").map(str::parse) {
            Some(Ok(millis)) if millis > 0 => Duration::from_millis(millis),
            _ => DELIVERY,
        };
        let reported = Arc::new(Notify::new());
        let context = SinkContext {
            reported: Arc::clone(&reported),
        };
        let producer: ThreadedProducer<SinkContext, NoCustomPartitioner> =
            client_config(&settings)?
                .create_with_context(context)
                .map_err(|cause| errors::from_kafka("could not start a producer", &cause))?;
        Ok(KafkaSink {
            inner: Arc::new(Inner {
                producer: Some(Arc::new(producer)),
                turn: Mutex::new(()),
                reported,
                limit,
            }),
        })
    }

    /// Writes `record`; there when all in-sync brokers have it.
    ///
    /// Sends that are polled one after the other are queued in that order. A full queue
    /// (`queue.buffering.max.messages`, `.kbytes`) is waited for without blocking the runtime.
    /// Dropping the future before the record is queued takes it back; later it is written all the
    /// same. Header names may hold any bytes, but librdkafka shows a consumer only what is before
    /// a NUL.
    ///
    /// # Errors
    /// Naming the topic, never the payload: kind Timeout when there is no acknowledgement within
    /// `delivery.timeout.ms` (which runs once more while the queue is full), Temporary too for an
    /// unknown topic, Permanent for a record that is too large or not valid.
    pub async fn send(&self, mut record: OutgoingRecord) -> Result<Delivered> {
        let report = self.enqueue(&record).await?;
        // librdkafka has its copy.
        let topic = std::mem::take(&mut record.topic);
        drop(record);
        match report.await {
            Ok(Ok(delivered)) => Ok(delivered),
            Ok(Err(code)) => Err(self.failed(&topic, code)),
            Err(_) => Err(Error::unavailable(format!(
                "could not write to topic {topic}: the producer was closed"
            ))),
        }
    }

    async fn enqueue(&self, record: &OutgoingRecord) -> Result<oneshot::Receiver<Report>> {
        let deadline = Instant::now() + self.inner.limit;
        let full = || self.failed(&record.topic, RDKafkaErrorCode::QueueFull);
        // Unconstrained: a task that has used up its budget would have to wait though it is its turn.
        let turn = unconstrained(self.inner.turn.lock());
        let Ok(_turn) = timeout_at(deadline, turn).await else {
            return Err(full());
        };
        let producer = self.producer()?;
        let (first, longest) = QUEUE_WAITS;
        let mut wait = first;
        loop {
            let (opaque, report) = oneshot::channel();
            match ffi::produce(&**producer, record, Box::new(opaque)) {
                Ok(()) => return Ok(report),
                Err(RDKafkaErrorCode::QueueFull) if Instant::now() < deadline => {}
                Err(code) => return Err(self.failed(&record.topic, code)),
            }
            // A report wakes just before its place is free, hence the second, short wait.
            match timeout(wait, self.inner.reported.notified()).await {
                Ok(()) => wait = first,
                Err(_) => wait = (wait * 2).min(longest),
            }
        }
    }

    /// Waits until everything queued so far is acknowledged or given up.
    ///
    /// # Errors
    /// Kind Timeout when that takes longer than `delivery.timeout.ms` and a second.
    pub async fn flush(&self) -> Result<()> {
        let limit = self.inner.limit + Duration::from_secs(1);
        self.flush_within(limit).await
    }

    /// [`flush`](Self::flush) with another limit.
    ///
    /// # Errors
    /// Kind Timeout when it takes longer.
    pub async fn flush_within(&self, limit: Duration) -> Result<()> {
        let producer = Arc::clone(self.producer()?);
        super::blocking(move || {
            producer
                .flush(limit)
                .map_err(|cause| errors::from_kafka("could not flush", &cause))
        })
        .await
    }

    /// How many partitions `topic` has; `None` when it does not exist.
    ///
    /// # Errors
    /// When no broker answers within 10 s, or the right to see the topic is missing.
    pub async fn topic_partitions(&self, topic: &str) -> Result<Option<i32>> {
        let producer = Arc::clone(self.producer()?);
        let topic = topic.to_owned();
        super::blocking(move || {
            let refused = |doing: &str, code| errors::of_write(doing, &topic, code);
            lookup::partitions(producer.client(), &topic, refused)
        })
        .await
    }

    /// The error of a write; where librdkafka only says that it cannot go on, with its reason.
    fn failed(&self, topic: &str, code: RDKafkaErrorCode) -> Error {
        let doing = "could not write to";
        let reason = match (code, &self.inner.producer) {
            (RDKafkaErrorCode::Fatal, Some(producer)) => producer.client().fatal_error(),
            _ => None,
        };
        match reason {
            Some((reason, _)) => {
                errors::of_write(doing, topic, reason).with_source(WriteFailure::Fatal)
            }
            None => errors::of_write(doing, topic, code),
        }
    }

    fn producer(&self) -> Result<&Arc<ThreadedProducer<SinkContext>>> {
        let closed = || Error::unavailable("the producer is closed");
        self.inner.producer.as_ref().ok_or_else(closed)
    }
}

impl Sink for KafkaSink {
    fn send(&self, record: OutgoingRecord) -> BoxFuture<'_, Result<Delivered>> {
        Box::pin(KafkaSink::send(self, record))
    }
}

impl Partitions for KafkaSink {
    fn partitions<'a>(&'a self, topic: &'a str) -> BoxFuture<'a, Result<Option<i32>>> {
        Box::pin(self.topic_partitions(topic))
    }
}

impl fmt::Debug for KafkaSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KafkaSink")
    }
}
