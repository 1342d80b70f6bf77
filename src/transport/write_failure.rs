//! Why a record could not be written, where that says what to do.

use crate::error::Error;
use std::fmt;

/// Why a record could not be written, as far as a caller can do something about it. It is the
/// [source](std::error::Error::source) of a [`Sink`](super::Sink)'s error; [`of`](Self::of) finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WriteFailure {
    /// The record, or the batch it was sent in, is larger than the client or the topic takes.
    TooLarge,
    /// Another record of its batch was refused; alone it may be written.
    BatchRefused,
    /// The broker does not take the record's timestamp.
    InvalidTimestamp,
    /// There is no such topic.
    UnknownTopic,
    /// The topic has no such partition.
    UnknownPartition,
    /// A right is missing, or who asks was not believed. librdkafka remembers that for the topic: only
    /// a new producer sees that the right was given.
    Unauthorized,
    /// This producer writes nothing any more; a new one may.
    Fatal,
}

impl WriteFailure {
    /// Why the write that `error` is of failed.
    pub fn of(error: &Error) -> Option<WriteFailure> {
        let source = std::error::Error::source(error)?;
        source.downcast_ref().copied()
    }
}

impl fmt::Display for WriteFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WriteFailure::TooLarge => "the record or its batch is too large",
            WriteFailure::BatchRefused => "another record of the batch was refused",
            WriteFailure::InvalidTimestamp => "the timestamp is not accepted",
            WriteFailure::UnknownTopic => "the topic does not exist",
            WriteFailure::UnknownPartition => "the partition does not exist",
            WriteFailure::Unauthorized => "not authorized",
            WriteFailure::Fatal => "the producer cannot go on",
        })
    }
}

impl std::error::Error for WriteFailure {}
