//! Where a pipeline writes: dead letters and outputs, on Kafka.

use super::builder::Route;
use super::effects::Desk;
use super::retries::Retries;
use super::settings::PipelineSettings;
use super::source::{Failed, Origin, Written};
use crate::answer::BoxFuture;
use crate::clock::{Clock, SystemClock};
use crate::dead_letter::{DeadLetters, Retried};
use crate::error::{Error, Result};
use crate::outcome::Failure;
use crate::record::{OutgoingRecord, OwnedRecord, Part};
use crate::transport::kafka::{KafkaSink, OwnedPartition};
use crate::transport::{Settings, producer_settings};
use std::sync::Arc;
use std::time::Duration;

/// Writes at once, and waits for the acknowledgement.
pub(super) struct KafkaDesk {
    sink: KafkaSink,
    letters: DeadLetters,
    route: Option<Route>,
    retries: Option<Retries>,
}

impl KafkaDesk {
    pub(super) fn start(
        settings: &PipelineSettings,
        client: &Settings,
        route: Option<Route>,
        retries: Option<Retries>,
    ) -> Result<Self> {
        let group = client.get("group.id").unwrap_or_default();
        Ok(KafkaDesk {
            sink: KafkaSink::start(&producer_settings(client, &settings.producer))?,
            letters: DeadLetters::new()
                .group(group)
                .to(settings.dead_letter_topic.clone()),
            route,
            retries,
        })
    }

    fn letter(&self, failed: &Failed) -> Result<OutgoingRecord> {
        let failed = &as_first_consumed(failed);
        let part = match failed.origin {
            Origin::Chain(part) => part,
            Origin::Handler => Part::Value,
        };
        let context = failed.record.as_record();
        let error = Error::new(
            failed.error.kind(),
            failed.error.status(),
            failed.error.message().to_owned(),
        );
        let error = error.with_attempts(failed.error.attempts(), failed.error.elapsed());
        let error = failed
            .error
            .stages()
            .rev()
            .fold(error, |error, stage| error.at(stage.to_owned()));
        let failure = Failure::new(error, &context.context(part));
        let mut letter = self.letters.full(&failure, SystemClock.now())?;
        if let Some(topic) = self.route.as_ref().and_then(|route| route(failed)) {
            letter.topic = topic;
        }
        Ok(letter)
    }
}

/// A record that comes again is given up where it was consumed first.
fn as_first_consumed(failed: &Failed) -> Failed {
    let mut failed = failed.clone();
    if let Some(first) = Retried::of(&failed.record.as_record()) {
        let timestamp = first.first_timestamp();
        failed.record = Arc::new(OwnedRecord {
            topic: first.topic,
            partition: first.partition,
            offset: first.offset,
            timestamp,
            ..OwnedRecord::clone(&failed.record)
        });
        failed.attempts = failed.attempts.max(first.attempt);
    }
    failed
}

impl Desk for KafkaDesk {
    fn dead_letter(&self, _: &OwnedPartition, failed: &Failed) -> BoxFuture<'static, Written> {
        let (sink, letter) = (self.sink.clone(), self.letter(failed));
        Box::pin(async move {
            match letter {
                Err(error) => Written::Refused(error),
                Ok(letter) => match sink.send(letter).await {
                    Ok(_) => Written::Acknowledged,
                    Err(error) => Written::Held(error),
                },
            }
        })
    }

    fn delay(
        &self,
        _: &OwnedPartition,
        failed: &Failed,
        wait: Duration,
    ) -> BoxFuture<'static, Written> {
        match &self.retries {
            Some(retries) => retries.delay(failed, wait),
            None => Box::pin(std::future::ready(Written::Refused(Error::config(
                "the policy delays records, but there is no delay sink",
            )))),
        }
    }

    fn outputs(
        &self,
        _: &OwnedPartition,
        _: i64,
        outputs: &Arc<[OutgoingRecord]>,
    ) -> BoxFuture<'static, Written> {
        let (sink, outputs) = (self.sink.clone(), Arc::clone(outputs));
        Box::pin(async move {
            for output in outputs.iter() {
                if let Err(error) = sink.send(output.clone()).await {
                    return Written::Held(error);
                }
            }
            Written::Acknowledged
        })
    }
}
