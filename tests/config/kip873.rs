//! KIP-873's example, word for word: for key and for value, in both packages, with its slips.

use crate::support::{encrypted, mistakes, properties, registry};
use cloudevents::{AttributesReader, Event};
use kafka_chain::{Part, Record};
use std::sync::atomic::Ordering;

/// The page's two blocks put together as its text says, with the trailing blank it has.
const PAGE: &str = "\
key.deserializer=org.apache.kafka.common.deserialization.ExceptionHandlingDeserializer 
exception.handling.deserializer.delegate=org.apache.kafka.common.deserialization.RetryDeserializer
exception.handling.deserializer.matcher=org.apache.kafka.common.deserialization.ExceptionHandlingDeserializer.MatchAllExceptions
retry.deserializer.delegate=org.apache.kafka.common.deserialization.PipeDeserializer
retry.deserializer.backoff=org.apache.kafka.common.deserialization.RetryDeserializer.ExponentialBackoff
# https://docs.aws.amazon.com/step-functions/latest/dg/concepts-error-handling.html#error-handling-retrying-after-an-error
retry.deserializer.backoff.exponential.intervalSeconds=1
retry.deserializer.backoff.exponential.maxAttempts=5
retry.deserializer.backoff.exponential.backoffRate=1.2
pipe.deserializer.from=com.example.DecryptionDeserializer
pipe.deserializer.to=io.cloudevents.kafka.CloudEventsDeserializer
";

const EVENT: &str = r#"{"specversion":"1.0","id":"7","source":"/orders","type":"order.placed"}"#;

/// Reads one structured CloudEvent from `part` with the chain of `text`; the key service fails twice.
async fn read_event(text: &str, part: Part) {
    let (registry, calls) = registry(2);
    let configuration = registry
        .configure(&properties(text))
        .unwrap_or_else(|r| panic!("{r}"));
    let chain = configuration.deserializer::<Event>(part).unwrap();
    assert_eq!(
        chain.to_string(),
        "exception-handling(retry(pipe(decryption, cloudevents)))",
        "{text}"
    );

    let payload = encrypted(EVENT);
    let headers = [("content-type", Some("application/cloudevents+json"))];
    let record = Record {
        key: Some(&payload),
        headers: kafka_chain::HeaderView::new(&headers),
        ..Record::of_value(Some(&payload))
    };
    let started = tokio::time::Instant::now();
    let event = chain.read(&record).await.unwrap().unwrap().unwrap();
    assert_eq!(event.id(), "7");
    assert_eq!(calls.load(Ordering::Relaxed), 3);
    assert_eq!(started.elapsed().as_millis(), 1000 + 1200);

    let refused = Record {
        key: Some(b"!x"),
        value: Some(b"!x"),
        ..record
    };
    let failure = chain.read(&refused).await.unwrap().unwrap_err();
    assert_eq!(failure.part, part);
    assert_eq!(failure.record.part_bytes(part).unwrap(), b"!x");
    assert_eq!(
        failure.error.stage_path(),
        "exception-handling > retry > pipe.from > decryption > closure"
    );
}

#[tokio::test(start_paused = true)]
async fn the_example_builds_and_runs_for_keys_and_values_in_every_spelling() {
    for part in [Part::Key, Part::Value] {
        for package in ["deserialization", "serialization"] {
            for class in ["CloudEventsDeserializer", "CloudEventDeserializer"] {
                let text = PAGE
                    .replace("key.deserializer", &format!("{part}.deserializer"))
                    .replace(".deserialization.", &format!(".{package}."))
                    .replace("CloudEventsDeserializer", class);
                read_event(&text, part).await;
            }
        }
    }
}

/// FC-107 (a): one set of flat keys, two chains.
#[tokio::test(start_paused = true)]
async fn key_and_value_may_share_the_flat_keys() {
    let text = format!(
        "{PAGE}value.deserializer=org.apache.kafka.common.serialization.ExceptionHandlingDeserializer\n"
    );
    read_event(&text, Part::Key).await;
    read_event(&text, Part::Value).await;
}

#[test]
fn the_two_slips_of_the_page_are_one_report_with_their_right_spelling() {
    let text = PAGE
        .replace("key.deserializer", "key.deseriailzer")
        .replace("retry.deserializer.delegate", "retry.deseriailzer.delegate");
    let mistakes = mistakes(&text);
    assert_eq!(mistakes.len(), 2, "{mistakes:#?}");
    assert!(
        mistakes[0].starts_with("test.properties:1: key.deseriailzer: ")
            && mistakes[0].ends_with("did you mean key.deserializer?"),
        "{}",
        mistakes[0]
    );
    assert!(
        mistakes[1].starts_with("test.properties:4: retry.deseriailzer.delegate: ")
            && mistakes[1].ends_with("did you mean retry.deserializer.delegate?"),
        "{}",
        mistakes[1]
    );
}

/// A missing part whose key has a near miss is that slip, reported once.
#[test]
fn a_slip_in_a_chain_that_is_built_is_reported_once() {
    let text = PAGE.replace("retry.deserializer.delegate", "retry.deseriailzer.delegate");
    let mistakes = mistakes(&text);
    assert_eq!(mistakes.len(), 1, "{mistakes:#?}");
    assert!(
        mistakes[0].contains("did you mean retry.deserializer.delegate?"),
        "{}",
        mistakes[0]
    );
}

#[test]
fn a_foreign_class_must_be_registered() {
    let text = PAGE.replace(
        "com.example.DecryptionDeserializer",
        "com.example.OtherDeserializer",
    );
    let mistakes = mistakes(&text);
    assert_eq!(mistakes.len(), 1, "{mistakes:#?}");
    assert!(
        mistakes[0].starts_with(
            "test.properties:10: pipe.deserializer.from: there is no deserializer \
         `com.example.OtherDeserializer`; there are "
        ),
        "{}",
        mistakes[0]
    );
    assert!(
        mistakes[0].contains("a type of your own must be registered"),
        "{}",
        mistakes[0]
    );
}
