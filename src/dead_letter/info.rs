//! What is known about a dead letter: of a failure to write, or from headers that were read.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::error::Error;
use crate::outcome::Failure;
use crate::record::{OwnedRecord, Part, Timestamp};
use crate::status::{ErrorKind, Status};

use super::fact::{Fact, Field};
use super::text::{NAME_LIMIT, SHORT_LIMIT, Texts, fingerprint, line};

/// The first part of the exception class that our errors have for Java's readers.
const CLASS_PREFIX: &str = "kafka_chain.";

/// A record that is given up: what a dead letter is made of.
#[derive(Clone, Copy, Debug)]
pub struct GivenUp<'a> {
    /// The record as consumed.
    pub record: &'a OwnedRecord,
    /// Why.
    pub error: &'a Error,
    /// Which half of it the chain could not read; `None` when it was read and its handler failed.
    pub part: Option<Part>,
    /// How often it was tried in all; where the failing stage was called more often, that counts.
    pub attempts: u32,
}

impl<'a> From<&'a Failure> for GivenUp<'a> {
    fn from(failure: &'a Failure) -> Self {
        GivenUp {
            record: &failure.record,
            error: &failure.error,
            part: Some(failure.part),
            attempts: 1,
        }
    }
}

/// What [`Field::Part`] says of a record that its handler gave up.
const HANDLER: &str = "handler";

/// What is known about a dead letter: where it came from and what went wrong.
///
/// It has no payload. What was read from headers is anybody's word: numbers are in range and names
/// are names, but a message is whatever the writer put there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeadLetterInfo {
    facts: BTreeMap<Field, Fact>,
}

impl DeadLetterInfo {
    /// Nothing known yet.
    pub const fn new() -> Self {
        DeadLetterInfo {
            facts: BTreeMap::new(),
        }
    }

    /// What `failure` says, given up by `group` at `failed_at` (milliseconds since the Unix epoch).
    pub fn of(failure: &Failure, group: Option<&str>, failed_at: i64) -> Self {
        Self::of_given_up(&failure.into(), group, failed_at)
    }

    /// What is known of a record given up by `group` at `failed_at` (milliseconds since the Unix
    /// epoch).
    ///
    /// Texts are single lines within [`MESSAGE_LIMIT`](super::MESSAGE_LIMIT) and its like, control
    /// characters made blanks.
    pub fn of_given_up(given: &GivenUp<'_>, group: Option<&str>, failed_at: i64) -> Self {
        Self::telling(given, group, failed_at, |_| true)
    }

    /// The same of the fields that are `wanted`, for each costs a text.
    pub(super) fn telling(
        given: &GivenUp<'_>,
        group: Option<&str>,
        failed_at: i64,
        wanted: impl Fn(Field) -> bool,
    ) -> Self {
        let (record, error) = (given.record, given.error);
        let texts = Texts::of(error);
        let kind = error.kind().as_str();
        let mut info = DeadLetterInfo::new();
        if !record.topic.is_empty() {
            info.set(Field::Topic, record.topic.as_str());
        }
        info.set(Field::Partition, i64::from(record.partition));
        info.set(Field::Offset, record.offset);
        info.set_timestamp(record.timestamp);
        if let Some(group) = group.filter(|group| !group.is_empty()) {
            info.set(Field::Group, line(group, NAME_LIMIT));
        }
        info.set(Field::Part, given.part.map_or(HANDLER, Part::as_str));
        info.set(
            Field::Fingerprint,
            fingerprint(kind, &texts.stage_path, &texts.message),
        );
        if let Some(stage) = texts.stages.last() {
            if wanted(Field::ExecutingClass) {
                info.set(Field::ExecutingClass, stage.as_str());
            }
            info.set(Field::StagePath, texts.stage_path.as_str());
        }
        info.set(Field::Status, error.status().as_str());
        info.set(Field::Kind, kind);
        let attempts = error.attempts().max(given.attempts).max(1);
        info.set(Field::Attempts, i64::from(attempts));
        let elapsed = i64::try_from(error.elapsed().as_millis()).unwrap_or(i64::MAX);
        info.set(Field::ElapsedMillis, elapsed);
        if let Some(root) = texts.causes.last() {
            if wanted(Field::CauseMessage) {
                info.set(Field::CauseMessage, root.as_str());
            }
            info.set(Field::Causes, texts.cause_line());
        }
        let class = || format!("{CLASS_PREFIX}{kind}");
        if wanted(Field::Trace) {
            info.set(Field::Trace, texts.trace(&class()));
        }
        info.set(Field::Message, texts.message);
        if wanted(Field::ExceptionClass) {
            info.set(Field::ExceptionClass, class());
        }
        info.set(Field::FailedAt, failed_at);
        info.set(Field::Version, env!("CARGO_PKG_VERSION"));
        info
    }

    /// What `field` says.
    pub fn get(&self, field: Field) -> Option<&Fact> {
        self.facts.get(&field)
    }

    /// What `field` says, if that is a text.
    pub fn text(&self, field: Field) -> Option<&str> {
        self.get(field).and_then(Fact::text)
    }

    /// What `field` says, if that is a number.
    pub fn number(&self, field: Field) -> Option<i64> {
        self.get(field).and_then(Fact::number)
    }

    /// Lets `field` say `fact`. A dialect whose header cannot hold it leaves it out.
    pub fn set(&mut self, field: Field, fact: impl Into<Fact>) {
        self.facts.insert(field, fact.into());
    }

    /// Lets `field` say nothing any more; what it said.
    pub fn remove(&mut self, field: Field) -> Option<Fact> {
        self.facts.remove(&field)
    }

    /// Every field that says something.
    pub fn iter(&self) -> impl Iterator<Item = (Field, &Fact)> {
        self.facts.iter().map(|(field, fact)| (*field, fact))
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.facts.is_empty()
    }

    /// The topic the record was consumed from.
    pub fn topic(&self) -> Option<&str> {
        self.text(Field::Topic)
    }

    /// The partition it was consumed from.
    pub fn partition(&self) -> Option<i32> {
        self.number(Field::Partition)
            .and_then(|partition| partition.try_into().ok())
    }

    /// Its offset there.
    pub fn offset(&self) -> Option<i64> {
        self.number(Field::Offset)
    }

    /// Its timestamp: a time of an unknown type counts as the producer's.
    pub fn timestamp(&self) -> Timestamp {
        match (
            self.number(Field::Timestamp),
            self.text(Field::TimestampType),
        ) {
            (None, _) | (_, Some("NoTimestampType")) => Timestamp::NotAvailable,
            (Some(millis), Some("LogAppendTime")) => Timestamp::LogAppendTime(millis),
            (Some(millis), _) => Timestamp::CreateTime(millis),
        }
    }

    fn set_timestamp(&mut self, timestamp: Timestamp) {
        let millis = timestamp.millis().filter(|millis| *millis >= 0);
        let known = millis.map_or(Timestamp::NotAvailable, |_| timestamp);
        self.set(Field::TimestampType, known.type_name());
        if let Some(millis) = millis {
            self.set(Field::Timestamp, millis);
        }
    }

    /// The consumer group that gave the record up.
    pub fn group(&self) -> Option<&str> {
        self.text(Field::Group)
    }

    /// Which half of the record could not be read; `None` too when its handler failed.
    pub fn part(&self) -> Option<Part> {
        let part = self.text(Field::Part)?;
        [Part::Key, Part::Value]
            .into_iter()
            .find(|known| known.as_str() == part)
    }

    /// The stages the error passed, outermost first.
    pub fn stage_path(&self) -> Option<&str> {
        self.text(Field::StagePath)
    }

    /// Whether trying again would have helped.
    pub fn status(&self) -> Option<Status> {
        self.text(Field::Status).and_then(Status::from_name)
    }

    /// What went wrong; also where a dialect has it as an exception class of ours.
    pub fn kind(&self) -> Option<ErrorKind> {
        let class = || {
            self.text(Field::ExceptionClass)
                .and_then(|class| class.strip_prefix(CLASS_PREFIX))
        };
        self.text(Field::Kind)
            .or_else(class)
            .and_then(ErrorKind::from_name)
    }

    /// How often it was tried: calls of the failing stage, else deliveries of a retry topic.
    pub fn attempts(&self) -> Option<u32> {
        [
            Field::Attempts,
            Field::RetryAttempts,
            Field::DeliveryAttempt,
        ]
        .into_iter()
        .find_map(|field| self.number(field))
        .and_then(|attempts| attempts.try_into().ok())
    }

    /// How long its retry went on.
    pub fn elapsed(&self) -> Option<Duration> {
        let millis = self.number(Field::ElapsedMillis)?;
        millis.try_into().ok().map(Duration::from_millis)
    }

    /// What went wrong, in words.
    pub fn message(&self) -> Option<&str> {
        self.text(Field::Message)
    }

    /// The messages of all causes, outermost first, in one line.
    pub fn causes(&self) -> Option<&str> {
        self.text(Field::Causes)
    }

    /// A hash of what went wrong; see [`fingerprint`](super::fingerprint()).
    pub fn fingerprint(&self) -> Option<&str> {
        self.text(Field::Fingerprint)
    }

    /// When the record was given up, in milliseconds since the Unix epoch.
    pub fn failed_at(&self) -> Option<i64> {
        self.number(Field::FailedAt)
    }

    /// The size in bytes of the value, if it was too large and left out of the dead letter.
    pub fn value_left_out(&self) -> Option<u64> {
        let size = self.number(Field::ValueLeftOut)?;
        size.try_into().ok()
    }

    /// Cuts texts to [`SHORT_LIMIT`] and drops those that only help to understand.
    pub(super) fn shorten(&mut self) {
        for field in [
            Field::Causes,
            Field::CauseMessage,
            Field::CauseClass,
            Field::Trace,
            Field::KeyTrace,
            Field::Version,
        ] {
            self.remove(field);
        }
        // A cut topic or group would name another one.
        let whole = |field| matches!(field, Field::Topic | Field::Group);
        for (field, fact) in &mut self.facts {
            if let (Fact::Text(text), false) = (fact, whole(*field)) {
                *text = line(&*text, SHORT_LIMIT);
            }
        }
    }
}
