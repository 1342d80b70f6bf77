// The README's examples are tests, and use what is on by default.
#![cfg_attr(
    all(feature = "cloudevents", feature = "encryption"),
    doc = include_str!("../README.md")
)]
#![cfg_attr(
    not(all(feature = "cloudevents", feature = "encryption")),
    doc = "Parts that compose for consuming Kafka: see the README."
)]
// Of the library alone: a failed unwrap is how a test fails.
#![warn(unreachable_pub)]
#![cfg_attr(
    not(test),
    warn(
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::todo,
        clippy::unwrap_used
    )
)]

pub mod backoff;
pub mod clock;
pub mod codecs;
pub mod config;
pub mod dead_letter;
pub mod decorators;
pub mod delay;
#[cfg(feature = "kafka")]
pub mod forwarder;
pub mod matcher;
pub mod pipeline;
pub mod properties;
#[cfg(feature = "kafka")]
pub mod redrive;
#[cfg(all(feature = "kafka", feature = "embedded"))]
pub mod scheduler;
pub mod transport;

mod answer;
mod builtin;
mod component;
mod deserializer;
mod error;
mod headers;
pub mod metric;
mod outcome;
mod payload;
mod record;
mod serializer;
mod stage;
mod status;
mod tree;
mod value;

pub use answer::{Answer, AnswerFuture, BoxFuture};
pub use component::Component;
pub use deserializer::{
    BoxDeserializer, DeserializeWith, DeserializeWithFuture, Deserializer, Input, deserialize,
    deserialize_with, deserialize_with_future,
};
pub use error::{Classify, Error, Result, StageName};
pub use headers::{HeaderRef, HeaderSource, HeaderView, Headers};
pub use outcome::{Failure, Outcome};
pub use payload::{Context, Payload};
pub use record::{OutgoingRecord, OwnedRecord, Part, Record, Timestamp};
pub use serializer::{
    BoxSerializer, Encoded, Give, SerializeBytesWithFuture, SerializeWith, Serializer, Target,
    serialize_bytes_with_future, serialize_with,
};
pub use stage::Stage;
pub use status::{ErrorKind, Status};
pub use tree::{MAX_DEPTH, MAX_LENGTH, Tree, TreeError};
pub use value::Value;
