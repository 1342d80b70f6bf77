//! Where a pipeline writes: dead letters and outputs, on Kafka.

use super::builder::Route;
use super::effects::Desk;
use super::letters::{DeadLetterSettings, DeadLetterWriter};
use super::retries::Retries;
use super::settings::PipelineSettings;
use super::source::{Failed, Sent, Written};
use crate::answer::BoxFuture;
use crate::error::{Error, Result};
use crate::transport::Settings;
use crate::transport::kafka::OwnedPartition;
use std::sync::Arc;
use std::time::Duration;

/// Writes at once, and waits for the acknowledgement.
pub(super) struct KafkaDesk {
    writer: DeadLetterWriter,
    retries: Option<Retries>,
}

/// What makes a pipeline's dead letters.
pub(super) fn letter_writer(
    settings: &PipelineSettings,
    client: &Settings,
    route: Option<Route>,
) -> Result<DeadLetterWriter> {
    let mut writer = DeadLetterWriter::start(&DeadLetterSettings {
        template: settings.dead_letter_topic.clone(),
        dialects: settings.dead_letter_dialects.clone(),
        timestamp: settings.dead_letter_timestamp,
        too_large: settings.dead_letter_too_large,
        ..DeadLetterSettings::beside(client, &settings.producer)
    })?;
    if let Some(route) = route {
        writer = writer.route(move |failed| route(failed));
    }
    Ok(writer)
}

impl KafkaDesk {
    pub(super) fn new(writer: DeadLetterWriter, retries: Option<Retries>) -> Self {
        KafkaDesk { writer, retries }
    }
}

impl Desk for KafkaDesk {
    fn dead_letter(&self, _: &OwnedPartition, failed: &Failed) -> BoxFuture<'static, Written> {
        self.writer.write(failed)
    }

    fn delay(
        &self,
        _: &OwnedPartition,
        failed: &Failed,
        wait: Duration,
    ) -> BoxFuture<'static, Written> {
        match &self.retries {
            Some(retries) => retries.delay(self.writer.producer(), failed, wait),
            None => Box::pin(std::future::ready(Written::Refused(Error::config(
                "the policy delays records, but there is no delay sink",
            )))),
        }
    }

    fn outputs(&self, _: &OwnedPartition, sent: &Sent<'_>) -> BoxFuture<'static, Written> {
        self.writer.producer().write_all(Arc::clone(sent.outputs))
    }
}
