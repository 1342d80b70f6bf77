//! What is left out of a dead letter until its topic takes it.

use super::line::{How, Line};
use crate::dead_letter::Rung;
use crate::error::Error;
use crate::record::OutgoingRecord;
use crate::transport::WriteFailure;
use std::sync::Arc;

/// How a way down the ladder ended.
#[derive(Debug)]
pub(super) enum Descended {
    /// As much of the dead letter as the topic takes is written.
    Written,
    /// Not even without its value does the topic take it.
    TooLarge(Error),
    /// Something else is wrong.
    Failed(Error),
}

/// Writes as much of a dead letter as its topic takes, each try in a batch of its own: what it was
/// refused for before may have been a neighbour's fault.
///
/// A timestamp that is not accepted gives way to the time of writing.
pub(super) async fn descend(line: &Arc<Line>, make: impl Fn(Rung) -> OutgoingRecord) -> Descended {
    let mut dated = true;
    let (mut before, mut refused) = (None, None);
    for rung in Rung::ALL {
        let mut record = make(rung);
        if !dated {
            record.timestamp = None;
        }
        if before.as_ref() == Some(&record) {
            continue;
        }
        let mut sent = Arc::clone(line).send(How::Alone, record.clone()).await;
        if dated
            && record.timestamp.is_some()
            && failed(&sent) == Some(WriteFailure::InvalidTimestamp)
        {
            dated = false;
            record.timestamp = None;
            sent = Arc::clone(line).send(How::Alone, record.clone()).await;
        }
        match sent {
            Ok(_) => return Descended::Written,
            Err(error) if WriteFailure::of(&error) == Some(WriteFailure::TooLarge) => {
                refused = Some(error);
            }
            Err(error) => return Descended::Failed(error),
        }
        before = Some(record);
    }
    let nothing = || Error::unavailable("nothing was tried");
    Descended::TooLarge(refused.unwrap_or_else(nothing))
}

fn failed<T>(sent: &Result<T, Error>) -> Option<WriteFailure> {
    sent.as_ref().err().and_then(WriteFailure::of)
}
