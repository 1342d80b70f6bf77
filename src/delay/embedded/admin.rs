//! Looking at records and changing them.

use super::claims::{Times, from};
use super::disk::Fault;
use super::rows::{Rows, key, parts, read_dead};
use super::state::{Delays, Place};
use crate::delay::{
    Cancelled, Cursor, DeadReason, DelayId, Listed, Listing, Page, Rescheduled, Stats,
};
use bytes::Bytes;
use redb::{ReadableTable, Table, WriteTransaction};

impl Delays {
    pub(super) fn cancel(
        &mut self,
        transaction: &WriteTransaction,
        ids: &[DelayId],
    ) -> Result<Vec<Cancelled>, Fault> {
        let rows = &mut Rows::open(transaction)?;
        let mut cancelled = Vec::with_capacity(ids.len());
        for id in ids {
            let place = self.find(rows, id)?;
            if let Some(place) = place {
                self.take(rows, id, place)?;
            }
            cancelled.push(match place {
                Some(Place::InFlight(_)) => Cancelled::InFlight,
                Some(_) => Cancelled::Removed,
                None => Cancelled::Unknown,
            });
        }
        Ok(cancelled)
    }

    /// What became of it, and whether it is due before all others now.
    pub(super) fn reschedule(
        &mut self,
        transaction: &WriteTransaction,
        id: &DelayId,
        at: i64,
    ) -> Result<(Rescheduled, bool), Fault> {
        let rows = &mut Rows::open(transaction)?;
        let place = match self.find(rows, id)? {
            None => return Ok((Rescheduled::Unknown, false)),
            Some(Place::InFlight(_)) => return Ok((Rescheduled::InFlight, false)),
            Some(place) => place,
        };
        let attempts = rows.attempts.get(id.as_str())?.map(|row| row.value());
        let Some((_, record)) = self.take(rows, id, place)? else {
            return Ok((Rescheduled::Unknown, false));
        };
        let nearer = self.wait(rows, (at, id), &record)?;
        if let (Place::Waiting(_), Some(attempts)) = (place, attempts) {
            rows.attempts.insert(id.as_str(), attempts)?;
        }
        Ok((Rescheduled::At(at), nearer))
    }

    pub(super) fn list(
        &self,
        transaction: &WriteTransaction,
        times: Times,
        listing: &Listing,
    ) -> Result<Page, Fault> {
        let rows = Rows::open(transaction)?;
        let after = listing.after.as_ref();
        let start = from(after.map(|cursor| key(cursor.at, &cursor.id)));
        // One more than the page, to know whether there is another.
        let limit = listing.limit() + 1;
        let mut items = match listing.listed {
            Listed::Waiting => {
                let waits = |id: &DelayId, _: &[u8]| (!self.flies(id)).then_some(None);
                page(&rows.records, &start, limit, waits)?
            }
            Listed::Dead => {
                let reason = |_: &DelayId, row: &[u8]| {
                    let dead = read_dead(Bytes::copy_from_slice(row));
                    Some(dead.map(|(_, reason, _)| reason))
                };
                page(&rows.dead, &start, limit, reason)?
            }
            Listed::InFlight => {
                let shift = times.now.saturating_sub(times.monotonic);
                let cursors = self.ends().map(|(end, id)| Cursor {
                    at: end.saturating_add(shift),
                    id: id.clone(),
                });
                let later = |cursor: &Cursor| after.is_none_or(|after| cursor > after);
                let cursors = cursors.filter(later).take(limit);
                cursors.map(|cursor| (cursor, None)).collect()
            }
        };
        let more = items.len() == limit;
        if more {
            items.pop();
        }
        let last = items.last().map(|(cursor, _)| cursor.clone());
        Ok(Page {
            items,
            next: last.filter(|_| more),
        })
    }

    pub(super) fn count(&self, transaction: &WriteTransaction) -> Result<Stats, Fault> {
        let rows = Rows::open(transaction)?;
        let next_due = self.next_due(&rows)?;
        Ok(self.stats(next_due))
    }
}

type Item = (Cursor, Option<DeadReason>);

fn page(
    table: &Table<'_, &'static [u8], &'static [u8]>,
    start: &[u8],
    limit: usize,
    shown: impl Fn(&DelayId, &[u8]) -> Option<Option<DeadReason>>,
) -> Result<Vec<Item>, Fault> {
    let mut items = Vec::new();
    for row in table.range(start..)? {
        let (row, value) = row?;
        if let Some((at, id)) = parts(row.value())
            && let Some(reason) = shown(&id, value.value())
        {
            items.push((Cursor { at, id }, reason));
            if items.len() == limit {
                break;
            }
        }
    }
    Ok(items)
}
