//! Bytes as they are: Kafka's `ByteArray`, `Bytes` and `ByteBuffer`, which share one wire form.

use crate::answer::Answer;
use crate::component::Component;
use crate::config::TypeSpec;
use crate::deserializer::{Deserializer, Input};
use crate::payload::Payload;
use crate::serializer::{Encoded, Serializer, Target};
use crate::stage::Stage;
use crate::tree::Tree;
use bytes::Bytes;

/// Reads and writes bytes unchanged.
///
/// Bytes that a stage before made cost a reference count; bytes that live in the record are copied.
/// Nothing is ever an error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BytesCodec;

/// The stage `bytes`.
pub fn bytes() -> Stage<BytesCodec> {
    Stage::new("bytes", BytesCodec)
}

impl Component for BytesCodec {
    fn describe(&self) -> Tree {
        Tree::leaf("bytes")
    }
}

impl Deserializer for BytesCodec {
    type Output = Option<Bytes>;

    #[inline]
    fn deserialize<'a>(&'a self, input: Input<'a>) -> Answer<'a, Option<Bytes>> {
        Answer::ok(input.payload.into_bytes())
    }
}

impl Serializer for BytesCodec {
    type Input = [u8];

    #[inline]
    fn serialize<'a>(&'a self, value: Payload<'a>, _: &'a Target<'a>) -> Answer<'a, Encoded> {
        Answer::ok(Encoded::of(value.into_bytes()))
    }
}

/// The type as properties name it.
pub(crate) fn spec() -> TypeSpec {
    TypeSpec::new("bytes")
        .doc("The bytes as they are.")
        .class_stem("org.apache.kafka.common.serialization.ByteArray")
        .class_stem("org.apache.kafka.common.serialization.Bytes")
        .class_stem("org.apache.kafka.common.serialization.ByteBuffer")
        .class(
            "org.apache.kafka.common.serialization.Serdes.ByteArraySerde",
            None,
        )
        .class(
            "org.apache.kafka.common.serialization.Serdes.BytesSerde",
            None,
        )
        .class(
            "org.apache.kafka.common.serialization.Serdes.ByteBufferSerde",
            None,
        )
        .reads(|node| Some(node.built(BytesCodec)))
        .writes(|node| Some(node.built_bytes_writer(BytesCodec)))
}
