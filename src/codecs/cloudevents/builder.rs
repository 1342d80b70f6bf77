//! An event of one's own, under the same rules as one that was read.

use super::attributes::{Core, SpecVersion, is_json};
use super::error::{EventError, Reason, json_position};
use super::extensions::{ExtensionValue, Extensions, Named};
use super::time;
use super::view::{EventData, EventView};
use crate::error::{Error, Result};
use chrono::{DateTime, Utc};
use serde::Serialize;
use serde::de::IgnoredAny;
use std::borrow::Cow;
use std::fmt;

/// Builds an [`EventView`]: what the `Event` of the SDK cannot carry (a time with its offset, a
/// schema's URI as it is written) is kept.
///
/// ```
/// use kafka_chain::codecs::cloudevents::{Encoding, EventView};
///
/// # fn main() -> kafka_chain::Result<()> {
/// let event = EventView::builder("1", "/orders", "order.placed")
///     .time("2018-04-26T14:48:09+02:00")
///     .datacontenttype("application/json")
///     .extension("priority", 7)
///     .bytes(&b"{}"[..])
///     .build()?;
/// let encoded = event.encode(Encoding::Binary)?;
/// assert_eq!(encoded.headers.view().get_last("ce_priority"), Some(Some(&b"7"[..])));
/// # Ok(())
/// # }
/// ```
pub struct EventBuilder<'a> {
    core: Core<'a>,
    extensions: Vec<Named<'a>>,
    data: EventData<'a>,
}

impl<'a> EventBuilder<'a> {
    pub(super) fn new(id: Cow<'a, str>, source: Cow<'a, str>, ty: Cow<'a, str>) -> Self {
        EventBuilder {
            core: Core {
                id,
                source,
                ty,
                ..Core::default()
            },
            extensions: Vec::new(),
            data: EventData::Absent,
        }
    }

    /// The version of the specification; 1.0 unless set.
    #[must_use]
    pub fn specversion(mut self, version: SpecVersion) -> Self {
        self.core.version = version;
        self
    }

    /// The `subject`.
    #[must_use]
    pub fn subject(mut self, subject: impl Into<Cow<'a, str>>) -> Self {
        self.core.subject = Some(subject.into());
        self
    }

    /// The `time`, RFC 3339, written as it is.
    #[must_use]
    pub fn time(mut self, time: impl Into<Cow<'a, str>>) -> Self {
        self.core.time = Some(time.into());
        self
    }

    /// The `time` of an instant, in UTC.
    #[must_use]
    pub fn time_utc(self, time: &DateTime<Utc>) -> Self {
        self.time(time::format(time))
    }

    /// The `dataschema`, a URI; in version 0.3 the `schemaurl`.
    #[must_use]
    pub fn dataschema(mut self, schema: impl Into<Cow<'a, str>>) -> Self {
        self.core.schema = Some(schema.into());
        self
    }

    /// The `datacontenttype`.
    #[must_use]
    pub fn datacontenttype(mut self, content_type: impl Into<Cow<'a, str>>) -> Self {
        self.core.content_type = Some(content_type.into());
        self
    }

    /// Adds an extension: names are of `a`–`z` and `0`–`9`.
    #[must_use]
    pub fn extension(
        mut self,
        name: impl Into<Cow<'a, str>>,
        value: impl Into<ExtensionValue<'a>>,
    ) -> Self {
        self.extensions.push((name.into(), value.into()));
        self
    }

    /// Data of bytes, of the type that `datacontenttype` says.
    #[must_use]
    pub fn bytes(mut self, bytes: impl Into<Cow<'a, [u8]>>) -> Self {
        self.data = EventData::Bytes(bytes.into());
        self
    }

    /// Data of text. Without a `datacontenttype`, or with one of JSON, it is data of its bytes.
    #[must_use]
    pub fn text(mut self, text: impl Into<Cow<'a, str>>) -> Self {
        self.data = EventData::Text(text.into());
        self
    }

    /// Data of JSON text, written as it is. With a `datacontenttype` that is not JSON it is data
    /// of its bytes.
    #[must_use]
    pub fn json_text(mut self, json: impl Into<Cow<'a, str>>) -> Self {
        self.data = EventData::Json(json.into());
        self
    }

    /// Data of a value as JSON.
    ///
    /// # Errors
    /// Schema, if the value refuses to be JSON.
    pub fn json<T: Serialize + ?Sized>(self, value: &T) -> Result<Self> {
        match serde_json::to_string(value) {
            Ok(text) => Ok(self.json_text(text)),
            Err(_) => Err(Error::schema("the event's data cannot be written as JSON")),
        }
    }

    /// Checks everything.
    ///
    /// # Errors
    /// An [`EventError`] that names the attribute.
    pub fn build(self) -> Result<EventView<'a>> {
        Ok(self.try_build()?)
    }

    pub(super) fn try_build(self) -> std::result::Result<EventView<'a>, EventError> {
        let mut core = self.core;
        core.check()?;
        let content_type = core.content_type.as_deref();
        let data = match self.data {
            EventData::Text(text) if content_type.is_none_or(is_json) => into_bytes(text),
            EventData::Json(text) if !content_type.is_none_or(is_json) => into_bytes(text),
            EventData::Json(text) => {
                check_json(&text)?;
                EventData::Json(text)
            }
            data => data,
        };
        Ok(EventView {
            mode: None,
            extensions: Extensions::checked(self.extensions, core.version)?,
            core,
            data,
        })
    }
}

fn into_bytes(text: Cow<'_, str>) -> EventData<'_> {
    EventData::Bytes(match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
        Cow::Owned(text) => Cow::Owned(text.into_bytes()),
    })
}

fn check_json(text: &str) -> std::result::Result<(), EventError> {
    serde_json::from_str::<IgnoredAny>(text)
        .map(drop)
        .map_err(|error| {
            let message = format!("the event's data: {}", json_position(&error));
            EventError::new(Reason::InvalidData, message)
        })
}

impl fmt::Debug for EventBuilder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventBuilder")
            .field("extensions", &self.extensions.len())
            .field("data", &self.data)
            .finish_non_exhaustive()
    }
}
