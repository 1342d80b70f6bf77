//! The dialects: tables of header names and encodings.

use super::fact::{Encoding, Field, Header, Role};
use std::fmt;

/// A set of dead-letter header names and encodings. All are written and all are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// `kafka-chain-…`: everything this crate knows, as readable text.
    #[default]
    KafkaChain,
    /// `kafka_dlt-…` of Spring for Apache Kafka: numbers are big-endian bytes.
    Spring,
    /// `__connect.errors.…` of Kafka Connect.
    Connect,
    /// `__streams.errors.…` of Kafka Streams (KIP-1034).
    Streams,
    /// `dead-letter-…` of SmallRye Reactive Messaging.
    SmallRye,
    /// `__dlq.errors.…` of share groups (KIP-1191).
    ShareGroup,
    /// The dead letter as a CloudEvent in binary mode, with `ce_deadletter…` extensions.
    CloudEvents,
}

impl Dialect {
    /// Every dialect, in the order in which [`read`](super::read) looks for them.
    pub const ALL: [Dialect; 7] = [
        Dialect::KafkaChain,
        Dialect::Spring,
        Dialect::Connect,
        Dialect::Streams,
        Dialect::SmallRye,
        Dialect::ShareGroup,
        Dialect::CloudEvents,
    ];

    /// The name in properties.
    pub const fn as_str(self) -> &'static str {
        match self {
            Dialect::KafkaChain => "kafka-chain",
            Dialect::Spring => "spring",
            Dialect::Connect => "connect",
            Dialect::Streams => "streams",
            Dialect::SmallRye => "smallrye",
            Dialect::ShareGroup => "share-group",
            Dialect::CloudEvents => "cloudevents",
        }
    }

    /// The dialect with this name, if there is one.
    pub fn from_name(name: &str) -> Option<Dialect> {
        Self::ALL
            .into_iter()
            .find(|dialect| dialect.as_str() == name)
    }

    /// The dialects of a list with commas (`dead.letter.dialects`), in its order; none of an empty one.
    ///
    /// # Errors
    /// Of kind [`Config`](crate::ErrorKind::Config), with the names that are no dialect's and those
    /// that are.
    pub fn list(names: &str) -> crate::error::Result<Vec<Dialect>> {
        let (mut found, mut wrong) = (Vec::new(), Vec::new());
        let names = names.split(',').map(str::trim);
        for name in names.filter(|name| !name.is_empty()) {
            match Self::from_name(name) {
                Some(dialect) if found.contains(&dialect) => {}
                Some(dialect) => found.push(dialect),
                None => wrong.push(format!("`{}`", super::text::line(name, 64))),
            }
        }
        if wrong.is_empty() {
            return Ok(found);
        }
        Err(crate::error::Error::config(format!(
            "no dialect is called {}; there are {}",
            wrong.join(" or "),
            Self::ALL.map(Dialect::as_str).join(", ")
        )))
    }

    /// Its headers, in the order in which they are written.
    pub const fn headers(self) -> &'static [Header] {
        match self {
            Dialect::KafkaChain => KAFKA_CHAIN,
            Dialect::Spring => SPRING,
            Dialect::Connect => CONNECT,
            Dialect::Streams => STREAMS,
            Dialect::SmallRye => SMALLRYE,
            Dialect::ShareGroup => SHARE_GROUP,
            Dialect::CloudEvents => CLOUDEVENTS,
        }
    }

    /// Its header that tells `field`.
    pub fn header(self, field: Field) -> Option<&'static Header> {
        self.headers().iter().find(|header| header.field == field)
    }

    /// Its header of this name.
    pub fn header_named(self, name: &[u8]) -> Option<&'static Header> {
        self.headers()
            .iter()
            .find(|header| header.name.as_bytes() == name)
    }

    /// Whether the newest of headers that repeat is the first: SmallRye puts its own in front of
    /// the record's, everybody else behind.
    pub(super) const fn newest_first(self) -> bool {
        matches!(self, Dialect::SmallRye)
    }

    /// Whether the framework of this dialect adds a header of this role beside an older one.
    pub(super) fn repeats(self, role: Role) -> bool {
        match self {
            Dialect::Spring => role == Role::Origin,
            Dialect::Connect | Dialect::Streams | Dialect::SmallRye => role != Role::Foreign,
            Dialect::KafkaChain | Dialect::ShareGroup | Dialect::CloudEvents => false,
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

use Encoding::{BigInteger, Decimal, I32, I64, JavaObject};
use Field as F;
use Role::{Error, Foreign, Origin};

/// Says, by its presence, that the value was left out, and how large it was; whatever the dialect.
pub(super) const VALUE_LEFT_OUT: Header = Header::new(
    "kafka-chain-value-left-out",
    F::ValueLeftOut,
    Decimal,
    Origin,
);

const KAFKA_CHAIN: &[Header] = &[
    Header::text("kafka-chain-origin-topic", F::Topic, Origin),
    Header::new(
        "kafka-chain-origin-partition",
        F::Partition,
        Decimal,
        Origin,
    ),
    Header::new("kafka-chain-origin-offset", F::Offset, Decimal, Origin),
    Header::new(
        "kafka-chain-origin-timestamp",
        F::Timestamp,
        Decimal,
        Origin,
    ),
    Header::text(
        "kafka-chain-origin-timestamp-type",
        F::TimestampType,
        Origin,
    ),
    Header::text("kafka-chain-group", F::Group, Error),
    Header::text("kafka-chain-part", F::Part, Error),
    Header::text("kafka-chain-stage-path", F::StagePath, Error),
    Header::text("kafka-chain-status", F::Status, Error),
    Header::text("kafka-chain-kind", F::Kind, Error),
    Header::new("kafka-chain-attempts", F::Attempts, Decimal, Error),
    Header::new("kafka-chain-elapsed-ms", F::ElapsedMillis, Decimal, Error),
    Header::text("kafka-chain-message", F::Message, Error),
    Header::text("kafka-chain-causes", F::Causes, Error),
    Header::text("kafka-chain-fingerprint", F::Fingerprint, Error),
    Header::new("kafka-chain-failed-at", F::FailedAt, Decimal, Error),
    Header::text("kafka-chain-version", F::Version, Error),
];

/// `KafkaHeaders`, `DeadLetterRecordManager` and `RetryTopicHeaders` of spring-kafka.
const SPRING: &[Header] = &[
    Header::text("kafka_dlt-original-topic", F::Topic, Origin),
    Header::new("kafka_dlt-original-partition", F::Partition, I32, Origin),
    Header::new("kafka_dlt-original-offset", F::Offset, I64, Origin),
    Header::new("kafka_dlt-original-timestamp", F::Timestamp, I64, Origin),
    Header::text(
        "kafka_dlt-original-timestamp-type",
        F::TimestampType,
        Origin,
    ),
    Header::text("kafka_dlt-original-consumer-group", F::Group, Origin),
    Header::text("kafka_dlt-exception-fqcn", F::ExceptionClass, Error),
    Header::text("kafka_dlt-exception-cause-fqcn", F::CauseClass, Error),
    Header::text("kafka_dlt-exception-message", F::Message, Error),
    Header::text("kafka_dlt-exception-stacktrace", F::Trace, Error),
    Header::text("kafka_dlt-key-exception-fqcn", F::KeyExceptionClass, Error),
    Header::text("kafka_dlt-key-exception-message", F::KeyMessage, Error),
    Header::text("kafka_dlt-key-exception-stacktrace", F::KeyTrace, Error),
    Header::new("kafka_deliveryAttempt", F::DeliveryAttempt, I32, Foreign),
    Header::new("retry_topic-attempts", F::RetryAttempts, I32, Foreign),
    Header::new(
        "retry_topic-original-timestamp",
        F::RetryOriginalTimestamp,
        BigInteger,
        Foreign,
    ),
    Header::new(
        "retry_topic-backoff-timestamp",
        F::RetryDueTimestamp,
        BigInteger,
        Foreign,
    ),
    Header::new(
        "springDeserializerExceptionKey",
        F::KeyDeserializationException,
        JavaObject,
        Foreign,
    ),
    Header::new(
        "springDeserializerExceptionValue",
        F::ValueDeserializationException,
        JavaObject,
        Foreign,
    ),
];

/// `DeadLetterQueueReporter` of Kafka Connect.
const CONNECT: &[Header] = &[
    Header::text("__connect.errors.topic", F::Topic, Origin),
    Header::new("__connect.errors.partition", F::Partition, Decimal, Origin),
    Header::new("__connect.errors.offset", F::Offset, Decimal, Origin),
    Header::text("__connect.errors.connector.name", F::ConnectorName, Error),
    Header::new("__connect.errors.task.id", F::TaskId, Decimal, Error),
    Header::text("__connect.errors.stage", F::ConnectStage, Error),
    Header::text("__connect.errors.class.name", F::ExecutingClass, Error),
    Header::text(
        "__connect.errors.exception.class.name",
        F::ExceptionClass,
        Error,
    ),
    Header::text("__connect.errors.exception.message", F::Message, Error).nullable(),
    Header::text("__connect.errors.exception.stacktrace", F::Trace, Error),
];

/// `ExceptionHandlerUtils` of Kafka Streams (KIP-1034).
const STREAMS: &[Header] = &[
    Header::text("__streams.errors.exception", F::Exception, Error),
    Header::text("__streams.errors.message", F::Message, Error).nullable(),
    Header::text("__streams.errors.stacktrace", F::Trace, Error),
    Header::text("__streams.errors.topic", F::Topic, Origin),
    Header::new("__streams.errors.partition", F::Partition, Decimal, Origin),
    Header::new("__streams.errors.offset", F::Offset, Decimal, Origin),
];

/// `KafkaDeadLetterQueue` of SmallRye Reactive Messaging.
const SMALLRYE: &[Header] = &[
    Header::text("dead-letter-exception-class-name", F::ExceptionClass, Error),
    Header::text("dead-letter-cause-class-name", F::CauseClass, Error),
    Header::text("dead-letter-reason", F::Message, Error),
    Header::text("dead-letter-cause", F::CauseMessage, Error),
    Header::text("dead-letter-topic", F::Topic, Origin),
    Header::new("dead-letter-partition", F::Partition, Decimal, Origin),
    Header::new("dead-letter-offset", F::Offset, Decimal, Origin),
];

/// `ShareGroupDLQRecordHelper` of Kafka's brokers (KIP-1191).
const SHARE_GROUP: &[Header] = &[
    Header::text("__dlq.errors.topic", F::Topic, Origin),
    Header::new("__dlq.errors.partition", F::Partition, Decimal, Origin),
    Header::new("__dlq.errors.offset", F::Offset, Decimal, Origin),
    Header::text("__dlq.errors.group", F::Group, Error),
    Header::new("__dlq.errors.delivery.count", F::Attempts, Decimal, Error),
    Header::text("__dlq.errors.message", F::Message, Error),
];

/// Extension attributes in binary mode: lower-case letters and at most 20 of them, as CloudEvents
/// 1.0 asks. The attributes that make a record an event are of `event.rs`.
const CLOUDEVENTS: &[Header] = &[
    Header::text("ce_deadlettertopic", F::Topic, Origin),
    Header::new("ce_deadletterpartition", F::Partition, Decimal, Origin),
    Header::new("ce_deadletteroffset", F::Offset, Decimal, Origin),
    Header::new("ce_deadlettertimestamp", F::Timestamp, Decimal, Origin),
    Header::text("ce_deadlettertimetype", F::TimestampType, Origin),
    Header::text("ce_deadlettergroup", F::Group, Error),
    Header::text("ce_deadletterpart", F::Part, Error),
    Header::text("ce_deadletterstages", F::StagePath, Error),
    Header::text("ce_deadletterstatus", F::Status, Error),
    Header::text("ce_deadletterkind", F::Kind, Error),
    Header::new("ce_deadletterattempts", F::Attempts, Decimal, Error),
    Header::new("ce_deadletterelapsed", F::ElapsedMillis, Decimal, Error),
    Header::text("ce_deadletterreason", F::Message, Error),
    Header::text("ce_deadlettercauses", F::Causes, Error),
    Header::text("ce_deadletterhash", F::Fingerprint, Error),
    Header::new("ce_deadletterfailedat", F::FailedAt, Decimal, Error),
];
