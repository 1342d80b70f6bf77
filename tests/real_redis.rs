//! Delayed records in a real Redis.
#![cfg(feature = "redis")]

mod delay_support;
#[path = "support/real.rs"]
mod real;

use delay_support::{Collector, WorkerRig, away, value};
use kafka_chain::clock::{Clock, SystemClock};
use kafka_chain::delay::conformance::store::{Store, StoreRig};
use kafka_chain::delay::conformance::{all_kept, sink, store};
use kafka_chain::delay::redis::{RedisOptions, RedisStore};
use kafka_chain::delay::worker::{ID_HEADER, Worker, WorkerOptions};
use kafka_chain::delay::{
    Claim, DelayAdmin, DelayId, DelaySink, DelayStore, Delayed, Durability, Limits, OnDuplicate,
    When,
};
use kafka_chain::{BoxFuture, ErrorKind, OutgoingRecord, Result};
use redis::aio::MultiplexedConnection;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{RwLock, RwLockReadGuard};

/// Held to read by every test but the one that changes what Redis says about itself.
static SETTINGS: RwLock<()> = RwLock::const_new(());
static MADE: AtomicU32 = AtomicU32::new(0);

struct Redis {
    url: String,
    _settings: RwLockReadGuard<'static, ()>,
}

async fn redis() -> Option<Redis> {
    let url = real::redis()?;
    let _settings = SETTINGS.read().await;
    Some(Redis { url, _settings })
}

impl Redis {
    fn options(&self) -> RedisOptions {
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let queue = format!("test-{}-{number}", std::process::id());
        RedisOptions::new(&self.url, queue)
    }

    async fn store(&self) -> Arc<RedisStore> {
        Arc::new(RedisStore::connect(self.options()).await.unwrap())
    }

    async fn admin(&self) -> MultiplexedConnection {
        let client = redis::Client::open(self.url.as_str()).unwrap();
        client.get_multiplexed_async_connection().await.unwrap()
    }

    async fn forget(&self, store: &RedisStore) {
        let mut admin = self.admin().await;
        let _: () = redis::cmd("DEL")
            .arg(store.keys())
            .query_async(&mut admin)
            .await
            .unwrap();
    }
}

impl StoreRig for Redis {
    fn fresh(&self, limits: Limits) -> BoxFuture<'_, Result<Arc<dyn Store>>> {
        Box::pin(async move {
            let options = RedisOptions {
                limits,
                ..self.options()
            };
            Ok(Arc::new(RedisStore::connect(options).await?) as Arc<dyn Store>)
        })
    }
}

fn rig(store: &Arc<RedisStore>, options: WorkerOptions, number: usize) -> WorkerRig {
    let late = Duration::from_secs(3);
    WorkerRig::start(store.clone(), Arc::new(SystemClock), options, late, number)
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

/// FC-090, FC-091 and FC-092 as a store sees them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_keeps_the_rules_of_stores() {
    let Some(redis) = redis().await else { return };
    let checked = store::check(&redis).await;
    assert_eq!(checked.len(), 18);
    all_kept(&checked).unwrap();
}

/// FC-080, FC-081, FC-082 and FC-090 from end to end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_and_workers_keep_the_rules_of_sinks() {
    let Some(redis) = redis().await else { return };
    let store = redis.store().await;
    let options = WorkerOptions {
        lease: Duration::from_secs(2),
        ..WorkerOptions::default()
    };
    let rig = rig(&store, options, 3);
    let checked = sink::check(&rig).await;
    assert_eq!(checked.len(), 8);
    all_kept(&checked).unwrap();
    assert_eq!(rig.early(), 0);
    assert_eq!(store.stats().await.unwrap().early, 0);
    drop(rig);
    redis.forget(&store).await;
}

/// FC-091: eight workers, each record delivered once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_workers_deliver_each_record_once() {
    let Some(redis) = redis().await else { return };
    let store = redis.store().await;
    let batch: Vec<_> = (0..1_000).map(|n| after(300, &n.to_string())).collect();
    for answer in store.schedule(batch).await {
        answer.unwrap();
    }
    let options = WorkerOptions {
        batch: 16,
        ..WorkerOptions::default()
    };
    let rig = rig(&store, options, 8);
    let arrivals = rig.collector.wait(1_001, Duration::from_secs(3)).await;
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for arrival in &arrivals {
        *counts.entry(value(&arrival.record)).or_default() += 1;
    }
    assert_eq!((counts.len(), arrivals.len()), (1_000, 1_000));
    drop(rig);
    redis.forget(&store).await;
}

/// FC-092: killed after the claim; killed between the report and the removal; the broker away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_dies_loses_nothing() {
    let Some(redis) = redis().await else { return };
    let store = redis.store().await;
    let options = WorkerOptions {
        lease: Duration::from_millis(600),
        poll: Duration::from_millis(200),
        ..WorkerOptions::default()
    };
    let collector = Collector::new(Arc::new(SystemClock));
    *collector.takes.lock().unwrap() = Duration::from_secs(60);
    let worker = Worker::new(Arc::clone(&store), Arc::clone(&collector), options.clone());
    store
        .schedule(vec![after(0, "before the report")])
        .await
        .remove(0)
        .unwrap();
    let run = tokio::spawn(async move { worker.run(std::future::pending()).await });
    while store.stats().await.unwrap().in_flight == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    run.abort();

    // What a worker does until it has the report.
    store
        .schedule(vec![after(0, "before the removal")])
        .await
        .remove(0)
        .unwrap();
    let mut claimed = Vec::new();
    while claimed.is_empty() {
        let claim = Claim {
            max: 256,
            lease: options.lease,
        };
        claimed = store.due(claim).await.unwrap().items;
    }
    let claimed = value(&claimed[0].record);
    assert_eq!(claimed, "before the removal");

    let rig = rig(&store, options, 2);
    let mut values = rig.collector.values(2, Duration::from_secs(10)).await;
    values.sort();
    assert_eq!(values, ["before the removal", "before the report"]);

    let down = Arc::new(AtomicBool::new(true));
    let is_down = Arc::clone(&down);
    rig.collector
        .fails_with(move |_| match is_down.load(Ordering::Relaxed) {
            true => Err(away()),
            false => Ok(()),
        });
    let batch = (0..500).map(|n| after(0, &n.to_string())).collect();
    store.schedule(batch).await;
    assert_eq!(rig.collector.wait(1, Duration::from_secs(3)).await, []);
    let stats = store.stats().await.unwrap();
    assert_eq!((stats.waiting + stats.in_flight, stats.dead), (500, 0));
    down.store(false, Ordering::Relaxed);
    assert_eq!(
        rig.collector.wait(500, Duration::from_secs(15)).await.len(),
        500
    );
    wait_until_empty(&store).await;
    drop(rig);
    redis.forget(&store).await;
}

async fn wait_until_empty(store: &RedisStore) {
    loop {
        let stats = store.stats().await.unwrap();
        if stats.waiting + stats.in_flight == 0 {
            assert_eq!(stats.dead, 0);
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// FC-096: the scripts are forgotten between two turns.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_that_redis_forgot_are_loaded_again() {
    let Some(redis) = redis().await else { return };
    let store = redis.store().await;
    let rig = rig(&store, WorkerOptions::default(), 1);
    let mut admin = redis.admin().await;
    for round in 0..5 {
        let text = round.to_string();
        store
            .schedule(vec![after(100, &text)])
            .await
            .remove(0)
            .unwrap();
        let _: () = redis::cmd("SCRIPT")
            .arg("FLUSH")
            .query_async(&mut admin)
            .await
            .unwrap();
        assert_eq!(
            rig.collector.values(1, Duration::from_secs(5)).await,
            [text]
        );
    }
    drop(rig);
    redis.forget(&store).await;
}

/// FC-098: 20,000 fall due together while another client pings.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_that_fall_due_together_block_no_other_client() {
    let Some(redis) = redis().await else { return };
    let store = redis.store().await;
    let at = When::At(SystemClock.now() + 2_000);
    let batch = (0..20_000)
        .map(|n| Delayed::new(at, record(&n.to_string())))
        .collect();
    for answer in store.schedule(batch).await {
        answer.unwrap();
    }
    let done = Arc::new(AtomicBool::new(false));
    let (mut admin, stop) = (redis.admin().await, Arc::clone(&done));
    let pings = tokio::spawn(async move {
        let mut waits = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            let began = Instant::now();
            let _: () = redis::cmd("PING").query_async(&mut admin).await.unwrap();
            waits.push(began.elapsed());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        waits
    });
    let rig = rig(&store, WorkerOptions::default(), 4);
    let arrivals = rig.collector.wait(20_000, Duration::from_secs(60)).await;
    assert_eq!(arrivals.len(), 20_000);
    wait_until_empty(&store).await;
    done.store(true, Ordering::Relaxed);
    let waits = pings.await.unwrap();
    println!("the longest PING took {:?}", waits.iter().max().unwrap());
    // What the server says, for on this machine the clients take its time away from each other.
    let mut admin = redis.admin().await;
    let slow: Vec<redis::Value> = redis::cmd("SLOWLOG")
        .arg("GET")
        .arg(128)
        .query_async(&mut admin)
        .await
        .unwrap();
    for entry in slow {
        let redis::Value::Array(fields) = entry else {
            panic!("{entry:?}")
        };
        let micros: u64 = redis::from_redis_value(fields[2].clone()).unwrap();
        let command: Vec<Vec<u8>> = redis::from_redis_value(fields[3].clone()).unwrap();
        let script = command[0].to_ascii_uppercase().starts_with(b"EVAL");
        assert!(!script || micros < 100_000, "a script took {micros} µs");
    }
    drop(rig);
    redis.forget(&store).await;
}

/// Between the store and Redis; what goes through can be cut.
struct Wire {
    address: std::net::SocketAddr,
    cut: Arc<AtomicBool>,
}

impl Wire {
    async fn to(url: &str) -> Wire {
        let server = url
            .trim_start_matches("redis://")
            .trim_end_matches('/')
            .to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let cut = Arc::new(AtomicBool::new(false));
        let is_cut = Arc::clone(&cut);
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                if is_cut.load(Ordering::Relaxed) {
                    continue;
                }
                let (server, is_cut) = (server.clone(), Arc::clone(&is_cut));
                tokio::spawn(async move {
                    let mut server = TcpStream::connect(server).await.unwrap();
                    let ended = async {
                        while !is_cut.load(Ordering::Relaxed) {
                            tokio::time::sleep(Duration::from_millis(5)).await;
                        }
                    };
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut client, &mut server) => {}
                        () = ended => {}
                    }
                });
            }
        });
        Wire { address, cut }
    }
}

/// FC-100: records fall due while Redis is out of reach, and no new ones come.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_fell_due_during_an_outage_is_delivered_after_it() {
    let Some(redis) = redis().await else { return };
    let wire = Wire::to(&redis.url).await;
    let options = RedisOptions {
        url: format!("redis://{}", wire.address),
        timeout: Duration::from_secs(1),
        ..redis.options()
    };
    let store = Arc::new(RedisStore::connect(options).await.unwrap());
    let batch = (0..5)
        .map(|n| after(500 + n * 200, &n.to_string()))
        .collect();
    for answer in store.schedule(batch).await {
        answer.unwrap();
    }
    let rig = rig(&store, WorkerOptions::default(), 2);
    wire.cut.store(true, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(rig.collector.wait(0, Duration::ZERO).await, []);
    let refused = store
        .schedule(vec![after(0, "lost?")])
        .await
        .remove(0)
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unavailable);
    wire.cut.store(false, Ordering::Relaxed);
    let mut values = rig.collector.values(5, Duration::from_secs(20)).await;
    values.sort();
    assert_eq!(values, ["0", "1", "2", "3", "4"]);
    wait_until_empty(&store).await;
    drop(rig);
    // Overdue when the process starts anew.
    store
        .schedule(vec![after(0, "overdue")])
        .await
        .remove(0)
        .unwrap();
    let rig = self::rig(&store, WorkerOptions::default(), 1);
    assert_eq!(
        rig.collector.values(1, Duration::from_secs(10)).await,
        ["overdue"]
    );
    drop(rig);
    redis.forget(&store).await;
}

/// FC-088, its part for stores: nothing of a queue expires.
#[tokio::test]
async fn all_keys_share_one_slot_and_none_expires() {
    let Some(redis) = redis().await else { return };
    let store = redis.store().await;
    let id = DelayId::new("dead").unwrap();
    let item = after(0, "x").with_id(id, OnDuplicate::Refuse);
    store
        .schedule(vec![item, after(60_000, "y"), after(0, "z")])
        .await;
    let claim = Claim {
        max: 256,
        lease: Duration::from_secs(60),
    };
    while store.due(claim).await.unwrap().items.is_empty() {}
    let mut admin = redis.admin().await;
    let tag = store.keys()[0]
        .split_inclusive('}')
        .next()
        .unwrap()
        .to_owned();
    assert!(tag.starts_with('{') && tag.ends_with('}'));
    let mut found = 0;
    for key in store.keys() {
        assert!(key.starts_with(&tag), "{key}");
        let ttl: i64 = redis::cmd("TTL")
            .arg(key)
            .query_async(&mut admin)
            .await
            .unwrap();
        // -1 is a key that does not expire, -2 is none.
        assert!(ttl < 0, "{key} expires in {ttl} s");
        found += u32::from(ttl == -1);
    }
    assert!(found >= 4);
    let keys: Vec<String> = redis::cmd("KEYS")
        .arg(format!("{tag}*"))
        .query_async(&mut admin)
        .await
        .unwrap();
    assert!(
        keys.iter().all(|key| store.keys().contains(key)),
        "{keys:?}"
    );
    redis.forget(&store).await;
}

#[tokio::test]
async fn a_record_scheduled_elsewhere_wakes_a_sleeping_worker() {
    let Some(redis) = redis().await else { return };
    let options = redis.options();
    let here = Arc::new(RedisStore::connect(options.clone()).await.unwrap());
    let there = RedisStore::connect(options).await.unwrap();
    let asleep = here.changed();
    there
        .schedule(vec![after(3_600_000, "far")])
        .await
        .remove(0)
        .unwrap();
    tokio::time::timeout(Duration::from_secs(5), asleep)
        .await
        .expect("no hint");
    redis.forget(&here).await;
}

#[tokio::test]
async fn a_broken_record_is_dead_and_holds_nothing_up() {
    let Some(redis) = redis().await else { return };
    let store = redis.store().await;
    let id = DelayId::new("broken").unwrap();
    let item = after(0, "x").with_id(id, OnDuplicate::Keep);
    store.schedule(vec![item, after(1, "good")]).await;
    let mut admin = redis.admin().await;
    let _: () = redis::cmd("HSET")
        .arg(&store.keys()[2])
        .arg("broken")
        .arg("no record")
        .query_async(&mut admin)
        .await
        .unwrap();
    let rig = rig(&store, WorkerOptions::default(), 1);
    let arrivals = rig.collector.wait(1, Duration::from_secs(5)).await;
    assert_eq!(value(&arrivals[0].record), "good");
    let id = arrivals[0]
        .record
        .headers
        .view()
        .get_last(ID_HEADER)
        .flatten()
        .unwrap()
        .len();
    assert_eq!(id, 22);
    while store.stats().await.unwrap().dead == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    drop(rig);
    redis.forget(&store).await;
}

/// What Redis says about itself is changed here and put back.
#[tokio::test]
async fn a_redis_that_evicts_is_refused_and_the_loss_is_told() {
    let Some(url) = real::redis() else { return };
    let _alone = SETTINGS.write().await;
    let client = redis::Client::open(url.as_str()).unwrap();
    let mut admin = client.get_multiplexed_async_connection().await.unwrap();
    let mut set = async |name: &str, value: &str| {
        let mut cmd = redis::cmd("CONFIG");
        let _: () = cmd
            .arg("SET")
            .arg(name)
            .arg(value)
            .query_async(&mut admin)
            .await
            .unwrap();
    };
    let connect = || RedisStore::connect(RedisOptions::new(&url, "settings"));
    set("maxmemory-policy", "allkeys-lru").await;
    let refused = connect().await;
    set("maxmemory-policy", "noeviction").await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Config);
    assert!(refused.message().contains("allkeys-lru"), "{refused}");
    assert!(!matches!(
        connect().await.unwrap().durability(),
        Durability::Unknown
    ));

    for (queue, namespace) in [("", "n"), ("a{b", "n"), ("q", "}")] {
        let options = RedisOptions {
            namespace: namespace.to_owned(),
            ..RedisOptions::new(&url, queue)
        };
        assert_eq!(
            RedisStore::connect(options).await.unwrap_err().kind(),
            ErrorKind::Config
        );
    }
    let options = RedisOptions::new("redis://:secret@[", "q");
    assert!(!format!("{options:?}").contains("secret"));
    let error = RedisStore::connect(options).await.unwrap_err();
    assert!(!format!("{error:#}").contains("secret"));
}
