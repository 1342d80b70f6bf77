//! Whether targets exist.

use crate::answer::BoxFuture;
use crate::error::{Error, Result};
use crate::status::{ErrorKind, Status};
use crate::transport::kafka::TopicAdmin;
use crate::transport::{Partitions, Settings};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// How long it is believed that a topic exists.
const BELIEVED: Duration = Duration::from_secs(60);

/// A topic that is missing is looked for again after this time: one that was just created may not be
/// known to every broker.
const AGAIN: Duration = Duration::from_millis(500);

/// How many topics are remembered.
const REMEMBERED: usize = 10_000;

/// How long the brokers may take to say.
const LIMIT: Duration = Duration::from_secs(10);

/// A cluster that is asked so rarely that no client is kept for it.
pub(super) struct Cluster(pub(super) Settings);

impl Partitions for Cluster {
    fn partitions<'a>(&'a self, topic: &'a str) -> BoxFuture<'a, Result<Option<i32>>> {
        Box::pin(async move {
            let admin = TopicAdmin::start(&self.0, LIMIT).await?;
            admin.partitions(topic).await
        })
    }
}

#[derive(Clone, Copy)]
struct Known {
    partitions: i32,
    looked: Instant,
    /// Since when it has been missing something.
    missing: Option<Instant>,
}

/// Looks for targets before they are written to: a record for a topic that nobody created would hold
/// up those behind it for as long as it is not there.
pub(super) struct Targets {
    cluster: Arc<dyn Partitions>,
    known: Mutex<HashMap<String, Known>>,
}

impl Targets {
    pub(super) fn new(cluster: Arc<dyn Partitions>) -> Self {
        Targets {
            cluster,
            known: Mutex::default(),
        }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// # Errors
    /// Temporary when it was found missing for the first time, or nobody answers; then Permanent.
    pub(super) async fn check(&self, topic: &str, partition: Option<i32>) -> Result<()> {
        let found = self.known().get(topic).copied();
        let is_fresh = |known: &Known| match has(known.partitions, partition) {
            true => known.looked.elapsed() < BELIEVED,
            false => known.looked.elapsed() < AGAIN,
        };
        let known = match found.filter(is_fresh) {
            Some(known) => known,
            None => self.look(topic, partition, found).await?,
        };
        if has(known.partitions, partition) {
            return Ok(());
        }
        let missing = match known.partitions {
            0 => format!("target topic {topic} does not exist"),
            count => format!("target topic {topic} has {count} partitions, not the one asked for"),
        };
        let since = known
            .missing
            .map_or(Duration::ZERO, |since| since.elapsed());
        Err(match since < AGAIN {
            true => Error::unavailable(missing),
            false => Error::schema(missing),
        })
    }

    async fn look(
        &self,
        topic: &str,
        partition: Option<i32>,
        before: Option<Known>,
    ) -> Result<Known> {
        let found = self.cluster.partitions(topic).await;
        // A right that is missing on one target is no mistake that stops all.
        let partitions = found.map_err(|error| match error.kind() {
            ErrorKind::Config => error
                .with_kind(ErrorKind::Unavailable)
                .with_status(Status::Temporary),
            _ => error,
        });
        let partitions = partitions?.unwrap_or(0);
        let now = Instant::now();
        let missing = match has(partitions, partition) {
            true => None,
            false => before.and_then(|known| known.missing).or(Some(now)),
        };
        let known = Known {
            partitions,
            looked: now,
            missing,
        };
        let mut all = self.known();
        if all.len() >= REMEMBERED {
            all.clear();
        }
        all.insert(topic.to_owned(), known);
        Ok(known)
    }
}

fn has(partitions: i32, partition: Option<i32>) -> bool {
    partitions > partition.unwrap_or(0)
}

impl fmt::Debug for Targets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Targets")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::time::sleep;

    #[derive(Default)]
    struct Fake {
        topics: Mutex<HashMap<String, i32>>,
        looks: AtomicUsize,
    }

    impl Partitions for Fake {
        fn partitions<'a>(&'a self, topic: &'a str) -> BoxFuture<'a, Result<Option<i32>>> {
            self.looks.fetch_add(1, Ordering::Relaxed);
            let found = self.topics.lock().unwrap().get(topic).copied();
            Box::pin(std::future::ready(Ok(found)))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_missing_target_is_looked_for_twice_and_then_given_up() {
        let cluster = Arc::new(Fake::default());
        cluster.topics.lock().unwrap().insert("orders".into(), 3);
        let targets = Targets::new(cluster.clone());
        targets.check("orders", None).await.unwrap();
        targets.check("orders", Some(2)).await.unwrap();
        assert_eq!(cluster.looks.load(Ordering::Relaxed), 1);
        for (topic, partition) in [("other", None), ("orders", Some(3))] {
            let first = targets.check(topic, partition).await.unwrap_err();
            assert_eq!(first.status(), Status::Temporary, "{topic}");
            sleep(Duration::from_secs(1)).await;
            let second = targets.check(topic, partition).await.unwrap_err();
            assert_eq!(second.status(), Status::Permanent, "{topic}");
            assert!(second.message().contains(topic), "{second}");
        }
        cluster.topics.lock().unwrap().insert("other".into(), 1);
        sleep(Duration::from_secs(1)).await;
        targets.check("other", None).await.unwrap();
        targets.check("orders", None).await.unwrap();
    }
}
