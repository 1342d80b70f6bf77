//! Looking at records and changing them.

use super::claims::Times;
use super::disk::Fault;
use super::rows::{RecordRow, Rows, key, parts, read_dead};
use super::state::{Delays, Mark, Place};
use crate::delay::{Cancelled, Cursor, DeadReason, DelayId, Listed, Listing, Page, Rescheduled};
use redb::{ReadableTable, WriteTransaction};
use std::collections::BTreeSet;

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
                Some(Place::InFlight(..)) => Cancelled::InFlight,
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
            Some(Place::InFlight(..)) => return Ok((Rescheduled::InFlight, false)),
            Some(place) => place,
        };
        let (number, given) = match place {
            Place::Waiting(_, mark) | Place::InFlight(_, mark) => (mark.number(), mark.is_given()),
            // A made id keeps its number, for it has it in its text.
            Place::Dead(_) => match self.ids.number(id) {
                Some(number) if rows.get(number)?.is_none() => (number, false),
                _ => (self.next_number(), true),
            },
        };
        let attempts = match place {
            Place::Dead(_) => None,
            _ => rows.attempts.get(number)?.map(|row| row.value()),
        };
        let Some((_, record)) = self.take(rows, id, place)? else {
            return Ok((Rescheduled::Unknown, false));
        };
        let row = RecordRow {
            at,
            given: given.then(|| id.clone()),
            record,
        };
        let nearer = self.wait(rows, number, &row)?;
        if let Some(attempts) = attempts {
            rows.attempts.insert(number, attempts)?;
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
        // One more than the page, to know whether there is another.
        let limit = listing.limit() + 1;
        let mut items = match listing.listed {
            Listed::Waiting => self.waiting_page(&rows, after, limit)?,
            Listed::Dead => dead_page(&rows, after, limit)?,
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

    /// By time, and of one time by id: made ids sort as their numbers do, given ones are read and
    /// sorted among them.
    fn waiting_page(
        &self,
        rows: &Rows<'_>,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Vec<Item>, Fault> {
        let mut items: Vec<Item> = Vec::new();
        let start = after.map_or(i64::MIN, |cursor| cursor.at);
        let (mut same, mut at) = (BTreeSet::new(), start);
        for (due, mark) in self.waiting().range((start, Mark::new(0, false))..) {
            if *due != at {
                items.extend(std::mem::take(&mut same).into_iter().map(|c| (c, None)));
                at = *due;
                if items.len() >= limit {
                    break;
                }
            }
            let id = match mark.is_given() {
                false => self.ids.of(mark.number()),
                true => match rows.get(mark.number())?.and_then(|row| row.given) {
                    Some(id) => id,
                    None => continue,
                },
            };
            let cursor = Cursor { at: *due, id };
            if after.is_none_or(|after| cursor > *after) {
                same.insert(cursor);
                if same.len() > limit {
                    same.pop_last();
                }
            }
        }
        items.extend(same.into_iter().map(|cursor| (cursor, None)));
        items.truncate(limit);
        Ok(items)
    }
}

type Item = (Cursor, Option<DeadReason>);

fn dead_page(rows: &Rows<'_>, after: Option<&Cursor>, limit: usize) -> Result<Vec<Item>, Fault> {
    // What comes right after the key of the cursor.
    let start = after.map(|cursor| [&*key(cursor.at, &cursor.id), &[0]].concat());
    let mut items = Vec::new();
    for row in rows.dead.range(&*start.unwrap_or_default()..)? {
        let (row, dead) = row?;
        if let Some((at, id)) = parts(row.value()) {
            let reason = read_dead(dead.value()).map(|(_, reason, _)| reason);
            items.push((Cursor { at, id }, reason));
            if items.len() == limit {
                break;
            }
        }
    }
    Ok(items)
}
