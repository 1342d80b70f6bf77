//! What the main job shows at its end.

use crate::consumer::Tally;
use kafka_chain::dead_letter::DeadLetterInfo;

/// Prints the numbers and some dead letters; whether the numbers add up.
pub fn print(
    produced: usize,
    tally: &Tally,
    retries: usize,
    key_service_calls: usize,
    dead_letters: &[DeadLetterInfo],
) -> bool {
    let dead: usize = tally.dead_lettered.values().sum();
    println!();
    println!("{:<34}{produced:>8}", "produced");
    println!("{:<34}{:>8}", "delivered", tally.delivered());
    println!("{:<34}{:>8}", "  orders", tally.orders);
    println!("{:<34}{:>8}", "  of another type", tally.others);
    println!("{:<34}{:>8}", "  tombstones", tally.tombstones);
    println!("{:<34}{dead:>8}", "dead-lettered");
    for ((kind, stage), count) in &tally.dead_lettered {
        println!("{:<34}{count:>8}", format!("  {kind} at {stage}"));
    }
    println!("{:<34}{retries:>8}", "retried");
    println!("{:<34}{key_service_calls:>8}", "calls of the key service");

    println!("\nsome dead letters");
    for letter in dead_letters {
        show(letter);
    }
    let sum = tally.delivered() + dead;
    let right = sum == produced;
    let sign = if right { "=" } else { "≠" };
    println!("\ndelivered + dead-lettered = {sum} {sign} {produced} produced");
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
