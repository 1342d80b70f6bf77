//! The rules for attributes: CloudEvents 1.0 (spec.md, "Context Attributes"), read strictly.

use super::error::{EventError, Reason};
use super::extensions::ExtensionValue;
use super::{time, uri};
use chrono::{DateTime, Utc};
use std::borrow::Cow;
use std::fmt;

type Result<T> = std::result::Result<T, EventError>;

/// The version of the specification that an event follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SpecVersion {
    /// 0.3, as old producers write it: the schema's attribute is `schemaurl`.
    V03,
    /// 1.0, and its patch releases, which do not show.
    #[default]
    V10,
}

impl SpecVersion {
    /// `0.3` or `1.0`.
    pub const fn as_str(self) -> &'static str {
        match self {
            SpecVersion::V03 => "0.3",
            SpecVersion::V10 => "1.0",
        }
    }

    /// The attribute that says where the data's schema is.
    pub(super) const fn schema_attribute(self) -> &'static str {
        match self {
            SpecVersion::V03 => "schemaurl",
            SpecVersion::V10 => "dataschema",
        }
    }

    pub(super) fn parse(text: &str) -> Result<Self> {
        match text {
            "1.0" => Ok(SpecVersion::V10),
            "0.3" => Ok(SpecVersion::V03),
            _ => Err(EventError::of(
                Reason::UnknownSpecVersion,
                "specversion",
                "is neither 1.0 nor 0.3",
            )),
        }
    }

    /// Whether this version defines an attribute of that name itself.
    #[inline]
    pub(super) fn defines(self, name: &[u8]) -> bool {
        match name {
            b"specversion" | b"id" | b"source" | b"type" | b"subject" | b"time" => true,
            b"datacontenttype" => true,
            b"dataschema" => self == SpecVersion::V10,
            b"schemaurl" | b"datacontentencoding" => self == SpecVersion::V03,
            _ => false,
        }
    }
}

impl fmt::Display for SpecVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The core attributes of an event, verbatim. They keep every rule once [`Core::check`] said so,
/// and `instant` is that of `time` then.
#[derive(Clone, Default)]
pub(super) struct Core<'a> {
    pub(super) version: SpecVersion,
    pub(super) id: Cow<'a, str>,
    pub(super) source: Cow<'a, str>,
    pub(super) ty: Cow<'a, str>,
    pub(super) subject: Option<Cow<'a, str>>,
    pub(super) time: Option<Cow<'a, str>>,
    pub(super) instant: Option<DateTime<Utc>>,
    pub(super) schema: Option<Cow<'a, str>>,
    pub(super) content_type: Option<Cow<'a, str>>,
}

impl Core<'_> {
    pub(super) fn check(&mut self) -> Result<()> {
        check_not_empty("id", &self.id)?;
        check_text("id", &self.id)?;
        check_not_empty("source", &self.source)?;
        if !uri::is_reference(&self.source) {
            return Err(EventError::value("source", "is not a URI-reference"));
        }
        check_not_empty("type", &self.ty)?;
        check_text("type", &self.ty)?;
        if let Some(subject) = &self.subject {
            check_not_empty("subject", subject)?;
            check_text("subject", subject)?;
        }
        self.instant = match &self.time {
            None => None,
            Some(text) => match time::parse(text) {
                None => return Err(EventError::value("time", "is not an RFC 3339 time")),
                instant => instant,
            },
        };
        if let Some(schema) = &self.schema {
            let name = self.version.schema_attribute();
            check_not_empty(name, schema)?;
            // 0.3 says URI-reference where 1.0 says URI.
            let fits = match self.version {
                SpecVersion::V03 => uri::is_reference(schema),
                SpecVersion::V10 => uri::is_absolute(schema),
            };
            if !fits {
                return Err(EventError::value(name, "is not an absolute URI"));
            }
        }
        if let Some(content_type) = &self.content_type {
            check_not_empty("datacontenttype", content_type)?;
            if !is_media_type(content_type) {
                return Err(EventError::value("datacontenttype", "is not a media type"));
            }
        }
        Ok(())
    }
}

#[inline]
fn check_not_empty(name: &str, value: &str) -> Result<()> {
    if value.is_empty() {
        return Err(EventError::empty(name));
    }
    Ok(())
}

/// The characters a String attribute may have (spec.md, "Type System"): no C0 and C1 controls, no
/// U+007F, no noncharacters.
#[inline]
pub(super) fn check_text(name: &str, text: &str) -> Result<()> {
    if is_plain(text.as_bytes()) || text.chars().all(is_text) {
        return Ok(());
    }
    Err(EventError::value(
        name,
        "holds a control character or a noncharacter",
    ))
}

/// Whether there is nothing but printable ASCII: eight bytes at once, the last eight again for what
/// is left over.
#[inline]
fn is_plain(bytes: &[u8]) -> bool {
    const ONES: u64 = 0x0101_0101_0101_0101;
    // The high bit of a byte is set if the byte is beyond 0x7f, below 0x20 (by the subtraction) or
    // 0x7f (by the addition); what is carried into a neighbour comes from a byte that has it set.
    let odd = |chunk: [u8; 8]| {
        let x = u64::from_le_bytes(chunk);
        (x | x.wrapping_sub(ONES * 0x20) | x.wrapping_add(ONES)) & (ONES * 0x80)
    };
    let Some(last) = bytes.last_chunk::<8>() else {
        return bytes.iter().all(|b| matches!(b, 0x20..=0x7e));
    };
    let (chunks, _) = bytes.as_chunks::<8>();
    chunks
        .iter()
        .fold(odd(*last), |seen, chunk| seen | odd(*chunk))
        == 0
}

fn is_text(c: char) -> bool {
    !c.is_control() && !matches!(c, '\u{fdd0}'..='\u{fdef}') && u32::from(c) & 0xfffe != 0xfffe
}

/// The rule for names (spec.md, "Naming Conventions"), and `data`, which is reserved.
#[inline]
pub(super) fn check_name(version: SpecVersion, name: &str) -> Result<()> {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    if !name.is_empty() && name.bytes().all(plain) && name != "data" {
        return Ok(());
    }
    // In 0.3 the member `data_base64` means nothing, and its readers keep it as an extension.
    if version == SpecVersion::V03 && name == "data_base64" {
        return Ok(());
    }
    Err(EventError::of(
        Reason::InvalidName,
        name,
        "has a name other than a-z and 0-9, or a reserved one",
    ))
}

/// The rules for an extension's value: the characters of its text, and the documented extensions
/// that must not be empty (partitioning.md, sequence.md, distributed-tracing.md).
#[inline]
pub(super) fn check_extension(name: &str, value: &ExtensionValue<'_>) -> Result<()> {
    if let ExtensionValue::String(text) = value {
        if text.is_empty() && matches!(name, "partitionkey" | "sequence" | "traceparent") {
            return Err(EventError::empty(name));
        }
        check_text(name, text)?;
    }
    Ok(())
}

/// The media type of nearly all events, which needs no second look.
const JSON: &str = "application/json";

/// The media type without parameters and blanks.
#[inline]
pub(super) fn media(content_type: &str) -> &str {
    let end = content_type.find(';').unwrap_or(content_type.len());
    content_type.get(..end).unwrap_or_default().trim_ascii()
}

/// Whether data of this type is JSON (json-format.md section 3.1): `*/json` or `*/*+json`, in any
/// case.
#[inline]
pub(super) fn is_json(content_type: &str) -> bool {
    if content_type == JSON {
        return true;
    }
    let Some((_, subtype)) = media(content_type).split_once('/') else {
        return false;
    };
    let suffix = subtype.rsplit('+').next().unwrap_or(subtype);
    suffix.eq_ignore_ascii_case("json")
}

/// RFC 2046 media types with the parameters of RFC 2045; blanks around `;` and an empty parameter
/// are let through.
fn is_media_type(text: &str) -> bool {
    if text == JSON {
        return true;
    }
    let (types, parameters) = text.split_once(';').unwrap_or((text, ""));
    let Some((ty, subtype)) = types.trim_ascii().split_once('/') else {
        return false;
    };
    is_token(ty) && is_token(subtype) && are_parameters(parameters)
}

fn are_parameters(mut text: &str) -> bool {
    loop {
        text = text.trim_ascii_start();
        if let Some(rest) = text.strip_prefix(';') {
            text = rest;
            continue;
        }
        if text.is_empty() {
            return true;
        }
        let Some((name, rest)) = text.split_once('=') else {
            return false;
        };
        let after = match rest.strip_prefix('"') {
            Some(quoted) => after_quoted(quoted),
            None => {
                let end = rest.find([';', ' ', '\t']).unwrap_or(rest.len());
                let (value, after) = rest.split_at(end);
                is_token(value).then_some(after)
            }
        };
        let Some(after) = after.filter(|_| is_token(name)) else {
            return false;
        };
        text = after.trim_ascii_start();
        if !text.is_empty() && !text.starts_with(';') {
            return false;
        }
    }
}

/// What follows the closing quote.
fn after_quoted(text: &str) -> Option<&str> {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return text.get(at + 1..),
            _ if c.is_control() => return None,
            _ => {}
        }
    }
    None
}

fn is_token(text: &str) -> bool {
    let special = b"()<>@,;:\\\"/[]?=";
    !text.is_empty()
        && text
            .bytes()
            .all(|b| b.is_ascii_graphic() && !special.contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_types_are_told_from_other_text() {
        for good in [
            "application/json",
            "APPLICATION/JSON",
            "text/json ;x=1",
            "text/plain; charset=\"utf-8\"; a=b",
            "application/json;",
            "application/vnd.api+json;charset=utf-8",
            " text/plain ",
            "a/b;c=\"x;\\\"y\"",
        ] {
            assert!(is_media_type(good), "{good}");
        }
        for bad in [
            "xyz",
            "bogus ;=========",
            "a/",
            "/b",
            "a/b/c",
            "a b/c",
            "a/b; c",
            "a/b; c=",
            "a/b;c=d e",
            "a/b;c=\"d",
            "a/b;c=\"d\"e",
            "é/b",
        ] {
            assert!(!is_media_type(bad), "{bad}");
        }
    }

    #[test]
    fn json_is_a_subtype_or_a_suffix() {
        for json in [
            "application/json",
            "text/JSON ;x=1",
            "application/cloudevents+json",
            "image/foo+json; a=b",
        ] {
            assert!(is_json(json), "{json}");
        }
        for other in [
            "application/jsonwrong",
            "application/xjson",
            "application/json-seq",
            "json",
            "text/plain;x=a/json",
        ] {
            assert!(!is_json(other), "{other}");
        }
    }

    #[test]
    fn plain_text_is_printable_ascii_wherever_the_other_byte_is() {
        for b in 0..=255_u8 {
            for at in 0..19 {
                let mut text = *b"the quick brown fox";
                text[at] = b;
                let plain = matches!(b, 0x20..=0x7e);
                assert_eq!(is_plain(&text), plain, "{b} at {at}");
                let short = text.get(..at % 8 + 1).unwrap();
                assert_eq!(is_plain(short), plain || at >= 8, "{b} at {at}");
            }
        }
        assert!(is_plain(b""));
    }

    #[test]
    fn text_has_no_controls_and_noncharacters() {
        for good in ["", "a b", "é😀", "\u{a0}", "\u{fdcf}", "\u{fffd}"] {
            assert!(check_text("x", good).is_ok(), "{good:?}");
        }
        for bad in [
            "\n",
            "\u{7f}",
            "\u{85}",
            "\u{fdd0}",
            "\u{fffe}",
            "\u{1ffff}",
        ] {
            assert!(check_text("x", bad).is_err(), "{bad:?}");
        }
    }
}
