//! Which offsets of a log are done, in any order.

use std::collections::BTreeMap;

/// The lowest offset that is not done, and what is done above it. Memory grows with the gaps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Spans {
    next: i64,
    /// First → one after the last; they neither touch nor overlap, and lie above `next`.
    above: BTreeMap<i64, i64>,
}

impl Spans {
    /// Everything below `next` is done.
    pub(super) fn from(next: i64) -> Self {
        Spans {
            next,
            above: BTreeMap::new(),
        }
    }

    /// The lowest offset that is not done.
    pub(super) fn next(&self) -> i64 {
        self.next
    }

    pub(super) fn add(&mut self, offset: i64) {
        if offset < self.next {
            return;
        }
        let (mut first, mut end) = (offset, offset.saturating_add(1));
        if let Some((&before, &before_end)) = self.above.range(..=offset).next_back() {
            if before_end > offset {
                return;
            }
            if before_end == offset {
                self.above.remove(&before);
                first = before;
            }
        }
        if let Some(after_end) = self.above.remove(&end) {
            end = after_end;
        }
        match first == self.next {
            true => self.next = end,
            false => drop(self.above.insert(first, end)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn the_next_is_the_first_that_is_missing(
            start in 0..20_i64, offsets in proptest::collection::vec(0..60_i64, 0..120),
        ) {
            let mut spans = Spans::from(start);
            let mut model: BTreeSet<i64> = (0..start).collect();
            for offset in offsets {
                spans.add(offset);
                model.insert(offset);
                let next = (0..).find(|offset| !model.contains(offset));
                prop_assert_eq!(Some(spans.next()), next);
                let above: usize = spans.above.iter().map(|(a, b)| (b - a) as usize).sum();
                prop_assert_eq!(above, model.range(spans.next()..).count());
                let mut last = spans.next();
                for (first, end) in &spans.above {
                    prop_assert!(last < *first && first < end);
                    last = *end;
                }
            }
        }
    }
}
