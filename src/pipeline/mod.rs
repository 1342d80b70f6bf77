//! The consumer loop: one worker per partition, a pure judge, a contiguous low-water mark.

mod ledger;
mod offsets;

pub use ledger::{Ledger, Mark, MarkCell, Ownership, TopicPartition};
pub use offsets::Offsets;
