//! A dead letter's record as it was before it failed.

use bytes::Bytes;

use crate::headers::{HeaderView, Headers};
use crate::record::{Record, Timestamp};

use super::dialects::{Dialect, VALUE_LEFT_OUT};
use super::event;
use super::fact::{Field, Role};
use super::info::DeadLetterInfo;
use super::read::{Which, raw, read, read_as};
use super::retried::{RETRY_HEADERS, Retried, SPRING_RETRY_HEADERS};

/// The record that a dead letter was made of, as far as the dead letter tells.
///
/// Its headers are anybody's: topic and partition are names and numbers that can be, not such that
/// somebody may write to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Original {
    /// The dialects that say something.
    pub dialects: Vec<Dialect>,
    /// What the headers say of the last failure; see [`read`].
    pub info: DeadLetterInfo,
    /// The topic in which it was when it failed first.
    pub topic: Option<String>,
    /// Its partition there.
    pub partition: Option<i32>,
    /// Its offset there.
    pub offset: Option<i64>,
    /// Its timestamp there, where a header tells it, or where all dialects are of Connect and
    /// Streams, whose dead letters have it as their own.
    pub timestamp: Timestamp,
    /// Its own headers: without those of the dialects that say something, and of retries.
    pub headers: Headers,
    /// Whether its value was left out of the dead letter.
    pub value_left_out: bool,
    /// Whether the dead letter is only a pointer: a share group's that copies no records.
    pub pointer: bool,
}

impl Original {
    /// What the dead letter `record` was; `None` when its headers are no dead letter's.
    pub fn of(record: &Record<'_>) -> Option<Self> {
        let headers = record.headers;
        let (_, info) = read(headers)?;
        let dialects: Vec<Dialect> = Dialect::ALL
            .into_iter()
            .filter(|dialect| read_as(*dialect, headers).is_some())
            .collect();
        let first = first_origin(&dialects, headers).unwrap_or_else(|| info.clone());
        let copies = |dialect: &Dialect| matches!(dialect, Dialect::Connect | Dialect::Streams);
        let mut original = Original {
            topic: first.topic().map(str::to_owned),
            partition: first.partition(),
            offset: first.offset(),
            timestamp: match dialects.iter().all(copies) {
                true => record.timestamp,
                false => first.timestamp(),
            },
            headers: own_headers(&dialects, headers),
            // An empty value that was left out stays so; one that is there is not.
            value_left_out: headers.get_last(VALUE_LEFT_OUT.name).is_some()
                && record.value.is_none_or(<[u8]>::is_empty),
            pointer: dialects.contains(&Dialect::ShareGroup)
                && record.key.is_none()
                && record.value.is_none(),
            dialects,
            info,
        };
        original.before_retries(headers);
        Some(original)
    }

    /// A record that failed in a topic of retries was consumed elsewhere first.
    fn before_retries(&mut self, headers: HeaderView<'_>) {
        let Some(topic) = &self.topic else { return };
        let retry = Record {
            topic,
            headers,
            ..Record::of_value(None)
        };
        if let Some(first) = Retried::of(&retry) {
            self.timestamp = first.first_timestamp();
            self.topic = Some(first.topic);
            self.partition = Some(first.partition);
            self.offset = Some(first.offset);
        }
    }
}

/// Where the record failed first: what the dialect says that stands first on the record, if it names
/// a whole place. A dialect's names come behind those that were there.
fn first_origin(dialects: &[Dialect], headers: HeaderView<'_>) -> Option<DeadLetterInfo> {
    let whole = |info: &DeadLetterInfo| {
        info.topic().is_some() && info.partition().is_some() && info.offset().is_some()
    };
    let place = |dialect: &Dialect| {
        let names = dialect.header(Field::Topic)?.name.as_bytes();
        headers.iter().position(|(name, _)| name == names)
    };
    dialects
        .iter()
        .filter_map(|dialect| {
            let oldest = raw(*dialect, headers, Which::Oldest);
            let newest = || raw(*dialect, headers, Which::Newest);
            let info = Some(oldest).filter(whole).or_else(|| Some(newest()));
            Some((place(dialect)?, info.filter(whole)?))
        })
        .min_by_key(|(place, _)| *place)
        .map(|(_, info)| info)
}

fn own_headers(dialects: &[Dialect], headers: HeaderView<'_>) -> Headers {
    let spring = dialects.contains(&Dialect::Spring);
    let is_one = |names: &[&str], name: &[u8]| names.iter().any(|one| one.as_bytes() == name);
    let retried = headers.iter().any(|(name, _)| is_one(&RETRY_HEADERS, name));
    // What only Spring reads on its way through retry topics would make it go wrong from the start.
    let goes = |dialect: &Dialect, name: &[u8]| {
        let header = dialect.header_named(name);
        header.is_some_and(|header| header.role != Role::Foreign || *dialect == Dialect::Spring)
    };
    let event = match dialects.contains(&Dialect::CloudEvents) {
        true => event::added(headers),
        false => Vec::new(),
    };
    let mut own = Headers::with_capacity(headers.len());
    for (index, (name, value)) in headers.iter().enumerate() {
        let of_failure = name == VALUE_LEFT_OUT.name.as_bytes()
            || dialects.iter().any(|dialect| goes(dialect, name))
            || event.contains(&index);
        let of_retry = is_one(&RETRY_HEADERS, name)
            || ((spring || retried) && is_one(&SPRING_RETRY_HEADERS, name));
        if !of_failure && !of_retry {
            let value = value.map(Bytes::copy_from_slice);
            own.push(Bytes::copy_from_slice(name), value);
        }
    }
    own
}
