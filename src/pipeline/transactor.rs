//! What is staged becomes visible in transactions: one at a time, each tick what is ready.

mod task;

#[cfg(test)]
mod tests;

use super::ledger::MarkCell;
use super::source::Written;
use super::staging::{Staged, StagedBatch, Staging, StagingRoom};
use crate::answer::BoxFuture;
use crate::error::{Error, Result};
use crate::record::OutgoingRecord;
use crate::transport::TransactionError;
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// The first and the longest wait before what failed is tried again.
const WAITS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));

/// A transactional producer and its group, as the transactor needs them.
pub(super) trait Transactions: Send + Sync + 'static {
    /// A partition in one ownership.
    type Partition: Ord + Clone + fmt::Debug + Send + Sync + 'static;

    /// Writes the records and commits the offsets in one transaction, if all the partitions are still
    /// ours.
    fn transact(
        &self,
        records: Vec<OutgoingRecord>,
        offsets: Vec<(Self::Partition, i64)>,
    ) -> impl Future<Output = Result<(), TransactionError>> + Send;

    /// Replaces the producer. When it is there, nothing that the one before did is pending any more.
    fn renew(&self) -> impl Future<Output = Result<()>> + Send;

    /// The group's committed offsets.
    fn committed(
        &self,
        partitions: &[Self::Partition],
    ) -> impl Future<Output = Result<Vec<Option<i64>>>> + Send;

    /// Something worth telling happened.
    fn tell(&self, event: TransactorEvent<'_, Self::Partition>);
}

/// What a transactor tells.
#[derive(Debug)]
pub(super) enum TransactorEvent<'a, P> {
    /// Offsets of this many partitions were committed, with what was staged below them.
    Committed { partitions: usize },
    /// A record staged for this offset cannot be written for now; its partition waits for it.
    Unwritten {
        partition: &'a P,
        offset: i64,
        error: &'a Error,
    },
    /// What was staged for this offset is refused for what it is; its record is dead-lettered instead.
    Refused {
        partition: &'a P,
        offset: i64,
        error: &'a Error,
    },
    /// A transaction failed for another reason, and is tried again.
    Failed(&'a Error),
}

/// Makes what is written instead of an effect that is refused for what it is, at the `step`-th time
/// (from 1); nothing, when it is to be tried again as it is.
type Make = dyn Fn(usize, Arc<Error>) -> BoxFuture<'static, Option<OutgoingRecord>> + Send + Sync;

/// What stands in for an effect that is refused for what it is.
#[derive(Clone)]
pub(super) struct Instead {
    pub(super) make: Arc<Make>,
    /// What it keeps in memory.
    pub(super) bytes: usize,
    /// That it does is news: it is another effect, not a shorter one.
    pub(super) told: bool,
}

/// For those who stage, give partitions back, and stop. Cloning is cheap.
pub(super) struct Transactor<P>(Arc<Shared<P>>);

impl<P> Clone for Transactor<P> {
    fn clone(&self) -> Self {
        Transactor(Arc::clone(&self.0))
    }
}

struct Shared<P> {
    state: Mutex<State<P>>,
    /// Room was made, offsets were committed, a mark may have moved.
    changed: Notify,
    /// The task is not to wait for its next tick.
    wake: Notify,
}

struct State<P> {
    staging: Staging<P>,
    owned: BTreeMap<P, Owned>,
}

struct Owned {
    mark: MarkCell,
    /// Of what is staged, by offset: how often it was replaced, and by what it is next.
    instead: BTreeMap<i64, (usize, Instead)>,
    hold: Option<Hold>,
}

impl Owned {
    /// Whether what could not be written was tried by itself, and waits.
    fn is_held(&self) -> bool {
        self.hold.as_ref().is_some_and(|hold| !hold.wait.is_zero())
    }
}

/// A partition whose effects could not be written: it is tried by itself, so that the others go on.
struct Hold {
    until: Instant,
    wait: Duration,
    /// How much is tried at once: less after each failure, so that what can be written is.
    records: usize,
}

impl<P: Ord + Clone + fmt::Debug + Send + Sync + 'static> Transactor<P> {
    /// Nothing staged. [`run`](Self::run) does the work.
    pub(super) fn new(room: StagingRoom) -> Self {
        Transactor(Arc::new(Shared {
            state: Mutex::new(State {
                staging: Staging::new(room),
                owned: BTreeMap::new(),
            }),
            changed: Notify::new(),
            wake: Notify::new(),
        }))
    }

    fn state(&self) -> MutexGuard<'_, State<P>> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A partition became ours, and this is where its mark is.
    pub(super) fn assign(&self, partition: P, mark: MarkCell) {
        let mut state = self.state();
        state.staging.add_partition(partition.clone());
        let owned = Owned {
            mark,
            instead: BTreeMap::new(),
            hold: None,
        };
        state.owned.insert(partition, owned);
    }

    /// A partition is no longer ours. What is staged of it is dropped.
    pub(super) fn forget(&self, partition: &P) {
        let mut state = self.state();
        state.staging.drop_partition(partition);
        state.owned.remove(partition);
        drop(state);
        self.0.changed.notify_waiters();
    }

    /// Stages what is to be written for the record at `offset`: Acknowledged once it is, for the
    /// offset is committed with it. Waits for room, and while what comes before it in its partition
    /// cannot be written; but never a record that the mark waits for and nothing is staged before.
    pub(super) fn stage(
        &self,
        partition: &P,
        offset: i64,
        records: Arc<[OutgoingRecord]>,
        instead: Option<Instead>,
    ) -> BoxFuture<'static, Written> {
        if let Some(written) = self.try_stage(partition, offset, &records, instead.as_ref()) {
            return Box::pin(std::future::ready(written));
        }
        let (own, partition) = (self.clone(), partition.clone());
        // Once: what it wakes tells of each change, and that must not come back to it.
        self.0.wake.notify_one();
        Box::pin(async move {
            loop {
                let changed = own.0.changed.notified();
                let written = own.try_stage(&partition, offset, &records, instead.as_ref());
                match written {
                    Some(written) => return written,
                    None => changed.await,
                }
            }
        })
    }

    fn try_stage(
        &self,
        partition: &P,
        offset: i64,
        records: &Arc<[OutgoingRecord]>,
        instead: Option<&Instead>,
    ) -> Option<Written> {
        let mut state = self.state();
        let State { staging, owned } = &mut *state;
        let ended = || {
            Written::Held(Error::unavailable(format!(
                "offset {offset} of {partition:?} is no longer ours to finish"
            )))
        };
        let Some(owned) = owned.get_mut(partition) else {
            return Some(ended());
        };
        // What is staged before it is ready, and makes room when it is committed.
        let must = owned.mark.waits_for(offset) && staging.is_first(partition, offset);
        if owned.is_held() && !must {
            return None;
        }
        match staging.stage(partition, offset, records, must) {
            Staged::Full => None,
            Staged::Ended => Some(ended()),
            Staged::Done => {
                if let Some(instead) = instead {
                    staging.add_bytes(partition, offset, instead.bytes);
                    owned.instead.insert(offset, (0, instead.clone()));
                }
                Some(Written::Acknowledged)
            }
        }
    }

    /// Commits what lies below the marks of these partitions, which do not move any more: true once
    /// that is done, false when it is not within `limit`.
    pub(super) async fn flush(&self, partitions: &[P], limit: Duration) -> bool {
        let until = Instant::now() + limit;
        self.0.wake.notify_one();
        loop {
            let changed = self.0.changed.notified();
            if self.is_settled(partitions) {
                return true;
            }
            if timeout_at(until, changed).await.is_err() {
                return self.is_settled(partitions);
            }
        }
    }

    /// How many of these partitions have a mark that is not committed.
    pub(super) fn uncommitted(&self, partitions: &[P]) -> usize {
        let state = self.state();
        let open = |partition: &&P| state.is_open(partition);
        partitions.iter().filter(open).count()
    }

    fn is_settled(&self, partitions: &[P]) -> bool {
        self.uncommitted(partitions) == 0
    }

    /// The partitions whose effects could not be written for now, each with the lowest offset of those.
    pub(super) fn held(&self) -> BTreeMap<P, i64> {
        let state = self.state();
        let held = state.owned.iter().filter(|(_, owned)| owned.is_held());
        let first = |partition: &P| state.staging.first(partition).unwrap_or_default();
        held.map(|(partition, _)| (partition.clone(), first(partition)))
            .collect()
    }

    /// The partitions that are ours.
    pub(super) fn partitions(&self) -> Vec<P> {
        self.state().owned.keys().cloned().collect()
    }

    /// Works until it is dropped; each `interval`, and when it is asked to.
    pub(super) async fn run<T: Transactions<Partition = P>>(self, backend: T, interval: Duration) {
        task::Task::new(self, backend).run(interval).await;
    }
}

impl<P: Ord + Clone> State<P> {
    fn is_open(&self, partition: &P) -> bool {
        let mark = self.owned.get(partition).and_then(|owned| owned.mark.get());
        mark.is_some_and(|mark| self.staging.committed_offset(partition) < Some(mark))
    }

    /// What the next transaction is of: one partition whose next try is due, or everything that is not
    /// held; and which of the two.
    fn take(&mut self, now: Instant) -> (StagedBatch<P>, bool) {
        let due = |owned: &Owned| Some(owned.hold.as_ref()?.until).filter(|until| *until <= now);
        let next = self.owned.iter_mut();
        let next = next.filter_map(|(partition, owned)| Some((due(owned)?, partition, owned)));
        if let Some((_, partition, owned)) = next.min_by_key(|(until, ..)| *until) {
            let room = StagingRoom {
                records: owned.hold.as_ref().map_or(1, |hold| hold.records),
                ..StagingRoom::default()
            };
            let mark = owned.mark.get().map(|mark| (partition.clone(), mark));
            let batch = self.staging.take(mark, room);
            if !batch.is_empty() {
                return (batch, true);
            }
            owned.hold = None;
        }
        let free = self.owned.iter().filter(|(_, owned)| owned.hold.is_none());
        let marks = free.filter_map(|(name, owned)| Some((name.clone(), owned.mark.get()?)));
        let marks: Vec<(P, i64)> = marks.collect();
        (self.staging.take(marks, StagingRoom::default()), false)
    }

    /// The next try of a partition is by itself: at once of fewer records than before, where that is
    /// possible, or of one after a wait.
    fn hold(&mut self, partition: &P, fewer: Option<usize>) {
        let Some(owned) = self.owned.get_mut(partition) else {
            return;
        };
        let (now, before) = (Instant::now(), owned.hold.as_ref().map(|hold| hold.wait));
        owned.hold = Some(match fewer {
            Some(records) => Hold {
                until: now,
                wait: before.unwrap_or(Duration::ZERO),
                records,
            },
            None => {
                let wait = before.unwrap_or_default().saturating_mul(2);
                let wait = wait.clamp(WAITS.0, WAITS.1);
                Hold {
                    until: now + wait,
                    wait,
                    records: 1,
                }
            }
        });
    }

    fn committed(&mut self, batch: &StagedBatch<P>) {
        self.staging.committed(batch);
        for (partition, offset) in batch.offsets() {
            if let Some(owned) = self.owned.get_mut(partition) {
                // What was left of it is tried by itself as well.
                owned.hold = owned.hold.take().filter(|_| batch.cut);
                owned.instead = owned.instead.split_off(&offset);
            }
        }
    }
}

impl<P> fmt::Debug for Transactor<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Transactor")
    }
}
