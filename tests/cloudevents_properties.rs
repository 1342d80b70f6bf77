//! What must hold of CloudEvents for any input.
#![cfg(feature = "cloudevents")]
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

#[path = "support/cloudevents.rs"]
mod support;

use cloudevents::Event;
use cloudevents::event::{AttributesReader, Data};
use kafka_chain::Headers;
use kafka_chain::codecs::cloudevents::{
    CloudEvents, Encoding, EventData, EventView, ExtensionValue,
};
use proptest::prelude::*;
use std::collections::BTreeMap;
use support::{STRUCTURED, decode, structured, write};

fn name() -> impl Strategy<Value = String> {
    "[a-z0-9]{1,12}".prop_filter("no name of the specification", |name| {
        !matches!(
            name.as_str(),
            "id" | "source"
                | "type"
                | "time"
                | "subject"
                | "data"
                | "specversion"
                | "dataschema"
                | "datacontenttype"
                | "sequence"
                | "partitionkey"
                | "traceparent"
        )
    })
}

fn text() -> impl Strategy<Value = String> {
    "[ -~à-ÿ😀]{0,12}"
}

fn any_value() -> impl Strategy<Value = ExtensionValue<'static>> {
    prop_oneof![
        text().prop_map(ExtensionValue::from),
        any::<i32>().prop_map(ExtensionValue::from),
        any::<bool>().prop_map(ExtensionValue::from),
    ]
}

fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<i64>().prop_map(Into::into),
        text().prop_map(Into::into),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
            prop::collection::btree_map(text(), inner, 0..4)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

fn any_event() -> impl Strategy<Value = EventView<'static>> {
    let data = prop_oneof![
        Just((None, None, None)),
        prop::collection::vec(any::<u8>(), 0..20).prop_map(|b| (Some(b), None, None)),
        text().prop_map(|t| (None, Some(t), None)),
        any_json().prop_map(|j| (None, None, Some(j))),
    ];
    let time = (0_i64..4_000_000_000, 0_u32..1_000_000_000);
    (
        ("[ -~]{1,8}", "(/[a-z]{1,5}){1,3}", "[ -~]{1,8}"),
        prop::option::of("[ -~]{1,8}"),
        prop::option::of(time),
        prop::option::of("https?://[a-z]{1,8}/[a-z]{0,5}"),
        prop::option::of(prop_oneof![
            Just("application/json"),
            Just("text/plain; charset=utf-8")
        ]),
        prop::collection::btree_map(name(), any_value(), 0..20),
        data,
    )
        .prop_map(
            |((id, source, ty), subject, time, schema, content_type, extensions, data)| {
                let mut builder = EventView::builder(id, source, ty);
                if let Some(subject) = subject {
                    builder = builder.subject(subject);
                }
                if let Some((seconds, nanos)) = time {
                    let time = chrono::DateTime::from_timestamp(seconds, nanos).expect("in range");
                    builder = builder.time_utc(&time);
                }
                if let Some(schema) = schema {
                    builder = builder.dataschema(schema);
                }
                if let Some(content_type) = content_type {
                    builder = builder.datacontenttype(content_type);
                }
                for (name, value) in extensions {
                    builder = builder.extension(name, value);
                }
                builder = match data {
                    (Some(bytes), _, _) => builder.bytes(bytes),
                    (_, Some(text), _) => builder.text(text),
                    (_, _, Some(json)) => builder.json(&json).expect("JSON"),
                    _ => builder,
                };
                builder.build().expect("a valid event")
            },
        )
}

/// Names and values that come near to what the codec looks for.
fn any_headers() -> impl Strategy<Value = Headers> {
    let name = prop_oneof![
        prop::sample::select(vec![
            "ce_specversion",
            "ce_id",
            "ce_source",
            "ce_type",
            "ce_time",
            "ce_subject",
            "ce_dataschema",
            "ce_schemaurl",
            "content-type",
            "ce_",
            "ce_x",
            "ce_data",
            "y",
        ])
        .prop_map(|name| name.as_bytes().to_vec()),
        prop::collection::vec(any::<u8>(), 0..8),
    ];
    let value = prop_oneof![
        prop::sample::select(vec![
            "1.0",
            "0.3",
            STRUCTURED,
            "/s",
            "2018-04-26T14:48:09Z",
            ""
        ])
        .prop_map(|value| value.as_bytes().to_vec()),
        prop::collection::vec(any::<u8>(), 0..30),
    ];
    prop::collection::vec((name, prop::option::of(value)), 0..30)
        .prop_map(|headers| headers.into_iter().collect())
}

proptest! {
    #[test]
    fn any_headers_and_bytes_give_an_answer(
        headers in any_headers(),
        value in prop::option::of(prop::collection::vec(any::<u8>(), 0..60)),
    ) {
        if let Ok(Some(event)) = decode(&headers, value.as_deref()) {
            prop_assert!(!event.id().is_empty() && !event.source().is_empty());
        }
    }

    #[test]
    fn any_json_near_an_event_gives_an_answer(
        members in prop::collection::vec(
            (
                prop::sample::select(vec![
                    "specversion", "id", "source", "type", "time", "data", "data_base64", "e", "E",
                ]),
                any_json(),
            ),
            0..10,
        ),
        cut in 0_usize..400,
    ) {
        let members: Vec<String> =
            members.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
        let body = format!(
            "{{\"specversion\":\"1.0\",\"id\":\"1\",\"type\":\"t\",\"source\":\"/s\",{}}}",
            members.join(",")
        );
        let _ = structured(body.as_bytes()).map(EventView::into_event);
        let _ = structured(body.as_bytes().get(..cut).unwrap_or_default());
    }

    #[test]
    fn what_is_written_is_read_again(view in any_event()) {
        // Headers have no types: numbers and flags come back as their text.
        let encoded = view.encode(Encoding::Binary).expect("written");
        let read = EventView::read(encoded.headers.view(), encoded.payload.as_deref());
        let read = read.expect("read again");
        prop_assert_eq!(read.raw_data().as_bytes(), view.raw_data().as_bytes());
        prop_assert_eq!(read.extensions().count(), view.extensions().count());
        for (name, value) in view.extensions() {
            let found = read.extension(name).map(ExtensionValue::into_text);
            prop_assert_eq!(found, Some(value.into_text()));
        }
        for (name, value) in view.attributes() {
            prop_assert!(read.attributes().any(|found| found == (name, value)));
        }

        let encoded = view.encode(Encoding::Structured).expect("written");
        let read = EventView::read(encoded.headers.view(), encoded.payload.as_deref());
        let read = read.expect("read again");
        match (read.raw_data(), view.raw_data()) {
            // Bytes that are the JSON they are said to be.
            (EventData::Json(json), EventData::Bytes(bytes)) => {
                prop_assert_eq!(json.as_bytes(), bytes.trim_ascii());
            }
            _ => prop_assert_eq!(&read, &view),
        }
    }

    #[test]
    fn the_event_of_the_sdk_survives_both_modes(view in any_event()) {
        let event = view.into_event().expect("an event of the SDK");
        for encoding in [Encoding::Binary, Encoding::Structured] {
            let encoded = write(CloudEvents::new().encoding(encoding), Some(&event));
            let encoded = encoded.expect("written");
            let read = decode(&encoded.headers, encoded.payload.as_deref()).expect("read");
            let read = read.expect("an event");
            prop_assert_eq!(read.data().map(meaning), event.data().map(meaning));
            let extensions = |event: &Event| -> BTreeMap<String, String> {
                event.iter_extensions().map(|(k, v)| (k.to_owned(), v.to_string())).collect()
            };
            prop_assert_eq!(extensions(&read), extensions(&event));
            let shown = |event: &Event| -> Vec<String> {
                let attributes = event.iter_attributes();
                attributes.filter(|(n, _)| *n != "datacontenttype").map(|(n, v)| format!("{n} {v}")).collect()
            };
            prop_assert_eq!(shown(&read), shown(&event));
        }
    }
}

/// The bytes of data; of JSON its value, however it is held.
fn meaning(data: &Data) -> Vec<u8> {
    let bytes = match data {
        Data::Binary(bytes) => bytes.clone(),
        Data::String(text) => text.clone().into_bytes(),
        Data::Json(json) => return json.to_string().into_bytes(),
    };
    match serde_json::from_slice::<serde_json::Value>(&bytes) {
        Ok(json) => json.to_string().into_bytes(),
        Err(_) => bytes,
    }
}
