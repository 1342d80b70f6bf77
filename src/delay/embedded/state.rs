//! What is known beside the rows: who has which record, and counts.

use super::disk::Fault;
use super::engine::State;
use super::rows::{Row, Rows, key, read_dead};
use crate::delay::{DelayId, Lease, Stats};
use bytes::Bytes;
use redb::{ReadableTable, ReadableTableMetadata, TableDefinition, WriteTransaction};
use std::collections::{BTreeSet, HashMap};

const COUNTS: TableDefinition<&str, u64> = TableDefinition::new("counts");

/// How many tokens one opening of the file has.
const TOKENS: u32 = 32;

/// Leases are not written: with the process, all who hold one are gone.
pub(super) struct Delays {
    /// What was claimed and neither finished nor changed since.
    flights: HashMap<DelayId, Flight>,
    /// The ends of leases that run, on the monotonic clock.
    ends: BTreeSet<(i64, DelayId)>,
    /// The key of a row before which nothing waits; `None` when nothing waits at all.
    low: Option<Vec<u8>>,
    /// Of the last claim.
    token: u64,
    /// Rows of `records`, and of `dead`.
    held: (u64, u64),
    stats: Stats,
    dirty: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    pub(super) at: i64,
    pub(super) token: u64,
    pub(super) attempts: u32,
    pub(super) lease_end: i64,
    /// A lease that has ended still counts until somebody else has the record.
    pub(super) runs: bool,
}

/// Where a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Waiting(i64),
    InFlight(i64),
    Dead(i64),
}

impl Place {
    pub(super) fn row(self) -> Row {
        match self {
            Place::Waiting(at) | Place::InFlight(at) => Row::Due(at),
            Place::Dead(at) => Row::Dead(at),
        }
    }
}

impl State for Delays {
    const FORMAT: u64 = 1;

    fn load(transaction: &WriteTransaction) -> Result<Self, Fault> {
        let rows = Rows::open(transaction)?;
        let mut counts = transaction.open_table(COUNTS)?;
        let count = |name: &str| Ok::<_, Fault>(counts.get(name)?.map_or(0, |row| row.value()));
        let opened = count("opened")?.saturating_add(1);
        let stats = Stats {
            scheduled: count("scheduled")?,
            completed: count("completed")?,
            expired: count("expired")?,
            stale: count("stale")?,
            early: count("early")?,
            ..Stats::default()
        };
        counts.insert("opened", opened)?;
        Ok(Delays {
            flights: HashMap::new(),
            ends: BTreeSet::new(),
            low: Some(Vec::new()),
            token: opened << TOKENS,
            held: (rows.records.len()?, rows.dead.len()?),
            stats,
            dirty: false,
        })
    }

    fn save(&mut self, transaction: &WriteTransaction) -> Result<bool, Fault> {
        if !std::mem::take(&mut self.dirty) {
            return Ok(false);
        }
        let mut counts = transaction.open_table(COUNTS)?;
        for (name, count) in [
            ("scheduled", self.stats.scheduled),
            ("completed", self.stats.completed),
            ("expired", self.stats.expired),
            ("stale", self.stats.stale),
            ("early", self.stats.early),
        ] {
            counts.insert(name, count)?;
        }
        Ok(true)
    }

    fn is_dirty(&self) -> bool {
        self.dirty
    }
}

impl Delays {
    /// To count. Whoever writes a row says so here.
    pub(super) fn change(&mut self) -> &mut Stats {
        self.dirty = true;
        &mut self.stats
    }

    pub(super) fn held(&self) -> u64 {
        self.held.0 + self.held.1
    }

    pub(super) fn low(&self) -> Option<&Vec<u8>> {
        self.low.as_ref()
    }

    pub(super) fn set_low(&mut self, low: Option<Vec<u8>>) {
        self.low = low;
    }

    pub(super) fn next_token(&mut self) -> u64 {
        self.token += 1;
        self.token
    }

    pub(super) fn find(&self, rows: &Rows<'_>, id: &DelayId) -> Result<Option<Place>, Fault> {
        if let Some(flight) = self.flights.get(id) {
            return Ok(Some(match flight.runs {
                true => Place::InFlight(flight.at),
                false => Place::Waiting(flight.at),
            }));
        }
        Ok(rows.find(id)?.map(|row| match row {
            Row::Due(at) => Place::Waiting(at),
            Row::Dead(at) => Place::Dead(at),
        }))
    }

    /// When a record was to be delivered.
    pub(super) fn due_of(rows: &Rows<'_>, id: &DelayId, place: Place) -> Result<i64, Fault> {
        let died = match place {
            Place::Waiting(at) | Place::InFlight(at) => return Ok(at),
            Place::Dead(died) => died,
        };
        let row = rows.dead.get(&*key(died, id))?;
        let dead = row.and_then(|row| read_dead(Bytes::copy_from_slice(row.value())));
        Ok(dead.map_or(0, |(at, _, _)| at))
    }

    /// Makes a record wait; true when none that waits is due before.
    pub(super) fn wait(
        &mut self,
        rows: &mut Rows<'_>,
        (at, id): (i64, &DelayId),
        record: &[u8],
    ) -> Result<bool, Fault> {
        rows.insert(at, id, record)?;
        self.dirty = true;
        self.held.0 += 1;
        Ok(self.lower(key(at, id)))
    }

    /// Something waits at `key`.
    fn lower(&mut self, key: Vec<u8>) -> bool {
        let nearer = self.low.as_ref().is_none_or(|low| key < *low);
        if nearer {
            self.low = Some(key);
        }
        nearer
    }

    pub(super) fn bury(
        &mut self,
        rows: &mut Rows<'_>,
        (died, id): (i64, &DelayId),
        dead: (i64, &str, &[u8]),
    ) -> Result<(), Fault> {
        rows.bury(died, id, dead)?;
        self.dirty = true;
        self.held.1 += 1;
        Ok(())
    }

    /// Takes a record out, with what was known about its claims.
    pub(super) fn take(
        &mut self,
        rows: &mut Rows<'_>,
        id: &DelayId,
        place: Place,
    ) -> Result<Option<(i64, Bytes)>, Fault> {
        self.land(id);
        let taken = rows.remove(id, place.row())?;
        self.dirty = true;
        if taken.is_some() {
            match place {
                Place::Dead(_) => self.held.1 = self.held.1.saturating_sub(1),
                _ => self.held.0 = self.held.0.saturating_sub(1),
            }
        }
        Ok(taken)
    }

    /// Nobody has the record any more.
    fn land(&mut self, id: &DelayId) {
        if let Some(flight) = self.flights.remove(id) {
            self.ends.remove(&(flight.lease_end, id.clone()));
        }
    }

    pub(super) fn fly(&mut self, id: &DelayId, flight: Flight) {
        self.land(id);
        self.ends.insert((flight.lease_end, id.clone()));
        self.flights.insert(id.clone(), flight);
    }

    pub(super) fn flies(&self, id: &DelayId) -> bool {
        self.flights.get(id).is_some_and(|flight| flight.runs)
    }

    /// A lease that has ended by now; its record waits again.
    pub(super) fn expire(&mut self, monotonic: i64) -> Option<(DelayId, Flight)> {
        let (end, id) = self
            .ends
            .first()
            .filter(|(end, _)| *end <= monotonic)?
            .clone();
        self.ends.remove(&(end, id.clone()));
        let flight = self.flights.get_mut(&id)?;
        flight.runs = false;
        let flight = *flight;
        self.lower(key(flight.at, &id));
        self.change().expired += 1;
        Some((id, flight))
    }

    /// What the lease is good for, if it is that of the last claim.
    pub(super) fn held_by(&mut self, lease: &Lease) -> Option<Flight> {
        let flight = self.flights.get(&lease.id).copied();
        let held = flight.filter(|flight| flight.token == lease.token);
        if held.is_none() {
            self.change().stale += 1;
        }
        held
    }

    pub(super) fn first_end(&self) -> Option<i64> {
        self.ends.first().map(|(end, _)| *end)
    }

    pub(super) fn ends(&self) -> impl Iterator<Item = &(i64, DelayId)> {
        self.ends.iter()
    }

    pub(super) fn stats(&self, next_due: Option<i64>) -> Stats {
        let in_flight = self.ends.len() as u64;
        Stats {
            waiting: self.held.0.saturating_sub(in_flight),
            in_flight,
            dead: self.held.1,
            next_due,
            ..self.stats
        }
    }
}
