//! A failure becomes the record that goes to a dead-letter topic.

use bytes::Bytes;
use std::borrow::Cow;

use crate::error::Result;
use crate::headers::{HeaderView, Headers};
use crate::outcome::Failure;
use crate::record::{OutgoingRecord, Timestamp};

use super::dialects::{Dialect, VALUE_LEFT_OUT};
use super::event;
use super::fact::{Field, Role};
use super::info::{DeadLetterInfo, GivenUp};
use super::read::{Which, raw};
use super::router::{DEFAULT_DESTINATION, destination};
use super::translate::told;

/// What becomes of the origin headers of a record that is a dead letter already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Originals {
    /// Those of the first failure stay, and each name occurs once. They are believed only when
    /// topic, partition and offset are all there and in range.
    #[default]
    First,
    /// Each failure adds its own behind the older ones, as the frameworks of the dialects do: Spring
    /// its originals, Connect, Streams and SmallRye all of theirs. The headers grow with each turn.
    Append,
}

/// The timestamp of a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimestampPolicy {
    /// When it is written: a topic's retention counts from the failure.
    Publish,
    /// The consumed record's, when it has one after the epoch; else when it is written.
    Source,
}

impl Originals {
    /// Every choice.
    pub const ALL: [Originals; 2] = [Originals::First, Originals::Append];

    /// The name in properties.
    pub const fn as_str(self) -> &'static str {
        match self {
            Originals::First => "first",
            Originals::Append => "append",
        }
    }

    /// The choice with this name, if there is one.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|choice| choice.as_str() == name)
    }
}

impl TimestampPolicy {
    /// Every policy.
    pub const ALL: [TimestampPolicy; 2] = [TimestampPolicy::Publish, TimestampPolicy::Source];

    /// The value of `dead.letter.timestamp`.
    pub const fn as_str(self) -> &'static str {
        match self {
            TimestampPolicy::Publish => "publish",
            TimestampPolicy::Source => "source",
        }
    }

    /// The policy with this name, if there is one.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.as_str() == name)
    }
}

/// How much of a dead letter is written: the steps for one that is too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rung {
    /// All of it.
    Full,
    /// No causes, no stack trace, and no text longer than [`SHORT_LIMIT`](super::SHORT_LIMIT).
    Shortened,
    /// The same, with an empty value; the header `kafka-chain-value-left-out` has its size in bytes,
    /// and the coordinates tell where it still is. Empty and not null: a compacted topic would take
    /// null for a deletion.
    WithoutValue,
}

impl Rung {
    /// From the whole to the least.
    pub const ALL: [Rung; 3] = [Rung::Full, Rung::Shortened, Rung::WithoutValue];
}

/// How failures become dead letters. See [the module](super).
#[derive(Clone, Debug)]
#[must_use]
pub struct DeadLetters {
    dialects: Vec<Dialect>,
    group: Option<String>,
    destination: String,
    originals: Originals,
    own_headers: bool,
    timestamp: Option<TimestampPolicy>,
}

impl Default for DeadLetters {
    fn default() -> Self {
        DeadLetters {
            dialects: vec![Dialect::default()],
            group: None,
            destination: DEFAULT_DESTINATION.to_owned(),
            originals: Originals::default(),
            own_headers: true,
            timestamp: None,
        }
    }
}

impl DeadLetters {
    /// Dead letters in the dialect of this crate, to [`DEFAULT_DESTINATION`].
    pub fn new() -> Self {
        Self::default()
    }

    /// The dialects to write, in this order; none at all writes no headers.
    pub fn dialects(mut self, dialects: impl IntoIterator<Item = Dialect>) -> Self {
        self.dialects.clear();
        for dialect in dialects {
            if !self.dialects.contains(&dialect) {
                self.dialects.push(dialect);
            }
        }
        self
    }

    /// The consumer group that gives records up.
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.group = Some(group.into());
        self
    }

    /// The template of the topic to write to; see [`destination`].
    pub fn to(mut self, template: impl Into<String>) -> Self {
        self.destination = template.into();
        self
    }

    /// What becomes of a dead letter's older origin headers.
    pub fn originals(mut self, originals: Originals) -> Self {
        self.originals = originals;
        self
    }

    /// Leaves the record's own headers out, as Kafka Streams did at first and share groups do.
    pub fn without_own_headers(mut self) -> Self {
        self.own_headers = false;
        self
    }

    /// The timestamp of dead letters. Unless said, it is [`TimestampPolicy::Publish`], but
    /// [`TimestampPolicy::Source`] when all dialects are of Connect and Streams, which copy it.
    pub fn timestamp(mut self, policy: TimestampPolicy) -> Self {
        self.timestamp = Some(policy);
        self
    }

    /// The dead letter of `failure`, given up at `now` (milliseconds since the Unix epoch).
    ///
    /// The partition is left open; see [`partition`](super::partition()).
    ///
    /// # Errors
    /// Those of [`destination`].
    pub fn full(&self, failure: &Failure, now: i64) -> Result<OutgoingRecord> {
        self.rung(&failure.into(), Rung::Full, now)
    }

    /// The same for when [`full`](DeadLetters::full) was too large; see [`Rung::Shortened`].
    ///
    /// # Errors
    /// Those of [`destination`].
    pub fn shortened(&self, failure: &Failure, now: i64) -> Result<OutgoingRecord> {
        self.rung(&failure.into(), Rung::Shortened, now)
    }

    /// The same for when [`shortened`](DeadLetters::shortened) was too large; see
    /// [`Rung::WithoutValue`].
    ///
    /// # Errors
    /// Those of [`destination`].
    pub fn without_value(&self, failure: &Failure, now: i64) -> Result<OutgoingRecord> {
        self.rung(&failure.into(), Rung::WithoutValue, now)
    }

    /// As much as `rung` says of the dead letter of a record given up at `now` (milliseconds since
    /// the Unix epoch). The partition is left open; see [`partition`](super::partition()).
    ///
    /// # Errors
    /// Those of [`destination`].
    pub fn rung(&self, given: &GivenUp<'_>, rung: Rung, now: i64) -> Result<OutgoingRecord> {
        let topic = self.topic_of(&given.record.topic)?;
        Ok(self.rung_to(topic, given, rung, now))
    }

    /// The topic of the dead letters of `topic`.
    ///
    /// # Errors
    /// Those of [`destination`].
    pub fn topic_of(&self, topic: &str) -> Result<String> {
        destination(&self.destination, topic, self.group.as_deref())
    }

    /// As [`rung`](DeadLetters::rung), to a topic that somebody else chose; see
    /// [`check_destination`](super::check_destination).
    pub fn rung_to(
        &self,
        topic: String,
        given: &GivenUp<'_>,
        rung: Rung,
        now: i64,
    ) -> OutgoingRecord {
        let record = given.record;
        let mut info = DeadLetterInfo::of_given_up(given, self.group.as_deref(), now);
        if rung != Rung::Full {
            info.shorten();
        }
        let own = record.headers.view();
        let (value, left_out) = match &record.value {
            Some(bytes) if bytes.is_empty() => {
                // It may have been left out at an earlier failure, and still is.
                let before = own.get_last(VALUE_LEFT_OUT.name);
                let before = before.and_then(|size| VALUE_LEFT_OUT.decode(size));
                (record.value.clone(), before)
            }
            Some(bytes) if rung == Rung::WithoutValue => {
                let size = i64::try_from(bytes.len()).unwrap_or(i64::MAX);
                (Some(Bytes::new()), Some(size.into()))
            }
            value => (value.clone(), None),
        };
        if let Some(left_out) = left_out {
            info.set(Field::ValueLeftOut, left_out);
        }
        OutgoingRecord {
            topic,
            partition: None,
            key: record.key.clone(),
            value,
            headers: self.headers(own, &info),
            timestamp: self.timestamp_of(record.timestamp),
        }
    }

    /// The timestamp of the dead letter of a record with this one; `None` is when it is written.
    pub fn timestamp_of(&self, source: Timestamp) -> Option<i64> {
        let copies = |dialect: &Dialect| matches!(dialect, Dialect::Connect | Dialect::Streams);
        let copied = !self.dialects.is_empty() && self.dialects.iter().all(copies);
        let policy = self.timestamp.unwrap_or(if copied {
            TimestampPolicy::Source
        } else {
            TimestampPolicy::Publish
        });
        match policy {
            TimestampPolicy::Publish => None,
            TimestampPolicy::Source => source.millis().filter(|millis| *millis > 0),
        }
    }

    /// The headers of a dead letter: the record's `own` without those that are written anew, then
    /// what `info` says in each dialect.
    pub fn headers(&self, own: HeaderView<'_>, info: &DeadLetterInfo) -> Headers {
        let mut out = Headers::with_capacity(own.len() + 16 * self.dialects.len());
        if self.own_headers {
            for (name, value) in own.iter().filter(|(name, _)| !self.replaces(name)) {
                let value = value.map(Bytes::copy_from_slice);
                out.push(Bytes::copy_from_slice(name), value);
            }
        }
        for dialect in &self.dialects {
            let told = told(*dialect, self.with_first_origin(*dialect, own, info));
            if *dialect == Dialect::CloudEvents {
                let own = if self.own_headers {
                    own
                } else {
                    HeaderView::empty()
                };
                event::add_attributes(&mut out, own, &told);
            }
            for header in dialect.headers() {
                if header.role == Role::Foreign {
                    continue;
                }
                let fact = told.get(header.field);
                match fact.map(|fact| header.encoding.encode(fact)) {
                    Some(Some(value)) => out.push(header.name, Some(value)),
                    None if header.null_when_absent => out.push(header.name, None::<Bytes>),
                    // Nothing to tell, or nothing that this encoding could hold.
                    None | Some(None) => {}
                }
            }
        }
        let size = info.get(Field::ValueLeftOut);
        if let Some(size) = size.and_then(|size| VALUE_LEFT_OUT.encoding.encode(size)) {
            out.push(VALUE_LEFT_OUT.name, Some(size));
        }
        out
    }

    /// Whether a header of this name is written anew.
    fn replaces(&self, name: &[u8]) -> bool {
        name == VALUE_LEFT_OUT.name.as_bytes()
            || self
                .dialects
                .iter()
                .filter_map(|dialect| Some((dialect, dialect.header_named(name)?)))
                .any(|(dialect, header)| match self.originals {
                    Originals::First => header.role != Role::Foreign,
                    Originals::Append => {
                        header.role != Role::Foreign && !dialect.repeats(header.role)
                    }
                })
    }

    /// `info`, but from where the record came when it failed first, if its `own` headers tell.
    fn with_first_origin<'i>(
        &self,
        dialect: Dialect,
        own: HeaderView<'_>,
        info: &'i DeadLetterInfo,
    ) -> Cow<'i, DeadLetterInfo> {
        if self.originals == Originals::Append {
            return Cow::Borrowed(info);
        }
        let first = raw(dialect, own, Which::Oldest);
        let whole = [Field::Topic, Field::Partition, Field::Offset]
            .into_iter()
            .all(|field| first.get(field).is_some() || info.get(field).is_none());
        if first.topic().is_none() || !whole {
            return Cow::Borrowed(info);
        }
        let mut info = info.clone();
        for header in dialect.headers() {
            if header.role == Role::Origin {
                info.remove(header.field);
                if let Some(fact) = first.get(header.field) {
                    info.set(header.field, fact.clone());
                }
            }
        }
        Cow::Owned(info)
    }
}
