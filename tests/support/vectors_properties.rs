//! Runs one case of `properties.json` through the public API.

use kafka_chain::properties::{Charset, ProblemKind, Properties};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;

/// Runs `case`; the error says what was expected and what came.
///
/// Of the one ambiguous case (a surrogate pair in the wrong order) the alternative is taken that
/// the case lists: an error, since a Rust string cannot hold half a pair.
pub(crate) fn run(case: &Json) -> Result<(), String> {
    let input = &case["input"];
    let bytes = unhex(input["bytes_hex"].as_str().ok_or("bytes_hex is missing")?)?;
    let charset = match input["reader"].as_str() {
        Some("stream_iso_8859_1") => Charset::Iso8859_1,
        Some("reader_utf_8") => Charset::Utf8,
        other => return Err(format!("unknown reader {other:?}")),
    };
    let got = read(&bytes, charset)?;
    let mut right = std::iter::once(&case["expect"])
        .chain(case["alternatives"].as_array().into_iter().flatten());
    if right.any(|expected| agrees(expected, &got)) {
        return Ok(());
    }
    Err(format!("expected {}, got {got}", case["expect"]))
}

fn read(bytes: &[u8], charset: Charset) -> Result<Json, String> {
    match Properties::parse(bytes, charset, "vector.properties") {
        Ok(properties) => {
            let map: BTreeMap<_, _> = properties
                .iter()
                .map(|p| (p.key.as_str(), p.value.as_str()))
                .collect();
            Ok(json!({ "map": map }))
        }
        Err(report) => {
            let problem = report.iter().next().ok_or("an error without a problem")?;
            if problem
                .origin
                .as_ref()
                .and_then(|origin| origin.line)
                .is_none()
            {
                return Err(format!("an error without a line: {problem}"));
            }
            Ok(json!({ "error": match problem.kind {
                ProblemKind::MalformedUnicodeEscape => "malformed_unicode_escape".to_owned(),
                ProblemKind::UnpairedSurrogate => "unpaired_surrogate".to_owned(),
                other => format!("{other:?}"),
            }}))
        }
    }
}

/// Whether `got` is what is expected; a map in UTF-16 is compared as text.
fn agrees(expected: &Json, got: &Json) -> bool {
    let Some(map) = expected["map_utf16be_hex"].as_object() else {
        return expected == got;
    };
    let text = |hex: &str| {
        let units: Vec<u16> = unhex(hex)
            .ok()?
            .chunks(2)
            .map(|pair| {
                pair.iter()
                    .fold(0, |unit, byte| unit << 8 | u16::from(*byte))
            })
            .collect();
        String::from_utf16(&units).ok()
    };
    let decoded: Option<BTreeMap<_, _>> = map
        .iter()
        .map(|(key, value)| Some((text(key)?, text(value.as_str()?)?)))
        .collect();
    decoded.is_some_and(|map| json!({ "map": map }) == *got)
}

fn unhex(hex: &str) -> Result<Vec<u8>, String> {
    (0..hex.len())
        .step_by(2)
        .map(|at| {
            hex.get(at..at + 2)
                .and_then(|pair| u8::from_str_radix(pair, 16).ok())
        })
        .collect::<Option<_>>()
        .ok_or_else(|| "bytes_hex is not hex".to_owned())
}
