//! One event as a record holds it, in both modes, and the readers that are compared.

use cloudevents::event::SpecVersion;
use cloudevents::message::{
    BinaryDeserializer, BinarySerializer, Error as SdkError, MessageAttributeValue,
    Result as SdkResult,
};
use kafka_chain::{HeaderView, Headers, OwnedRecord};
use serde::Deserialize;

const DATA: &str = r#"{"order":123456,"customer":"c-77812","total":129.95,"items":3,"currency":"EUR","note":"leave at the door"}"#;

/// The attributes of an ordinary event; one of them an extension.
const ATTRIBUTES: &[(&str, &str)] = &[
    ("specversion", "1.0"),
    ("id", "b1a7c5e2-0d4f-4f7e-9a53-2f1d0a7c9e11"),
    ("source", "https://shop.example.com/orders"),
    ("type", "com.example.order.placed"),
    ("subject", "orders/123456"),
    ("time", "2026-11-30T12:34:56.789Z"),
    ("datacontenttype", "application/json"),
    (
        "traceparent",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    ),
];

/// More of them: a schema, whose URL the `Event` of cloudevents-sdk holds parsed, and an extension.
const MORE: &[(&str, &str)] = &[
    ("dataschema", "https://shop.example.com/order.json"),
    ("partitionkey", "c-77812"),
];

fn attributes(is_large: bool) -> impl Iterator<Item = (&'static str, &'static str)> {
    let more = if is_large { MORE } else { &[] };
    ATTRIBUTES.iter().chain(more).copied()
}

#[derive(Debug, Deserialize)]
pub(crate) struct Order<'a> {
    pub(crate) order: u64,
    pub(crate) customer: &'a str,
    pub(crate) total: f64,
    pub(crate) items: u32,
    pub(crate) currency: &'a str,
    pub(crate) note: &'a str,
}

/// What serde alone makes of a structured event: nothing checked but that it is JSON.
#[derive(Debug, Deserialize)]
pub(crate) struct Bare<'a> {
    pub(crate) specversion: &'a str,
    pub(crate) id: &'a str,
    pub(crate) source: &'a str,
    #[serde(rename = "type")]
    pub(crate) ty: &'a str,
    pub(crate) subject: &'a str,
    pub(crate) time: &'a str,
    pub(crate) datacontenttype: &'a str,
    pub(crate) traceparent: &'a str,
    pub(crate) dataschema: Option<&'a str>,
    pub(crate) partitionkey: Option<&'a str>,
    #[serde(borrow)]
    pub(crate) data: Order<'a>,
}

pub(crate) fn structured(is_large: bool) -> OwnedRecord {
    let members: Vec<_> = attributes(is_large)
        .map(|(name, value)| format!(r#""{name}":"{value}""#))
        .collect();
    let document = format!(r#"{{{},"data":{DATA}}}"#, members.join(","));
    let content_type = ("content-type", Some("application/cloudevents+json"));
    OwnedRecord {
        value: Some(document.into()),
        headers: Headers::from_iter([content_type]),
        ..OwnedRecord::default()
    }
}

pub(crate) fn binary(is_large: bool) -> OwnedRecord {
    let headers = attributes(is_large).map(|(name, value)| match name {
        "datacontenttype" => ("content-type".to_owned(), Some(value)),
        name => (format!("ce_{name}"), Some(value)),
    });
    OwnedRecord {
        value: Some(DATA.into()),
        headers: Headers::from_iter(headers),
        ..OwnedRecord::default()
    }
}

/// cloudevents-sdk's reader of binary mode over borrowed headers: what its own bindings do, without
/// the map of copied headers that they build first.
pub(crate) struct SdkRecord<'a> {
    pub(crate) headers: HeaderView<'a>,
    pub(crate) value: &'a [u8],
}

fn text(value: Option<&[u8]>) -> SdkResult<MessageAttributeValue> {
    let wrong = |error| SdkError::Other {
        source: Box::new(error),
    };
    let text = std::str::from_utf8(value.unwrap_or_default()).map_err(wrong)?;
    Ok(MessageAttributeValue::String(text.to_owned()))
}

impl BinaryDeserializer for SdkRecord<'_> {
    fn deserialize_binary<R: Sized, V: BinarySerializer<R>>(self, mut to: V) -> SdkResult<R> {
        let version = self.headers.get_last("ce_specversion").flatten();
        let version = version.and_then(|version| std::str::from_utf8(version).ok());
        let version = SpecVersion::try_from(version.ok_or(SdkError::WrongEncoding {})?)?;
        let attributes = version.attribute_names();
        to = to.set_spec_version(version)?;
        for (name, value) in self.headers.iter() {
            if name == b"content-type" {
                to = to.set_attribute("datacontenttype", text(value)?)?;
                continue;
            }
            let Some(name) = name.strip_prefix(b"ce_") else {
                continue;
            };
            match std::str::from_utf8(name) {
                Ok("specversion") | Err(_) => {}
                Ok(name) if attributes.contains(&name) => {
                    to = to.set_attribute(name, text(value)?)?
                }
                Ok(name) => to = to.set_extension(name, text(value)?)?,
            }
        }
        to.end_with_data(self.value.to_vec())
    }
}
