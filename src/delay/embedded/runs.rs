//! Runs of records of partitions, by partition and time, and how far each partition was read.

use super::disk::Fault;
use super::engine::{Answer, Engine, EngineOptions, State};
use crate::error::{Error, Result};
use bytes::Bytes;
use redb::{ReadableTable, Table, TableDefinition, WriteTransaction};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The name of the file in its folder.
const FILE: &str = "runs.redb";

const RUNS: TableDefinition<&[u8], &[u8]> = TableDefinition::new("runs");
const PARTITIONS: TableDefinition<u32, [i64; 6]> = TableDefinition::new("partitions");
const OWNER: TableDefinition<&str, &str> = TableDefinition::new("owner");

/// What an index is opened with.
#[derive(Clone, Debug)]
pub(crate) struct RunIndexOptions<'a> {
    pub(crate) folder: &'a Path,
    pub(crate) cache_bytes: usize,
    pub(crate) interval: Duration,
    /// Whose index it is: that of another is refused.
    pub(crate) owner: String,
}

/// A run: when it is to be looked at, and which records it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RunKey {
    /// In milliseconds since the epoch.
    pub(crate) at: i64,
    /// The first offset.
    pub(crate) first: i64,
    /// The last offset.
    pub(crate) last: i64,
}

impl RunKey {
    fn records(self) -> i64 {
        self.last.saturating_sub(self.first).saturating_add(1)
    }
}

/// What is known of a partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) cursor: IndexCursor,
    /// How many runs wait, and how many records they have.
    pub(crate) runs: u64,
    pub(crate) records: u64,
}

/// How far a partition was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct IndexCursor {
    /// The next offset of the changelog that the index does not hold.
    pub(crate) changelog: i64,
    /// The next offset of the source that the index does not hold.
    pub(crate) source: i64,
    /// The last offset of the source that was known to be committed.
    pub(crate) committed: i64,
    /// When this was written, in milliseconds since the epoch.
    pub(crate) written: i64,
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// This run is there, with these bytes.
    Put(RunKey, Bytes),
    /// This run is gone.
    Remove(RunKey),
}

/// The runs that are due, and the time of the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DueRuns {
    pub(crate) runs: Vec<(RunKey, Bytes)>,
    pub(crate) next: Option<i64>,
}

/// One opening of the file. After the disk has failed it is opened anew, and what was applied but
/// not durable is gone: whoever went by it has to begin again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Opening(u64);

/// Bounds of one look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    pub(crate) now: i64,
    /// At least one run is given, however large.
    pub(crate) records: i64,
    pub(crate) bytes: usize,
}

/// An index in a file.
pub(crate) struct RunIndex {
    engine: Engine<Runs>,
}

struct Runs {
    opening: u64,
    dirty: bool,
}

/// How often an index was opened in this process.
static OPENINGS: AtomicU64 = AtomicU64::new(0);

impl State for Runs {
    const FORMAT: u64 = 101;

    fn load(transaction: &WriteTransaction) -> Result<Self, Fault> {
        transaction.open_table(RUNS)?;
        transaction.open_table(PARTITIONS)?;
        transaction.open_table(OWNER)?;
        Ok(Runs {
            opening: OPENINGS.fetch_add(1, Ordering::Relaxed),
            dirty: false,
        })
    }

    fn save(&mut self, _: &WriteTransaction) -> Result<bool, Fault> {
        Ok(std::mem::take(&mut self.dirty))
    }

    fn is_dirty(&self) -> bool {
        self.dirty
    }
}

impl RunIndex {
    /// Opens the index.
    ///
    /// # Errors
    /// As for [`EmbeddedStore::open`](super::EmbeddedStore::open), and kind Config when the index is
    /// that of another owner.
    pub(crate) async fn open(options: RunIndexOptions<'_>) -> Result<Self> {
        let file = options.folder.join(FILE);
        let named = file.display().to_string();
        let engine = Engine::open(EngineOptions {
            file,
            cache_bytes: options.cache_bytes,
            interval: options.interval,
        });
        let index = RunIndex {
            engine: engine.await?,
        };
        let owner = options.owner.clone();
        let found = index
            .engine
            .call(Answer::Durable, 1, move |runs, transaction| {
                let mut owners = transaction.open_table(OWNER)?;
                let found = owners.get("owner")?.map(|found| found.value().to_owned());
                if found.is_none() {
                    owners.insert("owner", owner.as_str())?;
                    runs.dirty = true;
                }
                Ok(found)
            });
        match found.await? {
            Some(found) if found != options.owner => Err(Error::config(format!(
                "{named} is the index of {found}, not of {}",
                options.owner
            ))),
            _ => Ok(index),
        }
    }

    pub(crate) async fn close(self) {
        self.engine.close().await;
    }

    /// What is known of a partition, if anything is; and in which opening of the file.
    pub(crate) async fn known(&self, partition: u32) -> Result<(Opening, Option<Known>)> {
        let work = move |runs: &mut Runs, transaction: &WriteTransaction| {
            let partitions = transaction.open_table(PARTITIONS)?;
            Ok((Opening(runs.opening), known(&partitions, partition)?))
        };
        self.engine.call(Answer::AtOnce, 1, work).await
    }

    /// Makes the changes and notes the cursor, together. Answered when durable if asked for.
    ///
    /// # Errors
    /// Temporary when the disk fails, and when it has failed since `opening`.
    pub(crate) async fn apply(
        &self,
        (opening, durable): (Opening, bool),
        partition: u32,
        changes: Vec<Change>,
        cursor: IndexCursor,
    ) -> Result<Known> {
        let when = match durable {
            true => Answer::Durable,
            false => Answer::AtOnce,
        };
        let weight = changes.len();
        let work = move |runs: &mut Runs, transaction: &WriteTransaction| {
            if runs.opening != opening.0 {
                return Ok(None);
            }
            runs.dirty = true;
            apply(transaction, partition, &changes, cursor).map(Some)
        };
        let applied = self.engine.call(when, weight, work).await?;
        applied.ok_or_else(opened_anew)
    }

    /// Runs that are due, earliest first.
    ///
    /// # Errors
    /// As for [`apply`](Self::apply).
    pub(crate) async fn due(
        &self,
        opening: Opening,
        partition: u32,
        look: Look,
    ) -> Result<DueRuns> {
        let work = move |runs: &mut Runs, transaction: &WriteTransaction| {
            if runs.opening != opening.0 {
                return Ok(None);
            }
            due(&transaction.open_table(RUNS)?, partition, look).map(Some)
        };
        let due = self.engine.call(Answer::AtOnce, 1, work).await?;
        due.ok_or_else(opened_anew)
    }

    /// Removes everything of a partition.
    pub(crate) async fn forget(&self, partition: u32) -> Result<()> {
        let work = move |runs: &mut Runs, transaction: &WriteTransaction| {
            runs.dirty = true;
            let (from, to) = (bound(partition, i64::MIN), partition.checked_add(1));
            let mut table = transaction.open_table(RUNS)?;
            match to.map(|next| bound(next, i64::MIN)) {
                Some(to) => table.retain_in(&*from..&*to, |_, _| false)?,
                None => table.retain_in(&*from.., |_, _| false)?,
            }
            transaction.open_table(PARTITIONS)?.remove(partition)?;
            Ok(())
        };
        self.engine.call(Answer::Durable, 1, work).await
    }
}

fn opened_anew() -> Error {
    Error::unavailable("the index was opened anew after the disk had failed")
}

fn known<T: ReadableTable<u32, [i64; 6]>>(
    partitions: &T,
    partition: u32,
) -> Result<Option<Known>, Fault> {
    let row = partitions.get(partition)?;
    Ok(row.map(|row| {
        let [changelog, source, committed, written, runs, records] = row.value();
        Known {
            cursor: IndexCursor {
                changelog,
                source,
                committed,
                written,
            },
            runs: runs.unsigned_abs(),
            records: records.unsigned_abs(),
        }
    }))
}

fn apply(
    transaction: &WriteTransaction,
    partition: u32,
    changes: &[Change],
    cursor: IndexCursor,
) -> Result<Known, Fault> {
    let mut table = transaction.open_table(RUNS)?;
    let mut partitions = transaction.open_table(PARTITIONS)?;
    let before = known(&partitions, partition)?.unwrap_or_default();
    let (mut runs, mut records) = (before.runs as i64, before.records as i64);
    for change in changes {
        let (key, before, count) = match change {
            Change::Put(key, bytes) => {
                let before = table.insert(&*row(partition, *key), &**bytes)?;
                (key, before.is_some(), 1)
            }
            Change::Remove(key) => {
                let before = table.remove(&*row(partition, *key))?;
                (key, before.is_some(), -1)
            }
        };
        if before == (count < 0) {
            runs += count;
            records += count * key.records();
        }
    }
    let (runs, records) = (runs.max(0), records.max(0));
    let IndexCursor {
        changelog,
        source,
        committed,
        written,
    } = cursor;
    partitions.insert(
        partition,
        [changelog, source, committed, written, runs, records],
    )?;
    Ok(Known {
        cursor,
        runs: runs.unsigned_abs(),
        records: records.unsigned_abs(),
    })
}

fn due(
    table: &Table<'_, &'static [u8], &'static [u8]>,
    partition: u32,
    look: Look,
) -> Result<DueRuns, Fault> {
    let mut due = DueRuns::default();
    let (mut records, mut size) = (0, 0);
    let from = bound(partition, i64::MIN);
    for entry in table.range(&*from..)? {
        let (found, bytes) = entry?;
        let Some(key) = read_row(partition, found.value()) else {
            break;
        };
        let full = records >= look.records || size >= look.bytes;
        if key.at > look.now || full {
            due.next = Some(key.at);
            break;
        }
        records += key.records();
        size += bytes.value().len();
        due.runs.push((key, Bytes::copy_from_slice(bytes.value())));
    }
    Ok(due)
}

/// What sorts before every row of this partition from this time on.
fn bound(partition: u32, at: i64) -> Vec<u8> {
    [&partition.to_be_bytes()[..], &sorted(at)].concat()
}

fn row(partition: u32, key: RunKey) -> Vec<u8> {
    let RunKey { at, first, last } = key;
    let partition = partition.to_be_bytes();
    [&partition[..], &sorted(at), &sorted(first), &sorted(last)].concat()
}

/// The key of a row; `None` when it is another partition's.
fn read_row(partition: u32, row: &[u8]) -> Option<RunKey> {
    let rest = row.strip_prefix(&partition.to_be_bytes()[..])?;
    let (at, rest) = rest.split_first_chunk()?;
    let (first, last) = rest.split_first_chunk()?;
    Some(RunKey {
        at: unsorted(*at),
        first: unsorted(*first),
        last: unsorted(last.try_into().ok()?),
    })
}

/// Bytes that sort as the numbers do.
fn sorted(number: i64) -> [u8; 8] {
    (number ^ i64::MIN).to_be_bytes()
}

fn unsorted(bytes: [u8; 8]) -> i64 {
    i64::from_be_bytes(bytes) ^ i64::MIN
}

impl std::fmt::Debug for RunIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RunIndex")
    }
}

#[cfg(test)]
mod tests;
