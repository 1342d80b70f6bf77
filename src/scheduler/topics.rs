//! The topics of a scheduler, looked at before it begins.

use super::options::SchedulerOptions;
use crate::error::{Error, Result};
use crate::transport::kafka::{
    KafkaSink, NewTopic, TopicAdmin, TopicCreation, TopicDetails, TopicFound, TopicState,
};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long each question may take.
const LIMIT: Duration = Duration::from_secs(10);

/// How long a topic may seem not to be there.
const PATIENCE: Duration = Duration::from_secs(2);

/// The largest message of ours, in bytes: an entry with one record is a little larger than it.
pub(super) const LARGEST: &str = "2097152";

/// How many partitions the source has. The changelog is created if it is not there.
pub(super) async fn look(
    options: &SchedulerOptions,
    sink: &KafkaSink,
    changelog: Option<&str>,
) -> Result<i32> {
    let partitions = partitions(sink, &options.topic).await?;
    let Some(changelog) = changelog else {
        return Ok(partitions);
    };
    match sink.topic_partitions(changelog).await? {
        Some(found) if found != partitions => Err(Error::config(format!(
            "topic {changelog} has {found} partitions, {} has {partitions}: they must be as many",
            options.topic
        ))),
        Some(_) if !options.check_topics => Ok(partitions),
        found => {
            let admin = TopicAdmin::start(&options.consumer, LIMIT).await?;
            match found {
                Some(_) => check(options, &admin, changelog).await?,
                None => create(options, &admin, changelog).await?,
            }
            Ok(partitions)
        }
    }
}

/// Brokers hear one after the other of a topic that was just created.
async fn partitions(sink: &KafkaSink, topic: &str) -> Result<i32> {
    let until = Instant::now() + PATIENCE;
    loop {
        match sink.topic_partitions(topic).await? {
            Some(partitions) => return Ok(partitions),
            None if Instant::now() < until => sleep(Duration::from_millis(100)).await,
            None => return Err(Error::config(format!("topic {topic} does not exist"))),
        }
    }
}

async fn details(admin: &TopicAdmin, topic: &str) -> Result<Option<TopicDetails>> {
    let mut found = admin.describe(&[topic.to_owned()]).await?;
    match found.pop() {
        Some(TopicFound {
            state: TopicState::Exists(details),
            ..
        }) => Ok(Some(details)),
        Some(TopicFound {
            state: TopicState::Denied,
            ..
        }) => Err(Error::config(format!(
            "topic {topic}: the right Describe is missing"
        ))),
        Some(TopicFound {
            state: TopicState::Unknown(error),
            ..
        }) => Err(error),
        _ => Ok(None),
    }
}

async fn create(options: &SchedulerOptions, admin: &TopicAdmin, changelog: &str) -> Result<()> {
    let Some(source) = details(admin, &options.topic).await? else {
        return Ok(());
    };
    let mut topic = NewTopic::new(changelog, source.partitions);
    topic.replication = source.replication;
    for (name, value) in [
        ("cleanup.policy", "compact"),
        ("max.message.bytes", LARGEST),
    ] {
        topic.config.insert(name.to_owned(), value.to_owned());
    }
    let made = admin.create(std::slice::from_ref(&topic)).await?;
    match made.into_iter().next() {
        Some(TopicCreation::Denied) => Err(Error::config(format!(
            "topic {changelog} does not exist, and the right Create is missing"
        ))),
        Some(TopicCreation::Failed(error)) => Err(error),
        _ => Ok(()),
    }
}

/// Refuses a changelog that would forget what waits, or what was taken back too soon.
async fn check(options: &SchedulerOptions, admin: &TopicAdmin, changelog: &str) -> Result<()> {
    let Some(found) = details(admin, changelog).await? else {
        return Ok(());
    };
    if let Some(policy) = found.config("cleanup.policy")
        && policy != "compact"
    {
        return Err(Error::config(format!(
            "topic {changelog} has cleanup.policy={policy}, it must be compact: what waits longer \
             than it keeps records would be lost"
        )));
    }
    let age = options.max_index_age.as_millis();
    let kept = found.config("delete.retention.ms");
    if let Some(kept) = kept.and_then(|kept| kept.parse::<u128>().ok())
        && kept <= age
    {
        return Err(Error::config(format!(
            "topic {changelog} has delete.retention.ms={kept}, an index may be {age} ms old: it could \
             miss that a record was delivered"
        )));
    }
    Ok(())
}
