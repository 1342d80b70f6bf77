use super::*;
use crate::status::{ErrorKind, Status};
use proptest::prelude::*;
use std::time::Duration;

const NOW: i64 = 1_800_000_000_000;

fn headers(headers: &[(&str, Option<&str>)]) -> Headers {
    let owned = |text: &str| Bytes::copy_from_slice(text.as_bytes());
    (headers.iter())
        .map(|(name, value)| (owned(name), value.map(owned)))
        .collect()
}

fn read(list: &[(&str, Option<&str>)]) -> Result<Deliver> {
    Deliver::read(headers(list).view())
}

fn rules() -> DeliverRules {
    DeliverRules::parse("orders").unwrap()
}

#[test]
fn the_headers_say_when_and_where_to() {
    let asked = read(&[
        ("deliver-after", Some("1800000060000")),
        ("deliver-to", Some("orders:3")),
    ])
    .unwrap();
    assert_eq!(asked.after, After::At(NOW + 60_000));
    let to = asked.to.unwrap();
    assert_eq!((to.topic.as_str(), to.partition), ("orders", Some(3)));
    assert_eq!(to.to_string(), "orders:3");
    assert_eq!(read(&[]).unwrap(), Deliver::default());
}

#[test]
fn the_last_of_a_header_counts() {
    let asked = read(&[("deliver-after", Some("x")), ("deliver-after", Some("7"))]);
    assert_eq!(asked.unwrap().after, After::At(7));
}

#[test]
fn a_delay_counts_from_the_timestamp_and_without_one_from_ingest() {
    let asked = read(&[("deliver-after-delay", Some("500"))]).unwrap();
    for (timestamp, at) in [
        (Timestamp::CreateTime(1_000), 1_500),
        (Timestamp::LogAppendTime(2_000), 2_500),
        (Timestamp::NotAvailable, NOW + 500),
        (Timestamp::CreateTime(-1), NOW + 500),
        (Timestamp::CreateTime(0), 500),
    ] {
        assert_eq!(asked.at(timestamp, NOW), Some(at), "{timestamp:?}");
    }
    let later = asked.at(Timestamp::CreateTime(1_000), NOW + 86_400_000);
    assert_eq!(later, Some(1_500), "the same on every reading");
}

/// FC-080, FC-081: what is past is due now, what is too far is refused, nothing wraps.
#[test]
fn the_ends_of_the_range_are_past_or_refused() {
    let at = |name, value: &str| {
        let headers = headers(&[(name, Some(value)), ("deliver-to", Some("orders"))]);
        let record = Record {
            timestamp: Timestamp::CreateTime(NOW),
            headers: headers.view(),
            ..Record::of_value(None)
        };
        rules().delivery(&record, NOW).map(|delivery| delivery.at)
    };
    let (after, delay) = ("deliver-after", "deliver-after-delay");
    assert_eq!(at(after, "-9223372036854775808").unwrap(), Some(0));
    assert_eq!(at(after, "0").unwrap(), Some(0));
    assert_eq!(at(delay, "0").unwrap(), Some(NOW));
    assert_eq!(at(delay, "3600000").unwrap(), Some(NOW + 3_600_000));
    for name in [after, delay] {
        let error = at(name, "9223372036854775807").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Schema, "{error}");
        assert!(error.message().contains("maximum delay"), "{error}");
    }
    assert!(at(delay, "18446744073709551615").is_err());
    for broken in ["9999999999999999999999", "-1", "", " 1", "1.5", "1e3"] {
        assert!(at(delay, broken).is_err(), "{broken}");
    }
}

#[test]
fn a_broken_header_is_named_and_not_quoted() {
    for (name, value) in [
        ("deliver-after", Some("secret")),
        ("deliver-after", None),
        ("deliver-after-delay", Some("secret")),
        ("deliver-to", Some("secret topic")),
        ("deliver-to", Some("secret:-1")),
        ("deliver-to", Some("secret:2147483648")),
        ("deliver-to", Some("secret:1:2")),
        ("deliver-to", Some(":1")),
        ("deliver-to", Some("")),
        ("deliver-to", None),
    ] {
        let error = read(&[(name, value)]).unwrap_err();
        assert_eq!(error.status(), Status::Permanent);
        assert!(error.message().contains(name), "{error}");
        assert!(!error.message().contains("secret"), "{error}");
    }
    let both = [
        ("deliver-after", Some("1")),
        ("deliver-after-delay", Some("1")),
    ];
    assert!(read(&both).unwrap_err().message().contains("both"));
}

#[test]
fn what_is_delivered_is_what_came_less_our_headers() {
    let list = [
        ("trace", Some("a")),
        ("deliver-to", Some("orders")),
        ("trace", Some("b")),
        ("deliver-after", Some("5")),
        ("deliver-after-record", Some("4")),
        ("deliver-id", Some("id")),
        ("deliver-notes", None),
    ];
    let headers = headers(&list);
    let record = Record {
        key: Some(b""),
        timestamp: Timestamp::CreateTime(7),
        headers: headers.view(),
        ..Record::of_value(None)
    };
    assert_eq!(deliver_after_record(record.headers), Some(4));
    let out = rules().delivery(&record, NOW).unwrap().outgoing(&record);
    let names: Vec<_> = out.headers.iter().map(|(name, _)| name.clone()).collect();
    assert_eq!(names, ["trace", "trace", "deliver-id", "deliver-notes"]);
    assert_eq!((out.key, out.value), (Some(Bytes::new()), None));
    assert_eq!(out.timestamp, None, "the time of delivery");
}

proptest! {
    #[test]
    fn what_is_addressed_is_read_back(
        at in 0..=MAX_INSTANT, partition in proptest::option::of(0..=i32::MAX),
        old in proptest::option::of("[0-9a-z]{0,20}"),
    ) {
        let mut record = OutgoingRecord {
            topic: "orders".to_owned(),
            partition,
            ..OutgoingRecord::default()
        };
        record.headers.push("trace", Some("a"));
        let mut given = record.clone();
        if let Some(old) = old {
            given.headers.push(DELIVER_AFTER_DELAY, Some(old.clone()));
            given.headers.push(DELIVER_TO, Some(old));
        }
        let held = addressed(given, "held", at);
        prop_assert_eq!((held.topic.as_str(), held.partition), ("held", None));
        let consumed = crate::record::OwnedRecord {
            headers: held.headers,
            ..Default::default()
        };
        let rules = rules().max_delay(Duration::MAX);
        let delivery = rules.delivery(&consumed.as_record(), NOW).unwrap();
        prop_assert_eq!(delivery.at, Some(at));
        let out = delivery.outgoing(&consumed.as_record());
        prop_assert_eq!(out.headers, record.headers);
        prop_assert_eq!((out.topic, out.partition), (record.topic, partition));
    }

    #[test]
    fn any_header_is_read_or_refused(
        name in proptest::sample::select(&DELIVER_HEADERS[..]),
        value in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..40)),
        timestamp in any::<i64>(), now in any::<i64>(),
    ) {
        let headers: Headers = [(name, value)].into_iter().collect();
        if let Ok(asked) = Deliver::read(headers.view()) {
            let at = asked.at(Timestamp::CreateTime(timestamp), now);
            prop_assert!(at.is_none_or(|at| (0..=MAX_INSTANT).contains(&at)));
        }
        let record = Record { headers: headers.view(), ..Record::of_value(None) };
        let _ = rules().delivery(&record, now);
    }

    #[test]
    fn numbers_of_any_size_are_due_within_the_maximum_or_refused(
        delay in any::<u64>(), at in any::<i64>(), stamp in any::<i64>(), by_delay in any::<bool>(),
    ) {
        let (name, text) = match by_delay {
            true => (DELIVER_AFTER_DELAY, delay.to_string()),
            false => (DELIVER_AFTER, at.to_string()),
        };
        let headers: Headers = [(name, Some(text)), (DELIVER_TO, Some("orders".to_owned()))]
            .into_iter()
            .collect();
        let record = Record {
            timestamp: Timestamp::CreateTime(stamp),
            headers: headers.view(),
            ..Record::of_value(None)
        };
        let max = Duration::from_secs(86_400);
        if let Ok(delivery) = rules().max_delay(max).delivery(&record, NOW) {
            let due = delivery.at.unwrap();
            prop_assert!((0..=NOW + 86_400_000).contains(&due));
            let base = if stamp < 0 { NOW } else { stamp };
            let exact = match by_delay {
                true => i128::from(base) + i128::from(delay),
                false => i128::from(at.max(0)),
            };
            prop_assert_eq!(i128::from(due), exact);
        }
    }
}
