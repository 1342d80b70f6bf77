//! The cases that the benches share.
#![allow(dead_code, reason = "each bench uses its own part of it")]

pub(crate) mod chains;
#[cfg(feature = "cloudevents")]
pub(crate) mod events;
pub(crate) mod inputs;
