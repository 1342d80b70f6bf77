//! A running scheduler: events of the group, partitions that come and go, offsets to commit.

use super::changelog::Shared;
use super::partition::{Mark, Partition};
use crate::error::{Error, Result};
use crate::transport::kafka::{
    AssignedPartition, Commit, GroupConsumer, GroupEvent, GroupHandle, OwnedPartition, Revoked,
};
use std::collections::{HashMap, HashSet};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio::time::{Instant, sleep, sleep_until};

/// How long leaving the group may take after everything else is done.
const LEAVE: Duration = Duration::from_secs(10);

/// What is kept of the time to give partitions back for their last commit.
const COMMIT: Duration = Duration::from_millis(500);

struct Owned {
    stop: watch::Sender<bool>,
    mark: Arc<Mark>,
    task: AbortHandle,
    ended: bool,
}

struct GivingBack {
    revoked: Revoked,
    waiting: HashSet<OwnedPartition>,
    /// When those that still work are broken off.
    until: Instant,
}

pub(super) struct Running {
    shared: Arc<Shared>,
    /// How many partitions the topic has.
    partitions: usize,
    group: GroupConsumer,
    handle: GroupHandle,
    owned: HashMap<OwnedPartition, Owned>,
    tasks: JoinSet<(OwnedPartition, Result<()>)>,
    commits: JoinSet<()>,
    marked: Arc<Notify>,
    giving_back: Vec<GivingBack>,
    had_all: bool,
}

type Ended = std::result::Result<(OwnedPartition, Result<()>), JoinError>;

impl Running {
    pub(super) fn new(shared: Arc<Shared>, partitions: usize, group: GroupConsumer) -> Self {
        Running {
            shared,
            partitions,
            handle: group.handle(),
            group,
            owned: HashMap::new(),
            tasks: JoinSet::new(),
            commits: JoinSet::new(),
            marked: Arc::new(Notify::new()),
            giving_back: Vec::new(),
            had_all: false,
        }
    }

    pub(super) async fn run(mut self, stop: impl Future<Output = ()>) -> Result<()> {
        let mut stop = pin!(stop);
        let ended = loop {
            let until = self.giving_back.iter().map(|giving| giving.until).min();
            let marked = Arc::clone(&self.marked);
            let interval = self.shared.options.commit_interval;
            let committing = !self.commits.is_empty();
            let done = tokio::select! {
                () = &mut stop => break Ok(()),
                event = self.group.next_event() => self.on(event),
                Some(ended) = self.tasks.join_next() => self.ended(ended),
                Some(_) = self.commits.join_next() => Ok(()),
                () = until_then(until) => { self.break_off(); Ok(()) }
                () = async { marked.notified().await; sleep(interval).await }, if !committing => {
                    self.commit();
                    Ok(())
                }
            };
            if done.is_err() {
                break done;
            }
        };
        self.leave().await;
        ended
    }

    fn on(&mut self, event: Option<GroupEvent>) -> Result<()> {
        match event {
            Some(GroupEvent::Assigned(partitions)) => self.assign(partitions),
            Some(GroupEvent::Revoked(revoked)) => {
                self.revoke(revoked);
                Ok(())
            }
            Some(GroupEvent::Lost(partitions)) => {
                for partition in &partitions {
                    if let Some(owned) = self.owned.remove(partition) {
                        owned.task.abort();
                    }
                }
                Ok(())
            }
            Some(GroupEvent::OffsetReset(text)) => {
                self.shared.warn(Error::unavailable(text));
                Ok(())
            }
            Some(GroupEvent::Failed(error)) => Err(error),
            None => Err(Error::unavailable("the consumer is over")),
            #[allow(unreachable_patterns)]
            Some(_) => Ok(()),
        }
    }

    fn assign(&mut self, assigned: Vec<AssignedPartition>) -> Result<()> {
        let owned = self.owned.len() + assigned.len();
        if self.shared.options.is_local() {
            self.had_all |= owned >= self.partitions;
            // Whoever had all of them was first, and waits until the other has been refused.
            if !self.had_all {
                return Err(Error::config(format!(
                    "scheduler.durability=local is for one member: this one got {owned} of the {} \
                     partitions of {}, another has the rest",
                    self.partitions, self.shared.options.topic
                )));
            }
        }
        for AssignedPartition {
            partition,
            start,
            reader,
        } in assigned
        {
            let (stop, stopping) = watch::channel(false);
            let mark = Arc::new(Mark::default());
            let worker = Partition {
                shared: Arc::clone(&self.shared),
                number: partition.partition.unsigned_abs(),
                owned: partition.clone(),
                start,
                mark: Arc::clone(&mark),
                marked: Arc::clone(&self.marked),
                stop: stopping,
            };
            let name = partition.clone();
            let task = self
                .tasks
                .spawn(async move { (name, worker.run(reader).await) });
            let owned = Owned {
                stop,
                mark,
                task,
                ended: false,
            };
            self.owned.insert(partition, owned);
        }
        Ok(())
    }

    fn revoke(&mut self, revoked: Revoked) {
        let left = revoked
            .deadline
            .saturating_duration_since(std::time::Instant::now());
        let until = Instant::now() + left.saturating_sub(COMMIT);
        let mut waiting = HashSet::new();
        for partition in &revoked.partitions {
            if let Some(owned) = self.owned.get(partition)
                && !owned.ended
            {
                let _ = owned.stop.send(true);
                waiting.insert(partition.clone());
            }
        }
        self.giving_back.push(GivingBack {
            revoked,
            waiting,
            until,
        });
        self.give_back();
    }

    fn ended(&mut self, ended: Ended) -> Result<()> {
        let (partition, ended) = match ended {
            Ok(ended) => ended,
            Err(gone) if gone.is_cancelled() => return Ok(()),
            Err(gone) => return Err(Error::config("a partition's task is gone").with_source(gone)),
        };
        if let Some(owned) = self.owned.get_mut(&partition) {
            owned.ended = true;
        }
        for giving in &mut self.giving_back {
            giving.waiting.remove(&partition);
        }
        self.give_back();
        ended
    }

    /// The time to give partitions back is over: what is in flight is left to come again.
    fn break_off(&mut self) {
        let now = Instant::now();
        for giving in &mut self.giving_back {
            if giving.until <= now {
                for partition in giving.waiting.drain() {
                    if let Some(owned) = self.owned.get(&partition) {
                        owned.task.abort();
                    }
                }
            }
        }
        self.give_back();
    }

    fn give_back(&mut self) {
        let all = std::mem::take(&mut self.giving_back);
        let (ready, waiting) = all.into_iter().partition(|g| g.waiting.is_empty());
        self.giving_back = waiting;
        let ready: Vec<GivingBack> = ready;
        for GivingBack { revoked, .. } in ready {
            let owned = revoked.partitions.iter();
            let last = owned.filter_map(|partition| {
                let owned = self.owned.remove(partition)?;
                mark(partition, &owned.mark)
            });
            let last: Vec<Commit> = last.collect();
            let handle = self.handle.clone();
            self.commits.spawn(async move {
                let _ = handle.commit(last).await;
                revoked.done();
            });
        }
    }

    fn commit(&mut self) {
        let marks: Vec<(Commit, Arc<Mark>)> = (self.owned.iter())
            .filter_map(|(partition, owned)| {
                Some((mark(partition, &owned.mark)?, Arc::clone(&owned.mark)))
            })
            .collect();
        let (handle, marked) = (self.handle.clone(), Arc::clone(&self.marked));
        self.commits.spawn(async move {
            let commits = marks.iter().map(|(commit, _)| commit.clone()).collect();
            let results = handle.commit(commits).await;
            for ((commit, mark), result) in marks.iter().zip(results) {
                match result {
                    Ok(()) => drop(mark.committed.fetch_max(commit.offset, Ordering::AcqRel)),
                    Err(error) if error.failure.try_again() => marked.notify_one(),
                    Err(_) => {}
                }
            }
        });
    }

    async fn leave(mut self) {
        for owned in self.owned.values() {
            let _ = owned.stop.send(true);
        }
        // Whatever waits for a partition to be given back is answered by leaving.
        self.giving_back.clear();
        let until = Instant::now() + self.shared.options.drain;
        while !self.tasks.is_empty() {
            tokio::select! {
                Some(ended) = self.tasks.join_next() => {
                    if let Ok((_, Err(error))) = ended {
                        self.shared.warn(error);
                    }
                }
                () = sleep_until(until) => self.tasks.abort_all(),
            }
        }
        let last = (self.owned.iter())
            .filter_map(|(partition, owned)| mark(partition, &owned.mark))
            .collect();
        self.group.close(last, LEAVE).await;
        self.commits.abort_all();
        while self.commits.join_next().await.is_some() {}
    }
}

fn mark(partition: &OwnedPartition, mark: &Mark) -> Option<Commit> {
    let next = mark.next.load(Ordering::Acquire);
    (next > mark.committed.load(Ordering::Acquire)).then(|| Commit::new(partition.clone(), next))
}

async fn until_then(until: Option<Instant>) {
    match until {
        Some(until) => sleep_until(until).await,
        None => std::future::pending().await,
    }
}
