//! The one that makes transactions of what is staged.

use super::{State, Transactions, Transactor, TransactorEvent, WAITS};
use crate::error::Error;
use crate::pipeline::letters::is_refused;
use crate::pipeline::staging::StagedBatch;
use crate::status::{ErrorKind, Status};
use crate::transport::TransactionError;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

pub(super) struct Task<T: Transactions> {
    own: Transactor<T::Partition>,
    backend: T,
    wait: Duration,
}

impl<T: Transactions> Task<T> {
    pub(super) fn new(own: Transactor<T::Partition>, backend: T) -> Self {
        Task {
            own,
            backend,
            wait: WAITS.0,
        }
    }

    /// Works until dropped.
    pub(super) async fn run(mut self, every: Duration) {
        let mut tick = interval(every.max(Duration::from_millis(1)));
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut again = false;
        loop {
            if !again {
                tokio::select! {
                    _ = tick.tick() => {}
                    () = self.own.0.wake.notified() => {}
                }
            }
            let (batch, by_itself) = self.own.state().take(Instant::now());
            again = batch.cut || by_itself;
            if !batch.is_empty() {
                self.commit(batch).await;
            }
            // Marks may have moved without a commit, and there may be room for those they wait for.
            self.own.0.changed.notify_waiters();
        }
    }

    async fn commit(&mut self, batch: StagedBatch<T::Partition>) {
        let records = batch.records().cloned().collect();
        let offsets = batch.offsets().map(|(p, offset)| (p.clone(), offset));
        let result = self.backend.transact(records, offsets.collect()).await;
        match result {
            Ok(()) => self.committed(&batch),
            Err(TransactionError::Aborted { error, record }) => {
                self.aborted(batch, error, record).await;
            }
            Err(TransactionError::Fatal(error)) => {
                self.own.state().staging.aborted(&batch);
                self.backend.tell(TransactorEvent::Failed(&error));
                self.pause().await;
                self.renew().await;
            }
            Err(TransactionError::InDoubt(error)) => {
                self.backend.tell(TransactorEvent::Failed(&error));
                self.resolve(batch).await;
            }
        }
    }

    fn committed(&mut self, batch: &StagedBatch<T::Partition>) {
        self.wait = WAITS.0;
        self.own.state().committed(batch);
        let partitions = batch.offsets().count();
        self.backend.tell(TransactorEvent::Committed { partitions });
    }

    /// Whatever was aborted comes again: at once where a shorter record may be taken, by itself where
    /// one partition is to blame, else after a wait.
    async fn aborted(
        &mut self,
        batch: StagedBatch<T::Partition>,
        error: Error,
        record: Option<usize>,
    ) {
        self.own.state().staging.aborted(&batch);
        let error = Arc::new(error);
        let blamed = record.and_then(|index| batch.source(index));
        if let Some((partition, offset, _)) = blamed {
            if is_refused(&error) && self.replace(partition, offset, &error).await {
                self.own.0.wake.notify_one();
                return;
            }
            self.backend.tell(TransactorEvent::Unwritten {
                partition,
                offset,
                error: &error,
            });
            // What comes before it in its partition can be written.
            let before = batch.records_before(partition, offset);
            let fewer = Some(before).filter(|count| *count > 0);
            self.own.state().hold(partition, fewer);
        } else {
            self.backend.tell(TransactorEvent::Failed(&error));
            if error.status() == Status::Temporary {
                return self.pause().await;
            }
            self.isolate(&batch);
        }
        self.own.0.wake.notify_one();
        if error.kind() == ErrorKind::Config {
            // librdkafka remembers a right that was missing; only a new producer sees it given.
            self.renew().await;
        }
    }

    /// Puts what is written instead in the place of what is refused for what it is.
    async fn replace(&self, partition: &T::Partition, offset: i64, error: &Arc<Error>) -> bool {
        let (step, instead) = {
            let state = self.own.state();
            let staged = state.owned.get(partition);
            match staged.and_then(|owned| owned.instead.get(&offset)) {
                Some((step, instead)) => (step + 1, instead.clone()),
                None => return false,
            }
        };
        let Some(record) = (instead.make)(step, Arc::clone(error)).await else {
            return false;
        };
        {
            let mut state = self.own.state();
            let State { staging, owned } = &mut *state;
            if !staging.replace(partition, offset, record) {
                return false;
            }
            staging.add_bytes(partition, offset, instead.bytes);
            let owned = owned.get_mut(partition);
            if let Some((steps, _)) = owned.and_then(|owned| owned.instead.get_mut(&offset)) {
                *steps = step;
            }
        }
        if instead.told && step == 1 {
            self.backend.tell(TransactorEvent::Refused {
                partition,
                offset,
                error,
            });
        }
        true
    }

    /// Somebody is to blame, and nobody says who: each partition is tried by itself, and one by itself in
    /// halves.
    fn isolate(&self, batch: &StagedBatch<T::Partition>) {
        let (records, partitions) = (batch.records().count(), batch.offsets().count());
        let fewer = match partitions {
            1 => records / 2,
            _ => records,
        };
        let mut state = self.own.state();
        for (partition, _) in batch.offsets() {
            state.hold(partition, Some(fewer).filter(|count| *count > 0));
        }
    }

    /// A new producer, however long that takes.
    async fn renew(&mut self) {
        while let Err(error) = self.backend.renew().await {
            self.backend.tell(TransactorEvent::Failed(&error));
            self.pause().await;
        }
    }

    /// Finds out whether a transaction was committed, and waits until that is known: until then nothing
    /// else may be.
    async fn resolve(&mut self, batch: StagedBatch<T::Partition>) {
        self.renew().await;
        loop {
            let owned = self.owned(&batch);
            let names: Vec<T::Partition> = owned.iter().map(|(name, _)| name.clone()).collect();
            if names.is_empty() {
                break self.own.state().staging.aborted(&batch);
            }
            match self.backend.committed(&names).await {
                // All of them, for what was lost meanwhile is its next owner's to commit.
                Ok(committed) => {
                    let offsets = owned.iter().map(|(_, offset)| Some(*offset));
                    break match committed
                        .into_iter()
                        .zip(offsets)
                        .all(|(is, was)| is >= was)
                    {
                        true => self.committed(&batch),
                        false => self.own.state().staging.aborted(&batch),
                    };
                }
                Err(error) => {
                    self.backend.tell(TransactorEvent::Failed(&error));
                    self.pause().await;
                }
            }
        }
    }

    /// Those of a batch that are still ours.
    fn owned(&self, batch: &StagedBatch<T::Partition>) -> Vec<(T::Partition, i64)> {
        let state = self.own.state();
        let owned = batch.offsets().filter(|(p, _)| state.staging.owns(p));
        owned.map(|(p, offset)| (p.clone(), offset)).collect()
    }

    async fn pause(&mut self) {
        sleep(self.wait).await;
        self.wait = (self.wait * 2).min(WAITS.1);
    }
}
