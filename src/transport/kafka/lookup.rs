//! What a cluster tells about topics and groups. All of it blocks.

use super::errors;
use crate::error::{Error, Result};
use rdkafka::TopicPartitionList;
use rdkafka::client::{Client, ClientContext};
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::RDKafkaErrorCode as Code;
use rdkafka::topic_partition_list::{Offset, TopicPartitionListElem};
use std::panic::catch_unwind;
use std::time::Duration;

/// How long a broker may take to answer.
const LOOKUP: Duration = Duration::from_secs(10);

/// Where a partition's records begin and end: what is below `first` is deleted, what is from `end`
/// on does not exist yet, or is of a transaction that is not over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionBounds {
    /// The lowest offset that can be read.
    pub first: i64,
    /// The offset after the last.
    pub end: i64,
}

/// What a group has committed for a partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Committed {
    /// The next offset; `None` where nothing was committed.
    pub offset: Option<i64>,
    /// What was kept with it; empty where nothing was, `None` where it is no text.
    pub metadata: Option<String>,
}

/// How many partitions `topic` has; `None` when it does not exist. The error of a topic that may not
/// be looked at is made by `refused` of what was tried and why it failed.
pub(super) fn partitions<C: ClientContext>(
    client: &Client<C>,
    topic: &str,
    refused: impl Fn(&str, Code) -> Error,
) -> Result<Option<i32>> {
    let doing = "could not look up";
    let metadata = client
        .fetch_metadata(Some(topic), LOOKUP)
        .map_err(|cause| errors::from_kafka(&format!("{doing} topic {topic}"), &cause))?;
    let Some(found) = metadata.topics().iter().find(|found| found.name() == topic) else {
        return Ok(None);
    };
    match found.error().map(Code::from) {
        None => Ok(i32::try_from(found.partitions().len()).ok()),
        Some(Code::UnknownTopicOrPartition | Code::UnknownTopic) => Ok(None),
        Some(code) => Err(refused(doing, code)),
    }
}

/// Begin and end of each of these partitions.
pub(super) fn bounds<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    topic: &str,
    partitions: &[i32],
) -> Result<Vec<PartitionBounds>> {
    partitions
        .iter()
        .map(|partition| {
            let (first, end) = consumer
                .fetch_watermarks(topic, *partition, LOOKUP)
                .map_err(|cause| {
                    let doing = format!("could not look up the offsets of {topic} [{partition}]");
                    errors::from_kafka(&doing, &cause)
                })?;
            Ok(PartitionBounds { first, end })
        })
        .collect()
}

/// What the consumer's group has committed for each of the first `count` partitions.
pub(super) fn committed<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    topic: &str,
    count: i32,
) -> Result<Vec<Committed>> {
    let doing = format!("could not read the committed offsets of {topic}");
    let mut list = TopicPartitionList::new();
    for partition in 0..count {
        list.add_partition(topic, partition);
    }
    let found = consumer
        .committed_offsets(list, LOOKUP)
        .map_err(|cause| errors::from_kafka(&doing, &cause))?;
    (0..count)
        .map(|partition| {
            let Some(element) = found.find_partition(topic, partition) else {
                return Ok(Committed::default());
            };
            element
                .error()
                .map_err(|cause| errors::from_kafka(&doing, &cause))?;
            Ok(Committed {
                offset: match element.offset() {
                    Offset::Offset(offset) => Some(offset),
                    _ => None,
                },
                metadata: metadata(&element),
            })
        })
        .collect()
}

/// rdkafka panics where it is no UTF-8, and anybody may have committed it.
fn metadata(element: &TopicPartitionListElem<'_>) -> Option<String> {
    catch_unwind(std::panic::AssertUnwindSafe(|| {
        element.metadata().to_owned()
    }))
    .ok()
}
