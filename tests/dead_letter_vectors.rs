//! Every case of `tests/vectors/dlq-headers.json`.

#[path = "support/vectors_dead_letter.rs"]
mod vectors_dead_letter;

use serde_json::{Value as Json, json};

fn cases() -> Vec<Json> {
    serde_json::from_str(include_str!("vectors/dlq-headers.json")).unwrap()
}

#[test]
fn every_case_of_dead_letter_headers_agrees() {
    let cases = cases();
    assert_eq!(cases.len(), 64);
    let failed: Vec<String> = cases
        .iter()
        .filter_map(|case| {
            let error = vectors_dead_letter::run(case).err()?;
            Some(format!("{}: {error}", case["id"]))
        })
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn a_case_that_is_wrong_fails() {
    for mut case in cases() {
        let expect = case["expect"].as_object_mut().unwrap();
        for (name, wrong) in expect.iter_mut() {
            *wrong = match name.as_str() {
                "present" => json!(["nobody's"]),
                // To be present is the opposite, and has cases of its own.
                "absent" => continue,
                "headers_with_name" => {
                    let header = &wrong[0]["name"];
                    json!([{ "name": header, "value_hex": "21" }])
                }
                "header_order" => {
                    let mut names = wrong.as_array().unwrap().clone();
                    names.reverse();
                    names.into()
                }
                _ => json!("something else"),
            };
        }
        let only_absent = case["expect"]
            .as_object()
            .unwrap()
            .keys()
            .all(|name| name == "absent");
        assert_eq!(
            vectors_dead_letter::run(&case).is_err(),
            !only_absent,
            "{case}"
        );
    }
}
