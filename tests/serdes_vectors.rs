//! Every case of `tests/vectors/serdes.json`.

#[path = "support/vectors_serdes.rs"]
mod vectors_serdes;

use serde_json::{Value as Json, json};

#[test]
fn every_case_of_kafkas_serializers_agrees() {
    let cases: Vec<Json> = serde_json::from_str(include_str!("vectors/serdes.json")).unwrap();
    assert_eq!(cases.len(), 138);
    let failed: Vec<String> = cases
        .iter()
        .filter_map(|case| {
            let error = vectors_serdes::run(case).err()?;
            Some(format!("{}: {error}", case["id"]))
        })
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn the_preferred_reading_is_taken_but_for_nulls_in_the_consumer() {
    let cases: Vec<Json> = serde_json::from_str(include_str!("vectors/serdes.json")).unwrap();
    for mut case in cases {
        if case["input"]["op"] == "consumer_poll" {
            continue;
        }
        case["alternatives"] = json!([]);
        assert_eq!(vectors_serdes::run(&case), Ok(()), "{}", case["id"]);
    }
}

#[test]
fn a_case_that_is_wrong_fails() {
    let case = json!({
        "input": { "op": "serialize", "type": "long", "value": "1" },
        "expect": { "bytes_hex": "0000000000000002" },
    });
    let error = vectors_serdes::run(&case).unwrap_err();
    assert!(
        error.contains("0000000000000002") && error.contains("0000000000000001"),
        "{error}"
    );
    let case = json!({
        "input": { "op": "deserialize", "type": "long", "bytes_hex": "00" },
        "expect": { "value": "0" },
    });
    assert!(vectors_serdes::run(&case).is_err());
}
