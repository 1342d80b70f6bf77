//! What the `deliver-*` headers of a record ask for, and where it may go.
//!
//! | header | value |
//! |---|---|
//! | `deliver-after` | the instant before which it must not be delivered: milliseconds since the epoch in decimal digits |
//! | `deliver-after-delay` | instead: milliseconds from the record's timestamp; without one, from when it was taken in |
//! | `deliver-to` | the topic it is for, and a partition if it matters: `orders`, `orders:3` |
//! | `deliver-after-record` | what this record asked for itself, where `deliver-after` is that of its batch |
//!
//! Of a header that repeats the last counts. Everything here is pure.

mod envelope;
mod rules;

pub use envelope::Envelope;
pub use rules::DeliverRules;

use super::When;
use super::item::{MAX_INSTANT, millis};
use crate::error::{Error, Result};
use crate::headers::{HeaderView, Headers};
use crate::record::{OutgoingRecord, Record, Timestamp};
use crate::transport::check_topic_name;
use bytes::Bytes;
use std::fmt;

/// The header with the instant before which a record must not be delivered.
pub const DELIVER_AFTER: &str = "deliver-after";

/// The header with a delay instead.
pub const DELIVER_AFTER_DELAY: &str = "deliver-after-delay";

/// The header with the topic, and perhaps the partition, that a record is for.
pub const DELIVER_TO: &str = "deliver-to";

/// The header with a record's own instant beside that of its batch.
pub const DELIVER_AFTER_RECORD: &str = "deliver-after-record";

/// Every header that is ours and not the record's: none of them is delivered.
pub const DELIVER_HEADERS: [&str; 4] = [
    DELIVER_AFTER,
    DELIVER_AFTER_DELAY,
    DELIVER_TO,
    DELIVER_AFTER_RECORD,
];

/// Where a record is delivered to. It reads and prints as `topic` or `topic:partition`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DeliverTo {
    /// The topic.
    pub topic: String,
    /// The partition; `None` lets the key's hash decide (chance, without a key).
    pub partition: Option<i32>,
}

impl DeliverTo {
    /// A topic whose partition the key decides.
    pub fn topic(topic: impl Into<String>) -> Self {
        DeliverTo {
            topic: topic.into(),
            partition: None,
        }
    }

    /// Where `record` goes.
    pub fn of(record: &OutgoingRecord) -> Self {
        DeliverTo {
            topic: record.topic.clone(),
            partition: record.partition,
        }
    }

    /// Reads `topic` or `topic:partition`.
    ///
    /// # Errors
    /// Permanent, without the text, when Kafka takes no topic or partition of that name.
    pub fn parse(text: &[u8]) -> Result<Self> {
        let text = std::str::from_utf8(text)
            .map_err(|_| Error::malformed("the name of a topic is not UTF-8"))?;
        let (topic, partition) = match text.split_once(':') {
            Some((topic, partition)) => (topic, Some(partition)),
            None => (text, None),
        };
        check_topic_name(topic)
            .map_err(|why| Error::malformed(format!("the name of a topic {why}")))?;
        let number = |text: &str| {
            let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            let number = digits.then(|| text.parse().ok()).flatten();
            number.ok_or_else(|| Error::malformed("a partition is no number from 0 to 2147483647"))
        };
        Ok(DeliverTo {
            topic: topic.to_owned(),
            partition: partition.map(number).transpose()?,
        })
    }
}

impl fmt::Display for DeliverTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.topic)?;
        match self.partition {
            Some(partition) => write!(f, ":{partition}"),
            None => Ok(()),
        }
    }
}

/// When the headers ask for delivery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum After {
    /// They do not say.
    #[default]
    Unsaid,
    /// Not before this instant, in milliseconds since the epoch.
    At(i64),
    /// Not before this many milliseconds after the record's timestamp.
    Delay(i64),
}

/// What the headers of a record ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deliver {
    /// When.
    pub after: After,
    /// Where to.
    pub to: Option<DeliverTo>,
}

impl Deliver {
    /// Reads the headers.
    ///
    /// # Errors
    /// Permanent, naming the header and never its value: a value that is null or no such number or
    /// topic, or both a time and a delay.
    pub fn read(headers: HeaderView<'_>) -> Result<Self> {
        let value = |name: &'static str| match headers.get_last(name) {
            None => Ok(None),
            Some(Some(value)) => Ok(Some(value)),
            Some(None) => Err(Error::malformed(format!("header {name} is null"))),
        };
        let of = |name: &'static str| {
            move |error: Error| Error::malformed(format!("header {name}: {}", error.message()))
        };
        let at = value(DELIVER_AFTER)?;
        let delay = value(DELIVER_AFTER_DELAY)?;
        let after = match (at, delay) {
            (None, None) => After::Unsaid,
            (Some(_), Some(_)) => {
                return Err(Error::malformed(format!(
                    "headers {DELIVER_AFTER} and {DELIVER_AFTER_DELAY} are both there"
                )));
            }
            (Some(at), None) => number(at).map(After::At).map_err(of(DELIVER_AFTER))?,
            (None, Some(delay)) => match When::parse_after(delay) {
                Ok(When::After(delay)) => After::Delay(millis(delay)),
                Ok(When::At(_)) => After::Unsaid,
                Err(error) => return Err(of(DELIVER_AFTER_DELAY)(error)),
            },
        };
        let to = value(DELIVER_TO)?.map(DeliverTo::parse).transpose();
        Ok(Deliver {
            after,
            to: to.map_err(of(DELIVER_TO))?,
        })
    }

    /// The instant in milliseconds since the epoch, in `0..=MAX_INSTANT`; `None` when the headers do
    /// not say. A delay counts from `timestamp`; where the record has none, from `ingested`, the
    /// time at which it was taken in, which whoever reads it again must have kept.
    pub fn at(&self, timestamp: Timestamp, ingested: i64) -> Option<i64> {
        let at = match self.after {
            After::Unsaid => return None,
            After::At(at) => at,
            After::Delay(delay) => base(timestamp, ingested).saturating_add(delay.max(0)),
        };
        Some(at.clamp(0, MAX_INSTANT))
    }
}

/// What a delay is counted from.
pub(crate) fn base(timestamp: Timestamp, ingested: i64) -> i64 {
    let stamped = timestamp.millis().filter(|millis| *millis >= 0);
    stamped.unwrap_or(ingested).max(0)
}

fn number(text: &[u8]) -> Result<i64> {
    match When::parse_at(text)? {
        When::At(at) => Ok(at),
        When::After(delay) => Ok(millis(delay)),
    }
}

/// The record's own instant beside that of its batch; `None` when there is none or it is no number.
pub fn deliver_after_record(headers: HeaderView<'_>) -> Option<i64> {
    let value = headers.get_last(DELIVER_AFTER_RECORD)??;
    number(value).ok()
}

/// A record's delivery: when and where to, both checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Not before this instant, in milliseconds since the epoch; `None` when the headers do not say.
    pub at: Option<i64>,
    /// Where to.
    pub to: DeliverTo,
}

impl Delivery {
    /// What is delivered of `record`: key, value and headers byte for byte, less our own. Its
    /// timestamp is that of the delivery, or retention might take it before it is read.
    pub fn outgoing(&self, record: &Record<'_>) -> OutgoingRecord {
        OutgoingRecord {
            topic: self.to.topic.clone(),
            partition: self.to.partition,
            key: record.key.map(Bytes::copy_from_slice),
            value: record.value.map(Bytes::copy_from_slice),
            headers: without_ours(record.headers),
            timestamp: None,
        }
    }
}

/// The headers but [`DELIVER_HEADERS`].
pub fn without_ours(headers: HeaderView<'_>) -> Headers {
    headers
        .iter()
        .filter(|(name, _)| !is_ours(name))
        .map(|(name, value)| {
            (
                Bytes::copy_from_slice(name),
                value.map(Bytes::copy_from_slice),
            )
        })
        .collect()
}

fn is_ours(name: &[u8]) -> bool {
    name.starts_with(b"deliver-") && DELIVER_HEADERS.iter().any(|ours| ours.as_bytes() == name)
}

/// `record` as it waits in topic `held_in`: what it is for, and when, in headers. Its partition
/// there is left open.
pub fn addressed(record: OutgoingRecord, held_in: &str, at: i64) -> OutgoingRecord {
    let to = DeliverTo::of(&record);
    let mut record = timed(record, at);
    record.headers.push(DELIVER_TO, Some(to.to_string()));
    record.topic = held_in.to_owned();
    record.partition = None;
    record
}

/// `record` with `deliver-after` as the only header of ours.
pub fn timed(mut record: OutgoingRecord, at: i64) -> OutgoingRecord {
    if record.headers.iter().any(|(name, _)| is_ours(name)) {
        let headers = std::mem::take(&mut record.headers);
        record.headers = (headers.iter().filter(|(name, _)| !is_ours(name)))
            .map(|(name, value)| (name.clone(), value.cloned()))
            .collect();
    }
    record.headers.push(DELIVER_AFTER, Some(at.to_string()));
    record
}

#[cfg(test)]
mod tests;
