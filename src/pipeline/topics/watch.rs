//! While a pipeline runs: topics that come and go.

use super::command::Commands;
use super::start::{Prepared, TopicPlan, tell_left_out};
use crate::pipeline::observer::{PipelineEvent, PipelineObserver};
use crate::transport::Settings;
use crate::transport::kafka::GroupHandle;
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::future::pending;
use std::time::Duration;
use tokio::time::sleep;

/// How soon it is tried again what the brokers did not answer.
const AGAIN: Duration = Duration::from_secs(10);

/// How often topics are listed for a pattern; librdkafka's own default.
const LISTED: Duration = Duration::from_secs(300);

/// `topic.metadata.refresh.interval.ms`; none is never.
fn listed_every(client: &Settings) -> Option<Duration> {
    match client.get("topic.metadata.refresh.interval.ms") {
        None => Some(LISTED),
        Some(text) => text.trim().parse().ok().map(Duration::from_millis),
    }
}

impl TopicPlan {
    /// Subscribes to what a pattern newly matches, and no longer to what is gone; looks at what was not
    /// looked at yet. It never ends; dropping it loses nothing.
    pub(in crate::pipeline) async fn watch(
        &self,
        prepared: Prepared,
        client: &Settings,
        group: GroupHandle,
        observer: &dyn PipelineObserver,
    ) -> Infallible {
        let Prepared {
            topics: mut subscribed,
            mut found,
            mut examined,
            mut left_out,
            admin,
        } = prepared;
        let Some(admin) = admin else {
            return pending().await;
        };
        let commands = Commands::of(client);
        loop {
            let unseen = self.looks() && !subscribed.is_subset(&examined);
            let wait = match found && !unseen && !subscribed.is_empty() {
                false => Some(AGAIN),
                true if self.subscription.has_patterns() => listed_every(client),
                true => None,
            };
            match wait {
                Some(wait) => sleep(wait).await,
                None => return pending().await,
            }
            let resolved = match self.find(&admin).await {
                Ok(resolved) => resolved,
                Err(error) => {
                    observer.event(&PipelineEvent::Warning(&error));
                    continue;
                }
            };
            found = true;
            tell_left_out(&resolved, &mut left_out, observer);
            let topics = resolved.topics;
            let new: BTreeSet<String> = topics.difference(&examined).cloned().collect();
            // Before they are read, for what they need may be created.
            match self.examine(&admin, &new, &commands, observer).await {
                Ok(_) => examined.clone_from(&topics),
                Err(error) => observer.event(&PipelineEvent::Warning(&error)),
            }
            // All of them gone is more likely a right that is gone; and nothing is no subscription.
            if topics == subscribed || topics.is_empty() {
                continue;
            }
            let names: Vec<String> = topics.iter().cloned().collect();
            match group.subscribe(names.clone()).await {
                Ok(()) => {
                    observer.event(&PipelineEvent::Subscribed(&names));
                    subscribed = topics;
                }
                Err(error) => observer.event(&PipelineEvent::Warning(&error)),
            }
        }
    }
}
