//! Writing events: which mode, and structured mode's JSON.

use super::attributes::{SpecVersion, is_json};
use super::canonical::format_binary;
use super::extensions::ExtensionValue;
use super::view::{EventData, EventView};
use super::{binary, structured};
use crate::error::{Error, Result};
use crate::headers::Headers;
use crate::serializer::Encoded;
use std::str::FromStr;

/// The `content-type` header of a structured event.
const CONTENT_TYPE: &str = "application/cloudevents+json; charset=utf-8";

/// The mode that events are written in: the values of `cloudevents.serializer.encoding`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// Attributes in headers, data in the value.
    #[default]
    Binary,
    /// Everything in the value, as JSON.
    Structured,
}

impl FromStr for Encoding {
    type Err = Error;

    /// `BINARY` or `STRUCTURED`, in any case.
    fn from_str(text: &str) -> Result<Self> {
        if text.eq_ignore_ascii_case("BINARY") {
            Ok(Encoding::Binary)
        } else if text.eq_ignore_ascii_case("STRUCTURED") {
            Ok(Encoding::Structured)
        } else {
            Err(Error::config("an encoding is BINARY or STRUCTURED"))
        }
    }
}

impl EventView<'_> {
    /// Writes the event: the headers to add, and the value.
    ///
    /// Binary mode writes `ce_` headers, `datacontenttype` as `content-type` (with the one that
    /// goes without saying in JSON said), and the data's bytes; without data the value is null.
    ///
    /// Structured mode writes data as JSON where it is: bytes under a JSON `datacontenttype` go
    /// in as they are if they are one JSON value, less white space around it. All other bytes are
    /// base64.
    ///
    /// # Errors
    /// None for an event that was read or built; the signature leaves room for formats.
    pub fn encode(&self, encoding: Encoding) -> Result<Encoded> {
        match encoding {
            Encoding::Binary => Ok(binary::write(self)),
            Encoding::Structured => {
                let mut headers = Headers::with_capacity(1);
                headers.push("content-type", Some(CONTENT_TYPE));
                Ok(Encoded {
                    payload: Some(to_json(self)?.into()),
                    headers,
                })
            }
        }
    }
}

fn to_json(view: &EventView<'_>) -> Result<Vec<u8>> {
    let data = view.raw_data().as_bytes().map_or(0, <[u8]>::len);
    let mut object = Object(Vec::with_capacity(384 + data + data / 2));
    for (name, value) in view.attributes() {
        object.text(name, value)?;
    }
    for (name, value) in view.extensions() {
        match value {
            ExtensionValue::Integer(number) => object.raw(name, number.to_string().as_bytes())?,
            ExtensionValue::Boolean(flag) => object.raw(name, flag.to_string().as_bytes())?,
            text => object.text(name, &text.into_text())?,
        }
    }
    match view.raw_data() {
        EventData::Absent => {}
        EventData::Json(text) => object.raw("data", text.as_bytes())?,
        EventData::Text(text) => object.text("data", text)?,
        EventData::Bytes(bytes) => match inline(view, bytes) {
            Some(json) => object.raw("data", json.as_bytes())?,
            None if view.specversion() == SpecVersion::V03 => {
                object.text("datacontentencoding", "base64")?;
                object.text("data", &format_binary(bytes))?;
            }
            None => object.text("data_base64", &format_binary(bytes))?,
        },
    }
    object.0.push(b'}');
    Ok(object.0)
}

/// Bytes that are the JSON they are said to be.
fn inline<'b>(view: &EventView<'_>, bytes: &'b [u8]) -> Option<&'b str> {
    if !view.datacontenttype().is_some_and(is_json) {
        return None;
    }
    structured::json_value(bytes)
}

/// A JSON object in the making.
struct Object(Vec<u8>);

impl Object {
    fn raw(&mut self, name: &str, json: &[u8]) -> Result<()> {
        self.name(name)?;
        self.0.extend_from_slice(json);
        Ok(())
    }

    fn text(&mut self, name: &str, text: &str) -> Result<()> {
        self.name(name)?;
        self.string(text)
    }

    fn name(&mut self, name: &str) -> Result<()> {
        self.0.push(if self.0.is_empty() { b'{' } else { b',' });
        self.string(name)?;
        self.0.push(b':');
        Ok(())
    }

    fn string(&mut self, text: &str) -> Result<()> {
        serde_json::to_writer(&mut self.0, text)
            .map_err(|_| Error::schema("text that JSON does not take"))
    }
}
