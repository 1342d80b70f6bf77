//! Where records come from and where they go.

#[cfg(feature = "kafka")]
pub mod kafka;

mod java_keys;
mod java_values;
mod settings;

pub use java_keys::{JAVA_KEYS, JavaKey, java_key};
pub use settings::{REDACTED, Settings, is_secret, producer_settings};

use crate::answer::BoxFuture;
use crate::error::Result;
use crate::record::{Headers, OwnedRecord};
use bytes::Bytes;
use std::fmt;

/// A record to be written. `Debug` shows sizes, never payloads.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct OutRecord {
    /// The topic it goes to.
    pub topic: String,
    /// The partition it goes to; `None` lets the key's hash decide (chance, without a key).
    pub partition: Option<i32>,
    /// The key; null is not empty.
    pub key: Option<Bytes>,
    /// The value; null is a tombstone, not empty.
    pub value: Option<Bytes>,
    /// All headers in order, nulls and repeats included.
    pub headers: Headers,
    /// Milliseconds since the Unix epoch; `None`, and 0 too on Kafka, is the time of sending.
    pub timestamp: Option<i64>,
}

impl fmt::Debug for OutRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = |bytes: &Option<Bytes>| bytes.as_ref().map(Bytes::len);
        f.debug_struct("OutRecord")
            .field("topic", &self.topic)
            .field("partition", &self.partition)
            .field("key_bytes", &size(&self.key))
            .field("value_bytes", &size(&self.value))
            .field("headers", &self.headers)
            .field("timestamp", &self.timestamp)
            .finish()
    }
}

impl From<OwnedRecord> for OutRecord {
    /// The same key, value, headers and timestamp for the same topic; the partition is left open.
    fn from(record: OwnedRecord) -> Self {
        OutRecord {
            topic: record.topic,
            partition: None,
            key: record.key,
            value: record.value,
            headers: record.headers,
            timestamp: record.timestamp.millis(),
        }
    }
}

/// Where a written record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Delivered {
    /// Its partition.
    pub partition: i32,
    /// Its offset there.
    pub offset: i64,
}

/// Where records are written to.
pub trait Sink: Send + Sync {
    /// Writes `record`; the answer is there when the write is durable.
    ///
    /// # Errors
    /// Temporary when a later try may succeed, Permanent when this record never will; kind
    /// [`Config`](crate::ErrorKind::Config) when no record would. The text names the topic and
    /// quotes no payload.
    fn send(&self, record: OutRecord) -> BoxFuture<'_, Result<Delivered>>;
}

impl<S: Sink + ?Sized> Sink for std::sync::Arc<S> {
    fn send(&self, record: OutRecord) -> BoxFuture<'_, Result<Delivered>> {
        (**self).send(record)
    }
}

impl<S: Sink + ?Sized> Sink for Box<S> {
    fn send(&self, record: OutRecord) -> BoxFuture<'_, Result<Delivered>> {
        (**self).send(record)
    }
}
