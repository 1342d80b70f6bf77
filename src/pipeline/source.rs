//! What a worker needs of the world: records of one partition, and a place for what failed.

use super::state::PauseReason;
use super::verdict::Verdict;
use crate::answer::BoxFuture;
use crate::error::{Error, Result};
use crate::record::{OutgoingRecord, OwnedRecord, Part, Record};
use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// A record as its transport holds it.
///
/// A worker lets go of it when it is finished or has failed for the first time, whichever is earlier:
/// what is held for long is a copy.
pub trait SourceRecord: Send + Sync + 'static {
    /// The record.
    fn record(&self) -> Record<'_>;

    /// Whether its headers could be read; if not, it shows none.
    fn has_readable_headers(&self) -> bool {
        true
    }
}

impl SourceRecord for OwnedRecord {
    fn record(&self) -> Record<'_> {
        self.as_record()
    }
}

/// What a record counts besides its key, value and headers.
const RECORD_BYTES: usize = 128;

/// What a record takes in memory, roughly.
pub(super) fn weight(record: &Record<'_>) -> usize {
    let bytes = |part: Option<&[u8]>| part.map_or(0, <[u8]>::len);
    let headers = record.headers.iter();
    let headers = headers.map(|(name, value)| name.len() + bytes(value) + RECORD_BYTES / 2);
    RECORD_BYTES + bytes(record.key) + bytes(record.value) + headers.sum::<usize>()
}

/// How much a worker takes at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// At most this many records, at least one.
    pub records: usize,
    /// The record that reaches this many bytes is the last; at least one.
    pub bytes: usize,
}

/// What a source answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// At least one record was added.
    Records,
    /// No record was added, and none below this offset comes any more: the end of what is there,
    /// transaction markers included.
    Position(i64),
    /// Nothing comes any more.
    Over,
}

/// The records of one partition in one ownership.
///
/// Offsets rise, but what was handed out may come again after a pause of the client's own: a worker
/// drops it.
pub trait PartitionSource: Send + 'static {
    /// What it hands out.
    type Record: SourceRecord;

    /// Adds records to `into`, or has the task woken when there are some. Not taking is how a worker
    /// pushes back: the source buffers within its own bounds and fetches no further.
    fn poll_take(
        &mut self,
        cx: &mut Context<'_>,
        room: Room,
        into: &mut Vec<Self::Record>,
    ) -> Poll<Taken>;
}

/// Where a record failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// In the chain of its key or of its value.
    Chain(Part),
    /// In the handler.
    Handler,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Chain(part) => part.fmt(f),
            Origin::Handler => f.write_str("handler"),
        }
    }
}

/// A record that failed, as consumed, and why. Cloning it copies no payload.
#[derive(Clone, Debug)]
pub struct Failed {
    /// The record, byte for byte.
    pub record: Arc<OwnedRecord>,
    /// Where it failed.
    pub origin: Origin,
    /// Why; its attempts and elapsed time are those of the last try.
    pub error: Arc<Error>,
    /// How often it was tried in all, probes included.
    pub attempts: u32,
}

/// Where something is written before its record is finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Destination {
    /// To the dead-letter topic.
    DeadLetter,
    /// To where it comes again from, later.
    Delayed,
    /// To where its handler sends what it made of it.
    Output,
    /// Any of these, in the transaction that also commits the record's offset.
    Transaction,
}

impl Destination {
    /// The stable lower-case name used in events and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Destination::DeadLetter => "dead-letter",
            Destination::Delayed => "delayed",
            Destination::Output => "output",
            Destination::Transaction => "transaction",
        }
    }
}

/// What a handler sent for one record.
#[derive(Clone, Copy, Debug)]
pub struct Sent<'a> {
    /// The record as consumed.
    pub record: &'a Record<'a>,
    /// How often it was handled.
    pub attempts: u32,
    /// What is to be written, in order.
    pub outputs: &'a Arc<[OutgoingRecord]>,
}

/// What became of a record that was to be written elsewhere.
#[derive(Debug)]
pub enum Written {
    /// It is there, durably (or staged for the transaction that also commits its offset).
    Acknowledged,
    /// It is not there: the partition holds the record and tries again.
    Held(Error),
    /// Of several outputs all but these are there: the partition holds the record and tries these again.
    Partly(Arc<[OutgoingRecord]>, Error),
    /// It is not there and never will be, for what it is: of a handler's outputs, the consumed record
    /// has failed and is judged; instead of a copy for later its dead letter is written; a dead letter
    /// is held.
    Failed(Error),
    /// It is not there, and the pipeline is to stop.
    Refused(Error),
}

/// What a worker does besides handling. Cheap to call; the futures run beside the records that follow.
pub trait Effects: Send + Sync + 'static {
    /// Writes the record to its dead-letter topic.
    fn dead_letter(&self, failed: &Failed) -> BoxFuture<'static, Written>;

    /// Writes what a handler made of a record. Without a place for that, the pipeline stops.
    fn outputs(&self, sent: &Sent<'_>) -> BoxFuture<'static, Written> {
        let _ = sent;
        Box::pin(std::future::ready(Written::Refused(Error::config(
            "the handler sends records, but nothing is there to write them",
        ))))
    }

    /// Has the record delivered again, not before `wait` from now. Without a place for that, the
    /// pipeline stops.
    fn delay(&self, failed: &Failed, wait: Duration) -> BoxFuture<'static, Written> {
        let _ = (failed, wait);
        Box::pin(std::future::ready(Written::Refused(Error::config(
            "the policy delays records, but nothing is there to deliver them later",
        ))))
    }

    /// Called before the first record, once an ownership; nothing is taken before it is done.
    ///
    /// # Errors
    /// Any stops the pipeline.
    fn assigned(&self) -> BoxFuture<'static, Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Something worth knowing happened. It learns what was decided and changes nothing.
    fn event(&self, event: Event<'_>) {
        let _ = event;
    }
}

/// What a worker tells.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The record was handled.
    Handled {
        /// Its offset.
        offset: i64,
    },
    /// The record failed and was judged.
    Judged {
        /// The record and why.
        failed: &'a Failed,
        /// What is done with it.
        verdict: Verdict,
    },
    /// The partition pauses.
    Paused {
        /// The record that is tried again.
        offset: i64,
        /// Why.
        reason: PauseReason,
    },
    /// The partition pauses no longer.
    Resumed {
        /// Whether a user said so.
        by_user: bool,
    },
    /// A dead letter, a copy for later or an output is written.
    Written {
        /// The record's offset.
        offset: i64,
        /// Where.
        to: Destination,
        /// The record that failed, and why; `None` of an output.
        failed: Option<&'a Failed>,
    },
    /// A dead letter, a copy for later or an output could not be written.
    Unwritten {
        /// The record's offset.
        offset: i64,
        /// Where to.
        to: Destination,
        /// Why.
        error: &'a Error,
    },
    /// The record was delivered before in this ownership and is dropped.
    Repeated {
        /// Its offset.
        offset: i64,
    },
}
