//! To the `Event` of cloudevents-sdk and back.

use super::attributes::SpecVersion;
use super::error::{EventError, Reason, json_position};
use super::extensions::ExtensionValue;
use super::time;
use super::view::{EventData, EventView};
use crate::error::Result;
use ::cloudevents::event::{
    AttributesReader, AttributesWriter, Data, EventBuilderError, EventBuilderV03, EventBuilderV10,
    ExtensionValue as SdkValue, SpecVersion as SdkVersion,
};
use ::cloudevents::{Event, EventBuilder as _};
use std::borrow::Cow;
use std::sync::LazyLock;
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
    pub fn into_event(mut self) -> Result<Event> {
        Ok(self.take_event()?)
    }

    /// Moves everything out of a view, which is large, without moving the view.
    #[inline]
    pub(super) fn take_event(&mut self) -> std::result::Result<Event, EventError> {
        let core = &mut self.core;
        // Each step that hands an event on copies it, so it is taken out right here.
        let Some(mut event) = blank(core.version).clone() else {
            return Err(EventError::new(
                Reason::InvalidValue,
                "the SDK refused a blank event",
            ));
        };
        event.set_id(take(&mut core.id));
        event.set_source(take(&mut core.source));
        event.set_type(take(&mut core.ty));
        if let Some(subject) = core.subject.take() {
            event.set_subject(Some(subject));
        }
        if let Some(instant) = core.instant {
            event.set_time(Some(instant));
        }
        if let Some(content_type) = core.content_type.take() {
            event.set_datacontenttype(Some(content_type));
        }
        if let Some(schema) = core.schema.take() {
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
        let data = match std::mem::replace(&mut self.data, EventData::Absent) {
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

/// An event without values, to copy and fill in: the SDK's builder moves what it built several
/// times.
fn blank(version: SpecVersion) -> &'static Option<Event> {
    static V10: LazyLock<Option<Event>> =
        LazyLock::new(|| emptied(EventBuilderV10::new().id("").source("/").ty("").build()));
    static V03: LazyLock<Option<Event>> =
        LazyLock::new(|| emptied(EventBuilderV03::new().id("").source("/").ty("").build()));
    match version {
        SpecVersion::V10 => &V10,
        SpecVersion::V03 => &V03,
    }
}

/// The builder takes no empty source; an event does, and copying an empty one allocates nothing.
fn emptied(built: std::result::Result<Event, EventBuilderError>) -> Option<Event> {
    let mut event = built.ok()?;
    event.set_source("");
    Some(event)
}

fn take(text: &mut Cow<'_, str>) -> String {
    std::mem::take(text).into_owned()
}

fn json(text: &str) -> std::result::Result<serde_json::Value, EventError> {
    serde_json::from_str(text).map_err(|error| {
        let message = format!("the event's data: {}", json_position(&error));
        EventError::new(Reason::InvalidJson, message)
    })
}
