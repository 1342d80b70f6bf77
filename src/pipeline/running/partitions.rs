//! Partitions that come, pause and go.

use super::{Running, commit, place};
use crate::pipeline::contain::gone;
use crate::pipeline::control::WorkerControl;
use crate::pipeline::effects::PartitionEffects;
use crate::pipeline::kafka_source::KafkaPartition;
use crate::pipeline::ledger::{Mark, Ownership};
use crate::pipeline::observe::{PartitionGauge, TARGET};
use crate::pipeline::observer::PipelineEvent;
use crate::pipeline::parts::{Ended, WorkerParts};
use crate::pipeline::source::Event;
use crate::pipeline::state::PauseReason;
use crate::pipeline::work::Work;
use crate::pipeline::worker::worker;
use crate::transport::kafka::{AssignedPartition, Commit, KafkaRecord, OwnedPartition, Revoked};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinError;
use tracing::{Instrument, Span, info_span};

/// How much of the time to give partitions back is kept for their last commit.
const COMMIT_SHARE: u32 = 5;

/// The least and the most of it.
const COMMIT_TIME: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// How long a pause may be before librdkafka pauses the partition as well. What it has fetched ahead
/// is thrown away then, and fetched again.
const LONG_PAUSE: Duration = Duration::from_secs(10);

/// A partition that is ours.
pub(super) struct Owned {
    partition: OwnedPartition,
    pub(super) control: WorkerControl,
    pub(super) gauge: PartitionGauge,
    /// Since when it takes nothing, by its own or its user's pause.
    idle_since: Option<Instant>,
    /// Whether librdkafka pauses it, too.
    is_paused: bool,
    /// Its worker may end before we hear why: its records are over first.
    ended: bool,
}

/// Partitions that are given back once their workers have ended.
pub(super) struct GivingBack {
    revoked: Revoked,
    waiting: HashSet<OwnedPartition>,
    /// Their last marks, as their workers end.
    last: Vec<Commit>,
}

/// What a worker does is within it, handlers included.
fn span(partition: &OwnedPartition) -> Span {
    let OwnedPartition {
        topic,
        partition,
        ownership,
    } = partition;
    info_span!(target: TARGET, "partition", %topic, partition, ownership)
}

impl<W: Work<KafkaRecord>> Running<W> {
    pub(super) fn assign(&mut self, partitions: Vec<AssignedPartition>) {
        let names: Vec<OwnedPartition> = partitions.iter().map(|a| a.partition.clone()).collect();
        self.tell(PipelineEvent::Assigned(&names));
        self.observation.joined();
        for assigned in partitions {
            let partition = assigned.partition;
            let place = place(&partition);
            let ownership = Ownership::of(partition.ownership);
            let mark = self.ledger.assign_as(place.clone(), ownership);
            if let Some(exactly_once) = &self.exactly_once {
                exactly_once.assign(&partition, mark.clone());
            }
            let gauge = self.observation.begin(&place, &mark);
            let effects = PartitionEffects {
                partition: partition.clone(),
                desk: Arc::clone(&self.desk),
                observer: Arc::clone(&self.observer),
            };
            let parts = WorkerParts {
                source: KafkaPartition::new(assigned.reader),
                committed: assigned.start,
                work: Arc::clone(&self.work),
                effects: Arc::new(effects),
                settings: Arc::clone(&self.worker_settings),
                mark,
                gauge: gauge.clone(),
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
            let (name, shown) = (partition.clone(), gauge.clone());
            let working = async move { (name, gauge, worker.run().await) };
            self.workers.spawn(working.instrument(span(&partition)));
            // An ownership that was never given back is over with this.
            let owned = Owned {
                partition,
                control,
                gauge: shown,
                idle_since: None,
                is_paused: false,
                ended: false,
            };
            self.owned.insert(place, owned);
        }
    }

    pub(super) fn revoke(&mut self, revoked: Revoked) {
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

    pub(super) fn lose(&mut self, partitions: &[OwnedPartition]) {
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
        self.observation
            .gone(&place, Ownership::of(partition.ownership));
        self.owned.remove(&place);
        self.ledger.revoke(&place)
    }

    /// A worker ended.
    pub(super) fn ended(
        &mut self,
        ended: std::result::Result<(OwnedPartition, PartitionGauge, Ended), JoinError>,
    ) {
        let (partition, gauge, ended) = match ended {
            Ok(ended) => ended,
            Err(cause) if cause.is_cancelled() => return,
            // Its own code contains no panic of users: a mistake of ours, and better told.
            Err(cause) => return self.fail(gone("a worker", cause)),
        };
        self.observation.ended(&gauge);
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

    /// Shows and tells which partitions wait until what is staged of them can be written.
    pub(super) fn tell_held(&self) {
        let Some(exactly_once) = &self.exactly_once else {
            return;
        };
        let held = exactly_once.held();
        for owned in self.owned.values() {
            let partition = &owned.partition;
            let offset = held.get(partition).copied();
            if !owned.gauge.set_unwritten(offset.is_some()) {
                continue;
            }
            let event = match offset {
                Some(offset) => Event::Paused {
                    offset,
                    reason: PauseReason::Unwritten,
                },
                None => Event::Resumed { by_user: false },
            };
            self.tell(PipelineEvent::Record { partition, event });
        }
    }

    /// Has librdkafka fetch nothing for a partition that has been paused for long, whose queue
    /// would be full all the while, and again once it flows.
    pub(super) fn pause_fetching(&mut self, now: Instant) {
        for owned in self.owned.values_mut() {
            let shown = owned.gauge.shown();
            let idle = shown.paused.is_some() || shown.user_paused;
            let since = match idle {
                true => *owned.idle_since.get_or_insert(now),
                false => {
                    owned.idle_since = None;
                    now
                }
            };
            let long = now.saturating_duration_since(since) >= LONG_PAUSE;
            if long == owned.is_paused {
                continue;
            }
            owned.is_paused = long;
            let (handle, partition) = (self.handle.clone(), owned.partition.clone());
            self.pauses.spawn(async move {
                // A partition that is gone needs none; what librdkafka refuses costs memory only.
                let _ = handle.pause(&partition, long).await;
            });
        }
        while self.pauses.try_join_next().is_some() {}
    }
}
