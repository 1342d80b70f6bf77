//! A consumed message that keeps its consumer alive.

use super::{HeadersPtr, SharedConsumer};
use crate::headers::{HeaderRef, HeaderSource};
use rdkafka::consumer::ConsumerContext;
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::message::{BorrowedMessage, Timestamp};
use rdkafka_sys as sys;
use std::any::Any;
use std::ffi::{CStr, c_void};
use std::ptr::{NonNull, null_mut};
use std::sync::{Arc, OnceLock};

/// A consumed message that keeps its consumer alive. Headers are parsed when first looked at.
pub(in crate::transport::kafka) struct OwnedMessage {
    /// Whole and readable until this is dropped, by the promise of whoever made it.
    native: NonNull<sys::rd_kafka_message_t>,
    /// Guards librdkafka's own lazy parse, which is not made for two threads.
    headers: OnceLock<Result<Option<HeadersPtr>, ()>>,
    /// What frees the message, if it is not freed by itself.
    event: Option<BorrowedMessage<'static>>,
    /// Last: the consumer must outlive the message.
    _consumer: Arc<dyn Any + Send + Sync>,
}

// SAFETY: librdkafka lets any thread read and destroy a message; the lazy parse of headers, the
// only thing that changes it, is behind the OnceLock.
unsafe impl Send for OwnedMessage {}
// SAFETY: as above.
unsafe impl Sync for OwnedMessage {}

impl OwnedMessage {
    /// Of a message that a poll gave.
    ///
    /// # Safety
    /// `message` came from `consumer`.
    pub(super) unsafe fn polled<C: ConsumerContext + 'static>(
        message: BorrowedMessage<'_>,
        consumer: Arc<SharedConsumer<C>>,
    ) -> Self {
        // SAFETY: the lifetime stands for the consumer (the type is otherwise the same), which is
        // kept alive until after the message is dropped: fields are dropped in their order.
        let message = unsafe {
            std::mem::transmute::<BorrowedMessage<'_>, BorrowedMessage<'static>>(message)
        };
        OwnedMessage {
            // SAFETY: rdkafka makes no borrowed message of a null pointer.
            native: unsafe { NonNull::new_unchecked(message.ptr()) },
            headers: OnceLock::new(),
            event: Some(message),
            _consumer: consumer,
        }
    }

    /// Of a message that a batch call gave.
    ///
    /// # Safety
    /// `native` came from a queue of `consumer`, and nobody else destroys it.
    pub(super) unsafe fn taken(
        native: NonNull<sys::rd_kafka_message_t>,
        consumer: Arc<dyn Any + Send + Sync>,
    ) -> Self {
        OwnedMessage {
            native,
            headers: OnceLock::new(),
            event: None,
            _consumer: consumer,
        }
    }

    fn native(&self) -> &sys::rd_kafka_message_t {
        // SAFETY: alive as long as self, and changed by nobody.
        unsafe { self.native.as_ref() }
    }

    /// The topic's name; empty if it were not UTF-8, which Kafka does not allow.
    pub(in crate::transport::kafka) fn topic(&self) -> &str {
        // SAFETY: the topic handle is alive as long as the message, and its name is a C string
        // that lives as long as the handle.
        let name = unsafe { CStr::from_ptr(sys::rd_kafka_topic_name(self.native().rkt)) };
        name.to_str().unwrap_or_default()
    }

    pub(in crate::transport::kafka) fn partition(&self) -> i32 {
        self.native().partition
    }

    pub(in crate::transport::kafka) fn offset(&self) -> i64 {
        self.native().offset
    }

    /// In which epoch of its log's leaders it was written; negative when that is not known.
    pub(in crate::transport::kafka) fn leader_epoch(&self) -> i32 {
        // SAFETY: the message is alive.
        unsafe { sys::rd_kafka_message_leader_epoch(self.native.as_ptr()) }
    }

    pub(in crate::transport::kafka) fn key(&self) -> Option<&[u8]> {
        // SAFETY: the message's own key and its length.
        unsafe { bytes(self.native().key, self.native().key_len) }
    }

    pub(in crate::transport::kafka) fn payload(&self) -> Option<&[u8]> {
        // SAFETY: the message's own value and its length.
        unsafe { bytes(self.native().payload, self.native().len) }
    }

    pub(in crate::transport::kafka) fn timestamp(&self) -> Timestamp {
        use sys::rd_kafka_timestamp_type_t::*;
        let mut kind = RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
        // SAFETY: the message is alive; the out is valid for the call.
        let millis = unsafe { sys::rd_kafka_message_timestamp(self.native.as_ptr(), &mut kind) };
        match kind {
            _ if millis == -1 => Timestamp::NotAvailable,
            RD_KAFKA_TIMESTAMP_NOT_AVAILABLE => Timestamp::NotAvailable,
            RD_KAFKA_TIMESTAMP_CREATE_TIME => Timestamp::CreateTime(millis),
            RD_KAFKA_TIMESTAMP_LOG_APPEND_TIME => Timestamp::LogAppendTime(millis),
        }
    }

    /// Stores the offset after this message as the one to commit.
    pub(in crate::transport::kafka) fn store_offset(&self) -> Result<(), RDKafkaErrorCode> {
        // SAFETY: the message is alive, and so is its consumer; a null answer is success, another
        // is an error that we own.
        unsafe {
            let error = sys::rd_kafka_offset_store_message(self.native.as_ptr());
            if error.is_null() {
                return Ok(());
            }
            let code = sys::rd_kafka_error_code(error);
            sys::rd_kafka_error_destroy(error);
            Err(RDKafkaErrorCode::from(code))
        }
    }

    /// Whether the headers can be read. librdkafka refuses damaged ones and more than 100,000.
    pub(in crate::transport::kafka) fn has_readable_headers(&self) -> bool {
        self.native_headers().is_ok()
    }

    fn native_headers(&self) -> Result<Option<&HeadersPtr>, ()> {
        let headers = self.headers.get_or_init(|| {
            let mut headers = null_mut();
            // SAFETY: the message is alive; the result is owned by it and stays where it is until
            // the message is dropped, for nothing here detaches or replaces it. The OnceLock keeps
            // a second thread out of the parse.
            let code = unsafe { sys::rd_kafka_message_headers(self.native.as_ptr(), &mut headers) };
            match RDKafkaErrorCode::from(code) {
                RDKafkaErrorCode::NoError => Ok(NonNull::new(headers).map(HeadersPtr)),
                RDKafkaErrorCode::NoEnt => Ok(None),
                _ => Err(()),
            }
        });
        match headers {
            Ok(headers) => Ok(headers.as_ref()),
            Err(()) => Err(()),
        }
    }
}

/// # Safety
/// `data` is null or points to `len` bytes that live as long as the result.
unsafe fn bytes<'a>(data: *mut c_void, len: usize) -> Option<&'a [u8]> {
    // SAFETY: the caller's promise.
    (!data.is_null()).then(|| unsafe { std::slice::from_raw_parts(data.cast::<u8>(), len) })
}

impl Drop for OwnedMessage {
    fn drop(&mut self) {
        if self.event.is_none() {
            // SAFETY: ours alone, by the promise of `taken`; the consumer is still alive.
            unsafe { sys::rd_kafka_message_destroy(self.native.as_ptr()) }
        }
    }
}

impl HeaderSource for OwnedMessage {
    fn get(&self, index: usize) -> Option<HeaderRef<'_>> {
        self.native_headers().ok()??.get(index)
    }

    fn len(&self) -> usize {
        self.native_headers()
            .ok()
            .flatten()
            .map_or(0, HeadersPtr::len)
    }
}
