//! Beginning with a partition: the index as far as it may be trusted, the changelog from there to
//! its end.

use super::options::{ScheduleDurability, SchedulerCounts};
use super::partition::{Partition, Position, Session};
use super::plan::Covered;
use super::run::{Run, Stored, read_key};
use super::spans::Spans;
use crate::delay::embedded::runs::{Change, IndexCursor, Known, Opening};
use crate::error::{Error, Result};
use crate::transport::kafka::{KafkaRecord, PartitionLog};
use bytes::Bytes;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use tokio::sync::{Mutex, Notify};

impl Partition {
    /// Nothing of the partition is delivered before this is done.
    pub(super) async fn restore(&self) -> Result<(Session, Covered)> {
        let (opening, known) = self.shared.index.known(self.number).await?;
        let committed = self.start.unwrap_or(0);
        self.mark.committed.fetch_max(committed, Ordering::AcqRel);
        let Some(topic) = &self.shared.changelog else {
            self.refuse_unknown(known)?;
            let log = Spans::default();
            return Ok(self.session(opening, known, log));
        };
        let partition = self.owned.partition;
        let log = PartitionLog::open(&self.shared.options.consumer, topic, partition).await?;
        let known = known.filter(|known| self.is_fresh(known, &log));
        let from = match known {
            Some(known) => known.cursor.changelog,
            None => {
                self.shared.index.forget(self.number).await?;
                SchedulerCounts::add(&self.shared.counts.cold, 1);
                log.low()
            }
        };
        let mut covered = self.covered(known);
        let (mut known, mut end) = (known, from);
        if from < log.high() {
            let mut reader = log.read(from)?;
            while let Some(batch) = reader.next_batch().await {
                let batch = batch?;
                let next = batch.last().map_or(end, |last| last.record().offset + 1);
                known = Some(
                    self.replay(opening, known, &batch, next, &mut covered)
                        .await?,
                );
                end = next;
            }
            end = reader.end();
        }
        let (session, _) = self.session(opening, known, Spans::from(end));
        Ok((session, covered))
    }

    fn session(&self, opening: Opening, known: Option<Known>, log: Spans) -> (Session, Covered) {
        let source = self.source(known);
        let session = Session {
            opening,
            position: Mutex::new(Position { log, source }),
            waiting: AtomicU64::new(known.map_or(0, |known| known.records)),
            next: AtomicI64::new(i64::MAX),
            nearer: Notify::new(),
            room: Notify::new(),
        };
        (session, self.covered(known))
    }

    /// Everything below is in the changelog or was delivered.
    fn source(&self, known: Option<Known>) -> i64 {
        let start = self.start.unwrap_or(0);
        known.map_or(start, |known| known.cursor.source.max(start))
    }

    /// What need not be taken in again. An offset that was committed before what the index saw
    /// committed, or none at all, means that somebody has set the group back, or that the topic was
    /// made anew: then all of it is.
    fn covered(&self, known: Option<Known>) -> Covered {
        match (self.start, known) {
            (Some(start), Some(Known { cursor, .. })) if start >= cursor.committed => {
                Covered::below(cursor.source)
            }
            _ => Covered::default(),
        }
    }

    /// Whether the index may be gone on with. One that missed for long what others wrote may have
    /// missed a run that was taken back: such notes are removed after a time.
    fn is_fresh(&self, known: &Known, log: &PartitionLog) -> bool {
        let cursor = known.cursor;
        let there = (log.low()..=log.high()).contains(&cursor.changelog);
        let age = self.shared.now().saturating_sub(cursor.written);
        let max = i64::try_from(self.shared.options.max_index_age.as_millis()).unwrap_or(i64::MAX);
        there && (cursor.changelog == log.high() || (0..=max).contains(&age))
    }

    async fn replay(
        &self,
        opening: Opening,
        known: Option<Known>,
        batch: &[KafkaRecord],
        next: i64,
        covered: &mut Covered,
    ) -> Result<Known> {
        let mut changes = Vec::with_capacity(batch.len());
        for record in batch {
            let record = record.record();
            let broken = |error: Error| {
                let place = format!("{}-{}@{}", record.topic, record.partition, record.offset);
                error.at(place)
            };
            let key = record.key.and_then(read_key).ok_or_else(|| {
                broken(Error::malformed(
                    "this is no entry of a scheduler's changelog",
                ))
            })?;
            if self.start.is_some_and(|start| key.last >= start) {
                covered.add(key);
            }
            changes.push(match record.value {
                None => Change::Remove(key),
                Some(value) => {
                    let run = Run::read(key, Bytes::copy_from_slice(value)).map_err(broken)?;
                    Change::Put(key, Stored::new(&run, 0).row())
                }
            });
        }
        SchedulerCounts::add(&self.shared.counts.restored, batch.len());
        let cursor = IndexCursor {
            changelog: next,
            source: self.source(known),
            committed: self.mark.committed.load(Ordering::Acquire),
            written: self.shared.now(),
        };
        let how = (opening, false);
        self.shared
            .index
            .apply(how, self.number, changes, cursor)
            .await
    }

    fn refuse_unknown(&self, known: Option<Known>) -> Result<()> {
        let ScheduleDurability::Local { accept_loss } = self.shared.options.durability else {
            return Ok(());
        };
        match (self.start, known) {
            (Some(start), None) if !accept_loss => Err(self.doing(Error::config(format!(
                "scheduler.durability=local: the folder {} knows nothing of this partition, of which \
                 everything below offset {start} was taken in elsewhere: what of it was not delivered \
                 is in another folder, or lost",
                self.shared.options.folder.display()
            )))),
            _ => Ok(()),
        }
    }
}
