//! What an operation of the timing wheel costs, for 1,000,000 entries: nanoseconds and bytes.

use kafka_chain::delay::wheel::Wheel;
use std::hint::black_box;
use std::time::Instant;

const ENTRIES: u64 = 1_000_000;
/// How often due entries are asked for.
const TURNS: u64 = 10_000;
const START: i64 = 1_800_000_000_000;

/// Numbers that look like chance and are the same in every run.
fn numbers() -> impl FnMut() -> u64 {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    }
}

fn nanos(since: Instant, operations: u64) -> f64 {
    since.elapsed().as_nanos() as f64 / operations as f64
}

/// Of one run.
struct Cost {
    slowest: f64,
    bytes: f64,
}

fn run(name: &str, spread: u64) -> Cost {
    let mut next = numbers();
    let mut wheel = Wheel::new(ENTRIES as usize);
    wheel.pop(START);
    let dues: Vec<i64> = (0..ENTRIES)
        .map(|_| START + 1 + (next() % spread) as i64)
        .collect();

    let mut keys = Vec::with_capacity(dues.len());
    let began = Instant::now();
    for (due, number) in dues.iter().zip(0_u64..) {
        keys.extend(wheel.insert(*due, number).ok());
    }
    let insert = nanos(began, ENTRIES);
    let bytes = wheel.allocated_bytes() as f64 / ENTRIES as f64;

    let began = Instant::now();
    let mut now = START;
    for _ in 0..TURNS {
        now += 1 + (spread / TURNS) as i64;
        while let Some(entry) = wheel.pop(now) {
            black_box(entry);
        }
    }
    let pop = nanos(began, ENTRIES);

    keys.clear();
    for (due, number) in dues.iter().zip(0_u64..) {
        keys.extend(wheel.insert(now + due - START, number).ok());
    }
    let began = Instant::now();
    for key in &keys {
        black_box(wheel.remove(*key));
    }
    let remove = nanos(began, ENTRIES);
    println!(
        "wheel spread={name} insert_ns={insert:.0} pop_ns={pop:.0} remove_ns={remove:.0} \
         entry_bytes={bytes:.1}"
    );
    Cost {
        slowest: insert.max(pop).max(remove),
        bytes,
    }
}

fn main() {
    let spreads = [
        ("minute", 60_000),
        ("day", 86_400_000),
        ("year", 31_536_000_000),
    ];
    let (mut slowest, mut bytes) = (0.0_f64, 0.0_f64);
    for (name, spread) in spreads {
        let mut costs: Vec<Cost> = (0..5).map(|_| run(name, spread)).collect();
        costs.sort_by(|a, b| a.slowest.total_cmp(&b.slowest));
        slowest = slowest.max(costs[costs.len() / 2].slowest);
        bytes = costs.iter().map(|cost| cost.bytes).fold(bytes, f64::max);
    }
    println!("the slowest operation, median of 5 runs, ns {slowest:.0} target<=100");
    println!("an entry, bytes {bytes:.1} target<=64");
    let margin = (100.0 / slowest).min(64.0 / bytes);
    let word = if margin >= 1.0 { "met" } else { "short" };
    println!("wheel ratio={margin:.2} target=>=1 {word}");
}
