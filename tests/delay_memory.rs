//! Delayed records in memory, on a fake clock.

mod delay_support;

use delay_support::{WorkerRig, value};
use kafka_chain::clock::{Clock, FakeClock};
use kafka_chain::delay::conformance::store::{Store, StoreRig};
use kafka_chain::delay::conformance::{all_kept, sink, store};
use kafka_chain::delay::memory::MemoryStore;
use kafka_chain::delay::worker::WorkerOptions;
use kafka_chain::delay::{
    Claim, DelaySink, DelayStore, Delayed, Durability, Limits, Listing, MAX_INSTANT, When,
};
use kafka_chain::{BoxFuture, OutgoingRecord, Result};
use std::sync::Arc;
use std::time::Duration;

const START: i64 = 1_800_000_000_000;

fn clock() -> Arc<FakeClock> {
    Arc::new(FakeClock::at(START))
}

fn memory(clock: &Arc<FakeClock>) -> Arc<MemoryStore> {
    let clock: Arc<dyn Clock> = clock.clone();
    Arc::new(MemoryStore::with_clock(Limits::default(), clock).unwrap())
}

fn rig(clock: &Arc<FakeClock>) -> WorkerRig {
    let tolerance = Duration::from_millis(20);
    WorkerRig::start(
        memory(clock),
        clock.clone(),
        WorkerOptions::default(),
        tolerance,
        2,
    )
}

fn record(text: &str) -> OutgoingRecord {
    OutgoingRecord {
        topic: "topic".to_owned(),
        value: Some(text.to_owned().into()),
        ..OutgoingRecord::default()
    }
}

fn after(millis: u64, text: &str) -> Delayed {
    Delayed::new(When::After(Duration::from_millis(millis)), record(text))
}

struct Memory(Arc<FakeClock>);

impl StoreRig for Memory {
    fn fresh(&self, limits: Limits) -> BoxFuture<'_, Result<Arc<dyn Store>>> {
        let clock: Arc<dyn Clock> = self.0.clone();
        let store = MemoryStore::with_clock(limits, clock);
        Box::pin(async move { Ok(Arc::new(store?) as Arc<dyn Store>) })
    }
}

/// FC-090, FC-091, FC-092 and FC-098 as a store sees them.
#[tokio::test(start_paused = true)]
async fn the_memory_store_keeps_the_rules_of_stores() {
    let checked = store::check(&Memory(clock())).await;
    assert_eq!(checked.len(), 18);
    all_kept(&checked).unwrap();
}

/// FC-080, FC-081, FC-082 and FC-090 from end to end.
#[tokio::test(start_paused = true)]
async fn memory_and_worker_keep_the_rules_of_sinks() {
    let rig = rig(&clock());
    let checked = sink::check(&rig).await;
    assert_eq!(checked.len(), 8);
    all_kept(&checked).unwrap();
    assert_eq!(rig.early(), 0);
}

/// FC-082: 1,000 delays started anywhere in a millisecond.
#[tokio::test(start_paused = true)]
async fn no_delay_is_cut_short_by_a_part_of_a_millisecond() {
    let clock = clock();
    let rig = rig(&clock);
    let mut state = 12_345_u64;
    for _ in 0..1_000 {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        tokio::time::sleep(Duration::from_nanos(state >> 40)).await;
        let delay = Duration::from_micros((state >> 33) % 2_000_000);
        let started = tokio::time::Instant::now();
        let item = Delayed::new(When::After(delay), record("x"));
        rig.store.schedule(vec![item]).await.remove(0).unwrap();
        let arrived = rig.collector.wait(1, Duration::from_secs(3)).await;
        assert_eq!(arrived.len(), 1);
        let took = started.elapsed();
        assert!(took >= delay, "{took:?} instead of {delay:?}");
        assert!(
            took <= delay + Duration::from_millis(100),
            "{took:?} for {delay:?}"
        );
    }
}

/// FC-101: the clock steps back an hour while the worker sleeps, and forward again.
#[tokio::test(start_paused = true)]
async fn a_step_of_the_clock_is_noticed_within_one_sleep() {
    let clock = clock();
    let rig = rig(&clock);
    let due = rig
        .store
        .schedule(vec![after(5_000, "a")])
        .await
        .remove(0)
        .unwrap()
        .deliver_at;
    tokio::time::sleep(Duration::from_secs(2)).await;
    clock.step(-3_600_000);
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(rig.collector.wait(0, Duration::ZERO).await, []);
    let wakes = rig.wakes();
    tokio::time::sleep(Duration::from_secs(10)).await;
    // Two workers, one wake a second each.
    assert!((18..=22).contains(&(rig.wakes() - wakes)));
    clock.step(3_600_000);
    let arrived = rig.collector.wait(1, Duration::from_millis(1_100)).await;
    assert_eq!(arrived.len(), 1);
    assert!(arrived[0].at >= due);
    assert_eq!(rig.early(), 0);

    // Back while a record is due by the old time, but was not given out: it waits for the new.
    let store = memory(&clock);
    store.schedule(vec![after(0, "b"), after(10, "c")]).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    let claim = Claim {
        max: 1,
        lease: Duration::from_secs(5),
    };
    assert_eq!(store.due(claim).await.unwrap().items.len(), 1);
    clock.step(-60_000);
    let due = store.due(claim).await.unwrap();
    assert_eq!(due.items.len(), 0, "the lease runs on the monotonic clock");
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(
        store.due(claim).await.unwrap().items.len(),
        0,
        "b waits for its time again"
    );
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(value(&store.due(claim).await.unwrap().items[0].record), "b");
}

#[tokio::test(start_paused = true)]
async fn an_idle_worker_wakes_once_a_second() {
    let rig = rig(&clock());
    rig.store.schedule(vec![after(3_600_000, "far")]).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let wakes = rig.wakes();
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert!(
        (198..=202).contains(&(rig.wakes() - wakes)),
        "of two workers"
    );
}

/// FC-081: the far end of the range, and a clock that is far off.
#[tokio::test(start_paused = true)]
async fn the_farthest_instants_neither_wrap_nor_come_early() {
    let limits = Limits {
        max_delay: Duration::from_secs(36_525 * 86_400),
        ..Limits::default()
    };
    for start in [
        0,
        START,
        MAX_INSTANT - 1_000_000_000,
        MAX_INSTANT,
        i64::MAX,
        i64::MIN,
    ] {
        let clock = Arc::new(FakeClock::at(start));
        let store = MemoryStore::with_clock(limits.clone(), clock.clone()).unwrap();
        let batch = vec![
            Delayed::new(When::After(limits.max_delay), record("far")),
            Delayed::new(When::At(MAX_INSTANT), record("last")),
            Delayed::new(When::At(i64::MAX), record("never")),
        ];
        let answers = store.schedule(batch).await;
        assert!(answers[2].is_err());
        let claim = Claim {
            max: 256,
            lease: Duration::from_secs(1),
        };
        let due = store.due(claim).await.unwrap();
        for item in &due.items {
            assert!(
                item.deliver_at <= clock.now(),
                "{} at {start}",
                item.deliver_at
            );
        }
        for answer in answers.into_iter().flatten() {
            assert!((0..=MAX_INSTANT).contains(&answer.deliver_at));
        }
    }
}

#[tokio::test]
async fn memory_says_what_it_loses_and_shows_no_payload() {
    let store = MemoryStore::new(Limits::default()).unwrap();
    assert_eq!(store.durability(), Durability::Process);
    assert_eq!(
        store.durability().to_string(),
        "lost when this process ends"
    );
    store.schedule(vec![after(5, "secret")]).await;
    assert!(!format!("{store:?} {:?}", after(5, "secret")).contains("secret"));
    let none = Limits {
        capacity: 0,
        ..Limits::default()
    };
    assert!(MemoryStore::new(none).is_err());
    let page = kafka_chain::delay::DelayAdmin::list(
        &store,
        Listing {
            listed: Default::default(),
            after: None,
            limit: 0,
        },
    );
    assert_eq!(page.await.unwrap().items.len(), 1);
}
