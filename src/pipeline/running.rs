//! A running pipeline: events of the group, ends of workers, marks to commit, wishes of users.

mod partitions;

use super::effects::Desk;
use super::exactly_once::ExactlyOnce;
use super::handle::{PipelineHandle, Stop, Wish};
use super::ledger::{Ledger, Mark, TopicPartition};
use super::observe::{Observation, PartitionGauge};
use super::observer::{PipelineEvent, PipelineObserver};
use super::parts::Ended;
use super::plan::Summary;
use super::settings::PipelineSettings;
use super::work::Work;
use crate::error::{Error, Result};
use crate::transport::kafka::{
    Commit, CommitResults, GroupConsumer, GroupEvent, GroupHandle, KafkaRecord, OwnedPartition,
};
use partitions::{GivingBack, Owned};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{MissedTickBehavior, interval, timeout};

/// How long the last commits may take after everything else is done, and leaving the group after that.
const LEAVE: Duration = Duration::from_secs(10);

/// How long aborted workers are waited for.
const BREAK_OFF: Duration = Duration::from_secs(1);

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
    observation: Observation,
    desk: Arc<dyn Desk>,
    /// What commits, where it is not the group.
    exactly_once: Option<ExactlyOnce>,
    work: Arc<W>,
    group: GroupConsumer,
    handle: GroupHandle,
    ledger: Ledger,
    owned: HashMap<TopicPartition, Owned>,
    workers: JoinSet<(OwnedPartition, PartitionGauge, Ended)>,
    giving_back: Vec<GivingBack>,
    /// At most one of the ticks, and one for each rebalance under way.
    commits: JoinSet<(Vec<Mark>, CommitResults)>,
    /// Pauses of librdkafka's under way.
    pauses: JoinSet<()>,
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
        observation: Observation,
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
            observer: observation.observer(),
            observation,
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
            pauses: JoinSet::new(),
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
        let mut look = interval(self.observation.interval());
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
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
                _ = look.tick() => self.look(),
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

    /// The partitions of which something finished waits to be committed.
    fn due(&self) -> HashSet<TopicPartition> {
        match &self.exactly_once {
            Some(exactly_once) => exactly_once.due().iter().map(place).collect(),
            None => {
                let marks = self.ledger.due().into_iter();
                marks.map(|mark| mark.partition).collect()
            }
        }
    }

    fn look(&mut self) {
        self.tell_held();
        self.pause_fetching(Instant::now());
        let due = self.due();
        self.observation.look(&due, self.users.is_stopping());
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

    fn committed(&mut self, done: std::result::Result<(Vec<Mark>, CommitResults), JoinError>) {
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

    /// The last commit, and out; at once when told so meanwhile.
    async fn leave(mut self) -> Result<Summary> {
        let error = self.stopping.take().and_then(|stopping| stopping.error);
        let users = self.users.clone();
        let mut at_once = self.summary;
        at_once.uncommitted += self.due().len();
        let summary = tokio::select! {
            summary = self.part() => summary,
            () = users.stopping_now() => at_once,
        };
        error.map_or(Ok(summary), Err)
    }

    /// The last commit, and out, each within a limit.
    async fn part(mut self) -> Summary {
        let last = match self.exactly_once.take() {
            Some(exactly_once) => {
                self.summary.uncommitted = exactly_once.finish(LEAVE).await;
                Vec::new()
            }
            None => {
                // Rebalances that wait for their last commit first.
                let earlier = async {
                    while let Some(done) = self.commits.join_next().await {
                        self.committed(done);
                    }
                };
                // What they leave open is committed below, or comes again.
                let _ = timeout(LEAVE, earlier).await;
                self.ledger.due().iter().map(commit).collect()
            }
        };
        let results = self.group.close(last, LEAVE).await;
        let observer = &self.observer;
        for error in results.iter().filter_map(|result| result.as_ref().err()) {
            observer.event(&PipelineEvent::CommitFailed(error));
        }
        self.summary.uncommitted += results.iter().filter(|result| result.is_err()).count();
        self.summary
    }

    /// Out, whatever is under way.
    async fn break_off(mut self) -> Result<Summary> {
        self.summary.uncommitted += self.due().len();
        let in_flight = |owned: &Owned| owned.gauge.shown().in_flight;
        self.summary.abandoned += self.owned.values().map(in_flight).sum::<usize>();
        self.workers.abort_all();
        self.commits.abort_all();
        // A handler that blocks its thread cannot be ended.
        let gone = async { while self.workers.join_next().await.is_some() {} };
        let _ = timeout(BREAK_OFF, gone).await;
        let error = self.stopping.take().and_then(|stopping| stopping.error);
        error.map_or(Ok(self.summary), Err)
    }
}
