//! A hierarchical timing wheel: what falls due when, in memory.

mod slots;

use super::item::MAX_INSTANT;
use slots::{Chunk, EMPTY, Slot};

/// 2⁶ slots a level and a tick of 1 ms: 9 levels reach past [`MAX_INSTANT`].
const LEVELS: usize = 9;
const SLOTS: usize = 64;
/// The list of what is due, after those of the slots.
const READY: usize = LEVELS * SLOTS;
/// Removed entries may leave this many marks more than there are entries.
const LITTER: usize = 64;
/// Room is made for this many entries or chunks at a time, or an eighth of what there is.
const GROWTH: usize = 256;
const NIL: u32 = u32::MAX;

/// Names an entry of a [`Wheel`]. One that was taken out stays unknown to the wheel (until its place
/// was used anew 2³² times).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    index: u32,
    generation: u32,
}

struct Entry<T> {
    generation: u32,
    value: Option<T>,
}

/// What a slot holds of an entry. It outlives an entry that was removed and is dropped when its time
/// comes, or when there are more such marks than entries.
#[derive(Clone, Copy)]
struct Mark {
    due: i64,
    key: Key,
}

/// Entries by the millisecond in which they fall due. Inserting and removing cost the same however
/// many there are; an entry moves at most 8 times before it is due. Those of one millisecond come
/// out in the order in which they went in, and so do those that were due when they went in.
///
/// Marks lie side by side and move in sequence, so that memory is read in order. An entry takes 16
/// bytes, its value and 8 more, all with an eighth of slack; removed ones that have not been
/// cleared away yet take 16 bytes each and are at most as many as the entries, and 64.
pub struct Wheel<T> {
    entries: Vec<Entry<T>>,
    free: Vec<u32>,
    len: usize,
    /// Marks whose entry was removed.
    gone: usize,
    capacity: usize,
    /// The slots, level by level, then what is due.
    slots: Box<[Slot; READY + 1]>,
    chunks: Vec<Chunk>,
    free_chunk: u32,
    /// How many marks of the first chunk that is due were taken.
    taken: usize,
    /// Which slots of each level have marks.
    occupied: [u64; LEVELS],
    /// Every mark in a slot is due after this instant, every mark that is ready at or before it.
    elapsed: i64,
}

impl<T> Wheel<T> {
    /// An empty wheel for at most `capacity` entries, which is cut at 2³² − 2.
    pub fn new(capacity: usize) -> Self {
        Wheel {
            entries: Vec::new(),
            free: Vec::new(),
            len: 0,
            gone: 0,
            capacity: capacity.min(u32::MAX as usize - 1),
            slots: Box::new([EMPTY; READY + 1]),
            chunks: Vec::new(),
            free_chunk: NIL,
            taken: 0,
            occupied: [0; LEVELS],
            elapsed: 0,
        }
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many bytes the wheel has allocated; what its values own is theirs.
    pub fn allocated_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry<T>>()
            + self.free.capacity() * size_of::<u32>()
            + self.chunks.capacity() * size_of::<Chunk>()
            + size_of_val(&*self.slots)
    }

    /// Adds an entry that is due at `due`, which is moved into `0..=MAX_INSTANT`.
    ///
    /// # Errors
    /// The value, when the wheel is full.
    pub fn insert(&mut self, due: i64, value: T) -> Result<Key, T> {
        let due = due.clamp(0, MAX_INSTANT);
        if self.len >= self.capacity {
            return Err(value);
        }
        let reused = (self.free.pop())
            .and_then(|index| Some((index, self.entries.get_mut(index as usize)?)));
        let key = match reused {
            Some((index, entry)) => {
                entry.value = Some(value);
                Key {
                    index,
                    generation: entry.generation,
                }
            }
            None => {
                make_room(&mut self.entries);
                // The capacity is below 2³².
                let index = self.entries.len() as u32;
                self.entries.push(Entry {
                    generation: 0,
                    value: Some(value),
                });
                Key {
                    index,
                    generation: 0,
                }
            }
        };
        self.len += 1;
        self.mark(Mark { due, key });
        Ok(key)
    }

    /// The entry's value.
    pub fn get(&self, key: Key) -> Option<&T> {
        let entry = self.entries.get(key.index as usize)?;
        (entry.generation == key.generation).then_some(entry.value.as_ref())?
    }

    /// The entry's value, to change.
    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let entry = self.entries.get_mut(key.index as usize)?;
        (entry.generation == key.generation).then_some(entry.value.as_mut())?
    }

    /// Takes an entry out, due or not.
    pub fn remove(&mut self, key: Key) -> Option<T> {
        let value = self.take(key)?;
        self.gone += 1;
        if self.gone > self.len + LITTER {
            self.sort_anew();
        }
        Some(value)
    }

    /// Takes out an entry that is due at `now`, the earliest first.
    ///
    /// `now` may be earlier than at the call before: then all entries are sorted in anew.
    pub fn pop(&mut self, now: i64) -> Option<(i64, T)> {
        let now = now.clamp(0, MAX_INSTANT);
        if now < self.elapsed {
            self.elapsed = now;
            self.sort_anew();
        }
        loop {
            while let Some(mark) = self.pop_ready() {
                if let Some(value) = self.take(mark.key) {
                    return Some((mark.due, value));
                }
                self.gone -= 1;
            }
            match self.first_slot() {
                Some((list, start)) if start <= now => {
                    if self.few_are_ready(list, now) {
                        continue;
                    }
                    // What is skipped is empty: few marks need not go through every level.
                    self.elapsed = self.first_of_few(list).unwrap_or(start).min(now);
                    self.open(list);
                }
                _ => {
                    self.elapsed = now;
                    return None;
                }
            }
        }
    }

    /// An instant before which nothing falls due; `None` when the wheel is empty. It is exact for few
    /// entries, else the start of the first slot that is in use: waiting for it and asking again
    /// finds an entry in at most 9 turns, unless entries were removed.
    pub fn next(&self) -> Option<i64> {
        if self.is_empty() {
            return None;
        }
        match self.chunks.get(self.slot(READY).head as usize) {
            Some(chunk) => chunk.marks.get(self.taken).map(|mark| mark.due),
            None => {
                let (list, start) = self.first_slot()?;
                Some(self.first_of_few(list).unwrap_or(start))
            }
        }
    }

    /// Every value, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.entries.iter().filter_map(|entry| entry.value.as_ref())
    }

    /// Frees an entry; its mark is the caller's business.
    fn take(&mut self, key: Key) -> Option<T> {
        let entry = self.entries.get_mut(key.index as usize)?;
        if entry.generation != key.generation {
            return None;
        }
        let value = entry.value.take()?;
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(key.index);
        self.len -= 1;
        Some(value)
    }
}

fn make_room<T>(entries: &mut Vec<T>) {
    if entries.len() == entries.capacity() {
        entries.reserve_exact((entries.len() / 8).max(GROWTH));
    }
}

impl<T> std::fmt::Debug for Wheel<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wheel")
            .field("len", &self.len)
            .field("elapsed", &self.elapsed)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
