//! One partition in one ownership: restore, then take in and deliver until it is time to stop.

use super::changelog::{Shared, Stop, passes, stopping};
use super::ingest::Ingest;
use super::plan::Covered;
use super::spans::Spans;
use crate::delay::embedded::runs::{Change, IndexCursor, Opening};
use crate::error::{Error, Result};
use crate::transport::kafka::{OwnedPartition, PartitionReader};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use tokio::sync::{Mutex, Notify};

/// How far a partition may be committed, for the loop that commits.
#[derive(Debug, Default)]
pub(super) struct Mark {
    /// The next offset to be taken in; 0 is none yet.
    pub(super) next: AtomicI64,
    /// What was committed last.
    pub(super) committed: AtomicI64,
}

/// A partition that is ours.
pub(super) struct Partition {
    pub(super) shared: Arc<Shared>,
    pub(super) owned: OwnedPartition,
    /// Its number in the index.
    pub(super) number: u32,
    /// The committed offset it began with.
    pub(super) start: Option<i64>,
    pub(super) mark: Arc<Mark>,
    /// Rung when a mark has moved.
    pub(super) marked: Arc<Notify>,
    pub(super) stop: Stop,
}

/// What is known once the partition is restored.
pub(super) struct Session {
    pub(super) opening: Opening,
    /// Held while a change is handed to the index, so that no cursor overtakes what it counts.
    pub(super) position: Mutex<Position>,
    /// How many records wait.
    pub(super) waiting: AtomicU64,
    /// When the next run is due, as far as the delivering loop knows.
    pub(super) next: AtomicI64,
    /// Rung when one is due before.
    pub(super) nearer: Notify,
    /// Rung when runs were removed.
    pub(super) room: Notify,
}

/// How far both logs are in the index.
#[derive(Debug)]
pub(super) struct Position {
    pub(super) log: Spans,
    pub(super) source: i64,
}

impl Partition {
    pub(super) async fn run(self, reader: PartitionReader) -> Result<()> {
        let mut ingest = Ingest::new(reader);
        let mut failures = 0;
        loop {
            let mut stop = self.stop.clone();
            let restored = tokio::select! {
                () = stopping(&mut stop) => return Ok(()),
                restored = self.restore() => restored,
            };
            let ended = match restored {
                Ok((session, covered)) => {
                    failures = 0;
                    self.work(&session, covered, &mut ingest).await
                }
                Err(error) => Err(error),
            };
            match ended {
                Ok(()) => return Ok(()),
                Err(error) if passes(&error) => {
                    self.shared.warn(error);
                    failures += 1;
                    if !self.shared.pause(failures, &self.stop).await {
                        return Ok(());
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn work(&self, session: &Session, covered: Covered, ingest: &mut Ingest) -> Result<()> {
        tokio::try_join!(
            self.take_in(session, covered, ingest),
            self.deliver(session)
        )?;
        Ok(())
    }

    /// Hands `changes` to the index, with the cursor that counts them: `offsets` are theirs in the
    /// changelog, `source` is the next offset to be taken in.
    pub(super) async fn apply(
        &self,
        session: &Session,
        changes: Vec<Change>,
        offsets: &[i64],
        source: Option<i64>,
    ) -> Result<()> {
        let shared = &self.shared;
        let mut position = session.position.lock().await;
        for offset in offsets {
            position.log.add(*offset);
        }
        if let Some(source) = source {
            position.source = position.source.max(source);
        }
        let cursor = IndexCursor {
            changelog: position.log.next(),
            source: position.source,
            committed: self.mark.committed.load(Ordering::Acquire),
            written: shared.now(),
        };
        // Without a changelog the index is all there is.
        let durable = shared.changelog.is_none() && source.is_some();
        let how = (session.opening, durable);
        let known = shared
            .index
            .apply(how, self.number, changes, cursor)
            .await?;
        session.waiting.store(known.records, Ordering::Release);
        Ok(())
    }

    pub(super) fn doing(&self, error: Error) -> Error {
        error.at(format!("{}-{}", self.owned.topic, self.owned.partition))
    }
}
