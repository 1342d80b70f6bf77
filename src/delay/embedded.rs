//! Delayed records in a file of this process.
//!
//! One thread has the file. What is scheduled, cancelled or rescheduled is durable when it is
//! answered; calls that come while the disk works become durable together. What was claimed,
//! completed and given back is answered at once and durable within
//! [`EmbeddedOptions::interval`]: a crash forgets at most that much, so that what was delivered in
//! it is delivered again. Leases end with the process.
//!
//! A record takes about 50 bytes on disk beside its topic, key, value and headers, and about three
//! times as much if it was given an id; in memory about 30 bytes. A file that has grown is used again, and made smaller when it is opened. Free space
//! on the disk and [`Limits::capacity`] bound it; opening reads all of it and checks it; memory is
//! [`EmbeddedOptions::cache_bytes`], those 30 bytes, and what is in flight.

mod admin;
mod claims;
mod disk;
mod engine;
mod rows;
#[cfg(feature = "kafka")]
pub(crate) mod runs;
mod schedule;
mod state;

use super::item::millis;
use super::{
    Cancelled, Claim, DelayAdmin, DelayId, DelaySink, DelayStore, Delayed, Due, Durability,
    Finished, Lease, Limits, Listing, MAX_SCHEDULE, Page, Receipt, Release, Released, Rescheduled,
    Stats, When, check_claim, wire,
};
use crate::answer::BoxFuture;
use crate::clock::{Clock, SystemClock};
use crate::error::Result;
use claims::Times;
use engine::{Answer, Engine, EngineOptions, answered};
use schedule::Prepared;
use state::Delays;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The name of the file in its folder.
const FILE: &str = "delays.redb";

/// The largest sum of records in one call, in bytes.
const CALL_BYTES: usize = 4 << 20;

/// Where a store is and what it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmbeddedOptions {
    /// The folder of the file `delays.redb`; it is created. One process has it at a time.
    pub folder: PathBuf,
    /// The bounds of the store.
    pub limits: Limits,
    /// How much of the file is kept in memory, in bytes; 64 MiB unless set.
    pub cache_bytes: usize,
    /// How long it may take until what was claimed, completed or given back is durable; 100 ms
    /// unless set.
    pub interval: Duration,
}

impl EmbeddedOptions {
    /// The store in this folder.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        EmbeddedOptions {
            folder: folder.into(),
            limits: Limits::default(),
            cache_bytes: 64 << 20,
            interval: Duration::from_millis(100),
        }
    }
}

/// A store in a file. Dropping it commits and closes the file in the background;
/// [`close`](Self::close) waits for that.
pub struct EmbeddedStore {
    engine: Engine<Delays>,
    clock: Arc<dyn Clock>,
    started: Instant,
    limits: Limits,
    nearer: Notify,
}

impl EmbeddedStore {
    /// Opens the store by the machine's clock.
    ///
    /// # Errors
    /// Kind [`Config`](crate::ErrorKind::Config) when `limits` make no sense, the folder cannot be
    /// made, or another process has it; Permanent when the file is damaged; Temporary when the disk
    /// fails.
    pub async fn open(options: EmbeddedOptions) -> Result<Self> {
        Self::with_clock(options, Arc::new(SystemClock)).await
    }

    /// Opens the store by `clock`.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub async fn with_clock(options: EmbeddedOptions, clock: Arc<dyn Clock>) -> Result<Self> {
        options.limits.check()?;
        let engine = Engine::open(EngineOptions {
            file: options.folder.join(FILE),
            cache_bytes: options.cache_bytes,
            interval: options.interval,
        });
        Ok(EmbeddedStore {
            engine: engine.await?,
            clock,
            started: Instant::now(),
            limits: options.limits,
            nearer: Notify::new(),
        })
    }

    /// Commits what is left, and lets the file go.
    pub async fn close(self) {
        self.engine.close().await;
    }

    fn times(&self) -> Times {
        Times {
            now: self.clock.now(),
            now_up: self.clock.now_rounded_up(),
            monotonic: millis(self.started.elapsed()),
        }
    }

    fn prepare(&self, item: Delayed) -> Result<Prepared> {
        let record = wire::encode(&item.record, self.limits.max_record_bytes)?;
        let now = self.clock.now_rounded_up();
        let at = item.when.resolve(now, self.limits.max_delay)?;
        Ok(Prepared {
            id: item.id,
            at,
            record,
            on_duplicate: item.on_duplicate,
        })
    }

    fn notify(&self, nearer: bool) {
        if nearer {
            self.nearer.notify_waiters();
        }
    }

    /// Hands the batch over in bounded calls, all of them before the first is waited for.
    async fn schedule_all(&self, batch: Vec<Delayed>) -> Vec<Result<Receipt>> {
        let mut answers: Vec<Option<Result<Receipt>>> = Vec::with_capacity(batch.len());
        let mut calls = Vec::new();
        let (mut items, mut places, mut bytes) = (Vec::new(), Vec::new(), 0);
        let mut left = batch.len();
        for item in batch {
            left -= 1;
            match self.prepare(item) {
                Ok(item) => {
                    bytes += item.record.len();
                    items.push(item);
                    places.push(answers.len());
                    answers.push(None);
                }
                Err(error) => answers.push(Some(Err(error))),
            }
            let full = items.len() == MAX_SCHEDULE || bytes >= CALL_BYTES;
            if (full || left == 0) && !items.is_empty() {
                let (items, capacity) = (std::mem::take(&mut items), self.limits.capacity as u64);
                let answer = self.engine.submit(Answer::Durable, items.len(), {
                    move |delays: &mut Delays, transaction: &_| {
                        delays.schedule(transaction, items, capacity)
                    }
                });
                calls.push((answer.await, std::mem::take(&mut places)));
                bytes = 0;
            }
        }
        for (answer, places) in calls {
            match answered(answer).await {
                Ok((receipts, nearer)) => {
                    self.notify(nearer);
                    for (place, receipt) in places.into_iter().zip(receipts) {
                        if let Some(answer) = answers.get_mut(place) {
                            *answer = Some(receipt);
                        }
                    }
                }
                Err(error) => {
                    let (kind, status, text) = (error.kind(), error.status(), error.to_string());
                    for place in places {
                        if let Some(answer) = answers.get_mut(place) {
                            *answer =
                                Some(Err(crate::error::Error::new(kind, status, text.clone())));
                        }
                    }
                }
            }
        }
        answers.into_iter().flatten().collect()
    }
}

#[deny(clippy::missing_trait_methods)]
impl DelaySink for EmbeddedStore {
    fn schedule(&self, batch: Vec<Delayed>) -> BoxFuture<'_, Vec<Result<Receipt>>> {
        Box::pin(self.schedule_all(batch))
    }

    fn durability(&self) -> Durability {
        Durability::Synced
    }
}

#[deny(clippy::missing_trait_methods)]
impl DelayStore for EmbeddedStore {
    fn due(&self, claim: Claim) -> BoxFuture<'_, Result<Due>> {
        Box::pin(async move {
            check_claim(claim)?;
            let (times, limits) = (self.times(), self.limits.clone());
            let work = move |delays: &mut Delays, transaction: &_| {
                delays.claim(transaction, times, claim, &limits)
            };
            self.engine.call(Answer::AtOnce, claim.max, work).await
        })
    }

    fn complete(&self, leases: Vec<Lease>) -> BoxFuture<'_, Result<Vec<Finished>>> {
        Box::pin(async move {
            let weight = leases.len();
            let work =
                move |delays: &mut Delays, transaction: &_| delays.complete(transaction, &leases);
            self.engine.call(Answer::AtOnce, weight, work).await
        })
    }

    fn release(&self, releases: Vec<Release>) -> BoxFuture<'_, Result<Vec<Released>>> {
        Box::pin(async move {
            let (times, limits, weight) = (self.times(), self.limits.clone(), releases.len());
            let work = move |delays: &mut Delays, transaction: &_| {
                delays.release(transaction, times, releases, &limits)
            };
            let released = self.engine.call(Answer::AtOnce, weight, work).await;
            let (released, nearer) = released?;
            self.notify(nearer);
            Ok(released)
        })
    }

    fn extend(&self, leases: Vec<Lease>, lease: Duration) -> BoxFuture<'_, Result<Vec<Finished>>> {
        Box::pin(async move {
            let end = self.times().monotonic.saturating_add(millis(lease));
            let work = move |delays: &mut Delays, _: &_| Ok(delays.extend(&leases, end));
            self.engine.call(Answer::AtOnce, 1, work).await
        })
    }

    fn changed(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.nearer.notified())
    }
}

#[deny(clippy::missing_trait_methods)]
impl DelayAdmin for EmbeddedStore {
    fn cancel(&self, ids: Vec<DelayId>) -> BoxFuture<'_, Result<Vec<Cancelled>>> {
        Box::pin(async move {
            let weight = ids.len();
            let work = move |delays: &mut Delays, transaction: &_| delays.cancel(transaction, &ids);
            self.engine.call(Answer::Durable, weight, work).await
        })
    }

    fn reschedule(&self, id: DelayId, when: When) -> BoxFuture<'_, Result<Rescheduled>> {
        Box::pin(async move {
            let at = when.resolve(self.clock.now_rounded_up(), self.limits.max_delay)?;
            let work =
                move |delays: &mut Delays, transaction: &_| delays.reschedule(transaction, &id, at);
            let (done, nearer) = self.engine.call(Answer::Durable, 1, work).await?;
            self.notify(nearer);
            Ok(done)
        })
    }

    fn list(&self, listing: Listing) -> BoxFuture<'_, Result<Page>> {
        Box::pin(async move {
            let times = self.times();
            let work = move |delays: &mut Delays, transaction: &_| {
                delays.list(transaction, times, &listing)
            };
            self.engine.call(Answer::AtOnce, 1, work).await
        })
    }

    fn stats(&self) -> BoxFuture<'_, Result<Stats>> {
        Box::pin(async move {
            let work = |delays: &mut Delays, _: &_| Ok(delays.stats());
            self.engine.call(Answer::AtOnce, 1, work).await
        })
    }
}

impl std::fmt::Debug for EmbeddedStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EmbeddedStore")
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}
