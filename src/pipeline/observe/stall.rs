//! Partitions that do not get on. No rebalance shows them: polling goes on beside a stuck handler.

use super::gauge::PartitionGauge;
use crate::pipeline::ledger::{Ownership, TopicPartition};
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;

/// A stall that began or ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stall {
    /// The partition.
    pub partition: TopicPartition,
    /// In which ownership.
    pub ownership: Ownership,
    /// The record that does not get finished.
    pub offset: i64,
    /// For how long it has been the oldest in flight.
    pub age: Duration,
    /// Whether it is over: the record is finished or held, or the partition gone.
    pub is_over: bool,
}

/// Notices when the oldest record in flight of a partition gets too old: told once, and again when
/// that ends. A partition that pauses, or whose oldest record waits for its time, is not stalled.
#[derive(Debug)]
pub struct StallWatch {
    limit: Duration,
    watched: HashMap<(TopicPartition, Ownership), Watched>,
}

#[derive(Clone, Copy, Debug)]
struct Watched {
    offset: i64,
    since: Instant,
    is_told: bool,
}

impl StallWatch {
    /// Tells of records older than `limit`.
    pub fn new(limit: Duration) -> Self {
        StallWatch {
            limit,
            watched: HashMap::new(),
        }
    }

    /// How old a record may be.
    pub fn limit(&self) -> Duration {
        self.limit
    }

    /// Looks at the partitions that are ours now; those that are not in `gauges` are gone.
    pub fn check(&mut self, now: Instant, gauges: &[PartitionGauge]) -> Vec<Stall> {
        let mut before = std::mem::take(&mut self.watched);
        let mut news = Vec::new();
        for gauge in gauges {
            let key = (gauge.partition().clone(), gauge.ownership());
            let known = before.remove(&key);
            let shown = gauge.shown();
            let rests = shown.paused.is_some() || shown.user_paused || shown.gated;
            let oldest = gauge.oldest_in_flight(now).filter(|_| !rests);
            let kept =
                known.filter(|known| oldest.is_some_and(|(offset, _)| offset == known.offset));
            if kept.is_none() {
                news.extend(known.and_then(|known| known.end(&key, now)));
            }
            let Some((offset, _)) = oldest else { continue };
            let mut watched = kept.unwrap_or(Watched {
                offset,
                since: now,
                is_told: false,
            });
            if !watched.is_told && now.saturating_duration_since(watched.since) >= self.limit {
                watched.is_told = true;
                news.push(watched.told(&key, now, false));
            }
            self.watched.insert(key, watched);
        }
        news.extend(before.iter().filter_map(|(key, known)| known.end(key, now)));
        news
    }
}

impl Watched {
    fn told(&self, key: &(TopicPartition, Ownership), now: Instant, is_over: bool) -> Stall {
        Stall {
            partition: key.0.clone(),
            ownership: key.1,
            offset: self.offset,
            age: now.saturating_duration_since(self.since),
            is_over,
        }
    }

    fn end(&self, key: &(TopicPartition, Ownership), now: Instant) -> Option<Stall> {
        self.is_told.then(|| self.told(key, now, true))
    }
}
