//! The one-line form of chains and matchers, and whole configurations.

use super::MARKER;
use super::properties::{env, has_marker, reads_files};
use kafka_chain::config::{ClientKey, ClientKeys, Configuration, Registry};
use kafka_chain::matcher::{Matcher, SharedMatcher, from_tree};
use kafka_chain::properties::{Charset, Properties, Property, Report};
use kafka_chain::{
    Deserializer, Error, ErrorKind, Input, MAX_DEPTH, Part, Record, Status, Tree, Value,
};
use std::sync::LazyLock;

pub(super) fn chain_expression(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    match text.parse::<Tree>() {
        Ok(tree) => {
            assert!(tree.depth() <= MAX_DEPTH);
            let printed = tree.to_string();
            assert_eq!(printed.parse().as_ref(), Ok(&tree));
            assert!(!tree.node_name().is_empty());
        }
        Err(error) => {
            assert!(error.position >= 1 && error.position <= text.chars().count() + 1);
            assert!(error.message.len() < 100, "a message is short: {error}");
        }
    }
}

/// An error of every kind and status.
fn errors() -> Vec<Error> {
    let kinds = ErrorKind::ALL.into_iter();
    kinds
        .flat_map(|kind| Status::ALL.map(|status| Error::new(kind, status, "for a test")))
        .collect()
}

fn taken(matcher: &SharedMatcher) -> Vec<bool> {
    errors()
        .iter()
        .map(|error| matcher.matches(error))
        .collect()
}

pub(super) fn matcher(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let Ok(tree) = text.parse::<Tree>() else {
        return;
    };
    match from_tree(&tree, &|_| None, &[]) {
        Ok(matcher) => {
            let described = matcher.describe();
            assert_eq!(described, tree);
            let again = from_tree(&described, &|_| None, &[]).unwrap();
            assert_eq!(taken(&matcher), taken(&again));
            let inverse = kafka_chain::matcher::not(again);
            assert!(
                taken(&matcher)
                    .iter()
                    .zip(taken(&inverse))
                    .all(|(a, b)| *a != b)
            );
        }
        Err(message) => assert!(message.len() <= text.len() + 200, "{message}"),
    }
}

/// A client that knows a few keys and answers in each way there is.
struct Client;

impl ClientKeys for Client {
    fn check(&self, key: &str, value: &str) -> ClientKey {
        match key {
            "group.id" | "bootstrap.servers" | "retry.backoff.ms" => ClientKey::Known,
            "fetch.max.wait.ms" => ClientKey::Translated {
                key: "fetch.wait.max.ms".to_owned(),
                value: value.to_owned(),
            },
            "interceptor.classes" => ClientKey::Refused("there are no interceptors".to_owned()),
            "metric.reporters" => ClientKey::Dropped("there are no reporters".to_owned()),
            _ => ClientKey::Unknown,
        }
    }

    fn names(&self) -> Vec<String> {
        ["group.id", "bootstrap.servers", "retry.backoff.ms"]
            .map(str::to_owned)
            .to_vec()
    }
}

static WITHOUT_CLIENT: LazyLock<Registry> = LazyLock::new(Registry::builtin);
static WITH_CLIENT: LazyLock<Registry> = LazyLock::new(|| {
    Registry::builtin()
        .with_client_keys(Client)
        .with_application_prefix("shop.")
});

pub(super) fn configuration(input: &[u8]) {
    let Ok(mut properties) = Properties::parse(input, Charset::Utf8, "fuzz.properties") else {
        return;
    };
    let files: Vec<String> = properties
        .iter()
        .filter(|property| property.key.ends_with("key.file"))
        .map(|property| property.key.clone())
        .collect();
    for key in files {
        properties.remove(&key);
    }
    if reads_files(&properties) {
        return;
    }
    let has_marker = has_marker(&properties);
    let Ok(properties) = properties.resolve_with(&env) else {
        return;
    };
    // A label is a name for people, and printed as such.
    let is_label = |property: &Property| property.secret && property.value.contains('#');
    let has_marker = has_marker || properties.iter().any(is_label);
    for registry in [&*WITHOUT_CLIENT, &*WITH_CLIENT] {
        let text = match registry.configure(&properties) {
            Ok(configuration) => built(&configuration, has_marker),
            Err(report) => told(&report),
        };
        assert!(
            has_marker || !text.contains(MARKER),
            "a secret is shown:\n{text}"
        );
    }
}

/// Each chain prints as what parses to itself, and reads records without harm.
fn built(configuration: &Configuration, has_marker: bool) -> String {
    for role in configuration.roles() {
        assert_eq!(role.tree.to_string().parse().as_ref(), Ok(&role.tree));
    }
    for part in [Part::Key, Part::Value] {
        let chain = configuration.deserializer::<Value>(part).unwrap();
        let null = Record::of_value(None);
        let context = null.context(part);
        let null = chain.deserialize(Input::of(&context)).now();
        if let Ok(null) = null {
            let null = null.unwrap().unwrap();
            assert!(matches!(null, Some(Value::Null)), "a null is no value");
        }
        for payload in [
            &b""[..],
            b"\x00",
            b"8 bytes!",
            b"{\"id\":[7]}",
            b"\x01\0\0\0\0",
        ] {
            let mut record = Record::of_value(Some(payload));
            record.key = Some(payload);
            // Of a chain that waits, only the first step is taken.
            let context = record.context(part);
            let answer = chain.deserialize(Input::of(&context)).now();
            assert!(has_marker || !format!("{answer:?}").contains(MARKER));
        }
    }
    configuration.explain()
}

fn told(report: &Report) -> String {
    assert!(!report.is_empty());
    report.to_string()
}
