//! The embedded store beside the disk under it: durable ingest, bytes and memory of 1,000,000
//! records that wait, opening after SIGKILL, claiming and completing.
//! `cargo bench --features embedded --bench index` prints one line each, and at last the worst ratio
//! of a figure to its target. `INDEX_FOLDER` is where it writes (the system's folder for temporary
//! files unless set).

use kafka_chain::OutgoingRecord;
use kafka_chain::delay::embedded::{EmbeddedOptions, EmbeddedStore};
use kafka_chain::delay::{
    Claim, DelayAdmin, DelaySink, DelayStore, Delayed, Limits, MAX_CLAIM, MAX_SCHEDULE, When,
};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const PRODUCERS: u64 = 8;
const SMALL: (u64, usize) = (1_000_000, 40);
const LARGE: (u64, usize) = (200_000, 500);
const DAY: i64 = 86_400_000;

/// Numbers that look like chance and are the same in every run.
fn numbers(seed: u64) -> impl FnMut() -> u64 {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ seed.wrapping_mul(0xff51_afd7_ed55_8ccd);
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    }
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as i64)
}

/// Of this process, in MiB: what it has now, and the most it had.
fn memory() -> (u64, u64) {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name));
        let number = line.and_then(|line| line.split_whitespace().nth(1));
        number.and_then(|n| n.parse::<u64>().ok()).unwrap_or(0) / 1024
    };
    (field("VmRSS:"), field("VmHWM:"))
}

/// What a folder takes on the disk: a file may have holes.
fn size(folder: &Path) -> u64 {
    #[cfg(unix)]
    let taken = |file: fs::Metadata| std::os::unix::fs::MetadataExt::blocks(&file) * 512;
    #[cfg(not(unix))]
    let taken = |file: fs::Metadata| file.len();
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    files
        .filter_map(|file| file.metadata().ok())
        .map(taken)
        .sum()
}

fn fsync(folder: &Path) {
    let path = folder.join("raw");
    let mut file = fs::File::create(&path).expect("a file");
    let mut times: Vec<Duration> = (0..500)
        .map(|_| {
            file.write_all(&[7; 4096]).expect("written");
            let began = Instant::now();
            file.sync_data().expect("synced");
            began.elapsed()
        })
        .collect();
    times.sort();
    let at = |part: usize| times[times.len() * part / 100].as_micros();
    println!(
        "index baseline fdatasync_4k_us p50={} p99={}",
        at(50),
        at(99)
    );
    let _ = fs::remove_file(path);
}

async fn open(folder: &Path) -> EmbeddedStore {
    let options = EmbeddedOptions {
        limits: Limits {
            capacity: 4_000_000,
            ..Limits::default()
        },
        ..EmbeddedOptions::new(folder)
    };
    EmbeddedStore::open(options).await.expect("a store")
}

/// The rate at which `count` records of a value of this size become durable.
async fn fill(store: &Arc<EmbeddedStore>, count: u64, bytes: usize, from: i64, spread: i64) -> f64 {
    let began = Instant::now();
    let left = Arc::new(AtomicU64::new(count / MAX_SCHEDULE as u64));
    let producers = (0..PRODUCERS).map(|seed| {
        let (store, left) = (Arc::clone(store), Arc::clone(&left));
        tokio::spawn(async move {
            let mut next = numbers(seed);
            let take = |left: u64| left.checked_sub(1);
            let order = Ordering::Relaxed;
            while left.fetch_update(order, order, take).is_ok() {
                let batch = (0..MAX_SCHEDULE).map(|_| {
                    let value: Vec<u8> = (0..bytes.div_ceil(8))
                        .flat_map(|_| next().to_le_bytes())
                        .take(bytes)
                        .collect();
                    let record = OutgoingRecord {
                        topic: "orders".to_owned(),
                        value: Some(value.into()),
                        ..OutgoingRecord::default()
                    };
                    let at = from + (next() % spread.max(1) as u64) as i64;
                    Delayed::new(When::At(at), record)
                });
                for answer in store.schedule(batch.collect()).await {
                    answer.expect("room");
                }
            }
        })
    });
    for producer in producers.collect::<Vec<_>>() {
        producer.await.expect("a producer");
    }
    count as f64 / began.elapsed().as_secs_f64()
}

async fn drain(store: &Arc<EmbeddedStore>, workers: usize) -> f64 {
    let (began, taken) = (Instant::now(), Arc::new(AtomicU64::new(0)));
    let workers = (0..workers).map(|_| {
        let (store, taken) = (Arc::clone(store), Arc::clone(&taken));
        tokio::spawn(async move {
            let claim = Claim {
                max: MAX_CLAIM,
                lease: Duration::from_secs(60),
            };
            loop {
                let due = store.due(claim).await.expect("an answer");
                if due.items.is_empty() {
                    return;
                }
                let leases: Vec<_> = due.items.into_iter().map(|item| item.lease).collect();
                taken.fetch_add(leases.len() as u64, Ordering::Relaxed);
                store.complete(leases).await.expect("an answer");
            }
        })
    });
    for worker in workers.collect::<Vec<_>>() {
        worker.await.expect("a worker");
    }
    taken.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64()
}

/// What a process of its own does, so that its memory is that of the store and it can be killed.
async fn child(arguments: &[String]) {
    let folder = Path::new(&arguments[1]);
    let number = |place: usize| arguments[place].parse::<u64>().expect("a number");
    match arguments[0].as_str() {
        "fill" => {
            let store = Arc::new(open(folder).await);
            let bytes = number(3) as usize;
            let rate = fill(&store, number(2), bytes, now() + DAY, DAY).await;
            let began = Instant::now();
            let stats = store.stats().await.expect("stats");
            let stats_us = began.elapsed().as_micros();
            let (_, most) = memory();
            println!("{rate:.0} {} {most} {stats_us}", stats.waiting);
            // Until it is killed.
            std::future::pending::<()>().await;
        }
        "open" => {
            let began = Instant::now();
            let store = open(folder).await;
            let took = began.elapsed().as_millis();
            let waiting = store.stats().await.expect("stats").waiting;
            println!("{took} {waiting} {}", memory().1);
        }
        _ => {
            let store = Arc::new(open(folder).await);
            fill(&store, 500_000, 40, now() - DAY, DAY / 2).await;
            let rate = drain(&store, number(2) as usize).await;
            println!("{rate:.0} {}", store.stats().await.expect("stats").early);
        }
    }
}

/// Runs a child until it has printed its line; the numbers of it, and the process.
fn ask(arguments: &[&str]) -> (Vec<f64>, Child) {
    let this = std::env::current_exe().expect("this program");
    let mut process = Command::new(this)
        .arg("child")
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn()
        .expect("a process");
    let mut line = String::new();
    let out = process.stdout.take().expect("its output");
    BufReader::new(out).read_line(&mut line).expect("a line");
    let numbers = line.split_whitespace().filter_map(|n| n.parse().ok());
    (numbers.collect(), process)
}

fn kill(mut process: Child) {
    // SIGKILL, on Unix.
    let _ = process.kill();
    let _ = process.wait();
}

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn compare() {
    let base = std::env::var_os("INDEX_FOLDER").map_or_else(std::env::temp_dir, PathBuf::from);
    let base = Folder(base.join(format!("kafka-chain-index-{}", std::process::id())));
    fs::create_dir_all(&base.0).expect("a folder");
    fsync(&base.0);
    let mut worst = f64::INFINITY;
    let mut judge = |what: &str, found: f64, target: f64, at_least: bool| {
        let ratio = if at_least {
            found / target
        } else {
            target / found
        };
        worst = worst.min(ratio);
        let (sign, word) = (
            if at_least { ">=" } else { "<=" },
            if ratio >= 1.0 { "met" } else { "short" },
        );
        println!("index {what}={found:.0} target={sign}{target:.0} {word}");
    };
    for ((count, bytes), target) in [(SMALL, 50_000.0), (LARGE, 15_000.0)] {
        let folder = base.0.join(bytes.to_string());
        let name = folder.to_string_lossy().into_owned();
        let (found, process) = ask(&["fill", &name, &count.to_string(), &bytes.to_string()]);
        let on_disk = size(&folder) as f64 / count as f64;
        kill(process);
        let [rate, waiting, most, stats] = found[..] else {
            panic!("the child said nothing");
        };
        assert_eq!(waiting, count as f64);
        judge(&format!("ingest_{bytes}B_per_s"), rate, target, true);
        if count == SMALL.0 {
            judge(&format!("disk_{bytes}B_bytes_each"), on_disk, 200.0, false);
            judge(&format!("memory_{count}_mib"), most, 256.0, false);
            println!("index stats_of_{count}_us={stats}");
        }
        let (found, process) = ask(&["open", &name]);
        kill(process);
        let [took, waiting, most] = found[..] else {
            panic!("the child said nothing");
        };
        assert_eq!(waiting, count as f64, "durable before it was answered");
        judge(
            &format!("open_{bytes}B_after_kill_ms"),
            took,
            2_000.0,
            false,
        );
        println!("index open_{bytes}B_memory_mib={most}");
        let _ = fs::remove_dir_all(&folder);
    }
    for workers in ["1", "4"] {
        let folder = base.0.join("drain");
        let (found, process) = ask(&["drain", &folder.to_string_lossy(), workers]);
        kill(process);
        let [rate, early] = found[..] else {
            panic!("the child said nothing");
        };
        println!(
            "index drain workers={workers} claims_and_completions_per_s={rate:.0} early={early}"
        );
        let _ = fs::remove_dir_all(&folder);
    }
    let word = if worst >= 1.0 { "met" } else { "short" };
    println!("index ratio={worst:.2} target=>=1 {word}");
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("child") => tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime")
            .block_on(child(&arguments[1..])),
        _ => compare(),
    }
}
