//! CloudEvents on Kafka, in binary mode and in structured mode (JSON).
//!
//! Two ways to read an event: [`EventView`] borrows from the record, checks every rule of the
//! specification and rewrites nothing; [`CloudEvents`] is the codec of a chain and yields the
//! `Event` of cloudevents-sdk, which is built from a view once. Where that type cannot carry what
//! the specification says, the view is the truth (see [`EventView::into_event`]).
//!
//! The rules are those of CloudEvents 1.0, its Kafka binding and its JSON format, read strictly;
//! events of version 0.3 are read too. What the specification leaves open is decided so:
//!
//! - Names of headers are compared byte for byte; the value of `content-type` in any case, without
//!   parameters.
//! - Of repeated headers the last counts; a null header is no header. A JSON object that has a
//!   member twice is refused.
//! - Nothing is made up: no `time`, no `id`, no attribute from the record's key.
//! - A record with a null value and `ce_` headers is an event without data. A null value without
//!   them is a plain tombstone: no event for [`CloudEvents`], which yields `None`, and no
//!   CloudEvent for [`EventView::read`].
//! - Errors name the attribute and the rule ([`EventError`]); they never quote a value.

mod attributes;
mod batch;
mod binary;
mod builder;
pub mod canonical;
mod encode;
mod error;
mod event;
mod extensions;
mod members;
mod structured;
mod time;
mod uri;
mod view;

pub use attributes::SpecVersion;
pub use batch::{read_batch, split_batch};
pub use builder::EventBuilder;
pub use encode::Encoding;
pub use error::{EventError, Reason};
pub use extensions::ExtensionValue;
pub use view::{ContentMode, EventData, EventView, Mode};

use crate::answer::Answer;
use crate::component::Component;
use crate::config::{Built, KeySpec, TypeOf, TypeSpec, Yields};
use crate::deserializer::{Deserializer, Input};
use crate::error::{Error, Result};
use crate::payload::{Context, Payload};
use crate::record::Part;
use crate::serializer::{Encoded, Serializer, Target};
use crate::stage::Stage;
use crate::tree::Tree;
use ::cloudevents::Event;
use ::cloudevents::event::ExtensionValue as SdkValue;
use bytes::Bytes;
use std::borrow::Cow;

/// The property that says how events are written: `BINARY` (the default) or `STRUCTURED`.
pub const ENCODING: &str = "cloudevents.serializer.encoding";

/// The property that says which format structured events are written in:
/// `application/cloudevents+json`, the default and the only one.
pub const EVENT_FORMAT: &str = "cloudevents.serializer.event_format";

/// The codec: reads a record's event, writes an event as a record's value and headers.
///
/// It reads either half of a record: KIP-873's own example puts it on the key. It writes values; what
/// the key of an event is, [`PartitionKey`] says. A null that is written is a plain tombstone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CloudEvents {
    encoding: Encoding,
    map_partition_key: bool,
}

/// The codec as a stage named `cloudevents`, writing binary mode.
pub fn cloudevents() -> Stage<CloudEvents> {
    CloudEvents::new().stage()
}

impl CloudEvents {
    /// Reads both modes and writes binary mode.
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes in this mode.
    #[must_use]
    pub fn encoding(mut self, encoding: Encoding) -> Self {
        self.encoding = encoding;
        self
    }

    /// Checks the format of structured events, a value of [`EVENT_FORMAT`].
    ///
    /// # Errors
    /// Config, for a format other than JSON.
    pub fn event_format(self, format: &str) -> Result<Self> {
        match ContentMode::of(format.as_bytes()) {
            ContentMode::Structured => Ok(self),
            _ => Err(Error::config(
                "the only event format is application/cloudevents+json",
            )),
        }
    }

    /// Lets [`record_key`](Self::record_key) take the key from the `partitionkey` extension; off
    /// unless set (kafka-protocol-binding.md section 3.1: a mapper is opt-in).
    #[must_use]
    pub fn map_partition_key(mut self, map: bool) -> Self {
        self.map_partition_key = map;
        self
    }

    /// The codec as a stage named `cloudevents`.
    pub fn stage(self) -> Stage<CloudEvents> {
        Stage::new("cloudevents", self)
    }

    /// The key to send `event` under: the user's, or with the mapper on the event's
    /// `partitionkey`, unless that is absent or empty. The extension is still written.
    pub fn record_key<'a>(&self, event: &'a Event, key: Option<&'a [u8]>) -> Option<Cow<'a, [u8]>> {
        let mapped = match event.extension("partitionkey") {
            Some(SdkValue::String(text)) => Cow::Borrowed(text.as_bytes()),
            Some(other) => Cow::Owned(other.to_string().into_bytes()),
            None => Cow::Borrowed(&[][..]),
        };
        if self.map_partition_key && !mapped.is_empty() {
            return Some(mapped);
        }
        key.map(Cow::Borrowed)
    }

    /// Reads a borrowed event of the payload in hand: the fast path for a handler that needs no
    /// `Event` of its own. `None` is a plain tombstone.
    ///
    /// # Errors
    /// As [`EventView::read`].
    pub fn view<'a>(
        context: &Context<'a>,
        payload: &'a Payload<'a>,
    ) -> Result<Option<EventView<'a>>> {
        let value = payload.as_bytes();
        match EventView::try_read(context.headers(), value) {
            Ok(view) => Ok(Some(view)),
            Err(error) if value.is_none() && error.is_plain() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

#[cold]
fn not_a_key() -> Error {
    Error::config("an event is written as a value; its key is written by PartitionKey")
}

impl Component for CloudEvents {
    fn describe(&self) -> Tree {
        Tree::leaf("cloudevents")
    }
}

impl Deserializer for CloudEvents {
    type Output = Option<Event>;

    fn deserialize<'a>(&'a self, input: Input<'a>) -> Answer<'a, Option<Event>> {
        let value = input.payload.as_bytes();
        let error = match EventView::try_read(input.context.headers(), value) {
            Ok(mut view) => match view.take_event() {
                Ok(event) => return Answer::ok(Some(event)),
                Err(error) => error,
            },
            Err(error) if value.is_none() && error.is_plain() => return Answer::ok(None),
            Err(error) => error,
        };
        Answer::err(error.into())
    }
}

impl Serializer for CloudEvents {
    type Input = Event;

    fn serialize<'a>(
        &'a self,
        event: Option<&'a Event>,
        target: &'a Target<'a>,
    ) -> Answer<'a, Encoded> {
        if target.part == Part::Key {
            return Answer::err(not_a_key());
        }
        Answer::Ready(match event {
            None => Ok(Encoded::default()),
            Some(event) => EventView::of(event).and_then(|view| view.encode(self.encoding)),
        })
    }
}

/// Writes the `partitionkey` of an event as a record's key (kafka-protocol-binding.md section 3.1),
/// null where the event has none: the opt-in mapper, `key.serializer=cloudevents`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartitionKey;

impl Component for PartitionKey {
    fn describe(&self) -> Tree {
        Tree::leaf("cloudevents")
    }
}

impl Serializer for PartitionKey {
    type Input = Event;

    fn serialize<'a>(&'a self, event: Option<&'a Event>, _: &'a Target<'a>) -> Answer<'a, Encoded> {
        let mapper = CloudEvents::new().map_partition_key(true);
        let key = event.and_then(|event| mapper.record_key(event, None));
        Answer::ok(Encoded::of(key.map(|key| Bytes::from(key.into_owned()))))
    }
}

const KEYS: &[KeySpec] = &[
    KeySpec::new(
        "encoding",
        "BINARY or STRUCTURED",
        "How events are written.",
    )
    .or("BINARY"),
    KeySpec::new(
        "event_format",
        "media type",
        "The format of structured events.",
    )
    .or("application/cloudevents+json"),
];

/// The type as properties name it. As a key's serializer it writes the `partitionkey`.
pub(crate) fn spec() -> TypeSpec {
    TypeSpec::new("cloudevents")
        .doc("A CloudEvent 1.0, binary or structured; as a key's serializer its partitionkey.")
        .class_stem("io.cloudevents.kafka.CloudEvent")
        .class_stem("io.cloudevents.kafka.CloudEvents")
        .keys(KEYS)
        .reads(|node| {
            let built = node.built(CloudEvents::new());
            let yields = Yields::one_of([TypeOf::of::<Event>(), TypeOf::of::<Box<Event>>()]);
            Some(Built { yields, ..built })
        })
        .writes(|node| {
            let (encoding, format) = (node.text("encoding"), node.text("event_format"));
            let encoding = match encoding.unwrap_or_default().parse::<Encoding>() {
                Ok(encoding) => Some(encoding),
                Err(error) => {
                    node.problem("encoding", error.message().to_owned());
                    None
                }
            };
            let codec = CloudEvents::new().event_format(&format.unwrap_or_default());
            let codec = match codec {
                Ok(codec) => Some(codec),
                Err(error) => {
                    node.problem("event_format", error.message().to_owned());
                    None
                }
            };
            let codec = codec?.encoding(encoding?);
            Some(match node.role() {
                Part::Key => node.built_writer(PartitionKey),
                Part::Value => node.built_writer(codec),
            })
        })
}
