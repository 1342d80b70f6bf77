//! Delayed records in memory: for tests, and for what may die with the process.

mod admin;

use super::claim::{LEASES_ENDED, cut_reason};
use super::item::{full, millis, taken};
use super::wheel::{Key, Wheel};
use super::{
    Attempt, Claim, Claimed, DeadReason, DelayId, DelaySink, DelayStore, Delayed, Due, Durability,
    Finished, IdSource, Lease, Limits, OnDuplicate, Receipt, Release, Released, Scheduled, Stats,
    check_claim, wire,
};
use crate::answer::BoxFuture;
use crate::clock::{Clock, SystemClock};
use crate::error::Result;
use crate::record::OutgoingRecord;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// A store on two [timing wheels](Wheel): one of what waits, by wall time, one of what is in flight,
/// by monotonic time, so that a step of the clock ends no lease.
pub struct MemoryStore {
    state: Mutex<State>,
    clock: Arc<dyn Clock>,
    started: Instant,
    limits: Limits,
    ids: IdSource,
    nearer: Notify,
}

struct State {
    waiting: Wheel<Box<Item>>,
    in_flight: Wheel<Box<Item>>,
    dead: BTreeMap<(i64, DelayId), (Box<Item>, DeadReason)>,
    places: HashMap<DelayId, Place>,
    token: u64,
    stats: Stats,
}

struct Item {
    id: DelayId,
    deliver_at: i64,
    attempts: u32,
    /// Of the claim that may finish it; 0 is none.
    token: u64,
    /// When its lease ends, on the monotonic clock.
    lease_end: i64,
    record: OutgoingRecord,
}

#[derive(Clone, Copy)]
enum Place {
    Waiting(Key),
    InFlight(Key),
    Dead(i64),
}

impl MemoryStore {
    /// An empty store by the machine's clock.
    ///
    /// # Errors
    /// Kind [`Config`](crate::ErrorKind::Config) when `limits` make no sense.
    pub fn new(limits: Limits) -> Result<Self> {
        Self::with_clock(limits, Arc::new(SystemClock))
    }

    /// An empty store by `clock`.
    ///
    /// # Errors
    /// Kind [`Config`](crate::ErrorKind::Config) when `limits` make no sense.
    pub fn with_clock(limits: Limits, clock: Arc<dyn Clock>) -> Result<Self> {
        limits.check()?;
        Ok(MemoryStore {
            state: Mutex::new(State {
                waiting: Wheel::new(limits.capacity),
                in_flight: Wheel::new(limits.capacity),
                dead: BTreeMap::new(),
                places: HashMap::new(),
                token: 0,
                stats: Stats::default(),
            }),
            clock,
            started: Instant::now(),
            limits,
            ids: IdSource::random(),
            nearer: Notify::new(),
        })
    }

    /// No code of a user runs under the lock, so a panic leaves the state whole.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn monotonic(&self) -> i64 {
        millis(self.started.elapsed())
    }

    /// Tells the workers when something came to wait that is due before all others.
    fn changing<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state();
        let before = state.waiting.next();
        let answer = change(&mut state);
        let after = state.waiting.next();
        drop(state);
        if after.is_some() && before.is_none_or(|before| after < Some(before)) {
            self.nearer.notify_waiters();
        }
        answer
    }

    fn schedule_one(&self, state: &mut State, item: Delayed) -> Result<Receipt> {
        let len = wire::encoded_len(&item.record);
        if len > self.limits.max_record_bytes {
            return Err(wire::too_large(len, self.limits.max_record_bytes));
        }
        let now = self.clock.now_rounded_up();
        let deliver_at = item.when.resolve(now, self.limits.max_delay)?;
        let id = item.id.unwrap_or_else(|| self.ids.next(now));
        let receipt = |deliver_at, scheduled| Receipt {
            id: id.clone(),
            deliver_at,
            scheduled,
        };
        let mut scheduled = Scheduled::New;
        if let Some(place) = state.places.get(&id).copied() {
            let due = state.due_of(place, &id);
            let earlier = match place {
                Place::Waiting(_) => deliver_at < due,
                Place::InFlight(_) => false,
                Place::Dead(_) => true,
            };
            match item.on_duplicate {
                OnDuplicate::Refuse => return Err(taken()),
                OnDuplicate::Earliest if earlier => {}
                OnDuplicate::Replace => {}
                _ => return Ok(receipt(due, Scheduled::Kept)),
            }
            state.take(&id);
            scheduled = Scheduled::Replaced;
        } else if state.places.len() >= self.limits.capacity {
            return Err(full());
        }
        state.stats.scheduled += 1;
        state.wait(Box::new(Item {
            id: id.clone(),
            deliver_at,
            attempts: 0,
            token: 0,
            lease_end: 0,
            record: item.record,
        }));
        Ok(receipt(deliver_at, scheduled))
    }

    fn claim(&self, claim: Claim) -> Result<Due> {
        check_claim(claim)?;
        let state = &mut *self.state();
        let (now, monotonic) = (self.clock.now(), self.monotonic());
        for _ in 0..claim.max {
            let Some((_, item)) = state.in_flight.pop(monotonic) else {
                break;
            };
            state.stats.expired += 1;
            if item.attempts >= self.limits.max_attempts {
                state.die(item, now, DeadReason::Borrowed(LEASES_ENDED));
            } else {
                state.wait(item);
            }
        }
        state.token += 1;
        let mut items = Vec::new();
        while items.len() < claim.max
            && let Some((_, mut item)) = state.waiting.pop(now)
        {
            state.stats.early += u64::from(item.deliver_at > now);
            item.attempts += 1;
            item.token = state.token;
            item.lease_end = monotonic.saturating_add(millis(claim.lease));
            items.push(Claimed {
                lease: Lease {
                    id: item.id.clone(),
                    token: item.token,
                },
                deliver_at: item.deliver_at,
                attempt: item.attempts,
                record: item.record.clone(),
            });
            state.fly(item);
        }
        let lease_end = (state.in_flight.next()).map(|end| now.saturating_add(end - monotonic));
        let next = state.waiting.next().into_iter().chain(lease_end).min();
        Ok(Due { items, now, next })
    }

    fn release_one(&self, state: &mut State, release: Release) -> Released {
        let Some(mut item) = state.take_in_flight(&release.lease) else {
            return Released::Stale;
        };
        let dead = match release.attempt {
            Attempt::Free => {
                item.attempts = item.attempts.saturating_sub(1);
                false
            }
            Attempt::Counted => item.attempts >= self.limits.max_attempts,
            Attempt::Last => true,
        };
        if dead {
            state.die(item, self.clock.now(), cut_reason(release.reason));
            return Released::Dead;
        }
        let delay = release.delay.min(self.limits.max_delay);
        let at = (self.clock.now_rounded_up()).saturating_add(millis(delay));
        item.deliver_at = at.clamp(0, super::MAX_INSTANT);
        item.token = 0;
        let waiting = Released::Waiting(item.deliver_at);
        state.wait(item);
        waiting
    }
}

impl State {
    fn wait(&mut self, item: Box<Item>) {
        let (id, due) = (item.id.clone(), item.deliver_at);
        // Both wheels have room for as many as there are places.
        if let Ok(key) = self.waiting.insert(due, item) {
            self.places.insert(id, Place::Waiting(key));
        }
    }

    fn fly(&mut self, item: Box<Item>) {
        let (id, end) = (item.id.clone(), item.lease_end);
        if let Ok(key) = self.in_flight.insert(end, item) {
            self.places.insert(id, Place::InFlight(key));
        }
    }

    fn die(&mut self, item: Box<Item>, now: i64, reason: DeadReason) {
        self.places.insert(item.id.clone(), Place::Dead(now));
        self.dead.insert((now, item.id.clone()), (item, reason));
    }

    fn due_of(&self, place: Place, id: &DelayId) -> i64 {
        let item = match place {
            Place::Waiting(key) => self.waiting.get(key),
            Place::InFlight(key) => self.in_flight.get(key),
            Place::Dead(at) => self.dead.get(&(at, id.clone())).map(|(item, _)| item),
        };
        item.map_or(0, |item| item.deliver_at)
    }

    fn take(&mut self, id: &DelayId) -> Option<Box<Item>> {
        match self.places.remove(id)? {
            Place::Waiting(key) => self.waiting.remove(key),
            Place::InFlight(key) => self.in_flight.remove(key),
            Place::Dead(at) => self.dead.remove(&(at, id.clone())).map(|(item, _)| item),
        }
    }

    /// Whether the lease is that of the last claim, and whether it still runs.
    fn holds(&mut self, lease: &Lease) -> (bool, bool) {
        let (token, in_flight) = match self.places.get(&lease.id) {
            Some(Place::Waiting(key)) => (self.waiting.get(*key).map(|item| item.token), false),
            Some(Place::InFlight(key)) => (self.in_flight.get(*key).map(|item| item.token), true),
            _ => (None, false),
        };
        let held = lease.token != 0 && token == Some(lease.token);
        self.stats.stale += u64::from(!held);
        (held, in_flight)
    }

    fn take_in_flight(&mut self, lease: &Lease) -> Option<Box<Item>> {
        match self.holds(lease) {
            (true, true) => self.take(&lease.id),
            _ => None,
        }
    }
}

fn finished(done: bool) -> Finished {
    if done {
        Finished::Done
    } else {
        Finished::Stale
    }
}

#[deny(clippy::missing_trait_methods)]
impl DelaySink for MemoryStore {
    fn schedule(&self, batch: Vec<Delayed>) -> BoxFuture<'_, Vec<Result<Receipt>>> {
        Box::pin(async move {
            self.changing(|state| {
                let each = batch.into_iter();
                each.map(|item| self.schedule_one(state, item)).collect()
            })
        })
    }

    fn durability(&self) -> Durability {
        Durability::Process
    }
}

#[deny(clippy::missing_trait_methods)]
impl DelayStore for MemoryStore {
    fn due(&self, claim: Claim) -> BoxFuture<'_, Result<Due>> {
        Box::pin(async move { self.claim(claim) })
    }

    fn complete(&self, leases: Vec<Lease>) -> BoxFuture<'_, Result<Vec<Finished>>> {
        Box::pin(async move {
            let state = &mut *self.state();
            let complete = |lease: Lease| {
                let (held, _) = state.holds(&lease);
                let done = held && state.take(&lease.id).is_some();
                state.stats.completed += u64::from(done);
                finished(done)
            };
            Ok(leases.into_iter().map(complete).collect())
        })
    }

    fn release(&self, releases: Vec<Release>) -> BoxFuture<'_, Result<Vec<Released>>> {
        Box::pin(async move {
            Ok(self.changing(|state| {
                let each = releases.into_iter();
                each.map(|release| self.release_one(state, release))
                    .collect()
            }))
        })
    }

    fn extend(&self, leases: Vec<Lease>, lease: Duration) -> BoxFuture<'_, Result<Vec<Finished>>> {
        Box::pin(async move {
            let state = &mut *self.state();
            let end = self.monotonic().saturating_add(millis(lease));
            let extend = |lease: Lease| match state.take_in_flight(&lease) {
                Some(mut item) => {
                    item.lease_end = end;
                    state.fly(item);
                    Finished::Done
                }
                None => Finished::Stale,
            };
            Ok(leases.into_iter().map(extend).collect())
        })
    }

    fn changed(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.nearer.notified())
    }
}

impl std::fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.state();
        f.debug_struct("MemoryStore")
            .field("waiting", &state.waiting.len())
            .field("in_flight", &state.in_flight.len())
            .field("dead", &state.dead.len())
            .finish_non_exhaustive()
    }
}
