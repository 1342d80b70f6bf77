//! What becomes of some dead letters in one transaction.

use super::letter::Letter;
use super::origins::{Found, Place};
use super::problem::Problem;
use super::restore::{check, redrives, restored};
use super::route::Target;
use super::summary::{Row, Stayed, Summary};
use crate::record::{OutgoingRecord, OwnedRecord};
use std::collections::BTreeMap;

/// The most dead letters read for one batch, whether anything becomes of them or not.
const READ: u64 = 10_000;

/// The most bytes of records in one batch; the one that goes beyond is in it still.
const BYTES: usize = 8 * 1024 * 1024;

/// What a record is taken to have whose size nobody told.
const UNKNOWN_SIZE: usize = 64 * 1024;

/// A record to be written.
pub(super) struct Item {
    pub(super) record: OutgoingRecord,
    pub(super) row: Row,
    pub(super) parked: bool,
    /// Partition and offset of its dead letter.
    pub(super) at: (i32, i64),
}

/// One whose bytes are elsewhere.
pub(super) struct Waiting {
    pub(super) letter: Letter,
    pub(super) dead: OwnedRecord,
    pub(super) target: Target,
    pub(super) place: Place,
    pub(super) row: Row,
}

enum Slot {
    Ready(Box<Item>),
    Waiting(Box<Waiting>),
}

/// Dead letters of which all becomes true together: what is written, what stays and how far it goes.
#[derive(Default)]
pub(super) struct Batch {
    slots: Vec<Slot>,
    bytes: usize,
    /// What needs no writing.
    pub(super) done: Summary,
    /// The next offset of each partition that was read.
    pub(super) positions: BTreeMap<i32, i64>,
}

impl Batch {
    pub(super) fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    pub(super) fn has_room(&self, most: usize) -> bool {
        self.slots.len() < most && self.done.read < READ && self.bytes < BYTES
    }

    pub(super) fn push(&mut self, item: Item) {
        self.bytes = self.bytes.saturating_add(size(&item.record));
        self.slots.push(Slot::Ready(Box::new(item)));
    }

    pub(super) fn wait_for(&mut self, waiting: Waiting) {
        let original = waiting.letter.original.as_ref();
        let told = original.and_then(|original| original.info.value_left_out());
        let size = told.and_then(|told| usize::try_from(told).ok());
        self.bytes = self.bytes.saturating_add(size.unwrap_or(UNKNOWN_SIZE));
        self.slots.push(Slot::Waiting(Box::new(waiting)));
    }

    pub(super) fn stays(&mut self, row: Row, at: (i32, i64), problem: Problem) {
        let (partition, offset) = at;
        let stayed = Stayed {
            partition,
            offset,
            problem,
        };
        self.done.stays(row, stayed);
    }

    /// The places of what is elsewhere.
    pub(super) fn places(&self) -> Vec<Place> {
        let place = |slot: &Slot| match slot {
            Slot::Waiting(waiting) => Some(waiting.place.clone()),
            Slot::Ready(_) => None,
        };
        self.slots.iter().filter_map(place).collect()
    }

    /// What is to be written, in the order of the dead letters, with what was `found` elsewhere.
    pub(super) fn items(
        &mut self,
        found: &BTreeMap<Place, Found>,
        keep_timestamps: bool,
        now: i64,
    ) -> Vec<Item> {
        let mut items = Vec::with_capacity(self.slots.len());
        for slot in std::mem::take(&mut self.slots) {
            let waiting = match slot {
                Slot::Ready(item) => {
                    items.push(*item);
                    continue;
                }
                Slot::Waiting(waiting) => *waiting,
            };
            let at = (waiting.dead.partition, waiting.dead.offset);
            let missing = || Problem::Gone("was not looked up".to_owned());
            let origin = match found.get(&waiting.place) {
                Some(Ok(origin)) => whole(&waiting, origin),
                Some(Err(problem)) => Err(problem.clone()),
                None => Err(missing()),
            };
            let Waiting {
                letter,
                dead,
                target,
                row,
                ..
            } = waiting;
            match origin {
                Err(problem) => self.stays(row, at, problem),
                Ok(origin) => {
                    let before = [&dead, &origin].map(|record| redrives(record.headers.view()));
                    let count = before.into_iter().max().unwrap_or(0).saturating_add(1);
                    let record = restored(&letter, origin, &target, count, keep_timestamps, now);
                    let parked = false;
                    items.push(Item {
                        record,
                        row,
                        parked,
                        at,
                    });
                }
            }
        }
        items
    }
}

/// The record as it was consumed. A retry's own headers are not at its origin, which is right.
fn whole(waiting: &Waiting, origin: &OwnedRecord) -> Result<OwnedRecord, Problem> {
    let original = waiting.letter.original.as_ref().ok_or(Problem::NoOrigin)?;
    check(original, &waiting.dead, origin)?;
    Ok(origin.clone())
}

fn size(record: &OutgoingRecord) -> usize {
    let headers = record.headers.iter();
    let headers = headers.map(|(name, value)| name.len() + value.map_or(0, |value| value.len()));
    let len = |bytes: &Option<bytes::Bytes>| bytes.as_ref().map_or(0, |bytes| bytes.len());
    len(&record.key) + len(&record.value) + headers.sum::<usize>()
}
