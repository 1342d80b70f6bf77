//! A hierarchical timing wheel: what falls due when, in memory.

use super::item::MAX_INSTANT;

/// 2⁶ slots a level and a tick of 1 ms: 9 levels reach past [`MAX_INSTANT`].
const LEVELS: usize = 9;
const SLOTS: usize = 64;
/// The list of what is due, after those of the slots.
const READY: usize = LEVELS * SLOTS;
/// How many marks lie together.
const CHUNK: usize = 15;
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

const BLANK: Mark = Mark {
    due: 0,
    key: Key {
        index: NIL,
        generation: 0,
    },
};

/// Some marks of a slot, in order, and the chunk with those that follow.
#[derive(Clone, Copy)]
struct Chunk {
    next: u32,
    len: u32,
    marks: [Mark; CHUNK],
}

/// The first and the last chunk of a slot.
#[derive(Clone, Copy)]
struct Slot {
    head: u32,
    tail: u32,
}

const EMPTY: Slot = Slot {
    head: NIL,
    tail: NIL,
};

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

    /// The list of a mark: that of its slot in the level of the highest digit (base 64) in which
    /// it differs from `elapsed`. It stays the same until `elapsed` enters that slot.
    fn list_of(&self, due: i64) -> usize {
        if due <= self.elapsed {
            return READY;
        }
        let differing = (due ^ self.elapsed) as u64;
        let level = (63 - differing.leading_zeros() as usize) / 6;
        level * SLOTS + ((due >> (6 * level)) as usize & (SLOTS - 1))
    }

    /// The slot that comes first, with the instant at which it begins. Marks of a level share all
    /// higher digits with `elapsed` and have a higher digit in their own, so the lowest level that
    /// has any comes first, and in it the lowest slot.
    fn first_slot(&self) -> Option<(usize, i64)> {
        let (level, bits) = (self.occupied.iter().enumerate()).find(|(_, bits)| **bits != 0)?;
        let slot = bits.trailing_zeros() as usize;
        let shift = 6 * level;
        let above = (self.elapsed >> shift >> 6) << 6;
        Some((level * SLOTS + slot, (above | slot as i64) << shift))
    }

    /// The earliest mark of a slot that has one chunk.
    fn first_of_few(&self, list: usize) -> Option<i64> {
        let slot = self.slot(list);
        let chunk = self.chunks.get(slot.head as usize)?;
        let marks = chunk.marks.iter().take(chunk.len as usize);
        (slot.head == slot.tail).then(|| marks.map(|mark| mark.due).min())?
    }

    /// Sorts the marks of a slot that `elapsed` has entered into lower ones. Nothing is ready.
    fn open(&mut self, list: usize) {
        let slot = self.detach(list);
        if list < SLOTS {
            // All of them are due now.
            self.slots[READY] = slot;
        } else {
            self.mark_all(slot.head, 0, false);
        }
    }

    /// Sorts every mark in as `elapsed` says, less those whose entry was removed.
    #[cold]
    fn sort_anew(&mut self) {
        let taken = std::mem::take(&mut self.taken);
        let ready = self.detach(READY);
        let slots = std::mem::replace(&mut self.slots, Box::new([EMPTY; READY + 1]));
        self.occupied = [0; LEVELS];
        self.mark_all(ready.head, taken, true);
        for slot in slots.iter() {
            self.mark_all(slot.head, 0, true);
        }
        self.gone = 0;
    }

    fn slot(&self, list: usize) -> Slot {
        self.slots.get(list).copied().unwrap_or(EMPTY)
    }

    fn detach(&mut self, list: usize) -> Slot {
        if let Some(bits) = self.occupied.get_mut(list / SLOTS) {
            *bits &= !(1 << (list % SLOTS));
        }
        (self.slots.get_mut(list)).map_or(EMPTY, |slot| std::mem::replace(slot, EMPTY))
    }

    /// Sorts in the marks of the chunks from `head` on, less the first `taken`, and when `clear` is
    /// set less those whose entry was removed.
    fn mark_all(&mut self, head: u32, taken: usize, clear: bool) {
        let (mut at, mut taken) = (head, taken);
        while let Some((next, len)) = (self.chunks.get(at as usize)).map(|c| (c.next, c.len)) {
            for place in taken..len as usize {
                let mark = (self.chunks.get(at as usize)).and_then(|c| c.marks.get(place));
                match mark.copied() {
                    Some(mark) if !clear || self.get(mark.key).is_some() => self.mark(mark),
                    _ => {}
                }
            }
            self.free_chunk(at);
            (at, taken) = (next, 0);
        }
    }

    fn free_chunk(&mut self, at: u32) {
        if let Some(chunk) = self.chunks.get_mut(at as usize) {
            chunk.next = std::mem::replace(&mut self.free_chunk, at);
        }
    }

    fn mark(&mut self, mark: Mark) {
        let list = self.list_of(mark.due);
        let slot = self.slot(list);
        if let Some(chunk) = self.chunks.get_mut(slot.tail as usize)
            && let Some(place) = chunk.marks.get_mut(chunk.len as usize)
        {
            *place = mark;
            chunk.len += 1;
            return;
        }
        let at = self.new_chunk(mark);
        if let Some(bits) = self.occupied.get_mut(list / SLOTS) {
            *bits |= 1 << (list % SLOTS);
        }
        if let Some(last) = self.chunks.get_mut(slot.tail as usize) {
            last.next = at;
        }
        if let Some(place) = self.slots.get_mut(list) {
            let head = if slot.head == NIL { at } else { slot.head };
            *place = Slot { head, tail: at };
        }
    }

    fn new_chunk(&mut self, mark: Mark) -> u32 {
        if let Some(chunk) = self.chunks.get_mut(self.free_chunk as usize) {
            let at = std::mem::replace(&mut self.free_chunk, chunk.next);
            (chunk.next, chunk.len) = (NIL, 1);
            chunk.marks[0] = mark;
            return at;
        }
        make_room(&mut self.chunks);
        let mut marks = [BLANK; CHUNK];
        marks[0] = mark;
        // There are fewer chunks than marks, and these are bounded by the capacity.
        let at = self.chunks.len() as u32;
        self.chunks.push(Chunk {
            next: NIL,
            len: 1,
            marks,
        });
        at
    }

    fn pop_ready(&mut self) -> Option<Mark> {
        let head = self.slot(READY).head;
        let chunk = self.chunks.get(head as usize)?;
        let (next, len) = (chunk.next, chunk.len as usize);
        let mark = chunk.marks.get(self.taken).copied();
        self.taken += 1;
        if self.taken >= len {
            self.taken = 0;
            self.free_chunk(head);
            if next == NIL {
                self.detach(READY);
            } else {
                self.slots[READY].head = next;
            }
        }
        mark
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
