//! Which topics a pipeline reads, and whether those that it needs are there and fit.

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
pub use subscription::{Resolved, Subscription, split};
pub(super) use start::{TopicPlan, TopicPlans};
pub use start::{TopicCheck, TopicCreate};
