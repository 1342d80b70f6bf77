//! What the main job shows at its end.

use crate::consumer::{Place, Tally};
use kafka_chain::dead_letter::DeadLetterInfo;
use std::collections::{BTreeMap, BTreeSet};

/// Some dead letters of different kinds.
const SHOWN: usize = 3;

/// Prints the numbers and some dead letters; whether each record that was produced was delivered or
/// lies in the dead-letter topic, and none is in both.
pub fn print(
    produced: &BTreeSet<Place>,
    tally: &Tally,
    retries: usize,
    key_service_calls: usize,
    dead_letters: &[DeadLetterInfo],
) -> bool {
    let row = |name: &str, count: usize| println!("{name:<34}{count:>8}");
    println!();
    row("produced", produced.len());
    row("delivered", tally.delivered());
    row("  orders", tally.orders);
    row("  of another type", tally.others);
    row("  tombstones", tally.tombstones);
    row("dead-lettered", tally.dead_at.len());
    for ((kind, stage), count) in &tally.dead_lettered {
        row(&format!("  {kind} at {stage}"), *count);
    }
    row("retried", retries);
    row("came again", tally.again);
    row("calls of the key service", key_service_calls);

    let mut kinds = BTreeMap::new();
    for letter in dead_letters {
        kinds.entry(letter.fingerprint()).or_insert(letter);
    }
    if !kinds.is_empty() {
        println!("\nsome dead letters");
    }
    for letter in kinds.into_values().take(SHOWN) {
        show(letter);
    }

    let lying: BTreeSet<Place> = dead_letters
        .iter()
        .filter_map(|letter| letter.partition().zip(letter.offset()))
        .collect();
    let settled: BTreeSet<Place> = tally.delivered_at.union(&lying).copied().collect();
    let (delivered, dead) = (tally.delivered_at.len(), lying.len());
    let right = settled == *produced && delivered + dead == produced.len();
    let sign = if right { "=" } else { "≠" };
    println!(
        "\n{delivered} delivered + {dead} in the dead-letter topic {sign} {} produced",
        produced.len()
    );
    for (partition, offset) in produced.difference(&settled).take(SHOWN) {
        println!("  lost: partition {partition}, offset {offset}");
    }
    right
}

/// A dead letter as its headers tell it.
fn show(letter: &DeadLetterInfo) {
    let text = |text: Option<&str>| text.unwrap_or("?").to_owned();
    let number = |number: Option<i64>| number.map_or("?".to_owned(), |number| number.to_string());
    println!(
        "  {}-{}@{}  {} {}: {}",
        text(letter.topic()),
        number(letter.partition().map(i64::from)),
        number(letter.offset()),
        letter.status().map_or("?", |status| status.as_str()),
        letter.kind().map_or("?", |kind| kind.as_str()),
        text(letter.message()),
    );
    println!(
        "      at {}, attempts {}, fingerprint {}",
        text(letter.stage_path()),
        number(letter.attempts().map(i64::from)),
        text(letter.fingerprint()),
    );
}
