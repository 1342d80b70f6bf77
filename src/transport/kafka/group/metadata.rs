//! The group as a transaction must know it, and its committed offsets.

use super::Shared;
use super::commit::Commit;
use super::context::GroupContext;
use super::period::OwnedPartition;
use super::table::Place;
use crate::error::{Error, Result};
use crate::transport::kafka::errors;
use crate::transport::kafka::ffi::SharedConsumer;
use crate::transport::kafka::source::SourceContext;
use rdkafka::TopicPartitionList;
use rdkafka::consumer::{Consumer, ConsumerGroupMetadata};
use rdkafka::topic_partition_list::Offset;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How long the coordinator may take to tell committed offsets.
const LOOKUP: Duration = Duration::from_secs(5);

/// A group, its member and their generation, as a transaction that commits offsets must know them.
///
/// It holds no generation: the one of the moment is asked for when the offsets are sent, for it
/// changes with each rebalance. Cloning is cheap; it does not keep the consumer alive.
#[derive(Clone)]
pub struct GroupMetadata(Whose);

#[derive(Clone)]
enum Whose {
    Member {
        consumer: Weak<SharedConsumer<GroupContext>>,
        shared: Arc<Shared>,
    },
    /// A consumer that is no member: the group has none, and no generation.
    Alone(Weak<SharedConsumer<SourceContext>>),
}

impl GroupMetadata {
    pub(super) fn new(consumer: Weak<SharedConsumer<GroupContext>>, shared: Arc<Shared>) -> Self {
        GroupMetadata(Whose::Member { consumer, shared })
    }

    pub(in crate::transport::kafka) fn alone(
        consumer: Weak<SharedConsumer<SourceContext>>,
    ) -> Self {
        GroupMetadata(Whose::Alone(consumer))
    }

    /// What to send with these offsets, now. Blocks for a moment.
    ///
    /// # Errors
    /// When a partition is not ours in that ownership, or the consumer is closed.
    pub(in crate::transport::kafka) fn now(
        &self,
        commits: &[Commit],
    ) -> Result<ConsumerGroupMetadata> {
        let closed = || Error::unavailable("the group's consumer is closed");
        let (consumer, shared) = match &self.0 {
            Whose::Member { consumer, shared } => (consumer.upgrade(), shared),
            Whose::Alone(consumer) => {
                let consumer = consumer.upgrade().ok_or_else(closed)?;
                let metadata = consumer.get().ok_or_else(closed)?.group_metadata();
                return metadata.ok_or_else(closed);
            }
        };
        let consumer = consumer.ok_or_else(closed)?;
        let metadata = consumer.get().ok_or_else(closed)?.group_metadata();
        // Only now: what is given back later belongs to a later generation, which the coordinator
        // tells from this one.
        match commits
            .iter()
            .find(|commit| shared.table.current(&commit.partition).is_none())
        {
            Some(commit) => Err(Error::unavailable(format!(
                "{} [{}] is no longer ours",
                commit.partition.topic, commit.partition.partition
            ))),
            None => metadata.ok_or_else(closed),
        }
    }
}

impl fmt::Debug for GroupMetadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GroupMetadata")
    }
}

pub(super) fn place(owned: &OwnedPartition) -> Place {
    (Arc::clone(&owned.topic), owned.partition)
}

/// Asks the coordinator, which blocks.
pub(super) fn committed(
    consumer: &Weak<SharedConsumer<GroupContext>>,
    places: Vec<Place>,
) -> Result<Vec<Option<i64>>> {
    let doing = "could not read the committed offsets";
    let closed = || Error::unavailable(format!("{doing}: the consumer is closed"));
    let mut list = TopicPartitionList::with_capacity(places.len());
    for (topic, partition) in &places {
        list.add_partition(topic, *partition);
    }
    let consumer = consumer.upgrade().ok_or_else(closed)?;
    let found = consumer
        .get()
        .ok_or_else(closed)?
        .committed_offsets(list, LOOKUP)
        .map_err(|cause| errors::from_kafka(doing, &cause))?;
    let offset = |(topic, partition): &Place| {
        let element = found.find_partition(topic, *partition).ok_or_else(closed)?;
        element
            .error()
            .map_err(|cause| errors::from_kafka(doing, &cause))?;
        Ok(match element.offset() {
            Offset::Offset(offset) => Some(offset),
            _ => None,
        })
    };
    places.iter().map(offset).collect()
}
