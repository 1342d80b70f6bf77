//! Effects that wait until their record lies below the mark: what a transaction takes.

use crate::record::OutgoingRecord;
use std::collections::{BTreeMap, btree_map::Entry};
use std::fmt;
use std::sync::Arc;

/// What a record counts besides its key, value and headers.
const RECORD_BYTES: usize = 128;

/// What the shares of all partitions come to: this part of the room, on top of it.
const SHARES: usize = 8;

/// How much may be staged, or go into one transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StagingRoom {
    /// Records; the effect that reaches this is the last.
    pub records: usize,
    /// Bytes of keys, values and headers; likewise.
    pub bytes: usize,
}

impl Default for StagingRoom {
    fn default() -> Self {
        StagingRoom {
            records: 50_000,
            bytes: 64 * 1024 * 1024,
        }
    }
}

/// What became of an effect that was to be staged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Staged {
    /// It is staged.
    Done,
    /// There is no room for it now.
    Full,
    /// Its partition is not ours in that ownership (any more), or a transaction has its offset.
    Ended,
}

/// Effects of the partitions that are ours, under the offset of the record they are of.
///
/// `P` is a partition in one ownership: another ownership of the same partition is another `P`, so
/// that what is late of an earlier one finds no place. Nothing here knows a broker.
#[derive(Debug)]
pub struct Staging<P> {
    partitions: BTreeMap<P, Partition>,
    room: StagingRoom,
    records: usize,
    bytes: usize,
    /// Which partition a transaction begins with, so that none is always the one that is cut.
    turn: usize,
}

#[derive(Debug, Default)]
struct Partition {
    effects: BTreeMap<i64, Effect>,
    committed: Option<i64>,
    /// The offset that a transaction under way commits.
    taken: Option<i64>,
    /// What its effects come to.
    records: usize,
    bytes: usize,
}

#[derive(Clone)]
struct Effect {
    records: Arc<[OutgoingRecord]>,
    bytes: usize,
}

impl fmt::Debug for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} records", self.records.len())
    }
}

impl Effect {
    fn new(records: Arc<[OutgoingRecord]>) -> Self {
        let bytes = bytes_of(&records);
        Effect { records, bytes }
    }
}

/// What records take in memory, roughly.
pub(super) fn bytes_of(records: &[OutgoingRecord]) -> usize {
    records.iter().map(size).sum()
}

fn size(record: &OutgoingRecord) -> usize {
    let part = |bytes: &Option<bytes::Bytes>| bytes.as_ref().map_or(0, bytes::Bytes::len);
    let headers = record.headers.iter();
    let headers = headers.map(|(name, value)| name.len() + value.map_or(0, bytes::Bytes::len));
    RECORD_BYTES + part(&record.key) + part(&record.value) + headers.sum::<usize>()
}

/// What goes into one transaction: all effects of some partitions below an offset, and that offset.
#[derive(Debug)]
pub struct StagedBatch<P> {
    parts: Vec<Part<P>>,
    /// Whether there was more than would fit.
    pub cut: bool,
}

#[derive(Debug)]
struct Part<P> {
    partition: P,
    offset: i64,
    effects: Vec<(i64, Effect)>,
}

impl<P> StagedBatch<P> {
    /// Whether there is nothing to commit.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// The offsets to commit.
    pub fn offsets(&self) -> impl Iterator<Item = (&P, i64)> {
        self.parts.iter().map(|part| (&part.partition, part.offset))
    }

    /// The records to write, in order: of each partition by the offsets of what they are of.
    pub fn records(&self) -> impl Iterator<Item = &OutgoingRecord> {
        self.effects().flat_map(|(_, _, records)| records)
    }

    /// Of which partition and offset the record at this index is, and which of that offset's.
    pub fn source(&self, mut index: usize) -> Option<(&P, i64, usize)> {
        for (partition, offset, records) in self.effects() {
            match index.checked_sub(records.len()) {
                Some(left) => index = left,
                None => return Some((partition, offset, index)),
            }
        }
        None
    }

    /// How many of a partition's records are of offsets below this one.
    pub fn records_before(&self, partition: &P, offset: i64) -> usize
    where
        P: PartialEq,
    {
        let before = self.effects();
        let before = before.filter(|(p, of, _)| *p == partition && *of < offset);
        before.map(|(_, _, records)| records.len()).sum()
    }

    fn effects(&self) -> impl Iterator<Item = (&P, i64, &[OutgoingRecord])> {
        self.parts.iter().flat_map(|part| {
            let effects = part.effects.iter();
            effects.map(|(offset, effect)| (&part.partition, *offset, &*effect.records))
        })
    }
}

impl<P: Ord + Clone> Staging<P> {
    /// Nothing staged, and no partition ours.
    pub fn new(room: StagingRoom) -> Self {
        Staging {
            partitions: BTreeMap::new(),
            room,
            records: 0,
            bytes: 0,
            turn: 0,
        }
    }

    /// A partition became ours.
    pub fn add_partition(&mut self, partition: P) {
        self.partitions.entry(partition).or_default();
    }

    /// A partition is no longer ours: what is staged of it is dropped, for whoever has it now does it
    /// again.
    pub fn drop_partition(&mut self, partition: &P) {
        if let Some(dropped) = self.partitions.remove(partition) {
            self.records = self.records.saturating_sub(dropped.records);
            self.bytes = self.bytes.saturating_sub(dropped.bytes);
        }
    }

    /// Whether a partition is ours.
    pub fn owns(&self, partition: &P) -> bool {
        self.partitions.contains_key(partition)
    }

    /// Whether another effect of a partition may be staged: while the room is not full, and within its
    /// own share even then, so that one whose effects cannot be written does not hold the others. All
    /// that is staged stays below nine eighths of the room, and one effect a partition.
    pub fn has_room(&self, partition: &P) -> bool {
        let Some(owned) = self.partitions.get(partition) else {
            return false;
        };
        let share = |room: usize| room / SHARES / self.partitions.len().max(1);
        let StagingRoom { records, bytes } = self.room;
        let anybody = self.records < records.max(1) && self.bytes < bytes.max(1);
        anybody || (owned.records < share(records) && owned.bytes < share(bytes))
    }

    /// The lowest offset of a partition that something is staged for.
    pub fn first(&self, partition: &P) -> Option<i64> {
        let effects = &self.partitions.get(partition)?.effects;
        effects.first_key_value().map(|(offset, _)| *offset)
    }

    /// Whether nothing is staged for a lower offset of its partition.
    pub fn is_first(&self, partition: &P, offset: i64) -> bool {
        self.first(partition).is_none_or(|first| first >= offset)
    }

    /// Stages what is to be written for the record at `offset`; staged again, the later counts.
    ///
    /// `must`: the mark waits for this record, and for no other transaction, so it is admitted without
    /// room. Otherwise those that are staged beyond the mark could fill the room for ever.
    pub fn stage(
        &mut self,
        partition: &P,
        offset: i64,
        records: &Arc<[OutgoingRecord]>,
        must: bool,
    ) -> Staged {
        let has_room = self.has_room(partition);
        let Some(owned) = self.partitions.get_mut(partition) else {
            return Staged::Ended;
        };
        if owned.committed.max(owned.taken) > Some(offset) {
            return Staged::Ended;
        }
        let replaced = match owned.effects.entry(offset) {
            Entry::Vacant(_) if !(has_room || must) => return Staged::Full,
            Entry::Vacant(place) => {
                place.insert(Effect::new(Arc::clone(records)));
                None
            }
            Entry::Occupied(mut place) => Some(place.insert(Effect::new(Arc::clone(records)))),
        };
        if let Some(replaced) = &replaced {
            self.free(partition, replaced);
        }
        self.count(partition, offset);
        Staged::Done
    }

    /// Puts one record in the place of all that is staged for `offset`. False, without effect, when
    /// nothing is or a transaction has it.
    pub fn replace(&mut self, partition: &P, offset: i64, record: OutgoingRecord) -> bool {
        let Some(owned) = self.partitions.get_mut(partition) else {
            return false;
        };
        let free = owned.taken.is_none_or(|taken| taken <= offset);
        let Some(effect) = owned.effects.get_mut(&offset).filter(|_| free) else {
            return false;
        };
        let replaced = std::mem::replace(effect, Effect::new(Arc::from([record])));
        self.free(partition, &replaced);
        self.count(partition, offset);
        true
    }

    /// Counts this many bytes more for what is staged for `offset`.
    pub fn add_bytes(&mut self, partition: &P, offset: i64, bytes: usize) {
        let owned = self.partitions.get_mut(partition);
        if let Some(owned) = owned
            && let Some(effect) = owned.effects.get_mut(&offset)
        {
            effect.bytes = effect.bytes.saturating_add(bytes);
            owned.bytes = owned.bytes.saturating_add(bytes);
            self.bytes = self.bytes.saturating_add(bytes);
        }
    }

    fn count(&mut self, partition: &P, offset: i64) {
        let Some(owned) = self.partitions.get_mut(partition) else {
            return;
        };
        let Some(effect) = owned.effects.get(&offset) else {
            return;
        };
        let (records, bytes) = (effect.records.len(), effect.bytes);
        owned.records = owned.records.saturating_add(records);
        owned.bytes = owned.bytes.saturating_add(bytes);
        self.records = self.records.saturating_add(records);
        self.bytes = self.bytes.saturating_add(bytes);
    }

    fn free(&mut self, partition: &P, effect: &Effect) {
        let (records, bytes) = (effect.records.len(), effect.bytes);
        if let Some(owned) = self.partitions.get_mut(partition) {
            owned.records = owned.records.saturating_sub(records);
            owned.bytes = owned.bytes.saturating_sub(bytes);
        }
        self.records = self.records.saturating_sub(records);
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// What is ready: of each partition that is ours everything below its mark, where that has moved
    /// since the last commit. At least one effect, and as many as `most` lets in: a partition that is
    /// cut commits up to the first effect that stays behind.
    ///
    /// It stays staged until it is [`committed`](Self::committed) or [`aborted`](Self::aborted).
    pub fn take(
        &mut self,
        marks: impl IntoIterator<Item = (P, i64)>,
        most: StagingRoom,
    ) -> StagedBatch<P> {
        let mut marks: Vec<(P, i64)> = marks.into_iter().collect();
        if !marks.is_empty() {
            let turn = self.turn % marks.len();
            marks.rotate_left(turn);
        }
        let mut batch = StagedBatch {
            parts: Vec::new(),
            cut: false,
        };
        let (mut records, mut bytes) = (0, 0);
        for (partition, mark) in marks {
            let Some(owned) = self.partitions.get_mut(&partition) else {
                continue;
            };
            if owned.taken.is_some() || owned.committed >= Some(mark) {
                continue;
            }
            let (mut offset, mut effects) = (mark, Vec::new());
            for (of, effect) in owned.effects.range(..mark) {
                if records >= most.records.max(1) || bytes >= most.bytes.max(1) {
                    offset = *of;
                    batch.cut = true;
                    break;
                }
                records += effect.records.len();
                bytes += effect.bytes;
                effects.push((*of, effect.clone()));
            }
            // With nothing of it in the batch, its turn comes.
            if offset == mark || !effects.is_empty() {
                owned.taken = Some(offset);
                batch.parts.push(Part {
                    partition,
                    offset,
                    effects,
                });
            }
        }
        if batch.cut {
            self.turn = self.turn.wrapping_add(1);
        }
        batch
    }

    /// The transaction of `batch` was committed: its effects are written, once and for all.
    pub fn committed(&mut self, batch: &StagedBatch<P>) {
        for part in &batch.parts {
            let Some(owned) = self.partitions.get_mut(&part.partition) else {
                continue;
            };
            owned.taken = None;
            owned.committed = owned.committed.max(Some(part.offset));
            let written: Vec<Effect> = part
                .effects
                .iter()
                .filter_map(|(offset, _)| owned.effects.remove(offset))
                .collect();
            for effect in &written {
                self.free(&part.partition, effect);
            }
        }
    }

    /// The transaction of `batch` came to nothing: its effects are taken again, in the same order.
    pub fn aborted(&mut self, batch: &StagedBatch<P>) {
        for part in &batch.parts {
            if let Some(owned) = self.partitions.get_mut(&part.partition) {
                owned.taken = None;
            }
        }
    }

    /// The offset committed last in this ownership.
    pub fn committed_offset(&self, partition: &P) -> Option<i64> {
        self.partitions.get(partition)?.committed
    }

    /// How many records are staged.
    pub fn len(&self) -> usize {
        self.records
    }

    /// Whether nothing is staged.
    pub fn is_empty(&self) -> bool {
        self.records == 0
    }
}

#[cfg(test)]
mod tests;
