//! Reading, printing and resolving `.properties`.

mod placeholders;
mod random;
mod reading;
mod report;
mod secrets;

use std::fs;
use std::path::PathBuf;

use kafka_chain::properties::{Charset, Problem, Properties};

fn parse(text: &str) -> Properties {
    Properties::parse(text.as_bytes(), Charset::Utf8, "a.properties").unwrap()
}

fn mistakes(bytes: &[u8]) -> Vec<String> {
    let report = Properties::parse(bytes, Charset::Utf8, "a.properties").unwrap_err();
    report.iter().map(Problem::to_string).collect()
}

fn pairs(properties: &Properties) -> Vec<(&str, &str)> {
    properties
        .iter()
        .map(|p| (p.key.as_str(), p.value.as_str()))
        .collect()
}

/// A file of its own for one test, removed when dropped.
struct TempFile(PathBuf);

impl TempFile {
    fn new(name: &str, bytes: &[u8]) -> Self {
        let name = format!("kafka-chain-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::write(&path, bytes).unwrap();
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
