//! Waits for instants of the wall clock.

use crate::answer::BoxFuture;
use crate::clock::{Clock, SystemClock};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

/// How often the wall clock is compared with the monotonic one.
const LOOK: Duration = Duration::from_secs(1);

/// By how many milliseconds they must differ for the waiters to look again.
const STEP: i64 = 2;

/// The longest of tokio's sleeps that is used: a day.
const LONGEST: Duration = Duration::from_secs(86_400);

/// Waits until the wall clock shows an instant, for as many as like, and notices within a second
/// when it was stepped. While nobody waits it does nothing; while somebody does it wakes once a
/// second, however many there are.
///
/// Cloning gives the same alarm.
#[derive(Clone)]
pub struct Alarm(Arc<Inner>);

struct Inner {
    clock: Arc<dyn Clock>,
    waiters: Mutex<Waiters>,
    stepped: watch::Sender<u64>,
    looks: AtomicU64,
}

#[derive(Default)]
struct Waiters {
    count: usize,
    looking: bool,
}

impl Default for Alarm {
    fn default() -> Self {
        Alarm::new(Arc::new(SystemClock))
    }
}

impl Alarm {
    /// An alarm by `clock`.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Alarm(Arc::new(Inner {
            clock,
            waiters: Mutex::default(),
            stepped: watch::Sender::new(0),
            looks: AtomicU64::new(0),
        }))
    }

    /// Its clock.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.0.clock
    }

    /// How often it looked at the clock without being asked.
    pub fn looks(&self) -> u64 {
        self.0.looks.load(Ordering::Relaxed)
    }

    /// Done when the clock shows `at`, in milliseconds since the epoch, or later.
    pub fn reached(&self, at: i64) -> BoxFuture<'static, ()> {
        let inner = Arc::clone(&self.0);
        Box::pin(async move {
            let mut stepped = inner.stepped.subscribe();
            let _waiting = Waiting::start(&inner);
            loop {
                let left = at.saturating_sub(inner.clock.now());
                if left <= 0 {
                    return;
                }
                let left = Duration::from_millis(left.unsigned_abs()).min(LONGEST);
                tokio::select! {
                    () = sleep(left) => {}
                    _ = stepped.changed() => {}
                }
            }
        })
    }
}

struct Waiting<'a>(&'a Inner);

impl<'a> Waiting<'a> {
    fn start(inner: &'a Arc<Inner>) -> Self {
        let mut waiters = lock(&inner.waiters);
        waiters.count += 1;
        if !waiters.looking {
            waiters.looking = true;
            tokio::spawn(look(Arc::downgrade(inner)));
        }
        Waiting(inner)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        lock(&self.0.waiters).count -= 1;
    }
}

/// Compares the clocks until nobody waits.
async fn look(inner: Weak<Inner>) {
    let mut known: Option<(i64, Instant)> = None;
    loop {
        {
            let Some(inner) = inner.upgrade() else { return };
            inner.looks.fetch_add(1, Ordering::Relaxed);
            let (wall, monotonic) = (inner.clock.now(), Instant::now());
            let (from, since) = *known.get_or_insert((wall, monotonic));
            let passed = i64::try_from(monotonic.duration_since(since).as_millis());
            let expected = from.saturating_add(passed.unwrap_or(i64::MAX));
            if wall.saturating_sub(expected).saturating_abs() >= STEP {
                known = Some((wall, monotonic));
                inner.stepped.send_modify(|steps| *steps += 1);
            }
            let mut waiters = lock(&inner.waiters);
            if waiters.count == 0 {
                waiters.looking = false;
                return;
            }
        }
        sleep(LOOK).await;
    }
}

fn lock(waiters: &Mutex<Waiters>) -> MutexGuard<'_, Waiters> {
    waiters.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Alarm")
            .field("waiters", &lock(&self.0.waiters).count)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::FakeClock;

    const NOW: i64 = 1_800_000_000_000;

    fn alarm() -> (Alarm, Arc<FakeClock>) {
        let clock = Arc::new(FakeClock::at(NOW));
        (Alarm::new(clock.clone()), clock)
    }

    #[tokio::test(start_paused = true)]
    async fn it_waits_until_the_instant_and_no_longer_than_a_timer_needs() {
        let (alarm, clock) = alarm();
        alarm.reached(i64::MIN).await;
        alarm.reached(NOW).await;
        assert_eq!(clock.now(), NOW);
        for at in [NOW + 1, NOW + 999, NOW + 1_500, NOW + 200_000_000] {
            alarm.reached(at).await;
            assert!((at..=at + 1).contains(&clock.now()), "{at}");
        }
    }

    /// FC-101: a step of the clock is noticed within a second, and nobody is early.
    #[tokio::test(start_paused = true)]
    async fn a_step_of_the_clock_is_noticed_within_a_second() {
        let (alarm, clock) = alarm();
        let started = Instant::now();
        let waiting = tokio::spawn(alarm.reached(NOW + 7_200_000));
        sleep(Duration::from_millis(2_500)).await;
        clock.step(7_200_000);
        waiting.await.unwrap();
        let waited = started.elapsed();
        assert!(waited < Duration::from_millis(3_600), "{waited:?}");

        let due = clock.now() + 5_000;
        let waiting = tokio::spawn(alarm.reached(due));
        sleep(Duration::from_secs(1)).await;
        clock.step(-3_600_000);
        sleep(Duration::from_secs(60)).await;
        assert!(!waiting.is_finished(), "early by the clock");
        clock.step(3_600_000);
        let started = Instant::now();
        waiting.await.unwrap();
        assert!(started.elapsed() < Duration::from_millis(1_100));
        assert!(clock.now() >= due);
    }

    #[tokio::test(start_paused = true)]
    async fn many_waiters_are_one_look_a_second_and_none_is_no_look() {
        let (alarm, _) = alarm();
        let waiting: Vec<_> = (0..100)
            .map(|n| tokio::spawn(alarm.reached(NOW + 10_000 + n)))
            .collect();
        for waiting in waiting {
            waiting.await.unwrap();
        }
        assert!((10..=12).contains(&alarm.looks()), "{}", alarm.looks());
        let before = alarm.looks();
        sleep(Duration::from_secs(100)).await;
        assert!(alarm.looks() <= before + 1, "{}", alarm.looks());
        alarm.reached(NOW + 200_000).await;
        assert!(alarm.looks() > before + 50, "it looks again");
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_that_is_dropped_is_forgotten() {
        let (alarm, _) = alarm();
        let waiting = tokio::spawn(alarm.reached(i64::MAX));
        sleep(Duration::from_secs(5)).await;
        assert_eq!(lock(&alarm.0.waiters).count, 1);
        waiting.abort();
        let _ = waiting.await;
        assert_eq!(lock(&alarm.0.waiters).count, 0);
    }
}
