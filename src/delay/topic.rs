//! Delays with topics alone: records wait in topics of fixed delays, from which a forwarder moves
//! them on.

mod moves;
mod name;
mod tiers;

pub use moves::{Moved, Moves};
pub use name::DelayTopic;
pub use tiers::{DelayTiers, Tier};

use super::DelaySink;
use super::deliver::{DeliverRules, DeliverTo, addressed};
use super::item::{Delayed, Durability, IdSource, Limits, Receipt, Scheduled};
use super::together::all;
use super::worker::ID_HEADER;
use crate::answer::BoxFuture;
use crate::clock::{Clock, SystemClock};
use crate::error::{Error, Result};
use crate::record::OutgoingRecord;
use crate::transport::Sink;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Writes each record to the [delay topic](DelayTiers) for its delay, with its target and its time in
/// headers. A forwarder of the same topics must run.
///
/// An id travels along in the header `deliver-id` and makes nothing idempotent: scheduling again under
/// the same id is a second delivery. There is no cancelling and no list.
pub struct DelayTopics<S> {
    sink: S,
    tiers: DelayTiers,
    rules: Option<DeliverRules>,
    max_delay: Duration,
    clock: Arc<dyn Clock>,
    ids: IdSource,
    durability: Durability,
}

impl<S: Sink> DelayTopics<S> {
    /// A sink over these topics, for delays of up to 366 days.
    pub fn new(sink: S, tiers: DelayTiers) -> Self {
        DelayTopics {
            sink,
            tiers,
            rules: None,
            max_delay: Limits::default().max_delay,
            clock: Arc::new(SystemClock),
            ids: IdSource::random(),
            durability: Durability::Synced,
        }
    }

    /// The same, refusing at once what the forwarder would refuse later.
    #[must_use]
    pub fn rules(mut self, rules: DeliverRules) -> Self {
        self.rules = Some(rules);
        self
    }

    /// The same with another limit.
    #[must_use]
    pub fn max_delay(mut self, max: Duration) -> Self {
        self.max_delay = max;
        self
    }

    /// The same by another clock.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// The same, saying so of what the topics survive; [`Durability::Synced`] unless said, as is right
    /// for topics with more than one replica and a producer with `acks=all`.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Its topics.
    pub fn tiers(&self) -> &DelayTiers {
        &self.tiers
    }

    fn prepare(&self, item: Delayed, now: i64) -> Result<(OutgoingRecord, Receipt)> {
        let deliver_at = item.when.resolve(now, self.max_delay)?;
        if let Some(rules) = &self.rules {
            rules.target(Some(DeliverTo::of(&item.record)))?;
        }
        let id = item.id.unwrap_or_else(|| self.ids.next(now));
        let tier = self.tiers.place(deliver_at.saturating_sub(now));
        let mut record = addressed(item.record, &tier.topic, deliver_at);
        record.timestamp = None;
        record.headers.remove(ID_HEADER);
        record.headers.push(ID_HEADER, Some(id.as_str().to_owned()));
        let receipt = Receipt {
            id,
            deliver_at,
            scheduled: Scheduled::New,
        };
        Ok((record, receipt))
    }

    async fn write(&self, batch: Vec<Delayed>) -> Vec<Result<Receipt>> {
        let now = self.clock.now_rounded_up();
        let (mut sends, mut answers) = (Vec::with_capacity(batch.len()), Vec::new());
        for item in batch {
            answers.push(self.prepare(item, now).map(|(record, receipt)| {
                sends.push(self.sink.send(record));
                receipt
            }));
        }
        let mut sent = all(sends).await.into_iter();
        (answers.into_iter())
            .map(|answer| {
                let receipt = answer?;
                match sent.next() {
                    Some(Ok(_)) => Ok(receipt),
                    Some(Err(error)) => Err(error),
                    None => Err(Error::unavailable("the record was not sent")),
                }
            })
            .collect()
    }
}

impl<S: Sink> DelaySink for DelayTopics<S> {
    fn schedule(&self, batch: Vec<Delayed>) -> BoxFuture<'_, Vec<Result<Receipt>>> {
        Box::pin(self.write(batch))
    }

    fn durability(&self) -> Durability {
        self.durability
    }
}

impl<S> fmt::Debug for DelayTopics<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DelayTopics")
            .field("tiers", &self.tiers)
            .finish_non_exhaustive()
    }
}
