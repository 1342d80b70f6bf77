//! Which topics there are, and what they are like.

use super::{AT_ONCE, AdminContext, TopicAdmin};
use super::{TopicConfigs, TopicDetails, TopicFound, TopicState};
use crate::error::Result;
use crate::transport::kafka::{blocking, errors};
use rdkafka::admin::{AdminClient, ConfigResource, OwnedResourceSpecifier, ResourceSpecifier};
use rdkafka::error::{KafkaResult, RDKafkaErrorCode as Code};
use rdkafka::metadata::MetadataTopic;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// What the name of a mock cluster begins with. One that is asked for configs does not answer at all.
const MOCK: &str = "mockCluster";

/// Up to so many topics are looked up one by one, which tells a right that is missing from a topic
/// that is; more of them are first looked for in the list of all.
const ONE_BY_ONE: usize = 8;

impl TopicAdmin {
    /// The names of all topics that we have the right to describe, sorted; Kafka's own included.
    ///
    /// # Errors
    /// When the brokers did not answer within the limit.
    pub async fn list(&self) -> Result<Vec<String>> {
        let (client, limit) = (Arc::clone(self.client()?), self.limit);
        let doing = format!("could not list the topics at {}", self.servers);
        blocking(move || {
            let all = client.inner().fetch_metadata(None, limit);
            let all = all.map_err(|cause| errors::from_kafka(&doing, &cause))?;
            // A topic that has no leader at the moment is there all the same.
            let there = all.topics().iter().filter(|topic| {
                matches!(state(topic), TopicState::Exists(_) | TopicState::Unknown(_))
            });
            let mut names: Vec<String> = there.map(|topic| topic.name().to_owned()).collect();
            names.sort();
            Ok(names)
        })
        .await
    }

    /// What topics are like, in the order of `names`. Where configs are not told (by the embedded
    /// broker, or for want of a right) the rest is all the same.
    ///
    /// # Errors
    /// When the brokers did not answer within the limit.
    pub async fn describe(&self, names: &[String]) -> Result<Vec<TopicFound>> {
        let deadline = self.deadline();
        let mut found = self.look_up(names, deadline).await?;
        let exist: Vec<String> = found
            .iter()
            .filter(|topic| topic.details().is_some())
            .map(|topic| topic.name.clone())
            .collect();
        let mut configs = match self.tells_configs(deadline).await? {
            true => self.configs(&exist, deadline).await,
            false => HashMap::new(),
        };
        for topic in &mut found {
            if let TopicState::Exists(details) = &mut topic.state
                && let Some(configs) = configs.remove(&topic.name)
            {
                details.configs = configs;
            }
        }
        Ok(found)
    }

    async fn look_up(&self, names: &[String], deadline: Instant) -> Result<Vec<TopicFound>> {
        let client = Arc::clone(self.client()?);
        let (names, servers) = (names.to_vec(), self.servers.clone());
        blocking(move || {
            let mut known = HashMap::new();
            if names.len() > ONE_BY_ONE {
                let doing = format!("could not list the topics at {servers}");
                let all = client.inner().fetch_metadata(None, left(deadline));
                let all = all.map_err(|cause| errors::from_kafka(&doing, &cause))?;
                for topic in all.topics() {
                    known.insert(topic.name().to_owned(), state(topic));
                }
            }
            let mut found = Vec::with_capacity(names.len());
            for name in names {
                let state = match known.remove(&name) {
                    Some(state @ TopicState::Exists(_)) => state,
                    _ => one(&client, &name, deadline)?,
                };
                found.push(TopicFound { name, state });
            }
            Ok(found)
        })
        .await
    }

    /// Whether there is an admin API.
    async fn tells_configs(&self, deadline: Instant) -> Result<bool> {
        if let Some(tells) = self.tells_configs.get() {
            return Ok(*tells);
        }
        let client = Arc::clone(self.client()?);
        let cluster = blocking(move || Ok(client.inner().fetch_cluster_id(left(deadline)))).await?;
        let Some(cluster) = cluster else {
            return Ok(false);
        };
        // Asked once, for rdkafka keeps the memory of every answer.
        let tells = !cluster.starts_with(MOCK);
        Ok(*self.tells_configs.get_or_init(|| tells))
    }

    /// The settings of topics that exist, as far as brokers tell.
    async fn configs(&self, names: &[String], deadline: Instant) -> HashMap<String, TopicConfigs> {
        let mut all = HashMap::new();
        let Ok(client) = self.client() else {
            return all;
        };
        for names in names.chunks(AT_ONCE) {
            let topics: Vec<_> = names.iter().map(|n| ResourceSpecifier::Topic(n)).collect();
            let asking = client.describe_configs(&topics, &self.options(deadline));
            let Ok(Ok(resources)) = timeout_at(deadline, asking).await else {
                return all;
            };
            all.extend(resources.into_iter().filter_map(configs_of));
        }
        all
    }
}

fn configs_of(
    resource: std::result::Result<ConfigResource, Code>,
) -> Option<(String, TopicConfigs)> {
    let ConfigResource { specifier, entries } = resource.ok()?;
    let OwnedResourceSpecifier::Topic(name) = specifier else {
        return None;
    };
    // A topic that exists has settings; rdkafka drops the error that says we may not see them.
    if entries.is_empty() {
        return Some((name, TopicConfigs::Denied));
    }
    let known: BTreeMap<String, String> = entries
        .into_iter()
        .filter_map(|entry| Some((entry.name, entry.value?)))
        .collect();
    Some((name, TopicConfigs::Known(known)))
}

fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}

fn one(client: &AdminClient<AdminContext>, name: &str, deadline: Instant) -> Result<TopicState> {
    let doing = format!("could not look up topic {name}");
    let metadata: KafkaResult<_> = client.inner().fetch_metadata(Some(name), left(deadline));
    let metadata = metadata.map_err(|cause| errors::from_kafka(&doing, &cause))?;
    let found = metadata.topics().iter().find(|topic| topic.name() == name);
    Ok(found.map_or(TopicState::Missing, state))
}

fn state(topic: &MetadataTopic) -> TopicState {
    match topic.error().map(Code::from) {
        None => {
            let partitions = topic.partitions();
            let copies = partitions
                .iter()
                .map(|partition| partition.replicas().len());
            TopicState::Exists(TopicDetails {
                partitions: i32::try_from(partitions.len()).unwrap_or(i32::MAX),
                replication: copies
                    .min()
                    .and_then(|n| i32::try_from(n).ok())
                    .unwrap_or(0),
                configs: TopicConfigs::Unknown,
            })
        }
        Some(Code::UnknownTopicOrPartition | Code::UnknownTopic) => TopicState::Missing,
        Some(Code::TopicAuthorizationFailed) => TopicState::Denied,
        Some(code) => {
            let doing = format!("could not look up topic {}", topic.name());
            TopicState::Unknown(errors::error(&doing, code))
        }
    }
}
