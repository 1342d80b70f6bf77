use super::item::DelayId;
use std::borrow::Cow;

/// What became of a record that was to be cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// It waited or was dead, and is gone.
    Removed,
    /// It is gone, but a worker has it and may deliver it.
    InFlight,
    /// There is none of this id.
    Unknown,
}

/// What became of a record that was to get another time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rescheduled {
    /// It waits until this instant, in milliseconds since the epoch.
    At(i64),
    /// A worker has it: nothing was changed.
    InFlight,
    /// There is none of this id.
    Unknown,
}

/// Which records to list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Listed {
    /// Those that wait, by when they are due.
    #[default]
    Waiting,
    /// Those that a worker has, by when the lease ends.
    InFlight,
    /// Those that had no attempts left, by when they died.
    Dead,
}

/// Where a page ended.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    /// The time of its last record, in milliseconds since the epoch.
    pub at: i64,
    /// The id of its last record.
    pub id: DelayId,
}

/// A page that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// Which records.
    pub listed: Listed,
    /// Where the page before ended; `None` for the first.
    pub after: Option<Cursor>,
    /// At most this many, 1 to 1,000; what is out of range is moved into it.
    pub limit: usize,
}

impl Listing {
    /// The limit, within its range.
    pub fn limit(&self) -> usize {
        self.limit.clamp(1, 1_000)
    }
}

/// Why a record is dead. It quotes no payload.
pub type DeadReason = Cow<'static, str>;

/// One page of records by time, then id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Time and id of each record, and for dead ones why.
    pub items: Vec<(Cursor, Option<DeadReason>)>,
    /// Where to go on; `None` when this page was the last.
    pub next: Option<Cursor>,
}

/// Counts of a store, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// How many records wait.
    pub waiting: u64,
    /// How many a worker has.
    pub in_flight: u64,
    /// How many had no attempts left.
    pub dead: u64,
    /// When the earliest waiting record is due, or a little earlier, in milliseconds since the
    /// epoch.
    pub next_due: Option<i64>,
    /// How many were scheduled, replacements included, since the store was made.
    pub scheduled: u64,
    /// How many were completed.
    pub completed: u64,
    /// How often a record was claimed again after its lease had ended.
    pub expired: u64,
    /// How often a lease was stale.
    pub stale: u64,
    /// How many records a claim gave out before they were due. Anything but 0 is a bug.
    pub early: u64,
}
