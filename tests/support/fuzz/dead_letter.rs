//! Headers of dead letters: read in every dialect, and written for a record that has them already.

use super::headers_and_value;
use bytes::Bytes;
use kafka_chain::codecs::cloudevents::EventView;
use kafka_chain::dead_letter::{
    DeadLetterInfo, DeadLetters, Dialect, Originals, READ_LIMIT, Role, destination, read, read_as,
};
use kafka_chain::{
    Error, ErrorKind, Failure, Headers, OutgoingRecord, OwnedRecord, Part, Record, Timestamp,
};

const NOW: i64 = 1_700_000_000_000;

pub(super) fn headers(input: &[u8]) {
    let (own, value) = headers_and_value(input);
    let found = read(own.view());
    for dialect in Dialect::ALL {
        if let Some(info) = read_as(dialect, own.view()) {
            assert!(found.is_some(), "what one dialect says is found");
            in_range(&info);
        }
    }
    if let Some((dialect, info)) = &found {
        assert_eq!(read_as(*dialect, own.view()).as_ref(), Some(info));
    }

    let record = Record {
        topic: "orders",
        partition: 3,
        offset: 42,
        timestamp: Timestamp::CreateTime(NOW - 1),
        key: Some(b"key"),
        headers: own.view(),
        ..Record::of_value(value)
    };
    let letters = DeadLetters::new().dialects(Dialect::ALL).group("shop");
    let first = written(&letters, &record.to_owned());
    written_short(&letters, &record.to_owned());
    // A dead letter that fails again is a dead letter of the same record.
    let again = OwnedRecord {
        topic: first.topic.clone(),
        partition: 0,
        offset: 7,
        ..of_letter(&first)
    };
    let second = written(&letters.clone().to("dead"), &again);
    let origin = |letter: &OutgoingRecord| {
        let (_, info) = read(letter.headers.view()).unwrap();
        (
            info.topic().map(str::to_owned),
            info.partition(),
            info.offset(),
        )
    };
    assert_eq!(origin(&first), origin(&second));
    assert_eq!(first.headers.view().len(), second.headers.view().len());
    written(&letters.originals(Originals::Append), &again);

    let template = String::from_utf8_lossy(input);
    match destination(&template, "orders", Some("shop")) {
        Ok(name) => assert!(name.len() <= 249 && name != "orders"),
        Err(error) => assert_eq!(error.kind(), ErrorKind::Config),
    }
}

fn of_letter(letter: &OutgoingRecord) -> OwnedRecord {
    OwnedRecord {
        topic: letter.topic.clone(),
        partition: 0,
        offset: 0,
        timestamp: Timestamp::NotAvailable,
        key: letter.key.clone(),
        value: letter.value.clone(),
        headers: letter.headers.clone(),
    }
}

/// Texts are cut, numbers in range.
fn in_range(info: &DeadLetterInfo) {
    for (_, fact) in info.iter() {
        assert!(fact.text().is_none_or(|text| text.len() <= READ_LIMIT));
    }
    assert!(
        info.topic()
            .is_none_or(|topic| !topic.is_empty() && topic.len() <= 249)
    );
    assert!(info.partition().is_none_or(|partition| partition >= 0));
    assert!(info.offset().is_none_or(|offset| offset >= 0));
    let _ = (
        info.timestamp(),
        info.elapsed(),
        info.attempts(),
        info.kind(),
        info.part(),
    );
    let _ = (
        info.status(),
        info.group(),
        info.value_left_out(),
        info.failed_at(),
    );
}

fn failure_of(record: &OwnedRecord) -> Box<Failure> {
    let error = Error::malformed("it ends too early").at("json");
    Failure::new(error, &record.as_record().context(Part::Value))
}

/// Key, value and foreign headers are those consumed; the dialects' headers tell what happened.
fn written(letters: &DeadLetters, record: &OwnedRecord) -> OutgoingRecord {
    let full = letters.full(&failure_of(record), NOW).unwrap();
    assert_eq!((&full.key, &full.value), (&record.key, &record.value));
    told(&full.headers, &record.headers);
    full
}

/// The same where less may be written.
fn written_short(letters: &DeadLetters, record: &OwnedRecord) {
    let failure = failure_of(record);
    let shortened = letters.shortened(&failure, NOW).unwrap();
    assert_eq!(
        (&shortened.key, &shortened.value),
        (&record.key, &record.value)
    );
    told(&shortened.headers, &record.headers);
    let least = letters.without_value(&failure, NOW).unwrap();
    let empty = record.value.as_ref().map(|_| Bytes::new());
    assert_eq!((&least.key, &least.value), (&record.key, &empty));
    told(&least.headers, &record.headers);
}

fn told(headers: &Headers, own: &Headers) {
    let of_dialects = |name: &[u8]| {
        name == b"kafka-chain-value-left-out"
            || Dialect::ALL.iter().any(|dialect| {
                dialect
                    .header_named(name)
                    .is_some_and(|header| header.role != Role::Foreign)
            })
    };
    let kept: Vec<_> = own.iter().filter(|(name, _)| !of_dialects(name)).collect();
    let all: Vec<_> = headers
        .iter()
        .filter(|(name, _)| !of_dialects(name))
        .collect();
    assert_eq!(
        all.get(..kept.len()),
        Some(&kept[..]),
        "headers of others stay as they are"
    );

    let (dialect, info) = read(headers.view()).unwrap();
    assert_eq!(dialect, Dialect::KafkaChain);
    assert_eq!(
        (info.kind(), info.part()),
        (Some(ErrorKind::Malformed), Some(Part::Value))
    );
    in_range(&info);
    if !own
        .iter()
        .any(|(name, _)| name.starts_with(b"ce_") || name.as_ref() == b"content-type")
    {
        EventView::read(headers.view(), Some(b"")).expect("a dead letter is a CloudEvent");
    }
}
