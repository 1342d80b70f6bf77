//! What the CloudEvents codec promises beyond the conformance cases.
#![cfg(feature = "cloudevents")]
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

#[path = "support/cloudevents.rs"]
mod support;

use cloudevents::event::{AttributesReader, Data, ExtensionValue as SdkValue};
use cloudevents::{AttributesWriter, EventBuilder, EventBuilderV10};
use kafka_chain::codecs::cloudevents::{
    CloudEvents, Encoding, EventData, EventView, ExtensionValue, Reason, SpecVersion, cloudevents,
    read_batch,
};
use kafka_chain::{
    Component, Deserializer, Encoded, ErrorKind, Input, Part, Record, Serializer, Target,
};
use support::{STRUCTURED, binary, decode, headers, rule, structured, write};

#[test]
fn a_null_value_is_an_event_a_tombstone_or_an_error() {
    let event = decode(&binary(&[]), None)
        .expect("decodes")
        .expect("an event");
    assert_eq!(event.data(), None);
    for plain in [
        headers(&[]),
        headers(&[("content-type", Some("application/json"))]),
    ] {
        assert_eq!(decode(&plain, None).expect("a tombstone"), None);
        assert_eq!(
            rule(&decode(&plain, Some(b"{}")).expect_err("no event")).0,
            Reason::NotCloudEvent
        );
    }
    let claims = headers(&[("content-type", Some(STRUCTURED))]);
    assert_eq!(
        decode(&claims, None).expect_err("no event").kind(),
        ErrorKind::Malformed
    );
    let tombstone = write(CloudEvents::new(), None).expect("written");
    assert_eq!(tombstone, Encoded::of(None));
}

#[test]
fn an_event_is_read_from_either_half_and_written_as_a_value() {
    let record = Record {
        key: Some(b"k"),
        ..Record::of_value(None)
    };
    let context = record.context(Part::Key);
    let stage = cloudevents();
    let error = stage
        .deserialize(Input::of(&context))
        .now()
        .expect("at once")
        .expect_err("a key");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert_eq!(stage.describe().to_string(), "cloudevents");
    let target = Target::new("t", Part::Key);
    let error = stage
        .serialize(None, &target)
        .now()
        .expect("at once")
        .expect_err("a key");
    assert_eq!(error.kind(), ErrorKind::Config);
    assert_eq!(
        "Structured".parse::<Encoding>().ok(),
        Some(Encoding::Structured)
    );
    assert!("AVRO".parse::<Encoding>().is_err());
    assert!(CloudEvents::new().event_format(STRUCTURED).is_ok());
    assert!(
        CloudEvents::new()
            .event_format("application/cloudevents+avro")
            .is_err()
    );
}

#[test]
fn errors_quote_nothing_of_the_record() {
    let bodies: &[&[u8]] = &[
        br#"{"specversion":"1.0","id":"1","type":"t","source":"hunter2 x"}"#,
        br#"{"specversion":"hunter2","id":"1","type":"t","source":"/s"}"#,
        br#"{"specversion":"1.0","id":"1","type":"t","source":"/s","hunter2 ":1}"#,
        br#"{"specversion":"1.0","id":"1","type":"t","source":"/s","e":"hunter2\n"}"#,
        br#"{"specversion":"1.0","id":"1","type":"t","source":"/s","data_base64":"hunter2!"}"#,
        br#"{"specversion":"1.0","id":"1","type":"t","source":"/s","time":"hunter2"}"#,
        br#"["hunter2"]"#,
        br#""hunter2""#,
        br#"{"hunter2":hunter2}"#,
        b"{\"id\":\"hunter2\xff\"}",
    ];
    for body in bodies {
        let error = structured(body).expect_err("an error");
        assert!(
            !format!("{error:#} {error:?}").contains("hunter2"),
            "{error:?}"
        );
    }
    let error = structured(b"{\n \"id\":}").expect_err("broken");
    assert_eq!(
        error.to_string(),
        "permanent malformed: not an event in JSON: syntax error at line 2 column 7"
    );
    let body = br#"{"specversion":"1.0","id":"1","type":"t","source":"/s","data":"hunter2"}"#;
    let view = structured(body).expect("an event");
    assert!(!format!("{view:?}").contains("hunter2"));
    let error = view.data::<u8>().expect_err("no number");
    assert_eq!(error.kind(), ErrorKind::Schema);
    assert!(!format!("{error:#}").contains("hunter2"), "{error}");
}

#[test]
fn data_borrows_from_the_record() {
    #[derive(serde::Deserialize)]
    struct Order<'a> {
        name: &'a str,
    }
    let body = br#"{"specversion":"1.0","id":"1","type":"t","source":"/s","data":{"name":"a"}}"#;
    let range = body.as_ptr_range();
    let view = structured(body).expect("an event");
    assert!(range.contains(&view.data::<Order<'_>>().expect("an order").name.as_ptr()));
    assert!(range.contains(&view.id().as_ptr()));
    let headers = binary(&[("content-type", Some("application/json"))]);
    let value = br#"{"name":"b"}"#;
    let view = EventView::read(headers.view(), Some(value)).expect("an event");
    let name = view.data::<Order<'_>>().expect("an order").name;
    assert!(value.as_ptr_range().contains(&name.as_ptr()));
    let escaped = br#"{"specversion":"1.0","id":"\u0031\n","type":"t","source":"/s"}"#;
    assert_eq!(
        rule(&structured(escaped).expect_err("a control")).0,
        Reason::InvalidValue
    );
    let escaped = br#"{"spec\u0076ersion":"1.0","id":"\u0031\"","type":"t","source":"/s"}"#;
    assert_eq!(structured(escaped).expect("an event").id(), "1\"");
}

#[test]
fn data_that_is_not_json_is_not_read_as_json() {
    let text = binary(&[("content-type", Some("text/plain"))]);
    let view = EventView::read(text.view(), Some(b"1")).expect("an event");
    assert_eq!(
        view.data::<u8>().expect_err("text").kind(),
        ErrorKind::Unsupported
    );
    let none = binary(&[]);
    let view = EventView::read(none.view(), Some(b"1")).expect("an event");
    assert_eq!(view.data::<u8>().ok(), Some(1));
    let view = EventView::read(none.view(), None).expect("an event");
    assert_eq!(
        view.data::<u8>().expect_err("absent").kind(),
        ErrorKind::Schema
    );
    let view = EventView::read(none.view(), Some(b"{")).expect("an event");
    assert_eq!(
        view.data::<serde_json::Value>().expect_err("broken").kind(),
        ErrorKind::Malformed
    );
}

#[test]
fn what_the_sdk_lets_through_is_not_written() {
    let event = || EventBuilderV10::new().id("1").source("/s").ty("t");
    let cases = [
        (event().id(""), Reason::EmptyAttribute, "id"),
        (event().source("a b"), Reason::InvalidValue, "source"),
        (
            event().extension("my-ext", "v"),
            Reason::InvalidName,
            "my-ext",
        ),
        (event().extension("data", "v"), Reason::InvalidName, "data"),
        (event().extension("id", "v"), Reason::InvalidName, "id"),
        (event().extension("e", "\u{7}"), Reason::InvalidValue, "e"),
        (
            event().extension("e", 1_i64 << 31),
            Reason::InvalidValue,
            "e",
        ),
    ];
    for (builder, reason, attribute) in cases {
        let event = builder.build().expect("the SDK builds it");
        for encoding in [Encoding::Binary, Encoding::Structured] {
            let codec = CloudEvents::new().encoding(encoding);
            let error = write(codec, Some(&event)).expect_err("refused");
            assert_eq!(rule(&error), (reason, Some(attribute.to_owned())));
        }
    }
}

#[test]
fn structured_data_is_written_as_what_it_is() {
    let codec = || CloudEvents::new().encoding(Encoding::Structured);
    let member = |content_type: Option<&str>, data: Data| {
        let mut event = EventBuilderV10::new()
            .id("1")
            .source("/s")
            .ty("t")
            .build()
            .expect("built");
        event.set_datacontenttype(content_type);
        event.set_data_unchecked(data);
        let encoded = write(codec(), Some(&event)).expect("written");
        assert_eq!(
            encoded.headers.view().get_last("content-type"),
            Some(Some(&b"application/cloudevents+json; charset=utf-8"[..]))
        );
        let json: serde_json::Value =
            serde_json::from_slice(&encoded.payload.expect("a value")).expect("JSON");
        let object = json.as_object().expect("an object");
        let data = object.get("data").map(|v| v.to_string());
        let base64 = object.get("data_base64").map(|v| v.to_string());
        assert!(data.is_none() || base64.is_none());
        data.or(base64).expect("data")
    };
    let json = Some("application/json");
    assert_eq!(
        member(json, Data::Json(serde_json::json!({"a": null}))),
        r#"{"a":null}"#
    );
    assert_eq!(member(None, Data::Json(serde_json::json!(1))), "1");
    assert_eq!(
        member(json, Data::Binary(b" {\"a\": 1}\n".to_vec())),
        r#"{"a":1}"#
    );
    assert_eq!(member(json, Data::Binary(b"{".to_vec())), r#""ew==""#);
    assert_eq!(member(None, Data::Binary(b"1".to_vec())), r#""MQ==""#);
    assert_eq!(member(json, Data::String("[1]".into())), "[1]");
    assert_eq!(member(json, Data::String("plain".into())), r#""cGxhaW4=""#);
    assert_eq!(
        member(Some("text/plain"), Data::String("a\"b".into())),
        r#""a\"b""#
    );
    assert_eq!(
        member(Some("text/plain"), Data::Json(serde_json::json!(1))),
        r#""MQ==""#
    );
}

#[test]
fn version_0_3_is_read_and_written_in_its_own_terms() {
    let body = br#"{"specversion":"0.3","id":"1","type":"t","source":"/s","schemaurl":"/x",
        "datacontenttype":"text/plain","datacontentencoding":"base64","data":"aGk=","e":true}"#;
    let view = structured(body).expect("an event");
    assert_eq!(view.specversion(), SpecVersion::V03);
    assert_eq!(view.dataschema(), Some("/x"));
    assert_eq!(view.raw_data(), &EventData::Bytes(b"hi"[..].into()));
    assert_eq!(view.extension("e"), Some(ExtensionValue::Boolean(true)));
    for encoding in [Encoding::Binary, Encoding::Structured] {
        let encoded = view.encode(encoding).expect("written");
        let read = EventView::read(encoded.headers.view(), encoded.payload.as_deref());
        let read = read.expect("read again");
        assert_eq!(read.raw_data(), view.raw_data());
        assert!(read.attributes().eq(view.attributes()));
    }
    let headers = headers(&[
        ("ce_specversion", Some("0.3")),
        ("ce_id", Some("1")),
        ("ce_type", Some("t")),
        ("ce_source", Some("/s")),
        ("ce_datacontentencoding", Some("base64")),
        ("ce_dataschema", Some("an extension")),
    ]);
    let view = EventView::read(headers.view(), Some(b"aGk=")).expect("an event");
    assert_eq!(view.raw_data().as_bytes(), Some(&b"hi"[..]));
    assert_eq!(view.extension("dataschema"), Some("an extension".into()));
    let event = view.into_event().expect("an event of the SDK");
    assert_eq!(event.specversion().to_string(), "0.3");
    assert_eq!(
        event.extension("dataschema"),
        Some(&SdkValue::from("an extension"))
    );
}

#[test]
fn of_many_repeated_headers_the_last_counts() {
    let mut all = binary(&[]);
    for round in 0..3 {
        for index in 0..40 {
            all.push(format!("ce_e{index}"), Some(format!("{round}")));
        }
    }
    all.push("ce_e7", None::<&str>);
    let view = EventView::read(all.view(), None).expect("an event");
    assert_eq!(view.extensions().count(), 40);
    assert!(view.extensions().all(|(_, value)| value == "2".into()));
    let few = binary(&[
        ("ce_a", Some("1")),
        ("ce_b", Some("1")),
        ("ce_a", Some("2")),
    ]);
    let view = EventView::read(few.view(), None).expect("an event");
    assert_eq!(view.extensions().count(), 2);
    assert_eq!(view.extension("a"), Some("2".into()));
}

#[test]
fn of_many_members_a_repeated_one_is_refused() {
    let member = |index: usize| format!(r#","e{index}":"v""#);
    let body = |names: &mut dyn Iterator<Item = usize>| {
        let members: String = names.map(member).collect();
        format!(r#"{{"specversion":"1.0","id":"1","type":"t","source":"/s"{members}}}"#)
    };
    let fine = body(&mut (0..50_000));
    assert_eq!(
        structured(fine.as_bytes())
            .expect("an event")
            .extensions()
            .count(),
        50_000
    );
    for count in [3, 50_000] {
        let twice = body(&mut (0..count).chain([1]));
        let error = structured(twice.as_bytes()).expect_err("twice");
        assert_eq!(
            rule(&error),
            (Reason::DuplicateAttribute, Some("e1".to_owned()))
        );
    }
}

#[test]
fn deep_nesting_is_an_error_not_an_overflow() {
    let deep = |prefix: &str| {
        let open = "[".repeat(200_000);
        let close = "]".repeat(200_000);
        format!(
            r#"{{"specversion":"1.0","id":"1","type":"t","source":"/s","{prefix}":{open}{close}}}"#
        )
    };
    let data = deep("data");
    let view = structured(data.as_bytes()).expect("data is not looked into");
    assert_eq!(
        view.data::<serde_json::Value>().expect_err("deep").kind(),
        ErrorKind::Malformed
    );
    assert_eq!(
        view.into_event().expect_err("deep").kind(),
        ErrorKind::Malformed
    );
    for member in ["e", "id2", "data_base64"] {
        assert!(structured(deep(member).as_bytes()).is_err());
    }
    let id = deep("subject");
    assert_eq!(
        rule(&structured(id.as_bytes()).expect_err("deep")).0,
        Reason::InvalidType
    );
    assert!(read_batch("[".repeat(200_000).as_bytes()).is_err());
}
