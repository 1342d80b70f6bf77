//! Rebalances, step by step from the loop: look up, assign; drain, unassign.

use super::context::{self, GroupContext, Handed};
use super::events::{AssignedPartition, GroupEvent, Revoked};
use super::member::Member;
use super::period::{OwnedPartition, PartitionReader, Period, Remains};
use super::restart::Restart;
use super::table::Place;
use super::{Shared, deadline};
use crate::error::{Error, Result};
use crate::transport::kafka::errors;
use crate::transport::kafka::ffi::SharedConsumer;
use rdkafka::TopicPartitionList;
use rdkafka::consumer::Consumer;
use rdkafka::topic_partition_list::Offset;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// How long the committed offsets are looked up before librdkafka is left to find them itself,
/// which it does for as long as it takes.
const LOOKUP: Duration = Duration::from_secs(3);

/// What of a rebalance is under way. There is never more than one: librdkafka waits for the answer.
enum Step {
    Idle,
    LookUp {
        handed: Handed,
        found: oneshot::Receiver<TopicPartitionList>,
        until: Instant,
    },
    Drain {
        handed: Handed,
        drained: oneshot::Receiver<()>,
        until: Instant,
    },
}

/// Where the member stands between two assignments.
pub(super) struct Rebalancing {
    step: Step,
    drain: Duration,
    ownerships: u64,
    pub(super) restarts: Vec<Restart>,
}

impl Rebalancing {
    pub(super) fn new(drain: Duration) -> Self {
        Rebalancing {
            step: Step::Idle,
            drain,
            ownerships: 0,
            restarts: Vec::new(),
        }
    }

    pub(super) fn due(&self) -> Option<Instant> {
        match &self.step {
            Step::Idle => None,
            Step::LookUp { until, .. } | Step::Drain { until, .. } => Some(*until),
        }
    }

    /// Ends all waiting within a step.
    pub(super) fn hurry(&mut self) {
        self.restarts.clear();
        self.drain = Duration::ZERO;
        if let Step::LookUp { until, .. } | Step::Drain { until, .. } = &mut self.step {
            *until = Instant::now();
        }
    }

    pub(super) fn next_ownership(&mut self) -> u64 {
        self.ownerships = self.ownerships.saturating_add(1);
        self.ownerships
    }
}

impl Member {
    /// Goes as far as it can without waiting.
    pub(super) fn step(&mut self) -> Result<()> {
        match std::mem::replace(&mut self.rebalancing.step, Step::Idle) {
            Step::Idle => self.begin(),
            Step::LookUp {
                handed,
                mut found,
                until,
            } => match found.try_recv() {
                Err(oneshot::error::TryRecvError::Empty) if Instant::now() < until => {
                    self.rebalancing.step = Step::LookUp {
                        handed,
                        found,
                        until,
                    };
                    Ok(())
                }
                found => self.assign(&handed, found.ok()),
            },
            Step::Drain {
                handed,
                mut drained,
                until,
            } => {
                let lost = self.with()?.assignment_lost();
                let waiting =
                    matches!(drained.try_recv(), Err(oneshot::error::TryRecvError::Empty))
                        || !self.committer.is_idle();
                if waiting && !lost && Instant::now() < until {
                    self.rebalancing.step = Step::Drain {
                        handed,
                        drained,
                        until,
                    };
                    return Ok(());
                }
                self.give_back(&handed, lost)
            }
        }
    }

    fn begin(&mut self) -> Result<()> {
        if !self.all_told() {
            // Its owner is behind: no new partitions before it knows about the old.
            return Ok(());
        }
        let context = Arc::clone(self.with()?.client().context());
        let Some(handed) = context.next_rebalance() else {
            return Ok(());
        };
        self.drop_restarts(&handed.partitions);
        if handed.assign {
            return self.look_up(handed);
        }
        let periods = self.periods_of(&handed);
        for period in &periods {
            period.end();
        }
        if handed.lost || periods.is_empty() {
            return self.give_back(&handed, handed.lost);
        }
        let (send, drained) = oneshot::channel();
        let until = deadline(self.rebalancing.drain);
        self.tell(GroupEvent::Revoked(Revoked {
            partitions: periods.iter().map(|period| period.owned.clone()).collect(),
            deadline: until,
            drained: Some(send),
            bell: Arc::clone(&self.shared.bell),
        }));
        self.rebalancing.step = Step::Drain {
            handed,
            drained,
            until,
        };
        Ok(())
    }

    fn periods_of(&self, handed: &Handed) -> Vec<Arc<Period>> {
        let find = |(topic, partition): &Place| self.shared.table.find(topic, *partition);
        handed.partitions.iter().filter_map(find).collect()
    }

    /// Asks for the committed offsets, which blocks, on a thread of its own.
    fn look_up(&mut self, handed: Handed) -> Result<()> {
        if handed.partitions.is_empty() {
            return self.assign(&handed, None);
        }
        let list = list_of(&handed);
        let (send, found) = oneshot::channel();
        let consumer = Arc::clone(&self.consumer);
        let bell = Arc::clone(&self.shared.bell);
        let spawned = thread::Builder::new()
            .name("kafka-committed".to_owned())
            .spawn(move || {
                if let Some(list) = committed(&consumer, list) {
                    // The loop may have gone on without it.
                    let _ = send.send(list);
                }
                bell.ring();
            });
        match spawned {
            Ok(_) => {
                self.rebalancing.step = Step::LookUp {
                    handed,
                    found,
                    until: deadline(LOOKUP.saturating_mul(2)),
                };
                Ok(())
            }
            Err(_) => self.assign(&handed, None),
        }
    }

    fn assign(&mut self, handed: &Handed, committed: Option<TopicPartitionList>) -> Result<()> {
        // One that was never given back is another period all the same.
        let stale = self.periods_of(handed);
        self.lose(&stale);
        let mut assigned = Vec::with_capacity(handed.partitions.len());
        for (topic, partition) in &handed.partitions {
            let owned = OwnedPartition {
                topic: Arc::clone(topic),
                partition: *partition,
                ownership: self.rebalancing.next_ownership(),
            };
            let period = self.open(&owned, None)?;
            let start = committed
                .as_ref()
                .and_then(|list| list.find_partition(topic, *partition))
                .and_then(|element| match element.offset() {
                    Offset::Offset(offset) => Some(offset),
                    _ => None,
                });
            assigned.push(AssignedPartition {
                partition: owned,
                start,
                reader: PartitionReader::new(period),
            });
        }
        let list = committed.unwrap_or_else(|| list_of(handed));
        context::answer(self.with()?, true, &list)
            .map_err(|cause| errors::from_kafka("could not take an assignment", &cause))?;
        self.tell(GroupEvent::Assigned(assigned));
        Ok(())
    }

    /// Begins an ownership.
    pub(super) fn open(
        &self,
        owned: &OwnedPartition,
        remains: Option<Remains>,
    ) -> Result<Arc<Period>> {
        let Shared { news, bell, .. } = &*self.shared;
        let opened = Period::open(&self.consumer, owned.clone(), news, bell, remains);
        let period = opened.ok_or_else(|| {
            let OwnedPartition {
                topic, partition, ..
            } = owned;
            Error::unavailable(format!("could not open the queue of {topic} [{partition}]"))
        })?;
        self.shared.table.insert(Arc::clone(&period));
        Ok(period)
    }

    fn give_back(&mut self, handed: &Handed, lost: bool) -> Result<()> {
        let periods = self.periods_of(handed);
        match lost {
            true => self.lose(&periods),
            false => self.forget(&periods),
        }
        if let Err(cause) = context::answer(self.with()?, false, &list_of(handed)) {
            // What librdkafka does not know as ours is given back already.
            self.shared
                .warn(errors::from_kafka("could not give partitions back", &cause));
        }
        Ok(())
    }

    pub(super) fn lose(&mut self, periods: &[Arc<Period>]) {
        if periods.is_empty() {
            return;
        }
        self.forget(periods);
        let lost = periods.iter().map(|period| period.owned.clone()).collect();
        self.tell(GroupEvent::Lost(lost));
    }

    fn forget(&mut self, periods: &[Arc<Period>]) {
        for period in periods {
            period.end();
            self.shared
                .table
                .remove(&period.owned.topic, period.owned.partition);
        }
        // librdkafka keeps a pause beyond the assignment; the next one would begin with it.
        let paused: Vec<&Arc<Period>> = periods.iter().filter(|p| p.is_paused()).collect();
        if let Err(error) = self.set_paused(&paused, false) {
            self.shared.warn(error);
        }
    }

    /// Answers what is unanswered, without waiting or telling anybody; what comes later is answered
    /// where it comes.
    pub(super) fn answer_all(&mut self) {
        let mut open = match std::mem::replace(&mut self.rebalancing.step, Step::Idle) {
            Step::Idle => None,
            Step::LookUp { handed, .. } | Step::Drain { handed, .. } => Some(handed),
        };
        let Some(consumer) = self.consumer.get() else {
            return;
        };
        let context = Arc::clone(consumer.client().context());
        context.close();
        while let Some(handed) = open.take().or_else(|| context.next_rebalance()) {
            // What was assigned is given back by the closing itself.
            let _ = context::answer(consumer, handed.assign, &list_of(&handed));
        }
    }
}

fn list_of(handed: &Handed) -> TopicPartitionList {
    let mut list = TopicPartitionList::with_capacity(handed.partitions.len());
    for (topic, partition) in &handed.partitions {
        list.add_partition(topic, *partition);
    }
    list
}

/// The committed offsets with their leader epochs, ready to be assigned; `None` when any of them is
/// not known for certain.
pub(super) fn committed(
    consumer: &SharedConsumer<GroupContext>,
    list: TopicPartitionList,
) -> Option<TopicPartitionList> {
    let list = consumer.get()?.committed_offsets(list, LOOKUP).ok()?;
    let certain = list.elements().iter().all(|e| e.error().is_ok());
    certain.then_some(list)
}
