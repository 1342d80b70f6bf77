//! The partitions of a running pipeline, for whoever looks.

use super::gauge::PartitionGauge;
use super::health::{Health, PartitionHealth};
use crate::pipeline::ledger::{Ownership, TopicPartition};
use crate::transport::kafka::GroupHandle;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// How long ago the last poll of one that lives may be. Far above a pause of the machine.
const LIVE: Duration = Duration::from_secs(30);

/// Shared by a pipeline and its handles, before it runs and after.
#[derive(Default)]
pub(in crate::pipeline) struct Watch {
    group: OnceLock<GroupHandle>,
    gauges: Mutex<BTreeMap<TopicPartition, PartitionGauge>>,
    has_joined: AtomicBool,
    is_over: AtomicBool,
}

impl Watch {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<TopicPartition, PartitionGauge>> {
        self.gauges.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn started(&self, group: GroupHandle) {
        // A pipeline runs once.
        let _ = self.group.set(group);
    }

    pub(super) fn joined(&self) {
        self.has_joined.store(true, Ordering::Release);
    }

    pub(super) fn over(&self) {
        self.is_over.store(true, Ordering::Release);
        self.lock().clear();
    }

    pub(super) fn add(&self, gauge: PartitionGauge) {
        self.lock().insert(gauge.partition().clone(), gauge);
    }

    /// The partition is ours no longer in this ownership.
    pub(super) fn remove(&self, partition: &TopicPartition, ownership: Ownership) {
        let mut gauges = self.lock();
        let is_this = |gauge: &PartitionGauge| gauge.ownership() == ownership;
        if gauges.get(partition).is_some_and(is_this) {
            gauges.remove(partition);
        }
    }

    pub(super) fn gauges(&self) -> Vec<PartitionGauge> {
        self.lock().values().cloned().collect()
    }

    pub(in crate::pipeline) fn health(&self, stopping: bool, now: Instant) -> Health {
        let group = self.group.get();
        let lags: HashMap<(String, i32), u64> = group.map_or_else(HashMap::new, |group| {
            let lags = group.lags().into_iter();
            lags.map(|lag| ((lag.topic, lag.partition), lag.lag))
                .collect()
        });
        let lag = |gauge: &PartitionGauge| {
            let place = gauge.partition();
            // The statistics count from what was taken.
            let lag = lags.get(&(place.topic.to_string(), place.partition))?;
            Some(lag.saturating_add(gauge.shown().uncommitted as u64))
        };
        let partitions = self
            .gauges()
            .iter()
            .map(|gauge| PartitionHealth::of(gauge, lag(gauge), now))
            .collect();
        let is_over = self.is_over.load(Ordering::Acquire);
        let last_poll_age = group.filter(|_| !is_over).map(GroupHandle::last_poll_age);
        let live = !is_over && last_poll_age.is_none_or(|age| age < LIVE);
        Health {
            live,
            ready: live && !stopping && self.has_joined.load(Ordering::Acquire),
            stopping,
            last_poll_age,
            partitions,
        }
    }
}
