//! The worker of one partition: takes, has handled, judges, settles, marks.

use super::contain::contained;
use super::control::{Ending, WorkerControl, WorkerOrders, control};
use super::drive::{Attempts, drive};
use super::gate::Gated;
use super::happens::Happened;
use super::ledger::MarkCell;
use super::observe::{PartitionGauge, Shown, TARGET};
use super::offsets::Offsets;
use super::parts::{Ended, WorkerParts, WorkerSettings};
use super::queue::{Order, Queue};
use super::settle::{Held, Write};
use super::source::{Effects, PartitionSource, Written};
use super::state::{MAX_PROBE_WAIT, PartitionState, PauseReason};
use super::work::{Job, Work};
use crate::backoff::with_longest_wait;
use crate::error::{Error, Result};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, Sleep, sleep_until};
use tracing::{Instrument, debug_span};

/// How many records in a row are handled without a look at anything else.
const STRIDE: usize = 64;

/// How many dead letters and copies for later of one partition are written at once: enough for any
/// broker, and few enough to stay in the caches.
const LETTERS: usize = 512;

/// How long aborted tasks are waited for; one that blocks its thread cannot be.
const ABORT: Duration = Duration::from_secs(1);

/// The worker of one partition in one ownership.
pub struct Worker<S: PartitionSource, W, E> {
    pub(super) source: S,
    work: Arc<W>,
    pub(super) effects: Arc<E>,
    pub(super) settings: Arc<WorkerSettings>,
    pub(super) mark: MarkCell,
    pub(super) gauge: PartitionGauge,
    pub(super) orders: WorkerOrders,
    pub(super) offsets: Offsets,
    pub(super) state: PartitionState,
    pub(super) queue: Queue<S::Record>,
    pub(super) gated: Gated<S::Record>,
    pub(super) held: BTreeMap<i64, Held<S::Record>>,
    pub(super) writes: HashMap<i64, Write<S::Record>>,
    pub(super) writing: JoinSet<(i64, Written)>,
    pub(super) running: JoinSet<Vec<Job<S::Record>>>,
    /// Records being handled, here or in `running`.
    pub(super) in_flight: usize,
    pub(super) bytes: usize,
    /// Dead letters and copies for later among `writes`.
    pub(super) letters: usize,
    /// What handlers sent and is not written.
    pub(super) output_bytes: usize,
    pub(super) taken: Vec<S::Record>,
    pub(super) source_over: bool,
    pub(super) probing: Option<i64>,
    pub(super) probe: Option<(i64, Pin<Box<Sleep>>)>,
    pub(super) told: Option<PauseReason>,
    resumes: u64,
    user_paused: bool,
    ending: Option<Ending>,
    pub(super) deadline: Option<Pin<Box<Sleep>>>,
    pub(super) expired: bool,
    stopped: Option<Error>,
}

/// A worker and what tells it to end. It runs within a tokio runtime whose timer is enabled.
///
/// # Errors
/// Of kind Config, when batches are to be handled in the order of keys.
pub fn worker<S, W, E>(parts: WorkerParts<S, W, E>) -> Result<(Worker<S, W, E>, WorkerControl)>
where
    S: PartitionSource,
    W: Work<S::Record>,
    E: Effects,
{
    let WorkerParts {
        source,
        committed,
        work,
        effects,
        settings,
        mark,
        gauge,
    } = parts;
    if settings.order == Order::Key && work.group() > 1 {
        return Err(Error::config(
            "a batch handler has no order of keys: processing.order is partition or unordered",
        ));
    }
    let (control, orders) = control();
    let worker = Worker {
        source,
        work,
        effects,
        mark,
        gauge,
        orders,
        offsets: Offsets::after(committed),
        state: PartitionState::new(settings.policy.limits),
        queue: Queue::new(settings.order),
        gated: Gated::new(settings.gate.clone()),
        settings,
        held: BTreeMap::new(),
        writes: HashMap::new(),
        writing: JoinSet::new(),
        running: JoinSet::new(),
        in_flight: 0,
        bytes: 0,
        letters: 0,
        output_bytes: 0,
        taken: Vec::new(),
        source_over: false,
        probing: None,
        probe: None,
        told: None,
        resumes: 0,
        user_paused: false,
        ending: None,
        deadline: None,
        expired: false,
        stopped: None,
    };
    Ok((worker, control))
}

impl<S, W, E> Worker<S, W, E>
where
    S: PartitionSource,
    W: Work<S::Record>,
    E: Effects,
{
    /// Works until told to end, until the source is over, or until a verdict stops it. Dropping the
    /// future drops everything unmarked.
    pub async fn run(mut self) -> Ended {
        self.prepare().await;
        let mut group = Vec::new();
        loop {
            self.obey();
            self.reconcile();
            if let Some(ended) = self.is_over() {
                self.abort().await;
                return ended;
            }
            self.arm_probe();
            if self.settings.order != Order::Partition {
                self.spawn_ready();
            } else if self.may_start() && self.in_flight == 0 && self.queue.is_ready() {
                self.run_stride(&mut group).await;
                continue;
            }
            let happened = self.happens(None::<Pin<&mut std::future::Ready<()>>>).await;
            self.on(happened);
        }
    }

    /// Waits for the hook of the assignment, or to be told to end.
    async fn prepare(&mut self) {
        let effects = Arc::clone(&self.effects);
        let orders = self.orders.clone();
        let mut assigned = pin!(contained(async { effects.assigned().await }));
        let mut ending = pin!(orders.ending());
        let result = poll_fn(|cx| {
            if ending.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Ok(()));
            }
            assigned.as_mut().poll(cx)
        })
        .await;
        if let Err(error) = result {
            self.stop(error);
        }
    }

    /// Handles some records one after the other, without a task or an allocation of its own for each.
    async fn run_stride(&mut self, group: &mut Vec<Job<S::Record>>) {
        let (work, settings) = (Arc::clone(&self.work), Arc::clone(&self.settings));
        let orders = self.orders.clone();
        let gauge = self.gauge.clone();
        self.show();
        for _ in 0..STRIDE {
            if !self.may_start() || self.orders.are_new() {
                break;
            }
            self.pop_group(group);
            if group.is_empty() {
                break;
            }
            self.in_flight = group.len();
            let driven = {
                let drive = drive(&*work, group, &settings.attempts, &orders, &gauge);
                let mut driving = pin!(drive);
                let at_once = poll_fn(|cx| Poll::Ready(driving.as_mut().poll(cx).is_ready()));
                at_once.await || self.drive_on(driving).await
            };
            if !driven {
                // It still counts as in flight: that is how the worker's end tells of it.
                group.clear();
                return;
            }
            self.in_flight = 0;
            for job in group.drain(..) {
                self.settle(job);
            }
        }
        while let Some(wrote) = self.writing.try_join_next() {
            self.on(Happened::Wrote(wrote));
        }
        tokio::task::yield_now().await;
    }

    /// Goes on with what was not ready at once; false when it is abandoned.
    async fn drive_on(&mut self, mut driving: Pin<&mut impl Future<Output = ()>>) -> bool {
        loop {
            match self.happens(Some(driving.as_mut())).await {
                Happened::Driven => return true,
                other => self.on(other),
            }
            self.obey();
            if self.expired || self.ending == Some(Ending::Lose) {
                return false;
            }
        }
    }

    fn pop_group(&mut self, group: &mut Vec<Job<S::Record>>) {
        while group.len() < self.work.group() {
            let Some(job) = self.queue.pop() else { break };
            group.push(job);
        }
    }

    /// Starts what may run side by side.
    fn spawn_ready(&mut self) {
        while self.may_start() && self.in_flight < self.settings.max_in_flight.max(1) {
            let mut group = Vec::new();
            self.pop_group(&mut group);
            if group.is_empty() {
                break;
            }
            self.spawn(group);
        }
    }

    fn spawn(&mut self, mut group: Vec<Job<S::Record>>) {
        let (work, settings) = (Arc::clone(&self.work), Arc::clone(&self.settings));
        let (orders, gauge) = (self.orders.clone(), self.gauge.clone());
        self.in_flight += group.len();
        let driven = async move {
            drive(&*work, &mut group, &settings.attempts, &orders, &gauge).await;
            group
        };
        self.running.spawn(driven.in_current_span());
    }

    /// One call of the handler; and its chain, if it retries, is not to see the end of an outage
    /// later than the pipeline does.
    pub(super) fn spawn_probe(&mut self, job: Job<S::Record>) {
        let (work, orders) = (Arc::clone(&self.work), self.orders.clone());
        let (gauge, span) = (
            self.gauge.clone(),
            debug_span!(target: TARGET, "probe", offset = job.offset),
        );
        self.in_flight += 1;
        let probed = async move {
            let (mut group, once) = (vec![job], Attempts::once());
            let probe = drive(&*work, &mut group, &once, &orders, &gauge);
            with_longest_wait(MAX_PROBE_WAIT, probe).await;
            group
        };
        self.running.spawn(probed.instrument(span));
    }

    /// Shows how things are, to whoever looks.
    pub(super) fn show(&self) {
        let waits = |offset| self.gated.holds(offset);
        let gated = !self.gated.is_empty() && self.offsets.oldest().is_some_and(waits);
        self.gauge.show(&Shown {
            in_flight: self.in_flight + self.writes.len(),
            bytes: self.bytes.saturating_add(self.output_bytes),
            uncommitted: self.offsets.uncommitted(),
            gated,
            paused: self.state.paused(),
            user_paused: self.user_paused,
        });
    }

    pub(super) fn may_start(&self) -> bool {
        self.ending.is_none()
            && !self.user_paused
            && self.state.paused().is_none()
            && self.letters < LETTERS
            && self.output_bytes < self.settings.max_bytes.max(1)
    }

    /// Does what was ordered since the last look.
    fn obey(&mut self) {
        if !self.orders.are_new() {
            return;
        }
        let orders = self.orders.now();
        self.user_paused = orders.paused;
        if orders.resumes != self.resumes {
            self.resumes = orders.resumes;
            self.resume();
        }
        if let Some(ending) = orders.ending {
            self.end_by(ending);
        }
    }

    fn end_by(&mut self, ending: Ending) {
        if let Ending::Drain(until) = ending {
            self.deadline = Some(Box::pin(sleep_until(until)));
        }
        self.ending = Some(ending);
        self.probe = None;
        self.queue.clear();
        self.gated.clear();
        self.held.clear();
    }

    pub(super) fn stop(&mut self, error: Error) {
        self.stopped.get_or_insert(error);
        if self.ending.is_none() {
            self.end_by(Ending::Drain(Instant::now() + self.settings.drain));
        }
    }

    pub(super) fn is_ending(&self) -> bool {
        self.ending.is_some()
    }

    fn is_over(&mut self) -> Option<Ended> {
        let under_way = self.in_flight + self.writes.len();
        if self.ending == Some(Ending::Lose) {
            return Some(Ended::Lost);
        }
        if self.ending.is_some() && (under_way == 0 || self.expired) {
            return Some(match self.stopped.take() {
                Some(error) => Ended::Stopped(error),
                None if under_way > 0 => Ended::Abandoned(under_way),
                None => Ended::Drained,
            });
        }
        let waiting = !self.queue.is_empty() || !self.gated.is_empty();
        let idle = under_way == 0 && !waiting && self.held.is_empty();
        (self.source_over && idle).then_some(Ended::Over)
    }

    /// Drops what is under way and waits, for a while, until it is gone: nothing runs twice at once.
    async fn abort(&mut self) {
        self.running.abort_all();
        self.writing.abort_all();
        let gone = async {
            while self.running.join_next().await.is_some() {}
            while self.writing.join_next().await.is_some() {}
        };
        let _ = tokio::time::timeout(ABORT, gone).await;
    }

    fn arm_probe(&mut self) {
        let idle = self.probing.is_none() && !self.user_paused && self.ending.is_none();
        match self.state.probe().filter(|_| idle) {
            None => self.probe = None,
            Some(probe)
                if self
                    .probe
                    .as_ref()
                    .is_some_and(|(at, _)| *at == probe.offset) => {}
            Some(probe) => {
                let due = Instant::now() + probe.wait;
                self.probe = Some((probe.offset, Box::pin(sleep_until(due))));
            }
        }
    }
}

impl<S: PartitionSource, W, E> fmt::Debug for Worker<S, W, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("ownership", &self.mark.ownership())
            .field("in_flight", &self.in_flight)
            .field("paused", &self.state.paused())
            .finish_non_exhaustive()
    }
}
