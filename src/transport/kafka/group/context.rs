//! What librdkafka calls back, all of it from within a poll on the polling thread (and, after the
//! end, on the thread that destroys the consumer).

use super::bell::Bell;
use super::lag::{self, PartitionLag};
use super::period::{Place, lock};
use rdkafka::TopicPartitionList;
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{
    BaseConsumer, Consumer, ConsumerContext, DefaultConsumerContext, RebalanceProtocol,
};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::topic_partition_list::Offset;
use rdkafka::types::RDKafkaRespErr;
use std::collections::VecDeque;
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
