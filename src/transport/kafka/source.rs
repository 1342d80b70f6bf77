//! The consumer: a thread that polls, and records that own their consumer.

use super::errors;
use super::ffi::{OwnedMessage, SharedConsumer};
use super::properties::client_config;
use super::pump::{self, Pump};
use crate::error::{Error, Result};
use crate::headers::HeaderView;
use crate::record::{Record, Timestamp};
use crate::transport::Settings;
use rdkafka::client::ClientContext;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};

/// How long one poll waits; also how late the thread sees that it is to stop.
const POLL: Duration = Duration::from_millis(50);

/// How many polled records wait to be received. librdkafka prefetches on its own; few here keep
/// short what a rebalance leaves behind.
const READY: usize = 64;

/// How long leaving the group may take before the thread gives up.
const LEAVE: Duration = Duration::from_secs(30);

/// What librdkafka calls back. Errors come with polls, so the log gets no second copy of them.
pub(super) struct SourceContext;

impl ClientContext for SourceContext {
    fn error(&self, _: KafkaError, _: &str) {}
}

impl ConsumerContext for SourceContext {}

/// A record as librdkafka holds it: reading it copies nothing. It can outlive its source, but keep
/// few: each holds a part of librdkafka's fetch buffers.
pub struct KafkaRecord(pub(super) OwnedMessage);

impl KafkaRecord {
    /// The record.
    pub fn record(&self) -> Record<'_> {
        Record {
            topic: self.0.topic(),
            partition: self.0.partition(),
            offset: self.0.offset(),
            timestamp: timestamp(self.0.timestamp()),
            key: self.0.key(),
            value: self.0.payload(),
            headers: HeaderView::new(&self.0),
        }
    }

    /// Whether librdkafka could parse the headers. If not (damaged, or more than 100,000), the
    /// record shows none, and a copy made from it is not what was consumed.
    pub fn has_readable_headers(&self) -> bool {
        self.0.has_readable_headers()
    }
}

fn timestamp(native: rdkafka::Timestamp) -> Timestamp {
    use rdkafka::Timestamp as Native;
    match native {
        Native::NotAvailable => Timestamp::NotAvailable,
        Native::CreateTime(millis) => Timestamp::CreateTime(millis),
        Native::LogAppendTime(millis) => Timestamp::LogAppendTime(millis),
    }
}

impl fmt::Debug for KafkaRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.record().fmt(f)
    }
}

/// A member of a consumer group.
///
/// At least once: an offset moves only by [`store`](Self::store) (librdkafka's own storing when a
/// record is handed out is off, whatever the settings say) and is committed by
/// [`commit`](Self::commit), or in the background and at the end with `enable.auto.commit=true`.
/// Storing offset n means that everything before it is done as well: the caller keeps the order.
///
/// Without settings of their own: `auto.offset.reset=earliest`, `allow.auto.create.topics=false`,
/// `reconnect.backoff.max.ms=1000` (the Java client's). A record that is worked on for longer than
/// `max.poll.interval.ms` while more wait may be given to another member and delivered again.
///
/// Dropping it leaves the group in the background; [`close`](Self::close) waits for that.
pub struct KafkaSource {
    consumer: Arc<SharedConsumer<SourceContext>>,
    ready: mpsc::Receiver<Result<KafkaRecord>>,
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
    left: oneshot::Receiver<()>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    warning: Mutex<Option<Error>>,
}

impl KafkaSource {
    /// Joins the group `group.id` and subscribes to `topics`.
    ///
    /// # Errors
    /// Kind Config when settings are missing or refused (all of them are named).
    pub fn start<T: AsRef<str>>(settings: &Settings, topics: &[T]) -> Result<Self> {
        let mut settings = settings.clone();
        settings
            .set("enable.auto.offset.store", "false")
            .set_default("auto.offset.reset", "earliest")
            .set_default("allow.auto.create.topics", "false")
            .set_default("reconnect.backoff.max.ms", "1000");
        if settings.get("group.id").is_none_or(str::is_empty) {
            return Err(Error::config("group.id is missing"));
        }
        let started = |cause| errors::from_kafka("could not start a consumer", &cause);
        let consumer: BaseConsumer<SourceContext> = client_config(&settings)?
            .create_with_context(SourceContext)
            .map_err(started)?;
        let consumer = SharedConsumer::new(consumer);
        let topics: Vec<&str> = topics.iter().map(AsRef::as_ref).collect();
        with(&consumer)?.subscribe(&topics).map_err(|cause| {
            errors::from_kafka(
                &format!("could not subscribe to {}", topics.join(", ")),
                &cause,
            )
        })?;
        let shared = Arc::new(Shared::default());
        let (give, ready) = mpsc::channel(READY);
        let (leaving, left) = oneshot::channel();
        let mut polling = Polling {
            consumer: Arc::clone(&consumer),
            give,
            shared: Arc::clone(&shared),
        };
        let thread = thread::Builder::new()
            .name("kafka-source".to_owned())
            .spawn(move || {
                pump::run(&mut polling);
                polling.leave();
                let _ = leaving.send(());
            })
            .map_err(|cause| {
                Error::unavailable("could not start the polling thread").with_source(cause)
            })?;
        Ok(KafkaSource {
            consumer,
            ready,
            shared,
            thread,
            left,
        })
    }

    /// The next record. Dropping the future loses nothing.
    ///
    /// Errors that pass (no connection, all brokers down, a poll interval exceeded) are not
    /// answered but kept for [`take_warning`](Self::take_warning).
    ///
    /// # Errors
    /// One that does not pass; the source is over then.
    pub async fn recv(&mut self) -> Result<KafkaRecord> {
        match self.ready.recv().await {
            Some(item) => item,
            None => Err(Error::new(
                crate::status::ErrorKind::Other,
                crate::status::Status::Permanent,
                "the source is over",
            )),
        }
    }

    /// The latest error that was expected to pass, once.
    pub fn take_warning(&self) -> Option<Error> {
        let mut warning = self
            .shared
            .warning
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        warning.take()
    }

    /// Notes that `record` and all before it of its partition are done; the next commit says so.
    /// False when the partition is no longer ours: its new owner gets the record again.
    ///
    /// # Errors
    /// When librdkafka refuses.
    pub fn store(&self, record: &KafkaRecord) -> Result<bool> {
        match record.0.store_offset() {
            Ok(()) => Ok(true),
            Err(RDKafkaErrorCode::State | RDKafkaErrorCode::UnknownPartition) => Ok(false),
            Err(code) => Err(errors::error("could not store an offset", code)),
        }
    }

    /// Commits what was stored; there when the broker has confirmed. Nothing stored is fine.
    ///
    /// # Errors
    /// When the group's coordinator refuses or cannot be reached (for `session.timeout.ms`).
    pub async fn commit(&self) -> Result<()> {
        let consumer = Arc::clone(&self.consumer);
        super::blocking(
            move || match with(&consumer)?.commit_consumer_state(CommitMode::Sync) {
                Ok(()) => Ok(()),
                Err(cause) => match cause.rdkafka_error_code() {
                    Some(RDKafkaErrorCode::NoOffset) => Ok(()),
                    _ => Err(errors::from_kafka("could not commit", &cause)),
                },
            },
        )
        .await
    }

    /// Leaves the group and waits for it: the next member need not wait for a timeout. Records
    /// received but not stored come again; a record may be kept, its bytes stay.
    pub async fn close(mut self) {
        self.stop();
        // Ends with an error if the thread is gone, which is as good.
        let _ = (&mut self.left).await;
    }

    fn stop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.ready.close();
        while self.ready.try_recv().is_ok() {}
        self.thread.thread().unpark();
    }
}

impl Drop for KafkaSource {
    fn drop(&mut self) {
        self.stop();
    }
}

impl fmt::Debug for KafkaSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KafkaSource")
    }
}

/// The consumer inside; it is there as long as anybody holds the `Arc`.
fn with(consumer: &SharedConsumer<SourceContext>) -> Result<&BaseConsumer<SourceContext>> {
    consumer
        .get()
        .ok_or_else(|| Error::unavailable("the consumer is closed"))
}

/// What the polling thread has.
struct Polling {
    consumer: Arc<SharedConsumer<SourceContext>>,
    give: mpsc::Sender<Result<KafkaRecord>>,
    shared: Arc<Shared>,
}

impl Polling {
    /// Leaves the group, serving the events of that. The consumer goes with its last holder.
    fn leave(self) {
        drop(self.give);
        let deadline = Instant::now() + LEAVE;
        if let Some(consumer) = self.consumer.get() {
            // Refused after a fatal error; destroying cleans up then.
            let closing = consumer.close_queue().is_ok();
            while closing && !consumer.closed() && Instant::now() < deadline {
                drop(consumer.poll(POLL));
            }
        }
    }
}

impl Pump for Polling {
    type Record = KafkaRecord;

    fn poll(&mut self) -> Option<Result<KafkaRecord, KafkaError>> {
        let polled = self.consumer.poll(POLL)?;
        Some(polled.map(KafkaRecord))
    }

    fn give(&mut self, item: Result<KafkaRecord>) -> bool {
        self.give.blocking_send(item).is_ok()
    }

    fn warn(&mut self, warning: Error) {
        *self
            .shared
            .warning
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(warning);
    }

    fn wait(&mut self, time: Duration) {
        // A wake-up that stopping did not cause only shortens one wait.
        thread::park_timeout(time);
    }

    fn stopped(&self) -> bool {
        self.shared.stop.load(Ordering::Acquire)
    }
}
