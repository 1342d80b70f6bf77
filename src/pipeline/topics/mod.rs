//! Which topics a pipeline reads, and whether those that it needs are there and fit.
//!
//! Pure are the [`Subscription`], the names of [our own topics](OwnTopics), what a pipeline
//! [`needs`] and the [`check`] of that; before a pipeline joins its group, and whenever its pattern
//! matches a new topic, they are asked about a real cluster.

mod check;
mod command;
mod need;
mod own;
mod start;
mod subscription;
mod watch;

pub use check::{Remedy, Severity, TopicProblem, check};
pub use command::Commands;
pub use need::{AtLeast, LetterNeeds, TopicNeed, TopicUse, needs};
pub use own::{OwnTopic, OwnTopics};
pub(super) use start::TopicPlan;
pub use subscription::{Resolved, Subscription};
