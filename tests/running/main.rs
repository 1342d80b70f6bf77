//! The pipeline on an embedded broker: from the group to the dead-letter topic and back to the offsets.
#![cfg(feature = "kafka")]

mod endings;
mod exactly_once;
mod flowing;
mod holding;
mod letters;
mod observed;
mod retries;
mod support;
