//! Retries that do not block: a failed record is put aside and comes back through a topic of its group.

use super::gate::Gate;
use super::letters::PipelineProducer;
use super::source::{Failed, Written};
use crate::answer::BoxFuture;
use crate::clock::{Clock, SystemClock};
use crate::dead_letter::{Retried, fingerprint, is_retry_topic, retry_topic};
use crate::delay::alarm::Alarm;
use crate::delay::deliver::{DELIVER_AFTER, timed, without_ours};
use crate::delay::{DelayId, DelaySink, Delayed, Durability, OnDuplicate, When};
use crate::error::{Error, Result};
use crate::record::{OutgoingRecord, Record};
use crate::status::Status;
use std::sync::Arc;
use std::time::Duration;

/// Where failed records wait.
#[derive(Clone)]
pub(super) enum Waiting {
    /// In a sink of the application's, which has them written to `${topic}.${group}.retry`.
    Sink(Arc<dyn DelaySink>),
    /// In `${topic}.${group}.retry.<delay>`, which the pipeline consumes itself.
    Topics(Arc<[(String, Duration)]>),
}

/// Puts failed records aside where they outlive this process.
#[derive(Clone)]
pub(super) struct Retries {
    waiting: Waiting,
    group: Arc<str>,
    spring: bool,
}

impl Retries {
    /// Retries of `group`; with Spring's headers too, if asked for.
    ///
    /// # Errors
    /// Kind Config, when a sink forgets what it holds with this process: the offsets of records put
    /// aside are committed.
    pub(super) fn new(waiting: Waiting, group: &str, spring: bool) -> Result<Self> {
        if let Waiting::Sink(sink) = &waiting
            && sink.durability() == Durability::Process
        {
            return Err(Error::config(
                "retries need a sink that outlives this process: what this one holds would be lost \
                 with it, though its offsets are committed",
            ));
        }
        Ok(Retries {
            waiting,
            group: Arc::from(group),
            spring,
        })
    }

    /// The next delivery of a record, not before `wait` from now, and when: its bytes as consumed, and
    /// its headers with where it came from first and how often it was delivered.
    fn next(&self, failed: &Failed, wait: Duration) -> Result<(OutgoingRecord, i64, DelayId)> {
        let record = failed.record.as_record();
        let now = SystemClock.now_rounded_up();
        let delivery = Retried::delivery(&record, now);
        let wait_ms = i64::try_from(wait.as_millis()).unwrap_or(i64::MAX);
        let due = now.saturating_add(wait_ms);
        let own = without_ours(record.headers);
        let next = OutgoingRecord {
            topic: retry_topic(&delivery.topic, &self.group)?,
            partition: None,
            key: failed.record.key.clone(),
            value: failed.record.value.clone(),
            headers: delivery.next(own.view(), Some((now, &*failed.error)), due, self.spring),
            timestamp: None,
        };
        let Retried {
            topic,
            partition,
            offset,
            attempt,
            ..
        } = &delivery;
        // Tried again after a lost answer, it is the same delivery.
        let whose = fingerprint(&self.group, topic, "");
        let id = DelayId::new(format!("{whose}-{partition}@{offset}#{attempt}"))?;
        Ok((next, due, id))
    }

    /// The record for the topic in which it waits, if it waits in one.
    pub(super) fn record(&self, failed: &Failed, wait: Duration) -> Result<OutgoingRecord> {
        let Waiting::Topics(delays) = &self.waiting else {
            return Err(Error::config("retries wait in no topic"));
        };
        let (delay, _) = delays
            .iter()
            .find(|(_, delay)| *delay == wait)
            .ok_or_else(|| Error::config(format!("no retry topic has a delay of {wait:?}")))?;
        let (next, due, _) = self.next(failed, wait)?;
        let topic = format!("{}.{delay}", next.topic);
        Ok(OutgoingRecord {
            topic,
            ..timed(next, due)
        })
    }

    /// Has the record delivered again, not before `wait` from now.
    pub(super) fn delay(
        &self,
        producer: &PipelineProducer,
        failed: &Failed,
        wait: Duration,
    ) -> BoxFuture<'static, Written> {
        let sink = match &self.waiting {
            Waiting::Sink(sink) => Arc::clone(sink),
            Waiting::Topics(_) => {
                return match self.record(failed, wait) {
                    Ok(record) => producer.write_all(Arc::from([record])),
                    Err(error) => Box::pin(std::future::ready(Written::Refused(error))),
                };
            }
        };
        let next = self.next(failed, wait);
        Box::pin(async move {
            let delayed = match next {
                Ok((next, due, id)) => {
                    Delayed::new(When::At(due), next).with_id(id, OnDuplicate::Earliest)
                }
                Err(error) => return Written::Refused(error),
            };
            match sink.schedule(vec![delayed]).await.into_iter().next() {
                Some(Ok(_)) => Written::Acknowledged,
                Some(Err(error)) if error.status() == Status::Permanent => {
                    Written::Failed(error.at("retry"))
                }
                Some(Err(error)) => Written::Held(error.at("retry")),
                None => Written::Held(Error::unavailable("the delay sink did not answer")),
            }
        })
    }
}

/// Holds records of retry topics until they are due, and no others.
pub(super) struct RetryGate(Alarm);

impl RetryGate {
    pub(super) fn new() -> Self {
        RetryGate(Alarm::new(Arc::new(SystemClock)))
    }
}

impl Gate for RetryGate {
    fn opens_at(&self, record: &Record<'_>) -> Option<i64> {
        if !is_retry_topic(record.topic) {
            return None;
        }
        let text = record.headers.get_last(DELIVER_AFTER)??;
        std::str::from_utf8(text).ok()?.parse().ok()
    }

    fn now(&self) -> i64 {
        self.0.clock().now()
    }

    fn reached(&self, at: i64) -> BoxFuture<'static, ()> {
        self.0.reached(at)
    }
}
