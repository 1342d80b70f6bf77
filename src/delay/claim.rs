use super::item::DelayId;
use crate::error::{Error, Result};
use crate::record::OutgoingRecord;
use std::borrow::Cow;
use std::time::Duration;

/// How many records one claim may take.
pub const MAX_CLAIM: usize = 256;

/// What a worker asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// At most this many records, 1 to [`MAX_CLAIM`].
    pub max: usize,
    /// How long they are the worker's, at least 1 ms: longer than it takes to publish them.
    pub lease: Duration,
}

/// Refuses a claim that is out of range.
///
/// # Errors
/// Kind [`Config`](crate::ErrorKind::Config).
pub fn check_claim(claim: Claim) -> Result<()> {
    if claim.max == 0 || claim.max > MAX_CLAIM {
        return Err(Error::config("a claim takes 1 to 256 records"));
    }
    if claim.lease < Duration::from_millis(1) {
        return Err(Error::config("a lease is at least 1 ms"));
    }
    Ok(())
}

/// The right to finish one record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The record.
    pub id: DelayId,
    /// The fencing token of the claim; later claims have larger ones.
    pub token: u64,
}

/// A record that was claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// The right to finish it.
    pub lease: Lease,
    /// When it was due, in milliseconds since the epoch.
    pub deliver_at: i64,
    /// Which attempt this is; 1 is the first.
    pub attempt: u32,
    /// What is to be delivered.
    pub record: OutgoingRecord,
}

/// The answer to a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Due {
    /// What was claimed, earliest first.
    pub items: Vec<Claimed>,
    /// The store's time at the claim, rounded down, in milliseconds since the epoch.
    pub now: i64,
    /// The next instant at which there may be something to claim: a record falls due, or a lease
    /// ends. In the past when more is due already; `None` when the store is empty.
    pub next: Option<i64>,
}

/// What became of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finished {
    /// As asked.
    Done,
    /// Nothing: the record was claimed again, replaced, or is gone.
    Stale,
}

/// How a failed attempt counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// Not at all: the failure was not the record's, such as an outage of what it is published to.
    Free,
    /// As one of [`Limits::max_attempts`](super::Limits::max_attempts).
    Counted,
    /// As the last: the record is dead.
    Last,
}

/// A claimed record that goes back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// The right to say so.
    pub lease: Lease,
    /// How long it waits now, at most [`Limits::max_delay`](super::Limits::max_delay).
    pub delay: Duration,
    /// How the attempt counts.
    pub attempt: Attempt,
    /// Why, for whoever looks at the dead; no payload. Cut at 512 bytes.
    pub reason: Cow<'static, str>,
}

/// The reason on a record that was claimed too often without being finished.
pub(crate) const LEASES_ENDED: &str = "its leases ended unfinished";

/// At most 512 bytes of a reason.
pub(crate) fn cut_reason(reason: Cow<'static, str>) -> Cow<'static, str> {
    let mut end = reason.len().min(512);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    match reason.get(..end) {
        Some(start) if end < reason.len() => Cow::Owned(start.to_owned()),
        _ => reason,
    }
}

/// What became of a record that was given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// It waits again until this instant, in milliseconds since the epoch.
    Waiting(i64),
    /// It is dead: it had no attempts left.
    Dead,
    /// Nothing: its lease has ended or it was replaced.
    Stale,
}
