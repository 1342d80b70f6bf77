//! CloudEvents in both modes: the view, the `Event`, and what is written of either.

use super::{headers_and_value, quotes_nothing, read_in};
use kafka_chain::codecs::cloudevents::{
    CloudEvents, ContentMode, Encoding, EventData, EventView, Mode, read_batch, split_batch,
};
use kafka_chain::{Encoded, Headers, Part, Payload, Record, Serializer, Target};

pub(super) fn binary(input: &[u8]) {
    let (headers, value) = headers_and_value(input);
    record(&headers, value, input);
}

pub(super) fn structured(input: &[u8]) {
    let mut headers = Headers::new();
    headers.push("content-type", Some("application/cloudevents+json"));
    record(&headers, Some(input), input);
    batch(input);
}

fn record(headers: &Headers, value: Option<&[u8]>, input: &[u8]) {
    let mut record = Record::of_value(value);
    record.headers = headers.view();
    let context = record.context(Part::Value);
    let codec = CloudEvents::new();
    let event = read_in(&codec, Payload::from(value), &context);
    let payload = Payload::from(value);
    let view = CloudEvents::view(&context, &payload);
    match view {
        Ok(Some(view)) => {
            assert_eq!(
                EventView::read(headers.view(), value).as_ref().ok(),
                Some(&view)
            );
            rewritten(&view);
            match event {
                Ok(event) => of_the_sdk(&view, &event.unwrap()),
                Err(error) => quotes_nothing(&error, input),
            }
        }
        Ok(None) => {
            assert!(event.unwrap().is_none());
            assert!(value.is_none(), "only a null is a plain tombstone");
            assert!(headers.iter().all(|(name, _)| !name.starts_with(b"ce_")));
        }
        Err(error) => {
            assert!(event.is_err(), "the codec takes no more than the view");
            quotes_nothing(&error, input);
        }
    }
}

/// What is read is written, in either mode, as what reads as the same event.
fn rewritten(view: &EventView<'_>) {
    for encoding in [Encoding::Binary, Encoding::Structured] {
        let encoded = view.encode(encoding).expect("a valid event is written");
        let again = EventView::read(encoded.headers.view(), encoded.payload.as_deref())
            .unwrap_or_else(|error| panic!("{encoding:?} is not read again: {error}"));
        let mode = again.mode();
        assert_eq!(mode == Some(Mode::Binary), encoding == Encoding::Binary);
        same(view, &again);
        if mode == view.mode() && !matches!(view.raw_data(), EventData::Bytes(_)) {
            assert_eq!(
                view, &again,
                "in the mode it came in nothing changes at all"
            );
        }
        let twice = again.encode(encoding).unwrap();
        let third = EventView::read(twice.headers.view(), twice.payload.as_deref());
        assert_eq!(
            third.as_ref().ok(),
            Some(&again),
            "what was written once stays so"
        );
    }
}

fn same(one: &EventView<'_>, other: &EventView<'_>) {
    let implied = one.implied_datacontenttype();
    for (name, value) in one.attributes() {
        assert!(
            other.attributes().any(|found| found == (name, value)),
            "{name} is lost"
        );
    }
    for (name, value) in other.attributes() {
        let known = one.attributes().any(|found| found == (name, value));
        assert!(
            known || (name == "datacontenttype" && implied == Some(value)),
            "{name} is made up"
        );
    }
    assert_eq!(one.extensions().count(), other.extensions().count());
    for (name, value) in one.extensions() {
        let kept = other.extension(name).map(|found| found.into_text());
        assert_eq!(kept, Some(value.into_text()), "extension {name}");
    }
    // JSON within structured mode has no white space around it.
    let (data, kept) = (one.raw_data().as_bytes(), other.raw_data().as_bytes());
    let trimmed = |bytes: Option<&[u8]>| bytes.map(|bytes| bytes.trim_ascii().to_vec());
    let as_json = matches!(one.raw_data(), EventData::Json(_))
        || matches!(other.raw_data(), EventData::Json(_));
    match as_json {
        true => assert_eq!(trimmed(data), trimmed(kept)),
        false => assert_eq!(data, kept),
    }
}

/// The SDK's event keeps what it can hold, and can be written.
fn of_the_sdk(view: &EventView<'_>, event: &cloudevents::Event) {
    let again = EventView::of(event).unwrap_or_else(|error| panic!("read and refused: {error}"));
    assert_eq!(
        (view.id(), view.source(), view.ty()),
        (again.id(), again.source(), again.ty())
    );
    assert_eq!(
        (view.subject(), view.datacontenttype()),
        (again.subject(), again.datacontenttype())
    );
    assert_eq!(view.time_utc(), again.time_utc());
    assert_eq!(view.dataschema().is_some(), again.dataschema().is_some());
    assert_eq!(view.extensions().count(), again.extensions().count());
    assert_eq!(
        view.raw_data().as_bytes().is_some(),
        again.raw_data().as_bytes().is_some()
    );
    rewritten(&again);

    let target = Target::new("orders", Part::Value);
    for encoding in [Encoding::Binary, Encoding::Structured] {
        let codec = CloudEvents::new().encoding(encoding);
        let written = codec
            .serialize(Some(event), &target)
            .now()
            .unwrap()
            .unwrap();
        let tombstone = codec.serialize(None, &target).now().unwrap().unwrap();
        assert_eq!(tombstone, Encoded::default());
        let mut record = Record::of_value(written.payload.as_deref());
        record.headers = written.headers.view();
        let read = read_in(
            &codec,
            Payload::from(written.payload.as_deref()),
            &record.context(Part::Value),
        );
        assert!(
            read.unwrap().is_some(),
            "an event without data is no tombstone"
        );
    }
}

fn batch(input: &[u8]) {
    match (split_batch(input), read_batch(input)) {
        (Ok(texts), Ok(events)) => {
            assert_eq!(texts.len(), events.len());
            events.iter().for_each(rewritten);
        }
        (Err(one), Err(other)) => {
            quotes_nothing(&one, input);
            quotes_nothing(&other, input);
        }
        (Ok(_), Err(error)) => quotes_nothing(&error, input),
        (Err(_), Ok(_)) => panic!("a batch is read that cannot be split"),
    }
    assert_eq!(
        ContentMode::of(input),
        ContentMode::of(&input.to_ascii_uppercase())
    );
}
