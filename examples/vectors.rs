//! Runs files of wire vectors through the public API:
//! `cargo run --release --example vectors -- tests/vectors/*.json`.
//!
//! Prints a line for each failing case with its id, what was expected and what came, a line for
//! each file, and ends `N passed, N failed`; exits 1 if any failed. A case that is marked ambiguous
//! passes with what it expects or with an alternative it lists; docs/conformance.md says which.

#[path = "../tests/support/vectors_backoff.rs"]
mod backoff;
#[path = "../tests/support/vectors_cloudevents.rs"]
mod cloudevents;
#[path = "../tests/support/vectors_dead_letter.rs"]
mod dead_letter;
#[path = "../tests/support/vectors_properties.rs"]
mod properties;
#[path = "../tests/support/vectors_serdes.rs"]
mod serdes;

use serde_json::Value;
use std::process::ExitCode;

type Run = fn(&Value) -> Result<(), String>;

/// Who runs a case: its operation says so; only the cases of `.properties` have none.
fn runner(case: &Value) -> Option<Run> {
    let input = &case["input"];
    match input["op"].as_str() {
        None if input["reader"].is_string() => Some(properties::run),
        Some(
            "serialize" | "deserialize" | "serialize_bytebuffer" | "configure" | "consumer_poll",
        ) => Some(serdes::run),
        Some(
            "kafka_backoff"
            | "kip580_schedule"
            | "kip580_config"
            | "reconnect_config"
            | "asl_retry"
            | "asl_sequence"
            | "retry_deserializer"
            | "retry_deserializer_total",
        ) => Some(backoff::run),
        Some(
            "decode"
            | "decode_batch"
            | "encode_binary"
            | "encode_structured_json"
            | "transcode_structured_to_binary"
            | "map_key"
            | "parse_canonical",
        ) => Some(cloudevents::run),
        Some("encode_header" | "build_headers" | "decode_header") => Some(dead_letter::run),
        _ => None,
    }
}

fn run(case: &Value) -> Result<(), String> {
    let run = runner(case).ok_or_else(|| format!("unknown operation {}", case["input"]["op"]))?;
    std::panic::catch_unwind(|| run(case)).unwrap_or_else(|_| Err("it panicked".to_owned()))
}

fn main() -> ExitCode {
    let files: Vec<_> = std::env::args().skip(1).collect();
    if files.is_empty() {
        eprintln!("usage: vectors FILE…   (the project's own: tests/vectors/*.json)");
        return ExitCode::from(2);
    }
    let (mut passed, mut failed) = (0, 0);
    for file in &files {
        let cases: Vec<Value> = match std::fs::read(file)
            .map_err(|error| error.to_string())
            .and_then(|text| serde_json::from_slice(&text).map_err(|error| error.to_string()))
        {
            Ok(cases) => cases,
            Err(error) => {
                eprintln!("{file}: {error}");
                return ExitCode::from(2);
            }
        };
        let mut wrong = 0;
        for case in &cases {
            if let Err(difference) = run(case) {
                println!(
                    "{}: {difference}",
                    case["id"].as_str().unwrap_or("a case without id")
                );
                wrong += 1;
            }
        }
        println!("{file}: {} of {} agree", cases.len() - wrong, cases.len());
        passed += cases.len() - wrong;
        failed += wrong;
    }
    println!("{passed} passed, {failed} failed");
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
