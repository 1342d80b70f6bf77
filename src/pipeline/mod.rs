//! The consumer loop: one worker per partition, a pure judge, a contiguous low-water mark.
//!
//! A [`worker`] takes the records of one partition from its [`PartitionSource`], has them read and
//! handled ([`Work`]: [`Single`] or [`Batch`]), [judges](judge) what fails, lets its [`Effects`] write
//! what goes elsewhere, and writes the mark of its [`Offsets`] to a cell that the [`Ledger`] commits
//! from. It knows no broker: a transport gives it records and takes its marks.

mod blocking;
mod contain;
mod control;
mod drive;
mod handler;
mod happens;
mod ledger;
#[cfg(feature = "kafka")]
mod letters;
mod offsets;
mod parts;
mod queue;
mod reader;
mod settle;
mod source;
mod state;
mod verdict;
mod work;
mod worker;

pub use blocking::{Blocking, SyncHandler, SyncPool, blocking};
pub use control::WorkerControl;
pub use drive::{Attempts, DEFAULT_ATTEMPTS};
pub use handler::{
    BatchHandler, HandleWith, Handler, HandlerContext, HandlerError, HandlerFn, handle_with,
};
pub use ledger::{Ledger, Mark, MarkCell, Ownership, TopicPartition};
#[cfg(feature = "kafka")]
pub use letters::{
    DeadLetterSettings, DeadLetterWriter, PipelineProducer, TooLarge, letter_producer_settings,
};
pub use offsets::Offsets;
pub use parts::{Ended, WorkerParts, WorkerSettings};
pub use queue::Order;
pub use reader::{
    Halves, Nullable, ReadWith, Reader, Required, Seeing, Shape, ValueReader, nullable_values,
    outcomes, read_with, values,
};
pub use source::{
    Effects, Event, Failed, Origin, PartitionSource, Room, SourceRecord, Taken, Written,
};
pub use state::{MAX_PROBE_WAIT, PartitionState, PauseReason, Probe};
pub use verdict::{Limits, OnExhausted, Policy, Ratio, Verdict, judge};
pub use work::{Batch, Job, Single, Work};
pub use worker::{Worker, worker};
