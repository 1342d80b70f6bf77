//! One attempt: begin, write, send offsets, commit; or abort.

use super::Transaction;
use super::producer::{AGAIN, Report, TransactionalProducer, may_pass};
use crate::error::Error;
use crate::record::OutgoingRecord;
use crate::transport::TransactionError;
use crate::transport::kafka::{errors, ffi};
use rdkafka::TopicPartitionList;
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::producer::Producer;
use rdkafka::topic_partition_list::Offset;
use std::collections::BTreeSet;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

/// How often a wait for reports looks whether any can still come.
const LOOK: Duration = Duration::from_millis(100);

/// Why an attempt came to nothing.
pub(super) enum Failure {
    Final(TransactionError),
    /// Aborted for records that the broker refused together, so that each must be tried alone.
    Suspects(BTreeSet<usize>),
    /// Aborted before any broker had refused a record.
    Unsent(Error),
}

impl Failure {
    pub(super) fn into_error(self) -> TransactionError {
        match self {
            Failure::Final(error) => error,
            Failure::Suspects(suspects) => TransactionError::Aborted {
                error: Error::unavailable("records were refused together and not one by one"),
                record: suspects.first().copied(),
            },
            Failure::Unsent(error) => TransactionError::Aborted {
                error,
                record: None,
            },
        }
    }
}

/// Why the open transaction is to be aborted.
struct Refused {
    error: Error,
    record: Option<usize>,
}

impl Refused {
    fn of(error: Error) -> Self {
        Refused {
            error,
            record: None,
        }
    }
}

/// What the reports of an attempt said so far.
#[derive(Default)]
struct Reports {
    open: usize,
    delivered: usize,
    failed: Vec<(usize, Code)>,
}

impl TransactionalProducer {
    /// One attempt; `alone` are the records that share a batch with no other.
    pub(super) fn attempt(
        &mut self,
        work: &Transaction,
        alone: &BTreeSet<usize>,
        until: Instant,
    ) -> Result<(), Failure> {
        self.attempts = self.attempts.wrapping_add(1);
        let doing = "could not begin a transaction";
        self.native.begin_transaction().map_err(|cause| {
            let error = errors::from_kafka(doing, &cause);
            Failure::Final(TransactionError::Fatal(error))
        })?;
        let mut reports = Reports::default();
        let written = self.write(&work.records, alone, &mut reports, until);
        match written.and_then(|()| self.send_offsets(work, until)) {
            Ok(()) => self.commit(work, reports),
            Err(refused) => Err(self.abort(refused, work, reports)),
        }
    }

    /// Writes all records and waits until all of them are there.
    fn write(
        &self,
        records: &[OutgoingRecord],
        alone: &BTreeSet<usize>,
        reports: &mut Reports,
        until: Instant,
    ) -> Result<(), Refused> {
        for (index, record) in records.iter().enumerate() {
            if !alone.contains(&index) {
                self.enqueue(index, record, reports, until)?;
                continue;
            }
            self.await_all(reports, until)?;
            self.enqueue(index, record, reports, until)?;
            self.await_all(reports, until)?;
        }
        self.await_all(reports, until)
    }

    fn enqueue(
        &self,
        index: usize,
        record: &OutgoingRecord,
        reports: &mut Reports,
        until: Instant,
    ) -> Result<(), Refused> {
        loop {
            match ffi::produce(&self.native, record, Box::new((self.attempts, index))) {
                Ok(()) => {
                    reports.open += 1;
                    return Ok(());
                }
                Err(Code::QueueFull) if Instant::now() < until && !self.is_stopped() => {
                    self.await_some(reports, AGAIN)?;
                }
                Err(code) => {
                    return Err(Refused {
                        error: unwritten(record, code),
                        record: is_its_own(code).then_some(index),
                    });
                }
            }
        }
    }

    fn await_all(&self, reports: &mut Reports, until: Instant) -> Result<(), Refused> {
        // What lingers is sent at once. Its own wait is not needed: reports are counted here.
        let mut lingering = true;
        while reports.open > 0 {
            if lingering {
                let _ = self.native.flush(Duration::ZERO);
                lingering = false;
            }
            if Instant::now() >= until || self.is_stopped() {
                let text = match self.is_stopped() {
                    true => "the transactional producer is closed",
                    false => "records were not acknowledged in time",
                };
                return Err(Refused::of(Error::timeout(text)));
            }
            self.await_some(reports, LOOK)?;
        }
        Ok(())
    }

    /// Takes the next report and those that are there already.
    fn await_some(&self, reports: &mut Reports, wait: Duration) -> Result<(), Refused> {
        match self.reports.recv_timeout(wait) {
            Ok(report) => self.take(report, reports),
            // In the state of error, nothing that is queued is ever sent.
            Err(RecvTimeoutError::Timeout) => self.look()?,
            Err(RecvTimeoutError::Disconnected) => {}
        }
        self.take_all(reports);
        match reports.failed.is_empty() {
            true => Ok(()),
            false => Err(Refused::of(Error::unavailable("a record was not written"))),
        }
    }

    fn take_all(&self, reports: &mut Reports) {
        while let Ok(report) = self.reports.try_recv() {
            self.take(report, reports);
        }
    }

    fn take(&self, report: Report, reports: &mut Reports) {
        if report.attempt != self.attempts {
            return;
        }
        reports.open = reports.open.saturating_sub(1);
        match report.failure {
            None => reports.delivered += 1,
            Some(code) => reports.failed.push((report.index, code)),
        }
    }

    /// Whether records can still be written. librdkafka has no question for it, but it refuses a
    /// record for the transaction's state before it looks at the record, here at a topic without a
    /// name.
    fn look(&self) -> Result<(), Refused> {
        let nowhere = OutgoingRecord::default();
        match ffi::produce(&self.native, &nowhere, Box::new((0, 0))) {
            Err(code @ (Code::State | Code::Fatal)) => {
                let error = errors::error("could not write in the transaction", code);
                Err(Refused::of(
                    error.with_status(crate::status::Status::Temporary),
                ))
            }
            _ => Ok(()),
        }
    }

    fn send_offsets(&self, work: &Transaction, until: Instant) -> Result<(), Refused> {
        if work.offsets.is_empty() {
            return Ok(());
        }
        let Some(group) = &work.group else {
            let text = "a transaction with offsets needs the metadata of their group";
            return Err(Refused::of(Error::config(text)));
        };
        let mut list = TopicPartitionList::with_capacity(work.offsets.len());
        for commit in &work.offsets {
            let mut element =
                list.add_partition(&commit.partition.topic, commit.partition.partition);
            element
                .set_offset(Offset::Offset(commit.offset))
                .map_err(|cause| Refused::of(errors::from_kafka("could not commit", &cause)))?;
            if let Some(metadata) = &commit.metadata {
                element.set_metadata(metadata);
            }
        }
        loop {
            let metadata = group.now(&work.offsets).map_err(Refused::of)?;
            let left = until.saturating_duration_since(Instant::now()).max(AGAIN);
            let sent = self
                .native
                .send_offsets_to_transaction(&list, &metadata, left);
            match sent {
                Ok(()) => return Ok(()),
                Err(cause) if may_pass(&cause) && Instant::now() < until && !self.is_stopped() => {
                    std::thread::sleep(AGAIN);
                }
                Err(cause) => {
                    let doing = "could not commit offsets in a transaction";
                    return Err(Refused::of(errors::from_kafka(doing, &cause)));
                }
            }
        }
    }

    /// Commits. From the first call on only an abort that succeeds says that it did not happen.
    fn commit(&mut self, work: &Transaction, reports: Reports) -> Result<(), Failure> {
        let until = Instant::now() + self.limit;
        loop {
            let cause = match self.native.commit_transaction(super::SLICE) {
                Ok(()) => return Ok(()),
                Err(cause) => cause,
            };
            let error = errors::from_kafka("could not commit a transaction", &cause);
            if requires_abort(&cause) {
                return Err(match self.abort(Refused::of(error), work, reports) {
                    Failure::Final(TransactionError::Fatal(error)) => {
                        Failure::Final(TransactionError::InDoubt(error))
                    }
                    failure => failure,
                });
            }
            if !may_pass(&cause) || Instant::now() >= until {
                return Err(Failure::Final(TransactionError::InDoubt(error)));
            }
            std::thread::sleep(AGAIN);
        }
    }

    fn abort(&mut self, refused: Refused, work: &Transaction, mut reports: Reports) -> Failure {
        let until = Instant::now() + self.limit;
        loop {
            let cause = match self.native.abort_transaction(super::SLICE) {
                Ok(()) => break,
                Err(cause) => cause,
            };
            if !may_pass(&cause) || Instant::now() >= until {
                let error = errors::from_kafka("could not abort a transaction", &cause);
                let error = error.with_source(refused.error);
                return Failure::Final(TransactionError::Fatal(error));
            }
            std::thread::sleep(AGAIN);
        }
        self.take_all(&mut reports);
        self.gap |= reports.failed.iter().any(|(_, code)| !is_purge(*code));
        blame(refused, work, &reports)
    }
}

/// Which record an aborted transaction failed for.
fn blame(refused: Refused, work: &Transaction, reports: &Reports) -> Failure {
    let partial = reports.delivered > 0;
    let suspects: Vec<(usize, Code)> = reports
        .failed
        .iter()
        .filter(|(_, code)| is_its_own(*code) || (partial && *code == Code::MessageTimedOut))
        .copied()
        .collect();
    let aborted = |error, record| Failure::Final(TransactionError::Aborted { error, record });
    let first = suspects.iter().min_by_key(|(index, _)| *index).copied();
    let Some((index, code)) = first.filter(|_| refused.record.is_none()) else {
        let other = reports.failed.iter().find(|(_, code)| !is_purge(*code));
        let found = other.and_then(|(index, code)| Some((work.records.get(*index)?, *code)));
        return match (refused.record, found) {
            (None, Some((record, code))) => aborted(unwritten(record, code), None),
            (None, None) => Failure::Unsent(refused.error),
            (record, _) => aborted(refused.error, record),
        };
    };
    if suspects.len() > 1 && !of_the_topic(code) {
        return Failure::Suspects(suspects.into_iter().map(|(index, _)| index).collect());
    }
    match work.records.get(index) {
        Some(record) => aborted(unwritten(record, code), Some(index)),
        None => aborted(refused.error, None),
    }
}

fn unwritten(record: &OutgoingRecord, code: Code) -> Error {
    errors::of_write("could not write to", &record.topic, code)
}

fn requires_abort(cause: &KafkaError) -> bool {
    matches!(cause, KafkaError::Transaction(error) if error.txn_requires_abort())
}

/// What an abort itself does to records that were queued.
fn is_purge(code: Code) -> bool {
    matches!(code, Code::PurgeQueue | Code::PurgeInflight)
}

/// Whether a code is about the topic that a record goes to.
fn of_the_topic(code: Code) -> bool {
    matches!(
        code,
        Code::UnknownTopic
            | Code::UnknownTopicOrPartition
            | Code::UnknownPartition
            | Code::InvalidTopic
            | Code::TopicAuthorizationFailed
            | Code::MessageTimedOut
    )
}

/// Whether a code is about this record, or where it goes, and not about the transaction.
fn is_its_own(code: Code) -> bool {
    of_the_topic(code) && code != Code::MessageTimedOut
        || matches!(
            code,
            Code::MessageSizeTooLarge
                | Code::InvalidMessage
                | Code::InvalidMessageSize
                | Code::InvalidRecord
                | Code::InvalidTimestamp
                | Code::InvalidArgument
                | Code::MessageBatchTooLarge
                | Code::PolicyViolation
                | Code::UnsupportedForMessageFormat
        )
}
