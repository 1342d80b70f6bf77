//! The slots of a wheel: lists of marks, in chunks that lie in one allocation.

use super::{LEVELS, Mark, NIL, READY, SLOTS, Wheel, make_room};

/// How many marks lie together.
const CHUNK: usize = 15;

/// Some marks of a slot, in order, and the chunk with those that follow.
#[derive(Clone, Copy)]
pub(super) struct Chunk {
    next: u32,
    len: u32,
    pub(super) marks: [Mark; CHUNK],
}

/// The first and the last chunk of a slot.
#[derive(Clone, Copy)]
pub(super) struct Slot {
    pub(super) head: u32,
    tail: u32,
}

pub(super) const EMPTY: Slot = Slot {
    head: NIL,
    tail: NIL,
};

impl<T> Wheel<T> {
    /// The list of a mark: that of its slot in the level of the highest digit (base 64) in which
    /// it differs from `elapsed`. It stays the same until `elapsed` enters that slot.
    pub(super) fn list_of(&self, due: i64) -> usize {
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
    pub(super) fn first_slot(&self) -> Option<(usize, i64)> {
        let (level, bits) = (self.occupied.iter().enumerate()).find(|(_, bits)| **bits != 0)?;
        let slot = bits.trailing_zeros() as usize;
        let shift = 6 * level;
        let above = (self.elapsed >> shift >> 6) << 6;
        Some((level * SLOTS + slot, (above | slot as i64) << shift))
    }

    /// The earliest mark of a slot that has one chunk.
    pub(super) fn first_of_few(&self, list: usize) -> Option<i64> {
        let slot = self.slot(list);
        let chunk = self.chunks.get(slot.head as usize)?;
        let marks = chunk.marks.iter().take(chunk.len as usize);
        (slot.head == slot.tail).then(|| marks.map(|mark| mark.due).min())?
    }

    /// Sorts the marks of a slot that `elapsed` has entered into lower ones. Nothing is ready.
    pub(super) fn open(&mut self, list: usize) {
        let slot = self.detach(list);
        if list < SLOTS {
            // All of them are due now.
            self.set_ready(slot);
        } else {
            self.mark_all(slot.head, 0, false);
        }
    }

    /// Whether a slot has one chunk that is all due at `now`: then its marks are ready, in order,
    /// without a way through the levels. Nothing was ready.
    pub(super) fn few_are_ready(&mut self, list: usize, now: i64) -> bool {
        let slot = self.slot(list);
        if slot.head != slot.tail {
            return false;
        }
        let Some(chunk) = self.chunks.get_mut(slot.head as usize) else {
            return false;
        };
        let Some(marks) = chunk.marks.get_mut(..chunk.len as usize) else {
            return false;
        };
        let last = marks.iter().map(|mark| mark.due).max();
        let Some(last) = last.filter(|last| *last <= now) else {
            return false;
        };
        // Stable: those of one millisecond stay in the order in which they went in.
        marks.sort_by_key(|mark| mark.due);
        self.elapsed = last;
        self.detach(list);
        self.set_ready(slot);
        true
    }

    /// Sorts every mark in as `elapsed` says, less those whose entry was removed.
    #[cold]
    pub(super) fn sort_anew(&mut self) {
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

    fn set_ready(&mut self, slot: Slot) {
        if let Some(ready) = self.slots.last_mut() {
            *ready = slot;
        }
    }

    pub(super) fn slot(&self, list: usize) -> Slot {
        self.slots.get(list).copied().unwrap_or(EMPTY)
    }

    pub(super) fn detach(&mut self, list: usize) -> Slot {
        if let Some(bits) = self.occupied.get_mut(list / SLOTS) {
            *bits &= !(1 << (list % SLOTS));
        }
        (self.slots.get_mut(list)).map_or(EMPTY, |slot| std::mem::replace(slot, EMPTY))
    }

    /// Sorts in the marks of the chunks from `head` on, less the first `taken`, and when `clear` is
    /// set less those whose entry was removed.
    pub(super) fn mark_all(&mut self, head: u32, taken: usize, clear: bool) {
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

    pub(super) fn free_chunk(&mut self, at: u32) {
        if let Some(chunk) = self.chunks.get_mut(at as usize) {
            chunk.next = std::mem::replace(&mut self.free_chunk, at);
        }
    }

    pub(super) fn mark(&mut self, mark: Mark) {
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

    pub(super) fn new_chunk(&mut self, mark: Mark) -> u32 {
        if let Some(chunk) = self.chunks.get_mut(self.free_chunk as usize) {
            let at = std::mem::replace(&mut self.free_chunk, chunk.next);
            (chunk.next, chunk.len) = (NIL, 1);
            if let Some(first) = chunk.marks.first_mut() {
                *first = mark;
            }
            return at;
        }
        make_room(&mut self.chunks);
        // There are fewer chunks than marks, and these are bounded by the capacity.
        let at = self.chunks.len() as u32;
        self.chunks.push(Chunk {
            next: NIL,
            len: 1,
            marks: [mark; CHUNK],
        });
        at
    }

    pub(super) fn pop_ready(&mut self) -> Option<Mark> {
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
                let tail = self.slot(READY).tail;
                self.set_ready(Slot { head: next, tail });
            }
        }
        mark
    }
}
