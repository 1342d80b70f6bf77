//! librdkafka's producer as the thread of transactions has it.

use super::Transaction;
use super::attempt::Failure;
use crate::error::{Error, Result};
use crate::record::OutgoingRecord;
use crate::transport::kafka::errors;
use crate::transport::kafka::properties::client_config;
use crate::transport::kafka::sink::producer_defaults;
use crate::transport::{Settings, TransactionError};
use rdkafka::client::ClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{NoCustomPartitioner, Producer, ProducerContext, ThreadedProducer};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// How long a transaction may take unless `transaction.timeout.ms` says otherwise.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The wait before a call that failed for now is made again.
pub(super) const AGAIN: Duration = Duration::from_millis(50);

/// The most topics whose number of partitions is kept; beyond, all are looked up again.
const TOPICS: usize = 1_000;

/// What became of one record of one attempt.
pub(super) struct Report {
    pub(super) attempt: u64,
    pub(super) index: usize,
    pub(super) failure: Option<Code>,
}

pub(super) struct TransactionContext {
    reports: Sender<Report>,
}

impl ClientContext for TransactionContext {
    // Errors come with the calls they concern.
    fn error(&self, _: KafkaError, _: &str) {}
}

impl ProducerContext for TransactionContext {
    type DeliveryOpaque = Box<(u64, usize)>;

    fn delivery(&self, result: &DeliveryResult<'_>, opaque: Self::DeliveryOpaque) {
        let code = |cause: &KafkaError| cause.rdkafka_error_code().unwrap_or(Code::Fail);
        let (attempt, index) = *opaque;
        // The thread may be ending.
        let _ = self.reports.send(Report {
            attempt,
            index,
            failure: result.as_ref().err().map(|(cause, _)| code(cause)),
        });
    }
}

/// The producer. It polls on a thread of rdkafka's, for librdkafka's abort waits for what a poll
/// brings.
pub(super) struct TransactionalProducer {
    pub(super) native: ThreadedProducer<TransactionContext>,
    /// As many as there are records in an attempt, at the most.
    pub(super) reports: Receiver<Report>,
    pub(super) attempts: u64,
    pub(super) limit: Duration,
    /// Whether a record was refused by a broker: librdkafka 2.12 then begins the next transaction with
    /// a gap in its sequence numbers, aborts it for that, and is right again afterwards.
    pub(super) gap: bool,
    stop: Arc<AtomicBool>,
    ready: bool,
    topics: HashMap<String, i32>,
}

impl TransactionalProducer {
    pub(super) fn new(
        settings: &Settings,
        transactional_id: &str,
        stop: Arc<AtomicBool>,
    ) -> Result<Self> {
        let mut settings = producer_defaults(settings)?;
        settings
            .set("transactional.id", transactional_id)
            .set_default("transaction.timeout.ms", &TIMEOUT.as_millis().to_string());
        if transactional_id.is_empty() {
            return Err(Error::config("transactional.id is empty"));
        }
        let limit = match settings.get("transaction.timeout.ms").map(str::parse) {
            Some(Ok(millis)) => Duration::from_millis(millis),
            _ => TIMEOUT,
        };
        let (give, reports) = channel();
        let native: ThreadedProducer<TransactionContext, NoCustomPartitioner> =
            client_config(&settings)?
                .create_with_context(TransactionContext { reports: give })
                .map_err(|cause| {
                    errors::from_kafka("could not start a transactional producer", &cause)
                })?;
        Ok(TransactionalProducer {
            native,
            reports,
            attempts: 0,
            limit,
            gap: false,
            stop,
            ready: false,
            topics: HashMap::new(),
        })
    }

    pub(super) fn is_ready(&self) -> bool {
        self.ready
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Tries to take the transactional id over. A try that takes longer goes on in librdkafka, and
    /// the next one takes part in it.
    pub(super) fn prepare(&mut self, limit: Duration) -> Result<(), TransactionError> {
        match self.native.init_transactions(limit) {
            Ok(()) => {
                self.ready = true;
                Ok(())
            }
            Err(cause) => {
                let error = errors::from_kafka("could not initialize transactions", &cause);
                Err(match may_pass(&cause) {
                    true => TransactionError::Aborted {
                        error,
                        record: None,
                    },
                    false => TransactionError::Fatal(error),
                })
            }
        }
    }

    fn prepare_until(&mut self, until: Instant) -> Result<(), TransactionError> {
        while !self.ready {
            let left = until.saturating_duration_since(Instant::now());
            let slice = left.clamp(AGAIN, super::SLICE);
            match self.prepare(slice) {
                Ok(()) => {}
                Err(TransactionError::Aborted { .. })
                    if !self.is_stopped() && Instant::now() < until =>
                {
                    std::thread::sleep(AGAIN);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The whole of a transaction. Records that failed in one batch, so that none is to blame alone,
    /// are sent one by one in a second attempt.
    pub(super) fn transact(&mut self, work: &Transaction) -> Result<(), TransactionError> {
        let until = Instant::now() + self.limit;
        self.prepare_until(until)?;
        if work.records.is_empty() && work.offsets.is_empty() {
            return Ok(());
        }
        self.look_up_all(&work.records, until)?;
        let mut alone = BTreeSet::new();
        let failure = loop {
            let (until, gap) = (Instant::now() + self.limit, self.gap);
            match self.attempt(work, &alone, until) {
                Ok(()) => return Ok(()),
                Err(Failure::Suspects(suspects)) if alone.is_empty() => alone = suspects,
                Err(Failure::Unsent(_)) if gap && !self.is_stopped() => self.gap = false,
                Err(failure) => break failure,
            }
        };
        let error = failure.into_error();
        if let TransactionError::Aborted {
            record: Some(index),
            ..
        } = &error
            && let Some(record) = work.records.get(*index)
        {
            self.topics.remove(&record.topic);
        }
        Err(error)
    }

    /// A missing topic would hold the whole transaction up for as long as it may take; this finds it
    /// first.
    fn look_up_all(
        &mut self,
        records: &[OutgoingRecord],
        until: Instant,
    ) -> Result<(), TransactionError> {
        for (index, record) in records.iter().enumerate() {
            let place = record.partition.unwrap_or(0);
            if self
                .topics
                .get(&record.topic)
                .is_some_and(|count| place < *count)
            {
                continue;
            }
            let refused = |error, record| Err(TransactionError::Aborted { error, record });
            let error = |code| errors::of_write("could not write to", &record.topic, code);
            if record.topic.is_empty() || record.topic.contains('\0') {
                return refused(error(Code::InvalidTopic), Some(index));
            }
            let left = until.saturating_duration_since(Instant::now()).max(AGAIN);
            match self.look_up(&record.topic, left) {
                Ok(count) if place < count => {
                    if self.topics.len() >= TOPICS {
                        self.topics.clear();
                    }
                    self.topics.insert(record.topic.clone(), count);
                }
                Ok(_) => {
                    return refused(error(Code::UnknownPartition), Some(index));
                }
                Err((code, of_topic)) => {
                    return refused(error(code), of_topic.then_some(index));
                }
            }
        }
        Ok(())
    }

    /// How many partitions the topic has; or why not, and whether the reason is the topic's own.
    fn look_up(&self, topic: &str, limit: Duration) -> Result<i32, (Code, bool)> {
        let metadata = self
            .native
            .client()
            .fetch_metadata(Some(topic), limit)
            .map_err(|cause| (cause.rdkafka_error_code().unwrap_or(Code::Fail), false))?;
        let found = metadata.topics().iter().find(|found| found.name() == topic);
        let found = found.ok_or((Code::UnknownTopic, true))?;
        match found.error() {
            None => Ok(i32::try_from(found.partitions().len()).unwrap_or(i32::MAX)),
            Some(error) => Err((Code::from(error), true)),
        }
    }
}

/// Whether the same call may succeed later.
pub(super) fn may_pass(cause: &KafkaError) -> bool {
    match cause {
        KafkaError::Transaction(error) => {
            !error.is_fatal()
                && !error.txn_requires_abort()
                && (error.is_retriable() || error.code() == Code::OperationTimedOut)
        }
        KafkaError::Flush(_) => true,
        _ => false,
    }
}
