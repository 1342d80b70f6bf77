//! A dead letter's record as it was before it failed.

use super::{NOW, all_dialects, consumed, failed, record};
use bytes::Bytes;
use kafka_chain::dead_letter::{DeadLetters, Dialect, Original, Originals, Retried};
use kafka_chain::{Headers, OwnedRecord, Record, Timestamp};
use proptest::prelude::*;

/// Names that a record can have of its own: attributes of events too.
fn own_headers() -> impl Strategy<Value = Headers> {
    let names = [
        "trace",
        "id",
        "",
        "ce_time",
        "ce_id",
        "ce_source",
        "kafka-chain-redrives",
    ];
    let name = prop_oneof![
        4 => proptest::sample::select(names.to_vec()).prop_map(|name| name.as_bytes().to_vec()),
        1 => Just(b"ce_specversion".to_vec()),
        1 => proptest::collection::vec(any::<u8>(), 0..5),
    ];
    let value = proptest::option::of(proptest::collection::vec(any::<u8>(), 0..5));
    proptest::collection::vec((name, value), 0..8).prop_map(|all| all.into_iter().collect())
}

fn original(letter: &OwnedRecord) -> Original {
    Original::of(&letter.as_record()).unwrap()
}

fn origin(original: &Original) -> (Option<&str>, Option<i32>, Option<i64>) {
    (
        original.topic.as_deref(),
        original.partition,
        original.offset,
    )
}

proptest! {
    #[test]
    fn own_headers_come_out_as_they_went_in(
        headers in own_headers(),
        dialects in proptest::sample::subsequence(Dialect::ALL.to_vec(), 1..=7),
        append in any::<bool>(),
        failures in 1_i64..4,
    ) {
        let record = OwnedRecord { headers, ..record() };
        let originals = if append { Originals::Append } else { Originals::First };
        let letters = DeadLetters::new().dialects(dialects.clone()).originals(originals);
        let mut letter = record.clone();
        for turn in 0..failures {
            let next = letters.full(&failed(&letter), NOW + turn).unwrap();
            letter = consumed(next, "orders.dead-letter", turn);
        }
        let original = original(&letter);
        prop_assert_eq!(&original.headers, &record.headers);
        let mut said = original.dialects.clone();
        said.sort_by_key(|dialect| Dialect::ALL.iter().position(|one| one == dialect));
        prop_assert_eq!(said, dialects.clone());
        // Of those that append, a dialect that is replaced knows the last failure only.
        if !append {
            prop_assert_eq!(origin(&original), (Some("orders"), Some(5), Some(4_294_967_296)));
        }
        prop_assert!(!original.pointer && !original.value_left_out);
    }

    #[test]
    fn any_headers_are_read(
        headers in proptest::collection::vec(
            (
                proptest::sample::select(
                    Dialect::ALL.into_iter().flat_map(Dialect::headers).map(|h| h.name)
                        .chain(["ce_type", "ce_id", "kafka-chain-retry-topic", "own"])
                        .collect::<Vec<_>>(),
                ),
                proptest::option::of("[a-z0-9.]{0,6}".prop_map(String::into_bytes)),
            ),
            0..20,
        ),
    ) {
        let headers: Headers = headers.into_iter().collect();
        let record = OwnedRecord { headers, ..record() };
        if let Some(original) = Original::of(&record.as_record()) {
            let own = |headers: &Headers| headers.iter().filter(|(name, _)| *name == "own").count();
            prop_assert_eq!(own(&original.headers), own(&record.headers));
            prop_assert!(original.partition.is_none_or(|partition| partition >= 0));
        }
    }
}

#[test]
fn the_timestamp_is_that_of_a_header_or_of_connects_own_record() {
    let source = Timestamp::CreateTime(1_522_900_584_000);
    for (dialects, timestamp) in [
        (vec![Dialect::KafkaChain], source),
        (vec![Dialect::Spring], source),
        (vec![Dialect::Connect, Dialect::Streams], source),
        (
            vec![Dialect::Connect, Dialect::SmallRye],
            Timestamp::NotAvailable,
        ),
        (vec![Dialect::SmallRye], Timestamp::NotAvailable),
        (vec![Dialect::CloudEvents], source),
    ] {
        let letters = DeadLetters::new().dialects(dialects.clone());
        let letter = letters.full(&failed(&record()), NOW).unwrap();
        let millis = letter.timestamp;
        let mut letter = consumed(letter, "orders.dead-letter", 3);
        if let Some(millis) = millis {
            letter.timestamp = Timestamp::CreateTime(millis);
        }
        assert_eq!(original(&letter).timestamp, timestamp, "{dialects:?}");
    }
}

/// A record that came through a topic of retries goes where it was consumed first, and as new.
#[test]
fn a_retried_record_is_from_where_it_was_consumed_first() {
    let mut first = record();
    first.headers.push("trace", Some("a"));
    let retried = Retried::first(&first.as_record(), NOW);
    let mut again = first.clone();
    again.topic = "orders.shop.retry".into();
    again.partition = 0;
    again.offset = 3;
    again.headers = retried.next(first.headers.view(), None, NOW, true);
    let letter = all_dialects().full(&failed(&again), NOW).unwrap();
    let original = original(&consumed(letter, "orders.dead-letter", 1));
    assert_eq!(
        origin(&original),
        (Some("orders"), Some(5), Some(4_294_967_296))
    );
    assert_eq!(original.headers, first.headers);
    assert_eq!(original.timestamp, first.timestamp);
}

/// What Spring counts deliveries by would send the record to its dead letters at once.
#[test]
fn springs_own_counters_go_with_its_dead_letter_headers() {
    let mut one = record();
    one.headers
        .push("retry_topic-attempts", Some(&[0, 0, 0, 4][..]));
    one.headers
        .push("kafka_deliveryAttempt", Some(&[0, 0, 0, 1][..]));
    let spring = DeadLetters::new().dialects([Dialect::Spring]);
    let ours = DeadLetters::new();
    let headers = |letters: &DeadLetters| {
        let letter = letters.full(&failed(&one), NOW).unwrap();
        original(&consumed(letter, "orders.dead-letter", 1)).headers
    };
    assert_eq!(headers(&spring), Headers::new());
    assert_eq!(headers(&ours), one.headers);
}

/// A record that failed in two frameworks failed first in the one whose names stand first.
#[test]
fn of_two_frameworks_the_first_one_tells_the_origin() {
    let connect = DeadLetters::new().dialects([Dialect::Connect]);
    let letter = connect.full(&failed(&record()), NOW).unwrap();
    let letter = consumed(letter, "connect-letters", 9);
    let letter = DeadLetters::new().full(&failed(&letter), NOW).unwrap();
    let original = original(&consumed(letter, "connect-letters.dead-letter", 1));
    assert_eq!(
        origin(&original),
        (Some("orders"), Some(5), Some(4_294_967_296))
    );
    assert_eq!(original.headers, Headers::new());
    assert_eq!(original.info.topic(), Some("connect-letters"));
}

#[test]
fn pointers_and_values_that_were_left_out_are_told_from_nulls_and_empty_values() {
    let letters = DeadLetters::new().dialects([Dialect::ShareGroup]);
    let mut pointer = consumed(letters.full(&failed(&record()), NOW).unwrap(), "dlq", 1);
    pointer.key = None;
    assert!(!original(&pointer).pointer);
    pointer.value = None;
    assert!(original(&pointer).pointer);

    let without = DeadLetters::new()
        .without_value(&failed(&record()), NOW)
        .unwrap();
    let without = consumed(without, "orders.dead-letter", 1);
    let found = original(&without);
    assert!(found.value_left_out && !found.pointer);
    assert_eq!(found.info.value_left_out(), Some(8));
    assert_eq!(found.headers, Headers::new());
    let empty = OwnedRecord {
        value: Some(Bytes::new()),
        ..record()
    };
    let empty = DeadLetters::new().full(&failed(&empty), NOW).unwrap();
    assert!(!original(&consumed(empty, "orders.dead-letter", 1)).value_left_out);
    // A value that is there is believed, whatever a header says.
    let filled = OwnedRecord {
        value: Some(Bytes::from_static(b"x")),
        ..without
    };
    assert!(!original(&filled).value_left_out);
    assert_eq!(Original::of(&Record::of_value(Some(b"x"))), None);
}
