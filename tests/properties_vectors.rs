//! The reading of `.properties` against what `java.util.Properties.load` was seen to do.
//!
//! Of the one ambiguous case (a surrogate pair in the wrong order) the alternative is taken that the
//! vectors list: an error, since a Rust string cannot hold half a pair.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failed test is what a failed unwrap means"
)]

use std::collections::BTreeMap;

use kafka_chain::properties::{Charset, ProblemKind, Properties};
use serde_json::{Value, json};

fn unhex(hex: &str) -> Vec<u8> {
    (0..hex.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap())
        .collect()
}

fn outcome(bytes: &[u8], charset: Charset) -> Value {
    match Properties::parse(bytes, charset, "vector.properties") {
        Ok(properties) => {
            let map: BTreeMap<_, _> = properties
                .iter()
                .map(|p| (p.key.as_str(), p.value.as_str()))
                .collect();
            json!({ "map": map })
        }
        Err(report) => {
            let problem = report.iter().next().unwrap();
            assert!(problem.origin.as_ref().unwrap().line.is_some());
            json!({ "error": match problem.kind {
                ProblemKind::MalformedUnicodeEscape => "malformed_unicode_escape",
                ProblemKind::UnpairedSurrogate => "unpaired_surrogate",
                other => panic!("unexpected kind {other:?}"),
            }})
        }
    }
}

#[test]
fn every_vector_reads_as_java_reads_it() {
    let vectors: Vec<Value> =
        serde_json::from_str(include_str!("vectors/properties.json")).unwrap();
    assert_eq!(vectors.len(), 102);
    let mut failures = Vec::new();
    for vector in &vectors {
        let charset = match vector["input"]["reader"].as_str().unwrap() {
            "stream_iso_8859_1" => Charset::Iso8859_1,
            "reader_utf_8" => Charset::Utf8,
            other => panic!("unknown reader {other}"),
        };
        let actual = outcome(
            &unhex(vector["input"]["bytes_hex"].as_str().unwrap()),
            charset,
        );
        let alternatives = vector["alternatives"].as_array().into_iter().flatten();
        if !std::iter::once(&vector["expect"])
            .chain(alternatives)
            .any(|e| *e == actual)
        {
            failures.push(format!(
                "{}: {actual}, not {}",
                vector["id"], vector["expect"]
            ));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
