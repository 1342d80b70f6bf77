//! Any information, any headers.

use super::{NOW, all_dialects, failed, library_names, record};
use kafka_chain::dead_letter::{
    DeadLetterInfo, DeadLetters, Dialect, Fact, Field, Originals, read, read_as,
};
use kafka_chain::{ErrorKind, Headers};
use proptest::prelude::*;

fn name() -> impl Strategy<Value = String> {
    "[a-zA-Zé][a-zA-Z0-9é ._-]{0,30}"
}

fn info() -> impl Strategy<Value = DeadLetterInfo> {
    let numbers = (
        0..=i32::MAX,
        0..=i64::MAX,
        0..=i64::MAX,
        1..=u32::MAX,
        0..=i64::MAX,
    );
    let texts = proptest::collection::vec(name(), 8);
    let rest = (
        any::<bool>(),
        any::<bool>(),
        0..ErrorKind::ALL.len(),
        "[A-Za-z0-9._-]{3,40}",
    );
    (numbers, texts, rest).prop_map(|(numbers, texts, (key, appended, kind, topic))| {
        let kind = ErrorKind::ALL[kind].as_str();
        let mut info = DeadLetterInfo::new();
        info.set(Field::Topic, topic);
        info.set(Field::Partition, i64::from(numbers.0));
        info.set(Field::Offset, numbers.1);
        info.set(Field::Timestamp, numbers.2);
        let appended = if appended {
            "LogAppendTime"
        } else {
            "CreateTime"
        };
        info.set(Field::TimestampType, appended);
        info.set(Field::Attempts, i64::from(numbers.3));
        info.set(Field::ElapsedMillis, numbers.4);
        info.set(Field::FailedAt, numbers.4);
        info.set(Field::Part, if key { "key" } else { "value" });
        info.set(Field::Kind, kind);
        info.set(Field::ExceptionClass, format!("kafka_chain.{kind}"));
        let fields = [
            Field::Group,
            Field::StagePath,
            Field::Message,
            Field::Causes,
            Field::Trace,
            Field::Fingerprint,
            Field::Version,
            Field::ExecutingClass,
        ];
        for (field, text) in fields.into_iter().zip(texts) {
            info.set(field, text);
        }
        info
    })
}

/// Header names of the dialects and others, so that random headers are met.
fn header_name() -> impl Strategy<Value = Vec<u8>> {
    let names: Vec<_> = Dialect::ALL
        .into_iter()
        .flat_map(Dialect::headers)
        .map(|header| header.name.as_bytes().to_vec())
        .chain([
            b"kafka-chain-value-left-out".to_vec(),
            b"ce_specversion".to_vec(),
        ])
        .collect();
    prop_oneof![
        8 => proptest::sample::select(names),
        1 => proptest::collection::vec(any::<u8>(), 0..8),
    ]
}

fn header_value() -> impl Strategy<Value = Option<Vec<u8>>> {
    proptest::option::of(prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..12),
        "-?[0-9]{1,20}".prop_map(String::into_bytes),
        "[a-z.]{0,8}".prop_map(String::into_bytes),
    ])
}

proptest! {
    #[test]
    fn what_is_written_in_a_dialect_is_read_back(info in info()) {
        for dialect in Dialect::ALL {
            let letters = DeadLetters::new().dialects([dialect]);
            let headers = letters.headers(Headers::new().view(), &info);
            let back = read_as(dialect, headers.view()).unwrap();
            prop_assert_eq!(read(headers.view()).unwrap(), (dialect, back.clone()));
            for header in dialect.headers() {
                // Spring puts the class itself where there is no cause; these are of two causes.
                if let Some(fact) = info.get(header.field) {
                    prop_assert_eq!(back.get(header.field), Some(fact), "{} {}", dialect, header.name);
                }
            }
            // What is read is written alike.
            prop_assert_eq!(letters.headers(headers.view(), &back), headers);
        }
    }

    #[test]
    fn random_headers_never_panic_and_what_is_read_is_in_range(
        headers in proptest::collection::vec((header_name(), header_value()), 0..40),
    ) {
        let headers: Headers = headers.into_iter().collect();
        let mut record = record();
        record.headers = headers;
        for dialect in Dialect::ALL {
            let Some(info) = read_as(dialect, record.headers.view()) else { continue };
            for (field, fact) in info.iter() {
                if let (Fact::Number(number), true) = (fact, field != Field::RetryAttempts) {
                    prop_assert!(*number >= 0, "{:?} {}", field, number);
                }
            }
            prop_assert_ne!(info.attempts(), Some(0));
        }
        for letters in [all_dialects(), all_dialects().originals(Originals::Append)] {
            let letter = letters.without_value(&failed(&record), NOW).unwrap();
            prop_assert_eq!(&letter.key, &record.key);
            let info = read(letter.headers.view()).unwrap().1;
            prop_assert!(info.topic().is_some() && info.offset().is_some());
        }
        let letter = all_dialects().full(&failed(&record), NOW).unwrap();
        for name in library_names() {
            prop_assert!(letter.headers.iter().filter(|(found, _)| *found == name).count() <= 1);
        }
    }
}
