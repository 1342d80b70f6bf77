//! What the pipeline is told.

use super::bell::Bell;
use super::period::{OwnedPartition, PartitionReader};
use crate::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::oneshot;

/// What happens to a member of a group.
#[derive(Debug)]
#[non_exhaustive]
pub enum GroupEvent {
    /// Partitions are ours. Their records wait until they are asked for, so whatever is to be done
    /// before the first one can be done first. None at all is possible.
    Assigned(Vec<AssignedPartition>),
    /// Partitions are to be given back in order: their readers have ended.
    Revoked(Revoked),
    /// Partitions are another's already: forget them, and commit nothing of them (nothing would be
    /// sent). Their readers have ended.
    Lost(Vec<OwnedPartition>),
    /// A position was no longer to be had (deleted records, a cut log) and `auto.offset.reset` took
    /// its place: records were skipped or come again. librdkafka's words: topic, partition,
    /// offsets, cause.
    OffsetReset(String),
    /// The last event: an error that does not pass.
    Failed(Error),
}

/// A partition that became ours.
#[derive(Debug)]
pub struct AssignedPartition {
    /// Which one, and in which ownership.
    pub partition: OwnedPartition,
    /// The group's committed offset, where reading begins; `None` when there is none, or when the
    /// coordinator did not say in time (reading begins at the right place all the same).
    pub start: Option<i64>,
    /// Its records.
    pub reader: PartitionReader,
}

/// Partitions to be given back. Finish what is in flight, commit it, and then call
/// [`done`](Self::done) or drop this. Meanwhile kept partitions fetch nothing, for librdkafka
/// pauses all of them until the answer.
pub struct Revoked {
    /// Which ones.
    pub partitions: Vec<OwnedPartition>,
    /// When they are given back whatever happens; a commit asked for later is not sent.
    pub deadline: Instant,
    pub(super) drained: Option<oneshot::Sender<()>>,
    pub(super) bell: Arc<Bell>,
}

impl Revoked {
    /// Nothing of these partitions is in flight any more. Commits asked for before are waited for.
    pub fn done(self) {}
}

impl Drop for Revoked {
    fn drop(&mut self) {
        if let Some(drained) = self.drained.take() {
            // After the deadline nobody listens.
            let _ = drained.send(());
        }
        self.bell.ring();
    }
}

impl fmt::Debug for Revoked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Revoked").field(&self.partitions).finish()
    }
}
