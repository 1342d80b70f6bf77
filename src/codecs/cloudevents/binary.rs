//! Binary mode (kafka-protocol-binding.md section 3.2): attributes in headers, data in the value.

use super::attributes::{Core, SpecVersion, check_extension, check_name};
use super::canonical;
use super::error::{EventError, Reason};
use super::extensions::{At, ExtensionValue, Extensions, INLINE, Named};
use super::view::{EventData, EventView, Mode};
use crate::headers::{HeaderView, Headers};
use crate::serializer::Encoded;
use bytes::Bytes;
use std::borrow::Cow;

type Result<T> = std::result::Result<T, EventError>;
type Raw<'a> = Option<&'a [u8]>;

/// What one pass over the headers found. Nothing is checked yet: in structured mode none of it
/// counts but the content type.
#[derive(Default)]
pub(super) struct Found<'a> {
    pub(super) content_type: Raw<'a>,
    /// Whether any header claims to be an attribute, be it null.
    pub(super) any_attribute: bool,
    specversion: Raw<'a>,
    id: Raw<'a>,
    source: Raw<'a>,
    ty: Raw<'a>,
    subject: Raw<'a>,
    time: Raw<'a>,
    dataschema: Raw<'a>,
    schemaurl: Raw<'a>,
    datacontenttype: Raw<'a>,
    datacontentencoding: Raw<'a>,
    inline: [(&'a [u8], &'a [u8]); INLINE],
    extensions: usize,
    /// Extensions beyond the first few.
    more: Vec<(&'a [u8], &'a [u8])>,
    at: At,
    /// Whether `at` points to every extension.
    all_in_place: bool,
}

impl<'a> Found<'a> {
    #[inline]
    pub(super) fn scan(headers: HeaderView<'a>) -> Self {
        let mut found = Found {
            all_in_place: true,
            ..Found::default()
        };
        for index in 0..headers.len() {
            let Some((name, value)) = headers.get(index) else {
                break;
            };
            if let Some(attribute) = name.strip_prefix(b"ce_") {
                found.any_attribute = true;
                if let Some(value) = value {
                    found.attribute(attribute, value, index);
                }
            } else if name == b"content-type" && value.is_some() {
                found.content_type = value;
            }
        }
        found
    }

    #[inline]
    fn attribute(&mut self, name: &'a [u8], value: &'a [u8], index: usize) {
        let slot = match name {
            b"specversion" => &mut self.specversion,
            b"id" => &mut self.id,
            b"source" => &mut self.source,
            b"type" => &mut self.ty,
            b"subject" => &mut self.subject,
            b"time" => &mut self.time,
            b"dataschema" => &mut self.dataschema,
            b"schemaurl" => &mut self.schemaurl,
            b"datacontenttype" => &mut self.datacontenttype,
            b"datacontentencoding" => &mut self.datacontentencoding,
            _ => {
                self.all_in_place &= self.at.push(index);
                return self.extension(name, value);
            }
        };
        *slot = Some(value);
    }

    /// Makes a binary event of it.
    #[inline]
    pub(super) fn read(
        &mut self,
        headers: HeaderView<'a>,
        value: Option<&'a [u8]>,
    ) -> Result<EventView<'a>> {
        let Some(specversion) = self.specversion else {
            return Err(self.not_an_event());
        };
        let version = SpecVersion::parse(text("specversion", specversion)?)?;
        let (schema, encoding) = match version {
            SpecVersion::V10 => {
                self.set_aside(b"schemaurl", self.schemaurl);
                self.set_aside(b"datacontentencoding", self.datacontentencoding);
                (self.dataschema, None)
            }
            SpecVersion::V03 => {
                self.set_aside(b"dataschema", self.dataschema);
                (self.schemaurl, self.datacontentencoding)
            }
        };
        let content_type = self.content_type.or(self.datacontenttype);
        let mut view = EventView {
            mode: Some(Mode::Binary),
            core: Core {
                version,
                id: required("id", self.id)?,
                source: required("source", self.source)?,
                ty: required("type", self.ty)?,
                subject: attribute("subject", self.subject)?,
                time: attribute("time", self.time)?,
                instant: None,
                schema: attribute(version.schema_attribute(), schema)?,
                content_type: attribute("datacontenttype", content_type)?,
            },
            extensions: Extensions::Headers(headers, self.at),
            data: data(value, encoding)?,
        };
        view.core.check()?;
        if let Some(list) = self.checked_extensions(version)? {
            view.extensions = Extensions::List(list);
        }
        Ok(view)
    }

    /// An attribute of another version is an extension in this one.
    fn set_aside(&mut self, name: &'static [u8], value: Raw<'a>) {
        if let Some(value) = value {
            self.all_in_place = false;
            self.extension(name, value);
        }
    }

    #[inline]
    fn extension(&mut self, name: &'a [u8], value: &'a [u8]) {
        match self.inline.get_mut(self.extensions) {
            Some(slot) => *slot = (name, value),
            None => self.more.push((name, value)),
        }
        self.extensions += 1;
    }

    /// Checks the extensions. `None` if they can stay where they are, for none is there twice.
    #[inline]
    fn checked_extensions(&mut self, version: SpecVersion) -> Result<Option<Vec<Named<'a>>>> {
        let inline = self.inline.get(..self.extensions).unwrap_or(&self.inline);
        let mut repeated = false;
        for (index, (name, value)) in inline.iter().enumerate() {
            extension(version, name, value)?;
            let before = inline.get(..index).unwrap_or_default();
            repeated |= before.iter().any(|(earlier, _)| earlier == name);
        }
        if self.all_in_place && !repeated {
            return Ok(None);
        }
        let mut all = inline.to_vec();
        all.append(&mut self.more);
        // A stable sort, so that of equal names the last of the record stays last.
        all.sort_by_key(|(name, _)| *name);
        let mut list: Vec<Named<'a>> = Vec::with_capacity(all.len());
        for (name, value) in all {
            let (name, text) = extension(version, name, value)?;
            let value = ExtensionValue::String(Cow::Borrowed(text));
            match list.last_mut() {
                Some(last) if last.0 == name => last.1 = value,
                _ => list.push((Cow::Borrowed(name), value)),
            }
        }
        Ok(Some(list))
    }

    #[cold]
    fn not_an_event(&self) -> EventError {
        let error = EventError::new(
            Reason::NotCloudEvent,
            "is missing, so the record is not a CloudEvent",
        );
        if self.any_attribute {
            return error.named("specversion");
        }
        EventError::new(
            Reason::NotCloudEvent,
            "not a CloudEvent: no header ce_specversion, and no content type of a structured event",
        )
    }
}

#[inline]
fn text<'a>(name: &str, bytes: &'a [u8]) -> Result<&'a str> {
    std::str::from_utf8(bytes)
        .map_err(|_| EventError::of(Reason::InvalidUtf8, name, "is not UTF-8 text"))
}

#[inline]
fn required<'a>(name: &'static str, bytes: Raw<'a>) -> Result<Cow<'a, str>> {
    match bytes {
        Some(bytes) => Ok(Cow::Borrowed(text(name, bytes)?)),
        None => Err(EventError::missing(name)),
    }
}

#[inline]
fn attribute<'a>(name: &str, bytes: Raw<'a>) -> Result<Option<Cow<'a, str>>> {
    match bytes {
        Some(bytes) => Ok(Some(Cow::Borrowed(text(name, bytes)?))),
        None => Ok(None),
    }
}

#[inline]
fn extension<'a>(
    version: SpecVersion,
    name: &'a [u8],
    value: &'a [u8],
) -> Result<(&'a str, &'a str)> {
    // A name that is no text breaks the same rule as one of other letters.
    let name = std::str::from_utf8(name).unwrap_or("\u{fffd}");
    check_name(version, name)?;
    let value = text(name, value)?;
    check_extension(name, &ExtensionValue::String(Cow::Borrowed(value)))?;
    Ok((name, value))
}

/// In version 0.3 data may be base64, and a header says so.
fn data<'a>(value: Option<&'a [u8]>, encoding: Raw<'a>) -> Result<EventData<'a>> {
    let Some(value) = value else {
        return Ok(EventData::Absent);
    };
    match encoding {
        None => Ok(EventData::Bytes(Cow::Borrowed(value))),
        Some(encoding) if encoding.eq_ignore_ascii_case(b"base64") => {
            let decoded = canonical::parse_binary(text("data", value)?)?;
            Ok(EventData::Bytes(Cow::Owned(decoded)))
        }
        Some(_) => Err(EventError::value(
            "datacontentencoding",
            "is other than base64",
        )),
    }
}

/// Writes an event in binary mode.
pub(super) fn write(view: &EventView<'_>) -> Encoded {
    let mut headers = Headers::with_capacity(12);
    for (name, value) in view.attributes() {
        let header = match name {
            "specversion" => "ce_specversion",
            "id" => "ce_id",
            "source" => "ce_source",
            "type" => "ce_type",
            "subject" => "ce_subject",
            "time" => "ce_time",
            "dataschema" => "ce_dataschema",
            "schemaurl" => "ce_schemaurl",
            _ => "content-type",
        };
        headers.push(header, Some(Bytes::copy_from_slice(value.as_bytes())));
    }
    if let Some(implied) = view.implied_datacontenttype() {
        headers.push("content-type", Some(implied));
    }
    for (name, value) in view.extensions() {
        let value = value.into_text().into_owned();
        headers.push(format!("ce_{name}"), Some(value));
    }
    Encoded {
        payload: view.data.as_bytes().map(Bytes::copy_from_slice),
        headers,
    }
}
