//! What a pipeline says through `tracing`, under the target [`TARGET`].
//!
//! A good record says nothing. Of failed records, failed commits and errors that pass one a second is
//! told by kind and stage, with the number of those in between.

use super::TARGET;
use super::limit::Limiter;
use super::metrics::stage;
use crate::pipeline::observer::PipelineEvent;
use crate::pipeline::source::{Event, Failed};
use crate::pipeline::state::PauseReason;
use crate::pipeline::topics::Severity;
use crate::pipeline::verdict::Verdict;
use crate::transport::kafka::OwnedPartition;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::time::Instant;
use tracing::{debug, error, info, warn};

#[derive(Default)]
pub(in crate::pipeline) struct Logs(Mutex<Limiter>);

impl Logs {
    fn limiter(&self) -> MutexGuard<'_, Limiter> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn allows(&self, kind: &str, stage: &str) -> Option<u64> {
        self.limiter().allows(kind, stage, Instant::now())
    }

    /// Tells what was not told and is not followed by another of its kind.
    pub(super) fn tick(&self, now: Instant) {
        let overdue = self.limiter().overdue(now);
        for (kind, stage, suppressed) in overdue {
            warn!(target: TARGET, kind, stage, suppressed, "more of the same");
        }
    }

    pub(super) fn event(&self, event: &PipelineEvent<'_>) {
        match event {
            PipelineEvent::Record { partition, event } => self.record(partition, event),
            PipelineEvent::Assigned(all) => {
                info!(target: TARGET, partitions = %List(all), "partitions assigned");
            }
            PipelineEvent::Revoked(all) => {
                info!(target: TARGET, partitions = %List(all), "partitions are given back");
            }
            PipelineEvent::Lost(all) => {
                warn!(target: TARGET, partitions = %List(all),
                    "partitions lost: what was in flight comes again elsewhere");
            }
            PipelineEvent::OffsetReset(text) => {
                warn!(target: TARGET, reset = %text,
                    "offset reset: records were skipped or come again");
            }
            PipelineEvent::Committed { partitions } => {
                debug!(target: TARGET, partitions, "offsets committed");
            }
            PipelineEvent::CommitFailed(failed) => {
                let kind = failed.failure.as_str();
                if let Some(suppressed) = self.allows("commit", kind) {
                    let again = failed.failure.try_again();
                    warn!(target: TARGET, kind, error = %failed, again, suppressed,
                        "an offset was not committed");
                }
            }
            PipelineEvent::Warning(passing) => {
                let kind = passing.kind().as_str();
                if let Some(suppressed) = self.allows(kind, "client") {
                    warn!(target: TARGET, kind, error = %passing, suppressed,
                        "an error of the client that is expected to pass");
                }
            }
            PipelineEvent::Abandoned { partition, records } => {
                warn!(target: TARGET, %partition, records,
                    "records in flight were given up at the limit: they come again");
            }
            PipelineEvent::Stalled {
                partition,
                offset,
                age,
            } => {
                let age = age.as_secs();
                warn!(target: TARGET, %partition, offset, age_seconds = age,
                    "partition stalled: its oldest record in flight does not get finished");
            }
            PipelineEvent::StallEnded {
                partition,
                offset,
                age,
            } => {
                let age = age.as_secs();
                info!(target: TARGET, %partition, offset, age_seconds = age, "no longer stalled");
            }
            PipelineEvent::TopicProblem { problem, command } => {
                let command = command.unwrap_or_default();
                match problem.severity {
                    Severity::Error => {
                        error!(target: TARGET, %problem, command, "a topic does not fit")
                    }
                    Severity::Warning => {
                        warn!(target: TARGET, %problem, command, "a topic does not fit")
                    }
                }
            }
            PipelineEvent::TopicCreated(topic) => {
                info!(target: TARGET, topic = topic.name, partitions = topic.partitions,
                    "topic created");
            }
            PipelineEvent::TopicLeftOut { topic, kind } => {
                info!(target: TARGET, topic, %kind, "left out, though a pattern matches it");
            }
            PipelineEvent::Subscribed(topics) => {
                info!(target: TARGET, ?topics, "a pattern matches other topics than before");
            }
            PipelineEvent::Stopping => info!(target: TARGET, "stopping"),
        }
    }

    fn record(&self, partition: &OwnedPartition, event: &Event<'_>) {
        match event {
            Event::Judged { failed, verdict } => self.judged(partition, failed, *verdict),
            Event::Paused {
                offset,
                reason: PauseReason::Flood,
            } => error!(target: TARGET, %partition, offset, reason = "flood",
                "paused: the flood breaker is open, too many records would be dead-lettered; \
                 it goes on when this record succeeds or on resume"),
            Event::Paused { offset, reason } => {
                warn!(target: TARGET, %partition, offset, reason = reason.as_str(),
                    "paused until this record succeeds");
            }
            Event::Resumed { by_user } => {
                warn!(target: TARGET, %partition, by_user, "resumed");
            }
            Event::Unwritten { offset, to, error } => {
                let kind = error.kind().as_str();
                if let Some(suppressed) = self.allows(kind, to.as_str()) {
                    error!(target: TARGET, %partition, offset, to = to.as_str(), kind, %error,
                        suppressed, "could not be written: its partition holds it");
                }
            }
            Event::Repeated { offset } => {
                debug!(target: TARGET, %partition, offset, "delivered again and dropped");
            }
            Event::Handled { .. } | Event::Written { .. } => {}
        }
    }

    fn judged(&self, partition: &OwnedPartition, failed: &Failed, verdict: Verdict) {
        let error = &*failed.error;
        let (kind, stage, verdict) = (error.kind().as_str(), stage(failed), verdict.as_str());
        if let Some(suppressed) = self.allows(kind, stage) {
            warn!(target: TARGET, %partition, offset = failed.record.offset, kind, stage, verdict,
                attempts = failed.attempts, %error, suppressed, "a record failed");
        }
    }
}

struct List<'a>(&'a [OwnedPartition]);

impl std::fmt::Display for List<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, partition) in self.0.iter().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(f, "{comma}{}-{}", partition.topic, partition.partition)?;
        }
        Ok(())
    }
}
