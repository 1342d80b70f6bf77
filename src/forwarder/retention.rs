//! How long the brokers keep delay topics.

use crate::delay::topic::{DelayTiers, Tier};
use crate::error::{Error, Result};
use crate::transport::Settings;
use crate::transport::kafka::{NewTopic, TopicAdmin, TopicFound};
use std::time::Duration;
use tokio::time::sleep;

/// How long the brokers may take to say.
const LIMIT: Duration = Duration::from_secs(10);

/// How often it is looked, and the wait between: a topic that is new is not known at once.
const LOOKS: usize = 3;
const BETWEEN: Duration = Duration::from_secs(1);

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
/// topics that are not there after some looks, are not its concern.
pub(super) async fn check(client: &Settings, tiers: &DelayTiers) -> Result<()> {
    let topics = tiers.tiers().iter().map(|tier| tier.topic.clone());
    let topics: Vec<String> = topics.collect();
    let admin = TopicAdmin::start(client, LIMIT).await?;
    for _ in 0..LOOKS {
        let found = admin.describe(&topics).await.unwrap_or_default();
        let wrong: Vec<String> = found.iter().filter_map(|t| too_short(t, tiers)).collect();
        if !wrong.is_empty() {
            return Err(Error::config(wrong.join("; ")));
        }
        if found.iter().all(|topic| kept(topic).is_some()) {
            break;
        }
        sleep(BETWEEN).await;
    }
    Ok(())
}

/// For how long a topic is kept, as it is written.
fn kept(topic: &TopicFound) -> Option<&str> {
    topic.details()?.config("retention.ms")
}

fn too_short(topic: &TopicFound, tiers: &DelayTiers) -> Option<String> {
    let kept = kept(topic)?.parse::<i64>().ok().filter(|kept| *kept >= 0)?;
    let tier = tiers.of_topic(&topic.name)?;
    (kept <= tier.delay).then(|| {
        format!(
            "topic {} is kept for {kept} ms (retention.ms), but its records wait for {} ms",
            topic.name, tier.delay
        )
    })
}
