//! What stays as it was, however often a record fails.

use super::{
    NOW, all_dialects, bytes_of, consumed, failed, failed_with, library_names, record, text, value,
};
use bytes::Bytes;
use kafka_chain::dead_letter::{DeadLetters, Dialect, read, read_as};
use kafka_chain::{Error, OwnedRecord, Timestamp};
use std::time::Duration;

/// FC-013.
#[test]
fn null_and_empty_stay_what_they_are_in_key_value_and_headers() {
    let choices = [None, Some(Bytes::new()), Some(Bytes::from_static(b"a"))];
    for (key, value, header) in choices
        .iter()
        .flat_map(|key| choices.iter().map(move |value| (key, value)))
        .flat_map(|(key, value)| choices.iter().map(move |header| (key, value, header)))
    {
        let mut record = OwnedRecord {
            key: key.clone(),
            value: value.clone(),
            ..record()
        };
        record.headers.push("h", header.clone());
        record.headers.push("h", Some("again"));
        for (turn, letter) in [
            all_dialects().full(&failed(&record), NOW).unwrap(),
            all_dialects().shortened(&failed(&record), NOW).unwrap(),
        ]
        .into_iter()
        .enumerate()
        {
            // Once more through a dead-letter topic.
            let twice = all_dialects()
                .full(&failed(&consumed(letter.clone(), "orders", 1)), NOW)
                .unwrap();
            for letter in [letter, twice] {
                assert_eq!((&letter.key, &letter.value), (key, value), "{turn}");
                let own: Vec<_> = letter.headers.iter().take(2).collect();
                let again = Bytes::from_static(b"again");
                let name = Bytes::from_static(b"h");
                assert_eq!(own, [(&name, header.as_ref()), (&name, Some(&again))]);
            }
        }
    }
}

/// FC-016.
#[test]
fn headers_do_not_grow_when_a_dead_letter_fails_again_and_again() {
    for letters in [all_dialects(), DeadLetters::new()] {
        let (mut record, mut sizes) = (record(), Vec::new());
        for cycle in 0..50 {
            let error = Error::malformed("x".repeat(8 * 1024))
                .with_attempts(cycle + 1, Duration::from_secs(cycle.into()));
            let letter = letters
                .full(&failed_with(&record, error), NOW + i64::from(cycle))
                .unwrap();
            sizes.push(bytes_of(&letter.headers));
            for name in library_names() {
                let same = letter.headers.iter().filter(|(found, _)| *found == name);
                assert!(same.count() <= 1, "{name}");
            }
            for dialect in Dialect::ALL {
                if let Some(info) = read_as(dialect, letter.headers.view()) {
                    assert_eq!(info.topic(), Some("orders"));
                    assert_eq!(
                        (info.partition(), info.offset()),
                        (Some(5), Some(4_294_967_296))
                    );
                }
            }
            let (_, info) = read(letter.headers.view()).unwrap();
            assert_eq!(info.timestamp(), Timestamp::CreateTime(1_522_900_584_000));
            assert_eq!(
                (info.attempts(), info.failed_at()),
                (Some(cycle + 1), Some(NOW + i64::from(cycle)))
            );
            record = consumed(letter, "orders", cycle.into());
        }
        assert!(sizes[49] <= sizes[0] + 256, "{sizes:?}");
    }
}

#[test]
fn origin_headers_are_believed_only_when_they_are_whole() {
    let mut record = record();
    record
        .headers
        .push("kafka-chain-origin-topic", Some("elsewhere"));
    record
        .headers
        .push("kafka-chain-origin-partition", Some("1"));
    for offset in [None, Some("-7"), Some("99999999999999999999"), Some("x")] {
        let mut record = record.clone();
        record.headers.push("kafka-chain-origin-offset", offset);
        let letter = DeadLetters::new().full(&failed(&record), NOW).unwrap();
        let (_, info) = read(letter.headers.view()).unwrap();
        assert_eq!(
            (info.topic(), info.partition()),
            (Some("orders"), Some(5)),
            "{offset:?}"
        );
        assert_eq!(info.offset(), Some(4_294_967_296));
    }
    record.headers.push("kafka-chain-origin-offset", Some("3"));
    let letter = DeadLetters::new().full(&failed(&record), NOW).unwrap();
    let (_, info) = read(letter.headers.view()).unwrap();
    assert_eq!(
        (info.topic(), info.partition(), info.offset()),
        (Some("elsewhere"), Some(1), Some(3))
    );
    // The timestamp of another record is not mixed in.
    assert_eq!(info.timestamp(), Timestamp::NotAvailable);
}

/// FC-018.
#[test]
fn a_header_that_is_not_utf8_is_copied_byte_for_byte() {
    let mut record = record();
    record.headers.push(&b"\xff\xfe"[..], Some(&b"\x00"[..]));
    record.headers.push("sig", Some(&b"\xc3\x28\xff\x00"[..]));
    let letter = all_dialects().full(&failed(&record), NOW).unwrap();
    assert_eq!(value(&letter, "sig"), Some(&b"\xc3\x28\xff\x00"[..]));
    assert_eq!(
        letter.headers.view().get_last(b"\xff\xfe"),
        Some(Some(&b"\x00"[..]))
    );
}

/// FC-021.
#[test]
fn only_names_of_ours_are_replaced_in_a_dead_letter_that_fails_again() {
    let first = all_dialects().full(&failed(&record()), NOW).unwrap();
    let mut again = consumed(first, "orders", 1);
    again.headers.push("app-retry", Some("1"));
    again.headers.push("kafka-chain-of-custody", Some("mine"));
    again
        .headers
        .push("retry_topic-attempts", Some(&[0, 0, 0, 2][..]));
    let second = all_dialects().full(&failed(&again), NOW).unwrap();
    assert_eq!(text(&second, "app-retry"), Some("1"));
    assert_eq!(text(&second, "kafka-chain-of-custody"), Some("mine"));
    assert_eq!(
        value(&second, "retry_topic-attempts"),
        Some(&[0, 0, 0, 2][..])
    );
    // The record's own first, ours behind them.
    let names: Vec<_> = second
        .headers
        .iter()
        .map(|(name, _)| name.clone())
        .collect();
    let at = |wanted: &str| names.iter().position(|name| name == wanted).unwrap();
    assert!(at("app-retry") < at("kafka-chain-origin-topic"));
}

/// FC-025.
#[test]
fn the_key_is_kept_whatever_is_left_out() {
    for key in [None, Some(Bytes::from_static(b"user-7"))] {
        let failure = failed(&OwnedRecord {
            key: key.clone(),
            ..record()
        });
        for letter in [
            all_dialects().full(&failure, NOW),
            all_dialects().shortened(&failure, NOW),
            all_dialects().without_value(&failure, NOW),
            all_dialects().without_own_headers().full(&failure, NOW),
        ] {
            assert_eq!(letter.unwrap().key, key);
        }
    }
}
