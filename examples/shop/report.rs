//! What the main job shows at its end.

use crate::consumer::Tally;
use kafka_chain::dead_letter::DeadLetter;

/// Prints the numbers and some dead letters; whether the numbers add up.
pub fn print(
    produced: usize,
    tally: &Tally,
    retries: usize,
    key_service_calls: usize,
    dead_letters: &[DeadLetter],
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
        println!("{letter}");
    }
    let sum = tally.delivered() + dead;
    let right = sum == produced;
    let sign = if right { "=" } else { "≠" };
    println!("\ndelivered + dead-lettered = {sum} {sign} {produced} produced");
    right
}
