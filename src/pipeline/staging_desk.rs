//! Where a pipeline writes exactly once: into its staging.

use super::effects::Desk;
use super::letters::DeadLetterWriter;
use super::retries::Retries;
use super::source::{Failed, Written};
use super::transactor::{Shorten, Transactor};
use crate::answer::BoxFuture;
use crate::dead_letter::{Retried, Rung, partition};
use crate::error::Error;
use crate::record::OutgoingRecord;
use crate::transport::kafka::OwnedPartition;
use std::sync::Arc;
use std::time::Duration;

/// Stages; a transaction writes it and commits the offset.
pub(super) struct StagingDesk {
    pub(super) writer: DeadLetterWriter,
    pub(super) retries: Option<Retries>,
    pub(super) transactor: Transactor<OwnedPartition>,
}

impl Desk for StagingDesk {
    fn dead_letter(&self, owned: &OwnedPartition, failed: &Failed) -> BoxFuture<'static, Written> {
        let (writer, transactor) = (self.writer.clone(), self.transactor.clone());
        let (owned, failed) = (owned.clone(), failed.clone());
        Box::pin(async move {
            let letter = match writer.rung(&failed, Rung::Full) {
                Ok(letter) => letter,
                Err(error) => return Written::Refused(error),
            };
            // Whether the topic is there is the transaction's to find out.
            let count = writer.producer().partitions(&letter.topic).await;
            let first = Retried::of(&failed.record.as_record());
            let source = first.map_or(failed.record.partition, |first| first.partition);
            let place = partition(source, count.ok().flatten());
            let offset = failed.record.offset;
            let at_place = move |letter: OutgoingRecord| OutgoingRecord {
                partition: place,
                ..letter
            };
            let letters: Arc<[OutgoingRecord]> = Arc::from([at_place(letter)]);
            let shorten: Shorten = Arc::new(move |step| {
                let rung = *Rung::ALL.get(step)?;
                writer.rung(&failed, rung).ok().map(at_place)
            });
            transactor
                .stage(&owned, offset, letters, Some(shorten))
                .await
        })
    }

    fn delay(
        &self,
        owned: &OwnedPartition,
        failed: &Failed,
        wait: Duration,
    ) -> BoxFuture<'static, Written> {
        let none = || Error::config("the policy delays records, but retries wait nowhere");
        let record = self.retries.as_ref().ok_or_else(none);
        match record.and_then(|retries| retries.record(failed, wait)) {
            Ok(record) => {
                let offset = failed.record.offset;
                self.transactor
                    .stage(owned, offset, Arc::from([record]), None)
            }
            Err(error) => Box::pin(std::future::ready(Written::Refused(error))),
        }
    }

    fn outputs(
        &self,
        owned: &OwnedPartition,
        offset: i64,
        outputs: &Arc<[OutgoingRecord]>,
    ) -> BoxFuture<'static, Written> {
        self.transactor
            .stage(owned, offset, Arc::clone(outputs), None)
    }
}
