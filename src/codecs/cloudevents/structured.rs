//! Structured mode (kafka-protocol-binding.md section 3.3) in the JSON format (json-format.md).

use super::attributes::{Core, SpecVersion, check_extension, is_json};
use super::canonical;
use super::error::{EventError, Reason, json_position};
use super::extensions::{ExtensionValue, Extensions, Named};
use super::members::{Fill, Member, Members, string};
use super::view::{EventData, EventView, Mode};
use serde::de::Deserializer as _;
use serde_json::value::RawValue;
use std::borrow::Cow;

type Result<T> = std::result::Result<T, EventError>;

/// Reads one event.
pub(super) fn read(value: &[u8]) -> Result<EventView<'_>> {
    let text = std::str::from_utf8(value).map_err(|error| not_utf8(value, error.valid_up_to()))?;
    read_text(text)
}

/// Reads one event of text.
pub(super) fn read_text(text: &str) -> Result<EventView<'_>> {
    let mut members = Members::default();
    let mut json = serde_json::Deserializer::from_str(text);
    json.deserialize_map(Fill(&mut members))
        .and_then(|()| json.end())
        .map_err(|error| {
            let message = format!("not an event in JSON: {}", json_position(&error));
            EventError::new(Reason::InvalidJson, message)
        })?;
    members.checked()
}

/// The text of the one JSON value that `bytes` are, without white space around it.
pub(super) fn json_value(bytes: &[u8]) -> Option<&str> {
    let value: &RawValue = serde_json::from_str(std::str::from_utf8(bytes).ok()?).ok()?;
    Some(value.get())
}

#[cold]
pub(super) fn not_utf8(value: &[u8], valid: usize) -> EventError {
    let before = value.get(..valid).unwrap_or_default();
    let line = before.iter().filter(|&&b| b == b'\n').count() + 1;
    let column = before.iter().rev().take_while(|&&b| b != b'\n').count() + 1;
    EventError::new(
        Reason::InvalidJson,
        format!("not an event in JSON: not UTF-8 at line {line} column {column}"),
    )
}

impl<'de> Members<'de> {
    fn checked(self) -> Result<EventView<'de>> {
        if let Some(name) = self.repeated {
            return Err(EventError::of(
                Reason::DuplicateAttribute,
                name,
                "is there twice",
            ));
        }
        let specversion = self.specversion.required("specversion")?;
        let version = SpecVersion::parse(&specversion)?;
        let mut list = self.extensions;
        let (schema, encoding, base64) = match version {
            SpecVersion::V10 => {
                set_aside(&mut list, "schemaurl", self.schemaurl)?;
                set_aside(&mut list, "datacontentencoding", self.datacontentencoding)?;
                (self.dataschema, Member::Absent, self.data_base64)
            }
            SpecVersion::V03 => {
                set_aside(&mut list, "dataschema", self.dataschema)?;
                set_aside(&mut list, "data_base64", self.data_base64)?;
                (self.schemaurl, self.datacontentencoding, Member::Absent)
            }
        };
        let mut view = EventView {
            mode: Some(Mode::Structured),
            core: Core {
                version,
                id: self.id.required("id")?,
                source: self.source.required("source")?,
                ty: self.ty.required("type")?,
                subject: self.subject.text("subject")?,
                time: self.time.text("time")?,
                instant: None,
                schema: schema.text(version.schema_attribute())?,
                content_type: self.datacontenttype.text("datacontenttype")?,
            },
            extensions: Extensions::List(Vec::new()),
            data: EventData::Absent,
        };
        view.core.check()?;
        if let Some(error) = self.broken {
            return Err(error);
        }
        if !list.is_empty() {
            view.extensions = Extensions::distinct(list)?;
        }
        view.data = match encoding.text("datacontentencoding")? {
            None => data(view.core.content_type.as_deref(), self.data, base64)?,
            Some(encoding) => data_03(&encoding, self.data)?,
        };
        Ok(view)
    }
}

/// A member of another version is an extension in this one.
fn set_aside<'a>(list: &mut Vec<Named<'a>>, name: &'static str, member: Member<'a>) -> Result<()> {
    if let Some(text) = member.text(name)? {
        let value = ExtensionValue::String(text);
        check_extension(name, &value)?;
        list.push((Cow::Borrowed(name), value));
    }
    Ok(())
}

/// The data of version 1.0 (json-format.md section 3.1).
fn data<'a>(
    content_type: Option<&str>,
    data: Option<&'a RawValue>,
    base64: Member<'a>,
) -> Result<EventData<'a>> {
    match (data, base64) {
        (None, Member::Absent | Member::Null) => Ok(EventData::Absent),
        (None, Member::Text(text)) => Ok(EventData::Bytes(Cow::Owned(base64_data(&text)?))),
        (_, Member::Other) => Err(EventError::of(
            Reason::InvalidBase64,
            "data_base64",
            "is not a string",
        )),
        (Some(_), Member::Text(_)) => Err(EventError::new(
            Reason::DataConflict,
            "both data and data_base64",
        )),
        (Some(raw), _) if content_type.is_none_or(is_json) => {
            Ok(EventData::Json(Cow::Borrowed(raw.get())))
        }
        (Some(raw), _) => text_data(raw).map(EventData::Text),
    }
}

/// The data of version 0.3 when `datacontentencoding` is there.
fn data_03<'a>(encoding: &str, data: Option<&'a RawValue>) -> Result<EventData<'a>> {
    if !encoding.eq_ignore_ascii_case("base64") {
        return Err(EventError::value(
            "datacontentencoding",
            "is other than base64",
        ));
    }
    match data {
        None => Ok(EventData::Absent),
        Some(raw) => {
            let decoded = base64_data(&text_data(raw)?)?;
            Ok(EventData::Bytes(Cow::Owned(decoded)))
        }
    }
}

fn base64_data(text: &str) -> Result<Vec<u8>> {
    canonical::parse_binary(text)
        .map_err(|_| EventError::new(Reason::InvalidBase64, "the data is not base64 with padding"))
}

fn text_data(raw: &RawValue) -> Result<Cow<'_, str>> {
    if !raw.get().starts_with('"') {
        return Err(EventError::new(
            Reason::InvalidData,
            "the data is no string, and datacontenttype is not JSON",
        ));
    }
    string("data", raw.get())
}
