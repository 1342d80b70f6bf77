//! What is to be seen of a worker: its gauge, and stalls.

use crate::support::{Log, Rig, Script, attempts, millis, orders, record, secs, settings};
use kafka_chain::clock::FakeClock;
use kafka_chain::delay::alarm::Alarm;
use kafka_chain::pipeline::observe::{PartitionHealth, Stall, StallWatch};
use kafka_chain::pipeline::{Gate, Order, SharedGate, WorkerSettings};
use kafka_chain::{BoxFuture, Error, Record};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

fn seen(rig: &Rig) -> PartitionHealth {
    PartitionHealth::of(&rig.gauge, None, Instant::now())
}

/// A handler that stops at `stuck` until it is let go.
fn stopping_at(stuck: i64) -> (Script, Arc<Notify>) {
    let go = Arc::new(Notify::new());
    let waits = Arc::clone(&go);
    let script = Script::new(move |offset, _| {
        let waits = Arc::clone(&waits);
        async move {
            if offset == stuck {
                waits.notified().await;
            }
            Ok(())
        }
    });
    (script, go)
}

#[tokio::test(start_paused = true)]
async fn a_gauge_shows_what_its_worker_does() {
    let (script, go) = stopping_at(40);
    let log = Log::of(0..50);
    let rig = Rig::start(&log, &script, settings());
    sleep(millis(10)).await;
    let health = seen(&rig);
    let oldest = health.oldest_in_flight.unwrap();
    assert_eq!((oldest.offset, oldest.age), (40, secs(0)));
    assert_eq!((health.in_flight, health.uncommitted), (1, 10));
    assert!(health.bytes >= 10 * 128, "{health:?}");
    assert_eq!((health.paused, health.user_paused), (None, false));

    sleep(secs(30)).await;
    assert_eq!(seen(&rig).oldest_in_flight.unwrap().age, secs(30));
    rig.control.pause();
    sleep(millis(10)).await;
    assert!(seen(&rig).user_paused);
    go.notify_one();
    sleep(millis(10)).await;
    let health = seen(&rig);
    assert_eq!(health.oldest_in_flight.unwrap().offset, 41);
    assert_eq!((health.in_flight, health.uncommitted), (0, 9));
    rig.control.resume();
    sleep(millis(10)).await;
    let health = seen(&rig);
    assert_eq!((health.oldest_in_flight, health.bytes), (None, 0));
    assert_eq!((health.in_flight, health.uncommitted), (0, 0));
    assert!(!health.user_paused);
}

#[tokio::test(start_paused = true)]
async fn a_gauge_shows_why_its_partition_pauses() {
    let is_out = Arc::new(AtomicBool::new(true));
    let out = Arc::clone(&is_out);
    let script = Script::new(move |_, _| {
        let is_out = out.load(Ordering::SeqCst);
        async move {
            match is_out {
                true => Err(Error::unavailable("out")),
                false => Ok(()),
            }
        }
    });
    let once = WorkerSettings {
        attempts: attempts(1, secs(1)),
        ..settings()
    };
    let rig = Rig::start(&Log::of(0..5), &script, once);
    sleep(secs(3)).await;
    let health = seen(&rig);
    assert_eq!(
        health.paused.map(|reason| reason.as_str()),
        Some("temporary")
    );
    assert_eq!(health.oldest_in_flight.unwrap().offset, 0);
    is_out.store(false, Ordering::SeqCst);
    sleep(secs(3)).await;
    assert_eq!(seen(&rig).paused, None);
    assert_eq!(rig.mark.get(), Some(5));
}

fn stall(offset: i64, seconds: u64, is_over: bool) -> (i64, u64, bool) {
    (offset, seconds, is_over)
}

fn told(stalls: &[Stall]) -> Vec<(i64, u64, bool)> {
    assert!(stalls.iter().all(|stall| stall.partition == orders()));
    stalls
        .iter()
        .map(|told| stall(told.offset, told.age.as_secs(), told.is_over))
        .collect()
}

/// Looks once a second.
async fn watch(rig: &Rig, watch: &mut StallWatch, seconds: u64) -> Vec<(i64, u64, bool)> {
    let mut all = Vec::new();
    for _ in 0..seconds {
        sleep(secs(1)).await;
        let gauges = [rig.gauge.clone()];
        all.extend(watch.check(Instant::now(), &gauges));
    }
    told(&all)
}

/// A stuck handler costs no rebalance, so nothing else would tell of it.
#[tokio::test(start_paused = true)]
async fn a_stall_is_told_once_and_when_it_ends() {
    let (script, go) = stopping_at(3);
    let rig = Rig::start(&Log::of(0..6), &script, settings());
    let mut stalls = StallWatch::new(secs(60));
    assert_eq!(watch(&rig, &mut stalls, 60).await, []);
    assert_eq!(watch(&rig, &mut stalls, 600).await, [stall(3, 60, false)]);
    go.notify_one();
    assert_eq!(watch(&rig, &mut stalls, 60).await, [stall(3, 660, true)]);
    assert_eq!(rig.mark.get(), Some(6));
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_gets_on_slowly_is_not_stalled() {
    let script = Script::new(|_, _| async {
        sleep(secs(50)).await;
        Ok(())
    });
    let rig = Rig::start(&Log::of(0..10), &script, settings());
    let mut stalls = StallWatch::new(secs(60));
    assert_eq!(watch(&rig, &mut stalls, 600).await, []);
    assert_eq!(rig.mark.get(), Some(10));
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_is_gone_is_stalled_no_longer() {
    let (script, _go) = stopping_at(0);
    let rig = Rig::start(&Log::of(0..1), &script, settings());
    let mut stalls = StallWatch::new(secs(10));
    assert_eq!(watch(&rig, &mut stalls, 20).await, [stall(0, 10, false)]);
    let over = stalls.check(Instant::now(), &[]);
    assert_eq!(told(&over), [stall(0, 19, true)]);
    assert!(stalls.check(Instant::now(), &[]).is_empty());
}

/// A pause has its own event, and a probe its own tries: it is no stall, and the time in it does not
/// count towards one.
#[tokio::test(start_paused = true)]
async fn a_partition_that_pauses_is_not_stalled() {
    let (script, go) = stopping_at(1);
    let failing = Script::new(|_, _| async { Err(Error::unavailable("out")) });
    let once = || WorkerSettings {
        attempts: attempts(1, secs(1)),
        ..settings()
    };
    let paused = Rig::start(&Log::of(0..5), &failing, once());
    let mut stalls = StallWatch::new(secs(60));
    assert_eq!(watch(&paused, &mut stalls, 600).await, []);

    let by_user = Rig::start(&Log::of(0..5), &script, once());
    let mut stalls = StallWatch::new(secs(60));
    assert_eq!(watch(&by_user, &mut stalls, 30).await, []);
    by_user.control.pause();
    assert_eq!(watch(&by_user, &mut stalls, 600).await, []);
    by_user.control.resume();
    assert_eq!(watch(&by_user, &mut stalls, 50).await, []);
    assert_eq!(
        watch(&by_user, &mut stalls, 50).await,
        [stall(1, 60, false)]
    );
    go.notify_one();
    assert_eq!(watch(&by_user, &mut stalls, 2).await.len(), 1);
}

struct Later(Alarm);

const NOW: i64 = 1_800_000_000_000;

impl Gate for Later {
    fn opens_at(&self, record: &Record<'_>) -> Option<i64> {
        (record.offset == 0).then_some(NOW + 3_600_000)
    }

    fn now(&self) -> i64 {
        self.0.clock().now()
    }

    fn reached(&self, at: i64) -> BoxFuture<'static, ()> {
        self.0.reached(at)
    }
}

/// FC-101, as far as it is the pipeline's: steps of the wall clock change no age, and what waits for
/// its time is not stalled.
#[tokio::test(start_paused = true)]
async fn what_waits_for_its_time_is_not_stalled_whatever_the_clock_does() {
    let clock = Arc::new(FakeClock::at(NOW));
    let settings = WorkerSettings {
        gate: Some(SharedGate::new(Later(Alarm::new(clock.clone())))),
        order: Order::Unordered,
        ..settings()
    };
    let log = Log::default();
    for offset in 0..3 {
        log.append(record(offset, None, "null"));
    }
    let (script, go) = stopping_at(0);
    let rig = Rig::start(&log, &script, settings);
    let mut stalls = StallWatch::new(secs(60));
    assert_eq!(watch(&rig, &mut stalls, 1200).await, []);
    clock.step(-7_200_000);
    assert_eq!(watch(&rig, &mut stalls, 1200).await, []);
    let age = seen(&rig).oldest_in_flight.unwrap().age;
    assert_eq!(age.as_secs(), 2399);
    clock.step(7_200_000 + 3_600_000);
    let told = watch(&rig, &mut stalls, 120).await;
    assert!(matches!(told[..], [(0, 60, false)]), "{told:?}");
    go.notify_one();
    assert_eq!(watch(&rig, &mut stalls, 2).await.len(), 1);
    assert_eq!(rig.mark.get(), Some(3));
}
