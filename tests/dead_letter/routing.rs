//! Where a dead letter goes, and of what time it is.

use super::{NOW, all_dialects, failed, record, text, value};
use kafka_chain::dead_letter::{DeadLetters, Dialect, TimestampPolicy, destination, partition};
use kafka_chain::{ErrorKind, OwnedRecord, Timestamp};

/// FC-022.
#[test]
fn the_partition_is_the_same_number_if_there_is_one_and_else_the_keys() {
    assert_eq!(partition(5, Some(6)), Some(5));
    assert_eq!(partition(5, Some(5)), None);
    assert_eq!(partition(5, Some(1)), None);
    assert_eq!(partition(-1, Some(6)), None);
    assert_eq!(partition(0, Some(0)), None);
    assert_eq!(partition(5, None), None);
    let letter = DeadLetters::new().full(&failed(&record()), NOW).unwrap();
    assert_eq!(letter.partition, None);
    assert_eq!(text(&letter, "kafka-chain-origin-partition"), Some("5"));
}

/// FC-027.
#[test]
fn a_dead_letter_has_the_time_of_its_writing_and_tells_the_records_own() {
    let month_ago = NOW - 30 * 86_400_000;
    for (timestamp, millis, kind) in [
        (Timestamp::NotAvailable, None, "NoTimestampType"),
        (Timestamp::CreateTime(-1), None, "NoTimestampType"),
        (Timestamp::CreateTime(0), Some("0".to_owned()), "CreateTime"),
        (
            Timestamp::LogAppendTime(month_ago),
            Some(month_ago.to_string()),
            "LogAppendTime",
        ),
    ] {
        let failure = failed(&OwnedRecord {
            timestamp,
            ..record()
        });
        let letter = all_dialects().full(&failure, NOW).unwrap();
        assert_eq!(letter.timestamp, None);
        assert_eq!(
            text(&letter, "kafka-chain-origin-timestamp"),
            millis.as_deref()
        );
        assert_eq!(
            text(&letter, "kafka-chain-origin-timestamp-type"),
            Some(kind)
        );
        let spring: i64 = millis.map_or(-1, |millis| millis.parse().unwrap());
        assert_eq!(
            value(&letter, "kafka_dlt-original-timestamp"),
            Some(&spring.to_be_bytes()[..])
        );
    }
}

#[test]
fn the_source_timestamp_is_copied_where_the_dialect_does_so_or_the_user_says_so() {
    let at = |letters: &DeadLetters, millis| letters.timestamp_of(Timestamp::CreateTime(millis));
    let connect = DeadLetters::new().dialects([Dialect::Connect, Dialect::Streams]);
    assert_eq!(at(&connect, 77), Some(77));
    assert_eq!((at(&connect, 0), at(&connect, -1)), (None, None));
    assert_eq!(connect.timestamp_of(Timestamp::NotAvailable), None);
    assert_eq!(at(&connect.timestamp(TimestampPolicy::Publish), 77), None);
    let both = DeadLetters::new().dialects([Dialect::Connect, Dialect::KafkaChain]);
    assert_eq!(at(&both, 77), None);
    assert_eq!(at(&both.timestamp(TimestampPolicy::Source), 77), Some(77));
    assert_eq!(at(&DeadLetters::new().dialects([]), 77), None);
}

#[test]
fn a_dead_letter_never_goes_to_its_own_topic_nor_to_a_name_kafka_refuses() {
    let long = "t".repeat(249);
    for (template, topic, group, expected) in [
        (
            "${topic}.dead-letter",
            "orders",
            None,
            Ok("orders.dead-letter"),
        ),
        (
            "${topic}.${group}.dlt",
            "orders",
            Some("shop"),
            Ok("orders.shop.dlt"),
        ),
        ("dead-letters", "orders", None, Ok("dead-letters")),
        ("${topic}", "orders", None, Err("the topic itself")),
        ("orders", "orders", None, Err("the topic itself")),
        ("", "orders", None, Err("is empty")),
        ("${group}", "orders", Some(""), Err("is empty")),
        ("${group}.dlt", "orders", None, Err("no group")),
        ("${topic", "orders", None, Err("never closed")),
        (
            "${tpoic}.dlt",
            "orders",
            None,
            Err("`${topic}` and `${group}` only"),
        ),
        (
            "${topic}.${group}",
            "orders",
            Some("my shop"),
            Err("a character other than"),
        ),
        (
            "${group}",
            "orders",
            Some("../x"),
            Err("a character other than"),
        ),
        ("${group}", "orders", Some(".."), Err("`.` or `..`")),
        (".", "orders", None, Err("`.` or `..`")),
        ("${topic}x", long.as_str(), None, Err("longer than 249")),
        ("dlt", "", None, Ok("dlt")),
        // A name is a name, not a template.
        (
            "${group}",
            "orders",
            Some("${topic}"),
            Err("a character other than"),
        ),
    ] {
        match (destination(template, topic, group), expected) {
            (Ok(name), Ok(expected)) => assert_eq!(name, expected),
            (Err(error), Err(expected)) => {
                assert_eq!(error.kind(), ErrorKind::Config);
                assert!(error.message().contains(expected), "{template}: {error}");
            }
            (got, _) => panic!("{template} gave {got:?}"),
        }
    }
    assert_eq!(destination(&"x".repeat(249), "t", None).unwrap().len(), 249);
    let failure = failed(&record());
    assert!(
        DeadLetters::new()
            .to("${topic}")
            .full(&failure, NOW)
            .is_err()
    );
}
