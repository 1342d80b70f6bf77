//! `docs/metrics.md` lists the metrics that the code has.
//!
//! `UPDATE_DOCS=1 cargo test --test metrics_doc` writes the table anew.

use kafka_chain::metric::{MetricKind, MetricSpec};
use kafka_chain::pipeline::observe::names;
use std::collections::BTreeSet;
use std::fmt::Write;

const BEGIN: &str = "<!-- begin: made from the code -->\n";
const END: &str = "<!-- end: made from the code -->\n";

fn table(metrics: &[MetricSpec]) -> String {
    let mut text =
        "| metric | kind | unit | labels | meaning |\n|---|---|---|---|---|\n".to_owned();
    for metric in metrics {
        let labels: Vec<_> = metric
            .labels
            .iter()
            .map(|label| format!("`{label}`"))
            .collect();
        let labels = match labels.is_empty() {
            true => "–".to_owned(),
            false => labels.join(", "),
        };
        let MetricSpec {
            name,
            kind,
            unit,
            doc,
            ..
        } = metric;
        let _ = writeln!(text, "| `{name}` | {kind} | {unit} | {labels} | {doc} |");
    }
    text
}

#[test]
fn the_document_has_the_metrics_of_the_code() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/metrics.md");
    let document = std::fs::read_to_string(path).unwrap();
    let (before, rest) = document.split_once(BEGIN).expect("a begin mark");
    let (_, after) = rest.split_once(END).expect("an end mark");
    let wanted = format!("{before}{BEGIN}\n{}\n{END}{after}", table(names::METRICS));
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, &wanted).unwrap();
    }
    let document = std::fs::read_to_string(path).unwrap();
    assert!(
        document == wanted,
        "run: UPDATE_DOCS=1 cargo test --test metrics_doc"
    );
}

/// Names are one family, and no label has as many values as there are records.
#[test]
fn names_and_labels_are_what_recorders_expect() {
    let mut names = BTreeSet::new();
    for metric in names::METRICS {
        let MetricSpec {
            name,
            kind,
            unit,
            labels,
            ..
        } = metric;
        assert!(names.insert(name), "{name} is there twice");
        assert!(name.starts_with("kafka_chain_"), "{name}");
        assert!(
            name.chars().all(|c| c.is_ascii_lowercase() || c == '_'),
            "{name}"
        );
        assert_eq!(
            name.ends_with("_total"),
            *kind == MetricKind::Counter,
            "{name}"
        );
        assert_eq!(name.ends_with("_seconds"), *unit == "seconds", "{name}");
        for label in *labels {
            assert!(
                !["key", "offset", "message", "error", "fingerprint"].contains(label),
                "{name} by {label}"
            );
            let of_partitions = ["topic", "partition"].contains(label);
            assert!(
                !of_partitions || *kind == MetricKind::Gauge,
                "{name} by {label}"
            );
        }
    }
}
