//! What properties say of a forwarder.

use crate::config::{Configuration, KeySpec, Node, SectionSpec};
use crate::delay::deliver::{DeliverRules, DeliverTo};
use crate::error::Error;
use crate::properties::Report;
use crate::transport::Settings;

/// What stands below it is for the producer of delayed records.
const PRODUCER: &str = "delay.producer.";

const KEYS: &[KeySpec] = &[
    KeySpec::new(
        "deliver.allow",
        "names",
        "The topics that delayed records may be delivered to, separated by commas; `*` stands for any characters.",
    ),
    KeySpec::new(
        "deliver.to",
        "`topic` or `topic:partition`",
        "Where delayed records are delivered to that say no topic.",
    ),
    KeySpec::new(
        "deliver.max.delay.ms",
        "milliseconds",
        "The furthest that a record may be delayed.",
    )
    .or("31622400000"),
];

/// The keys of a forwarder.
pub(crate) fn section() -> SectionSpec {
    SectionSpec::new("forwarder", KEYS, read)
}

/// What properties say of a forwarder, beside what they say of its pipeline.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ForwarderSettings {
    /// Which targets are allowed.
    pub rules: DeliverRules,
    /// Settings of the producer, beside those it inherits.
    pub producer: Settings,
}

impl ForwarderSettings {
    /// The settings of a configuration.
    ///
    /// # Errors
    /// All mistakes in one go; none that [`Registry::configure`](crate::config::Registry::configure)
    /// did not report already.
    pub fn of(configuration: &Configuration) -> Result<Self, Report> {
        let own = configuration.own().iter();
        Ok(ForwarderSettings {
            rules: configuration.section(&section(), read)?,
            producer: own
                .filter_map(|own| Some((own.key.strip_prefix(PRODUCER)?, own.value.clone())))
                .collect(),
        })
    }
}

fn read(node: &mut Node<'_, '_>) -> Option<DeliverRules> {
    let allow = node.text("deliver.allow").unwrap_or_default();
    let to = node.text("deliver.to").unwrap_or_default();
    let max = node.millis("deliver.max.delay.ms");
    let rules = DeliverRules::parse(&allow);
    let to = match to.is_empty() {
        true => Ok(None),
        false => DeliverTo::parse(to.as_bytes()).map(Some),
    };
    let refused = |error: &Error| error.message().to_owned();
    if let Err(error) = &rules {
        node.problem("deliver.allow", refused(error));
    }
    if let Err(error) = &to {
        node.problem("deliver.to", refused(error));
    }
    let rules = rules.ok()?.max_delay(max??);
    let Some(to) = to.ok()? else {
        return Some(rules);
    };
    let rules = rules.default_to(to);
    if let Err(error) = &rules {
        node.problem("deliver.to", refused(error));
    }
    rules.ok()
}
