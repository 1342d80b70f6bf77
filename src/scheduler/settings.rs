//! What properties say of a scheduler.

use super::options::{ScheduleDurability, SchedulerOptions};
use crate::config::{Configuration, KeySpec, Node, SectionSpec};
use crate::delay::deliver::{DeliverRules, DeliverTo};
use crate::error::{Error, Result};
use crate::pipeline::PipelineSettings;
use std::path::PathBuf;
use std::time::Duration;

/// What stands below it is for the producer of delayed records.
const PRODUCER: &str = "delay.producer.";

const KEYS: &[KeySpec] = &[
    KeySpec::new(
        "scheduler.folder",
        "folder",
        "Where a scheduler keeps its index; one process has it at a time.",
    ),
    KeySpec::new(
        "scheduler.durability",
        "`changelog` or `local`",
        "Whether what waits is in the topic `<topic>.schedule`, or in the folder alone, of one static member.",
    )
    .or("changelog"),
    KeySpec::new(
        "scheduler.accept.loss",
        "true or false",
        "With `local`, goes on where what was taken in before is in another folder, or lost.",
    )
    .or("false"),
    KeySpec::new(
        "scheduler.batch",
        "a whole number above 0",
        "How many records of a partition are delivered at once.",
    )
    .or("1000"),
];

/// The keys of a scheduler.
pub(crate) fn section() -> SectionSpec {
    SectionSpec::new("scheduler", KEYS, read)
}

struct Own {
    folder: Option<PathBuf>,
    durability: ScheduleDurability,
    batch: usize,
}

fn read(node: &mut Node<'_, '_>) -> Option<Own> {
    let folder = node.text("scheduler.folder").map(PathBuf::from);
    let durability = node.text("scheduler.durability").unwrap_or_default();
    let accept_loss = node.parse::<bool>("scheduler.accept.loss", "true or false", |_| true);
    let count = "a whole number above 0";
    let batch = node.parse::<usize>("scheduler.batch", count, |n| *n > 0);
    let durability = match durability.as_str() {
        "" | "changelog" => ScheduleDurability::Changelog,
        "local" => ScheduleDurability::Local {
            accept_loss: accept_loss??,
        },
        _ => {
            node.problem(
                "scheduler.durability",
                "it is neither `changelog` nor `local`",
            );
            return None;
        }
    };
    Some(Own {
        folder,
        durability,
        batch: batch??,
    })
}

impl SchedulerOptions {
    /// What a configuration says: the keys `scheduler.*`, `deliver.*` and `delay.producer.*`, and of
    /// the pipeline's `topics`, which is one, `dead.letter.topic`, `commit.interval.ms` and
    /// `drain.timeout.ms`.
    ///
    /// # Errors
    /// Kind [`Config`](crate::ErrorKind::Config): there is not one topic, or no folder; what else may
    /// be wrong was reported when the properties were configured.
    pub fn of(configuration: &Configuration) -> Result<Self> {
        let refused = |report| Error::config("the configuration is not valid").with_source(report);
        let pipeline = PipelineSettings::of(configuration).map_err(refused)?;
        let own = configuration.section(&section(), read).map_err(refused)?;
        let [topic] = pipeline.topics.as_slice() else {
            let count = pipeline.topics.len();
            return Err(Error::config(format!(
                "topics: a scheduler reads one topic, not {count}"
            )));
        };
        let folder = own
            .folder
            .ok_or_else(|| Error::config("scheduler.folder is missing"))?;
        let consumer = configuration.client().iter();
        let consumer = consumer.map(|own| (own.key.clone(), own.value.clone()));
        let options =
            SchedulerOptions::new(topic, consumer.collect(), rules(configuration)?, folder);
        let producer = configuration.own().iter();
        let producer =
            producer.filter_map(|own| Some((own.key.strip_prefix(PRODUCER)?, own.value.clone())));
        Ok(SchedulerOptions {
            producer: producer.collect(),
            durability: own.durability,
            batch: own.batch,
            dead_letter_topic: pipeline.dead_letter_topic,
            commit_interval: pipeline.commit_interval,
            drain: pipeline.worker.drain,
            limits: crate::delay::Limits {
                max_delay: max_delay(configuration),
                ..crate::delay::Limits::default()
            },
            ..options
        })
    }
}

/// Of keys that are checked with the forwarder's.
fn rules(configuration: &Configuration) -> Result<DeliverRules> {
    let own = configuration.own();
    let rules = DeliverRules::parse(own.value("deliver.allow").unwrap_or_default())?;
    match own.value("deliver.to") {
        None | Some("") => Ok(rules),
        Some(to) => rules.default_to(DeliverTo::parse(to.as_bytes())?),
    }
}

fn max_delay(configuration: &Configuration) -> Duration {
    let max = configuration.own().value("deliver.max.delay.ms");
    let max = max.and_then(|max| max.parse().ok());
    max.map_or(
        crate::delay::Limits::default().max_delay,
        Duration::from_millis,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Registry;

    fn of(more: &str) -> Result<SchedulerOptions> {
        let properties = format!(
            "bootstrap.servers=localhost:9092\ngroup.id=g\ntopics=later\nscheduler.folder=/tmp/x\n\
             deliver.allow=orders\n{more}"
        );
        let configuration = Registry::builtin().configure(&properties.parse().unwrap());
        SchedulerOptions::of(&configuration.map_err(|report| Error::config(report.to_string()))?)
    }

    #[test]
    fn properties_say_what_a_scheduler_goes_by() {
        let options = of(
            "scheduler.durability=local\ndelay.producer.linger.ms=3\ndeliver.max.delay.ms=60000\n\
             scheduler.batch=7\ngroup.instance.id=one\n",
        )
        .unwrap();
        assert_eq!(options.topic, "later");
        assert_eq!(options.changelog(), "later.schedule");
        assert_eq!(options.producer.get("linger.ms"), Some("3"));
        assert_eq!(options.consumer.get("group.id"), Some("g"));
        assert_eq!(options.limits.max_delay, Duration::from_secs(60));
        assert_eq!(options.batch, 7);
        let local = ScheduleDurability::Local { accept_loss: false };
        assert_eq!(options.durability, local);
        options.check().unwrap();
        assert_eq!(of("").unwrap().durability, ScheduleDurability::Changelog);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (more, named) in [
            ("scheduler.durability=loca", "scheduler.durability"),
            ("scheduler.batch=0", "scheduler.batch"),
            ("scheduler.accept.loss=maybe", "scheduler.accept.loss"),
            ("topics=a,b", "topics"),
        ] {
            let error = of(more).unwrap_err();
            assert!(error.message().contains(named), "{error}");
        }
        let error = of("scheduler.durability=local")
            .unwrap()
            .check()
            .unwrap_err();
        assert!(error.message().contains("group.instance.id"), "{error}");
        let error = of("deliver.allow=").unwrap().check().unwrap_err();
        assert!(error.message().contains("deliver.allow"), "{error}");
    }
}
