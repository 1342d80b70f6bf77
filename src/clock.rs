//! Wall time as an argument.
//!
//! The wall clock decides whether an instant has come; waiting is done on tokio's monotonic clock,
//! in short sleeps, so that a step of the wall clock is noticed within one of them.

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::Instant;

/// Tells the wall time in whole milliseconds since the Unix epoch.
pub trait Clock: Send + Sync {
    /// The time, rounded down: an instant that is not after it has come.
    fn now(&self) -> i64;

    /// The time, rounded up: what a delay is counted from, so that no part of a millisecond is
    /// cut off it.
    fn now_rounded_up(&self) -> i64 {
        self.now()
    }
}

impl<C: Clock + ?Sized> Clock for std::sync::Arc<C> {
    fn now(&self) -> i64 {
        (**self).now()
    }

    fn now_rounded_up(&self) -> i64 {
        (**self).now_rounded_up()
    }
}

/// The clock of the machine. Before 1970 it stands at zero.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> i64 {
        floor(since_epoch())
    }

    fn now_rounded_up(&self) -> i64 {
        ceil(since_epoch())
    }
}

fn since_epoch() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

fn floor(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

fn ceil(time: Duration) -> i64 {
    floor(time.saturating_add(Duration::from_nanos(999_999)))
}

/// A clock for tests: it starts where it is told, moves with tokio's clock (which stands still or
/// leaps in a paused test), and can be stepped, as an administrator or a time service steps a
/// machine's.
pub struct FakeClock {
    start: i64,
    since: Instant,
    stepped: AtomicI64,
}

impl FakeClock {
    /// A clock that shows `start` milliseconds now.
    pub fn at(start: i64) -> Self {
        FakeClock {
            start,
            since: Instant::now(),
            stepped: AtomicI64::new(0),
        }
    }

    /// Steps the clock forward, or back by a negative number of milliseconds. No wait becomes
    /// longer or shorter by it.
    pub fn step(&self, millis: i64) {
        self.stepped.fetch_add(millis, Ordering::SeqCst);
    }

    fn read(&self, round: fn(Duration) -> i64) -> i64 {
        self.start
            .saturating_add(round(self.since.elapsed()))
            .saturating_add(self.stepped.load(Ordering::SeqCst))
    }
}

impl Clock for FakeClock {
    fn now(&self) -> i64 {
        self.read(floor)
    }

    fn now_rounded_up(&self) -> i64 {
        self.read(ceil)
    }
}

impl fmt::Debug for FakeClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FakeClock").field(&self.now()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_never_shortens_a_wait() {
        let time = Duration::new(1, 999_000_001);
        assert_eq!((floor(time), ceil(time)), (1_999, 2_000));
        let whole = Duration::from_millis(1_500);
        assert_eq!((floor(whole), ceil(whole)), (1_500, 1_500));
        assert_eq!(ceil(Duration::MAX), i64::MAX);
    }

    #[test]
    fn the_system_clock_counts_milliseconds_since_1970() {
        let before = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let (down, up) = (SystemClock.now(), SystemClock.now_rounded_up());
        let after = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        assert!(floor(before) <= down && down <= up && up <= ceil(after));
    }

    #[tokio::test(start_paused = true)]
    async fn the_fake_clock_moves_with_tokio_and_by_steps() {
        let clock = FakeClock::at(1_000);
        assert_eq!(clock.now(), 1_000);
        tokio::time::advance(Duration::from_micros(2_500)).await;
        assert_eq!((clock.now(), clock.now_rounded_up()), (1_002, 1_003));
        clock.step(-3_600_000);
        assert_eq!(clock.now(), -3_598_998);
        clock.step(i64::MIN + 4_000_000);
        assert_eq!(clock.now(), i64::MIN + 401_002);
    }
}
