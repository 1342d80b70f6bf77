#![doc = include_str!("../README.md")]

pub mod backoff;
pub mod codecs;
pub mod config;
pub mod decorators;
pub mod matcher;
pub mod properties;
pub mod transport;

mod answer;
mod builtin;
mod component;
mod deserializer;
mod error;
mod outcome;
mod record;
mod serializer;
mod stage;
mod tree;
mod value;

pub use answer::{Answer, AnswerFuture, BoxFuture};
pub use component::Component;
pub use deserializer::{
    BoxDeserializer, DeserializeWith, DeserializeWithFuture, Deserializer, Input, deserialize,
    deserialize_with, deserialize_with_future,
};
pub use error::{Classify, Error, ErrorKind, Result, StageName, Status};
pub use outcome::{Failure, Outcome};
pub use record::{
    Context, HeaderRef, HeaderSource, HeaderView, Headers, OutgoingRecord, OwnedRecord, Part,
    Payload, Record, Timestamp,
};
pub use serializer::{
    BoxSerializer, Encoded, Give, SerializeBytesWithFuture, SerializeWith, Serializer, Target,
    serialize_bytes_with_future, serialize_with,
};
pub use stage::Stage;
pub use tree::{MAX_DEPTH, MAX_LENGTH, Tree, TreeError};
pub use value::Value;
