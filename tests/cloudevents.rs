//! CloudEvents as they are met in the field.
#![cfg(feature = "cloudevents")]
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

#[path = "support/cloudevents.rs"]
mod support;

use cloudevents::event::{AttributesReader, Data};
use cloudevents::{EventBuilder, EventBuilderV10};
use kafka_chain::ErrorKind;
use kafka_chain::codecs::cloudevents::{
    CloudEvents, ContentMode, Encoding, EventView, Mode, Reason,
};
use support::{BODY, STRUCTURED, binary, decode, headers, rule, structured, write};

/// FC-113
#[test]
fn the_mode_follows_the_media_type_whatever_its_case_and_parameters() {
    for content_type in [
        "application/cloudevents+json; charset=utf-8",
        "Application/CloudEvents+JSON",
        "application/cloudevents+json;charset=UTF-8;x=1",
    ] {
        let headers = headers(&[("content-type", Some(content_type))]);
        let view = EventView::read(headers.view(), Some(BODY)).expect(content_type);
        assert_eq!(view.mode(), Some(Mode::Structured), "{content_type}");
    }
    let json = binary(&[("content-type", Some("application/json"))]);
    let view = EventView::read(json.view(), Some(b"{}")).expect("binary");
    assert_eq!(view.mode(), Some(Mode::Binary));
    for content_type in [
        "application/cloudevents+avro",
        "application/cloudevents-batch+json",
    ] {
        let headers = binary(&[("content-type", Some(content_type))]);
        let error = EventView::read(headers.view(), Some(BODY)).expect_err(content_type);
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert_eq!(rule(&error).0, Reason::UnsupportedFormat);
    }
    // Names of headers are compared byte for byte, content-type and ce_ alike.
    let foreign = binary(&[("Content-Type", Some(STRUCTURED)), ("CE_id", Some("2"))]);
    let view = EventView::read(foreign.view(), Some(b"x")).expect("binary");
    assert_eq!((view.id(), view.datacontenttype()), ("1", None));
    assert_eq!(view.extensions().count(), 0);
    assert_eq!(
        ContentMode::of(b"application/cloudevents-batch+json; a=b"),
        ContentMode::Batch
    );
}

/// FC-114
#[test]
fn a_binary_event_without_content_type_is_not_taken_for_a_structured_one() {
    let body = br#"{"specversion":"0.3","a":1}"#;
    let event = decode(&binary(&[]), Some(body))
        .expect("decodes")
        .expect("an event");
    assert_eq!(event.specversion().to_string(), "1.0");
    assert_eq!(event.datacontenttype(), None);
    assert_eq!(event.data(), Some(&Data::Binary(body.to_vec())));
}

/// FC-115
#[test]
fn a_missing_or_odd_specversion_is_an_error_that_names_it() {
    let cases: &[(&[u8], Reason, &str)] = &[
        (
            br#"{"id":"1","type":"t","source":"/s"}"#,
            Reason::MissingAttribute,
            "specversion",
        ),
        (
            br#"{"specVersion":"V1","id":"1","type":"t","source":"/s"}"#,
            Reason::MissingAttribute,
            "specversion",
        ),
        (
            br#"{"specversion":"2.0","id":"1","type":"t","source":"/s"}"#,
            Reason::UnknownSpecVersion,
            "specversion",
        ),
        (
            br#"{"specversion":"1.0","type":"t","source":"/s"}"#,
            Reason::MissingAttribute,
            "id",
        ),
        (
            br#"{"specversion":"1.0","id":"","type":"t","source":"/s"}"#,
            Reason::EmptyAttribute,
            "id",
        ),
    ];
    for (body, reason, attribute) in cases {
        let error = structured(body).expect_err("an error");
        assert_eq!(rule(&error), (*reason, Some(attribute.to_string())));
        assert!(error.message().contains(attribute), "{error}");
    }
    let headers = headers(&[
        ("ce_id", Some("1")),
        ("ce_type", Some("t")),
        ("ce_source", Some("/s")),
    ]);
    for value in [Some(&b"x"[..]), None] {
        let error = decode(&headers, value).expect_err("an error");
        assert!(error.message().contains("specversion"), "{error}");
    }
    assert_eq!(structured(BODY).expect("an event").id(), "1");
}

/// FC-116
#[test]
fn times_are_read_to_the_nanosecond_and_written_so_that_others_read_them() {
    for (text, utc) in [
        (
            "2018-04-26T14:48:09.123456789+02:00",
            1_524_746_889_123_456_789,
        ),
        ("2018-04-26T14:48:00Z", 1_524_754_080_000_000_000),
        ("2018-04-26t14:48:00z", 1_524_754_080_000_000_000),
    ] {
        let headers = binary(&[("ce_time", Some(text))]);
        let view = EventView::read(headers.view(), None).expect(text);
        assert_eq!(view.time(), Some(text));
        assert_eq!(
            view.time_utc().and_then(|t| t.timestamp_nanos_opt()),
            Some(utc)
        );
        let event = view.into_event().expect("an event of the SDK");
        assert_eq!(
            event.time().and_then(|t| t.timestamp_nanos_opt()),
            Some(utc)
        );
    }
    for text in ["2023-01-25T19:07:06.370582GMT", "2018-04-26"] {
        let headers = binary(&[("ce_time", Some(text))]);
        let error = decode(&headers, None).expect_err(text);
        assert_eq!(
            rule(&error),
            (Reason::InvalidValue, Some("time".to_owned()))
        );
    }
    for (instant, text) in [
        ("2018-04-26T14:48:09Z", "2018-04-26T14:48:09Z"),
        ("2018-04-26T14:48:00Z", "2018-04-26T14:48:00Z"),
        (
            "2018-04-26T14:48:09.123456789Z",
            "2018-04-26T14:48:09.123456789Z",
        ),
        ("2018-04-26T14:48:09-00:30", "2018-04-26T15:18:09Z"),
    ] {
        let event = EventBuilderV10::new()
            .id("1")
            .source("/s")
            .ty("t")
            .time(instant);
        let event = event.build().expect("an event");
        let encoded = write(CloudEvents::new(), Some(&event)).expect("written");
        let time = encoded.headers.view().get_last("ce_time").flatten();
        assert_eq!(time, Some(text.as_bytes()));
        let read = decode(&encoded.headers, encoded.payload.as_deref()).expect("read again");
        assert_eq!(read, Some(event));
    }
    // An event that is not the SDK's keeps the offset.
    let view = EventView::builder("1", "/s", "t").time("2018-04-26T14:48:09-00:30");
    let encoded = view
        .build()
        .and_then(|v| v.encode(Encoding::Binary))
        .expect("written");
    let time = encoded.headers.view().get_last("ce_time").flatten();
    assert_eq!(time, Some(&b"2018-04-26T14:48:09-00:30"[..]));
}

/// FC-117
#[test]
fn the_prefix_is_added_and_stripped_and_the_content_type_has_its_own_header() {
    let traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let event = EventBuilderV10::new()
        .id("1")
        .source("/s")
        .ty("t")
        .extension("traceparent", traceparent)
        .extension("a1", "v")
        .data("application/json", b"{}".to_vec())
        .build()
        .expect("an event");
    let mut encoded = write(CloudEvents::new(), Some(&event)).expect("written");
    let view = encoded.headers.view();
    assert_eq!(
        view.get_last("ce_traceparent"),
        Some(Some(traceparent.as_bytes()))
    );
    assert_eq!(view.get_last("ce_a1"), Some(Some(&b"v"[..])));
    assert_eq!(
        view.get_last("content-type"),
        Some(Some(&b"application/json"[..]))
    );
    assert_eq!(view.get_last("ce_datacontenttype"), None);
    encoded
        .headers
        .append(headers(&[("x-id", Some("1")), ("ce", Some("2"))]));
    encoded.headers.push("trace-bin", Some(&b"\xff"[..]));
    let read = decode(&encoded.headers, encoded.payload.as_deref()).expect("read");
    assert_eq!(read, Some(event.clone()));
    let key = CloudEvents::new();
    assert_eq!(
        key.record_key(&event, Some(b"k")).as_deref(),
        Some(&b"k"[..])
    );
}

/// FC-014, the decoding half.
#[test]
fn a_null_header_is_no_header() {
    let foreign = binary(&[("trace", None)]);
    assert!(decode(&foreign, Some(b"x")).expect("decodes").is_some());
    let subject = binary(&[("ce_subject", None)]);
    let event = decode(&subject, Some(b"x"))
        .expect("decodes")
        .expect("an event");
    assert_eq!(event.subject(), None);
    let mut id = headers(&[("ce_specversion", Some("1.0")), ("ce_id", None)]);
    id.append(headers(&[
        ("ce_type", Some("t")),
        ("ce_source", Some("/s")),
    ]));
    let error = decode(&id, Some(b"x")).expect_err("no id");
    assert_eq!(
        rule(&error),
        (Reason::MissingAttribute, Some("id".to_owned()))
    );
}
