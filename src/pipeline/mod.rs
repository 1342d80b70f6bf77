//! The consumer loop: one worker per partition, a pure judge, a contiguous low-water mark.
//!
//! A [`worker`] takes the records of one partition from its [`PartitionSource`], has them read and
//! handled ([`Work`]: [`Single`] or [`Batch`]), [judges](judge) what fails, lets its [`Effects`] write
//! what goes elsewhere, and writes the mark of its [`Offsets`] to a cell that the [`Ledger`] commits
//! from. It knows no broker: a transport gives it records and takes its marks.

mod blocking;
#[cfg(feature = "kafka")]
mod builder;
#[cfg(feature = "kafka")]
mod chain_reader;
mod contain;
mod control;
#[cfg(feature = "kafka")]
mod desk;
mod drive;
#[cfg(feature = "kafka")]
mod effects;
#[cfg(feature = "kafka")]
mod exactly_once;
mod gate;
#[cfg(feature = "kafka")]
mod handle;
mod handler;
mod happens;
#[cfg(feature = "kafka")]
mod kafka_source;
mod ledger;
#[cfg(feature = "kafka")]
mod letters;
pub mod observe;
#[cfg(feature = "kafka")]
mod observer;
mod offsets;
mod parts;
#[cfg(feature = "kafka")]
mod plan;
mod queue;
mod reader;
#[cfg(feature = "kafka")]
mod retries;
#[cfg(feature = "kafka")]
mod running;
mod settings;
mod settle;
#[cfg(feature = "kafka")]
mod signals;
mod source;
mod staging;
#[cfg(feature = "kafka")]
mod staging_desk;
mod state;
mod too_large;
mod topic_keys;
#[cfg(feature = "kafka")]
pub mod topics;
#[cfg(feature = "kafka")]
mod transactor;
mod verdict;
mod work;
mod worker;

pub use blocking::{Blocking, SyncHandler, SyncPool, blocking};
#[cfg(feature = "kafka")]
pub use builder::PipelineBuilder;
#[cfg(feature = "kafka")]
pub use chain_reader::{ChainReader, Entry, EntryReader};
pub use control::WorkerControl;
pub use drive::{Attempts, DEFAULT_ATTEMPTS};
pub use gate::{Gate, SharedGate};
#[cfg(feature = "kafka")]
pub use handle::PipelineHandle;
pub use handler::{
    BatchHandler, HandleWith, Handler, HandlerContext, HandlerError, HandlerFn, Outputs,
    handle_with,
};
pub use ledger::{Ledger, Mark, MarkCell, Ownership, TopicPartition};
#[cfg(feature = "kafka")]
pub use letters::{
    DeadLetterSettings, DeadLetterWriter, PipelineProducer, letter_producer_settings,
};
#[cfg(feature = "kafka")]
pub use observer::{PipelineEvent, PipelineObserver};
pub use offsets::Offsets;
pub use parts::{Ended, WorkerParts, WorkerSettings};
#[cfg(feature = "kafka")]
pub use plan::{Pipeline, Summary};
pub use queue::Order;
pub use reader::{
    Halves, Nullable, ReadWith, Reader, Required, Seeing, Shape, ValueReader, nullable_values,
    outcomes, read_with, values,
};
pub(crate) use settings::section;
pub use settings::{Guarantee, PipelineSettings};
pub use source::{
    Destination, Effects, Event, Failed, Origin, PartitionSource, Room, Sent, SourceRecord, Taken,
    Written,
};
pub use staging::{Staged, StagedBatch, Staging, StagingRoom};
pub use state::{MAX_PROBE_WAIT, PartitionState, PauseReason, Probe};
pub use too_large::TooLarge;
pub use topic_keys::{TopicCheck, TopicCreate};
pub use verdict::{Limits, OnExhausted, Policy, Ratio, Verdict, judge};
pub use work::{Batch, Job, Single, Work};
pub use worker::{Worker, worker};
