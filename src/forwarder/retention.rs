//! How long the brokers keep delay topics.

use crate::delay::topic::{DelayTiers, Tier};
use crate::error::{Error, Result};
use crate::transport::Settings;
use crate::transport::kafka::{NewTopic, topic_setting};
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
    let kept = topic_setting(client, topics.collect(), "retention.ms", LIMIT).await;
    let Ok(kept) = kept else { return Ok(()) };
    let mut wrong = Vec::new();
    for (topic, kept) in kept {
        let kept = kept.parse::<i64>().ok().filter(|kept| *kept >= 0);
        if let (Some(kept), Some(tier)) = (kept, tiers.of_topic(&topic))
            && kept <= tier.delay
        {
            wrong.push(format!(
                "topic {topic} is kept for {kept} ms (retention.ms), but its records wait for {} ms",
                tier.delay
            ));
        }
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(Error::config(wrong.join("; "))),
    }
}
