//! What a failure leaves in its dead-letter topic, and what is read back from there.

mod again;
mod limits;
mod original;
mod random;
mod reading;
mod routing;
mod telling;

use bytes::Bytes;
use kafka_chain::dead_letter::{DeadLetters, Dialect, Role};
use kafka_chain::{Error, Failure, Headers, OutgoingRecord, OwnedRecord, Part, Timestamp};

const NOW: i64 = 1_700_000_000_000;

fn record() -> OwnedRecord {
    OwnedRecord {
        topic: "orders".to_owned(),
        partition: 5,
        offset: 4_294_967_296,
        timestamp: Timestamp::CreateTime(1_522_900_584_000),
        key: Some(Bytes::from_static(b"user-7")),
        value: Some(Bytes::from_static(b"{\"half\":")),
        headers: Headers::new(),
    }
}

fn failed_with(record: &OwnedRecord, error: Error) -> Box<Failure> {
    Failure::new(error, &record.as_record().context(Part::Value))
}

fn failed(record: &OwnedRecord) -> Box<Failure> {
    failed_with(
        record,
        Error::malformed("the JSON ends too early")
            .at("json")
            .at("pipe.to"),
    )
}

fn all_dialects() -> DeadLetters {
    DeadLetters::new().dialects(Dialect::ALL).group("shop")
}

fn value<'a>(letter: &'a OutgoingRecord, name: &str) -> Option<&'a [u8]> {
    letter.headers.view().get_last(name).flatten()
}

fn text<'a>(letter: &'a OutgoingRecord, name: &str) -> Option<&'a str> {
    value(letter, name).map(|bytes| std::str::from_utf8(bytes).unwrap())
}

fn bytes_of(headers: &Headers) -> usize {
    headers
        .iter()
        .map(|(name, value)| name.len() + value.map_or(0, Bytes::len))
        .sum()
}

/// The record that a consumer of `topic` gets when this is written there.
fn consumed(letter: OutgoingRecord, topic: &str, offset: i64) -> OwnedRecord {
    OwnedRecord {
        topic: topic.to_owned(),
        partition: 0,
        offset,
        timestamp: Timestamp::LogAppendTime(NOW + offset),
        key: letter.key,
        value: letter.value,
        headers: letter.headers,
    }
}

fn library_names() -> Vec<&'static str> {
    Dialect::ALL
        .into_iter()
        .flat_map(Dialect::headers)
        .filter(|header| header.role != Role::Foreign)
        .map(|header| header.name)
        .collect()
}
