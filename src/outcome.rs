//! What exception handling yields: the value, or a failure that carries everything needed to act.

use crate::error::Error;
use crate::payload::Context;
use crate::record::{OwnedRecord, Part};
use std::fmt;

/// A value, or the failure of the record it should have come from.
///
/// A std `Result`, so that `?`, `map` and `flatten` work; boxed, so that an `Outcome<u64>` is 16
/// bytes.
pub type Outcome<T> = Result<T, Box<Failure>>;

/// A record that could not be decoded: the error, and the record exactly as it was consumed.
#[derive(Debug, PartialEq)]
#[non_exhaustive]
pub struct Failure {
    /// What went wrong, where in the chain, after how many attempts.
    pub error: Error,
    /// Which half of the record the chain was reading.
    pub part: Part,
    /// The record as consumed: raw key and value, all headers in order, and its coordinates.
    pub record: OwnedRecord,
}

impl Failure {
    /// The failure of `context`'s record; copies the record.
    #[cold]
    pub fn new(error: Error, context: &Context<'_>) -> Box<Self> {
        Box::new(Failure {
            error,
            part: context.part,
            record: context.record.to_owned(),
        })
    }
}

impl PartialEq for Error {
    /// Two errors are equal when they would be judged and shown alike.
    fn eq(&self, other: &Self) -> bool {
        self.kind() == other.kind()
            && self.status() == other.status()
            && self.to_string() == other.to_string()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let record = &self.record;
        write!(
            f,
            "{}-{}@{} {}: ",
            record.topic, record.partition, record.offset, self.part
        )?;
        fmt::Display::fmt(&self.error, f)
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}
