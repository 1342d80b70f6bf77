//! How long the brokers keep delay topics.

use crate::delay::topic::{DelayTiers, Tier};
use crate::error::{Error, Result};
use crate::transport::Settings;
use crate::transport::kafka::{NewTopic, TopicAdmin};
use std::time::Duration;

/// How long the brokers may take to say.
const LIMIT: Duration = Duration::from_secs(10);

/// What a new delay topic is kept for beyond its delay, for outages.
const OUTAGES: i64 = 7 * 86_400_000;

/// The topics of `tiers` as they should be created, with so many partitions each: timestamps by the
/// broker, so that clocks of producers count for nothing, and kept for 7 days longer than their records
/// wait.
pub fn delay_topics(tiers: &DelayTiers, partitions: i32) -> Vec<NewTopic> {
    let topic = |tier: &Tier| {
        let mut topic = NewTopic::new(&tier.topic, partitions);
        let kept = tier.delay.saturating_add(OUTAGES);
        for (name, value) in [
            ("retention.ms", kept.to_string()),
            ("message.timestamp.type", "LogAppendTime".to_owned()),
            ("cleanup.policy", "delete".to_owned()),
        ] {
            topic.config.insert(name.to_owned(), value);
        }
        topic
    };
    tiers.tiers().iter().map(topic).collect()
}

/// Refuses a topic that is kept for less long than its records wait. Brokers that do not say, and
/// topics that are not there, are not its concern.
pub(super) async fn check(client: &Settings, tiers: &DelayTiers) -> Result<()> {
    let topics = tiers.tiers().iter().map(|tier| tier.topic.clone());
    let admin = TopicAdmin::start(client, LIMIT).await?;
    let Ok(found) = admin.describe(&topics.collect::<Vec<_>>()).await else {
        return Ok(());
    };
    let mut wrong = Vec::new();
    for topic in &found {
        let kept = topic
            .details()
            .and_then(|details| details.config("retention.ms"));
        let kept = kept.and_then(|kept| kept.parse::<i64>().ok());
        if let (Some(kept), Some(tier)) = (kept.filter(|k| *k >= 0), tiers.of_topic(&topic.name))
            && kept <= tier.delay
        {
            wrong.push(format!(
                "topic {} is kept for {kept} ms (retention.ms), but its records wait for {} ms",
                topic.name, tier.delay
            ));
        }
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(Error::config(wrong.join("; "))),
    }
}
