//! Short ways to read and write events in tests.
#![allow(unreachable_pub, dead_code, reason = "every test file uses some of it")]

use cloudevents::Event;
use kafka_chain::codecs::cloudevents::{CloudEvents, EventError, EventView, Reason, cloudevents};
use kafka_chain::{
    Deserializer, Encoded, Error, Headers, Input, Part, Record, Result, Serializer, Target,
};
use std::error::Error as _;
use std::sync::LazyLock;

pub const STRUCTURED: &str = "application/cloudevents+json";
pub const BODY: &[u8] = br#"{"specversion":"1.0","id":"1","type":"t","source":"/s"}"#;

pub fn headers(pairs: &[(&str, Option<&str>)]) -> Headers {
    pairs
        .iter()
        .map(|(name, value)| (name.to_string(), value.map(str::to_owned)))
        .collect()
}

/// The four required headers and `more`.
pub fn binary(more: &[(&str, Option<&str>)]) -> Headers {
    let mut all = headers(&[
        ("ce_specversion", Some("1.0")),
        ("ce_id", Some("1")),
        ("ce_type", Some("t")),
        ("ce_source", Some("/s")),
    ]);
    all.append(headers(more));
    all
}

pub fn structured(body: &[u8]) -> Result<EventView<'_>> {
    static HEADERS: LazyLock<Headers> =
        LazyLock::new(|| headers(&[("content-type", Some(STRUCTURED))]));
    EventView::read(HEADERS.view(), Some(body))
}

pub fn decode(headers: &Headers, value: Option<&[u8]>) -> Result<Option<Event>> {
    let record = Record {
        headers: headers.view(),
        ..Record::of_value(value)
    };
    let context = record.context(Part::Value);
    let stage = cloudevents();
    let answer = stage.deserialize(Input::of(&context));
    answer.now().expect("a codec answers at once")
}

pub fn write(codec: CloudEvents, event: Option<&Event>) -> Result<Encoded> {
    let target = Target::new("t", Part::Value);
    let stage = codec.stage();
    let answer = stage.serialize(event, &target);
    answer.now().expect("a codec answers at once")
}

pub fn rule(error: &Error) -> (Reason, Option<String>) {
    let source = error.source().expect("a source");
    let error = source.downcast_ref::<EventError>().expect("an EventError");
    (error.reason(), error.attribute().map(str::to_owned))
}
