//! What librdkafka calls back, all of it from within a poll on the polling thread (and, after the
//! end, on the thread that destroys the consumer).

use super::bell::Bell;
use super::lag::{self, PartitionLag};
use super::period::lock;
use super::table::Place;
use rdkafka::TopicPartitionList;
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{
    BaseConsumer, Consumer, ConsumerContext, DefaultConsumerContext, RebalanceProtocol,
};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::topic_partition_list::Offset;
use rdkafka::types::RDKafkaRespErr;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// How many offset resets wait to be told; each is in librdkafka's log as well.
const RESETS: usize = 64;

/// A rebalance that librdkafka waits to be answered, by (un)assign.
pub(super) struct Handed {
    pub(super) assign: bool,
    /// Whether the partitions are another's already.
    pub(super) lost: bool,
    pub(super) partitions: Vec<Place>,
}

/// What the broker said to a commit.
pub(super) struct CommitAnswer {
    pub(super) overall: RDKafkaErrorCode,
    pub(super) offsets: Vec<(Arc<str>, i32, i64, RDKafkaErrorCode)>,
}

#[derive(Default)]
struct Inbox {
    rebalances: VecDeque<Handed>,
    commits: VecDeque<CommitAnswer>,
    resets: VecDeque<String>,
    /// Positions that resets took the place of.
    lost: HashMap<Place, i64>,
}

/// Takes callbacks in for the polling thread, which acts on them.
pub(super) struct GroupContext {
    bell: Arc<Bell>,
    /// From here on rebalances are answered inside the callback: the consumer's drop polls until
    /// it is closed, and nobody else would.
    closing: AtomicBool,
    inbox: Mutex<Inbox>,
    lags: Arc<Mutex<Vec<PartitionLag>>>,
    /// Counts callbacks: a poll that only made one is not told apart from an empty one.
    calls: AtomicU64,
}

impl GroupContext {
    pub(super) fn new(bell: Arc<Bell>, lags: Arc<Mutex<Vec<PartitionLag>>>) -> Self {
        GroupContext {
            bell,
            closing: AtomicBool::new(false),
            inbox: Mutex::default(),
            lags,
            calls: AtomicU64::new(0),
        }
    }

    pub(super) fn close(&self) {
        self.closing.store(true, Ordering::Release);
    }

    pub(super) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Acquire)
    }

    pub(super) fn next_rebalance(&self) -> Option<Handed> {
        lock(&self.inbox).rebalances.pop_front()
    }

    pub(super) fn next_commit_answer(&self) -> Option<CommitAnswer> {
        lock(&self.inbox).commits.pop_front()
    }

    pub(super) fn take_resets(&self) -> VecDeque<String> {
        std::mem::take(&mut lock(&self.inbox).resets)
    }

    pub(super) fn take_lost_positions(&self) -> HashMap<Place, i64> {
        std::mem::take(&mut lock(&self.inbox).lost)
    }

    fn called(&self) {
        self.calls.fetch_add(1, Ordering::AcqRel);
    }
}

impl ClientContext for GroupContext {
    // Errors come with polls.
    fn error(&self, _: KafkaError, _: &str) {}

    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.called();
        // librdkafka says in no other way that a position was lost and `auto.offset.reset` took its
        // place.
        if facility == "OFFSET" && message.contains("offset reset") {
            let mut inbox = lock(&self.inbox);
            if let Some((place, position)) = lost_position(message) {
                inbox.lost.insert(place, position);
            }
            if inbox.resets.len() < RESETS {
                inbox.resets.push_back(message.to_owned());
            }
        }
        DefaultConsumerContext.log(level, facility, message);
    }

    fn stats_raw(&self, statistics: &[u8]) {
        self.called();
        match lag::statistics_lags(statistics) {
            Ok(lags) => *lock(&self.lags) = lags,
            Err(cause) => {
                let text = format!("statistics that are none: {:?}", cause.classify());
                DefaultConsumerContext.log(RDKafkaLogLevel::Warning, "STATS", &text);
            }
        }
    }
}

impl ConsumerContext for GroupContext {
    fn rebalance(
        &self,
        consumer: &BaseConsumer<Self>,
        error: RDKafkaRespErr,
        partitions: &mut TopicPartitionList,
    ) {
        self.called();
        let assign = error == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS;
        if self.closing.load(Ordering::Acquire) {
            // There is nobody to tell if librdkafka refuses.
            let _ = answer(consumer, assign, partitions);
            return;
        }
        let handed = Handed {
            assign,
            lost: !assign && consumer.assignment_lost(),
            partitions: partitions
                .elements()
                .iter()
                .map(|element| (Arc::from(element.topic()), element.partition()))
                .collect(),
        };
        lock(&self.inbox).rebalances.push_back(handed);
        self.bell.ring();
    }

    fn commit_callback(&self, result: KafkaResult<()>, offsets: &TopicPartitionList) {
        self.called();
        let code = |result: KafkaResult<()>| match result {
            Ok(()) => RDKafkaErrorCode::NoError,
            Err(cause) => cause.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Fail),
        };
        let answer = CommitAnswer {
            overall: code(result),
            offsets: offsets
                .elements()
                .iter()
                .map(|element| {
                    let offset = match element.offset() {
                        Offset::Offset(offset) => offset,
                        _ => -1,
                    };
                    let topic = Arc::from(element.topic());
                    (topic, element.partition(), offset, code(element.error()))
                })
                .collect(),
        };
        lock(&self.inbox).commits.push_back(answer);
        self.bell.ring();
    }
}

/// Of `[thrd:main]: orders [0]: offset reset (at offset 40 (leader epoch 3), broker 1) to …` the
/// partition, and the offset that was not to be had.
fn lost_position(message: &str) -> Option<(Place, i64)> {
    let (before, after) = message.split_once("]: offset reset (at ")?;
    let (topic, partition) = before.rsplit_once(" [")?;
    let topic = topic.rsplit_once(' ').map_or(topic, |(_, topic)| topic);
    let position = after
        .strip_prefix("offset ")
        .and_then(|after| after.split([' ', ',']).next()?.parse().ok());
    // None: where it was is not known, nor when it is passed.
    let position = position.unwrap_or(i64::MAX);
    Some(((Arc::from(topic), partition.parse().ok()?), position))
}

/// Answers a rebalance by the group's own protocol.
pub(super) fn answer(
    consumer: &BaseConsumer<GroupContext>,
    assign: bool,
    partitions: &TopicPartitionList,
) -> KafkaResult<()> {
    let cooperative = matches!(
        consumer.rebalance_protocol(),
        RebalanceProtocol::Cooperative
    );
    match (assign, cooperative) {
        (true, true) => consumer.incremental_assign(partitions),
        (true, false) => consumer.assign(partitions),
        (false, true) => consumer.incremental_unassign(partitions),
        (false, false) => consumer.unassign(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_position_is_read_from_the_log() {
        let end = "broker 1) to offset BEGINNING (leader epoch -1): fetch failed: Broker: x";
        for (text, position) in [
            (
                format!(
                    "[thrd:main]: a.b_c-1 [12]: offset reset (at offset 40 (leader epoch 0), {end}"
                ),
                40,
            ),
            (format!("a.b_c-1 [12]: offset reset (at offset 7, {end}"), 7),
            (
                format!("a.b_c-1 [12]: offset reset (at offset INVALID (leader epoch -1), {end}"),
                i64::MAX,
            ),
        ] {
            let place = (Arc::from("a.b_c-1"), 12);
            assert_eq!(lost_position(&text), Some((place, position)), "{text}");
        }
        for text in [
            "",
            "offset reset",
            "a [x]: offset reset (at offset 1 ",
            "a: offset reset (at offset 1",
        ] {
            assert_eq!(lost_position(text), None, "{text}");
        }
    }
}
