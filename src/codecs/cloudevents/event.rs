//! To the `Event` of cloudevents-sdk and back.

use super::attributes::SpecVersion;
use super::error::{EventError, Reason, json_position};
use super::extensions::ExtensionValue;
use super::time;
use super::view::{EventData, EventView};
use crate::error::Result;
use ::cloudevents::event::{
    AttributesReader, AttributesWriter, Data, EventBuilderV03, EventBuilderV10,
    ExtensionValue as SdkValue, SpecVersion as SdkVersion,
};
use ::cloudevents::{Event, EventBuilder as _};
use std::borrow::Cow;
use url::Url;

impl<'a> EventView<'a> {
    /// The event as the SDK's type.
    ///
    /// That type says less than the specification, and this view is the truth where they differ:
    /// `time` becomes UTC, `dataschema` becomes what the `url` crate makes of it, extensions of
    /// bytes become text, JSON numbers beyond 64 bits lose digits, and of repeated keys inside
    /// JSON data the last stays. Data of binary mode stays bytes.
    ///
    /// # Errors
    /// Malformed, if JSON data nests too deep to become a value; Schema, if the `url` crate does
    /// not take `dataschema`.
    pub fn into_event(self) -> Result<Event> {
        Ok(self.try_into_event()?)
    }

    pub(super) fn try_into_event(self) -> std::result::Result<Event, EventError> {
        let core = self.core;
        let built = match core.version {
            SpecVersion::V10 => EventBuilderV10::new()
                .id(core.id)
                .source(core.source)
                .ty(core.ty)
                .build(),
            SpecVersion::V03 => EventBuilderV03::new()
                .id(core.id)
                .source(core.source)
                .ty(core.ty)
                .build(),
        };
        let mut event =
            built.map_err(|_| EventError::new(Reason::InvalidValue, "not an event of the SDK"))?;
        if let Some(subject) = core.subject {
            event.set_subject(Some(subject));
        }
        if let Some((_, instant)) = core.time {
            event.set_time(Some(instant));
        }
        if let Some(content_type) = core.content_type {
            event.set_datacontenttype(Some(content_type));
        }
        if let Some(schema) = core.schema {
            let url = Url::parse(&schema).map_err(|_| {
                let name = core.version.schema_attribute();
                EventError::value(name, "is no URL for the SDK's event")
            })?;
            event.set_dataschema(Some(url));
        }
        for (name, value) in self.extensions.iter() {
            let value = match value {
                ExtensionValue::Integer(number) => SdkValue::Integer(number.into()),
                ExtensionValue::Boolean(flag) => SdkValue::Boolean(flag),
                text => SdkValue::String(text.into_text().into_owned()),
            };
            event.set_extension(name, value);
        }
        let data = match self.data {
            EventData::Absent => return Ok(event),
            EventData::Bytes(bytes) => Data::Binary(bytes.into_owned()),
            EventData::Text(text) => Data::String(text.into_owned()),
            EventData::Json(text) => Data::Json(json(&text)?),
        };
        event.set_data_unchecked(data);
        Ok(event)
    }

    /// The SDK's event, checked by the rules that its type does not hold.
    ///
    /// # Errors
    /// An [`EventError`] that names the attribute, for an event that no reader has to take.
    pub fn of(event: &'a Event) -> Result<Self> {
        Ok(Self::try_of(event)?)
    }

    pub(super) fn try_of(event: &'a Event) -> std::result::Result<Self, EventError> {
        let mut builder = EventView::builder(event.id(), event.source(), event.ty());
        if event.specversion() == SdkVersion::V03 {
            builder = builder.specversion(SpecVersion::V03);
        }
        if let Some(subject) = event.subject() {
            builder = builder.subject(subject);
        }
        if let Some(instant) = event.time() {
            builder = builder.time(time::format(instant));
        }
        if let Some(schema) = event.dataschema() {
            builder = builder.dataschema(schema.as_str());
        }
        if let Some(content_type) = event.datacontenttype() {
            builder = builder.datacontenttype(content_type);
        }
        for (name, value) in event.iter_extensions() {
            let value = match value {
                SdkValue::String(text) => ExtensionValue::String(Cow::Borrowed(text)),
                SdkValue::Boolean(flag) => ExtensionValue::Boolean(*flag),
                SdkValue::Integer(number) => match i32::try_from(*number) {
                    Ok(number) => ExtensionValue::Integer(number),
                    Err(_) => return Err(EventError::value(name, "is beyond 32 bits")),
                },
            };
            builder = builder.extension(name, value);
        }
        match event.data() {
            None => builder,
            Some(Data::Binary(bytes)) => builder.bytes(bytes.as_slice()),
            Some(Data::String(text)) => builder.text(text.as_str()),
            Some(Data::Json(value)) => builder.json_text(value.to_string()),
        }
        .try_build()
    }
}

fn json(text: &str) -> std::result::Result<serde_json::Value, EventError> {
    serde_json::from_str(text).map_err(|error| {
        let message = format!("the event's data: {}", json_position(&error));
        EventError::new(Reason::InvalidJson, message)
    })
}
