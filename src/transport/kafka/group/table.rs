//! The ownerships of now.

use super::period::{OwnedPartition, Period, lock};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// A topic and the number of a partition.
pub(super) type Place = (Arc<str>, i32);

/// The ownerships of now.
#[derive(Default)]
pub(super) struct Table {
    periods: Mutex<HashMap<Place, Arc<Period>>>,
}

impl Table {
    pub(super) fn insert(&self, period: Arc<Period>) -> Option<Arc<Period>> {
        let key = (Arc::clone(&period.owned.topic), period.owned.partition);
        lock(&self.periods).insert(key, period)
    }

    pub(super) fn find(&self, topic: &Arc<str>, partition: i32) -> Option<Arc<Period>> {
        lock(&self.periods)
            .get(&(Arc::clone(topic), partition))
            .cloned()
    }

    /// The period of exactly this ownership, if it is the present one.
    pub(super) fn current(&self, owned: &OwnedPartition) -> Option<Arc<Period>> {
        self.find(&owned.topic, owned.partition)
            .filter(|period| period.owned.ownership == owned.ownership)
    }

    pub(super) fn remove(&self, topic: &Arc<str>, partition: i32) -> Option<Arc<Period>> {
        lock(&self.periods).remove(&(Arc::clone(topic), partition))
    }

    pub(super) fn all(&self) -> Vec<Arc<Period>> {
        lock(&self.periods).values().cloned().collect()
    }
}
