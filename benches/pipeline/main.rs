//! The pipeline on a real Kafka, beside the loops that people write: client CPU and throughput.
//!
//! `pipeline NAME` compares, `pipeline` lists the names. Each side runs in a process of its own, in
//! turn with the other, on the Kafka at `KAFKA_BOOTSTRAP_SERVERS`.

mod bare;
mod common;
mod memory;
mod ours;

use bare::{bare_copy, base_consumer, stream_consumer};
use common::{PARTITIONS, fill, number};
use ours::{pipeline, poisoned, retrying, waiting};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

pub(crate) struct Measured {
    cpu_us: f64,
    rate: f64,
}

/// Runs one side in a process of its own.
fn measure(role: &str, topic: &str, records: u64) -> Measured {
    static GROUPS: AtomicU64 = AtomicU64::new(0);
    let group = format!("{topic}-{role}-{}", GROUPS.fetch_add(1, Ordering::Relaxed));
    let program = std::env::current_exe().expect("this program");
    let output = Command::new(program)
        .args(["--role", role, topic, &group, &records.to_string()])
        .output()
        .expect("a process");
    let text = String::from_utf8_lossy(&output.stdout);
    let value = |name: &str| {
        let found = text.split_whitespace().find_map(|w| w.strip_prefix(name));
        found.and_then(|value| value.parse().ok())
    };
    match (value("cpu_us="), value("rate=")) {
        (Some(cpu_us), Some(rate)) => Measured { cpu_us, rate },
        _ => panic!("{role}: {text}{}", String::from_utf8_lossy(&output.stderr)),
    }
}

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

pub(crate) fn verdict(name: &str, ratio: f64, target: &str, met: bool) {
    let word = if met { "met" } else { "short" };
    println!("{name} ratio={ratio:.3} target={target} {word}");
}

pub(crate) fn fresh(name: &str) -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("time");
    format!("bench-{name}-{}", since.as_millis())
}

async fn clean() {
    let records = number("BENCH_RECORDS", 2_000_000);
    let pairs = number("BENCH_PAIRS", 7);
    let topic = fresh("clean");
    fill(&topic, records, PARTITIONS, 0).await;
    let roles = ["pipeline", "base", "stream"];
    let mut all: [Vec<Measured>; 3] = Default::default();
    for pair in 0..pairs {
        for (role, measured) in roles.iter().zip(&mut all) {
            let one = measure(role, &topic, records);
            println!(
                "{pair} {role:<9} {:.3} µs of CPU a record, {:.0} records/s",
                one.cpu_us, one.rate
            );
            measured.push(one);
        }
    }
    let cpu = |side: &Vec<Measured>| median(side.iter().map(|one| one.cpu_us).collect());
    let rate = |side: &Vec<Measured>| median(side.iter().map(|one| one.rate).collect());
    let [ours, base, stream] = &all;
    for (role, side) in roles.iter().zip(&all) {
        println!(
            "median {role:<9} {:.3} µs of CPU a record, {:.0} records/s",
            cpu(side),
            rate(side)
        );
    }
    let faster = if cpu(base) < cpu(stream) {
        base
    } else {
        stream
    };
    let ratios = ours.iter().zip(faster).map(|(a, b)| a.cpu_us / b.cpu_us);
    let ratio = median(ratios.collect());
    verdict("pipeline", ratio, "<=1.10", ratio <= 1.1);
}

async fn poison(name: &str, every: u64, base: &str, least: f64) {
    let records = number("BENCH_RECORDS", 500_000);
    let pairs = number("BENCH_PAIRS", 5);
    let (bad, good) = (fresh("poison"), fresh("good"));
    fill(&bad, records, PARTITIONS, every).await;
    if base == "pipeline" {
        fill(&good, records, PARTITIONS, 0).await;
    }
    let against = if base == "pipeline" { &good } else { &bad };
    let mut ratios = Vec::new();
    for pair in 0..pairs {
        let ours = measure("poisoned", &bad, records);
        let theirs = measure(base, against, records);
        println!(
            "{pair} pipeline {:.0} records/s, {base} {:.0} records/s",
            ours.rate, theirs.rate
        );
        ratios.push(ours.rate / theirs.rate);
    }
    let ratio = median(ratios);
    verdict(name, ratio, &format!(">={least:.2}"), ratio >= least);
}

async fn keys() {
    let records = number("BENCH_RECORDS", 200_000);
    let pairs = number("BENCH_PAIRS", 3);
    let topic = fresh("keys");
    fill(&topic, records, 1, 0).await;
    let mut ratios = Vec::new();
    for pair in 0..pairs {
        let key = measure("order-key", &topic, records);
        // One after the other it takes long: fewer tell as much.
        let partition = measure("order-partition", &topic, records / 50);
        println!(
            "{pair} by key {:.0} records/s, by partition {:.0} records/s",
            key.rate, partition.rate
        );
        ratios.push(key.rate / partition.rate);
    }
    let ratio = median(ratios);
    verdict("pipeline-keys", ratio, ">=50", ratio >= 50.0);
}

/// One record in a hundred waits in a topic of retries.
async fn retry() {
    let records = number("BENCH_RECORDS", 1_000_000);
    let pairs = number("BENCH_PAIRS", 7);
    let topic = fresh("retry");
    fill(&topic, records, PARTITIONS, 0).await;
    let mut ratios = Vec::new();
    for pair in 0..pairs {
        let failing = measure("retry-some", &topic, records);
        let clean = measure("retry-none", &topic, records);
        println!(
            "{pair} one in a hundred fails {:.0} records/s, none {:.0} records/s",
            failing.rate, clean.rate
        );
        ratios.push(failing.rate / clean.rate);
    }
    let ratio = median(ratios);
    verdict("retry", ratio, ">=0.90", ratio >= 0.9);
}

fn play(role: &str, topic: &str, group: &str, records: u64) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    match role {
        "base" => base_consumer(topic, group, records),
        "stream" => runtime.block_on(stream_consumer(topic, group, records)),
        "pipeline" => runtime.block_on(pipeline(topic, group, records)),
        "poisoned" => runtime.block_on(poisoned(topic, group, records)),
        "copy" => runtime.block_on(bare_copy(topic, group, records)),
        "retry-none" => runtime.block_on(retrying(topic, group, records, false)),
        "retry-some" => runtime.block_on(retrying(topic, group, records, true)),
        "memory" => runtime.block_on(memory::role(topic, group, records, false)),
        "memory-blocked" => runtime.block_on(memory::role(topic, group, records, true)),
        "order-key" => runtime.block_on(waiting(topic, group, records, "key")),
        "order-partition" => runtime.block_on(waiting(topic, group, records, "partition")),
        _ => panic!("there is no role {role}"),
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| a != "--bench")
        .collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let runtime = || tokio::runtime::Runtime::new().expect("a runtime");
    match words.as_slice() {
        ["--role", role, topic, group, records] => {
            play(role, topic, group, records.parse().expect("a number"));
        }
        ["pipeline"] => runtime().block_on(clean()),
        ["pipeline-poison"] => runtime().block_on(poison("pipeline-poison", 10, "pipeline", 0.7)),
        ["pipeline-all-poison"] => {
            runtime().block_on(poison("pipeline-all-poison", 1, "copy", 0.5))
        }
        ["pipeline-keys"] => runtime().block_on(keys()),
        ["pipeline-memory"] => runtime().block_on(memory::compare()),
        ["retry"] => runtime().block_on(retry()),
        _ => println!(
            "pipeline              clean records, to the faster of two bare loops, in client CPU\n\
             pipeline-poison       one record in ten is no order, to clean ones, in records a second\n\
             pipeline-all-poison   none is an order, to a bare loop that copies them\n\
             pipeline-keys         1 ms of work a record, by key to by partition\n\
             pipeline-memory       what is resident, at the end to soon after the beginning\n\
             retry                 one record in a hundred waits in a topic of retries, to none"
        ),
    }
}
