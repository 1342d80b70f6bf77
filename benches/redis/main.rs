//! Claims and acknowledgements a second on the Redis at `REDIS_URL`, what other clients feel of
//! 1,000,000 records that fall due at once, and the same with the article's loop: all that is due by
//! `ZRANGEBYSCORE`, then one `ZREM` each. The queue is the benchmark's own, the rest of the Redis
//! stays as it is.

mod article;

use article::Queue;
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

pub(crate) async fn open(url: &str) -> MultiplexedConnection {
    let client = redis::Client::open(url).expect("a URL");
    client
        .get_multiplexed_async_connection()
        .await
        .expect("a Redis")
}

/// The longest and the median wait of a client that pings every 2 ms until told to stop. It has a thread
/// of its own: what the workers' tasks wait for one another is no wait of another client.
fn ping(url: &str, stop: &AtomicBool) -> (Duration, Duration) {
    let client = redis::Client::open(url).expect("a URL");
    let mut connection = client.get_connection().expect("a Redis");
    let mut waits = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let began = Instant::now();
        let _: () = redis::cmd("PING").query(&mut connection).expect("a PONG");
        waits.push(began.elapsed());
        std::thread::sleep(Duration::from_millis(2));
    }
    waits.sort();
    let at = |index: usize| waits.get(index).copied().unwrap_or_default();
    (at(waits.len().saturating_sub(1)), at(waits.len() / 2))
}

async fn pinged<T>(url: &str, work: impl Future<Output = T>) -> (T, Duration, Duration) {
    let stop = Arc::new(AtomicBool::new(false));
    let pings = {
        let (url, stop) = (url.to_owned(), Arc::clone(&stop));
        std::thread::spawn(move || ping(&url, &stop))
    };
    let answer = work.await;
    stop.store(true, Ordering::Relaxed);
    let (longest, median) = pings.join().expect("pings");
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

/// What was measured, and how far it is from its target: at least 1 is met.
struct Margin {
    what: String,
    margin: f64,
}

fn at_least(what: impl Into<String>, measured: f64, target: f64) -> Margin {
    let what = what.into();
    println!("{what} {measured:.1} target>={target}");
    Margin {
        what,
        margin: measured / target,
    }
}

fn at_most(what: impl Into<String>, measured: f64, target: f64) -> Margin {
    let what = what.into();
    println!("{what} {measured:.1} target<={target}");
    Margin {
        what,
        margin: target / measured.max(0.001),
    }
}

fn exactly(what: impl Into<String>, measured: f64, target: f64) -> Margin {
    let what = what.into();
    println!("{what} {measured:.2} target={target}");
    let margin = f64::from(u8::from((measured - target).abs() < 0.000_5));
    Margin { what, margin }
}

async fn naive_rate(url: &str) -> f64 {
    let key = format!("bench-{}-naive", std::process::id());
    let mut connection = open(url).await;
    for start in (0..NAIVE).step_by(1_000) {
        let mut cmd = redis::cmd("ZADD");
        cmd.arg(&key);
        for n in start..start + 1_000 {
            cmd.arg(0).arg(format!("{n:0200}"));
        }
        let _: () = cmd.query_async(&mut connection).await.expect("added");
    }
    let began = Instant::now();
    let (taken, longest, _) = pinged(url, naive(url, &key)).await;
    let rate = taken as f64 / began.elapsed().as_secs_f64();
    println!(
        "the article's loop: {rate:.0}/s of {NAIVE}, another client waits {:.1} ms at most",
        longest.as_secs_f64() * 1e3
    );
    let mut cmd = redis::cmd("DEL");
    let _: () = cmd
        .arg(&key)
        .query_async(&mut connection)
        .await
        .expect("deleted");
    rate
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
    let (_, unloaded, median) = pinged(&url, tokio::time::sleep(Duration::from_secs(5))).await;
    println!(
        "baseline: a round trip takes {:.3} ms (p50), {:.1} ms at most",
        median.as_secs_f64() * 1e3,
        unloaded.as_secs_f64() * 1e3
    );
    article::show(&url, Queue::AsItStands).await;
    article::show(&url, Queue::Mended).await;

    let (mut margins, mut best, mut longest) = (Vec::new(), 0.0_f64, Duration::ZERO);
    for workers in SECOND_WORKERS {
        let (took, wait, _) = pinged(&url, fill(&store, RECORDS)).await;
        println!(
            "schedule: {:.0}/s, another client waits {:.1} ms at most",
            RECORDS as f64 / took.as_secs_f64(),
            wait.as_secs_f64() * 1e3
        );
        let began = Instant::now();
        let (taken, wait, _) = pinged(&url, drain(&url, &options, workers)).await;
        let rate = taken as f64 / began.elapsed().as_secs_f64();
        best = best.max(rate);
        longest = longest.max(wait);
        println!(
            "claim and complete, {workers} workers: {rate:.0}/s, another client waits {:.1} ms at most",
            wait.as_secs_f64() * 1e3
        );
        if workers == 1 {
            margins.push(at_least(
                "claim and complete, 1 worker, a second",
                rate,
                100_000.0,
            ));
        }
        if workers == 8 {
            let each = taken as f64 / RECORDS as f64;
            margins.push(exactly("8 workers, deliveries a message", each, 1.0));
        }
    }
    let naive = naive_rate(&url).await;
    margins.push(at_least(
        "at best, to the article's loop",
        best / naive,
        10.0,
    ));
    let beyond = longest.saturating_sub(unloaded).as_secs_f64() * 1e3;
    margins.push(at_most(
        "1,000,000 due at once, another client waits longer by, ms",
        beyond,
        10.0,
    ));
    let early = store.stats().await.expect("stats").early;
    margins.push(exactly("early", early as f64, 0.0));
    let mut connection = open(&url).await;
    let mut cmd = redis::cmd("DEL");
    let _: () = cmd
        .arg(store.keys())
        .query_async(&mut connection)
        .await
        .expect("deleted");
    let worst = margins.iter().min_by(|a, b| a.margin.total_cmp(&b.margin));
    let worst = worst.expect("margins");
    println!("\nthe worst to its target: {}", worst.what);
    let word = if worst.margin >= 1.0 { "met" } else { "short" };
    println!("redis ratio={:.2} target=>=1 {word}", worst.margin);
}
