//! Asking a cluster about its topics, and creating some.

mod describe;
mod found;

pub use found::{TopicConfigs, TopicDetails, TopicFound, TopicState};

use super::errors;
use super::properties::client_config;
use crate::error::{Error, Result};
use crate::transport::{Settings, producer_settings};
use rdkafka::admin::{self, AdminClient, AdminOptions, TopicReplication};
use rdkafka::client::{ClientContext, DefaultClientContext};
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// How many topics are asked about, or created, by one request.
const AT_ONCE: usize = 200;

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

/// What became of a topic that was to be created.
#[derive(Debug)]
#[non_exhaustive]
pub enum TopicCreation {
    /// It is new.
    Created,
    /// It existed already, and is as it was.
    Existed,
    /// We lack the right `Create` on it.
    Denied,
    /// It could not be created.
    Failed(Error),
}

/// Passes on what librdkafka logs; errors of connections come with the calls.
struct AdminContext;

impl ClientContext for AdminContext {
    fn error(&self, _: KafkaError, _: &str) {}

    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        DefaultClientContext.log(level, facility, message);
    }
}

/// A client that asks a cluster about its topics, and creates some. Nothing of it blocks the
/// runtime, and every call ends within its limit (and the little that librdkafka takes to notice).
///
/// The [embedded broker](super::EmbeddedBroker) has no admin API: it tells of topics and partitions,
/// of configs nothing, and creates none.
pub struct TopicAdmin {
    /// Always there but in drop.
    client: Option<Arc<AdminClient<AdminContext>>>,
    servers: String,
    limit: Duration,
    /// Whether the cluster has an admin API, once it is known.
    tells_configs: OnceLock<bool>,
}

impl Drop for TopicAdmin {
    fn drop(&mut self) {
        if let Some(client) = self.client.take() {
            super::drop_elsewhere(client);
        }
    }
}

impl TopicAdmin {
    /// Starts a client for the cluster that `settings` (a consumer's or a producer's) reach; each
    /// call takes `limit` at most.
    ///
    /// # Errors
    /// Kind Config when settings are missing or refused (all of them are named).
    pub async fn start(settings: &Settings, limit: Duration) -> Result<Self> {
        let servers = settings.get("bootstrap.servers").unwrap_or_default();
        let servers = servers.to_owned();
        let mut settings = producer_settings(settings, &Settings::new());
        // Asking for a topic would create it.
        settings.set("allow.auto.create.topics", "false");
        let config = client_config(&settings)?;
        let client = super::blocking(move || {
            let client: AdminClient<AdminContext> = config
                .create_with_context(AdminContext)
                .map_err(|cause| errors::from_kafka("could not start an admin client", &cause))?;
            Ok(Arc::new(client))
        })
        .await?;
        Ok(TopicAdmin {
            client: Some(client),
            servers,
            limit,
            tells_configs: OnceLock::new(),
        })
    }

    /// Creates topics; what became of each, in their order.
    ///
    /// # Errors
    /// When the brokers did not answer within the limit.
    pub async fn create(&self, topics: &[NewTopic]) -> Result<Vec<TopicCreation>> {
        let doing = format!("could not create topics at {}", self.servers);
        let client = self.client()?;
        let deadline = self.deadline();
        let mut all = Vec::with_capacity(topics.len());
        for topics in topics.chunks(AT_ONCE) {
            let natives: Vec<_> = topics.iter().map(native).collect();
            let creating = client.create_topics(&natives, &self.options(deadline));
            let results = match timeout_at(deadline, creating).await {
                Ok(results) => results.map_err(|cause| errors::from_kafka(&doing, &cause))?,
                Err(_) => return Err(errors::error(&doing, Code::OperationTimedOut)),
            };
            for topic in topics {
                let result = results.iter().find_map(|result| match result {
                    Ok(name) if *name == topic.name => Some(TopicCreation::Created),
                    Err((name, code)) if *name == topic.name => Some(not_created(name, *code)),
                    _ => None,
                });
                all.push(result.unwrap_or_else(|| not_created(&topic.name, Code::Fail)));
            }
        }
        Ok(all)
    }

    fn client(&self) -> Result<&Arc<AdminClient<AdminContext>>> {
        let closed = || Error::unavailable("the admin client is closed");
        self.client.as_ref().ok_or_else(closed)
    }

    fn deadline(&self) -> Instant {
        Instant::now() + self.limit
    }

    fn options(&self, deadline: Instant) -> AdminOptions {
        let left = deadline.saturating_duration_since(Instant::now());
        // librdkafka takes no less.
        let left = left.max(Duration::from_millis(1));
        AdminOptions::new()
            .request_timeout(Some(left))
            .operation_timeout(Some(left))
    }
}

impl fmt::Debug for TopicAdmin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TopicAdmin")
            .field("servers", &self.servers)
            .finish_non_exhaustive()
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
    let admin = TopicAdmin::start(settings, limit).await?;
    let results = admin.create(&topics).await?;
    for (topic, result) in topics.iter().zip(results) {
        match result {
            TopicCreation::Created | TopicCreation::Existed => {}
            TopicCreation::Denied => {
                let doing = format!("could not create topic {}", topic.name);
                return Err(errors::error(&doing, Code::TopicAuthorizationFailed));
            }
            TopicCreation::Failed(error) => return Err(error),
        }
    }
    Ok(())
}

fn not_created(name: &str, code: Code) -> TopicCreation {
    match code {
        Code::TopicAlreadyExists => TopicCreation::Existed,
        Code::TopicAuthorizationFailed | Code::ClusterAuthorizationFailed => TopicCreation::Denied,
        code => TopicCreation::Failed(errors::error(
            &format!("could not create topic {name}"),
            code,
        )),
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
