//! `docs/configuration.md` says what the code reads: its tables are made from the registry.
//!
//! `UPDATE_DOCS=1 cargo test --features embedded --test configuration_doc` writes them anew.
#![cfg(all(
    feature = "kafka",
    feature = "cloudevents",
    feature = "encryption",
    feature = "embedded"
))]

use kafka_chain::config::{Direction, KeySpec, Registry};
use std::fmt::Write;

const BEGIN: &str = "<!-- begin: made from the code -->\n";
const END: &str = "<!-- end: made from the code -->\n";

fn key_row(key: &KeySpec) -> String {
    let default = key
        .default
        .map_or("–".to_owned(), |default| format!("`{default}`"));
    let kafka: Vec<_> = key.kafka.iter().map(|key| format!("`{key}`")).collect();
    let also = if kafka.is_empty() {
        String::new()
    } else {
        format!(" Also {}.", kafka.join(", "))
    };
    format!(
        "| `{}` | {} | {default} | {}{also} |\n",
        key.name, key.kind, key.doc
    )
}

fn tables() -> String {
    let registry = Registry::builtin();
    let mut text = String::new();
    let head = "| key | value | default | what it does |\n|---|---|---|---|\n";
    text.push_str("## Types\n\n");
    for spec in registry.types() {
        let ways: Vec<_> = [Direction::Deserializer, Direction::Serializer]
            .into_iter()
            .filter(|direction| spec.goes(*direction))
            .map(Direction::as_str)
            .collect();
        let _ = writeln!(
            text,
            "### `{}` ({})\n\n{}\n",
            spec.name(),
            ways.join(", "),
            spec.summary()
        );
        let classes: Vec<_> = spec
            .class_names()
            .map(|class| format!("`{class}`"))
            .collect();
        if !classes.is_empty() {
            let _ = writeln!(text, "Classes: {}\n", classes.join(", "));
        }
        if !spec.key_specs().is_empty() {
            text.push_str(head);
            spec.key_specs()
                .iter()
                .for_each(|key| text.push_str(&key_row(key)));
            text.push('\n');
        }
    }
    text.push_str("## Backoffs\n\nTheir keys stand below `backoff.<name>.` of a retry.\n\n");
    for spec in registry.backoffs() {
        let _ = writeln!(text, "### `{}`\n\n{}\n", spec.name(), spec.summary());
        if !spec.key_specs().is_empty() {
            text.push_str(head);
            spec.key_specs()
                .iter()
                .for_each(|key| text.push_str(&key_row(key)));
            text.push('\n');
        }
    }
    text.push_str("## Keys of the consumer\n\n| key | default | what it does |\n|---|---|---|\n");
    for key in registry.own_keys() {
        let name = if key.name.ends_with('.') {
            format!("{}*", key.name)
        } else {
            key.name.into()
        };
        let default = key
            .default
            .map_or("–".to_owned(), |default| format!("`{default}`"));
        let _ = writeln!(text, "| `{name}` | {default} | {} |", key.doc);
    }
    text
}

#[test]
fn the_document_has_the_tables_of_the_code() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/configuration.md");
    let document = std::fs::read_to_string(path).unwrap();
    let (before, rest) = document
        .split_once(BEGIN)
        .expect("the document has a begin mark");
    let (_, after) = rest.split_once(END).expect("the document has an end mark");
    let wanted = format!("{before}{BEGIN}{}{END}{after}", tables());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, &wanted).unwrap();
    }
    let document = std::fs::read_to_string(path).unwrap();
    assert!(
        document == wanted,
        "run: UPDATE_DOCS=1 cargo test --test configuration_doc"
    );
}

/// Each example of the document that is marked as a properties file is one that builds.
#[test]
fn the_examples_of_the_document_build() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/configuration.md");
    let document = std::fs::read_to_string(path).unwrap();
    let registry = Registry::builtin().with_alias("com.example.DecryptionDeserializer", "aes-gcm");
    let mut examples = 0;
    for block in document.split("```properties\n").skip(1) {
        let (text, _) = block.split_once("```").unwrap();
        let key = "aes.gcm.deserializer.key=000102030405060708090a0b0c0d0e0f\n";
        let mut properties: kafka_chain::properties::Properties =
            format!("{key}{text}").parse().unwrap();
        properties.remove("value.deserializer.aes-gcm.key.file");
        registry
            .configure(&properties)
            .unwrap_or_else(|report| panic!("{report}\n{text}"));
        examples += 1;
    }
    assert!(examples >= 3, "the document has examples");
}
