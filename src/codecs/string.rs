//! Text: Kafka's `String`.

use super::charset::Charset;
use crate::answer::Answer;
use crate::component::Component;
use crate::config::{KeySpec, Node, TypeSpec};
use crate::deserializer::{Deserializer, Input};
use crate::error::Result;
use crate::serializer::{Encoded, Serializer, Target};
use crate::stage::Stage;
use crate::tree::Tree;

/// Reads and writes text in a charset, UTF-8 unless another is named.
///
/// As in Java nothing is an error: what is malformed is read as U+FFFD, as many as Java counts, and
/// a character that the charset lacks is written as `?`. A byte order mark in UTF-8 is kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StringCodec {
    charset: Charset,
}

/// The stage `string`, in UTF-8.
pub fn string() -> Stage<StringCodec> {
    StringCodec::default().stage()
}

impl StringCodec {
    /// Text in the charset of this name.
    ///
    /// Names and aliases are Java's, in any case: `UTF-8`, `US-ASCII`, `ISO-8859-1` (`latin1`),
    /// `UTF-16`, `UTF-16BE`, `UTF-16LE`, `ISO-8859-2` to `-9`, `-13`, `-15`, `-16`, `windows-1250`
    /// to `-1258`, `KOI8-R`, `KOI8-U`, `IBM866`, `x-MacRoman`. They are Java's charsets too, not
    /// those a browser reads under these names.
    ///
    /// # Errors
    /// Of kind Config, for any other name. East Asian charsets are among them: tables that agree
    /// with Java's are not at hand, and almost right is wrong.
    pub fn with_encoding(name: &str) -> Result<Self> {
        let charset = Charset::named(name)?;
        Ok(StringCodec { charset })
    }

    /// Java's canonical name of the charset.
    pub fn encoding(&self) -> &'static str {
        self.charset.name()
    }

    /// This codec as the stage `string`.
    pub fn stage(self) -> Stage<Self> {
        Stage::new("string", self)
    }
}

impl Component for StringCodec {
    fn describe(&self) -> Tree {
        Tree::leaf("string")
    }
}

impl Deserializer for StringCodec {
    type Output = Option<String>;

    #[inline]
    fn deserialize<'a>(&'a self, input: Input<'a>) -> Answer<'a, Option<String>> {
        let bytes = input.payload.as_bytes();
        Answer::ok(bytes.map(|bytes| self.charset.decode(bytes).into_owned()))
    }
}

impl Serializer for StringCodec {
    type Input = String;

    #[inline]
    fn serialize<'a>(&'a self, text: Option<&'a String>, _: &'a Target<'a>) -> Answer<'a, Encoded> {
        Answer::ok(Encoded::of(text.map(|text| self.charset.encode(text))))
    }
}

/// Kafka's keys for the charset, which `string` and `uuid` read.
pub(super) const ENCODING: KeySpec =
    KeySpec::new("encoding", "charset", "The charset, by Java's name for it.")
        .or("UTF-8")
        .kafka(&["{role}.{direction}.encoding", "{direction}.encoding"]);

/// The codec that `encoding` asks for.
pub(super) fn encoded<C>(node: &mut Node<'_, '_>, codec: fn(&str) -> Result<C>) -> Option<C> {
    let name = node.text("encoding").unwrap_or_default();
    match codec(&name) {
        Ok(codec) => Some(codec),
        Err(error) => {
            node.problem("encoding", error.message().to_owned());
            None
        }
    }
}

/// The type as properties name it.
pub(crate) fn spec() -> TypeSpec {
    TypeSpec::new("string")
        .doc("Text in a charset.")
        .class_stem("org.apache.kafka.common.serialization.String")
        .class(
            "org.apache.kafka.common.serialization.Serdes.StringSerde",
            None,
        )
        .keys(&[ENCODING])
        .reads(|node| {
            let codec = encoded(node, StringCodec::with_encoding)?;
            Some(node.built(codec))
        })
        .writes(|node| {
            let codec = encoded(node, StringCodec::with_encoding)?;
            Some(node.built_writer(codec))
        })
}
