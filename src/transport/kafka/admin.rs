//! Creating topics, and asking for their settings.

use super::errors;
use super::properties::client_config;
use crate::error::{Error, Result};
use crate::transport::{Settings, producer_settings};
use rdkafka::admin::{
    self, AdminClient, AdminOptions, OwnedResourceSpecifier, ResourceSpecifier, TopicReplication,
};
use rdkafka::client::DefaultClientContext;
use rdkafka::error::RDKafkaErrorCode;
use std::collections::BTreeMap;
use std::time::Duration;

/// A topic to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTopic {
    /// Its name.
    pub name: String,
    /// How many partitions it has.
    pub partitions: i32,
    /// How many copies the brokers keep; -1 is the brokers' default.
    pub replication: i32,
    /// The topic's own settings, by the broker's names (`cleanup.policy`).
    pub config: BTreeMap<String, String>,
}

impl NewTopic {
    /// A topic with the brokers' default replication and settings.
    pub fn new(name: impl Into<String>, partitions: i32) -> Self {
        NewTopic {
            name: name.into(),
            partitions,
            replication: -1,
            config: BTreeMap::new(),
        }
    }
}

/// Creates topics on the cluster that `settings` reach; one that exists already is left as it is.
///
/// The [embedded broker](super::EmbeddedBroker) has no admin API; create its topics there.
///
/// # Errors
/// Of the first topic that could not be created, by name, or when the brokers did not answer
/// within `limit`.
pub async fn create_topics(
    settings: &Settings,
    topics: Vec<NewTopic>,
    limit: Duration,
) -> Result<()> {
    let config = client_config(settings)?;
    let servers = settings
        .get("bootstrap.servers")
        .unwrap_or_default()
        .to_owned();
    let handle = tokio::runtime::Handle::current();
    // Starting and dropping an admin client blocks.
    super::blocking(move || {
        let client: AdminClient<DefaultClientContext> = config
            .create()
            .map_err(|cause| errors::from_kafka("could not start an admin client", &cause))?;
        let natives: Vec<_> = topics.iter().map(native).collect();
        let options = AdminOptions::new()
            .request_timeout(Some(limit))
            .operation_timeout(Some(limit));
        let results = handle
            .block_on(client.create_topics(&natives, &options))
            .map_err(|cause| {
                errors::from_kafka(&format!("could not create topics at {servers}"), &cause)
            })?;
        for result in results {
            match result {
                Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
                Err((name, code)) => {
                    return Err(errors::error(
                        &format!("could not create topic {name}"),
                        code,
                    ));
                }
            }
        }
        Ok(())
    })
    .await
}

/// The value of one of the topics' own settings, by topic. A topic that does not exist, or that we may
/// not ask about, has none.
///
/// # Errors
/// When the brokers did not answer within `limit`, as the [embedded one](super::EmbeddedBroker) does
/// not.
pub async fn topic_setting(
    settings: &Settings,
    topics: Vec<String>,
    name: &'static str,
    limit: Duration,
) -> Result<BTreeMap<String, String>> {
    let config = client_config(&producer_settings(settings, &Settings::new()))?;
    let started = super::blocking(move || {
        let client: AdminClient<DefaultClientContext> = config
            .create()
            .map_err(|cause| errors::from_kafka("could not start an admin client", &cause))?;
        Ok(Elsewhere(Some(client)))
    });
    let started = started.await?;
    let client = started.0.as_ref();
    let client = client.ok_or_else(|| Error::unavailable("the admin client is closed"))?;
    let asked: Vec<_> = topics.iter().map(|t| ResourceSpecifier::Topic(t)).collect();
    let options = AdminOptions::new().request_timeout(Some(limit));
    let found = client
        .describe_configs(&asked, &options)
        .await
        .map_err(|cause| errors::from_kafka("could not ask for settings", &cause))?;
    let mut values = BTreeMap::new();
    for resource in found.into_iter().flatten() {
        let value = resource.get(name).and_then(|entry| entry.value.clone());
        if let (OwnedResourceSpecifier::Topic(topic), Some(value)) = (resource.specifier, value) {
            values.insert(topic, value);
        }
    }
    Ok(values)
}

/// Dropping an admin client blocks.
struct Elsewhere(Option<AdminClient<DefaultClientContext>>);

impl Drop for Elsewhere {
    fn drop(&mut self) {
        if let Some(client) = self.0.take() {
            super::drop_elsewhere(client);
        }
    }
}

fn native(topic: &NewTopic) -> admin::NewTopic<'_> {
    let replication = TopicReplication::Fixed(topic.replication);
    let mut native = admin::NewTopic::new(&topic.name, topic.partitions, replication);
    for (name, value) in &topic.config {
        native = native.set(name, value);
    }
    native
}
