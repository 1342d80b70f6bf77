use crate::error::{Error, Result};
use crate::record::OutgoingRecord;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The latest instant there is, in milliseconds since the epoch: 2⁵³ − 1, the largest integer that
/// a sorted set of Redis orders exactly. It is the year 287396.
pub const MAX_INSTANT: i64 = (1 << 53) - 1;

/// How many items one call may schedule; a longer batch is split by the store.
pub const MAX_SCHEDULE: usize = 500;

/// The longest id, in bytes.
const MAX_ID: usize = 128;

/// What names a delayed record in its store: 1 to 128 bytes of text without control characters.
///
/// A record without one gets a fresh one, so that two records with equal bytes are two deliveries.
/// A given id makes scheduling idempotent: see [`OnDuplicate`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DelayId(Arc<str>);

impl DelayId {
    /// An id of this text.
    ///
    /// # Errors
    /// Permanent when the text is empty, longer than 128 bytes or has control characters.
    pub fn new(text: impl AsRef<str>) -> Result<Self> {
        let text = text.as_ref();
        if text.is_empty() || text.len() > MAX_ID || text.chars().any(char::is_control) {
            return Err(Error::schema(
                "a delay id is 1 to 128 bytes of text without control characters",
            ));
        }
        Ok(DelayId(Arc::from(text)))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DelayId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for DelayId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DelayId({})", self.0)
    }
}

/// Makes ids that no other source makes, in the order of time and, from one source, of asking.
#[derive(Debug)]
pub struct IdSource {
    instance: u64,
    made: AtomicU32,
}

impl IdSource {
    /// A source whose ids end in 48 bits of `seed`. Two sources with the same seed may make the
    /// same id.
    pub fn new(seed: u64) -> Self {
        IdSource {
            instance: seed & 0xffff_ffff_ffff,
            made: AtomicU32::new(0),
        }
    }

    /// A source with an instance by chance.
    pub fn random() -> Self {
        IdSource::new(rand::random())
    }

    /// A fresh id: 48 bits of `now` (milliseconds since the epoch), a counter, the instance; as 22
    /// characters that sort as the bits do.
    pub fn next(&self, now: i64) -> DelayId {
        let time = (now.max(0) as u128) & 0xffff_ffff_ffff;
        let count = u128::from(self.made.fetch_add(1, Ordering::Relaxed));
        spell((time << 80) | (count << 48) | u128::from(self.instance))
    }
}

/// The digits of an id that was made, in the order of their bytes.
const DIGITS: &[u8; 64] = b"-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz";

/// The id of these bits; ids sort as their bits do.
pub(crate) fn spell(bits: u128) -> DelayId {
    let text: String = (0..22)
        .rev()
        .filter_map(|digit| DIGITS.get(((bits >> (6 * digit)) & 63) as usize))
        .map(|digit| char::from(*digit))
        .collect();
    DelayId(Arc::from(text))
}

/// The bits that [`spell`] made the id of; `None` when it made no such id.
#[cfg(feature = "embedded")]
pub(crate) fn bits_of(id: &DelayId) -> Option<u128> {
    let digits = id.0.as_bytes();
    if digits.len() != 22 {
        return None;
    }
    let mut bits = 0_u128;
    for (place, digit) in digits.iter().enumerate() {
        let digit = u128::try_from(DIGITS.binary_search(digit).ok()?).ok()?;
        // 22 digits have room for four bits more than there are.
        if place == 0 && digit > 3 {
            return None;
        }
        bits = (bits << 6) | digit;
    }
    Some(bits)
}

/// When a record is to be delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Not before this instant, in milliseconds since the epoch. One that has passed is due now.
    At(i64),
    /// Not before this much has passed since the store took the record; what exceeds a whole
    /// millisecond is rounded up.
    After(Duration),
}

impl When {
    /// Reads an instant as headers carry it: milliseconds since the epoch in decimal ASCII digits.
    /// One with a minus sign lies before 1970 and is due now.
    ///
    /// # Errors
    /// Permanent when it is no whole number, or one beyond the range of 64 bits.
    pub fn parse_at(text: &[u8]) -> Result<Self> {
        parse(text).map(When::At)
    }

    /// Reads a delay as headers carry it: milliseconds in decimal ASCII digits.
    ///
    /// # Errors
    /// Permanent when it is negative, no whole number, or one beyond the range of 64 bits.
    pub fn parse_after(text: &[u8]) -> Result<Self> {
        match u64::try_from(parse(text)?) {
            Ok(millis) => Ok(When::After(Duration::from_millis(millis))),
            Err(_) => Err(Error::malformed("a delay must not be negative")),
        }
    }

    /// The instant in milliseconds since the epoch, in `0..=MAX_INSTANT`, given the time rounded up.
    ///
    /// # Errors
    /// Permanent when it is more than `max_delay` away.
    pub fn resolve(self, now_rounded_up: i64, max_delay: Duration) -> Result<i64> {
        let max = millis(max_delay);
        let at = match self {
            When::At(at) => at.max(0),
            When::After(delay) => now_rounded_up.saturating_add(millis(delay)).max(0),
        };
        if at.saturating_sub(now_rounded_up) > max || at > MAX_INSTANT {
            return Err(too_far(max));
        }
        Ok(at)
    }
}

/// The error for a record whose time is beyond the maximum, in milliseconds.
pub(crate) fn too_far(max: i64) -> Error {
    Error::schema(format!(
        "the time of delivery is further away than the maximum delay of {max} ms"
    ))
}

/// The error for an id that is taken.
pub(crate) fn taken() -> Error {
    Error::schema("the id is taken")
}

/// The error of a store that is full.
pub(crate) fn full() -> Error {
    Error::unavailable("the store of delayed records is full")
}

/// Whole milliseconds, rounded up, within the range of instants.
pub(crate) fn millis(duration: Duration) -> i64 {
    let up = duration.saturating_add(Duration::from_nanos(999_999));
    i64::try_from(up.as_millis()).map_or(MAX_INSTANT, |millis| millis.min(MAX_INSTANT))
}

fn parse(text: &[u8]) -> Result<i64> {
    let text = std::str::from_utf8(text).ok();
    let digits = text.map(|text| text.strip_prefix('-').unwrap_or(text));
    match (text, digits) {
        (Some(text), Some(digits)) if digits.bytes().all(|b| b.is_ascii_digit()) => text
            .parse()
            .map_err(|_| Error::malformed("a number of milliseconds is empty or beyond 64 bits")),
        _ => Err(Error::malformed(
            "a number of milliseconds must be decimal digits",
        )),
    }
}

/// What to do with a record whose id the store already has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDuplicate {
    /// The one that is there stays: scheduling again after a lost answer does no harm.
    #[default]
    Keep,
    /// The new record and its time take the place of the old, in flight or dead too; a worker that
    /// still has the old one may deliver it, but cannot finish the new one.
    Replace,
    /// As [`Replace`](OnDuplicate::Replace) when the new time is earlier than that of a waiting
    /// record; a record in flight stays, a dead one is replaced.
    Earliest,
    /// The new record is refused.
    Refuse,
}

/// A record and when to deliver it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delayed {
    /// Its id; `None` makes a fresh one.
    pub id: Option<DelayId>,
    /// When it is to be delivered.
    pub when: When,
    /// What is to be delivered.
    pub record: OutgoingRecord,
    /// What to do when the store has this id already.
    pub on_duplicate: OnDuplicate,
}

impl Delayed {
    /// `record` with a fresh id.
    pub fn new(when: When, record: OutgoingRecord) -> Self {
        Delayed {
            id: None,
            when,
            record,
            on_duplicate: OnDuplicate::Keep,
        }
    }

    /// The same under this id.
    #[must_use]
    pub fn with_id(mut self, id: DelayId, on_duplicate: OnDuplicate) -> Self {
        self.id = Some(id);
        self.on_duplicate = on_duplicate;
        self
    }
}

/// What became of a record that was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduled {
    /// It waits.
    New,
    /// Its id was there; the one that was there stays.
    Kept,
    /// Its id was there; it took the other's place.
    Replaced,
}

/// The answer for a record that was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// Its id.
    pub id: DelayId,
    /// When what the store now holds under this id is due, in milliseconds since the epoch.
    pub deliver_at: i64,
    /// What became of it.
    pub scheduled: Scheduled,
}

/// What an accepted record survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Durability {
    /// Nothing: it dies with this process.
    Process,
    /// A crash of the store's process or machine: it is on disk, or on as many machines as the
    /// store was told, before the answer.
    Synced,
    /// A crash of the store, unless it was accepted less than this long before.
    Window(Duration),
    /// No restart of the store.
    StoreProcess,
    /// The store would not say.
    Unknown,
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Durability::Process => f.write_str("lost when this process ends"),
            Durability::Synced => f.write_str("on disk before it is answered"),
            Durability::Window(window) => {
                write!(f, "a crash loses what the last {window:?} brought")
            }
            Durability::StoreProcess => f.write_str("lost when the store's process ends"),
            Durability::Unknown => f.write_str("not known: the store would not say"),
        }
    }
}

/// The bounds of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The furthest a record may be delayed; 366 days unless set, at most 100 years.
    pub max_delay: Duration,
    /// How many records it holds, waiting, in flight and dead; 1,000,000 unless set.
    pub capacity: usize,
    /// How often a record may be claimed before it is dead; 16 unless set, at least 1.
    pub max_attempts: u32,
    /// The largest record, encoded, in bytes; 1 MiB and 64 KiB for headers unless set.
    pub max_record_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        const DAY: u64 = 24 * 60 * 60;
        Limits {
            max_delay: Duration::from_secs(366 * DAY),
            capacity: 1_000_000,
            max_attempts: 16,
            max_record_bytes: (1 << 20) + (64 << 10),
        }
    }
}

impl Limits {
    /// Refuses limits that make no sense.
    ///
    /// # Errors
    /// Kind [`Config`](crate::ErrorKind::Config), with the name of the limit.
    pub fn check(&self) -> Result<()> {
        const CENTURY: Duration = Duration::from_secs(36_525 * 24 * 60 * 60);
        if self.max_delay > CENTURY {
            return Err(Error::config("max_delay is more than 100 years"));
        }
        if self.capacity == 0 || self.capacity > u32::MAX as usize - 1 {
            return Err(Error::config("capacity is not in 1..=4294967294"));
        }
        if self.max_attempts == 0 {
            return Err(Error::config("max_attempts is 0"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
