//! Mistakes: all at once, each with place, key, reason and the nearest right spelling.

use crate::support::{configure, mistakes, properties, registry};
use kafka_chain::{Part, Value};

/// FC-103: a slip in our own name space is an error that names the nearest key; an application's
/// own prefix is nobody's business.
#[test]
fn a_misspelt_key_names_the_nearest_and_foreign_prefixes_are_left_alone() {
    let text = "\
value.deserializer=retry(bytes)
retry.deserializer.backoff.exponential.maxAttemts=9
shop.anything=1
";
    assert_eq!(
        mistakes(text),
        [
            "test.properties:2: retry.deserializer.backoff.exponential.maxAttemts: `retry` has no such \
         key; did you mean retry.deserializer.backoff.exponential.maxAttempts?"
        ]
    );
}

/// FC-108: an unknown type, an empty one and one of the wrong direction, each named with its key.
#[test]
fn unknown_empty_and_wrong_way_types_are_named_with_their_key() {
    let unknown = mistakes("value.deserializer=com.acme.JsonDeserialiser");
    assert_eq!(unknown.len(), 1);
    assert!(
        unknown[0].starts_with(
            "test.properties:1: value.deserializer: there is no deserializer \
         `com.acme.JsonDeserialiser`; there are json, "
        ),
        "{unknown:?}"
    );
    assert!(unknown[0].ends_with("did you mean org.apache.kafka.connect.json.JsonDeserializer?"));

    let empty = mistakes("value.deserializer=");
    assert!(
        empty[0]
            .starts_with("test.properties:1: value.deserializer: the type is empty; there are "),
        "{empty:?}"
    );

    let wrong =
        mistakes("value.deserializer=org.apache.kafka.common.serialization.StringSerializer");
    assert_eq!(
        wrong,
        ["test.properties:1: value.deserializer: \
         `org.apache.kafka.common.serialization.StringSerializer` is a serializer, but a \
         deserializer is named here; did you mean \
         org.apache.kafka.common.serialization.StringDeserializer?"]
    );
}

#[test]
fn six_different_mistakes_are_six_messages_in_the_order_of_the_file() {
    let text = "\
key.deserializer=retry(strin)
value.deserializer=exception-handling(retry(pipe(decryption, json)))
value.deserializer.retry.backoff=exponentail
value.deserializer.retry.attempt.timeout.ms=-5
exception.handling.deserializer.matcher=kind(decript)
value.deserializer.pip.to=string
value.deserialiser=json
";
    let found = mistakes(text);
    let starts = [
        "test.properties:1: key.deserializer: there is no deserializer `strin`; there are string",
        "test.properties:3: value.deserializer.retry.backoff: there is no backoff `exponentail`",
        "test.properties:4: value.deserializer.retry.attempt.timeout.ms: `-5` is not a number of \
         milliseconds above 0",
        "test.properties:5: exception.handling.deserializer.matcher: there is no kind `decript`",
        "test.properties:6: value.deserializer.pip.to: no part of the value.deserializer reads this",
        "test.properties:7: value.deserialiser: ",
    ];
    for start in starts {
        assert!(
            found.iter().any(|mistake| mistake.starts_with(start)),
            "{start}\n{found:#?}"
        );
    }
}

#[test]
fn a_from_that_yields_no_bytes_is_refused_when_the_chain_is_built() {
    assert_eq!(
        mistakes("value.deserializer=pipe(json, string)"),
        [
            "test.properties:1: value.deserializer: the `from` of a pipe must yield bytes, but `json` \
         yields serde_json::value::Value"
        ]
    );
}

#[test]
fn what_is_read_from_a_chain_must_be_what_it_yields() {
    let configuration = configure("value.deserializer=json").unwrap();
    let report = configuration
        .deserializer::<String>(Part::Value)
        .unwrap_err();
    let mistake = report.iter().next().unwrap().to_string();
    assert_eq!(
        mistake,
        "test.properties:1: value.deserializer: the chain yields serde_json::value::Value, but \
         alloc::string::String is read from it"
    );
    assert!(configuration.deserializer::<Value>(Part::Value).is_ok());
}

/// FC-107 (b): only the other side is configured.
#[test]
fn a_missing_delegate_names_the_keys_that_would_give_it() {
    let text = "\
key.deserializer=pipe(decryption, string)
value.deserializer=exception-handling
key.exception.handling.deserializer.delegate=string
";
    let found = mistakes(text);
    assert!(
        found.iter().any(|m| m
            == "test.properties:2: value.deserializer: \
        `exception-handling` has no delegate: name it in the expression or by \
        `value.deserializer.exception-handling.delegate` or \
        `value.exception.handling.deserializer.delegate` or \
        `exception.handling.deserializer.delegate`"),
        "{found:#?}"
    );
}

#[test]
fn a_key_of_a_role_that_no_part_reads_is_an_error_and_a_flat_one_a_warning() {
    let found = mistakes("value.deserializer=json\nvalue.deserializer.retry.backoff=none\n");
    assert_eq!(found.len(), 1);
    assert!(found[0].contains("no part of the value.deserializer `json` reads this key"));

    let flat = configure("value.deserializer=json\nretry.deserializer.backoff=none\n").unwrap();
    let warnings: Vec<_> = flat.warnings().iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "test.properties:2: retry.deserializer.backoff: no chain has a `retry` that reads this key"
        ]
    );
}

/// FC-111: a secret is in no message and no print.
#[cfg(feature = "encryption")]
#[test]
fn secrets_are_in_no_message_and_no_print() {
    let text = "\
value.deserializer=aes-gcm
value.deserializer.aes-gcm.key=hunter2-hunter2
sasl.password=hunter2
";
    let found = mistakes(text).join("\n");
    assert!(found.contains("value.deserializer.aes-gcm.key"), "{found}");
    assert!(!found.contains("hunter2"), "{found}");

    let good = "\
value.deserializer=aes-gcm
value.deserializer.aes-gcm.key=000102030405060708090a0b0c0d0e0f
";
    let configuration = configure(good).unwrap_or_else(|r| panic!("{r}"));
    let shown = format!("{}{configuration:?}", configuration.explain());
    assert!(shown.contains("key = ***"), "{shown}");
    assert!(!shown.contains("0102030405"), "{shown}");
}

/// Placeholders, chains and keys are one report; of a value that could not be resolved only that is
/// said.
#[test]
fn mistakes_of_placeholders_come_with_the_others() {
    let text = "\
value.deserializer=retry(strin)
value.deserializer.retry.time.limit.ms=${env:KAFKA_CHAIN_TEST_IS_NOT_SET}
";
    let (registry, _) = crate::support::registry(0);
    let report = registry
        .resolve_and_configure(crate::support::properties(text))
        .unwrap_err();
    let found: Vec<_> = report.iter().map(ToString::to_string).collect();
    assert_eq!(found.len(), 2, "{found:#?}");
    assert!(
        found
            .iter()
            .any(|m| m.contains("KAFKA_CHAIN_TEST_IS_NOT_SET is not set"))
    );
    assert!(
        found
            .iter()
            .any(|m| m.contains("there is no deserializer `strin`"))
    );
}

/// FC-104: a file of the Java client's: each key is translated, or refused with the reason.
#[cfg(feature = "kafka")]
#[test]
fn keys_of_the_java_client_are_translated_or_refused_by_name() {
    let good = configure(
        "\
key.deserializer=org.apache.kafka.common.serialization.StringDeserializer
fetch.max.wait.ms=250
delivery.timeout.ms=1000
auto.offset.reset=none
",
    );
    let good = good.unwrap_or_else(|report| panic!("{report}"));
    assert_eq!(good.client().value("fetch.wait.max.ms"), Some("250"));
    assert_eq!(good.client().value("delivery.timeout.ms"), Some("1000"));
    assert_eq!(good.client().value("auto.offset.reset"), Some("error"));
    assert_eq!(good.client().len(), 3);

    let found = mistakes(
        "\
max.poll.records=10
sasl.jaas.config=com.Login required password=\"hunter2\";
ssl.truststore.location=/etc/trust.jks
bootstrap.server=localhost:9092
",
    );
    let starts = [
        "test.properties:1: max.poll.records: ",
        "test.properties:2: sasl.jaas.config: ",
        "test.properties:3: ssl.truststore.location: ",
        "test.properties:4: bootstrap.server: ",
    ];
    assert_eq!(found.len(), starts.len(), "{found:#?}");
    for (mistake, start) in found.iter().zip(starts) {
        assert!(mistake.starts_with(start), "{mistake}");
        assert!(!mistake.contains("hunter2"), "{mistake}");
    }
    assert!(
        found[3].ends_with("did you mean bootstrap.servers?"),
        "{}",
        found[3]
    );
}

/// What a placeholder put in is secret wherever it stands, were it where a name belongs.
#[test]
fn no_mistake_and_no_explanation_shows_what_a_placeholder_put_in() {
    let resolved = |text: &str| {
        let env = |name: &str| (name == "PW").then(|| "hunter2".to_owned());
        let properties = properties(text).resolve_with(&env).unwrap();
        registry(0).0.configure(&properties)
    };
    let text = "\
value.deserializer=${env:PW}
key.deserializer=exception-handling(retry(json))
key.deserializer.retry.backoff=${env:PW}
key.deserializer.exception-handling.matcher=any(kind(${env:PW}), none)
value.serializer=list(${env:PW})
value.serializer.list.delegate=string
key.serializer=string
key.serializer.encoding=${env:PW}
";
    let report = resolved(text).unwrap_err();
    assert_eq!(report.len(), 5, "{report}");
    assert!(!report.to_string().contains("hunter2"), "{report}");
    let found = report.to_string();
    assert!(
        found.contains("there is no deserializer `***`; there are"),
        "{report}"
    );
    assert!(found.contains("there is no kind `***`"), "{report}");

    let configuration = resolved("group.id=${env:PW}\nclient.id=orders").unwrap();
    assert_eq!(configuration.client().value("group.id"), Some("hunter2"));
    let shown = configuration.explain();
    assert!(
        shown.contains("group.id = ***") && shown.contains("client.id = orders"),
        "{shown}"
    );
}

/// A key that looks like a slip of a missing part's, but that nobody refuses, hides nothing.
#[test]
fn a_missing_part_is_reported_unless_the_slip_of_its_key_is() {
    let text = "\
value.deserializer=retry
value.deseriizer.delegate=string
";
    let found = mistakes(text);
    let missing = "test.properties:1: value.deserializer: `retry` has no delegate: name it";
    assert!(found[0].starts_with(missing), "{found:#?}");
}
