//! Moves the records of delay topics to their targets when they are due.
//!
//! A forwarder is a [pipeline](crate::pipeline) over [delay topics](crate::delay::topic), with a gate that holds each record
//! until its time, in memory and without pausing a partition. What it writes is acknowledged before
//! the record's offset is committed, so that nothing is lost and after a crash some come twice; none
//! is early.

mod gate;
mod handler;
mod retention;
mod settings;
mod targets;

pub use handler::ForwarderCounts;
pub use retention::delay_topics;
pub use settings::ForwarderSettings;
pub(crate) use settings::section;

use crate::clock::{Clock, SystemClock};
use crate::config::Configuration;
use crate::delay::alarm::Alarm;
use crate::delay::deliver::DeliverRules;
use crate::delay::topic::{DelayTiers, Moves};
use crate::error::{Error, Result};
use crate::pipeline::{
    Pipeline, PipelineBuilder, PipelineHandle, PipelineSettings, SharedGate, Single, Summary,
};
use crate::properties::Report;
use crate::transport::kafka::KafkaSink;
use crate::transport::{Settings, producer_settings};
use gate::DueGate;
use handler::{ForwardHandler, ForwardReader};
use std::fmt;
use std::sync::Arc;
use targets::Targets;

/// Consumes delay topics and writes what is due to its target.
///
/// Its properties are the pipeline's, with `topics` the delay topics (`orders.delay.1m`), and
/// `deliver.allow`, `deliver.to`, `deliver.max.delay.ms` and `delay.producer.*`. Records that have no
/// target that is allowed, or a broken header or envelope, go to the dead-letter topic.
///
/// ```no_run
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// use kafka_chain::config::Registry;
/// use kafka_chain::forwarder::Forwarder;
///
/// let properties = "bootstrap.servers=localhost:9092\n\
///                   group.id=orders-forwarder\n\
///                   topics=orders.delay.1m,orders.delay.10m\n\
///                   deliver.allow=orders\n";
/// let configuration = Registry::builtin().configure(&properties.parse()?)?;
/// Forwarder::builder(&configuration)?.build()?.run().await?;
/// # Ok(())
/// # }
/// ```
pub struct Forwarder {
    pipeline: Pipeline<Single<ForwardReader, ForwardHandler>>,
    counts: Arc<ForwarderCounts>,
    client: Settings,
    tiers: DelayTiers,
}

impl Forwarder {
    /// Begins a forwarder of what `configuration` says.
    ///
    /// # Errors
    /// All mistakes in one go; none that were not reported when the properties were configured.
    pub fn builder(
        configuration: &Configuration,
    ) -> std::result::Result<ForwarderBuilder<'_>, Report> {
        Ok(ForwarderBuilder {
            settings: ForwarderSettings::of(configuration)?,
            pipeline: Pipeline::builder(configuration)?,
            tiers: None,
            rules: None,
            clock: Arc::new(SystemClock),
        })
    }

    /// Steers it while it runs.
    pub fn handle(&self) -> PipelineHandle {
        self.pipeline.handle()
    }

    /// What it goes by.
    pub fn settings(&self) -> &PipelineSettings {
        self.pipeline.settings()
    }

    /// What it has done; the counts go on.
    pub fn counts(&self) -> Arc<ForwarderCounts> {
        Arc::clone(&self.counts)
    }

    /// Works until it is stopped. Meanwhile, at the start, it asks how long the brokers keep the delay
    /// topics; where they do not say, it trusts them.
    ///
    /// # Errors
    /// As of [`Pipeline::run`]; and of kind [`Config`](crate::ErrorKind::Config) when a topic is kept for
    /// less long than its records wait.
    pub async fn run(self) -> Result<Summary> {
        let handle = self.pipeline.handle();
        let (tiers, client) = (self.tiers, self.client);
        let checking = async {
            let checked = retention::check(&client, &tiers).await;
            if checked.is_err() {
                handle.stop();
            }
            checked
        };
        let mut run = std::pin::pin!(self.pipeline.run());
        let checked = tokio::select! {
            ended = &mut run => return ended,
            checked = checking => checked,
        };
        let ended = run.await;
        checked.and(ended)
    }
}

impl fmt::Debug for Forwarder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Forwarder")
            .field("tiers", &self.tiers)
            .field("counts", &self.counts)
            .finish_non_exhaustive()
    }
}

/// Builds a [`Forwarder`].
#[must_use]
pub struct ForwarderBuilder<'c> {
    pipeline: PipelineBuilder<'c>,
    settings: ForwarderSettings,
    tiers: Option<DelayTiers>,
    rules: Option<DeliverRules>,
    clock: Arc<dyn Clock>,
}

impl<'c> ForwarderBuilder<'c> {
    /// Consumes these topics instead of the configured ones.
    pub fn tiers(mut self, tiers: DelayTiers) -> Self {
        self.tiers = Some(tiers);
        self
    }

    /// Goes by these rules instead of `deliver.*`.
    pub fn rules(mut self, rules: DeliverRules) -> Self {
        self.rules = Some(rules);
        self
    }

    /// Goes by another clock.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Changes the pipeline that it becomes: its observers, its client's settings, signals.
    pub fn pipeline(
        mut self,
        change: impl FnOnce(PipelineBuilder<'c>) -> PipelineBuilder<'c>,
    ) -> Self {
        self.pipeline = change(self.pipeline);
        self
    }

    /// The forwarder.
    ///
    /// # Errors
    /// Kind [`Config`](crate::ErrorKind::Config): no delay topics, a topic whose name says no delay,
    /// no target that is allowed, or what is wrong with the pipeline.
    pub fn build(self) -> Result<Forwarder> {
        let ForwarderBuilder {
            mut pipeline,
            settings,
            tiers,
            rules,
            clock,
        } = self;
        let mut topics = Vec::new();
        let producer = &settings.producer;
        pipeline = pipeline.settings(|pipeline| {
            topics.clone_from(&pipeline.topics);
            for (name, value) in producer.iter() {
                pipeline.producer.set(name, value);
            }
            // Lateness counts here, and what is due at once makes a batch anyhow.
            pipeline.producer.set_default("linger.ms", "0");
            // Many bad records in a row are no outage of ours, and others must not wait for them.
            pipeline.worker.policy.limits.consecutive = 0;
        });
        let tiers = match tiers {
            Some(tiers) => tiers,
            None => DelayTiers::of_topics(topics).map_err(|error| error.at("topics"))?,
        };
        let rules = rules.unwrap_or(settings.rules);
        if rules.is_empty() {
            return Err(Error::config(
                "deliver.allow and deliver.to are not set: no record could be delivered",
            ));
        }
        let moves = Arc::new(Moves::new(tiers.clone(), rules));
        let alarm = Alarm::new(clock);
        let gate = SharedGate::new(DueGate::new(Arc::clone(&moves), alarm.clone()));
        let counts = Arc::new(ForwarderCounts::new(alarm.clone()));
        // What was set by program counts here, too.
        let client = pipeline.client_settings().clone();
        let looking = producer_settings(&client, &settings.producer);
        let targets = Targets::new(Arc::new(KafkaSink::start(&looking)?));
        let pipeline = pipeline
            .topics(tiers.tiers().iter().map(|tier| tier.topic.clone()))
            .settings(|pipeline| pipeline.worker.gate = Some(gate))
            .reader(ForwardReader::new(moves, alarm))
            .handler(ForwardHandler::new(Arc::clone(&counts), targets))?;
        Ok(Forwarder {
            pipeline,
            counts,
            client,
            tiers,
        })
    }
}

impl fmt::Debug for ForwarderBuilder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForwarderBuilder")
            .field("pipeline", &self.pipeline)
            .field("tiers", &self.tiers)
            .finish_non_exhaustive()
    }
}
