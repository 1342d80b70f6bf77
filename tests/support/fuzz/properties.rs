//! `.properties` text, in both charsets.

use super::MARKER;
use kafka_chain::properties::{Charset, Properties, Report};

/// The environment that placeholders see.
pub(super) fn env(name: &str) -> Option<String> {
    match name {
        "PW" => Some(MARKER.to_owned()),
        "EMPTY" => Some(String::new()),
        "NESTED" => Some("${env:PW}".to_owned()),
        _ => None,
    }
}

/// Whether resolving would open files, which a fuzz target must not.
pub(super) fn reads_files(properties: &Properties) -> bool {
    properties
        .iter()
        .any(|property| property.value.contains("${file:"))
}

fn pairs(properties: &Properties) -> Vec<(&str, &str)> {
    properties
        .iter()
        .map(|property| (property.key.as_str(), property.value.as_str()))
        .collect()
}

pub(super) fn properties(input: &[u8]) {
    let read = [Charset::Utf8, Charset::Iso8859_1]
        .map(|charset| Properties::parse(input, charset, "fuzz.properties"));
    if input.is_ascii() {
        match &read {
            [Ok(utf8), Ok(latin1)] => assert_eq!(pairs(utf8), pairs(latin1)),
            [Err(utf8), Err(latin1)] => assert_eq!(utf8, latin1),
            _ => panic!("ASCII is read in one charset and not in the other"),
        }
    }
    for read in read {
        match read {
            Ok(properties) => {
                written_as_java_does(&properties);
                let has_marker = has_marker(&properties);
                resolved(properties, has_marker);
            }
            Err(report) => told(&report, false),
        }
    }
}

/// Whether the marker stands where it may be shown.
pub(super) fn has_marker(properties: &Properties) -> bool {
    let has = |text: &String| text.contains(MARKER);
    properties
        .iter()
        .any(|property| has(&property.key) || has(&property.value))
}

/// What Java's `store` would write reads as the same entries in the same order, in either charset.
fn written_as_java_does(properties: &Properties) {
    let text = properties.to_java_string();
    assert!(text.is_ascii());
    for charset in [Charset::Utf8, Charset::Iso8859_1] {
        let again = Properties::parse(text.as_bytes(), charset, "again").unwrap();
        assert_eq!(pairs(properties), pairs(&again));
        assert!(again.warnings().is_empty(), "each key is written once");
    }
}

/// A value is what it was unless it has a placeholder, which makes it secret.
fn resolved(properties: Properties, has_marker: bool) {
    if reads_files(&properties) {
        return;
    }
    match properties.clone().resolve_with(&env) {
        Ok(resolved) => {
            assert_eq!(resolved.len(), properties.len());
            for (before, after) in properties.iter().zip(resolved.iter()) {
                assert_eq!((&before.key, &before.origin), (&after.key, &after.origin));
                assert!(before.value == after.value || after.secret);
                assert!(after.secret || !before.secret, "a secret stays one");
            }
            assert!(has_marker || !format!("{resolved:?}").contains(MARKER));
        }
        Err(report) => told(&report, has_marker),
    }
}

fn told(report: &Report, has_marker: bool) {
    assert!(!report.is_empty());
    // A key is shown on purpose; what is said of it shows no value.
    for problem in report.iter() {
        let text = format!("{} {:?}", problem.message, problem.suggestion);
        assert!(
            has_marker || !text.contains(MARKER),
            "a secret is shown: {text}"
        );
    }
    assert_eq!(
        report.to_string().lines().count(),
        1 + report.iter().count() + usize::from(report.len() > report.iter().count())
    );
}
