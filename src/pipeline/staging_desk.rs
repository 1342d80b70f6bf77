//! Where a pipeline writes exactly once: into its staging.

use super::effects::Desk;
use super::letters::{DeadLetterWriter, is_refused};
use super::retries::Retries;
use super::source::{Failed, Origin, Sent, Written, weight};
use super::transactor::{Instead, Transactor};
use crate::answer::BoxFuture;
use crate::dead_letter::{Retried, Rung, partition};
use crate::error::{Error, Result};
use crate::record::{OutgoingRecord, OwnedRecord};
use crate::status::Status;
use crate::transport::WriteFailure;
use crate::transport::kafka::OwnedPartition;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Stages; a transaction writes it and commits the offset.
pub(super) struct StagingDesk {
    pub(super) writer: DeadLetterWriter,
    pub(super) retries: Option<Retries>,
    pub(super) transactor: Transactor<OwnedPartition>,
}

/// As much as `rung` says of a dead letter, for its partition. Whether the topic is there is the
/// transaction's to find out.
async fn letter(writer: &DeadLetterWriter, failed: &Failed, rung: Rung) -> Result<OutgoingRecord> {
    let letter = writer.rung(failed, rung)?;
    let count = writer.producer().partitions(&letter.topic).await;
    let first = Retried::of(&failed.record.as_record());
    let source = first.map_or(failed.record.partition, |first| first.partition);
    Ok(OutgoingRecord {
        partition: partition(source, count.ok().flatten()),
        ..letter
    })
}

impl StagingDesk {
    /// The ladder of a dead letter that is staged.
    fn shorter(&self, failed: &Failed) -> Instead {
        let (writer, failed) = (self.writer.clone(), failed.clone());
        Instead {
            bytes: 0,
            told: false,
            make: Arc::new(move |step, error| {
                let rung = Rung::ALL.get(step).copied();
                let rung =
                    rung.filter(|_| WriteFailure::of(&error) == Some(WriteFailure::TooLarge));
                let (writer, failed) = (writer.clone(), failed.clone());
                Box::pin(async move { letter(&writer, &failed, rung?).await.ok() })
            }),
        }
    }

    /// The dead letter of a record whose staged effect is refused for what it is, and its ladder.
    fn letter_instead(
        &self,
        bytes: usize,
        failed: impl Fn(&Error) -> Failed + Send + Sync + 'static,
    ) -> Instead {
        let (writer, first) = (self.writer.clone(), OnceLock::new());
        Instead {
            bytes,
            told: true,
            make: Arc::new(move |step, error| {
                let refused = match step {
                    1 => is_refused(&error),
                    _ => WriteFailure::of(&error) == Some(WriteFailure::TooLarge),
                };
                let rung = Rung::ALL.get(step.saturating_sub(1)).copied();
                let rung = rung.filter(|_| refused);
                let failed: Failed = first.get_or_init(|| failed(&error)).clone();
                let writer = writer.clone();
                Box::pin(async move { letter(&writer, &failed, rung?).await.ok() })
            }),
        }
    }
}

impl Desk for StagingDesk {
    fn dead_letter(&self, owned: &OwnedPartition, failed: &Failed) -> BoxFuture<'static, Written> {
        let (writer, transactor) = (self.writer.clone(), self.transactor.clone());
        let (owned, failed) = (owned.clone(), failed.clone());
        let shorter = self.shorter(&failed);
        Box::pin(async move {
            let letter = match letter(&writer, &failed, Rung::Full).await {
                Ok(letter) => letter,
                Err(error) => return Written::Refused(error),
            };
            let offset = failed.record.offset;
            transactor
                .stage(&owned, offset, Arc::from([letter]), Some(shorter))
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
                let (offset, failed) = (failed.record.offset, failed.clone());
                let instead = self.letter_instead(0, move |_| failed.clone());
                self.transactor
                    .stage(owned, offset, Arc::from([record]), Some(instead))
            }
            Err(error) => Box::pin(std::future::ready(Written::Refused(error))),
        }
    }

    fn outputs(&self, owned: &OwnedPartition, sent: &Sent<'_>) -> BoxFuture<'static, Written> {
        let offset = sent.record.offset;
        let record: Arc<OwnedRecord> = Arc::new(sent.record.to_owned());
        let attempts = sent.attempts;
        let instead = self.letter_instead(weight(sent.record), move |error| {
            let text = error.message().to_owned();
            let refused = Error::new(error.kind(), Status::Permanent, text);
            Failed {
                record: Arc::clone(&record),
                origin: Origin::Handler,
                error: Arc::new(refused.at("output")),
                attempts,
            }
        });
        self.transactor
            .stage(owned, offset, Arc::clone(sent.outputs), Some(instead))
    }
}
