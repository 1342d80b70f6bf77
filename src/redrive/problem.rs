//! Why a dead letter stays where it is.

use std::fmt;

/// Why a dead letter that fits the filter is not redriven. It stays in its topic, and its job has
/// passed it: a job of another name can try it again.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// No header tells which topic the record came from.
    NoOrigin,
    /// It is to be retried by its group, and no header tells which group that is.
    NoGroup,
    /// `redrive.allow` does not permit this topic.
    NotAllowed(String),
    /// There is no such topic.
    NoTopic(String),
    /// Its value (or all of it) is only at its origin, and cannot be had from there.
    Gone(String),
    /// Its headers cannot be read, so it would not be the record that was consumed.
    Unreadable,
    /// The target does not take it: it is too large, or its timestamp is refused.
    Rejected(String),
}

impl Problem {
    /// Whether it was not permitted, rather than not possible.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Problem::NotAllowed(_))
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::NoOrigin => f.write_str("no header tells where it came from"),
            Problem::NoGroup => f.write_str("no header tells whose retry it is"),
            Problem::NotAllowed(topic) => write!(f, "`{topic}` is not allowed"),
            Problem::NoTopic(topic) => write!(f, "topic `{topic}` does not exist"),
            Problem::Gone(why) => write!(f, "its origin {why}"),
            Problem::Unreadable => f.write_str("its headers cannot be read"),
            Problem::Rejected(why) => f.write_str(why),
        }
    }
}
