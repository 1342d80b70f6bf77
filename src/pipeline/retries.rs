//! Retries that do not block: a failed record is put aside and comes back through a topic of its group.

use super::source::{Failed, Written};
use crate::answer::BoxFuture;
use crate::clock::{Clock, SystemClock};
use crate::dead_letter::{Dialect, Retried, retry_topic};
use crate::delay::{DelayId, DelaySink, Delayed, Durability, OnDuplicate, When};
use crate::error::{Error, Result};
use crate::record::OutgoingRecord;
use std::sync::Arc;
use std::time::Duration;

/// Puts failed records aside in a sink that outlives this process.
#[derive(Clone)]
pub(super) struct Retries {
    sink: Arc<dyn DelaySink>,
    group: Arc<str>,
    spring: bool,
}

impl Retries {
    /// Retries of `group` through `sink`.
    ///
    /// # Errors
    /// Kind Config, when the sink forgets what it holds with this process: the offsets of records put
    /// aside are committed.
    pub(super) fn new(sink: Arc<dyn DelaySink>, group: &str, dialects: &[Dialect]) -> Result<Self> {
        if sink.durability() == Durability::Process {
            return Err(Error::config(
                "retries need a sink that outlives this process: what this one holds would be lost \
                 with it, though its offsets are committed",
            ));
        }
        Ok(Retries {
            sink,
            group: Arc::from(group),
            spring: dialects.contains(&Dialect::Spring),
        })
    }

    /// The next delivery of a record, not before `wait` from now: its bytes as consumed, and its
    /// headers with where it came from first and how often it was delivered.
    fn next(&self, failed: &Failed, wait: Duration) -> Result<Delayed> {
        let record = failed.record.as_record();
        let now = SystemClock.now_rounded_up();
        let delivery = Retried::delivery(&record, now);
        let wait_ms = i64::try_from(wait.as_millis()).unwrap_or(i64::MAX);
        let due = now.saturating_add(wait_ms);
        let next = OutgoingRecord {
            topic: retry_topic(&delivery.topic, &self.group)?,
            partition: None,
            key: failed.record.key.clone(),
            value: failed.record.value.clone(),
            headers: delivery.next(record.headers, due, self.spring),
            timestamp: None,
        };
        let delayed = Delayed::new(When::At(due), next);
        let Retried {
            topic,
            partition,
            offset,
            attempt,
            ..
        } = &delivery;
        // Tried again after a lost answer, it is the same delivery; a name too long for an id gets a
        // fresh one, and may come twice then.
        let id = DelayId::new(format!(
            "{}:{topic}-{partition}@{offset}#{attempt}",
            self.group
        ));
        Ok(match id {
            Ok(id) => delayed.with_id(id, OnDuplicate::Keep),
            Err(_) => delayed,
        })
    }

    /// Has the record delivered again, not before `wait` from now.
    pub(super) fn delay(&self, failed: &Failed, wait: Duration) -> BoxFuture<'static, Written> {
        let (sink, next) = (Arc::clone(&self.sink), self.next(failed, wait));
        Box::pin(async move {
            let next = match next {
                Ok(next) => next,
                Err(error) => return Written::Refused(error),
            };
            match sink.schedule(vec![next]).await.into_iter().next() {
                Some(Ok(_)) => Written::Acknowledged,
                Some(Err(error)) => Written::Held(error.at("retry")),
                None => Written::Held(Error::unavailable("the delay sink did not answer")),
            }
        })
    }
}
