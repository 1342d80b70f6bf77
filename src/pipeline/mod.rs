//! The consumer loop: one worker per partition, a pure judge, a contiguous low-water mark.

mod ledger;
mod offsets;
mod state;
mod verdict;

pub use ledger::{Ledger, Mark, MarkCell, Ownership, TopicPartition};
pub use offsets::Offsets;
pub use state::{MAX_PROBE_WAIT, PartitionState, PauseReason, Probe};
pub use verdict::{Limits, OnExhausted, Policy, Ratio, Verdict, judge};
