//! What can be told about a dead letter, and the bytes of a header that tells it.

use bytes::Bytes;
use std::io::Write;

use super::router::check_topic;
use super::text::{NAME_LIMIT, prefix};

/// Up to how many bytes of a header's text are read; more is cut.
pub const READ_LIMIT: usize = 32 * 1024;

/// One thing that can be told about a dead letter, whatever its header is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Field {
    /// The topic the record was consumed from.
    Topic,
    /// The partition it was consumed from.
    Partition,
    /// Its offset there.
    Offset,
    /// Its timestamp, in milliseconds since the Unix epoch.
    Timestamp,
    /// `CreateTime`, `LogAppendTime` or `NoTimestampType`.
    TimestampType,
    /// The consumer group that gave the record up.
    Group,
    /// What failed: `key` or `value`, which could not be read, or `handler`.
    Part,
    /// The stages the error passed, outermost first.
    StagePath,
    /// The name of the error's [`Status`](crate::Status).
    Status,
    /// The name of the error's [`ErrorKind`](crate::ErrorKind).
    Kind,
    /// How often it was tried.
    Attempts,
    /// How long its retry went on, in milliseconds.
    ElapsedMillis,
    /// What went wrong, in words.
    Message,
    /// The message of the innermost cause.
    CauseMessage,
    /// The messages of all causes, outermost first, in one line.
    Causes,
    /// A stack trace, or what stands for one.
    Trace,
    /// The class of the exception; for our errors `kafka_chain.` and the kind.
    ExceptionClass,
    /// The class of its cause.
    CauseClass,
    /// Class and message in one text, as Java's `Throwable.toString()` has them.
    Exception,
    /// [`ExceptionClass`](Field::ExceptionClass), of a key that failed beside its value.
    KeyExceptionClass,
    /// [`Message`](Field::Message), of a key that failed beside its value.
    KeyMessage,
    /// [`Trace`](Field::Trace), of a key that failed beside its value.
    KeyTrace,
    /// A stable hash of what went wrong; see [`fingerprint`](super::fingerprint).
    Fingerprint,
    /// When the record was given up, in milliseconds since the Unix epoch.
    FailedAt,
    /// The version of this crate.
    Version,
    /// The size in bytes of a value that was too large and left out.
    ValueLeftOut,
    /// The delivery of Spring's in-process counter, from 1.
    DeliveryAttempt,
    /// The delivery of Spring's retry topics, from 1.
    RetryAttempts,
    /// The timestamp of the record before its first retry topic, in epoch milliseconds.
    RetryOriginalTimestamp,
    /// When a retry topic's record is due, in epoch milliseconds.
    RetryDueTimestamp,
    /// Spring's in-process marker of a key that could not be read.
    KeyDeserializationException,
    /// Spring's in-process marker of a value that could not be read.
    ValueDeserializationException,
    /// The name of a Connect connector; the group, where there is no connector.
    ConnectorName,
    /// The number of a Connect task.
    TaskId,
    /// The stage of a Connect pipeline, such as `VALUE_CONVERTER`.
    ConnectStage,
    /// The class that Connect was running; for our errors the innermost stage.
    ExecutingClass,
}

/// What a [`Field`] says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// In words.
    Text(String),
    /// As a number.
    Number(i64),
}

impl Fact {
    /// The text, if it is one.
    pub fn text(&self) -> Option<&str> {
        match self {
            Fact::Text(text) => Some(text),
            Fact::Number(_) => None,
        }
    }

    /// The number, if it is one.
    pub const fn number(&self) -> Option<i64> {
        match self {
            Fact::Text(_) => None,
            Fact::Number(number) => Some(*number),
        }
    }
}

impl From<&str> for Fact {
    fn from(text: &str) -> Self {
        Fact::Text(text.to_owned())
    }
}

impl From<String> for Fact {
    fn from(text: String) -> Self {
        Fact::Text(text)
    }
}

impl From<i64> for Fact {
    fn from(number: i64) -> Self {
        Fact::Number(number)
    }
}

impl Field {
    /// Whether `fact` can be true of this field. Headers are anybody's: what is read and out of
    /// range counts as absent.
    pub(super) fn accepts(self, fact: &Fact) -> bool {
        let number = |least: i64, most: i64| {
            fact.number()
                .is_some_and(|number| (least..=most).contains(&number))
        };
        match self {
            Field::Partition | Field::TaskId => number(0, i32::MAX.into()),
            Field::Offset
            | Field::Timestamp
            | Field::FailedAt
            | Field::ElapsedMillis
            | Field::ValueLeftOut
            | Field::RetryOriginalTimestamp
            | Field::RetryDueTimestamp => number(0, i64::MAX),
            Field::Attempts | Field::DeliveryAttempt => number(1, u32::MAX.into()),
            Field::RetryAttempts => number(1, i16::MAX.into()),
            Field::Topic => fact.text().is_some_and(|text| check_topic(text).is_ok()),
            Field::Message
            | Field::CauseMessage
            | Field::Causes
            | Field::Trace
            | Field::Exception
            | Field::KeyMessage
            | Field::KeyTrace => fact.text().is_some(),
            _ => fact.text().is_some_and(|text| {
                !text.is_empty() && text.len() <= NAME_LIMIT && !text.contains(char::is_control)
            }),
        }
    }
}

/// How a header's value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// UTF-8 text.
    Utf8,
    /// A number as decimal ASCII text.
    Decimal,
    /// Four bytes, big-endian.
    I32,
    /// Eight bytes, big-endian.
    I64,
    /// The fewest bytes that hold the number in two's complement, big-endian: what Java's
    /// `BigInteger.toByteArray()` gives.
    BigInteger,
    /// A serialized Java object: neither written nor read.
    JavaObject,
}

impl Encoding {
    /// The name in the documentation: `utf8`, `decimal_utf8`, `i32_be`, `i64_be`, `bigint_min_be`,
    /// `java_serialized`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Encoding::Utf8 => "utf8",
            Encoding::Decimal => "decimal_utf8",
            Encoding::I32 => "i32_be",
            Encoding::I64 => "i64_be",
            Encoding::BigInteger => "bigint_min_be",
            Encoding::JavaObject => "java_serialized",
        }
    }

    /// The bytes of `fact`; `None` when this encoding has none for it.
    pub fn encode(self, fact: &Fact) -> Option<Bytes> {
        let mut bytes = Vec::new();
        self.encode_into(fact, &mut bytes)?;
        Some(bytes.into())
    }

    /// Adds the bytes of `fact`; `None`, and nothing added, when this encoding has none for it.
    pub(super) fn encode_into(self, fact: &Fact, into: &mut Vec<u8>) -> Option<()> {
        match (self, fact) {
            (Encoding::Utf8, Fact::Text(text)) => into.extend_from_slice(text.as_bytes()),
            (Encoding::Decimal, Fact::Number(number)) => write!(into, "{number}").ok()?,
            (Encoding::I32, Fact::Number(number)) => {
                let number = i32::try_from(*number).ok()?;
                into.extend_from_slice(&number.to_be_bytes());
            }
            (Encoding::I64, Fact::Number(number)) => {
                into.extend_from_slice(&number.to_be_bytes());
            }
            (Encoding::BigInteger, Fact::Number(number)) => {
                let bytes = number.to_be_bytes();
                // A leading byte may go while the sign bit of the next one says the same.
                let spare = bytes
                    .windows(2)
                    .take_while(|pair| match pair {
                        [0x00, next] => *next < 0x80,
                        [0xff, next] => *next >= 0x80,
                        _ => false,
                    })
                    .count();
                into.extend_from_slice(bytes.get(spare..)?);
            }
            _ => return None,
        }
        Some(())
    }

    /// What `bytes` say; `None` when they are not of this encoding.
    pub fn decode(self, bytes: &[u8]) -> Option<Fact> {
        match self {
            Encoding::Utf8 => {
                let text = std::str::from_utf8(bytes).ok()?;
                Some(Fact::from(prefix(text, READ_LIMIT)))
            }
            Encoding::Decimal => {
                let digits = bytes.strip_prefix(b"-").unwrap_or(bytes);
                if digits.is_empty() || digits.len() > 19 || !digits.is_ascii() {
                    return None;
                }
                let text = std::str::from_utf8(bytes).ok()?;
                let plain = digits.iter().all(u8::is_ascii_digit);
                plain.then(|| text.parse().ok().map(Fact::Number))?
            }
            Encoding::I32 => {
                let bytes = bytes.try_into().ok()?;
                Some(Fact::Number(i32::from_be_bytes(bytes).into()))
            }
            Encoding::I64 => Some(Fact::Number(i64::from_be_bytes(bytes.try_into().ok()?))),
            Encoding::BigInteger => {
                let first = *bytes.first()?;
                let sign = if first < 0x80 { 0 } else { -1 };
                (bytes.len() <= 8).then(|| {
                    let number = bytes
                        .iter()
                        .fold(sign, |number: i64, byte| number << 8 | i64::from(*byte));
                    Fact::Number(number)
                })
            }
            Encoding::JavaObject => None,
        }
    }
}

/// What a header is to the record that carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Where the record came from: kept from the first failure when it fails again.
    Origin,
    /// What went wrong: of the last failure.
    Error,
    /// Read where others wrote it, and neither written nor removed.
    Foreign,
}

/// One row of a dialect's table: a header's name, what it tells and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The name on the record.
    pub name: &'static str,
    /// What it tells.
    pub field: Field,
    /// How its value is written.
    pub encoding: Encoding,
    /// What it is to the record.
    pub role: Role,
    /// Whether a header with a null value says that there is nothing to tell; else it is left out.
    pub null_when_absent: bool,
}

impl Header {
    pub(super) const fn text(name: &'static str, field: Field, role: Role) -> Self {
        Header::new(name, field, Encoding::Utf8, role)
    }

    pub(super) const fn new(
        name: &'static str,
        field: Field,
        encoding: Encoding,
        role: Role,
    ) -> Self {
        Header {
            name,
            field,
            encoding,
            role,
            null_when_absent: false,
        }
    }

    pub(super) const fn nullable(mut self) -> Self {
        self.null_when_absent = true;
        self
    }

    /// What a header of this name with this value says: absent when the value is null, of another
    /// encoding, or out of range.
    ///
    /// `retry_topic-attempts` is read as Spring reads it: one byte is an old form, and a number out
    /// of 1..=32767 is 1 (`RetryTopicHeaders`, spring-kafka).
    pub fn decode(&self, value: Option<&[u8]>) -> Option<Fact> {
        let value = value?;
        if self.field == Field::RetryAttempts {
            let fact = match value {
                [byte] => Fact::Number(i64::from(*byte)),
                _ => self.encoding.decode(value)?,
            };
            return Some(if self.field.accepts(&fact) {
                fact
            } else {
                Fact::Number(1)
            });
        }
        self.encoding
            .decode(value)
            .filter(|fact| self.field.accepts(fact))
    }
}
