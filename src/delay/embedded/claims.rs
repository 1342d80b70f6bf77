//! Claiming records and finishing them.

use super::disk::Fault;
use super::rows::{RecordRow, Rows};
use super::state::{Delays, Flight, Place};
use crate::delay::claim::{LEASES_ENDED, cut_reason};
use crate::delay::item::millis;
use crate::delay::{
    Attempt, Claim, Claimed, DelayId, Due, Finished, Lease, Limits, MAX_INSTANT, Release, Released,
    wire,
};
use redb::{ReadableTable, WriteTransaction};

/// The reason on a record whose bytes cannot be read.
const BROKEN: &str = "the stored record is broken";

/// The times of one call: they are asked for where it is made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// Wall time, rounded down and up.
    pub(super) now: i64,
    pub(super) now_up: i64,
    pub(super) monotonic: i64,
}

impl Delays {
    pub(super) fn claim(
        &mut self,
        transaction: &WriteTransaction,
        times: Times,
        claim: Claim,
        limits: &Limits,
    ) -> Result<Due, Fault> {
        let rows = &mut Rows::open(transaction)?;
        for _ in 0..claim.max {
            let Some((id, flight)) = self.expire(times.monotonic) else {
                break;
            };
            if flight.attempts >= limits.max_attempts {
                self.die(
                    rows,
                    &id,
                    Place::Waiting(flight.at, flight.mark),
                    times.now,
                    LEASES_ENDED,
                )?;
            }
        }
        let token = self.next_token();
        let lease_end = times.monotonic.saturating_add(millis(claim.lease));
        let mut items = Vec::new();
        while items.len() < claim.max
            && let Some((at, mark)) = self.pop(times.now)
        {
            let number = mark.number();
            let Some(row) = rows.get(number)? else {
                continue;
            };
            let id = row.given.unwrap_or_else(|| self.ids.of(number));
            let Ok(record) = wire::decode(row.record) else {
                self.die(rows, &id, Place::Waiting(at, mark), times.now, BROKEN)?;
                continue;
            };
            let before = rows.attempts.get(number)?.map_or(0, |row| row.value());
            let attempts = before.saturating_add(1);
            rows.attempts.insert(number, attempts)?;
            self.change().early += u64::from(at > times.now);
            let flight = Flight {
                at,
                mark,
                token,
                attempts,
                lease_end,
                runs: true,
            };
            self.fly(&id, flight);
            items.push(Claimed {
                lease: Lease { id, token },
                deliver_at: at,
                attempt: attempts,
                record,
            });
        }
        let left = |end: i64| end.saturating_sub(times.monotonic);
        let lease_end = (self.first_end()).map(|end| times.now.saturating_add(left(end)));
        Ok(Due {
            items,
            now: times.now,
            next: self.next_due().into_iter().chain(lease_end).min(),
        })
    }

    fn die(
        &mut self,
        rows: &mut Rows<'_>,
        id: &DelayId,
        place: Place,
        now: i64,
        reason: &str,
    ) -> Result<(), Fault> {
        match self.take(rows, id, place)? {
            Some((at, record)) => self.bury(rows, (now.max(0), id), (at, reason, &record)),
            None => Ok(()),
        }
    }

    pub(super) fn complete(
        &mut self,
        transaction: &WriteTransaction,
        leases: &[Lease],
    ) -> Result<Vec<Finished>, Fault> {
        let rows = &mut Rows::open(transaction)?;
        let mut finished = Vec::with_capacity(leases.len());
        for lease in leases {
            let done = match self.held_by(lease) {
                Some(flight) => {
                    let place = Place::InFlight(flight.at, flight.mark);
                    self.take(rows, &lease.id, place)?.is_some()
                }
                None => false,
            };
            self.change().completed += u64::from(done);
            finished.push(outcome(done));
        }
        Ok(finished)
    }

    /// What became of each, and whether something waits now that is due before all others.
    pub(super) fn release(
        &mut self,
        transaction: &WriteTransaction,
        times: Times,
        releases: Vec<Release>,
        limits: &Limits,
    ) -> Result<(Vec<Released>, bool), Fault> {
        let rows = &mut Rows::open(transaction)?;
        let (mut released, mut nearer) = (Vec::with_capacity(releases.len()), false);
        for release in releases {
            let flight = self.held_by(&release.lease).filter(|flight| flight.runs);
            let Some(flight) = flight else {
                released.push(Released::Stale);
                continue;
            };
            let id = &release.lease.id;
            let (dead, attempts) = match release.attempt {
                Attempt::Free => (false, flight.attempts.saturating_sub(1)),
                Attempt::Counted => (flight.attempts >= limits.max_attempts, flight.attempts),
                Attempt::Last => (true, flight.attempts),
            };
            let place = Place::InFlight(flight.at, flight.mark);
            if dead {
                self.die(rows, id, place, times.now, &cut_reason(release.reason))?;
                released.push(Released::Dead);
                continue;
            }
            let number = flight.mark.number();
            let Some(row) = rows.get(number)? else {
                released.push(Released::Stale);
                continue;
            };
            let delay = millis(release.delay.min(limits.max_delay));
            let at = times.now_up.saturating_add(delay).clamp(0, MAX_INSTANT);
            self.land(id);
            nearer |= self.wait(rows, number, &RecordRow { at, ..row })?;
            match attempts {
                0 => drop(rows.attempts.remove(number)?),
                attempts => drop(rows.attempts.insert(number, attempts)?),
            }
            released.push(Released::Waiting(at));
        }
        Ok((released, nearer))
    }

    pub(super) fn extend(&mut self, leases: &[Lease], lease_end: i64) -> Vec<Finished> {
        let extend = |lease: &Lease| {
            let flight = self.held_by(lease).filter(|flight| flight.runs);
            if let Some(flight) = flight {
                let longer = Flight {
                    lease_end,
                    ..flight
                };
                self.fly(&lease.id, longer);
            }
            outcome(flight.is_some())
        };
        leases.iter().map(extend).collect()
    }
}

fn outcome(done: bool) -> Finished {
    match done {
        true => Finished::Done,
        false => Finished::Stale,
    }
}
