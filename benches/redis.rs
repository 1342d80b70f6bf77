//! Claims and acknowledgements a second on the Redis at `REDIS_URL`, what other clients feel of
//! 1,000,000 records that fall due at once, and the same with the loop that people write first: all
//! that is due by `ZRANGEBYSCORE`, then one `ZREM` each. The queue is the benchmark's own, the rest
//! of the Redis stays as it is.

use kafka_chain::OutgoingRecord;
use kafka_chain::delay::redis::{RedisOptions, RedisStore};
use kafka_chain::delay::{
    Claim, DelayAdmin, DelaySink, DelayStore, Delayed, Limits, MAX_CLAIM, When,
};
use redis::aio::MultiplexedConnection;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const RECORDS: usize = 1_000_000;
/// The naive loop is measured on fewer, since it is slow.
const NAIVE: usize = 100_000;
const SECOND_WORKERS: [usize; 4] = [1, 2, 4, 8];

async fn open(url: &str) -> MultiplexedConnection {
    let client = redis::Client::open(url).expect("a URL");
    client
        .get_multiplexed_async_connection()
        .await
        .expect("a Redis")
}

/// The longest and the median wait of a client that pings every 2 ms until told to stop.
async fn ping(url: String, stop: Arc<AtomicBool>) -> (Duration, Duration) {
    let mut connection = open(&url).await;
    let mut waits = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let began = Instant::now();
        let _: () = redis::cmd("PING")
            .query_async(&mut connection)
            .await
            .expect("a PONG");
        waits.push(began.elapsed());
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    waits.sort();
    let at = |index: usize| waits.get(index).copied().unwrap_or_default();
    (at(waits.len().saturating_sub(1)), at(waits.len() / 2))
}

async fn pinged<T>(url: &str, work: impl Future<Output = T>) -> (T, Duration, Duration) {
    let stop = Arc::new(AtomicBool::new(false));
    let pings = tokio::spawn(ping(url.to_owned(), Arc::clone(&stop)));
    let answer = work.await;
    stop.store(true, Ordering::Relaxed);
    let (longest, median) = pings.await.expect("pings");
    (answer, longest, median)
}

async fn fill(store: &RedisStore, count: usize) -> Duration {
    let record = OutgoingRecord {
        topic: "orders".to_owned(),
        value: Some(vec![b'x'; 180].into()),
        ..OutgoingRecord::default()
    };
    let began = Instant::now();
    for start in (0..count).step_by(10_000) {
        let batch = vec![Delayed::new(When::At(0), record.clone()); 10_000.min(count - start)];
        for answer in store.schedule(batch).await {
            answer.expect("room");
        }
    }
    began.elapsed()
}

async fn drain(url: &str, options: &RedisOptions, workers: usize) -> u64 {
    let taken = Arc::new(AtomicU64::new(0));
    let mut running = Vec::new();
    for _ in 0..workers {
        let options = RedisOptions {
            url: url.to_owned(),
            ..options.clone()
        };
        let store = RedisStore::connect(options).await.expect("a store");
        let taken = Arc::clone(&taken);
        running.push(tokio::spawn(async move {
            let claim = Claim {
                max: MAX_CLAIM,
                lease: Duration::from_secs(60),
            };
            loop {
                let items = store.due(claim).await.expect("an answer").items;
                if items.is_empty() {
                    return;
                }
                let leases: Vec<_> = items.into_iter().map(|item| item.lease).collect();
                taken.fetch_add(leases.len() as u64, Ordering::Relaxed);
                store.complete(leases).await.expect("an answer");
            }
        }));
    }
    for worker in running {
        worker.await.expect("a worker");
    }
    taken.load(Ordering::Relaxed)
}

/// One checker: reads all that is due, sends each, removes each.
async fn naive(url: &str, key: &str) -> usize {
    let mut connection = open(url).await;
    let due: Vec<Vec<u8>> = redis::cmd("ZRANGEBYSCORE")
        .arg(key)
        .arg(0)
        .arg(1)
        .query_async(&mut connection)
        .await
        .expect("members");
    for member in &due {
        let mut cmd = redis::cmd("ZREM");
        let _: () = cmd
            .arg(key)
            .arg(member)
            .query_async(&mut connection)
            .await
            .expect("removed");
    }
    due.len()
}

#[tokio::main]
async fn main() {
    let Ok(url) = std::env::var("REDIS_URL") else {
        println!("SKIPPED: REDIS_URL is not set (scripts/rig redis-start DIR starts Redis)");
        return;
    };
    let options = RedisOptions {
        limits: Limits {
            capacity: 2 * RECORDS,
            ..Limits::default()
        },
        ..RedisOptions::new(&url, format!("bench-{}", std::process::id()))
    };
    let store = RedisStore::connect(options.clone()).await.expect("a store");
    let (_, longest, median) = pinged(&url, tokio::time::sleep(Duration::from_secs(2))).await;
    println!(
        "redis baseline ping_median_us={} ping_max_us={}",
        median.as_micros(),
        longest.as_micros()
    );

    for workers in SECOND_WORKERS {
        let (took, longest, _) = pinged(&url, fill(&store, RECORDS)).await;
        let rate = RECORDS as f64 / took.as_secs_f64();
        println!(
            "redis schedule rate={rate:.0} ping_max_us={}",
            longest.as_micros()
        );
        let began = Instant::now();
        let (taken, longest, _) = pinged(&url, drain(&url, &options, workers)).await;
        let rate = taken as f64 / began.elapsed().as_secs_f64();
        let each = taken as f64 / RECORDS as f64;
        println!(
            "redis drain workers={workers} rate={rate:.0} deliveries_each={each:.2} ping_max_us={} early={}",
            longest.as_micros(),
            store.stats().await.expect("stats").early,
        );
    }

    let key = format!("bench-{}-naive", std::process::id());
    let mut connection = open(&url).await;
    for start in (0..NAIVE).step_by(1_000) {
        let mut cmd = redis::cmd("ZADD");
        cmd.arg(&key);
        for n in start..start + 1_000 {
            cmd.arg(0).arg(format!("{n:0200}"));
        }
        let _: () = cmd.query_async(&mut connection).await.expect("added");
    }
    let began = Instant::now();
    let (taken, longest, _) = pinged(&url, naive(&url, &key)).await;
    let rate = taken as f64 / began.elapsed().as_secs_f64();
    println!(
        "redis naive rate={rate:.0} records={NAIVE} ping_max_us={}",
        longest.as_micros()
    );
    let mut cmd = redis::cmd("DEL");
    let _: () = cmd
        .arg(&key)
        .arg(store.keys())
        .query_async(&mut connection)
        .await
        .expect("deleted");
}
