//! What was consumed, and what is to be written.

use crate::headers::{HeaderView, Headers, Size};
use crate::payload::Context;
use bytes::Bytes;
use std::fmt;

/// Which half of a record a chain reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// The record's key.
    Key,
    /// The record's value.
    Value,
}

impl Part {
    /// `key` or `value`, the role prefix of property keys.
    pub const fn as_str(self) -> &'static str {
        match self {
            Part::Key => "key",
            Part::Value => "value",
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A record's timestamp in milliseconds since the Unix epoch, with who set it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Timestamp {
    /// The broker gave none.
    #[default]
    NotAvailable,
    /// Set by the producer.
    CreateTime(i64),
    /// Set by the broker when it appended the record.
    LogAppendTime(i64),
}

impl Timestamp {
    /// The milliseconds, if there are any.
    pub const fn millis(self) -> Option<i64> {
        match self {
            Timestamp::NotAvailable => None,
            Timestamp::CreateTime(millis) | Timestamp::LogAppendTime(millis) => Some(millis),
        }
    }

    /// The type under the name Kafka's tools use: `CreateTime`, `LogAppendTime` or
    /// `NoTimestampType`.
    pub const fn type_name(self) -> &'static str {
        match self {
            Timestamp::NotAvailable => "NoTimestampType",
            Timestamp::CreateTime(_) => "CreateTime",
            Timestamp::LogAppendTime(_) => "LogAppendTime",
        }
    }
}

/// A record as consumed, borrowed from whoever holds it.
#[derive(Clone, Copy)]
pub struct Record<'a> {
    /// The topic it was read from.
    pub topic: &'a str,
    /// The partition it was read from.
    pub partition: i32,
    /// Its offset in that partition.
    pub offset: i64,
    /// Its timestamp.
    pub timestamp: Timestamp,
    /// The raw key; null is not empty.
    pub key: Option<&'a [u8]>,
    /// The raw value; null (a tombstone) is not empty.
    pub value: Option<&'a [u8]>,
    /// All headers in order.
    pub headers: HeaderView<'a>,
}

impl<'a> Record<'a> {
    /// A record that came from no topic: for decoding bytes at hand. The other fields are public.
    pub const fn of_value(value: Option<&'a [u8]>) -> Self {
        Record {
            topic: "",
            partition: 0,
            offset: 0,
            timestamp: Timestamp::NotAvailable,
            key: None,
            value,
            headers: HeaderView::empty(),
        }
    }

    /// The raw bytes of one half.
    pub const fn part(&self, part: Part) -> Option<&'a [u8]> {
        match part {
            Part::Key => self.key,
            Part::Value => self.value,
        }
    }

    /// The context of one half, to deserialize it.
    pub const fn context(&'a self, part: Part) -> Context<'a> {
        Context { record: self, part }
    }

    /// A copy that owns everything.
    pub fn to_owned(&self) -> OwnedRecord {
        OwnedRecord {
            topic: self.topic.to_owned(),
            partition: self.partition,
            offset: self.offset,
            timestamp: self.timestamp,
            key: self.key.map(Bytes::copy_from_slice),
            value: self.value.map(Bytes::copy_from_slice),
            headers: self.headers.to_owned(),
        }
    }
}

impl fmt::Debug for Record<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record")
            .field("topic", &self.topic)
            .field("partition", &self.partition)
            .field("offset", &self.offset)
            .field("timestamp", &self.timestamp)
            .field("key", &Size(self.key.map(<[u8]>::len)))
            .field("value", &Size(self.value.map(<[u8]>::len)))
            .field("headers", &self.headers)
            .finish()
    }
}

/// A [`Record`] that owns its bytes. `Debug` shows sizes, never payloads.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct OwnedRecord {
    /// The topic it was read from.
    pub topic: String,
    /// The partition it was read from.
    pub partition: i32,
    /// Its offset in that partition.
    pub offset: i64,
    /// Its timestamp.
    pub timestamp: Timestamp,
    /// The raw key; null is not empty.
    pub key: Option<Bytes>,
    /// The raw value; null (a tombstone) is not empty.
    pub value: Option<Bytes>,
    /// All headers in order.
    pub headers: Headers,
}

impl OwnedRecord {
    /// The raw bytes of one half.
    pub fn part_bytes(&self, part: Part) -> Option<&[u8]> {
        match part {
            Part::Key => self.key.as_deref(),
            Part::Value => self.value.as_deref(),
        }
    }

    /// The record, borrowed.
    pub fn as_record(&self) -> Record<'_> {
        Record {
            topic: &self.topic,
            partition: self.partition,
            offset: self.offset,
            timestamp: self.timestamp,
            key: self.key.as_deref(),
            value: self.value.as_deref(),
            headers: self.headers.view(),
        }
    }
}

impl fmt::Debug for OwnedRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_record().fmt(f)
    }
}

/// A record to be written. `Debug` shows sizes, never payloads.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct OutgoingRecord {
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

impl OutgoingRecord {
    /// A record for this topic, with nothing in it: a null key and a null value.
    pub fn to(topic: impl Into<String>) -> Self {
        OutgoingRecord {
            topic: topic.into(),
            ..OutgoingRecord::default()
        }
    }

    /// With this key.
    #[must_use]
    pub fn key(mut self, key: impl Into<Bytes>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// With a copy of the key of `record`, null if that is.
    #[must_use]
    pub fn key_of(mut self, record: &Record<'_>) -> Self {
        self.key = record.key.map(Bytes::copy_from_slice);
        self
    }

    /// With this value.
    #[must_use]
    pub fn value(mut self, value: impl Into<Bytes>) -> Self {
        self.value = Some(value.into());
        self
    }

    /// With one more header, after the others.
    #[must_use]
    pub fn header(mut self, name: impl Into<Bytes>, value: impl Into<Bytes>) -> Self {
        self.headers.push(name, Some(value.into()));
        self
    }
}

impl fmt::Debug for OutgoingRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = |bytes: &Option<Bytes>| Size(bytes.as_ref().map(Bytes::len));
        f.debug_struct("OutgoingRecord")
            .field("topic", &self.topic)
            .field("partition", &self.partition)
            .field("key", &size(&self.key))
            .field("value", &size(&self.value))
            .field("headers", &self.headers)
            .field("timestamp", &self.timestamp)
            .finish()
    }
}

impl From<OwnedRecord> for OutgoingRecord {
    /// The same key, value, headers and timestamp for the same topic; the partition is left open.
    fn from(record: OwnedRecord) -> Self {
        OutgoingRecord {
            topic: record.topic,
            partition: None,
            key: record.key,
            value: record.value,
            headers: record.headers,
            timestamp: record.timestamp.millis(),
        }
    }
}
