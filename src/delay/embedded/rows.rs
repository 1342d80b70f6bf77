//! The tables of a file of delayed records.
//!
//! | table | key | value |
//! |---|---|---|
//! | `records` | time (u64, big-endian), id | the record in its [wire](crate::delay::wire) form |
//! | `ids` | id | time, and whether the record is dead |
//! | `attempts` | id | how often the record was claimed |
//! | `dead` | time of death (u64, big-endian), id | time (u64), reason (u16 length, UTF-8), the record |
//!
//! A record whose time can be read from its id, as it can from every id that the store makes, has
//! no row in `ids` while it waits for that time. Most records thus have one row.

use super::disk::Fault;
use crate::delay::{DeadReason, DelayId, IdSource};
use bytes::{Buf, Bytes};
use redb::{ReadableTable, Table, TableDefinition, WriteTransaction};
use std::borrow::Cow;

const RECORDS: TableDefinition<&[u8], &[u8]> = TableDefinition::new("records");
const IDS: TableDefinition<&str, u64> = TableDefinition::new("ids");
const ATTEMPTS: TableDefinition<&str, u32> = TableDefinition::new("attempts");
const DEAD: TableDefinition<&[u8], &[u8]> = TableDefinition::new("dead");

const TIME: usize = size_of::<u64>();

pub(super) struct Rows<'t> {
    pub(super) records: Table<'t, &'static [u8], &'static [u8]>,
    pub(super) ids: Table<'t, &'static str, u64>,
    pub(super) attempts: Table<'t, &'static str, u32>,
    pub(super) dead: Table<'t, &'static [u8], &'static [u8]>,
}

/// Where a row of a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Row {
    /// In `records`, at this time.
    Due(i64),
    /// In `dead`, at this time.
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

    pub(super) fn find(&self, id: &DelayId) -> Result<Option<Row>, Fault> {
        if let Some(row) = self.ids.get(id.as_str())? {
            let row = row.value();
            let at = instant(row >> 1);
            return Ok(Some(match row & 1 {
                0 => Row::Due(at),
                _ => Row::Dead(at),
            }));
        }
        match IdSource::time_in(id) {
            Some(at) if self.records.get(&*key(at, id))?.is_some() => Ok(Some(Row::Due(at))),
            _ => Ok(None),
        }
    }

    pub(super) fn insert(&mut self, at: i64, id: &DelayId, record: &[u8]) -> Result<(), Fault> {
        self.records.insert(&*key(at, id), record)?;
        self.note(id, Row::Due(at))
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
        self.note(id, Row::Dead(died))
    }

    fn note(&mut self, id: &DelayId, row: Row) -> Result<(), Fault> {
        let row = match row {
            Row::Due(at) if IdSource::time_in(id) == Some(at) => return Ok(()),
            Row::Due(at) => count(at) << 1,
            Row::Dead(at) => (count(at) << 1) | 1,
        };
        self.ids.insert(id.as_str(), row)?;
        Ok(())
    }

    /// Removes all rows of a record, and answers when it was due and its bytes.
    pub(super) fn remove(&mut self, id: &DelayId, row: Row) -> Result<Option<(i64, Bytes)>, Fault> {
        self.attempts.remove(id.as_str())?;
        let found = match row {
            Row::Due(at) => {
                if IdSource::time_in(id) != Some(at) {
                    self.ids.remove(id.as_str())?;
                }
                let record = self.records.remove(&*key(at, id))?;
                record.map(|record| (at, Bytes::copy_from_slice(record.value())))
            }
            Row::Dead(died) => {
                self.ids.remove(id.as_str())?;
                let dead = self.dead.remove(&*key(died, id))?;
                dead.and_then(|dead| read_dead(Bytes::copy_from_slice(dead.value())))
                    .map(|(at, _, record)| (at, record))
            }
        };
        Ok(found)
    }
}

/// When a dead record was due, why it died, and its bytes.
pub(super) fn read_dead(mut row: Bytes) -> Option<(i64, DeadReason, Bytes)> {
    let at = instant(row.try_get_u64().ok()?);
    let len = usize::from(row.try_get_u16().ok()?);
    let reason = (len <= row.len()).then(|| row.split_to(len))?;
    let reason = String::from_utf8_lossy(&reason).into_owned();
    Some((at, Cow::Owned(reason), row))
}

/// The key of a row: by time, then id.
pub(super) fn key(at: i64, id: &DelayId) -> Vec<u8> {
    [&time(at)[..], id.as_str().as_bytes()].concat()
}

/// What comes right after `key`.
pub(super) fn after(mut key: Vec<u8>) -> Vec<u8> {
    key.push(0);
    key
}

/// The time and the id of a row.
pub(super) fn parts(key: &[u8]) -> Option<(i64, DelayId)> {
    let (time, id) = key.split_first_chunk::<TIME>()?;
    let id = std::str::from_utf8(id).ok()?;
    Some((instant(u64::from_be_bytes(*time)), DelayId::new(id).ok()?))
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
