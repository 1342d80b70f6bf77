//! Structured mode (kafka-protocol-binding.md section 3.3) in the JSON format (json-format.md).

use super::attributes::{Core, SpecVersion, Unchecked, is_json};
use super::canonical;
use super::error::{EventError, Reason, json_position};
use super::extensions::{ExtensionValue, Extensions, Named};
use super::view::{EventData, EventView, Mode};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

type Result<T> = std::result::Result<T, EventError>;

/// Reads one event.
pub(super) fn read(value: &[u8]) -> Result<EventView<'_>> {
    let text = std::str::from_utf8(value).map_err(|error| not_utf8(value, error.valid_up_to()))?;
    read_text(text)
}

/// Reads one event of text.
pub(super) fn read_text(text: &str) -> Result<EventView<'_>> {
    let members: Members<'_> = serde_json::from_str(text).map_err(|error| {
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

/// The members of the JSON object, before any rule but JSON's own is applied.
#[derive(Default)]
struct Members<'a> {
    specversion: Member<'a>,
    id: Member<'a>,
    source: Member<'a>,
    ty: Member<'a>,
    subject: Member<'a>,
    time: Member<'a>,
    dataschema: Member<'a>,
    schemaurl: Member<'a>,
    datacontenttype: Member<'a>,
    datacontentencoding: Member<'a>,
    data_base64: Member<'a>,
    data: Option<&'a RawValue>,
    others: Vec<(Text<'a>, &'a RawValue)>,
    /// The first core member that is there twice.
    repeated: Option<&'static str>,
}

/// A member that should be a string.
#[derive(Default)]
enum Member<'a> {
    #[default]
    Absent,
    Null,
    Text(Cow<'a, str>),
    /// Any other JSON value.
    Other,
}

/// A JSON string, borrowed unless it has escapes.
struct Text<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Object;

        impl<'de> Visitor<'de> for Object {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(
                self,
                mut map: A,
            ) -> std::result::Result<Members<'de>, A::Error> {
                let mut members = Members::default();
                while let Some(name) = map.next_key::<Text<'de>>()? {
                    members.member(name, &mut map)?;
                }
                Ok(members)
            }
        }

        deserializer.deserialize_map(Object)
    }
}

impl<'de> Members<'de> {
    #[inline]
    fn member<A: MapAccess<'de>>(
        &mut self,
        name: Text<'de>,
        map: &mut A,
    ) -> std::result::Result<(), A::Error> {
        let (slot, name) = match &*name.0 {
            "specversion" => (&mut self.specversion, "specversion"),
            "id" => (&mut self.id, "id"),
            "source" => (&mut self.source, "source"),
            "type" => (&mut self.ty, "type"),
            "subject" => (&mut self.subject, "subject"),
            "time" => (&mut self.time, "time"),
            "dataschema" => (&mut self.dataschema, "dataschema"),
            "schemaurl" => (&mut self.schemaurl, "schemaurl"),
            "datacontenttype" => (&mut self.datacontenttype, "datacontenttype"),
            "datacontentencoding" => (&mut self.datacontentencoding, "datacontentencoding"),
            "data_base64" => (&mut self.data_base64, "data_base64"),
            "data" => {
                if self.data.is_some() {
                    self.repeated.get_or_insert("data");
                }
                self.data = Some(map.next_value()?);
                return Ok(());
            }
            _ => {
                self.others.push((name, map.next_value()?));
                return Ok(());
            }
        };
        if !matches!(slot, Member::Absent) {
            self.repeated.get_or_insert(name);
        }
        *slot = map.next_value()?;
        Ok(())
    }

    fn checked(self) -> Result<EventView<'de>> {
        if let Some(name) = self.repeated {
            return Err(EventError::of(
                Reason::DuplicateAttribute,
                name,
                "is there twice",
            ));
        }
        let specversion = self.specversion.text("specversion")?;
        let specversion = specversion.ok_or_else(|| EventError::missing("specversion"))?;
        let version = SpecVersion::parse(&specversion)?;
        let mut list = Vec::with_capacity(self.others.len());
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
        let core = Core::checked(Unchecked {
            version,
            id: self.id.text("id")?,
            source: self.source.text("source")?,
            ty: self.ty.text("type")?,
            subject: self.subject.text("subject")?,
            time: self.time.text("time")?,
            schema: schema.text(version.schema_attribute())?,
            content_type: self.datacontenttype.text("datacontenttype")?,
        })?;
        for (name, raw) in self.others {
            super::attributes::check_name(version, &name.0)?;
            if let Some(value) = extension(&name.0, raw.get())? {
                list.push((name.0, value));
            }
        }
        let data = match encoding.text("datacontentencoding")? {
            None => data(core.content_type.as_deref(), self.data, base64)?,
            Some(encoding) => data_03(&encoding, self.data)?,
        };
        Ok(EventView {
            mode: Some(Mode::Structured),
            core,
            extensions: Extensions::checked(list, version)?,
            data,
        })
    }
}

/// A member of another version is an extension in this one.
fn set_aside<'a>(list: &mut Vec<Named<'a>>, name: &'static str, member: Member<'a>) -> Result<()> {
    if let Some(text) = member.text(name)? {
        list.push((Cow::Borrowed(name), ExtensionValue::String(text)));
    }
    Ok(())
}

/// The value of an extension; `None` for null, which is no value (json-format.md section 2.2).
fn extension<'a>(name: &str, raw: &'a str) -> Result<Option<ExtensionValue<'a>>> {
    let value = match raw.as_bytes().first() {
        Some(b'"') => ExtensionValue::String(string(name, raw)?),
        Some(b't') => ExtensionValue::Boolean(true),
        Some(b'f') => ExtensionValue::Boolean(false),
        Some(b'n') => return Ok(None),
        Some(b'-' | b'0'..=b'9') if !raw.contains(['.', 'e', 'E']) => {
            match canonical::parse_integer(raw) {
                Some(number) => ExtensionValue::Integer(number),
                None => return Err(EventError::value(name, "is beyond 32 bits")),
            }
        }
        _ => {
            return Err(EventError::of(
                Reason::InvalidType,
                name,
                "is neither text nor a whole number nor a Boolean",
            ));
        }
    };
    Ok(Some(value))
}

/// A JSON string of which only the ends are known to be right.
fn string<'a>(name: &str, raw: &'a str) -> Result<Cow<'a, str>> {
    if let Some(inside) = raw.get(1..raw.len().saturating_sub(1))
        && !inside.as_bytes().contains(&b'\\')
    {
        return Ok(Cow::Borrowed(inside));
    }
    serde_json::from_str::<String>(raw)
        .map(Cow::Owned)
        .map_err(|_| EventError::of(Reason::InvalidJson, name, "is not a JSON string"))
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

impl<'a> Member<'a> {
    /// The string, `None` if there is none or a null.
    fn text(self, name: &'static str) -> Result<Option<Cow<'a, str>>> {
        match self {
            Member::Text(text) => Ok(Some(text)),
            Member::Absent | Member::Null => Ok(None),
            Member::Other => Err(EventError::of(Reason::InvalidType, name, "is not a string")),
        }
    }
}

impl<'de> Deserialize<'de> for Member<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Member<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> std::result::Result<Member<'de>, E> {
        Ok(Member::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> std::result::Result<Member<'de>, E> {
        Ok(Member::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_unit<E>(self) -> std::result::Result<Member<'de>, E> {
        Ok(Member::Null)
    }

    fn visit_bool<E>(self, _: bool) -> std::result::Result<Member<'de>, E> {
        Ok(Member::Other)
    }

    fn visit_i64<E>(self, _: i64) -> std::result::Result<Member<'de>, E> {
        Ok(Member::Other)
    }

    fn visit_u64<E>(self, _: u64) -> std::result::Result<Member<'de>, E> {
        Ok(Member::Other)
    }

    fn visit_f64<E>(self, _: f64) -> std::result::Result<Member<'de>, E> {
        Ok(Member::Other)
    }

    fn visit_seq<A: SeqAccess<'de>>(
        self,
        mut seq: A,
    ) -> std::result::Result<Member<'de>, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Member::Other)
    }

    fn visit_map<A: MapAccess<'de>>(
        self,
        mut map: A,
    ) -> std::result::Result<Member<'de>, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Member::Other)
    }
}

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct AnyText;

        impl<'de> Visitor<'de> for AnyText {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> std::result::Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> std::result::Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }

        deserializer.deserialize_str(AnyText)
    }
}
