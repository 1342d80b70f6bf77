//! A running pipeline: events of the group, ends of workers, marks to commit, wishes of users.

use super::control::WorkerControl;
use super::effects::{Desk, PartitionEffects};
use super::exactly_once::ExactlyOnce;
use super::handle::{PipelineHandle, Stop, Wish};
use super::kafka_source::KafkaPartition;
use super::ledger::{Ledger, Mark, Ownership, TopicPartition};
use super::observer::{PipelineEvent, PipelineObserver};
use super::parts::{Ended, WorkerParts};
use super::plan::Summary;
use super::settings::PipelineSettings;
use super::work::Work;
use super::worker::worker;
use crate::error::{Error, Result};
use crate::transport::kafka::{
    AssignedPartition, Commit, CommitResults, GroupConsumer, GroupEvent, GroupHandle, KafkaRecord,
    OwnedPartition, Revoked,
};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

/// How much of the time to give partitions back is kept for their last commit.
const COMMIT_SHARE: u32 = 5;

/// The least and the most of it.
const COMMIT_TIME: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// How long leaving the group may take after everything else is done.
const LEAVE: Duration = Duration::from_secs(10);

/// A partition that is ours.
struct Owned {
    partition: OwnedPartition,
    control: WorkerControl,
    /// Its worker may end before we hear why: its records are over first.
    ended: bool,
}

/// Partitions that are given back once their workers have ended.
struct GivingBack {
    revoked: Revoked,
    waiting: HashSet<OwnedPartition>,
    /// Their last marks, as their workers end.
    last: Vec<Commit>,
}

/// The end, once it is in sight.
struct Stopping {
    error: Option<Error>,
}

pub(super) struct Running<W> {
    settings: PipelineSettings,
    worker_settings: Arc<super::parts::WorkerSettings>,
    users: PipelineHandle,
    wishes: watch::Receiver<Wish>,
    observer: Arc<dyn PipelineObserver>,
    desk: Arc<dyn Desk>,
    /// What commits, where it is not the group.
    exactly_once: Option<ExactlyOnce>,
    work: Arc<W>,
    group: GroupConsumer,
    handle: GroupHandle,
    ledger: Ledger,
    owned: HashMap<TopicPartition, Owned>,
    workers: JoinSet<(OwnedPartition, Ended)>,
    giving_back: Vec<GivingBack>,
    /// At most one of the ticks, and one for each rebalance under way.
    commits: JoinSet<(Vec<Mark>, CommitResults)>,
    ticking: bool,
    stopping: Option<Stopping>,
    over: bool,
    summary: Summary,
}

fn place(partition: &OwnedPartition) -> TopicPartition {
    TopicPartition::new(Arc::clone(&partition.topic), partition.partition)
}

fn commit(mark: &Mark) -> Commit {
    let partition = OwnedPartition {
        topic: Arc::clone(&mark.partition.topic),
        partition: mark.partition.partition,
        ownership: mark.ownership.number(),
    };
    Commit::new(partition, mark.offset)
}

impl<W: Work<KafkaRecord>> Running<W> {
    pub(super) fn new(
        settings: PipelineSettings,
        users: PipelineHandle,
        observer: Arc<dyn PipelineObserver>,
        desk: Arc<dyn Desk>,
        exactly_once: Option<ExactlyOnce>,
        work: Arc<W>,
        group: GroupConsumer,
    ) -> Self {
        let handle = group.handle();
        Running {
            worker_settings: Arc::new(settings.worker.clone()),
            settings,
            wishes: users.watch(),
            users,
            observer,
            desk,
            exactly_once,
            work,
            group,
            handle,
            ledger: Ledger::new(),
            owned: HashMap::new(),
            workers: JoinSet::new(),
            giving_back: Vec::new(),
            commits: JoinSet::new(),
            ticking: false,
            stopping: None,
            over: false,
            summary: Summary::default(),
        }
    }

    /// Runs until stopped, also by a signal.
    pub(super) async fn run_with_signals(self) -> Result<Summary> {
        let users = self.users.clone();
        let mut signals = super::signals::Signals::listen()?;
        let run = self.run();
        tokio::pin!(run);
        loop {
            tokio::select! {
                ended = &mut run => return ended,
                () = signals.next() => match users.is_stopping() {
                    false => users.stop(),
                    true => users.stop_now(),
                },
            }
        }
    }

    /// Runs until stopped.
    pub(super) async fn run(mut self) -> Result<Summary> {
        let mut tick = interval(self.settings.commit_interval);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            if self.stopping.is_some() && self.workers.is_empty() {
                break;
            }
            tokio::select! {
                event = self.group.next_event(), if !self.over => self.on(event),
                Some(ended) = self.workers.join_next() => self.ended(ended),
                Some(done) = self.commits.join_next() => self.committed(done),
                _ = self.wishes.changed() => self.obey(),
                _ = tick.tick() => self.tick(),
            }
            if self.users.now() == Stop::Now {
                return self.break_off().await;
            }
        }
        self.leave().await
    }

    fn tell(&self, event: PipelineEvent<'_>) {
        self.observer.event(&event);
    }

    fn on(&mut self, event: Option<GroupEvent>) {
        match event {
            Some(GroupEvent::Assigned(partitions)) => self.assign(partitions),
            Some(GroupEvent::Revoked(revoked)) => self.revoke(revoked),
            Some(GroupEvent::Lost(partitions)) => self.lose(&partitions),
            Some(GroupEvent::OffsetReset(text)) => self.tell(PipelineEvent::OffsetReset(&text)),
            Some(GroupEvent::Failed(error)) => self.fail(error),
            None => {
                self.over = true;
                self.fail(Error::unavailable("the consumer is over"));
            }
            #[allow(unreachable_patterns)]
            Some(_) => {}
        }
    }

    fn assign(&mut self, partitions: Vec<AssignedPartition>) {
        let names: Vec<OwnedPartition> = partitions.iter().map(|a| a.partition.clone()).collect();
        self.tell(PipelineEvent::Assigned(&names));
        for assigned in partitions {
            let partition = assigned.partition;
            let place = place(&partition);
            let ownership = Ownership::of(partition.ownership);
            let mark = self.ledger.assign_as(place.clone(), ownership);
            if let Some(exactly_once) = &self.exactly_once {
                exactly_once.assign(&partition, mark.clone());
            }
            let effects = PartitionEffects {
                partition: partition.clone(),
                desk: Arc::clone(&self.desk),
                observer: Arc::clone(&self.observer),
            };
            let parts = WorkerParts {
                source: KafkaPartition::new(assigned.reader),
                work: Arc::clone(&self.work),
                effects: Arc::new(effects),
                settings: Arc::clone(&self.worker_settings),
                mark,
            };
            let (worker, control) = match worker(parts) {
                Ok(parts) => parts,
                Err(error) => return self.fail(error),
            };
            if self.users.is_paused(&place) {
                control.pause();
            }
            // It was on its way when the end began: what it holds is for the next member.
            if self.stopping.is_some() {
                control.lose();
            }
            let name = partition.clone();
            self.workers
                .spawn(async move { (name, worker.run().await) });
            // An ownership that was never given back is over with this.
            let owned = Owned {
                partition,
                control,
                ended: false,
            };
            self.owned.insert(place, owned);
        }
    }

    fn revoke(&mut self, revoked: Revoked) {
        self.tell(PipelineEvent::Revoked(&revoked.partitions));
        let left = revoked.deadline.saturating_duration_since(Instant::now());
        let (least, most) = COMMIT_TIME;
        let limit = left.saturating_sub((left / COMMIT_SHARE).clamp(least, most));
        let (mut waiting, mut last) = (HashSet::new(), Vec::new());
        for partition in &revoked.partitions {
            match self.current(partition) {
                Some(owned) if owned.ended => last.extend(self.forget(partition)),
                Some(owned) => {
                    owned.control.drain(limit);
                    waiting.insert(partition.clone());
                }
                None => {}
            }
        }
        let last = last.iter().map(commit).collect();
        self.giving_back.push(GivingBack {
            revoked,
            waiting,
            last,
        });
        self.give_back();
    }

    fn lose(&mut self, partitions: &[OwnedPartition]) {
        self.tell(PipelineEvent::Lost(partitions));
        for partition in partitions {
            if let Some(owned) = self.current(partition) {
                owned.control.lose();
                self.forget(partition);
            }
            if let Some(exactly_once) = &self.exactly_once {
                exactly_once.forget(partition);
            }
        }
    }

    fn current(&self, partition: &OwnedPartition) -> Option<&Owned> {
        let owned = self.owned.get(&place(partition))?;
        (owned.partition == *partition).then_some(owned)
    }

    fn forget(&mut self, partition: &OwnedPartition) -> Option<Mark> {
        self.current(partition)?;
        let place = place(partition);
        self.owned.remove(&place);
        self.ledger.revoke(&place)
    }

    /// A worker ended.
    fn ended(
        &mut self,
        ended: std::result::Result<(OwnedPartition, Ended), tokio::task::JoinError>,
    ) {
        let (partition, ended) = match ended {
            Ok(ended) => ended,
            Err(gone) if gone.is_cancelled() => return,
            // Its own code contains no panic of users: a mistake of ours, and better told.
            Err(gone) => return self.fail(Error::config("a worker is gone").with_source(gone)),
        };
        match ended {
            Ended::Drained | Ended::Over | Ended::Lost => {}
            Ended::Abandoned(records) => {
                self.summary.abandoned += records;
                self.tell(PipelineEvent::Abandoned {
                    partition: &partition,
                    records,
                });
            }
            Ended::Stopped(error) => {
                let at = format!("{}-{}", partition.topic, partition.partition);
                self.fail(error.at(at));
            }
        }
        let is_waited_for = |giving: &GivingBack| giving.waiting.contains(&partition);
        if let Some(index) = self.giving_back.iter().position(is_waited_for) {
            let last = self.forget(&partition).as_ref().map(commit);
            if let Some(giving) = self.giving_back.get_mut(index) {
                giving.waiting.remove(&partition);
                giving.last.extend(last);
            }
            self.give_back();
        } else if let Some(owned) = self.owned.get_mut(&place(&partition))
            && owned.partition == partition
        {
            owned.ended = true;
        }
    }

    /// Commits the last marks of what nobody works on any more, and gives it back.
    fn give_back(&mut self) {
        let (ready, waiting) = std::mem::take(&mut self.giving_back)
            .into_iter()
            .partition(|giving| giving.waiting.is_empty());
        self.giving_back = waiting;
        let ready: Vec<GivingBack> = ready;
        for GivingBack { revoked, last, .. } in ready {
            if let Some(exactly_once) = &self.exactly_once {
                let partitions = revoked.partitions.clone();
                let given_back = exactly_once.give_back(partitions, revoked.deadline);
                self.commits.spawn(async move {
                    given_back.await;
                    revoked.done();
                    (Vec::new(), Vec::new())
                });
                continue;
            }
            let handle = self.handle.clone();
            self.commits.spawn(async move {
                let results = handle.commit(last).await;
                revoked.done();
                (Vec::new(), results)
            });
        }
    }

    fn tick(&mut self) {
        if let Some(warning) = self.handle.take_warning() {
            self.tell(PipelineEvent::Warning(&warning));
        }
        if let Some(exactly_once) = &self.exactly_once {
            if let Some(error) = exactly_once.take_refused() {
                self.fail(error);
            }
            return;
        }
        if self.ticking {
            return;
        }
        let marks = self.ledger.due();
        if marks.is_empty() {
            return;
        }
        self.ticking = true;
        let handle = self.handle.clone();
        self.commits.spawn(async move {
            let commits = marks.iter().map(commit).collect();
            let results = handle.commit(commits).await;
            (marks, results)
        });
    }

    fn committed(
        &mut self,
        done: std::result::Result<(Vec<Mark>, CommitResults), tokio::task::JoinError>,
    ) {
        let Ok((marks, results)) = done else {
            self.ticking = false;
            return;
        };
        if !marks.is_empty() {
            self.ticking = false;
        }
        for (mark, result) in marks.iter().zip(&results) {
            if result.is_ok() {
                self.ledger.committed(mark);
            }
        }
        self.tell_commits(&results);
    }

    fn tell_commits(&self, results: &CommitResults) {
        let done = results.iter().filter(|result| result.is_ok()).count();
        if done > 0 {
            self.tell(PipelineEvent::Committed { partitions: done });
        }
        for error in results.iter().filter_map(|result| result.as_ref().err()) {
            self.tell(PipelineEvent::CommitFailed(error));
        }
    }

    /// Does what users wish.
    fn obey(&mut self) {
        self.wishes.mark_unchanged();
        let resumed = self.users.take_resumed();
        for (place, owned) in &self.owned {
            if resumed.contains(place) {
                owned.control.resume();
            } else if self.users.is_paused(place) {
                owned.control.pause();
            }
        }
        if let Stop::Gracefully(limit) = self.users.now() {
            self.stop(limit.unwrap_or(self.settings.stop_timeout), None);
        }
    }

    fn fail(&mut self, error: Error) {
        self.stop(self.settings.worker.drain, Some(error));
    }

    /// The first error counts; a limit only ever gets shorter.
    fn stop(&mut self, limit: Duration, error: Option<Error>) {
        match &mut self.stopping {
            Some(stopping) => stopping.error = stopping.error.take().or(error),
            None => {
                self.stopping = Some(Stopping { error });
                self.tell(PipelineEvent::Stopping);
            }
        }
        for owned in self.owned.values() {
            owned.control.drain(limit);
        }
    }

    /// The last commit, and out.
    async fn leave(mut self) -> Result<Summary> {
        // Rebalances that wait for their last commit first.
        while let Some(done) = self.commits.join_next().await {
            self.committed(done);
        }
        let last = match self.exactly_once.take() {
            Some(exactly_once) => {
                self.summary.uncommitted = exactly_once.finish(LEAVE).await;
                Vec::new()
            }
            None => self.ledger.due().iter().map(commit).collect(),
        };
        let error = self.stopping.take().and_then(|stopping| stopping.error);
        let results = self.group.close(last, LEAVE).await;
        let observer = &self.observer;
        for error in results.iter().filter_map(|result| result.as_ref().err()) {
            observer.event(&PipelineEvent::CommitFailed(error));
        }
        self.summary.uncommitted += results.iter().filter(|result| result.is_err()).count();
        match error {
            Some(error) => Err(error),
            None => Ok(self.summary),
        }
    }

    /// Out, whatever is under way.
    async fn break_off(mut self) -> Result<Summary> {
        self.workers.abort_all();
        self.commits.abort_all();
        while self.workers.join_next().await.is_some() {
            self.summary.abandoned += 1;
        }
        Ok(self.summary)
    }
}
