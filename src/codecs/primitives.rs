//! Kafka's primitive types: `Short`, `Integer`, `Long`, `Float`, `Double`, `Boolean`, `UUID`, `Void`.

use super::charset::Charset;
use super::string::{ENCODING, encoded as encoded_as};
use crate::answer::Answer;
use crate::component::Component;
use crate::config::TypeSpec;
use crate::deserializer::{Deserializer, Input};
use crate::error::{Error, Result};
use crate::payload::Payload;
use crate::serializer::{Encoded, Serializer, Target};
use crate::stage::Stage;
use crate::tree::Tree;
use std::convert::Infallible;
use uuid::Uuid;

/// The length of a UUID in text.
const UUID_LENGTH: usize = 36;

/// The bytes that every entry of this type takes in a list of Kafka's, for the types that Kafka
/// writes without a length; `None` for all others, `boolean` among them.
pub fn entry_size(type_name: &str) -> Option<usize> {
    match type_name {
        "short" => Some(2),
        "integer" | "float" => Some(4),
        "long" | "double" => Some(8),
        "uuid" => Some(UUID_LENGTH),
        _ => None,
    }
}

/// The payload if it has exactly `N` bytes.
#[inline]
fn exactly<const N: usize>(name: &str, payload: &Payload<'_>) -> Result<Option<[u8; N]>> {
    match payload.as_bytes() {
        None => Ok(None),
        Some(bytes) => match bytes.try_into() {
            Ok(bytes) => Ok(Some(bytes)),
            Err(_) => Err(wrong_size(name, N, bytes.len())),
        },
    }
}

#[cold]
fn wrong_size(name: &str, expected: usize, found: usize) -> Error {
    let plural = if expected == 1 { "" } else { "s" };
    Error::malformed(format!(
        "{name}: expected {expected} byte{plural}, found {found}"
    ))
}

fn encoded<const N: usize>(bytes: Option<[u8; N]>) -> Answer<'static, Encoded> {
    Answer::ok(Encoded::of(bytes.map(|bytes| bytes.to_vec().into())))
}

macro_rules! number {
    ($codec:ident, $stage:ident, $name:literal, $type:ty, $write:expr, $doc:literal) => {
        #[doc = $doc]
        ///
        /// Reading any other number of bytes is an error of kind Malformed.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $codec;

        #[doc = concat!("The stage `", $name, "`.")]
        pub fn $stage() -> Stage<$codec> {
            Stage::new($name, $codec)
        }

        impl Component for $codec {
            fn describe(&self) -> Tree {
                Tree::leaf($name)
            }
        }

        impl Deserializer for $codec {
            type Output = Option<$type>;

            #[inline]
            fn deserialize<'a>(&'a self, input: Input<'a>) -> Answer<'a, Option<$type>> {
                let bytes = exactly($name, &input.payload);
                Answer::Ready(bytes.map(|bytes| bytes.map(<$type>::from_be_bytes)))
            }
        }

        impl Serializer for $codec {
            type Input = $type;

            #[inline]
            fn serialize<'a>(
                &'a self,
                value: Option<&'a $type>,
                _: &'a Target<'a>,
            ) -> Answer<'a, Encoded> {
                encoded(value.copied().map($write))
            }
        }
    };
}

number!(
    ShortCodec,
    short,
    "short",
    i16,
    i16::to_be_bytes,
    "A 16-bit integer: 2 bytes, big-endian."
);
number!(
    IntegerCodec,
    integer,
    "integer",
    i32,
    i32::to_be_bytes,
    "A 32-bit integer: 4 bytes, big-endian."
);
number!(
    LongCodec,
    long,
    "long",
    i64,
    i64::to_be_bytes,
    "A 64-bit integer: 8 bytes, big-endian."
);
number!(
    FloatCodec,
    float,
    "float",
    f32,
    f32::to_be_bytes,
    "An IEEE 754 single: 4 bytes, big-endian. The payload of a NaN is kept, as in Java."
);
number!(
    DoubleCodec,
    double,
    "double",
    f64,
    canonical_double,
    "An IEEE 754 double: 8 bytes, big-endian. Every NaN is written as `7ff8000000000000`, as in Java."
);

/// What Java's `Double.doubleToLongBits` gives.
fn canonical_double(value: f64) -> [u8; 8] {
    let bits = if value.is_nan() {
        0x7ff8_0000_0000_0000
    } else {
        value.to_bits()
    };
    bits.to_be_bytes()
}

/// One byte, 0 or 1. Reading anything else is an error of kind Malformed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BooleanCodec;

/// The stage `boolean`.
pub fn boolean() -> Stage<BooleanCodec> {
    Stage::new("boolean", BooleanCodec)
}

impl Component for BooleanCodec {
    fn describe(&self) -> Tree {
        Tree::leaf("boolean")
    }
}

impl Deserializer for BooleanCodec {
    type Output = Option<bool>;

    #[inline]
    fn deserialize<'a>(&'a self, input: Input<'a>) -> Answer<'a, Option<bool>> {
        Answer::Ready(match exactly("boolean", &input.payload) {
            Ok(None) => Ok(None),
            Ok(Some([0])) => Ok(Some(false)),
            Ok(Some([1])) => Ok(Some(true)),
            Ok(Some(_)) => Err(Error::malformed("boolean: the byte is neither 0 nor 1")),
            Err(error) => Err(error),
        })
    }
}

impl Serializer for BooleanCodec {
    type Input = bool;

    #[inline]
    fn serialize<'a>(&'a self, value: Option<&'a bool>, _: &'a Target<'a>) -> Answer<'a, Encoded> {
        encoded(value.map(|value| [u8::from(*value)]))
    }
}

/// A UUID as text: 36 lower-case characters in a charset, UTF-8 unless another is named.
///
/// Reading takes what `UUID.fromString` of JDK 17 takes (in ASCII digits): five groups of hex
/// digits of either case, at most 36 characters in all. A group that is short is extended with
/// zeros, and of one that is long the low digits count: `1-2-3-4-5` is a UUID. Anything else is an
/// error of kind Malformed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UuidCodec {
    charset: Charset,
}

/// The stage `uuid`, in UTF-8.
pub fn uuid() -> Stage<UuidCodec> {
    UuidCodec::default().stage()
}

impl UuidCodec {
    /// A UUID whose text is in the charset of this name; see
    /// [`StringCodec::with_encoding`](super::StringCodec::with_encoding).
    ///
    /// # Errors
    /// Of kind Config, for a charset not known here. Java would report it at the first record.
    pub fn with_encoding(name: &str) -> Result<Self> {
        let charset = Charset::named(name)?;
        Ok(UuidCodec { charset })
    }

    /// Java's canonical name of the charset.
    pub fn encoding(&self) -> &'static str {
        self.charset.name()
    }

    /// This codec as the stage `uuid`.
    pub fn stage(self) -> Stage<Self> {
        Stage::new("uuid", self)
    }

    /// The bytes of every UUID in this charset, if they are as many as Kafka's list format takes
    /// for granted. In UTF-16 they are not, and Java writes lists then that it cannot read.
    pub(super) fn size(&self) -> Option<usize> {
        (self.charset.encode(&Uuid::nil().to_string()).len() == UUID_LENGTH).then_some(UUID_LENGTH)
    }
}

impl Component for UuidCodec {
    fn describe(&self) -> Tree {
        Tree::leaf("uuid")
    }
}

impl Deserializer for UuidCodec {
    type Output = Option<Uuid>;

    fn deserialize<'a>(&'a self, input: Input<'a>) -> Answer<'a, Option<Uuid>> {
        let Some(bytes) = input.payload.as_bytes() else {
            return Answer::ok(None);
        };
        // No charset here takes more than 4 bytes a character and 2 for a mark.
        let text = match bytes.len() {
            0..=146 => self.charset.decode(bytes),
            _ => "".into(),
        };
        match parse_uuid(&text) {
            Some(uuid) => Answer::ok(Some(uuid)),
            None => Answer::err(Error::malformed(format!(
                "uuid: {} bytes that are not a UUID in text",
                bytes.len()
            ))),
        }
    }
}

fn parse_uuid(text: &str) -> Option<Uuid> {
    if text.len() > UUID_LENGTH {
        return None;
    }
    let mut groups = text
        .split('-')
        .map(|group| i64::from_str_radix(group, 16).ok());
    let mut group = |bits: u32| {
        let value = groups.next()??.cast_unsigned();
        Some(value & (u64::MAX >> (u64::BITS - bits)))
    };
    let high = group(32)? << 32 | group(16)? << 16 | group(16)?;
    let low = group(16)? << 48 | group(48)?;
    groups
        .next()
        .is_none()
        .then(|| Uuid::from_u64_pair(high, low))
}

impl Serializer for UuidCodec {
    type Input = Uuid;

    fn serialize<'a>(&'a self, value: Option<&'a Uuid>, _: &'a Target<'a>) -> Answer<'a, Encoded> {
        let text = value.map(|uuid| self.charset.encode(&uuid.to_string()));
        Answer::ok(Encoded::of(text))
    }
}

/// Null and nothing else. Reading bytes, were it none at all, is an error of kind Malformed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VoidCodec;

/// The stage `void`.
pub fn void() -> Stage<VoidCodec> {
    Stage::new("void", VoidCodec)
}

impl Component for VoidCodec {
    fn describe(&self) -> Tree {
        Tree::leaf("void")
    }
}

impl Deserializer for VoidCodec {
    type Output = Option<Infallible>;

    fn deserialize<'a>(&'a self, input: Input<'a>) -> Answer<'a, Option<Infallible>> {
        match input.payload.as_bytes() {
            None => Answer::ok(None),
            Some(bytes) => Answer::err(Error::malformed(format!(
                "void: expected null, found {} bytes",
                bytes.len()
            ))),
        }
    }
}

impl Serializer for VoidCodec {
    type Input = Infallible;

    fn serialize<'a>(
        &'a self,
        _: Option<&'a Infallible>,
        _: &'a Target<'a>,
    ) -> Answer<'a, Encoded> {
        Answer::ok(Encoded::of(None))
    }
}

/// The types as properties name them.
pub(crate) fn specs() -> [TypeSpec; 8] {
    macro_rules! plain {
        ($name:literal, $java:literal, $codec:expr, $doc:literal) => {
            named($name, $java, $doc)
                .reads(|node| Some(node.built($codec)))
                .writes(|node| Some(node.built_writer($codec)))
        };
    }
    [
        plain!(
            "short",
            "Short",
            ShortCodec,
            "A 16-bit integer, big-endian."
        ),
        plain!(
            "integer",
            "Integer",
            IntegerCodec,
            "A 32-bit integer, big-endian."
        ),
        plain!("long", "Long", LongCodec, "A 64-bit integer, big-endian."),
        plain!(
            "float",
            "Float",
            FloatCodec,
            "A 32-bit IEEE 754 number, big-endian."
        ),
        plain!(
            "double",
            "Double",
            DoubleCodec,
            "A 64-bit IEEE 754 number, big-endian."
        ),
        plain!("boolean", "Boolean", BooleanCodec, "One byte, 0 or 1."),
        plain!("void", "Void", VoidCodec, "Null and nothing else."),
        named("uuid", "UUID", "A UUID as text.")
            .keys(&[ENCODING])
            .reads(|node| {
                let codec = encoded_as(node, UuidCodec::with_encoding)?;
                Some(node.built(codec))
            })
            .writes(|node| {
                let codec = encoded_as(node, UuidCodec::with_encoding)?;
                Some(node.built_writer(codec))
            }),
    ]
}

fn named(name: &str, java: &str, doc: &'static str) -> TypeSpec {
    let package = "org.apache.kafka.common.serialization";
    TypeSpec::new(name)
        .doc(doc)
        .class_stem(&format!("{package}.{java}"))
        .class(format!("{package}.Serdes.{java}Serde"), None)
}
