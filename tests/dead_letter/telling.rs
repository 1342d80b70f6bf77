//! What the headers of a dead letter tell.

use super::{NOW, all_dialects, consumed, failed, failed_with, library_names, record, text};
use bytes::Bytes;
use kafka_chain::dead_letter::{DeadLetters, Dialect, Role, read, read_as};
use kafka_chain::{Error, ErrorKind, Failure, Part, Status, Timestamp};
use std::time::Duration;

#[test]
fn the_default_dialect_tells_everything_in_text() {
    let error = Error::unavailable("key service did not answer")
        .with_source(std::io::Error::other("connection reset"))
        .at("aes-gcm")
        .at("pipe.from")
        .at("retry")
        .with_attempts(4, Duration::from_millis(1500))
        .with_status(Status::Exhausted);
    let letter = DeadLetters::new()
        .group("shop")
        .full(&failed_with(&record(), error), NOW)
        .unwrap();
    assert_eq!(letter.topic, "orders.dead-letter");
    let fingerprint = text(&letter, "kafka-chain-fingerprint").unwrap().to_owned();
    let told: Vec<_> = letter
        .headers
        .iter()
        .map(|(name, value)| (name.as_ref(), std::str::from_utf8(value.unwrap()).unwrap()))
        .collect();
    let expected = [
        ("kafka-chain-origin-topic", "orders"),
        ("kafka-chain-origin-partition", "5"),
        ("kafka-chain-origin-offset", "4294967296"),
        ("kafka-chain-origin-timestamp", "1522900584000"),
        ("kafka-chain-origin-timestamp-type", "CreateTime"),
        ("kafka-chain-group", "shop"),
        ("kafka-chain-part", "value"),
        ("kafka-chain-stage-path", "retry > pipe.from > aes-gcm"),
        ("kafka-chain-status", "exhausted"),
        ("kafka-chain-kind", "unavailable"),
        ("kafka-chain-attempts", "4"),
        ("kafka-chain-elapsed-ms", "1500"),
        ("kafka-chain-message", "key service did not answer"),
        ("kafka-chain-causes", "connection reset"),
        ("kafka-chain-fingerprint", fingerprint.as_str()),
        ("kafka-chain-failed-at", "1700000000000"),
        ("kafka-chain-version", env!("CARGO_PKG_VERSION")),
    ];
    assert_eq!(told, expected.map(|(name, value)| (name.as_bytes(), value)));

    let (dialect, info) = read(letter.headers.view()).unwrap();
    assert_eq!(dialect, Dialect::KafkaChain);
    assert_eq!(info.kind(), Some(ErrorKind::Unavailable));
    assert_eq!(info.status(), Some(Status::Exhausted));
    assert_eq!((info.attempts(), info.part()), (Some(4), Some(Part::Value)));
    assert_eq!(info.elapsed(), Some(Duration::from_millis(1500)));
    assert_eq!(info.timestamp(), Timestamp::CreateTime(1_522_900_584_000));
    assert_eq!(info.causes(), Some("connection reset"));
    assert_eq!((info.failed_at(), info.value_left_out()), (Some(NOW), None));
}

#[test]
fn what_java_reads_of_our_error_is_a_class_a_message_and_a_trace() {
    let error = Error::decrypt("authentication tag does not match")
        .with_source(std::io::Error::other("tag mismatch"))
        .at("aes-gcm")
        .at("pipe.from");
    let letter = all_dialects()
        .full(&failed_with(&record(), error), NOW)
        .unwrap();
    let trace = "kafka_chain.decrypt: authentication tag does not match\n\tat aes-gcm\n\
                 \tat pipe.from\nCaused by: tag mismatch\n";
    for (name, expected) in [
        ("kafka_dlt-exception-fqcn", "kafka_chain.decrypt"),
        (
            "kafka_dlt-exception-message",
            "authentication tag does not match; tag mismatch",
        ),
        ("kafka_dlt-exception-stacktrace", trace),
        ("__connect.errors.connector.name", "shop"),
        ("__connect.errors.stage", "VALUE_CONVERTER"),
        ("__connect.errors.class.name", "aes-gcm"),
        (
            "__streams.errors.exception",
            "kafka_chain.decrypt: authentication tag does not match",
        ),
        ("dead-letter-reason", "authentication tag does not match"),
        ("dead-letter-cause", "tag mismatch"),
        ("__dlq.errors.delivery.count", "1"),
        ("ce_deadletterkind", "decrypt"),
    ] {
        assert_eq!(text(&letter, name), Some(expected), "{name}");
    }
}

#[test]
fn a_key_that_failed_is_told_in_springs_names_for_keys() {
    let record = record();
    let failure = Failure::new(
        Error::schema("too short"),
        &record.as_record().context(Part::Key),
    );
    let letters = DeadLetters::new().dialects([Dialect::Spring]);
    let first = letters.full(&failed(&record), NOW).unwrap();
    let again = letters.full(
        &Failure::new(
            Error::schema("too short"),
            &consumed(first, "orders", 9).as_record().context(Part::Key),
        ),
        NOW,
    );
    for letter in [letters.full(&failure, NOW), again] {
        let letter = letter.unwrap();
        assert_eq!(
            text(&letter, "kafka_dlt-key-exception-message"),
            Some("too short")
        );
        assert_eq!(
            letter
                .headers
                .view()
                .get_last("kafka_dlt-exception-message"),
            None
        );
        let info = read_as(Dialect::Spring, letter.headers.view()).unwrap();
        assert_eq!(
            (info.part(), info.kind()),
            (Some(Part::Key), Some(ErrorKind::Schema))
        );
    }
}

/// FC-111.
#[test]
fn payloads_are_in_no_header_of_ours_and_in_no_debug_text() {
    let mut record = record();
    record.key = Some(Bytes::from_static(b"hunter2"));
    record.value = Some(Bytes::from_static(b"{\"password\":\"hunter2\""));
    record.headers.push("auth", Some("hunter2"));
    let letter = all_dialects().full(&failed(&record), NOW).unwrap();
    let info = read(letter.headers.view()).unwrap();
    let shown = format!("{letter:?} {letter:#?} {info:?} {:?}", all_dialects());
    assert!(
        !shown.contains("hunter2") && !shown.contains("104, 117, 110"),
        "{shown}"
    );
    for (name, value) in letter.headers.iter().filter(|(name, _)| *name != "auth") {
        let value = String::from_utf8_lossy(value.unwrap());
        assert!(!value.contains("hunter2"), "{name:?}");
    }
}

#[test]
fn control_characters_of_a_message_become_blanks() {
    let error = Error::malformed("a\r\nb\0c\u{1b}[31m\u{202e}d");
    let letter = all_dialects()
        .full(&failed_with(&record(), error), NOW)
        .unwrap();
    for name in [
        "kafka-chain-message",
        "dead-letter-reason",
        "ce_deadletterreason",
    ] {
        assert_eq!(text(&letter, name), Some("a  b c [31m d"));
    }
}

#[test]
fn a_record_becomes_an_event_and_an_event_stays_the_one_it_was() {
    let letters = DeadLetters::new()
        .dialects([Dialect::CloudEvents])
        .group("shop/eu");
    let letter = letters.full(&failed(&record()), NOW).unwrap();
    for (name, expected) in [
        ("ce_specversion", Some("1.0")),
        ("ce_id", Some("orders-5-4294967296")),
        ("ce_source", Some("/kafka/groups/shop%2Feu")),
        ("ce_type", Some("kafka-chain.dead-letter")),
        ("ce_time", Some("2023-11-14T22:13:20.000Z")),
        ("content-type", None),
        ("ce_deadletteroffset", Some("4294967296")),
    ] {
        assert_eq!(text(&letter, name), expected, "{name}");
    }
    for header in Dialect::CloudEvents.headers() {
        let name = header.name.strip_prefix("ce_").unwrap();
        assert!(
            name.len() <= 20 && name.bytes().all(|byte| byte.is_ascii_lowercase()),
            "{name}"
        );
    }

    let again = letters
        .full(&failed(&consumed(letter, "orders", 9)), NOW + 1)
        .unwrap();
    assert_eq!(text(&again, "ce_id"), Some("orders-5-4294967296"));
    assert_eq!(text(&again, "ce_deadletterfailedat"), Some("1700000000001"));

    for own in [
        ("ce_specversion", "1.0"),
        ("content-type", "Application/CloudEvents+JSON"),
    ] {
        let mut record = record();
        record.headers.push(own.0, Some(own.1));
        let letter = letters.full(&failed(&record), NOW).unwrap();
        assert_eq!(letter.headers.view().get_last("ce_id"), None);
        assert_eq!(text(&letter, own.0), Some(own.1));
        assert_eq!(text(&letter, "ce_deadlettertopic"), Some("orders"));
    }
}

#[test]
fn names_round_trip_and_no_name_is_in_two_dialects() {
    for dialect in Dialect::ALL {
        assert_eq!(Dialect::from_name(dialect.as_str()), Some(dialect));
    }
    assert_eq!(Dialect::from_name("Spring"), None);
    let mut names = library_names();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}

/// `docs/dead-letter.md` lists every header with its encoding and role.
#[test]
fn the_document_lists_every_header() {
    let document = include_str!("../../docs/dead-letter.md");
    for header in Dialect::ALL.into_iter().flat_map(Dialect::headers) {
        let role = match header.role {
            Role::Origin => "origin",
            Role::Error => "error",
            Role::Foreign => "read only",
        };
        let row = format!(
            "| `{}` | `{}` | {role} |",
            header.name,
            header.encoding.as_str()
        );
        assert!(document.contains(&row), "{row}");
    }
}
