//! The pipeline: what it is made of, and its life from joining the group to leaving it.

use super::builder::PipelineBuilder;
use super::effects::Desk;
use super::exactly_once::{ExactlyOnce, ExactlyOncePlan};
use super::handle::PipelineHandle;
use super::observe::{Health, Observation, Timing};
use super::observer::Observers;
use super::running::Running;
use super::settings::PipelineSettings;
use super::topics::TopicPlan;
use super::work::Work;
use crate::component::Component;
use crate::config::Configuration;
use crate::error::{Error, Result};
use crate::properties::Report;
use crate::transport::Settings;
use crate::transport::kafka::{GroupConsumer, GroupOptions, KafkaRecord};
use std::fmt;
use std::sync::Arc;

/// What a pipeline is made of, but for its work.
pub(super) struct Plan {
    pub(super) settings: PipelineSettings,
    pub(super) topics: TopicPlan,
    /// The consumer's settings, our defaults included.
    pub(super) client: Settings,
    pub(super) options: GroupOptions,
    pub(super) observers: Observers,
    pub(super) desk: Arc<dyn Desk>,
    pub(super) exactly_once: Option<ExactlyOncePlan>,
    /// To be closed at the end.
    pub(super) chains: Vec<Box<dyn Component>>,
    pub(super) signals: bool,
    pub(super) handle: PipelineHandle,
}

impl Plan {
    pub(super) fn timing(&self) -> Timing {
        match self.settings.timing {
            true => Timing::on(),
            false => Timing::off(),
        }
    }
}

/// How a pipeline ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// Records in flight that were given up at the end of their time; they come again.
    pub abandoned: usize,
    /// Partitions whose last mark could not be committed; what lies beyond the one before comes again.
    pub uncommitted: usize,
}

/// Consumes topics as a member of a group, one ordered worker a partition, until it is stopped:
/// consume → chain → handle → judge → settle → mark → commit.
///
/// At least once: an offset is committed only after the effect of every record below it is durable.
/// With `processing.guarantee=exactly_once` dead letters and what handlers
/// [`send`](super::HandlerContext::send) are written in the transaction that commits the offset, and
/// `read_committed` readers see them once.
/// It works on any tokio runtime with a timer, a current-thread one too.
///
/// ```no_run
/// use kafka_chain::Error;
/// use kafka_chain::config::Registry;
/// use kafka_chain::pipeline::{HandlerContext, Pipeline, handle_with};
///
/// async fn ship(order: String, context: &HandlerContext<'_>) -> Result<(), Error> {
///     println!("{} at {}", order, context.record().offset);
///     Ok(())
/// }
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let configuration = Registry::builtin().load("consumer.properties")?;
/// let pipeline = Pipeline::builder(&configuration)?
///     .values::<String>()?
///     .stop_on_signals()
///     .handler(handle_with(ship))?;
/// pipeline.run().await?;
/// # Ok(())
/// # }
/// ```
pub struct Pipeline<W> {
    plan: Plan,
    work: Arc<W>,
}

impl Pipeline<()> {
    /// Begins a pipeline of what `configuration` says.
    ///
    /// # Errors
    /// All mistakes in one go; none that were not reported when the properties were configured.
    pub fn builder(
        configuration: &Configuration,
    ) -> std::result::Result<PipelineBuilder<'_>, Report> {
        PipelineBuilder::new(configuration)
    }
}

impl<W> Pipeline<W> {
    pub(super) fn new(plan: Plan, work: W) -> Self {
        Pipeline {
            plan,
            work: Arc::new(work),
        }
    }

    /// Steers the pipeline while it runs.
    pub fn handle(&self) -> PipelineHandle {
        self.plan.handle.clone()
    }

    /// How it is; the same as its [handle](Self::handle) tells, while it runs and after.
    pub fn health(&self) -> Health {
        self.plan.handle.health()
    }

    /// What it goes by.
    pub fn settings(&self) -> &PipelineSettings {
        &self.plan.settings
    }
}

impl<W: Work<KafkaRecord>> Pipeline<W> {
    /// Looks at the topics (`topics.check`), joins the group and works until it is stopped. Dropping the future drops everything in flight
    /// and leaves the group without a last commit.
    ///
    /// # Errors
    /// What no record is to blame for: the wiring, topics that do not fit, an error of the client that does not pass, a
    /// verdict that stops the pipeline. Everything that was finished before is committed, if the
    /// group still takes it.
    pub async fn run(mut self) -> Result<Summary> {
        let chains = std::mem::take(&mut self.plan.chains);
        let ended = self.work().await;
        for chain in &chains {
            // What is wrong with closing changes nothing about the records.
            let closed: Result<(), Error> = chain.close().await;
            drop(closed);
        }
        ended
    }

    async fn work(self) -> Result<Summary> {
        let Pipeline { plan, work } = self;
        let (topics, client) = (plan.topics, plan.client);
        let (seen, limit) = (plan.handle.seen(), plan.settings.stall_warn);
        let observation = Observation::new(seen, plan.observers, limit);
        let observer = observation.observer();
        let prepared = tokio::select! {
            prepared = topics.prepare(&client, &*observer) => prepared?,
            () = plan.handle.stopping() => return Ok(Summary::default()),
        };
        let names: Vec<&String> = prepared.topics.iter().collect();
        let group = GroupConsumer::start(&client, &names, &plan.options)?;
        observation.started(group.handle());
        let exactly_once = match plan.exactly_once {
            None => None,
            Some(staged) => {
                let observer = observation.observer();
                Some(ExactlyOnce::start(staged, group.handle(), observer)?)
            }
        };
        let watching = topics.watch(prepared, &client, group.handle(), &*observer);
        let running = Running::new(
            plan.settings,
            plan.handle,
            observation,
            plan.desk,
            exactly_once,
            work,
            group,
        );
        let running = async {
            match plan.signals {
                true => running.run_with_signals().await,
                false => running.run().await,
            }
        };
        tokio::select! {
            ended = running => ended,
            never = watching => match never {},
        }
    }
}

impl<W> fmt::Debug for Pipeline<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipeline")
            .field("settings", &self.plan.settings)
            .finish_non_exhaustive()
    }
}
