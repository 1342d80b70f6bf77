//! Claim, publish, finish: the worker over a store in memory, on a fake clock.

mod delay_support;

use delay_support::{Collector, away, value};
use kafka_chain::clock::{Clock, FakeClock};
use kafka_chain::delay::memory::MemoryStore;
use kafka_chain::delay::worker::{
    DeliveryObserver, ID_HEADER, Worker, WorkerCounts, WorkerOptions,
};
use kafka_chain::delay::{
    Claim, Claimed, DelayAdmin, DelayId, DelaySink, DelayStore, Delayed, Due, Durability, Finished,
    Lease, Limits, Listed, Listing, OnDuplicate, Receipt, Release, Released, When,
};
use kafka_chain::transport::Delivered;
use kafka_chain::{BoxFuture, Error, ErrorKind, Headers, OutgoingRecord, Result};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinHandle;

const START: i64 = 1_800_000_000_000;

struct Scene {
    store: Arc<MemoryStore>,
    collector: Arc<Collector>,
    told: Arc<Told>,
}

fn scene(limits: Limits) -> Scene {
    let clock: Arc<dyn Clock> = Arc::new(FakeClock::at(START));
    Scene {
        store: Arc::new(MemoryStore::with_clock(limits, Arc::clone(&clock)).unwrap()),
        collector: Collector::new(clock),
        told: Arc::default(),
    }
}

/// What the observer was told, a line each.
#[derive(Default)]
struct Told(Mutex<Vec<String>>);

impl Told {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl DeliveryObserver for Told {
    fn delivered(&self, record: &Claimed, _: Delivered) {
        let line = format!("{} delivered", value(&record.record));
        self.0.lock().unwrap().push(line);
    }

    fn failed(&self, record: &Claimed, error: &Error, released: Released) {
        let released = match released {
            Released::Waiting(at) => format!("waits {} ms", at - START),
            other => format!("{other:?}"),
        };
        let line = format!("{} {} {released}", value(&record.record), error.kind());
        self.0.lock().unwrap().push(line);
    }

    fn store_failed(&self, error: &Error) {
        self.0
            .lock()
            .unwrap()
            .push(format!("store {}", error.kind()));
    }
}

impl Scene {
    fn worker(&self, options: WorkerOptions) -> Worker<Arc<MemoryStore>, Arc<Collector>> {
        let told: Arc<Told> = Arc::clone(&self.told);
        Worker::new(
            Arc::clone(&self.store),
            Arc::clone(&self.collector),
            options,
        )
        .observed_by(told)
    }

    fn run(&self, options: WorkerOptions) -> (JoinHandle<Result<()>>, Arc<WorkerCounts>) {
        let worker = self.worker(options);
        let counts = worker.counts();
        let run = async move { worker.run(std::future::pending()).await };
        (tokio::spawn(run), counts)
    }

    async fn put(&self, millis: u64, text: &str) {
        let item = after(millis, text);
        self.store.schedule(vec![item]).await.remove(0).unwrap();
    }

    async fn held(&self) -> [u64; 3] {
        let stats = self.store.stats().await.unwrap();
        [stats.waiting, stats.in_flight, stats.dead]
    }
}

fn after(millis: u64, text: &str) -> Delayed {
    let record = OutgoingRecord {
        topic: "topic".to_owned(),
        value: Some(text.to_owned().into()),
        ..OutgoingRecord::default()
    };
    Delayed::new(When::After(Duration::from_millis(millis)), record)
}

async fn pass(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}

fn load(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

/// FC-092, its last part: the sink is away for a minute.
#[tokio::test(start_paused = true)]
async fn an_outage_of_the_sink_costs_no_attempts_and_is_not_hammered() {
    let scene = scene(Limits {
        max_attempts: 2,
        ..Limits::default()
    });
    let calls = Arc::new(AtomicU32::new(0));
    let called = Arc::clone(&calls);
    scene.collector.fails_with(move |_| {
        called.fetch_add(1, Ordering::Relaxed);
        Err(away())
    });
    let (run, counts) = scene.run(WorkerOptions::default());
    scene.put(0, "a").await;
    scene.put(0, "b").await;
    pass(60_000).await;
    assert_eq!(scene.held().await[2], 0, "none is dead");
    // 0.1 s doubled up to 10 s: 7 waits come to 12.7 s, then 4 of 10 s fit, each found up to 1 s later.
    let calls = calls.load(Ordering::Relaxed);
    assert!((18..=26).contains(&calls), "{calls} calls for two records");
    scene.collector.recovers();
    let values = scene.collector.values(2, Duration::from_secs(11)).await;
    assert_eq!(values.len(), 2);
    pass(1).await;
    assert_eq!(scene.held().await, [0, 0, 0]);
    assert_eq!(load(&counts.delivered), 2);
    assert_eq!(load(&counts.failed), u64::from(calls));

    // The next outage begins with short waits again: 0.1, 0.2, 0.4 s.
    let again = Arc::new(AtomicU32::new(0));
    let called = Arc::clone(&again);
    scene.collector.fails_with(move |_| {
        called.fetch_add(1, Ordering::Relaxed);
        Err(away())
    });
    scene.put(0, "c").await;
    pass(1_000).await;
    assert_eq!(again.load(Ordering::Relaxed), 4);
    run.abort();
}

#[tokio::test(start_paused = true)]
async fn a_record_that_fails_alone_holds_up_no_other_for_long() {
    let scene = scene(Limits::default());
    scene
        .collector
        .fails_with(|record| match value(record).as_str() {
            "never" => Err(Error::schema("the record is too large")),
            "poison" => Err(away()),
            _ => Ok(()),
        });
    let (run, counts) = scene.run(WorkerOptions::default());
    scene.put(0, "poison").await;
    pass(30_000).await;
    let now = START + 30_000;
    scene.put(0, "never").await;
    scene.put(0, "good").await;
    let arrived = scene.collector.wait(1, Duration::from_secs(5)).await;
    assert_eq!(value(&arrived[0].record), "good");
    assert!(
        arrived[0].at <= now + 1_001,
        "{} ms late",
        arrived[0].at - now
    );
    pass(1).await;
    assert_eq!(scene.held().await, [1, 0, 1]);
    let told = scene.told.take();
    assert!(told.contains(&"never schema Dead".to_owned()), "{told:?}");
    assert_eq!(load(&counts.early), 0);
    run.abort();
}

#[tokio::test(start_paused = true)]
async fn attempts_that_fail_while_others_succeed_count() {
    let scene = scene(Limits {
        max_attempts: 3,
        ..Limits::default()
    });
    scene
        .collector
        .fails_with(|record| match value(record).as_str() {
            "poison" => Err(away()),
            _ => Ok(()),
        });
    let worker = scene.worker(WorkerOptions::default());
    scene.put(0, "poison").await;
    for attempt in 1..=3 {
        scene.put(0, "good").await;
        pass(1_000).await;
        let turn = worker.turn().await.unwrap();
        assert_eq!(
            (turn.claimed, turn.delivered, turn.outage),
            (2, 1, false),
            "{attempt}"
        );
    }
    assert_eq!(scene.held().await, [0, 0, 1]);
    let listing = Listing {
        listed: Listed::Dead,
        after: None,
        limit: 1,
    };
    let page = scene.store.list(listing).await.unwrap();
    let reason = page.items[0].1.as_deref().unwrap();
    assert!(reason.contains("the broker is away"), "{reason}");
    let told = scene.told.take();
    let poison: Vec<_> = told
        .iter()
        .filter(|line| line.starts_with("poison"))
        .collect();
    assert_eq!(
        poison,
        [
            "poison unavailable waits 1100 ms",
            "poison unavailable waits 2200 ms",
            "poison unavailable Dead"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_wiring_mistake_ends_the_worker_and_the_records_wait() {
    let scene = scene(Limits::default());
    scene
        .collector
        .fails_with(|_| Err(Error::config("no such producer")));
    scene.put(0, "a").await;
    pass(1).await;
    let (run, _) = scene.run(WorkerOptions::default());
    let error = run.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert_eq!(scene.held().await, [1, 0, 0]);

    let options = WorkerOptions {
        batch: 257,
        ..WorkerOptions::default()
    };
    let error = scene.worker(options).turn().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
}

#[tokio::test(start_paused = true)]
async fn a_slow_sink_keeps_its_leases_and_a_hanging_one_loses_them() {
    let scene = scene(Limits::default());
    let options = WorkerOptions {
        lease: Duration::from_secs(3),
        publish_limit: Duration::from_secs(60),
        ..WorkerOptions::default()
    };
    let (first, counts) = scene.run(options.clone());
    let (second, _) = scene.run(options);
    *scene.collector.takes.lock().unwrap() = Duration::from_secs(50);
    scene.put(0, "slow").await;
    assert_eq!(
        scene.collector.values(2, Duration::from_secs(100)).await,
        ["slow"]
    );
    assert_eq!(scene.held().await, [0, 0, 0]);
    *scene.collector.takes.lock().unwrap() = Duration::from_secs(3_600);
    scene.put(0, "hangs").await;
    pass(59_000).await;
    assert_eq!(scene.store.stats().await.unwrap().expired, 0);
    *scene.collector.takes.lock().unwrap() = Duration::ZERO;
    assert_eq!(
        scene.collector.values(1, Duration::from_secs(30)).await,
        ["hangs"]
    );
    pass(1).await;
    assert_eq!(scene.held().await, [0, 0, 0]);
    assert_eq!(load(&counts.early) + load(&counts.stale), 0);
    first.abort();
    second.abort();
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_stopped_finishes_the_batch_in_hand() {
    let scene = scene(Limits::default());
    *scene.collector.takes.lock().unwrap() = Duration::from_secs(5);
    scene.put(0, "a").await;
    pass(1).await;
    let worker = scene.worker(WorkerOptions::default());
    worker.run(pass(1_000)).await.unwrap();
    assert_eq!(scene.collector.values(1, Duration::ZERO).await, ["a"]);
    assert_eq!(scene.held().await, [0, 0, 0]);
    assert_eq!(scene.told.take(), ["a delivered"]);
}

#[tokio::test(start_paused = true)]
async fn a_record_carries_its_id_once_and_nothing_else_is_touched() {
    let scene = scene(Limits::default());
    let mut item = after(0, "a").with_id(DelayId::new("order-7").unwrap(), OnDuplicate::Refuse);
    item.record.headers = [("a", Some("1")), (ID_HEADER, Some("old")), ("a", None)]
        .into_iter()
        .collect::<Headers>();
    item.record.partition = Some(3);
    item.record.timestamp = Some(77);
    let sent = item.record.clone();
    scene
        .store
        .schedule(vec![item.clone()])
        .await
        .remove(0)
        .unwrap();
    pass(1).await;
    scene.worker(WorkerOptions::default()).turn().await.unwrap();
    let mut expected = sent.clone();
    expected.headers = [("a", Some("1")), ("a", None), (ID_HEADER, Some("order-7"))]
        .into_iter()
        .collect::<Headers>();
    assert_eq!(
        scene.collector.wait(1, Duration::ZERO).await[0].record,
        expected
    );

    scene.store.schedule(vec![item]).await.remove(0).unwrap();
    pass(1).await;
    let options = WorkerOptions {
        id_header: None,
        ..WorkerOptions::default()
    };
    scene.worker(options).turn().await.unwrap();
    assert_eq!(
        scene.collector.wait(1, Duration::ZERO).await[0].record,
        sent
    );
}

/// A store with faults: it gives out what is not due, or does not answer.
struct Faulty {
    store: Arc<MemoryStore>,
    early_by: i64,
    completes_fail: AtomicU32,
    down: AtomicBool,
}

impl DelaySink for Faulty {
    fn schedule(&self, batch: Vec<Delayed>) -> BoxFuture<'_, Vec<Result<Receipt>>> {
        self.store.schedule(batch)
    }

    fn durability(&self) -> Durability {
        self.store.durability()
    }
}

impl DelayStore for Faulty {
    fn due(&self, claim: Claim) -> BoxFuture<'_, Result<Due>> {
        Box::pin(async move {
            if self.down.load(Ordering::Relaxed) {
                return Err(Error::unavailable("the store is away"));
            }
            let mut due = self.store.due(claim).await?;
            due.now -= self.early_by;
            Ok(due)
        })
    }

    fn complete(&self, leases: Vec<Lease>) -> BoxFuture<'_, Result<Vec<Finished>>> {
        let left = self.completes_fail.load(Ordering::Relaxed);
        if left > 0 {
            self.completes_fail.store(left - 1, Ordering::Relaxed);
            return Box::pin(async { Err(Error::unavailable("the store is away")) });
        }
        self.store.complete(leases)
    }

    fn release(&self, releases: Vec<Release>) -> BoxFuture<'_, Result<Vec<Released>>> {
        self.store.release(releases)
    }

    fn extend(&self, leases: Vec<Lease>, by: Duration) -> BoxFuture<'_, Result<Vec<Finished>>> {
        self.store.extend(leases, by)
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_that_a_store_gives_out_early_is_held_back_and_counted() {
    let scene = scene(Limits::default());
    let store = Faulty {
        store: Arc::clone(&scene.store),
        early_by: 500,
        completes_fail: AtomicU32::new(0),
        down: AtomicBool::new(false),
    };
    scene.put(100, "a").await;
    pass(100).await;
    let worker = Worker::new(
        store,
        Arc::clone(&scene.collector),
        WorkerOptions::default(),
    );
    let turn = worker.turn().await.unwrap();
    assert_eq!((turn.claimed, turn.delivered), (1, 0));
    assert_eq!(load(&worker.counts().early), 1);
    assert_eq!(scene.collector.wait(0, Duration::ZERO).await, []);
    assert_eq!(scene.held().await, [1, 0, 0]);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_answer_is_tried_again() {
    let scene = scene(Limits::default());
    let store = Arc::new(Faulty {
        store: Arc::clone(&scene.store),
        early_by: 0,
        completes_fail: AtomicU32::new(3),
        down: AtomicBool::new(true),
    });
    scene.put(0, "a").await;
    let told: Arc<Told> = Arc::clone(&scene.told);
    let collector = Arc::clone(&scene.collector);
    let worker = Worker::new(Arc::clone(&store), collector, WorkerOptions::default());
    let worker = worker.observed_by(told);
    let counts = worker.counts();
    let run = tokio::spawn(async move { worker.run(std::future::pending()).await });
    pass(1_000).await;
    // After 0, 100, 300 and 700 ms.
    assert_eq!(scene.told.take(), ["store unavailable"; 4]);
    store.down.store(false, Ordering::Relaxed);
    pass(5_000).await;
    // Written once, though it took four tries to finish.
    assert_eq!(scene.collector.values(2, Duration::ZERO).await, ["a"]);
    assert_eq!(scene.held().await, [0, 0, 0]);
    assert_eq!((load(&counts.delivered), load(&counts.stale)), (1, 0));
    run.abort();
}
