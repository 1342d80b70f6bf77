//! Which offsets of a partition are finished: the contiguous low-water mark.

use std::collections::VecDeque;

/// What was taken of one partition in one ownership, and up to where all of it is finished.
///
/// Offsets are taken rising, but not always one after the other: compaction and transaction markers
/// leave gaps, and an offset that was never delivered is never waited for. They finish in any order.
///
/// The [`mark`](Self::mark) is the next offset to be delivered after a restart: the lowest unfinished
/// one, or the one after everything taken. Where a gap lies between the last finished and the next
/// unfinished offset, both the offset after the first and the second itself are right, for nothing
/// is between them; this takes the second, as the position of Kafka's own consumer does, so that a
/// lag never counts what does not exist.
///
/// Taking, finishing in order and finishing where no gap lies before are O(1), finishing behind a gap
/// is O(log n).
#[derive(Clone, Debug, Default)]
pub struct Offsets {
    /// Taken and at or above the mark; the front is unfinished.
    taken: VecDeque<Taken>,
    /// The lowest offset that may still be delivered, once one is known.
    next: Option<i64>,
    /// Whether anything was finished, so that the mark says more than where we began.
    moved: bool,
    /// What is committed, as far as it is known.
    committed: Option<i64>,
}

#[derive(Clone, Copy, Debug)]
struct Taken {
    offset: i64,
    finished: bool,
}

impl Offsets {
    /// Nothing taken yet.
    pub fn new() -> Self {
        Offsets::default()
    }

    /// Nothing taken yet, and this committed.
    pub fn after(committed: Option<i64>) -> Self {
        Offsets {
            committed,
            ..Offsets::default()
        }
    }

    /// Takes a delivered record. False when it was delivered before in this ownership, as happens
    /// after a pause: it must be dropped then.
    #[must_use]
    pub fn take(&mut self, offset: i64) -> bool {
        if self.next.is_some_and(|next| offset < next) {
            return false;
        }
        self.taken.push_back(Taken {
            offset,
            finished: false,
        });
        self.next = Some(offset.saturating_add(1));
        true
    }

    /// Whatever lies below `position` and was not taken never comes: a gap at the end, such as a
    /// transaction marker.
    pub fn reached(&mut self, position: i64) {
        match self.next {
            Some(next) if position <= next => {}
            Some(_) => {
                self.next = Some(position);
                self.moved |= self.taken.is_empty();
            }
            None => {
                self.next = Some(position);
                // Nothing but markers lies behind what is committed.
                self.moved = self.committed.is_some_and(|committed| committed < position);
            }
        }
    }

    /// Finishes a record. False when it was not taken, or finished before; nothing changes then.
    pub fn finish(&mut self, offset: i64) -> bool {
        let Some(index) = self.index(offset) else {
            return false;
        };
        match self.taken.get_mut(index) {
            Some(taken) if !taken.finished => taken.finished = true,
            _ => return false,
        }
        while self.taken.front().is_some_and(|front| front.finished) {
            self.taken.pop_front();
            self.moved = true;
        }
        true
    }

    fn index(&self, offset: i64) -> Option<usize> {
        let front = self.taken.front()?.offset;
        // Without gaps the distance is the index; each gap makes the index smaller.
        let distance = usize::try_from(offset.wrapping_sub(front)).unwrap_or(usize::MAX);
        let guess = self.taken.get(distance);
        if guess.is_some_and(|taken| taken.offset == offset) {
            return Some(distance);
        }
        self.taken
            .binary_search_by_key(&offset, |taken| taken.offset)
            .ok()
    }

    /// The offset to commit, or `None` while nothing was finished that would move it.
    pub fn mark(&self) -> Option<i64> {
        if !self.moved {
            return None;
        }
        self.oldest().or(self.next)
    }

    /// The lowest unfinished offset.
    pub fn oldest(&self) -> Option<i64> {
        self.taken.front().map(|taken| taken.offset)
    }

    /// The lowest offset that may still be delivered, once one is known.
    pub fn next(&self) -> Option<i64> {
        self.next
    }

    /// How many taken records lie at or beyond the mark, finished or not. A gap counts nothing, so
    /// that it never makes a partition stop.
    pub fn uncommitted(&self) -> usize {
        self.taken.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};
    use std::collections::BTreeSet;

    fn taken(offsets: &[i64]) -> Offsets {
        let mut tracker = Offsets::new();
        for offset in offsets {
            assert!(tracker.take(*offset));
        }
        tracker
    }

    /// FC-052: a later success does not move the mark past an earlier failure.
    #[test]
    fn a_later_success_leaves_the_mark_at_an_earlier_failure() {
        let mut offsets = taken(&[0, 1]);
        assert!(offsets.finish(1));
        assert_eq!(offsets.mark(), None);
        assert!(offsets.finish(0));
        assert_eq!(offsets.mark(), Some(2));
    }

    /// FC-058: after 0 is finished, 1 and 2 are both right, for 1 does not exist; the mark is 2.
    #[test]
    fn gaps_are_never_waited_for() {
        let mut offsets = taken(&[0, 2, 4, 7]);
        let mut marks = Vec::new();
        for offset in [4, 0, 7, 2] {
            assert!(offsets.finish(offset));
            marks.push(offsets.mark());
        }
        assert_eq!(marks, [None, Some(2), Some(2), Some(8)]);
        assert_eq!(offsets.uncommitted(), 0);
    }

    #[test]
    fn a_gap_at_the_end_moves_the_mark_once_all_before_it_is_finished() {
        let mut offsets = taken(&[5]);
        offsets.reached(7);
        assert_eq!(offsets.mark(), None);
        assert!(offsets.finish(5));
        assert_eq!(offsets.mark(), Some(7));
        offsets.reached(9);
        assert_eq!(offsets.mark(), Some(9));
        assert!(!offsets.take(8), "8 was said never to come");
        assert!(offsets.take(9));
        assert_eq!(offsets.mark(), Some(9));
    }

    #[test]
    fn where_we_begin_is_not_worth_a_commit() {
        let mut offsets = Offsets::new();
        offsets.reached(5);
        assert_eq!(offsets.mark(), None);
        offsets.reached(6);
        assert_eq!(offsets.mark(), Some(6));
    }

    /// FC-058: after a restart that finds nothing but transaction markers, those are passed too.
    #[test]
    fn a_gap_behind_what_is_committed_moves_the_mark() {
        for (position, mark) in [(9, Some(9)), (7, None), (5, None)] {
            let mut offsets = Offsets::after(Some(7));
            offsets.reached(position);
            assert_eq!(offsets.mark(), mark);
        }
        // The log may have been cut: whatever is delivered is taken.
        let mut offsets = Offsets::after(Some(7));
        assert!(offsets.take(2));
        assert_eq!(offsets.mark(), None);
        assert!(offsets.finish(2));
        assert_eq!(offsets.mark(), Some(3));
    }

    #[test]
    fn a_record_delivered_again_is_refused_and_an_unknown_one_not_finished() {
        let mut offsets = taken(&[3, 4]);
        assert!(!offsets.take(3));
        assert!(!offsets.take(4));
        assert!(!offsets.finish(2));
        assert!(!offsets.finish(5));
        assert!(offsets.finish(4));
        assert!(!offsets.finish(4));
        assert_eq!(offsets.mark(), None);
        assert_eq!(offsets.uncommitted(), 2);
    }

    #[test]
    fn the_ends_of_the_range_of_offsets_are_harmless() {
        let mut offsets = taken(&[i64::MIN, i64::MAX]);
        assert!(offsets.finish(i64::MAX));
        assert!(offsets.finish(i64::MIN));
        assert_eq!(offsets.mark(), Some(i64::MAX));
    }

    /// FC-053: in 10,000 random runs of takes, gaps, failures and completions the mark never lies
    /// beyond the lowest unfinished offset, never falls, and is right to the offset.
    #[test]
    fn the_mark_never_passes_an_unfinished_record() {
        for seed in 0..10_000 {
            let mut chance = StdRng::seed_from_u64(seed);
            let gaps = if seed % 2 == 0 { 1 } else { 4 };
            let mut offsets = Offsets::new();
            let mut open = BTreeSet::new();
            let mut finished = BTreeSet::new();
            let mut next = chance.random_range(0..400_i64);
            let mut before = None;
            for _ in 0..60 {
                if chance.random_bool(0.5) {
                    next += chance.random_range(0..gaps);
                    assert!(offsets.take(next));
                    open.insert(next);
                    next += 1;
                } else if let Some(offset) = pick(&open, &mut chance) {
                    open.remove(&offset);
                    finished.insert(offset);
                    assert!(offsets.finish(offset));
                }
                let lowest = open.first().copied();
                let moved = finished
                    .first()
                    .is_some_and(|f| lowest.is_none_or(|o| *f < o));
                let expected = moved.then(|| lowest.unwrap_or(next));
                assert_eq!(offsets.mark(), expected, "seed {seed}");
                assert_eq!(offsets.oldest(), lowest);
                assert!(expected >= before, "seed {seed}: the mark fell");
                let beyond = lowest.map_or(0, |o| finished.range(o..).count() + open.len());
                assert_eq!(offsets.uncommitted(), beyond, "seed {seed}");
                before = expected;
            }
        }
    }

    fn pick(open: &BTreeSet<i64>, chance: &mut StdRng) -> Option<i64> {
        (!open.is_empty())
            .then(|| chance.random_range(0..open.len()))
            .and_then(|index| open.iter().nth(index).copied())
    }
}
