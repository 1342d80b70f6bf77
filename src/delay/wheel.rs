//! A hierarchical timing wheel: what falls due when, in memory.

use super::item::MAX_INSTANT;

/// 2⁶ slots a level and a tick of 1 ms: 9 levels reach past [`MAX_INSTANT`].
const LEVELS: usize = 9;
const SLOTS: usize = 64;
/// The list of what is due, after those of the slots.
const READY: usize = LEVELS * SLOTS;
const NIL: u32 = u32::MAX;
/// Room is made for this many entries at a time, or an eighth of what there is.
const GROWTH: usize = 1024;

/// Names an entry of a [`Wheel`]. One that was taken out stays unknown to the wheel (until its place
/// was used anew 2³² times).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    index: u32,
    generation: u32,
}

struct Entry<T> {
    due: i64,
    next: u32,
    prev: u32,
    generation: u32,
    value: Option<T>,
}

/// Entries by the millisecond in which they fall due. Inserting and removing cost the same however
/// many there are; an entry moves at most 8 times before it is due. Those of one millisecond come
/// out in the order in which they went in, and so do those that were due when they went in.
///
/// An entry takes 24 bytes and its value, in one allocation that grows by an eighth.
pub struct Wheel<T> {
    entries: Vec<Entry<T>>,
    free: u32,
    len: usize,
    capacity: usize,
    /// The heads of the circular lists of the slots, level by level, and of what is due.
    heads: Box<[u32; READY + 1]>,
    /// Which slots of each level have entries.
    occupied: [u64; LEVELS],
    /// Every entry in a slot is due after this instant, every entry that is ready at or before it.
    elapsed: i64,
}

impl<T> Wheel<T> {
    /// An empty wheel for at most `capacity` entries, which is cut at 2³² − 2.
    pub fn new(capacity: usize) -> Self {
        Wheel {
            entries: Vec::new(),
            free: NIL,
            len: 0,
            capacity: capacity.min(NIL as usize - 1),
            heads: Box::new([NIL; READY + 1]),
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
        self.entries.capacity() * size_of::<Entry<T>>() + size_of_val(&*self.heads)
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
        let index = if self.free != NIL {
            self.free
        } else {
            if self.entries.len() == self.entries.capacity() {
                let more = (self.entries.len() / 8).max(GROWTH);
                let room = self.capacity - self.entries.len();
                self.entries.reserve_exact(more.min(room));
            }
            self.entries.push(Entry {
                due: 0,
                next: NIL,
                prev: NIL,
                generation: 0,
                value: None,
            });
            // The capacity is below NIL.
            (self.entries.len() - 1) as u32
        };
        let Some(entry) = self.entries.get_mut(index as usize) else {
            return Err(value);
        };
        if index == self.free {
            self.free = entry.next;
        }
        entry.due = due;
        entry.value = Some(value);
        let key = Key {
            index,
            generation: entry.generation,
        };
        self.len += 1;
        self.link(index, due);
        Ok(key)
    }

    /// The entry's instant and value.
    pub fn get(&self, key: Key) -> Option<(i64, &T)> {
        let entry = self.entries.get(key.index as usize)?;
        let value = entry.value.as_ref()?;
        (entry.generation == key.generation).then_some((entry.due, value))
    }

    /// Takes an entry out, due or not.
    pub fn remove(&mut self, key: Key) -> Option<(i64, T)> {
        let (due, _) = self.get(key)?;
        self.unlink(key.index, due);
        self.take(key.index)
    }

    /// Takes out an entry that is due at `now`, the earliest first.
    ///
    /// `now` may be earlier than at the call before: then the entries are sorted in anew, which costs
    /// a move of each.
    pub fn pop(&mut self, now: i64) -> Option<(i64, T)> {
        let now = now.clamp(0, MAX_INSTANT);
        if now < self.elapsed {
            self.rewind(now);
        }
        while self.head(READY) == NIL {
            let (level, slot, start) = self.first_slot()?;
            if start > now {
                self.elapsed = now;
                return None;
            }
            self.elapsed = start;
            self.open(level, slot);
        }
        let index = self.head(READY);
        let due = self.entries.get(index as usize)?.due;
        self.unlink(index, due);
        self.take(index)
    }

    /// An instant before which nothing falls due, and which is exact when it is less than 64 ms from
    /// the last one given to [`pop`](Wheel::pop); `None` when the wheel is empty. Waiting for it and
    /// asking again takes at most 8 turns.
    pub fn next(&self) -> Option<i64> {
        match self.head(READY) {
            NIL => self.first_slot().map(|(_, _, start)| start),
            index => self.entries.get(index as usize).map(|entry| entry.due),
        }
    }

    /// Instant and value of every entry, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (i64, &T)> {
        self.entries
            .iter()
            .filter_map(|entry| Some((entry.due, entry.value.as_ref()?)))
    }

    fn head(&self, list: usize) -> u32 {
        self.heads.get(list).copied().unwrap_or(NIL)
    }

    fn set_head(&mut self, list: usize, head: u32) {
        if let Some(place) = self.heads.get_mut(list) {
            *place = head;
        }
        if let Some(bits) = self.occupied.get_mut(list / SLOTS) {
            let bit = 1_u64 << (list % SLOTS);
            if head == NIL {
                *bits &= !bit;
            } else {
                *bits |= bit;
            }
        }
    }

    /// The list of an entry: that of its slot in the level of the highest digit (base 64) in which
    /// it differs from `elapsed`. It stays the same until `elapsed` enters that slot.
    fn list_of(&self, due: i64) -> usize {
        if due <= self.elapsed {
            return READY;
        }
        let differing = (due ^ self.elapsed) as u64;
        let level = (63 - differing.leading_zeros() as usize) / 6;
        level * SLOTS + ((due >> (6 * level)) as usize & (SLOTS - 1))
    }

    /// The slot that comes first, with the instant at which it begins. Entries of a level share all
    /// higher digits with `elapsed` and have a higher digit in their own, so the lowest level that
    /// has any comes first, and in it the lowest slot.
    fn first_slot(&self) -> Option<(usize, usize, i64)> {
        let (level, bits) = (self.occupied.iter().enumerate()).find(|(_, bits)| **bits != 0)?;
        let slot = bits.trailing_zeros() as usize;
        let shift = 6 * level;
        let above = (self.elapsed >> shift >> 6) << 6;
        Some((level, slot, (above | slot as i64) << shift))
    }

    /// Sorts the entries of a slot that `elapsed` has entered into lower ones.
    fn open(&mut self, level: usize, slot: usize) {
        let list = level * SLOTS + slot;
        let head = self.head(list);
        self.set_head(list, NIL);
        if level == 0 {
            // All of them are due now, and nothing else is ready.
            self.set_head(READY, head);
            return;
        }
        self.relink_all(head);
    }

    /// Links the entries of a detached list anew, in their order.
    fn relink_all(&mut self, head: u32) {
        let mut index = head;
        while let Some(entry) = self.entries.get(index as usize) {
            let (next, due) = (entry.next, entry.due);
            self.link(index, due);
            if next == head {
                break;
            }
            index = next;
        }
    }

    #[cold]
    fn rewind(&mut self, now: i64) {
        let mut heads = std::mem::replace(&mut self.heads, Box::new([NIL; READY + 1]));
        self.occupied = [0; LEVELS];
        self.elapsed = now;
        // What was ready came first.
        heads.rotate_right(1);
        for head in heads.iter().copied().filter(|head| *head != NIL) {
            self.relink_all(head);
        }
    }

    fn link(&mut self, index: u32, due: i64) {
        let list = self.list_of(due);
        let head = self.head(list);
        if head == NIL {
            self.set_links(index, index, index);
            self.set_head(list, index);
            return;
        }
        let Some(first) = self.entries.get_mut(head as usize) else {
            return;
        };
        let last = std::mem::replace(&mut first.prev, index);
        if let Some(last) = self.entries.get_mut(last as usize) {
            last.next = index;
        }
        self.set_links(index, last, head);
    }

    fn set_links(&mut self, index: u32, prev: u32, next: u32) {
        if let Some(entry) = self.entries.get_mut(index as usize) {
            (entry.prev, entry.next) = (prev, next);
        }
    }

    fn unlink(&mut self, index: u32, due: i64) {
        let list = self.list_of(due);
        let Some(entry) = self.entries.get(index as usize) else {
            return;
        };
        let (prev, next) = (entry.prev, entry.next);
        if next == index {
            self.set_head(list, NIL);
            return;
        }
        if let Some(before) = self.entries.get_mut(prev as usize) {
            before.next = next;
        }
        if let Some(after) = self.entries.get_mut(next as usize) {
            after.prev = prev;
        }
        if self.head(list) == index {
            self.set_head(list, next);
        }
    }

    /// Frees an entry that is in no list.
    fn take(&mut self, index: u32) -> Option<(i64, T)> {
        let entry = self.entries.get_mut(index as usize)?;
        let value = entry.value.take()?;
        entry.generation = entry.generation.wrapping_add(1);
        entry.next = self.free;
        self.free = index;
        self.len -= 1;
        Some((entry.due, value))
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
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[derive(Clone, Debug)]
    enum Step {
        Insert(i64),
        Remove(prop::sample::Index),
        Pop(usize),
        /// The clock moves by this much.
        Clock(i64),
    }

    fn step() -> impl Strategy<Value = Step> {
        let span = prop_oneof![-70..70_i64, -5_000..5_000_i64, -(1_i64 << 50)..1 << 50];
        prop_oneof![
            4 => span.prop_map(Step::Insert),
            1 => any::<prop::sample::Index>().prop_map(Step::Remove),
            3 => (1..5_usize).prop_map(Step::Pop),
            3 => prop_oneof![4 => 0..100_i64, 2 => 0..10_000_i64, 1 => -5_000..0_i64, 1 => 0..1_i64 << 40]
                .prop_map(Step::Clock),
        ]
    }

    proptest! {
        /// FC-101: the clock may step back, too.
        #[test]
        fn the_wheel_does_what_a_sorted_map_does(
            start in 0..2_000_000_000_000_i64, steps in proptest::collection::vec(step(), 1..120),
        ) {
            let mut wheel = Wheel::new(64);
            let mut model: BTreeMap<u32, (i64, Key)> = BTreeMap::new();
            let (mut now, mut made) = (start, 0_u32);
            for step in steps {
                match step {
                    Step::Insert(delay) => {
                        let due = (now + delay).clamp(0, MAX_INSTANT);
                        match wheel.insert(due, made) {
                            Ok(key) => { model.insert(made, (due, key)); }
                            Err(_) => prop_assert_eq!(model.len(), 64),
                        }
                        made += 1;
                    }
                    Step::Remove(which) => if !model.is_empty() {
                        let number = *which.get(&model.keys().copied().collect::<Vec<_>>());
                        let (due, key) = model.remove(&number).unwrap();
                        prop_assert_eq!(wheel.get(key), Some((due, &number)));
                        prop_assert_eq!(wheel.remove(key), Some((due, number)));
                        prop_assert_eq!(wheel.remove(key), None);
                    },
                    Step::Pop(times) => for _ in 0..times {
                        let due_in_model = model.values().any(|(due, _)| *due <= now);
                        let popped = wheel.pop(now);
                        prop_assert_eq!(popped.is_some(), due_in_model);
                        if let Some((due, number)) = popped {
                            prop_assert!(due <= now);
                            prop_assert_eq!(model.remove(&number).unwrap().0, due);
                        }
                    },
                    Step::Clock(by) => now = (now + by).clamp(0, MAX_INSTANT),
                }
                prop_assert_eq!(wheel.len(), model.len());
                let first = model.values().map(|(due, _)| *due).min();
                prop_assert_eq!(wheel.next().is_some(), first.is_some());
                prop_assert_eq!(wheel.iter().count(), model.len());
            }
            let mut left: Vec<_> = std::iter::from_fn(|| wheel.pop(MAX_INSTANT)).collect();
            left.sort_unstable_by_key(|(_, number)| *number);
            let expected: Vec<_> = model.into_iter().map(|(number, (due, _))| (due, number)).collect();
            prop_assert_eq!(left, expected);
        }

        #[test]
        fn entries_come_out_by_time_then_in_the_order_they_went_in(
            delays in proptest::collection::vec(prop_oneof![1..50_i64, 1..100_000_i64], 1..200),
        ) {
            let now = 1_800_000_000_123;
            let mut wheel = Wheel::new(1_000);
            assert_eq!(wheel.pop(now), None);
            let mut expected: Vec<_> = delays.iter().map(|delay| now + delay).zip(0..).collect();
            for (due, number) in &expected {
                wheel.insert(*due, *number).unwrap();
            }
            expected.sort();
            let popped: Vec<_> = std::iter::from_fn(|| wheel.pop(now + 100_000)).collect();
            prop_assert_eq!(popped, expected);
        }

        #[test]
        fn waiting_for_the_next_instant_reaches_an_entry_in_few_turns(due in 1..MAX_INSTANT) {
            let mut wheel = Wheel::new(1);
            wheel.insert(due, ()).unwrap();
            let mut now = 0;
            for _ in 0..9 {
                now = wheel.next().unwrap();
                prop_assert!(now <= due);
                if wheel.pop(now).is_some() {
                    break;
                }
            }
            prop_assert_eq!((now, wheel.len()), (due, 0));
        }
    }

    #[test]
    fn a_full_wheel_gives_the_value_back_and_an_old_key_names_nothing() {
        let mut wheel = Wheel::new(1);
        let first = wheel.insert(5, "a").unwrap();
        assert_eq!(wheel.insert(6, "b"), Err("b"));
        assert_eq!(wheel.pop(5), Some((5, "a")));
        let second = wheel.insert(6, "b").unwrap();
        assert_eq!(wheel.remove(first), None);
        assert_eq!(wheel.get(second), Some((6, &"b")));
        assert_eq!(wheel.pop(5), None);
    }

    #[test]
    fn an_entry_with_an_eight_byte_value_takes_at_most_64_bytes() {
        let mut wheel = Wheel::new(2_000_000);
        for number in 0..1_000_000_u64 {
            wheel
                .insert(number as i64 * 37 % 86_400_000, number)
                .unwrap();
        }
        let each = wheel.allocated_bytes() as f64 / 1_000_000.0;
        assert!(each <= 64.0, "{each} bytes");
    }
}
