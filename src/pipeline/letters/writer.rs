//! From a record that failed to its acknowledged dead letter.

use super::ladder::{Descended, descend};
use super::producer::{PipelineProducer, is_of_batch};
use super::settings::DeadLetterSettings;
use crate::answer::BoxFuture;
use crate::clock::{Clock, SystemClock};
use crate::dead_letter::{DeadLetters, GivenUp, Retried, Rung, check_destination, partition};
use crate::error::{Error, Result};
use crate::pipeline::source::{Failed, Origin, Written};
use crate::pipeline::too_large::TooLarge;
use crate::record::{OutgoingRecord, OwnedRecord};
use crate::status::{ErrorKind, Status};
use crate::transport::WriteFailure;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

type Route = dyn Fn(&Failed) -> Option<String> + Send + Sync;

/// Writes dead letters: what a pipeline's [`Effects`](crate::pipeline::Effects) do with a record that
/// is given up. Cloning is cheap.
#[derive(Clone)]
pub struct DeadLetterWriter {
    inner: Arc<Inner>,
}

#[derive(Clone)]
struct Inner {
    letters: DeadLetters,
    route: Option<Arc<Route>>,
    too_large: TooLarge,
    producer: PipelineProducer,
    clock: Arc<dyn Clock>,
}

impl DeadLetterWriter {
    /// A writer with a producer of its own.
    ///
    /// # Errors
    /// Kind Config: those of [`DeadLetterSettings::letters`] and [`PipelineProducer::start`].
    pub fn start(settings: &DeadLetterSettings) -> Result<Self> {
        let producer = PipelineProducer::start(&settings.producer)?;
        Self::new(settings, producer)
    }

    /// A writer through this producer; the settings of another one are not looked at.
    ///
    /// # Errors
    /// Those of [`DeadLetterSettings::letters`].
    pub fn new(settings: &DeadLetterSettings, producer: PipelineProducer) -> Result<Self> {
        Ok(DeadLetterWriter {
            inner: Arc::new(Inner {
                letters: settings.letters()?,
                route: None,
                too_large: settings.too_large,
                producer,
                clock: Arc::new(SystemClock),
            }),
        })
    }

    /// Has `route` choose the topic; where it says none the template does. It is called once for each
    /// try, and sees a record that came again as it was consumed first. A name that Kafka does not
    /// take, or the topic the record came from, stops the pipeline.
    #[must_use]
    pub fn route(
        mut self,
        route: impl Fn(&Failed) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        Arc::make_mut(&mut self.inner).route = Some(Arc::new(route));
        self
    }

    /// Asks this clock when a record is given up.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        Arc::make_mut(&mut self.inner).clock = clock;
        self
    }

    /// The producer it writes through.
    pub fn producer(&self) -> &PipelineProducer {
        &self.inner.producer
    }

    /// Writes the dead letter of `failed`. The first poll puts it into the queue, or into the line of
    /// those that wait until its topic is found: letters are written in the order of their first polls.
    ///
    /// A record that came again through a topic of retries is given up where it was consumed first.
    /// To the partition of the source's number where its topic has it, else the key decides. One that
    /// is too large goes again alone, then shortened, then without its value; see [`Rung`].
    ///
    /// - Acknowledged: it is there.
    /// - Held: it is not, for the topic or a right is missing, nobody answered, or it is too large.
    ///   The error names the topic, and the right. A later try needs no new writer.
    /// - Refused: there is no topic to write to, or it is too large and [`TooLarge::Stop`] says so.
    pub fn write(&self, failed: &Failed) -> BoxFuture<'static, Written> {
        let (inner, failed) = (Arc::clone(&self.inner), failed.clone());
        Box::pin(async move { inner.write(&failed).await })
    }

    /// The topic of the dead letter of `failed`.
    ///
    /// # Errors
    /// Kind Config, when there is none; see [`destination`](crate::dead_letter::destination).
    pub fn topic(&self, failed: &Failed) -> Result<String> {
        self.inner.topic(failed, &as_first_consumed(failed))
    }

    /// As much as `rung` says of the dead letter of `failed`, given up now. The partition is left
    /// open: see [`PipelineProducer::partitions`] and [`partition`].
    ///
    /// # Errors
    /// Those of [`topic`](Self::topic).
    pub fn rung(&self, failed: &Failed, rung: Rung) -> Result<OutgoingRecord> {
        let first = as_first_consumed(failed);
        let topic = self.inner.topic(failed, &first)?;
        let (letters, now) = (&self.inner.letters, self.inner.clock.now());
        Ok(letters.rung_to(topic, &given_up(&first), rung, now))
    }
}

impl Inner {
    async fn write(&self, failed: &Failed) -> Written {
        let first = as_first_consumed(failed);
        let topic = match self.topic(failed, &first) {
            Ok(topic) => topic,
            Err(error) => return Written::Refused(error),
        };
        let line = self.producer.line(&topic);
        let (given, now) = (given_up(&first), self.clock.now());
        let make = |rung, partitions| {
            let mut record = self.letters.rung_to(topic.clone(), &given, rung, now);
            record.partition = partition(given.record.partition, Some(partitions));
            record
        };
        let mut again = true;
        loop {
            let mut count = 0;
            let started = line.start(|partitions| {
                count = partitions;
                make(Rung::Full, partitions)
            });
            let sent = match started.await {
                Ok(sending) => sending.done().await,
                Err(error) => Err(error),
            };
            let error = match sent {
                Ok(_) => return Written::Acknowledged,
                Err(error) => error,
            };
            // The topic has other partitions than it had: they are looked up anew.
            if again && WriteFailure::of(&error) == Some(WriteFailure::UnknownPartition) {
                again = false;
                continue;
            }
            if !is_of_batch(&error) {
                return Written::Held(error);
            }
            return match descend(&line, |rung| make(rung, count)).await {
                Descended::Written => Written::Acknowledged,
                Descended::Failed(error) => Written::Held(error),
                Descended::TooLarge(refused) => self.too_large(&topic, &given, refused),
            };
        }
    }

    fn too_large(&self, topic: &str, given: &GivenUp<'_>, refused: Error) -> Written {
        let record = given.record;
        let size = |bytes: Option<usize>| bytes.unwrap_or_default();
        let error = Error::new(
            ErrorKind::Other,
            Status::Permanent,
            format!(
                "the dead letter of {}-{}@{} is too large for topic {topic} even without its value of {} bytes: \
                 its key has {} bytes, its own headers {}",
                record.topic,
                record.partition,
                record.offset,
                size(record.value.as_ref().map(|value| value.len())),
                size(record.key.as_ref().map(|key| key.len())),
                record
                    .headers
                    .iter()
                    .map(|(name, value)| name.len() + size(value.map(|value| value.len())))
                    .sum::<usize>(),
            ),
        )
        .with_source(refused);
        match self.too_large {
            TooLarge::Pause => Written::Held(error),
            TooLarge::Stop => Written::Refused(error),
        }
    }

    fn topic(&self, failed: &Failed, first: &Failed) -> Result<String> {
        let topic = match self.route.as_ref().and_then(|route| route(first)) {
            Some(topic) => {
                check_destination(&topic, &first.record.topic)?;
                topic
            }
            None => self.letters.topic_of(&first.record.topic)?,
        };
        // Where it came from just now may be a topic of retries.
        check_destination(&topic, &failed.record.topic)?;
        Ok(topic)
    }
}

fn as_first_consumed(failed: &Failed) -> Cow<'_, Failed> {
    let Some(first) = Retried::of(&failed.record.as_record()) else {
        return Cow::Borrowed(failed);
    };
    let timestamp = first.first_timestamp();
    Cow::Owned(Failed {
        attempts: failed.attempts.max(first.attempt),
        record: Arc::new(OwnedRecord {
            topic: first.topic,
            partition: first.partition,
            offset: first.offset,
            timestamp,
            ..OwnedRecord::clone(&failed.record)
        }),
        ..failed.clone()
    })
}

fn given_up(failed: &Failed) -> GivenUp<'_> {
    GivenUp {
        record: &failed.record,
        error: &failed.error,
        part: match failed.origin {
            Origin::Chain(part) => Some(part),
            Origin::Handler => None,
        },
        attempts: failed.attempts,
    }
}

impl fmt::Debug for DeadLetterWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeadLetterWriter")
            .field("letters", &self.inner.letters)
            .finish_non_exhaustive()
    }
}
