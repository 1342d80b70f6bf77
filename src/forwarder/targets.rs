//! Whether targets exist.

use crate::delay::deliver::DeliverTo;
use crate::error::{Error, Result};
use crate::transport::Partitions;
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
    pub(super) async fn check(&self, to: &DeliverTo) -> Result<()> {
        let found = self.known().get(&to.topic).copied();
        let is_fresh = |known: &Known| match has(known.partitions, to) {
            true => known.looked.elapsed() < BELIEVED,
            false => known.looked.elapsed() < AGAIN,
        };
        let known = match found.filter(is_fresh) {
            Some(known) => known,
            None => self.look(to, found).await?,
        };
        if has(known.partitions, to) {
            return Ok(());
        }
        let missing = match known.partitions {
            0 => format!("target topic {} does not exist", to.topic),
            count => format!("target {to} does not exist: the topic has {count} partitions"),
        };
        let since = known
            .missing
            .map_or(Duration::ZERO, |since| since.elapsed());
        Err(match since < AGAIN {
            true => Error::unavailable(missing),
            false => Error::schema(missing),
        })
    }

    async fn look(&self, to: &DeliverTo, before: Option<Known>) -> Result<Known> {
        let partitions = self.cluster.partitions(&to.topic).await?.unwrap_or(0);
        let now = Instant::now();
        let missing = match has(partitions, to) {
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
        all.insert(to.topic.clone(), known);
        Ok(known)
    }
}

fn has(partitions: i32, to: &DeliverTo) -> bool {
    partitions > to.partition.unwrap_or(0)
}

impl fmt::Debug for Targets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Targets")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::BoxFuture;
    use crate::status::Status;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::time::sleep;

    #[derive(Default)]
    struct Cluster {
        topics: Mutex<HashMap<String, i32>>,
        looks: AtomicUsize,
    }

    impl Partitions for Cluster {
        fn partitions<'a>(&'a self, topic: &'a str) -> BoxFuture<'a, Result<Option<i32>>> {
            self.looks.fetch_add(1, Ordering::Relaxed);
            let found = self.topics.lock().unwrap().get(topic).copied();
            Box::pin(std::future::ready(Ok(found)))
        }
    }

    fn to(text: &str) -> DeliverTo {
        DeliverTo::parse(text.as_bytes()).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_missing_target_is_looked_for_twice_and_then_given_up() {
        let cluster = Arc::new(Cluster::default());
        cluster.topics.lock().unwrap().insert("orders".into(), 3);
        let targets = Targets::new(cluster.clone());
        targets.check(&to("orders")).await.unwrap();
        targets.check(&to("orders:2")).await.unwrap();
        assert_eq!(cluster.looks.load(Ordering::Relaxed), 1);
        for missing in ["other", "orders:3"] {
            let first = targets.check(&to(missing)).await.unwrap_err();
            assert_eq!(first.status(), Status::Temporary, "{missing}");
            sleep(Duration::from_secs(1)).await;
            let second = targets.check(&to(missing)).await.unwrap_err();
            assert_eq!(second.status(), Status::Permanent, "{missing}");
            assert!(second.message().contains(missing), "{second}");
        }
        cluster.topics.lock().unwrap().insert("other".into(), 1);
        sleep(Duration::from_secs(1)).await;
        targets.check(&to("other")).await.unwrap();
        targets.check(&to("orders")).await.unwrap();
    }
}
