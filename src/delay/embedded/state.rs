//! What is known beside the rows: the order in time, who has which record, and counts.

use super::disk::Fault;
use super::engine::State;
use super::rows::{Ids, Named, RecordRow, Rows, read_dead, read_place};
use crate::delay::{DelayId, Lease, Stats};
use bytes::Bytes;
use redb::{ReadableTable, ReadableTableMetadata, TableDefinition, WriteTransaction};
use std::collections::{BTreeSet, HashMap};

const COUNTS: TableDefinition<&str, u64> = TableDefinition::new("counts");

/// How many tokens one opening of the file has, as a power of two.
const TOKENS: u32 = 32;

/// Leases are not written: with the process, all who hold one are gone.
pub(super) struct Delays {
    /// What waits, in order of time: about 30 bytes each.
    waiting: BTreeSet<(i64, Mark)>,
    /// What was claimed and neither finished nor changed since.
    flights: HashMap<DelayId, Flight>,
    /// The ends of leases that run, on the monotonic clock.
    ends: BTreeSet<(i64, DelayId)>,
    pub(super) ids: Ids,
    next_number: u64,
    /// Of the last claim.
    token: u64,
    dead: u64,
    stats: Stats,
    dirty: bool,
}

/// The number of a record, and whether its id was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Mark(u64);

impl Mark {
    pub(super) fn new(number: u64, given: bool) -> Self {
        Mark((number << 1) | u64::from(given))
    }

    pub(super) fn number(self) -> u64 {
        self.0 >> 1
    }

    pub(super) fn is_given(self) -> bool {
        self.0 & 1 == 1
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    pub(super) at: i64,
    pub(super) mark: Mark,
    pub(super) token: u64,
    pub(super) attempts: u32,
    pub(super) lease_end: i64,
    /// A lease that has ended still counts until somebody else has the record.
    pub(super) runs: bool,
}

/// Where a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// It is due at this time.
    Waiting(i64, Mark),
    /// It was due at this time.
    InFlight(i64, Mark),
    /// Since this time.
    Dead(i64),
}

impl State for Delays {
    const FORMAT: u64 = 1;

    fn load(transaction: &WriteTransaction) -> Result<Self, Fault> {
        let rows = Rows::open(transaction)?;
        let mut counts = transaction.open_table(COUNTS)?;
        let count = |name: &str| Ok::<_, Fault>(counts.get(name)?.map(|row| row.value()));
        let opened = count("opened")?.unwrap_or(0).saturating_add(1);
        let chance = count("instance")?.unwrap_or_else(rand::random);
        let stats = Stats {
            scheduled: count("scheduled")?.unwrap_or(0),
            completed: count("completed")?.unwrap_or(0),
            expired: count("expired")?.unwrap_or(0),
            stale: count("stale")?.unwrap_or(0),
            early: count("early")?.unwrap_or(0),
            ..Stats::default()
        };
        let next_number = count("next")?.unwrap_or(0);
        counts.insert("opened", opened)?;
        counts.insert("instance", chance)?;
        let mut waiting = Vec::with_capacity(usize::try_from(rows.records.len()?).unwrap_or(0));
        for row in rows.records.iter()? {
            let (number, row) = row?;
            if let Some((at, given)) = read_place(row.value()) {
                waiting.push((at, Mark::new(number.value(), given)));
            }
        }
        Ok(Delays {
            waiting: waiting.into_iter().collect(),
            flights: HashMap::new(),
            ends: BTreeSet::new(),
            ids: Ids::new(chance),
            next_number,
            token: opened << TOKENS,
            dead: rows.dead.len()?,
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
            ("next", self.next_number),
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

    /// How many records there are, dead ones too.
    pub(super) fn held(&self) -> u64 {
        (self.waiting.len() as u64) + (self.ends.len() as u64) + self.dead
    }

    pub(super) fn next_number(&mut self) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        number
    }

    pub(super) fn next_token(&mut self) -> u64 {
        self.token += 1;
        self.token
    }

    pub(super) fn find(&self, rows: &Rows<'_>, id: &DelayId) -> Result<Option<Place>, Fault> {
        if let Some(flight) = self.flights.get(id) {
            return Ok(Some(match flight.runs {
                true => Place::InFlight(flight.at, flight.mark),
                false => Place::Waiting(flight.at, flight.mark),
            }));
        }
        let (number, given) = match (rows.named(id)?, self.ids.number(id)) {
            (Some(Named::Dead(died)), _) => return Ok(Some(Place::Dead(died))),
            (Some(Named::Record(number)), _) => (number, true),
            (None, Some(number)) => (number, false),
            (None, None) => return Ok(None),
        };
        let row = rows.records.get(number)?;
        let place = row.and_then(|row| read_place(row.value()));
        // The number in an id is anybody's word.
        let place = place.filter(|(_, found)| *found == given);
        Ok(place.map(|(at, given)| Place::Waiting(at, Mark::new(number, given))))
    }

    /// When a record was to be delivered.
    pub(super) fn due_of(rows: &Rows<'_>, id: &DelayId, place: Place) -> Result<i64, Fault> {
        let died = match place {
            Place::Waiting(at, _) | Place::InFlight(at, _) => return Ok(at),
            Place::Dead(died) => died,
        };
        let row = rows.dead.get(&*super::rows::key(died, id))?;
        let dead = row.and_then(|row| read_dead(row.value()));
        Ok(dead.map_or(0, |(at, _, _)| at))
    }

    /// Writes a record that waits; true when none is due before it.
    pub(super) fn wait(
        &mut self,
        rows: &mut Rows<'_>,
        number: u64,
        row: &RecordRow,
    ) -> Result<bool, Fault> {
        rows.put(number, row.at, row.given.as_ref(), &row.record)?;
        self.dirty = true;
        Ok(self.line_up(row.at, Mark::new(number, row.given.is_some())))
    }

    fn line_up(&mut self, at: i64, mark: Mark) -> bool {
        let nearer = self.next_due().is_none_or(|next| at < next);
        self.waiting.insert((at, mark));
        nearer
    }

    /// The first that is due by now, if any is; it is the caller's to write.
    pub(super) fn pop(&mut self, now: i64) -> Option<(i64, Mark)> {
        self.next_due().filter(|at| *at <= now)?;
        self.waiting.pop_first()
    }

    pub(super) fn next_due(&self) -> Option<i64> {
        self.waiting.first().map(|(at, _)| *at)
    }

    pub(super) fn waiting(&self) -> &BTreeSet<(i64, Mark)> {
        &self.waiting
    }

    pub(super) fn bury(
        &mut self,
        rows: &mut Rows<'_>,
        (died, id): (i64, &DelayId),
        dead: (i64, &str, &[u8]),
    ) -> Result<(), Fault> {
        rows.bury(died, id, dead)?;
        self.dirty = true;
        self.dead += 1;
        Ok(())
    }

    /// Takes a record out, with what was known about its claims; when it was due and its bytes.
    pub(super) fn take(
        &mut self,
        rows: &mut Rows<'_>,
        id: &DelayId,
        place: Place,
    ) -> Result<Option<(i64, Bytes)>, Fault> {
        self.land(id);
        self.dirty = true;
        match place {
            Place::Waiting(at, mark) | Place::InFlight(at, mark) => {
                self.waiting.remove(&(at, mark));
                let row = rows.remove(mark.number())?;
                Ok(row.map(|row| (row.at, row.record)))
            }
            Place::Dead(died) => {
                let taken = rows.exhume(died, id)?;
                self.dead = self.dead.saturating_sub(u64::from(taken.is_some()));
                Ok(taken)
            }
        }
    }

    /// Nobody has the record any more.
    pub(super) fn land(&mut self, id: &DelayId) {
        if let Some(flight) = self.flights.remove(id) {
            self.ends.remove(&(flight.lease_end, id.clone()));
        }
    }

    pub(super) fn fly(&mut self, id: &DelayId, flight: Flight) {
        self.land(id);
        self.ends.insert((flight.lease_end, id.clone()));
        self.flights.insert(id.clone(), flight);
    }

    /// A lease that has ended by now; its record waits again.
    pub(super) fn expire(&mut self, monotonic: i64) -> Option<(DelayId, Flight)> {
        self.first_end().filter(|end| *end <= monotonic)?;
        let (_, id) = self.ends.pop_first()?;
        let flight = self.flights.get_mut(&id)?;
        flight.runs = false;
        let flight = *flight;
        self.line_up(flight.at, flight.mark);
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

    pub(super) fn stats(&self) -> Stats {
        Stats {
            waiting: self.waiting.len() as u64,
            in_flight: self.ends.len() as u64,
            dead: self.dead,
            next_due: self.next_due(),
            ..self.stats
        }
    }
}
