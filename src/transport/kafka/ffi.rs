//! What rdkafka's safe API cannot do, through rdkafka-sys: header names that are not UTF-8, both
//! ways; messages that own their consumer, one by one or in batches; commits whose answer is not
//! waited for; the table of properties; a mock cluster whose groups form at once. The only unsafe code of the crate.
#![allow(unsafe_code)]

mod message;
mod queue;

pub(super) use message::OwnedMessage;
pub(super) use queue::{PartitionQueue, commit};

use crate::headers::{HeaderRef, HeaderSource, Headers};
use crate::record::OutgoingRecord;
use rdkafka::ClientConfig;
use rdkafka::client::Client;
use rdkafka::consumer::{BaseConsumer, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{DefaultProducerContext, Producer, ProducerContext};
use rdkafka::util::IntoOpaque;
use rdkafka_sys as sys;
use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr::{NonNull, null, null_mut};
use std::sync::Arc;
use std::time::Duration;

/// Lets the partitioner choose; a macro in C, so it has no binding.
const PARTITION_UNASSIGNED: i32 = -1;

/// A consumer whose messages own it. Dropped on a thread of its own, for that blocks.
pub(super) struct SharedConsumer<C: ConsumerContext + 'static>(Option<BaseConsumer<C>>);

impl<C: ConsumerContext + 'static> SharedConsumer<C> {
    pub(super) fn new(consumer: BaseConsumer<C>) -> Arc<Self> {
        Arc::new(SharedConsumer(Some(consumer)))
    }

    pub(super) fn get(&self) -> Option<&BaseConsumer<C>> {
        self.0.as_ref()
    }

    /// Waits at most `timeout` for a message or an error; serves the consumer's events meanwhile.
    pub(super) fn poll(
        self: &Arc<Self>,
        timeout: Duration,
    ) -> Option<Result<OwnedMessage, KafkaError>> {
        let polled = self.get()?.poll(timeout)?;
        Some(polled.map(|message| {
            // SAFETY: the message came from this consumer, and lives no longer than its borrow.
            unsafe { OwnedMessage::polled(message, Arc::clone(self)) }
        }))
    }
}

impl<C: ConsumerContext + 'static> Drop for SharedConsumer<C> {
    fn drop(&mut self) {
        if let Some(consumer) = self.0.take() {
            super::drop_elsewhere(consumer);
        }
    }
}

/// Headers that librdkafka holds; whoever has one guarantees that they are alive and not changed.
struct HeadersPtr(NonNull<sys::rd_kafka_headers_t>);

// SAFETY: the pointer is only read through (`len`, `get`), and librdkafka's reads of a header list
// change nothing.
unsafe impl Send for HeadersPtr {}
// SAFETY: as above.
unsafe impl Sync for HeadersPtr {}

impl HeadersPtr {
    fn len(&self) -> usize {
        // SAFETY: alive, by the type's promise.
        unsafe { sys::rd_kafka_header_cnt(self.0.as_ptr()) }
    }

    /// librdkafka gives the name as a C string, so one with a NUL byte in it ends there.
    fn get(&self, index: usize) -> Option<HeaderRef<'_>> {
        // librdkafka casts the index to int unchecked.
        if index >= self.len() {
            return None;
        }
        let (mut name, mut value, mut size) = (null(), null(), 0);
        // SAFETY: alive, by the type's promise; the three outs are valid for the call.
        let code = unsafe {
            sys::rd_kafka_header_get_all(self.0.as_ptr(), index, &mut name, &mut value, &mut size)
        };
        if RDKafkaErrorCode::from(code) != RDKafkaErrorCode::NoError || name.is_null() {
            return None;
        }
        // SAFETY: librdkafka ends each name with NUL, and it lives as long as the list.
        let name = unsafe { CStr::from_ptr(name) }.to_bytes();
        let value = (!value.is_null()).then(|| {
            // SAFETY: `size` bytes at `value` are the header's, alive as long as the list.
            unsafe { std::slice::from_raw_parts(value.cast::<u8>(), size) }
        });
        Some((name, value))
    }
}

/// Headers made for sending, owned until a produce call takes them.
struct NewHeaders(HeadersPtr);

impl NewHeaders {
    fn of(headers: &Headers) -> Option<Self> {
        // SAFETY: makes an empty list that we own.
        let list = unsafe { sys::rd_kafka_headers_new(headers.len()) };
        let list = NewHeaders(HeadersPtr(NonNull::new(list)?));
        for (name, value) in headers.iter() {
            let (value, size) = value.map_or((null(), 0), |v| (v.as_ptr(), v.len()));
            // SAFETY: name and value are valid for their lengths, which are given (a slice is
            // never longer than isize::MAX); librdkafka copies both.
            unsafe {
                sys::rd_kafka_header_add(
                    list.0.0.as_ptr(),
                    name.as_ptr().cast::<c_char>(),
                    name.len() as _,
                    value.cast::<c_void>(),
                    size as _,
                );
            }
        }
        Some(list)
    }
}

impl Drop for NewHeaders {
    fn drop(&mut self) {
        // SAFETY: ours, and nobody else's: `produce` forgets a list that it gave away.
        unsafe { sys::rd_kafka_headers_destroy(self.0.0.as_ptr()) }
    }
}

/// Puts `record` into the queue of `producer`, copied; never waits. The delivery report comes to
/// the producer's context with `opaque`.
///
/// # Errors
/// The reason (`QueueFull` among them), and nothing was enqueued; the opaque is dropped.
pub(super) fn produce<C: ProducerContext, P: Producer<C>>(
    producer: &P,
    record: &OutgoingRecord,
    opaque: C::DeliveryOpaque,
) -> Result<(), RDKafkaErrorCode> {
    let topic = CString::new(record.topic.as_str()).map_err(|_| RDKafkaErrorCode::InvalidTopic)?;
    let headers = match record.headers.is_empty() {
        true => None,
        false => Some(NewHeaders::of(&record.headers).ok_or(RDKafkaErrorCode::Fail)?),
    };
    // A null pointer is a null key or value; an empty slice has a pointer that is not null.
    fn parts(bytes: Option<&bytes::Bytes>) -> (*mut c_void, usize) {
        bytes.map_or((null_mut(), 0), |b| (b.as_ptr().cast_mut().cast(), b.len()))
    }
    let (value, value_len) = parts(record.value.as_ref());
    let (key, key_len) = parts(record.key.as_ref());
    let native_headers = headers
        .as_ref()
        .map_or(null_mut(), |list| list.0.0.as_ptr());
    let opaque = opaque.into_ptr();
    use sys::rd_kafka_vtype_t::*;
    // SAFETY: the variable arguments are tag and value pairs of the types that librdkafka's
    // documentation of rd_kafka_vtype_t gives, ended by END. All pointers are valid for the call;
    // key and value are copied (MSG_F_COPY). The opaque is of the type that this producer's
    // context takes back in its delivery callback.
    let code = unsafe {
        sys::rd_kafka_producev(
            producer.client().native_ptr(),
            RD_KAFKA_VTYPE_TOPIC,
            topic.as_ptr(),
            RD_KAFKA_VTYPE_PARTITION,
            record.partition.unwrap_or(PARTITION_UNASSIGNED),
            RD_KAFKA_VTYPE_MSGFLAGS,
            sys::RD_KAFKA_MSG_F_COPY,
            RD_KAFKA_VTYPE_VALUE,
            value,
            value_len,
            RD_KAFKA_VTYPE_KEY,
            key,
            key_len,
            RD_KAFKA_VTYPE_OPAQUE,
            opaque,
            RD_KAFKA_VTYPE_TIMESTAMP,
            record.timestamp.unwrap_or(0),
            RD_KAFKA_VTYPE_HEADERS,
            native_headers,
            RD_KAFKA_VTYPE_END,
        )
    };
    match RDKafkaErrorCode::from(code) {
        RDKafkaErrorCode::NoError => {
            // The queued message owns them now.
            std::mem::forget(headers);
            Ok(())
        }
        code => {
            // SAFETY: made by into_ptr above; a failed call has not kept it.
            drop(unsafe { C::DeliveryOpaque::from_ptr(opaque) });
            Err(code)
        }
    }
}

/// Name and default of each property that has a value, global ones first.
pub(super) fn default_properties() -> Vec<(String, String)> {
    let mut count = 0;
    // SAFETY: both configurations are ours from new to destroy; `read_dump` takes each dump.
    unsafe {
        let conf = sys::rd_kafka_conf_new();
        let mut all = read_dump(sys::rd_kafka_conf_dump(conf, &mut count), count);
        sys::rd_kafka_conf_destroy(conf);
        let conf = sys::rd_kafka_topic_conf_new();
        let dump = sys::rd_kafka_topic_conf_dump(conf, &mut count);
        all.extend(read_dump(dump, count));
        sys::rd_kafka_topic_conf_destroy(conf);
        all
    }
}

/// Copies a dump and frees it.
///
/// # Safety
/// `dump` and `count` come from one of librdkafka's dump calls, and are not used afterwards.
unsafe fn read_dump(dump: *mut *const c_char, count: usize) -> Vec<(String, String)> {
    // SAFETY: a dump is an array of `count` C strings, names and values in turn, none of them
    // null, valid until it is freed.
    unsafe {
        let text = |string: &*const c_char| CStr::from_ptr(*string).to_string_lossy().into_owned();
        let all = std::slice::from_raw_parts(dump, count)
            .chunks_exact(2)
            .filter_map(|pair| Some((text(pair.first()?), text(pair.last()?))))
            .collect();
        sys::rd_kafka_conf_dump_free(dump, count);
        all
    }
}

/// librdkafka's mock cluster.
pub(super) struct MockCluster {
    cluster: NonNull<sys::rd_kafka_mock_cluster_t>,
    /// The handle the cluster lives in: it goes after the cluster, which `drop` destroys.
    _client: Client<DefaultProducerContext>,
}

// SAFETY: the mock's functions hand their work to the cluster's own thread, or hold its lock.
unsafe impl Send for MockCluster {}
// SAFETY: as above.
unsafe impl Sync for MockCluster {}

impl MockCluster {
    pub(super) fn new(brokers: i32) -> Result<Self, KafkaError> {
        let mut config = ClientConfig::new();
        // Nobody reads this handle's log queue, so nothing but emergencies may go there.
        config.set_log_level(rdkafka::config::RDKafkaLogLevel::Emerg);
        let client = Client::new(
            &config,
            config.create_native_config()?,
            sys::rd_kafka_type_t::RD_KAFKA_PRODUCER,
            DefaultProducerContext,
        )?;
        // SAFETY: the handle is alive; the cluster is destroyed before it.
        let cluster = unsafe { sys::rd_kafka_mock_cluster_new(client.native_ptr(), brokers) };
        let cluster =
            NonNull::new(cluster).ok_or(KafkaError::MockCluster(RDKafkaErrorCode::Fail))?;
        // SAFETY: the cluster was just made. Without these a group's first assignment takes 3 s
        // and its heartbeats 3 s.
        unsafe {
            sys::rd_kafka_mock_group_initial_rebalance_delay_ms(cluster.as_ptr(), 10);
            sys::rd_kafka_mock_set_group_consumer_heartbeat_interval_ms(cluster.as_ptr(), 100);
        }
        Ok(MockCluster {
            cluster,
            _client: client,
        })
    }

    pub(super) fn bootstrap_servers(&self) -> String {
        // SAFETY: the cluster is alive, and so is its C string.
        unsafe { CStr::from_ptr(sys::rd_kafka_mock_cluster_bootstraps(self.cluster.as_ptr())) }
            .to_string_lossy()
            .into_owned()
    }

    pub(super) fn create_topic(&self, name: &str, partitions: i32) -> Result<(), RDKafkaErrorCode> {
        let name = CString::new(name).map_err(|_| RDKafkaErrorCode::InvalidTopic)?;
        // SAFETY: the cluster is alive; the name is copied.
        checked(unsafe {
            sys::rd_kafka_mock_topic_create(self.cluster.as_ptr(), name.as_ptr(), partitions, 1)
        })
    }

    /// The next requests of this kind are answered by these errors, one each.
    #[cfg(test)]
    pub(super) fn fail_requests(&self, api_key: i16, errors: &[sys::rd_kafka_resp_err_t]) {
        // SAFETY: the cluster is alive; as many errors as counted are copied.
        unsafe {
            sys::rd_kafka_mock_push_request_errors_array(
                self.cluster.as_ptr(),
                api_key,
                errors.len(),
                errors.as_ptr(),
            );
        }
    }

    pub(super) fn set_broker(&self, id: i32, up: bool) -> Result<(), RDKafkaErrorCode> {
        // SAFETY: the cluster is alive; an unknown id is answered with an error.
        checked(unsafe {
            match up {
                true => sys::rd_kafka_mock_broker_set_up(self.cluster.as_ptr(), id),
                false => sys::rd_kafka_mock_broker_set_down(self.cluster.as_ptr(), id),
            }
        })
    }

    /// Has a broker answer each request this much later.
    pub(super) fn set_round_trip(&self, id: i32, millis: i32) -> Result<(), RDKafkaErrorCode> {
        // SAFETY: the cluster is alive; an unknown id is answered with an error.
        checked(unsafe { sys::rd_kafka_mock_broker_set_rtt(self.cluster.as_ptr(), id, millis) })
    }
}

fn checked(code: sys::rd_kafka_resp_err_t) -> Result<(), RDKafkaErrorCode> {
    match RDKafkaErrorCode::from(code) {
        RDKafkaErrorCode::NoError => Ok(()),
        code => Err(code),
    }
}

impl Drop for MockCluster {
    fn drop(&mut self) {
        // SAFETY: ours, destroyed once, and before the handle it lives in (a field, dropped after).
        unsafe { sys::rd_kafka_mock_cluster_destroy(self.cluster.as_ptr()) }
    }
}

#[cfg(test)]
mod tests;
