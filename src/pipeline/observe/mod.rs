//! What is to be seen of a pipeline: metrics, logs, health, stalls.
//!
//! A worker writes what it does into its [`PartitionGauge`], a few plain stores a turn and no clock;
//! the pipeline looks at all of them once a second, and counts then. So metrics lag by as much, and a
//! good record costs the same with a recorder and without.

/// The target of all spans and events of a pipeline.
pub const TARGET: &str = "kafka_chain::pipeline";

mod gauge;
mod health;
#[cfg(feature = "kafka")]
mod limit;
#[cfg(feature = "kafka")]
mod logs;
#[cfg(feature = "kafka")]
mod metrics;
pub mod names;
#[cfg(feature = "kafka")]
mod observation;
mod stall;
mod timing;
#[cfg(feature = "kafka")]
mod watch;

pub use gauge::PartitionGauge;
pub(super) use gauge::{Count, Shown};
pub use health::{Health, OldestInFlight, PartitionHealth};
#[cfg(feature = "kafka")]
pub(super) use observation::Observation;
pub use stall::{Stall, StallWatch};
pub use timing::Timing;
#[cfg(feature = "kafka")]
pub(super) use watch::Watch;
