//! JSON (RFC 8259) to and from any type of serde.

use crate::answer::Answer;
use crate::component::Component;
use crate::config::TypeSpec;
use crate::deserializer::{Deserializer, Input};
use crate::error::Error;
use crate::serializer::{Encoded, Serializer, Target};
use crate::stage::Stage;
use crate::tree::Tree;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::error::Category;
use std::fmt;
use std::marker::PhantomData;

/// Reads and writes a `T` as one JSON document; see [`json`].
///
/// `Json<serde_json::Value>` reads whatever the document holds.
///
/// A null payload is `None` and `None` is a null payload, in both directions. The document `null`
/// is something else: it is read as a `T`, which an `Option` takes as `Some(None)`. Empty bytes are
/// no document and an error, as are bytes after the document. Nesting is limited to 128 levels.
/// Of a key that repeats in an untyped document the last value counts.
///
/// # Errors
/// All are permanent, and none quotes the document or the text of a custom serde error.
/// - [`Malformed`](crate::ErrorKind::Malformed): the bytes are not a JSON document, or end early.
/// - [`Schema`](crate::ErrorKind::Schema): the document does not fit the type, or, when writing,
///   the value has no form in JSON (a map whose keys are not strings).
///
/// Where in the document is given as a line and a column in bytes, from 1.
pub struct Json<T>(PhantomData<fn() -> T>);

/// A stage named `json` that reads and writes a `T` as one JSON document.
///
/// ```
/// use kafka_chain::{codecs::json::json, deserialize, Part, Record};
///
/// #[derive(serde::Deserialize)]
/// struct Order {
///     id: u32,
/// }
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// let record = Record::of_value(Some(br#"{"id":7}"#));
/// let order: Option<Order> = deserialize(&json::<Order>(), &record, Part::Value).await?;
/// assert_eq!(order.map(|order| order.id), Some(7));
/// # Ok::<(), kafka_chain::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn json<T>() -> Stage<Json<T>> {
    Stage::new("json", Json::new())
}

impl<T> Json<T> {
    /// The codec itself, neither named nor contained as [`json`] is.
    pub const fn new() -> Self {
        Json(PhantomData)
    }
}

impl<T> Default for Json<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Clone for Json<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Json<T> {}

impl<T> fmt::Debug for Json<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Json")
    }
}

impl<T> Component for Json<T> {
    fn describe(&self) -> Tree {
        Tree::leaf("json")
    }
}

impl<T: DeserializeOwned + Send + 'static> Deserializer for Json<T> {
    type Output = Option<T>;

    #[inline]
    fn deserialize<'a>(&'a self, input: Input<'a>) -> Answer<'a, Option<T>> {
        let Some(bytes) = input.payload.as_bytes() else {
            return Answer::ok(None);
        };
        // serde_json does not look at the text of what a type leaves out.
        let text = match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => return Answer::err(not_utf8(bytes, error.valid_up_to())),
        };
        Answer::Ready(match serde_json::from_str(text) {
            Ok(value) => Ok(Some(value)),
            Err(error) => Err(refused(&error)),
        })
    }
}

impl<T: Serialize + Sync + 'static> Serializer for Json<T> {
    type Input = T;

    #[inline]
    fn serialize<'a>(&'a self, value: Option<&'a T>, _: &'a Target<'a>) -> Answer<'a, Encoded> {
        Answer::Ready(match value {
            None => Ok(Encoded::default()),
            Some(value) => serde_json::to_vec(value)
                .map(Encoded::from)
                .map_err(|_| Error::schema("the value has no form in JSON")),
        })
    }
}

/// The category and the place are all that is kept of `error`: its text quotes the document.
#[cold]
fn refused(error: &serde_json::Error) -> Error {
    let at = format!("at line {} column {}", error.line(), error.column());
    match error.classify() {
        Category::Data => Error::schema(format!("the document does not fit the type {at}")),
        Category::Eof => Error::malformed(format!("the JSON document ends early {at}")),
        Category::Syntax | Category::Io => Error::malformed(format!("not a JSON document {at}")),
    }
}

/// JSON is UTF-8 (RFC 8259 section 8.1), and the first `valid` bytes are.
#[cold]
fn not_utf8(bytes: &[u8], valid: usize) -> Error {
    let before = bytes.get(..valid).unwrap_or(bytes);
    let lines = before.split(|byte| *byte == b'\n');
    let (line, column) = lines.fold((0, 0), |(line, _), text| (line + 1, text.len() + 1));
    Error::malformed(format!("not UTF-8 at line {line} column {column}"))
}

/// The type as properties name it: any document, as [`serde_json::Value`].
pub(crate) fn spec() -> TypeSpec {
    TypeSpec::new("json")
        .doc("A JSON document.")
        .class_stem("org.apache.kafka.connect.json.Json")
        .class_stem("io.confluent.kafka.serializers.KafkaJson")
        .reads(|node| Some(node.built(Json::<serde_json::Value>::new())))
        .writes(|node| Some(node.built_writer(Json::<serde_json::Value>::new())))
}
