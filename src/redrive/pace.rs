//! No faster than so many records a second.

use std::time::Duration;
use tokio::time::Instant;

/// When the next batch may be written.
#[derive(Debug)]
pub(super) struct Pace {
    rate: Option<u32>,
    next: Instant,
}

impl Pace {
    pub(super) fn new(rate: Option<u32>, now: Instant) -> Self {
        Pace { rate, next: now }
    }

    /// The most records of a batch: those of a second.
    pub(super) fn most(&self, batch: usize) -> usize {
        let second = self.rate.and_then(|rate| usize::try_from(rate).ok());
        second.map_or(batch, |second| second.clamp(1, batch.max(1)))
    }

    /// Notes that `count` records are to be written at `now` or later; when that is. What was not
    /// used of the time before is not made up for.
    pub(super) fn book(&mut self, count: usize, now: Instant) -> Instant {
        let at = self.next.max(now);
        if let Some(rate) = self.rate {
            let count = u32::try_from(count).unwrap_or(u32::MAX);
            let time = Duration::from_secs(1).saturating_mul(count) / rate.max(1);
            self.next = at.checked_add(time).unwrap_or(at);
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_second_has_more_records_than_the_rate() {
        let start = Instant::now();
        let mut pace = Pace::new(Some(100), start);
        assert_eq!((pace.most(500), pace.most(20)), (100, 20));
        let second = Duration::from_secs(1);
        assert_eq!(pace.book(100, start), start);
        assert_eq!(pace.book(50, start), start + second);
        assert_eq!(pace.book(1, start), start + second * 3 / 2);
        // An idle time is not made up for.
        assert_eq!(pace.book(100, start + second * 9), start + second * 9);
        assert_eq!(pace.book(100, start + second * 9), start + second * 10);
    }

    #[test]
    fn without_a_rate_nothing_waits() {
        let start = Instant::now();
        let mut pace = Pace::new(None, start);
        assert_eq!(pace.most(500), 500);
        assert_eq!(pace.book(1_000, start), start);
        assert_eq!(pace.book(1_000, start), start);
    }
}
