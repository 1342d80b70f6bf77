//! The members of an event in JSON, as they are found: nothing is required of them yet.

use super::attributes::{SpecVersion, check_extension, check_name};
use super::canonical;
use super::error::{EventError, Reason};
use super::extensions::{ExtensionValue, Named};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

type Result<T> = std::result::Result<T, EventError>;

/// The members of the JSON object, before any rule but JSON's own is applied.
#[derive(Default)]
pub(super) struct Members<'a> {
    pub(super) specversion: Member<'a>,
    pub(super) id: Member<'a>,
    pub(super) source: Member<'a>,
    pub(super) ty: Member<'a>,
    pub(super) subject: Member<'a>,
    pub(super) time: Member<'a>,
    pub(super) dataschema: Member<'a>,
    pub(super) schemaurl: Member<'a>,
    pub(super) datacontenttype: Member<'a>,
    pub(super) datacontentencoding: Member<'a>,
    pub(super) data_base64: Member<'a>,
    pub(super) data: Option<&'a RawValue>,
    pub(super) extensions: Vec<Named<'a>>,
    /// The first rule that an extension breaks.
    pub(super) broken: Option<EventError>,
    /// The first core member that is there twice.
    pub(super) repeated: Option<&'static str>,
}

/// A member that should be a string.
#[derive(Default)]
pub(super) enum Member<'a> {
    #[default]
    Absent,
    Null,
    Text(Cow<'a, str>),
    /// Any other JSON value.
    Other,
}

/// A JSON string, borrowed unless it has escapes.
struct Text<'a>(Cow<'a, str>);

/// Fills members in place: they are large.
pub(super) struct Fill<'m, 'de>(pub(super) &'m mut Members<'de>);

impl<'de> Visitor<'de> for Fill<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<(), A::Error> {
        while let Some(name) = map.next_key::<Text<'de>>()? {
            self.0.member(name, &mut map)?;
        }
        Ok(())
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
                let raw: &'de RawValue = map.next_value()?;
                match extension(&name.0, raw.get()) {
                    Ok(Some(value)) => self.extensions.push((name.0, value)),
                    Ok(None) => {}
                    Err(error) => {
                        self.broken.get_or_insert(error);
                    }
                }
                return Ok(());
            }
        };
        if !matches!(slot, Member::Absent) {
            self.repeated.get_or_insert(name);
        }
        *slot = map.next_value()?;
        Ok(())
    }
}

/// The value of an extension; `None` for null, which is no value (json-format.md section 2.2).
fn extension<'a>(name: &str, raw: &'a str) -> Result<Option<ExtensionValue<'a>>> {
    // The names that only version 0.3 has are never asked for here.
    check_name(SpecVersion::V10, name)?;
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
    check_extension(name, &value)?;
    Ok(Some(value))
}

/// A JSON string of which only the ends are known to be right.
pub(super) fn string<'a>(name: &str, raw: &'a str) -> Result<Cow<'a, str>> {
    if let Some(inside) = raw.get(1..raw.len().saturating_sub(1))
        && !inside.as_bytes().contains(&b'\\')
    {
        return Ok(Cow::Borrowed(inside));
    }
    serde_json::from_str::<String>(raw)
        .map(Cow::Owned)
        .map_err(|_| EventError::of(Reason::InvalidJson, name, "is not a JSON string"))
}

impl<'a> Member<'a> {
    #[inline]
    pub(super) fn required(self, name: &'static str) -> Result<Cow<'a, str>> {
        match self {
            Member::Text(text) => Ok(text),
            Member::Absent | Member::Null => Err(EventError::missing(name)),
            Member::Other => Err(not_a_string(name)),
        }
    }

    /// The string, `None` if there is none or a null.
    #[inline]
    pub(super) fn text(self, name: &'static str) -> Result<Option<Cow<'a, str>>> {
        match self {
            Member::Text(text) => Ok(Some(text)),
            Member::Absent | Member::Null => Ok(None),
            Member::Other => Err(EventError::of(Reason::InvalidType, name, "is not a string")),
        }
    }
}

#[cold]
fn not_a_string(name: &str) -> EventError {
    EventError::of(Reason::InvalidType, name, "is not a string")
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
