//! Runs the cases of `tests/vectors/cloudevents.json` through the public API.
//!
//! A case whose specification leaves room lists `alternatives`; [`run`] takes `expect` alone,
//! but for the cases in [`DEVIATIONS`].
#![allow(unreachable_pub, dead_code, reason = "for tests and examples")]
#![allow(clippy::indexing_slicing, reason = "no member is null")]

use kafka_chain::codecs::cloudevents::{
    CloudEvents, Encoding, EventBuilder, EventData, EventError, EventView, ExtensionValue, Mode,
    Reason, SpecVersion, canonical, cloudevents, read_batch, split_batch,
};
use kafka_chain::{
    Deserializer, Encoded, Error, ErrorKind, Headers, Input, Part, Payload, Record, Status,
};
use serde_json::{Map, Value, json};
use std::error::Error as _;

/// The cases in which an alternative is taken instead of `expect`, with its index.
pub const DEVIATIONS: &[(&str, usize)] = &[];

type Checked = Result<(), String>;

/// Runs one case; the error says what differs.
pub fn run(case: &Value) -> Checked {
    let id = case["id"].as_str().ok_or("a case without id")?;
    let deviation = DEVIATIONS.iter().find(|(name, _)| *name == id);
    let expect = match deviation {
        Some((_, index)) => &case["alternatives"][*index],
        None => &case["expect"],
    };
    let input = &case["input"];
    let result = match input["op"].as_str().unwrap_or_default() {
        "decode" => decode(input, expect),
        "decode_batch" => decode_batch(input, expect),
        "encode_binary" => encode_binary(input, expect),
        "encode_structured_json" => encode_structured(input, expect),
        "transcode_structured_to_binary" => transcode(input, expect),
        "map_key" => map_key(input, expect),
        "parse_canonical" => parse_canonical(input, expect),
        other => Err(format!("unknown op {other}")),
    };
    result.map_err(|difference| format!("{id}: {difference}"))
}

fn decode(input: &Value, expect: &Value) -> Checked {
    let record = &input["record"];
    let headers: Headers = record["headers"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|h| {
            (
                h["name"].as_str().unwrap_or_default().to_owned(),
                hex(&h["value_hex"]),
            )
        })
        .collect();
    let (key, value) = (hex(&record["key_hex"]), hex(&record["value_hex"]));
    let read = EventView::read(headers.view(), value.as_deref());
    let plain = match &read {
        Ok(view) => {
            let mode = match view.mode() {
                Some(Mode::Binary) => "binary",
                Some(Mode::Structured) => "structured",
                None => "none",
            };
            same("mode", &json!(mode), &expect["mode"])?;
            same_event(view, expect)?;
            false
        }
        Err(error) => {
            same_error(error, expect)?;
            value.is_none() && expect["error"] == "not_cloudevent" && headers.view().is_empty()
        }
    };

    let record = Record {
        key: key.as_deref(),
        headers: headers.view(),
        ..Record::of_value(value.as_deref())
    };
    let context = record.context(Part::Value);
    let stage = cloudevents();
    let answer = stage.deserialize(Input::of(&context)).now();
    let event = answer.map_err(|_| "the codec did not answer at once")?;
    let payload = Payload::from(value.as_deref());
    let view = CloudEvents::view(&context, &payload);
    match (read, event, view) {
        (Ok(read), Ok(Some(event)), Ok(Some(view))) => {
            use cloudevents::AttributesReader as _;
            same("the codec's view", &json!(view == read), &json!(true))?;
            same("the event's id", &json!(event.id()), &json!(read.id()))?;
            same("the event's type", &json!(event.ty()), &json!(read.ty()))
        }
        (Err(read), Err(event), Err(view)) => {
            let kinds = [event.kind(), view.kind()] == [read.kind(), read.kind()];
            same("the codec's error", &json!(kinds), &json!(true))
        }
        (Err(_), Ok(None), Ok(None)) if plain => Ok(()),
        _ => Err("the codec and the view disagree".to_owned()),
    }
}

fn decode_batch(input: &Value, expect: &Value) -> Checked {
    let bytes = hex(&input["bytes_hex"]).unwrap_or_default();
    match read_batch(&bytes) {
        Err(error) => same_error(&error, expect),
        Ok(events) => {
            let split = split_batch(&bytes).map_err(|e| e.to_string())?;
            same("split", &json!(split.len()), &json!(events.len()))?;
            let expected = expect["events"].as_array().ok_or("unexpected events")?;
            same("events", &json!(events.len()), &json!(expected.len()))?;
            events
                .iter()
                .zip(expected)
                .try_for_each(|(event, expect)| same_event(event, expect))
        }
    }
}

fn encode_binary(input: &Value, expect: &Value) -> Checked {
    let view = build(&input["event"])?;
    let encoded = view.encode(Encoding::Binary).map_err(|e| e.to_string())?;
    same_binary(&encoded, expect)?;
    let read = EventView::read(encoded.headers.view(), encoded.payload.as_deref());
    let read = read.map_err(|e| e.to_string())?;
    same("read again", &json!(read.id()), &json!(view.id()))
}

fn encode_structured(input: &Value, expect: &Value) -> Checked {
    let view = build(&input["event"])?;
    let encoded = view
        .encode(Encoding::Structured)
        .map_err(|e| e.to_string())?;
    let content_type = encoded.headers.view().get_last("content-type").flatten();
    let content_type = String::from_utf8_lossy(content_type.unwrap_or_default()).into_owned();
    let media = content_type.split(';').next().unwrap_or_default();
    same("content type", &json!(media), &expect["content_type_media"])?;
    let payload = encoded.payload.as_deref().unwrap_or_default();
    let written: Value = serde_json::from_slice(payload).map_err(|e| e.to_string())?;
    same("json", &written, &expect["json"])?;
    let read = EventView::read(encoded.headers.view(), Some(payload)).map_err(|e| e.to_string())?;
    same("read again", &json!(read == view), &json!(true))
}

fn transcode(input: &Value, expect: &Value) -> Checked {
    let value = hex(&input["value_hex"]);
    let content_type = input["content_type"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let headers: Headers = [("content-type", Some(content_type))].into_iter().collect();
    let view = EventView::read(headers.view(), value.as_deref()).map_err(|e| e.to_string())?;
    same_binary(
        &view.encode(Encoding::Binary).map_err(|e| e.to_string())?,
        expect,
    )
}

fn map_key(input: &Value, expect: &Value) -> Checked {
    use cloudevents::{EventBuilder as _, EventBuilderV10};
    let partition_key = input["event_partitionkey"].as_str().unwrap_or_default();
    let event = EventBuilderV10::new()
        .id("1")
        .source("/s")
        .ty("t")
        .extension("partitionkey", partition_key)
        .build()
        .map_err(|e| e.to_string())?;
    let codec = CloudEvents::new().map_partition_key(input["partitionkey_mapper"] == true);
    let user_key = hex(&input["user_key_hex"]);
    let key = codec.record_key(&event, user_key.as_deref());
    same("key", &json!(key.map(|k| to_hex(&k))), &expect["key_hex"])?;
    if let Some(kept) = expect["attribute_kept"].as_bool() {
        let view = EventView::of(&event).map_err(|e| e.to_string())?;
        let encoded = view.encode(Encoding::Binary).map_err(|e| e.to_string())?;
        let header = encoded.headers.view().get_last("ce_partitionkey").flatten();
        let found = header == Some(partition_key.as_bytes());
        same("attribute kept", &json!(found), &json!(kept))?;
    }
    Ok(())
}

fn parse_canonical(input: &Value, expect: &Value) -> Checked {
    let text = input["text"].as_str().unwrap_or_default();
    let (name, parsed) = match input["type"].as_str().unwrap_or_default() {
        "Boolean" => ("value", canonical::boolean(text).map(|v| json!(v))),
        "Integer" => ("value", canonical::integer(text).map(|v| json!(v))),
        "Binary" => (
            "bytes_hex",
            canonical::binary(text).map(|v| json!(to_hex(&v))),
        ),
        other => return Err(format!("unknown type {other}")),
    };
    match parsed {
        Ok(value) => same(name, &value, &expect[name]),
        Err(error) => same_error(&error, expect),
    }
}

fn same_event(view: &EventView<'_>, expect: &Value) -> Checked {
    let attributes: Map<String, Value> = view
        .attributes()
        .map(|(name, value)| (name.to_owned(), json!(value)))
        .collect();
    same(
        "attributes",
        &Value::Object(attributes),
        &expect["attributes"],
    )?;
    let mut extensions = Map::new();
    for (name, value) in view.extensions() {
        let value = match value {
            ExtensionValue::String(text) => json!({ "string": text }),
            ExtensionValue::Integer(number) => json!({ "integer": number }),
            ExtensionValue::Boolean(flag) => json!({ "boolean": flag }),
            ExtensionValue::Bytes(bytes) => json!({ "bytes_hex": to_hex(&bytes) }),
        };
        if extensions.insert(name.to_owned(), value).is_some() {
            return Err(format!("extension {name} twice"));
        }
    }
    same(
        "extensions",
        &Value::Object(extensions),
        &expect["extensions"],
    )?;
    let data = match view.raw_data() {
        EventData::Absent => Value::Null,
        EventData::Bytes(bytes) => json!({ "bytes_hex": to_hex(bytes) }),
        EventData::Json(_) => {
            let value: Value = view.data().map_err(|e| e.to_string())?;
            json!({ "json": value })
        }
        EventData::Text(text) => json!({ "text": text }),
    };
    same("data", &data, &expect["data"])?;
    if let Some(instant) = expect["time_utc"].as_str() {
        same(
            "time_utc",
            &json!(view.time_utc().map(shown)),
            &json!(instant),
        )?;
    }
    if let Some(implied) = expect["implied_datacontenttype"].as_str() {
        let found = view.implied_datacontenttype();
        same("implied_datacontenttype", &json!(found), &json!(implied))?;
    }
    Ok(())
}

fn shown(instant: chrono::DateTime<chrono::Utc>) -> String {
    let text = instant.format("%Y-%m-%dT%H:%M:%S%.9f").to_string();
    format!("{}Z", text.trim_end_matches('0').trim_end_matches('.'))
}

fn same_binary(encoded: &Encoded, expect: &Value) -> Checked {
    let mut headers: Vec<(String, Option<String>)> = encoded
        .headers
        .iter()
        .map(|(name, value)| {
            (
                String::from_utf8_lossy(name).into_owned(),
                value.map(|v| to_hex(v)),
            )
        })
        .collect();
    headers.sort();
    let mut expected: Vec<(String, Option<String>)> = expect["headers_any_order"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|h| {
            let value = h["value_hex"].as_str().map(str::to_owned);
            (h["name"].as_str().unwrap_or_default().to_owned(), value)
        })
        .collect();
    expected.sort();
    same("headers", &json!(headers), &json!(expected))?;
    let value = encoded.payload.as_ref().map(|bytes| to_hex(bytes));
    same("value", &json!(value), &expect["value_hex"])
}

fn same_error(error: &Error, expect: &Value) -> Checked {
    let Some(expected) = expect["error"].as_str() else {
        return Err(format!("unexpected error: {error}"));
    };
    let source = error
        .source()
        .and_then(|source| source.downcast_ref::<EventError>());
    let source = source.ok_or_else(|| format!("not an EventError: {error}"))?;
    let (reason, kind) = match expected {
        "not_cloudevent" => (Reason::NotCloudEvent, ErrorKind::Unsupported),
        "unsupported_format" => (Reason::UnsupportedFormat, ErrorKind::Unsupported),
        "unknown_specversion" => (Reason::UnknownSpecVersion, ErrorKind::Unsupported),
        "missing_attribute" => (Reason::MissingAttribute, ErrorKind::Schema),
        "empty_attribute" => (Reason::EmptyAttribute, ErrorKind::Schema),
        "invalid_attribute_name" => (Reason::InvalidName, ErrorKind::Schema),
        "invalid_attribute_type" => (Reason::InvalidType, ErrorKind::Schema),
        "invalid_attribute_value" => (Reason::InvalidValue, ErrorKind::Schema),
        "duplicate_attribute" => (Reason::DuplicateAttribute, ErrorKind::Schema),
        "invalid_utf8" => (Reason::InvalidUtf8, ErrorKind::Malformed),
        "invalid_json" => (Reason::InvalidJson, ErrorKind::Malformed),
        "invalid_base64" => (Reason::InvalidBase64, ErrorKind::Malformed),
        "invalid_data" => (Reason::InvalidData, ErrorKind::Schema),
        "data_conflict" => (Reason::DataConflict, ErrorKind::Schema),
        other => return Err(format!("unknown error kind {other}")),
    };
    same(
        "reason",
        &json!(format!("{:?}", source.reason())),
        &json!(format!("{reason:?}")),
    )?;
    same("kind", &json!(error.kind().as_str()), &json!(kind.as_str()))?;
    same(
        "permanent",
        &json!(error.status() == Status::Permanent),
        &json!(true),
    )?;
    if let Some(attribute) = expect["attribute"].as_str() {
        let plain = attribute
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'-');
        let shown = if plain { attribute } else { "(unprintable)" };
        same("attribute", &json!(source.attribute()), &json!(shown))?;
        if !error.message().contains(shown) {
            return Err(format!("the message does not name {attribute}: {error}"));
        }
    }
    Ok(())
}

/// Builds the event that a case describes.
fn build(event: &Value) -> Result<EventView<'static>, String> {
    let attribute = |name: &str| event["attributes"][name].as_str().map(str::to_owned);
    let required = |name: &str| attribute(name).unwrap_or_default();
    let mut builder: EventBuilder<'static> =
        EventView::builder(required("id"), required("source"), required("type"));
    if required("specversion") == "0.3" {
        builder = builder.specversion(SpecVersion::V03);
    }
    if let Some(value) = attribute("subject") {
        builder = builder.subject(value);
    }
    if let Some(value) = attribute("time") {
        builder = builder.time(value);
    }
    if let Some(value) = attribute("dataschema") {
        builder = builder.dataschema(value);
    }
    if let Some(value) = attribute("datacontenttype") {
        builder = builder.datacontenttype(value);
    }
    for (name, value) in event["extensions"].as_object().into_iter().flatten() {
        let value = if let Some(text) = value["string"].as_str() {
            ExtensionValue::from(text.to_owned())
        } else if let Some(number) = value["integer"].as_i64() {
            ExtensionValue::from(i32::try_from(number).map_err(|e| e.to_string())?)
        } else {
            ExtensionValue::from(value["boolean"] == true)
        };
        builder = builder.extension(name.clone(), value);
    }
    let data = &event["data"];
    if let Some(bytes) = hex(&data["bytes_hex"]) {
        builder = builder.bytes(bytes);
    } else if let Some(text) = data["text"].as_str() {
        builder = builder.text(text.to_owned());
    } else if let Some(value) = data.get("json") {
        builder = builder.json(value).map_err(|e| e.to_string())?;
    }
    builder.build().map_err(|e| e.to_string())
}

fn same(what: &str, found: &Value, expected: &Value) -> Checked {
    if found == expected {
        return Ok(());
    }
    Err(format!("{what}: found {found}, expected {expected}"))
}

fn hex(value: &Value) -> Option<Vec<u8>> {
    let text = value.as_str()?;
    let digit = |at: usize| {
        text.get(at..at + 2)
            .and_then(|d| u8::from_str_radix(d, 16).ok())
    };
    (0..text.len()).step_by(2).map(digit).collect()
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
