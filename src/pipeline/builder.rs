//! From a configuration to a pipeline.

use super::blocking::{Blocking, SyncHandler, SyncPool, blocking};
use super::chain_reader::{ChainReader, EntryReader};
use super::desk::{KafkaDesk, letter_writer};
use super::effects::Desk;
use super::exactly_once::ExactlyOncePlan;
use super::gate::SharedGate;
use super::handle::PipelineHandle;
use super::handler::{BatchHandler, Handler};
use super::observer::{Observers, PipelineObserver};
use super::plan::{Pipeline, Plan};
use super::reader::{Nullable, Reader, Required, Seeing, Shape};
use super::retries::{Retries, RetryGate, Waiting};
use super::settings::{Guarantee, PipelineSettings};
use super::source::Failed;
use super::staging_desk::StagingDesk;
use super::topics::{LetterNeeds, TopicPlan};
use super::work::{Batch, Single};
use crate::component::Component;
use crate::config::{Chain, Configuration, Direction};
use crate::dead_letter::{DeadLetters, Dialect};
use crate::delay::DelaySink;
use crate::error::{Error, Result};
use crate::properties::{Problem, Report};
use crate::record::{Part, Timestamp};
use crate::transport::Settings;
use crate::transport::kafka::{GroupOptions, group_settings};
use crate::value::Value;
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// A function that names the dead-letter topic of a failed record, or leaves it to the template.
pub(super) type Route = Arc<dyn Fn(&Failed) -> Option<String> + Send + Sync>;

/// Builds a [`Pipeline`]: from a configuration, a reader and a handler.
#[must_use]
pub struct PipelineBuilder<'c, R = ()> {
    configuration: &'c Configuration,
    pub(super) settings: PipelineSettings,
    client: Settings,
    observers: Observers,
    route: Option<Route>,
    retry_sink: Option<Arc<dyn DelaySink>>,
    signals: bool,
    chains: Vec<Box<dyn Component>>,
    reader: R,
}

impl<'c> PipelineBuilder<'c> {
    pub(super) fn new(configuration: &'c Configuration) -> std::result::Result<Self, Report> {
        let settings = PipelineSettings::of(configuration)?;
        let client = configuration.client().iter();
        Ok(PipelineBuilder {
            configuration,
            settings,
            client: client.map(|p| (p.key.clone(), p.value.clone())).collect(),
            observers: Observers::default(),
            route: None,
            retry_sink: None,
            signals: false,
            chains: Vec::new(),
            reader: (),
        })
    }

    /// Has values handled as `T`, which the value's chain must yield. A null value is a failure of
    /// kind Schema; see [`nullable_values`](Self::nullable_values).
    ///
    /// # Errors
    /// When the chain yields something else.
    pub fn values<T: Any + Send>(
        self,
    ) -> std::result::Result<PipelineBuilder<'c, ChainReader<T, Required>>, Report> {
        self.chain_reader()
    }

    /// Has values handled as `Option<T>`; a null value is `None`.
    ///
    /// # Errors
    /// When the chain yields something else.
    pub fn nullable_values<T: Any + Send>(
        self,
    ) -> std::result::Result<PipelineBuilder<'c, ChainReader<T, Nullable>>, Report> {
        self.chain_reader()
    }

    /// Has values handled as `Outcome<Option<T>>`: the handler sees what could not be read, and what
    /// it answers is all that is judged.
    ///
    /// # Errors
    /// When the chain yields something else.
    pub fn outcomes<T: Any + Send>(
        self,
    ) -> std::result::Result<PipelineBuilder<'c, ChainReader<T, Seeing>>, Report> {
        self.chain_reader()
    }

    /// Has keys and values handled as an [`Entry`](super::Entry).
    ///
    /// # Errors
    /// When a chain yields something else.
    pub fn entries<K: Any + Send, V: Any + Send>(
        mut self,
    ) -> std::result::Result<PipelineBuilder<'c, EntryReader<K, V>>, Report> {
        let key = self.configuration.deserializer::<K>(Part::Key);
        let value = self.configuration.deserializer::<V>(Part::Value);
        let (key, value) = match (key, value) {
            (Ok(key), Ok(value)) => (key, value),
            (Err(mut one), Err(other)) => {
                one.append(other);
                return Err(one);
            }
            (Err(report), _) | (_, Err(report)) => return Err(report),
        };
        self.chains.push(Box::new(key.clone()));
        self.chains.push(Box::new(value.clone()));
        Ok(self.reader(EntryReader::new(key, value)))
    }

    fn chain_reader<T, S>(
        mut self,
    ) -> std::result::Result<PipelineBuilder<'c, ChainReader<T, S>>, Report>
    where
        T: Any + Send,
        S: Shape<T>,
    {
        let value: Chain<T> = self.configuration.deserializer(Part::Value)?;
        let is_key = |chain: &&crate::config::RoleChain| {
            chain.part == Part::Key && chain.direction == Direction::Deserializer
        };
        let key = self.configuration.roles().iter().find(is_key);
        let key: Option<Chain<Value>> = match key.is_some_and(|chain| chain.is_set) {
            true => Some(self.configuration.deserializer(Part::Key)?),
            false => None,
        };
        self.chains.push(Box::new(value.clone()));
        if let Some(key) = &key {
            self.chains.push(Box::new(key.clone()));
        }
        Ok(self.reader(ChainReader::new(key, value)))
    }

    /// Has records read by `reader` instead of the configured chains.
    pub fn reader<R: Reader>(self, reader: R) -> PipelineBuilder<'c, R> {
        PipelineBuilder {
            configuration: self.configuration,
            settings: self.settings,
            client: self.client,
            observers: self.observers,
            route: self.route,
            retry_sink: self.retry_sink,
            signals: self.signals,
            chains: self.chains,
            reader,
        }
    }
}

impl<'c, R> PipelineBuilder<'c, R> {
    /// Sets one of the client's settings, by librdkafka's name, whatever the properties say.
    pub fn client(mut self, name: &str, value: impl Into<String>) -> Self {
        self.client.set(name, value);
        self
    }

    /// The client's settings as they stand.
    pub(crate) fn client_settings(&self) -> &Settings {
        &self.client
    }

    /// Consumes these topics instead of the configured ones; one that begins with `^` is a pattern.
    pub fn topics<T: Into<String>>(mut self, topics: impl IntoIterator<Item = T>) -> Self {
        self.settings.topics = topics.into_iter().map(Into::into).collect();
        self
    }

    /// Changes the settings that properties gave.
    pub fn settings(mut self, change: impl FnOnce(&mut PipelineSettings)) -> Self {
        change(&mut self.settings);
        self
    }

    /// Tells `observer` what happens; several are told in turn.
    pub fn observer(mut self, observer: impl PipelineObserver) -> Self {
        self.observers.all.push(Box::new(observer));
        self
    }

    /// Names the dead-letter topic of a failed record by a function; where it answers `None` the
    /// template does. A record's own topic is refused.
    pub fn dead_letter_topic(
        mut self,
        route: impl Fn(&Failed) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.route = Some(Arc::new(route));
        self
    }

    /// Puts records aside in `sink`, which must outlive this process, by the waits of `retry.delay`; with
    /// `retry.topics` no sink is needed.
    ///
    /// Whatever delivers from it writes to the topics its records name, `${topic}.${group}.retry`,
    /// which the pipeline consumes as well.
    pub fn retry_sink(mut self, sink: impl DelaySink + 'static) -> Self {
        self.retry_sink = Some(Arc::new(sink));
        self
    }

    /// Stops gracefully on SIGTERM and Ctrl-C; a second signal stops at once.
    pub fn stop_on_signals(mut self) -> Self {
        self.signals = true;
        self
    }
}

impl<R: Reader> PipelineBuilder<'_, R> {
    /// A pipeline whose records `handler` handles one by one.
    ///
    /// # Errors
    /// Of kind Config, with all that is wrong.
    pub fn handler<H: Handler<R::Value>>(self, handler: H) -> Result<Pipeline<Single<R, H>>> {
        let (plan, reader) = self.plan()?;
        let work = Single::new(reader, handler).timing(plan.timing());
        let work = match plan.settings.handler_timeout {
            Some(limit) => work.timeout(limit),
            None => work,
        };
        Ok(Pipeline::new(plan, work))
    }

    /// A pipeline whose records are handled by calls that block, on `threads` threads of their own.
    ///
    /// # Errors
    /// Of kind Config, with all that is wrong; of kind Unavailable when there can be no threads.
    pub fn blocking_handler<H: SyncHandler<R::Value>>(
        self,
        threads: usize,
        handler: H,
    ) -> Result<Pipeline<Single<R, Blocking<H>>>> {
        let pool = SyncPool::start(threads)?;
        self.handler(blocking(&pool, handler))
    }

    /// A pipeline whose records are handled up to `size` at a time, of what is there.
    ///
    /// # Errors
    /// Of kind Config, with all that is wrong.
    pub fn batch_handler<H: BatchHandler<R::Value>>(
        self,
        size: usize,
        handler: H,
    ) -> Result<Pipeline<Batch<R, H>>> {
        if self.settings.worker.order == super::queue::Order::Key && size > 1 {
            return Err(Error::config(
                "a batch handler has no order of keys: processing.order is partition or unordered",
            ));
        }
        let (plan, reader) = self.plan()?;
        let work = Batch::new(reader, handler, size).timing(plan.timing());
        let work = match plan.settings.handler_timeout {
            Some(limit) => work.timeout(limit),
            None => work,
        };
        Ok(Pipeline::new(plan, work))
    }

    fn plan(self) -> Result<(Plan, R)> {
        let mut report = Report::new();
        if self.settings.topics.is_empty() {
            report.push(Problem::new("there are no topics to consume").key("topics"));
        }
        for name in ["group.id", "bootstrap.servers"] {
            if self.client.get(name).is_none_or(str::is_empty) {
                report.push(Problem::new("it is not set, but a pipeline needs it").key(name));
            }
        }
        for name in ["enable.auto.commit", "enable.auto.offset.store"] {
            if self.client.get(name) == Some("true") {
                let why = "librdkafka would commit what is not finished; the pipeline commits \
                           itself: leave it out, or set it to false";
                report.push(Problem::new(why).key(name));
            }
        }
        if !report.is_empty() {
            return Err(Error::config(report.to_string()));
        }
        let client = group_settings(&self.client)?;
        let group = client.get("group.id").unwrap_or_default();
        let mut settings = self.settings;
        let delays = Arc::<[_]>::from(settings.retry_topics.clone());
        let waiting = match (self.retry_sink, &settings.worker.policy.delay) {
            (None, None) => None,
            (None, Some(_)) if !delays.is_empty() => Some(Waiting::Topics(delays)),
            (Some(_), Some(_)) if settings.guarantee == Guarantee::ExactlyOnce => {
                return Err(Error::config(
                    "a sink for retries is no part of a transaction: with \
                     processing.guarantee=exactly_once retries wait in topics (retry.topics)",
                ));
            }
            (Some(sink), Some(_)) if delays.is_empty() => Some(Waiting::Sink(sink)),
            (Some(_), Some(_)) => {
                return Err(Error::config(
                    "retry.topics is set, and a sink for retries is given to the pipeline: one of them",
                ));
            }
            (Some(_), None) => {
                return Err(Error::config(
                    "there is a sink for retries, but retry.delay is not set: nothing is put aside",
                ));
            }
            (None, Some(_)) => {
                return Err(Error::config(
                    "retry.delay is set, but no sink for retries is given to the pipeline",
                ));
            }
        };
        let spring = settings.dead_letter_dialects.contains(&Dialect::Spring);
        let retries = match waiting {
            Some(waiting) => Some(Retries::new(waiting, group, spring)?),
            None => None,
        };
        if retries.is_some() {
            settings
                .worker
                .gate
                .get_or_insert_with(|| SharedGate::new(RetryGate::new()));
        }
        let letters = LetterNeeds {
            template: &settings.dead_letter_topic,
            group,
            dialects: settings.dead_letter_dialects.len(),
            routed: self.route.is_some(),
            source_timestamps: copies_timestamps(&settings),
            retries: retries.is_some().then(|| settings.retry_topics.clone()),
        };
        let check = (settings.topic_check, settings.topic_create);
        let topics = TopicPlan::new(&settings.topics, check, &letters)?;
        let writer = letter_writer(&settings, &client, self.route)?;
        let exactly_once = (settings.guarantee == Guarantee::ExactlyOnce)
            .then(|| ExactlyOncePlan::new(&settings, &client))
            .transpose()?;
        let desk: Arc<dyn Desk> = match &exactly_once {
            None => Arc::new(KafkaDesk::new(writer, retries)),
            Some(plan) => Arc::new(StagingDesk {
                writer,
                retries,
                transactor: plan.transactor.clone(),
            }),
        };
        let options = GroupOptions {
            drain: settings.worker.drain,
        };
        let plan = Plan {
            settings,
            topics,
            client,
            options,
            observers: self.observers,
            desk,
            exactly_once,
            chains: self.chains,
            signals: self.signals,
            handle: PipelineHandle::new(),
        };
        Ok((plan, self.reader))
    }
}

/// Whether dead letters have the timestamps of their records.
fn copies_timestamps(settings: &PipelineSettings) -> bool {
    let mut letters = DeadLetters::new().dialects(settings.dead_letter_dialects.iter().copied());
    if let Some(policy) = settings.dead_letter_timestamp {
        letters = letters.timestamp(policy);
    }
    letters.timestamp_of(Timestamp::CreateTime(1)).is_some()
}

impl<R> fmt::Debug for PipelineBuilder<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PipelineBuilder")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
