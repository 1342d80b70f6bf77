//! Claims what is due, publishes it, finishes it: written once, over any store.

mod options;

pub use options::{DeliveryObserver, ID_HEADER, Unobserved, WorkerCounts, WorkerOptions};

use super::together::all;
use super::{Attempt, Claim, Claimed, DelayStore, Due, Finished, Lease, Release, Released};
use crate::error::{Error, Result};
use crate::record::OutgoingRecord;
use crate::status::{ErrorKind, Status};
use crate::transport::{Delivered, Sink};
use std::borrow::Cow;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// What one turn did, and when the next makes sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// How many records were claimed.
    pub claimed: usize,
    /// How many of them were written.
    pub delivered: usize,
    /// Whether none was, for a reason that should pass.
    pub outage: bool,
    /// How long nothing will be due, or after an outage how long to leave the sink alone; at most
    /// [`WorkerOptions::poll`].
    pub wait: Duration,
}

/// Moves due records from a store to a sink. Many may share one store.
///
/// Delivery is at least once. A record is removed after the sink has acknowledged it, so a worker
/// that is killed in between, or loses its store, makes for a second delivery of at most one batch.
///
/// When nothing of a batch is written and an error is Temporary, the sink is out: the records wait
/// with no attempt counted, longer each time, and so does the worker, at most
/// [`WorkerOptions::poll`]. A Temporary error of some records counts as an
/// attempt of theirs and they wait longer each time. After a Permanent error, or with the attempts
/// of the store used up, a record is dead. A wiring mistake (kind Config) ends the worker; the
/// records wait.
pub struct Worker<S, K> {
    store: S,
    sink: K,
    options: WorkerOptions,
    observer: Arc<dyn DeliveryObserver>,
    counts: Arc<WorkerCounts>,
    /// Outages of the sink in a row.
    outages: AtomicU32,
}

impl<S: DelayStore, K: Sink> Worker<S, K> {
    /// A worker from `store` to `sink`.
    pub fn new(store: S, sink: K, options: WorkerOptions) -> Self {
        Worker {
            store,
            sink,
            options,
            observer: Arc::new(Unobserved),
            counts: Arc::default(),
            outages: AtomicU32::new(0),
        }
    }

    /// The same, watched by `observer`.
    #[must_use]
    pub fn observed_by(mut self, observer: Arc<dyn DeliveryObserver>) -> Self {
        self.observer = observer;
        self
    }

    /// What it has done; the counts go on.
    pub fn counts(&self) -> Arc<WorkerCounts> {
        Arc::clone(&self.counts)
    }

    /// Works until `stop` is done, and finishes the batch in hand. An outage of the store or of the
    /// sink does not end it.
    ///
    /// # Errors
    /// Kind [`Config`](ErrorKind::Config): the store or the sink is wired wrongly.
    pub async fn run(&self, stop: impl Future<Output = ()>) -> Result<()> {
        let mut stop = pin!(stop);
        let mut failures = 0_u32;
        loop {
            self.counts.wakes.fetch_add(1, Ordering::Relaxed);
            // Before the claim: what is scheduled after it must not be missed.
            let changed = self.store.changed();
            let (wait, listen) = match self.turn().await {
                Ok(turn) => {
                    failures = 0;
                    (turn.wait, !turn.outage)
                }
                Err(error) if error.kind() == ErrorKind::Config => return Err(error),
                Err(error) => {
                    self.observer.store_failed(&error);
                    failures = failures.saturating_add(1);
                    (self.options.backoff(failures), false)
                }
            };
            tokio::select! {
                biased;
                () = &mut stop => return Ok(()),
                () = sleep(wait) => {}
                () = changed, if listen => {}
            }
        }
    }

    /// One turn: claims a batch, publishes it, finishes it.
    ///
    /// # Errors
    /// Temporary when the store does not answer; kind [`Config`](ErrorKind::Config) when the store or
    /// the sink is wired wrongly.
    pub async fn turn(&self) -> Result<Turn> {
        let claim = Claim {
            max: self.options.batch,
            lease: self.options.lease,
        };
        let due = self.store.due(claim).await?;
        let wait = self.wait(&due);
        let claimed = due.items.len();
        let (delivered, outage) = if claimed == 0 {
            (0, false)
        } else {
            self.deliver(due).await?
        };
        let wait = if outage {
            // One record that fails alone looks the same: others are not kept waiting for long.
            self.outage_wait().min(self.options.poll)
        } else {
            wait
        };
        Ok(Turn {
            claimed,
            delivered,
            outage,
            wait,
        })
    }

    fn outage_wait(&self) -> Duration {
        self.options.backoff(self.outages.load(Ordering::Relaxed))
    }

    /// The store's own time decides, so the clock of this machine has no say.
    fn wait(&self, due: &Due) -> Duration {
        let poll = self.options.poll.max(Duration::from_millis(1));
        let until = due.next.map(|next| next.saturating_sub(due.now));
        until.map_or(poll, |until| {
            let until = u64::try_from(until).unwrap_or(0);
            Duration::from_millis(until).min(poll)
        })
    }

    /// How many were written, and whether the sink is out.
    async fn deliver(&self, due: Due) -> Result<(usize, bool)> {
        let (ready, early): (Vec<_>, Vec<_>) =
            (due.items.into_iter()).partition(|item| item.deliver_at <= due.now);
        if !early.is_empty() {
            let count = early.len() as u64;
            self.counts.early.fetch_add(count, Ordering::Relaxed);
            let back = early.iter().map(|item| {
                let left = item.deliver_at.saturating_sub(due.now);
                let left = Duration::from_millis(left.unsigned_abs());
                release(item, left, Attempt::Free, Cow::Borrowed("not due yet"))
            });
            self.store.release(back.collect()).await?;
        }
        let Some(results) = self.publish(&ready).await else {
            return Ok((0, true));
        };
        let (mut done, mut failed) = (Vec::new(), Vec::new());
        for (item, result) in ready.iter().zip(results) {
            match result {
                Ok(delivered) => {
                    self.observer.delivered(item, delivered);
                    done.push(item.lease.clone());
                }
                Err(error) => failed.push((item, error)),
            }
        }
        let delivered = done.len();
        self.finish(done).await;
        let temporary = |(_, error): &(_, Error)| error.status() == Status::Temporary;
        let outage = delivered == 0 && failed.iter().any(temporary);
        if outage {
            let outages = self.outages.load(Ordering::Relaxed);
            (self.outages).store(outages.saturating_add(1), Ordering::Relaxed);
        } else if delivered > 0 {
            self.outages.store(0, Ordering::Relaxed);
        }
        self.give_back(failed, outage).await?;
        Ok((delivered, outage))
    }

    /// Publishes all and extends the leases meanwhile; `None` when it took too long.
    async fn publish(&self, items: &[Claimed]) -> Option<Vec<Result<Delivered>>> {
        let records = items.iter().map(|item| self.outgoing(item));
        let sends = records.map(|record| self.sink.send(record)).collect();
        let leases: Vec<Lease> = items.iter().map(|item| item.lease.clone()).collect();
        let extending = async {
            loop {
                sleep((self.options.lease / 3).max(Duration::from_millis(1))).await;
                let extended = self.store.extend(leases.clone(), self.options.lease);
                if let Err(error) = extended.await {
                    self.observer.store_failed(&error);
                }
            }
        };
        let limited = timeout(self.options.publish_limit, all(sends));
        tokio::select! {
            biased;
            results = limited => results.ok(),
            () = extending => None,
        }
    }

    fn outgoing(&self, item: &Claimed) -> OutgoingRecord {
        let mut record = item.record.clone();
        if let Some(name) = &self.options.id_header {
            record.headers.remove(name.as_bytes());
            let id = item.lease.id.as_str().as_bytes().to_vec();
            record.headers.push(name.as_bytes().to_vec(), Some(id));
        }
        record
    }

    /// Finishes what was written: tries on while the leases may run, since giving up means to
    /// deliver again.
    async fn finish(&self, done: Vec<Lease>) {
        let (started, mut failures) = (Instant::now(), 0);
        while !done.is_empty() {
            match self.store.complete(done.clone()).await {
                Ok(finished) => {
                    let stale = finished.iter().filter(|f| **f == Finished::Stale).count();
                    // An answer that was lost makes the second try stale, though nothing is wrong.
                    let stale = if failures == 0 { stale } else { 0 };
                    let delivered = (done.len() - stale) as u64;
                    self.counts
                        .delivered
                        .fetch_add(delivered, Ordering::Relaxed);
                    self.counts.stale.fetch_add(stale as u64, Ordering::Relaxed);
                    return;
                }
                Err(error) => {
                    self.observer.store_failed(&error);
                    failures += 1;
                    let wait = self.options.backoff(failures);
                    if started.elapsed() + wait > self.options.lease {
                        return;
                    }
                    sleep(wait).await;
                }
            }
        }
    }

    async fn give_back(&self, failed: Vec<(&Claimed, Error)>, outage: bool) -> Result<()> {
        let releases: Vec<Release> = (failed.iter())
            .map(|(item, error)| {
                let attempt = match error.status() {
                    _ if error.kind() == ErrorKind::Config => Attempt::Free,
                    Status::Temporary if outage => Attempt::Free,
                    Status::Temporary | Status::Exhausted => Attempt::Counted,
                    Status::Permanent => Attempt::Last,
                };
                let wait = match attempt {
                    Attempt::Free => self.outage_wait(),
                    _ => self.options.backoff(item.attempt),
                };
                release(item, wait, attempt, Cow::Owned(error.to_string()))
            })
            .collect();
        if releases.is_empty() {
            return Ok(());
        }
        let count = releases.len() as u64;
        self.counts.failed.fetch_add(count, Ordering::Relaxed);
        let released = self.store.release(releases).await;
        let mut config = None;
        for (index, (item, error)) in failed.into_iter().enumerate() {
            let answer = released.as_ref().ok().and_then(|all| all.get(index));
            let answer = answer.copied().unwrap_or(Released::Stale);
            self.observer.failed(item, &error, answer);
            if error.kind() == ErrorKind::Config {
                config = Some(error);
            }
        }
        match config {
            Some(error) => Err(error),
            None => released.map(drop),
        }
    }
}

fn release(
    item: &Claimed,
    delay: Duration,
    attempt: Attempt,
    reason: Cow<'static, str>,
) -> Release {
    Release {
        lease: item.lease.clone(),
        delay,
        attempt,
        reason,
    }
}

impl<S, K> std::fmt::Debug for Worker<S, K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker")
            .field("options", &self.options)
            .field("counts", &self.counts)
            .finish_non_exhaustive()
    }
}
