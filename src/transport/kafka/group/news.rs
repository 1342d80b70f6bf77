//! What readers tell the polling thread.

use super::period::{OwnedPartition, lock};
use rdkafka::error::RDKafkaErrorCode;
use std::collections::VecDeque;
use std::sync::Mutex;

/// The most errors that wait; more repeat what is known.
const ERRORS: usize = 16;

/// What readers tell the polling thread.
#[derive(Debug, Default)]
pub(super) struct News {
    /// Errors that came instead of records, to be judged.
    errors: Mutex<VecDeque<(OwnedPartition, RDKafkaErrorCode)>>,
    /// Partitions whose records came again, or are of another log; at most one an ownership.
    doubts: Mutex<Vec<OwnedPartition>>,
}

impl News {
    pub(super) fn take_errors(&self) -> VecDeque<(OwnedPartition, RDKafkaErrorCode)> {
        std::mem::take(&mut lock(&self.errors))
    }

    pub(super) fn put_error(&self, partition: &OwnedPartition, code: RDKafkaErrorCode) {
        let mut errors = lock(&self.errors);
        if errors.len() < ERRORS {
            errors.push_back((partition.clone(), code));
        }
    }

    pub(super) fn take_doubts(&self) -> Vec<OwnedPartition> {
        std::mem::take(&mut lock(&self.doubts))
    }

    pub(super) fn put_doubt(&self, partition: &OwnedPartition) {
        lock(&self.doubts).push(partition.clone());
    }
}
