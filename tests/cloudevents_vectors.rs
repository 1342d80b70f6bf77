//! The public conformance cases for CloudEvents on Kafka.
#![cfg(feature = "cloudevents")]
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

#[path = "support/vectors_cloudevents.rs"]
mod vectors;

use serde_json::Value;

fn cases() -> Vec<Value> {
    serde_json::from_str(include_str!("vectors/cloudevents.json")).expect("the vectors are JSON")
}

#[test]
fn every_case_holds() {
    let cases = cases();
    assert_eq!(cases.len(), 234);
    let failures: Vec<String> = cases.iter().filter_map(|c| vectors::run(c).err()).collect();
    assert!(
        failures.is_empty(),
        "{}:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

#[test]
fn a_wrong_expectation_fails() {
    for mut case in cases() {
        let expect = if case["expect"].get("error").is_some() {
            serde_json::json!({"mode": "binary", "value": 7})
        } else {
            serde_json::json!({"error": "data_conflict"})
        };
        case["expect"] = expect;
        assert!(vectors::run(&case).is_err(), "{}", case["id"]);
    }
}

#[test]
fn a_deviation_is_an_alternative_of_an_ambiguous_case() {
    for (id, index) in vectors::DEVIATIONS {
        let all = cases();
        let case = all
            .iter()
            .find(|case| case["id"] == *id)
            .expect("a case of that id");
        assert_eq!(case["ambiguous"], true, "{id}");
        assert!(!case["alternatives"][*index].is_null(), "{id}");
    }
}
