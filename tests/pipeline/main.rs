//! The worker of a partition and what it decides, without a broker and on paused time.

mod crashes;
mod endings;
mod failures;
mod gates;
mod handlers;
mod observed;
mod orders;
mod outputs;
mod pauses;
mod state;
mod support;
