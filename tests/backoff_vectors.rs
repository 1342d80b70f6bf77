//! Every case of `tests/vectors/backoff.json`.

#[path = "support/vectors_backoff.rs"]
mod vectors_backoff;

use serde_json::{Value as Json, json};

/// Where the library takes an alternative: retry 0 is the first retry, a maximum is reached where
/// Java's floating point stays below it, a fixed `retry.backoff.ms` is kept as KIP-580 has it, and
/// an interval may be a fraction of a second.
const ALTERNATIVES: [&str; 5] = [
    "bo-kafka-100-2-1000-j0-a-1",
    "bo-kafka-100-10-100000-j0-a3",
    "bo-kafka-100-10-100000-j0-a4",
    "bo-kip580-cfg-only-backoff-2000",
    "bo-seed-interval-fraction",
];

fn cases() -> Vec<Json> {
    serde_json::from_str(include_str!("vectors/backoff.json")).unwrap()
}

#[test]
fn every_case_of_backoff_agrees() {
    let cases = cases();
    assert_eq!(cases.len(), 107);
    let failed: Vec<String> = cases
        .iter()
        .filter_map(|case| {
            let error = vectors_backoff::run(case).err()?;
            Some(format!("{}: {error}", case["id"]))
        })
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn alternatives_are_taken_where_said_and_nowhere_else() {
    for mut case in cases() {
        case["alternatives"] = json!([]);
        let alternative = ALTERNATIVES.iter().any(|id| case["id"] == *id);
        let result = vectors_backoff::run(&case);
        assert_eq!(result.is_err(), alternative, "{}: {result:?}", case["id"]);
    }
}

#[test]
fn a_case_that_is_wrong_fails() {
    let mut case = json!({
        "input": { "op": "asl_retry", "policy": {}, "failures": 2 },
        "expect": { "retry": true, "delay_seconds": "2" },
    });
    assert_eq!(vectors_backoff::run(&case), Ok(()));
    for wrong in [
        json!({ "retry": true, "delay_seconds": "2.1" }),
        json!({ "retry": false }),
        json!({ "error": "invalid_policy" }),
        json!({ "retry": true, "min_seconds": "0", "max_seconds": "2" }),
    ] {
        case["expect"] = wrong;
        assert!(vectors_backoff::run(&case).is_err(), "{case}");
    }
    case["input"] = json!({
        "op": "kafka_backoff", "initial_ms": 100, "multiplier": 2, "max_ms": 1000, "jitter": 0.2,
        "attempts": 0,
    });
    case["expect"] = json!({ "min_ms": 80, "max_ms": 120 });
    assert_eq!(vectors_backoff::run(&case), Ok(()));
    case["expect"] = json!({ "delay_ms": 80 });
    assert!(vectors_backoff::run(&case).is_err());
    case["expect"] = json!({ "min_ms": 80, "max_ms": 119 });
    assert!(vectors_backoff::run(&case).is_err());
}
