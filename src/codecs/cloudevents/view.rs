//! An event as the record holds it: borrowed, checked, verbatim.

use super::attributes::{Core, SpecVersion, is_json};
use super::builder::EventBuilder;
use super::error::{EventError, Reason, json_position};
use super::extensions::{ExtensionValue, Extensions};
use super::{binary, structured};
use crate::error::{Error, Result};
use crate::headers::HeaderView;
use chrono::{DateTime, Utc};
use serde::Deserialize;
use std::borrow::Cow;
use std::fmt;

/// How a record carries an event (kafka-protocol-binding.md section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Attributes in headers, data in the value.
    Binary,
    /// Everything in the value, as JSON.
    Structured,
}

/// What a `content-type` header says of the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ContentMode {
    /// Not a format of CloudEvents: the value is data, of an event or of something else.
    Binary,
    /// One event in JSON.
    Structured,
    /// Many events in JSON, for which the Kafka binding has no place.
    Batch,
    /// A format of CloudEvents that this codec does not read, such as Avro.
    OtherFormat,
}

impl ContentMode {
    /// Reads the value of a `content-type` header: whatever its case, its blanks and its
    /// parameters, and the exact media type.
    #[inline]
    pub fn of(content_type: &[u8]) -> ContentMode {
        const PREFIX: &[u8] = b"application/cloudevents";
        let end = content_type.iter().position(|&b| b == b';');
        let media = content_type
            .get(..end.unwrap_or(content_type.len()))
            .unwrap_or_default()
            .trim_ascii();
        match media.split_at_checked(PREFIX.len()) {
            Some((prefix, format)) if prefix.eq_ignore_ascii_case(PREFIX) => {
                if format.eq_ignore_ascii_case(b"+json") {
                    ContentMode::Structured
                } else if format.eq_ignore_ascii_case(b"-batch+json") {
                    ContentMode::Batch
                } else {
                    ContentMode::OtherFormat
                }
            }
            _ => ContentMode::Binary,
        }
    }
}

/// The data of an event.
#[derive(Clone, PartialEq, Eq)]
pub enum EventData<'a> {
    /// There is none: a tombstone in binary mode, no member in structured mode.
    Absent,
    /// Bytes of the type that `datacontenttype` says, unread: all data in binary mode, and
    /// `data_base64`.
    Bytes(Cow<'a, [u8]>),
    /// The text of a JSON value, verbatim; `null` is data too.
    Json(Cow<'a, str>),
    /// Text of a type that is not JSON.
    Text(Cow<'a, str>),
}

impl EventData<'_> {
    /// The bytes as binary mode has them, or `None` if there is no data.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            EventData::Absent => None,
            EventData::Bytes(bytes) => Some(bytes),
            EventData::Json(text) | EventData::Text(text) => Some(text.as_bytes()),
        }
    }
}

impl fmt::Debug for EventData<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, bytes) = match self {
            EventData::Absent => return f.write_str("absent"),
            EventData::Bytes(bytes) => ("bytes", bytes.len()),
            EventData::Json(text) => ("json", text.len()),
            EventData::Text(text) => ("text", text.len()),
        };
        write!(f, "{kind}({bytes})")
    }
}

/// An event as the record holds it: every rule of the specification checked, nothing rewritten,
/// and only what JSON escapes or base64 hide copied.
///
/// `Debug` shows sizes, never values. Two views are equal when attributes, extensions and data
/// are, however they were carried.
#[derive(Clone)]
pub struct EventView<'a> {
    pub(super) mode: Option<Mode>,
    pub(super) core: Core<'a>,
    pub(super) extensions: Extensions<'a>,
    pub(super) data: EventData<'a>,
}

impl<'a> EventView<'a> {
    /// Reads the event of a record.
    ///
    /// The `content-type` header decides: `application/cloudevents+json` is structured mode, where
    /// only the value counts; anything else is binary mode, which a `ce_specversion` header makes
    /// an event. Names of headers are compared byte for byte: `Content-Type` and `CE_id` are other
    /// people's. Of headers that repeat the last counts, a null header is no header, and headers
    /// of other people never matter.
    ///
    /// # Errors
    /// An [`EventError`] that names the attribute, as an error of kind Malformed, Schema or
    /// Unsupported. A null value with `ce_` headers is an event without data; without them it is
    /// not an event, like any other value.
    #[inline]
    pub fn read(headers: HeaderView<'a>, value: Option<&'a [u8]>) -> Result<Self> {
        Ok(Self::try_read(headers, value)?)
    }

    #[inline]
    pub(super) fn try_read(
        headers: HeaderView<'a>,
        value: Option<&'a [u8]>,
    ) -> std::result::Result<Self, EventError> {
        let mut found = binary::Found::scan(headers);
        match found.content_type.map(ContentMode::of) {
            None | Some(ContentMode::Binary) => found.read(headers, value),
            Some(ContentMode::Structured) => match value {
                Some(value) => structured::read(value),
                None => Err(EventError::new(
                    Reason::InvalidJson,
                    "a structured event has a value",
                )),
            },
            Some(ContentMode::Batch) => Err(EventError::new(
                Reason::UnsupportedFormat,
                "a batch of events is not one event, and Kafka has no batch mode",
            )),
            Some(ContentMode::OtherFormat) => Err(EventError::new(
                Reason::UnsupportedFormat,
                "an event in a format other than JSON",
            )),
        }
    }

    /// Starts an event of your own: see [`EventBuilder`].
    pub fn builder(
        id: impl Into<Cow<'a, str>>,
        source: impl Into<Cow<'a, str>>,
        ty: impl Into<Cow<'a, str>>,
    ) -> EventBuilder<'a> {
        EventBuilder::new(id.into(), source.into(), ty.into())
    }

    /// How the record carried it; `None` for an event that was not read from a record.
    pub fn mode(&self) -> Option<Mode> {
        self.mode
    }

    /// The version of the specification it follows.
    pub fn specversion(&self) -> SpecVersion {
        self.core.version
    }

    /// The `id`, not empty.
    pub fn id(&self) -> &str {
        &self.core.id
    }

    /// The `source`, a URI-reference.
    pub fn source(&self) -> &str {
        &self.core.source
    }

    /// The `type`, not empty.
    pub fn ty(&self) -> &str {
        &self.core.ty
    }

    /// The `subject`, not empty.
    pub fn subject(&self) -> Option<&str> {
        self.core.subject.as_deref()
    }

    /// The `time` as it was sent, RFC 3339, offset and fraction included.
    pub fn time(&self) -> Option<&str> {
        self.core.time.as_deref()
    }

    /// The instant of `time`, to the nanosecond.
    pub fn time_utc(&self) -> Option<DateTime<Utc>> {
        self.core.instant
    }

    /// The `dataschema`, a URI; in version 0.3 the `schemaurl`.
    pub fn dataschema(&self) -> Option<&str> {
        self.core.schema.as_deref()
    }

    /// The `datacontenttype` as it was sent.
    pub fn datacontenttype(&self) -> Option<&str> {
        self.core.content_type.as_deref()
    }

    /// The content type that goes without saying and that another encoding has to say:
    /// `application/json` for a JSON `data` member without `datacontenttype`
    /// (json-format.md section 3.2).
    pub fn implied_datacontenttype(&self) -> Option<&'static str> {
        let implied = self.core.content_type.is_none() && matches!(self.data, EventData::Json(_));
        implied.then_some("application/json")
    }

    /// The core attributes that are there, by name.
    pub fn attributes(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let core = &self.core;
        [
            ("specversion", Some(core.version.as_str())),
            ("id", Some(self.id())),
            ("source", Some(self.source())),
            ("type", Some(self.ty())),
            ("subject", self.subject()),
            ("time", self.time()),
            (core.version.schema_attribute(), self.dataschema()),
            ("datacontenttype", self.datacontenttype()),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
    }

    /// The extensions, each name once, in no particular order.
    pub fn extensions(&self) -> impl Iterator<Item = (&str, ExtensionValue<'_>)> {
        self.extensions.iter()
    }

    /// The extension of this name.
    pub fn extension(&self, name: &str) -> Option<ExtensionValue<'_>> {
        let found = self.extensions.iter().find(|(found, _)| *found == name);
        found.map(|(_, value)| value)
    }

    /// The data as it was sent.
    pub fn raw_data(&self) -> &EventData<'a> {
        &self.data
    }

    /// The data, read as JSON straight from the record: a `T` may borrow from it.
    ///
    /// # Errors
    /// Malformed if it is no JSON; Schema if it is not a `T`, or if there is no data; Unsupported
    /// if `datacontenttype` says another type than JSON.
    pub fn data<'s, T: Deserialize<'s>>(&'s self) -> Result<T> {
        let read = match &self.data {
            EventData::Absent => return Err(Error::schema("the event has no data")),
            _ if !self.core.content_type.as_deref().is_none_or(is_json) => {
                return Err(Error::unsupported("the event's data is not JSON"));
            }
            EventData::Bytes(bytes) => serde_json::from_slice(bytes),
            EventData::Json(text) | EventData::Text(text) => serde_json::from_str(text),
        };
        read.map_err(|error| {
            let message = format!("the event's data: {}", json_position(&error));
            match error.is_data() {
                true => Error::schema(message),
                false => Error::malformed(message),
            }
        })
    }
}

impl PartialEq for EventView<'_> {
    fn eq(&self, other: &Self) -> bool {
        fn sorted<'s>(view: &'s EventView<'_>) -> Vec<(&'s str, ExtensionValue<'s>)> {
            let mut list: Vec<_> = view.extensions().collect();
            list.sort_by_key(|(name, _)| *name);
            list
        }
        self.attributes().eq(other.attributes())
            && self.data == other.data
            && sorted(self) == sorted(other)
    }
}

impl fmt::Debug for EventView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventView")
            .field("mode", &self.mode)
            .field("specversion", &self.core.version)
            .field("extensions", &self.extensions.iter().count())
            .field("data", &self.data)
            .finish()
    }
}
