//! The tables of a file of delayed records.
//!
//! | table | key | value |
//! |---|---|---|
//! | `records` | a number (u64) | time (u64), id (u8 length, UTF-8; empty for one that the store made), the record in its [wire](crate::delay::wire) form |
//! | `ids` | id | the record's number, or when it died |
//! | `attempts` | number | how often the record was claimed |
//! | `dead` | time of death (u64), id | time (u64), reason (u16 length, UTF-8), the record |
//!
//! Numbers rise, so that records are written one after the other wherever in time they belong: that
//! is what makes many of them durable at once cheap. Their order in time is kept in memory. An id
//! that the store makes has the number in it, so most records have one row. Integers are big-endian.

use super::disk::Fault;
use crate::delay::item::{bits_of, spell};
use crate::delay::{DeadReason, DelayId};
use bytes::{Buf, Bytes};
use redb::{ReadableTable, Table, TableDefinition, WriteTransaction};
use std::borrow::Cow;

const RECORDS: TableDefinition<u64, &[u8]> = TableDefinition::new("records");
const IDS: TableDefinition<&str, u64> = TableDefinition::new("ids");
const ATTEMPTS: TableDefinition<u64, u32> = TableDefinition::new("attempts");
const DEAD: TableDefinition<&[u8], &[u8]> = TableDefinition::new("dead");

const TIME: usize = size_of::<u64>();

pub(super) struct Rows<'t> {
    pub(super) records: Table<'t, u64, &'static [u8]>,
    pub(super) ids: Table<'t, &'static str, u64>,
    pub(super) attempts: Table<'t, u64, u32>,
    pub(super) dead: Table<'t, &'static [u8], &'static [u8]>,
}

/// A row of `records`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RecordRow {
    pub(super) at: i64,
    /// `None` when the store made the id.
    pub(super) given: Option<DelayId>,
    pub(super) record: Bytes,
}

/// What an id leads to without its own number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Named {
    /// The number of a record.
    Record(u64),
    /// When a record died.
    Dead(i64),
}

impl<'t> Rows<'t> {
    pub(super) fn open(transaction: &'t WriteTransaction) -> Result<Self, Fault> {
        Ok(Rows {
            records: transaction.open_table(RECORDS)?,
            ids: transaction.open_table(IDS)?,
            attempts: transaction.open_table(ATTEMPTS)?,
            dead: transaction.open_table(DEAD)?,
        })
    }

    pub(super) fn get(&self, number: u64) -> Result<Option<RecordRow>, Fault> {
        let row = self.records.get(number)?;
        Ok(row.and_then(|row| read_record(row.value())))
    }

    pub(super) fn named(&self, id: &DelayId) -> Result<Option<Named>, Fault> {
        let row = self.ids.get(id.as_str())?.map(|row| row.value());
        Ok(row.map(|row| match row & 1 {
            0 => Named::Record(row >> 1),
            _ => Named::Dead(instant(row >> 1)),
        }))
    }

    /// Writes a record anew or at another time; a given id leads to it.
    pub(super) fn put(
        &mut self,
        number: u64,
        at: i64,
        given: Option<&DelayId>,
        record: &[u8],
    ) -> Result<(), Fault> {
        let id = given.map_or("", DelayId::as_str);
        // An id has at most 128 bytes.
        let parts = [&time(at)[..], &[id.len() as u8], id.as_bytes(), record];
        self.records.insert(number, &*parts.concat())?;
        if given.is_some() {
            self.ids.insert(id, number << 1)?;
        }
        Ok(())
    }

    /// Removes a record with all that is known of it.
    pub(super) fn remove(&mut self, number: u64) -> Result<Option<RecordRow>, Fault> {
        self.attempts.remove(number)?;
        let row = self.records.remove(number)?;
        let row = row.and_then(|row| read_record(row.value()));
        if let Some(given) = row.as_ref().and_then(|row| row.given.as_ref()) {
            self.ids.remove(given.as_str())?;
        }
        Ok(row)
    }

    pub(super) fn bury(
        &mut self,
        died: i64,
        id: &DelayId,
        (at, reason, record): (i64, &str, &[u8]),
    ) -> Result<(), Fault> {
        let len = u16::try_from(reason.len()).unwrap_or(0);
        let reason = reason.as_bytes().get(..len.into()).unwrap_or_default();
        let parts = [&time(at)[..], &len.to_be_bytes(), reason, record];
        self.dead.insert(&*key(died, id), &*parts.concat())?;
        self.ids.insert(id.as_str(), (count(died) << 1) | 1)?;
        Ok(())
    }

    /// Removes a dead record, and answers when it was due and its bytes.
    pub(super) fn exhume(
        &mut self,
        died: i64,
        id: &DelayId,
    ) -> Result<Option<(i64, Bytes)>, Fault> {
        self.ids.remove(id.as_str())?;
        let row = self.dead.remove(&*key(died, id))?;
        let dead = row.and_then(|row| read_dead(row.value()));
        Ok(dead.map(|(at, _, record)| (at, record)))
    }
}

/// Time and whether the id was given: all that is needed of a row in memory.
pub(super) fn read_place(row: &[u8]) -> Option<(i64, bool)> {
    let (time, rest) = row.split_first_chunk::<TIME>()?;
    Some((instant(u64::from_be_bytes(*time)), *rest.first()? > 0))
}

fn read_record(row: &[u8]) -> Option<RecordRow> {
    let (time, rest) = row.split_first_chunk::<TIME>()?;
    let (len, rest) = rest.split_first()?;
    let (id, record) = rest.split_at_checked((*len).into())?;
    let id = std::str::from_utf8(id).ok()?;
    Some(RecordRow {
        at: instant(u64::from_be_bytes(*time)),
        given: match id.is_empty() {
            true => None,
            false => Some(DelayId::new(id).ok()?),
        },
        record: Bytes::copy_from_slice(record),
    })
}

/// When a dead record was due, why it died, and its bytes.
pub(super) fn read_dead(row: &[u8]) -> Option<(i64, DeadReason, Bytes)> {
    let mut row = Bytes::copy_from_slice(row);
    let at = instant(row.try_get_u64().ok()?);
    let len = usize::from(row.try_get_u16().ok()?);
    let reason = (len <= row.len()).then(|| row.split_to(len))?;
    let reason = String::from_utf8_lossy(&reason).into_owned();
    Some((at, Cow::Owned(reason), row))
}

/// The key of a dead record: by time, then id.
pub(super) fn key(at: i64, id: &DelayId) -> Vec<u8> {
    [&time(at)[..], id.as_str().as_bytes()].concat()
}

/// The time and the id of a dead record.
pub(super) fn parts(key: &[u8]) -> Option<(i64, DelayId)> {
    let (time, id) = key.split_first_chunk::<TIME>()?;
    let id = std::str::from_utf8(id).ok()?;
    Some((instant(u64::from_be_bytes(*time)), DelayId::new(id).ok()?))
}

/// The ids that one store makes: of the number of a record and 48 bits by chance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ids {
    instance: u64,
}

impl Ids {
    pub(super) fn new(chance: u64) -> Self {
        Ids {
            instance: chance & 0xffff_ffff_ffff,
        }
    }

    pub(super) fn of(self, number: u64) -> DelayId {
        spell((u128::from(number) << 80) | u128::from(self.instance))
    }

    /// The number in an id that this store made.
    pub(super) fn number(self, id: &DelayId) -> Option<u64> {
        let bits = bits_of(id)?;
        let own = bits & 0xffff_ffff_ffff_ffff_ffff == u128::from(self.instance);
        own.then(|| u64::try_from(bits >> 80).ok()).flatten()
    }
}

/// Instants of records are never negative.
fn count(at: i64) -> u64 {
    u64::try_from(at).unwrap_or(0)
}

fn instant(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn time(at: i64) -> [u8; TIME] {
    count(at).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_id_has_its_number_and_sorts_by_it(a in 0..1_u64 << 48, b in 0..1_u64 << 48, c in any::<u64>()) {
            let ids = Ids::new(c);
            prop_assert_eq!(ids.number(&ids.of(a)), Some(a));
            prop_assert_eq!(ids.of(a).cmp(&ids.of(b)), a.cmp(&b));
            prop_assert_eq!(Ids::new(!c).number(&ids.of(a)), None);
        }

        #[test]
        fn any_text_is_an_id_of_ours_or_not(text in "[-0-9A-Z_a-z]{22}", c in any::<u64>()) {
            let (ids, id) = (Ids::new(c), DelayId::new(text).unwrap());
            if let Some(number) = ids.number(&id) {
                prop_assert_eq!(ids.of(number), id);
            }
        }

        #[test]
        fn any_bytes_are_a_row_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = (read_record(&bytes), read_dead(&bytes), parts(&bytes), read_place(&bytes));
        }
    }
}
