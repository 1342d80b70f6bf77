//! The reading of `.properties` against what `java.util.Properties.load` was seen to do.

#[path = "support/vectors_properties.rs"]
mod vectors_properties;

use serde_json::{Value, json};

fn cases() -> Vec<Value> {
    serde_json::from_str(include_str!("vectors/properties.json")).unwrap()
}

#[test]
fn every_vector_reads_as_java_reads_it() {
    let cases = cases();
    assert_eq!(cases.len(), 102);
    let failures: Vec<_> = cases
        .iter()
        .filter_map(|case| {
            Some(format!(
                "{}: {}",
                case["id"],
                vectors_properties::run(case).err()?
            ))
        })
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn a_case_that_is_wrong_fails() {
    let mut case = cases().swap_remove(0);
    case["expect"] = json!({ "map": { "a": "c" } });
    assert!(
        vectors_properties::run(&case)
            .unwrap_err()
            .starts_with("expected {\"map\":")
    );
}
