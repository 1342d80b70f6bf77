//! Runs one case of `serdes.json` through the public API.

#[path = "vectors_shown.rs"]
mod shown;

use bytes::Bytes;
use kafka_chain::codecs::{self, EntrySize, ListEntry, StringCodec, UuidCodec};
use kafka_chain::{
    Answer, Context, Deserializer, Encoded, Error, ErrorKind, Give, Input, Part, Payload, Record,
    Serializer, Target, deserialize_with,
};
use serde_json::{Value as Json, json};
use shown::{Shown, hex, text, unhex};

/// Runs `case`; the error says what was expected and what came.
///
/// An expected error accepts any error. Where the case lists alternatives, one of them will do.
pub(crate) fn run(case: &Json) -> Result<(), String> {
    let input = &case["input"];
    let got = match text(&input["op"])? {
        "serialize" => serialize(input),
        "deserialize" => deserialize(input),
        "serialize_bytebuffer" => serialize_buffer(input),
        "configure" => list_serde(input).map(|_| json!({})),
        "consumer_poll" => consumer_poll(input),
        op => return Err(format!("unknown operation {op}")),
    };
    let got = match got {
        Ok(got) => got,
        Err(Stop::Case(message)) => return Err(message),
        Err(Stop::Refused(message)) => json!({ "error": message }),
    };
    let alternatives = case["alternatives"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    if std::iter::once(&case["expect"])
        .chain(alternatives)
        .any(|wanted| agrees(wanted, &got))
    {
        return Ok(());
    }
    Err(format!("expected {}, got {got}", case["expect"]))
}

/// Why a case gives no value: the library refused, or the case itself makes no sense here.
enum Stop {
    Refused(String),
    Case(String),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        match error.kind() {
            ErrorKind::Malformed | ErrorKind::Config => Stop::Refused(error.to_string()),
            _ => Stop::Case(format!("an error of an unexpected kind: {error}")),
        }
    }
}

impl From<String> for Stop {
    fn from(message: String) -> Self {
        Stop::Case(message)
    }
}

fn agrees(wanted: &Json, got: &Json) -> bool {
    if wanted.get("error").is_some() || got.get("error").is_some() {
        return wanted.get("error").is_some() == got.get("error").is_some();
    }
    let mut same = true;
    for member in ["value", "bytes_hex", "deserializer_called"] {
        same &= wanted.get(member).map(plain) == got.get(member).map(plain);
    }
    same
}

/// A value without the text that goes with the bits of a float.
fn plain(value: &Json) -> Json {
    match value {
        Json::Object(members) => {
            let mut members = members.clone();
            members.remove("text");
            Json::Object(members)
        }
        other => other.clone(),
    }
}

fn now<T>(answer: Answer<'_, T>) -> Result<T, Stop> {
    match answer.now() {
        Ok(result) => Ok(result?),
        Err(_) => Err(Stop::Case("a codec did not answer at once".into())),
    }
}

/// Calls `$run!` with the codec of this type name.
macro_rules! with_codec {
    ($name:expr, $input:expr, $run:ident) => {
        match $name {
            "short" => $run!(codecs::short()),
            "integer" => $run!(codecs::integer()),
            "long" => $run!(codecs::long()),
            "float" => $run!(codecs::float()),
            "double" => $run!(codecs::double()),
            "boolean" => $run!(codecs::boolean()),
            "void" => $run!(codecs::void()),
            "uuid" => $run!(match encoding($input) {
                Some(encoding) => UuidCodec::with_encoding(encoding)?.stage(),
                None => codecs::uuid(),
            }),
            "string" => $run!(match encoding($input) {
                Some(encoding) => StringCodec::with_encoding(encoding)?.stage(),
                None => codecs::string(),
            }),
            "bytes" | "bytearray" | "bytebuffer" => $run!(codecs::bytes()),
            name => Err(Stop::Case(format!("unknown type {name}"))),
        }
    };
}

/// What Kafka's codecs read from their configuration: the key of their own half of a record first,
/// then the one for both halves. What is not a string does not count.
fn encoding(input: &Json) -> Option<&str> {
    let direction = if input["op"].as_str() == Some("serialize") {
        "serializer"
    } else {
        "deserializer"
    };
    let own = format!("{}.{direction}.encoding", part(input));
    let both = format!("{direction}.encoding");
    [own, both]
        .iter()
        .find_map(|key| input["config"].get(key)?.as_str())
}

fn part(input: &Json) -> Part {
    if input["is_key"].as_bool() == Some(true) {
        Part::Key
    } else {
        Part::Value
    }
}

fn deserialize(input: &Json) -> Result<Json, Stop> {
    fn one<D: Deserializer>(codec: &D, input: &Json) -> Result<Json, Stop>
    where
        D::Output: Shown,
    {
        let bytes = unhex(&input["bytes_hex"])?;
        let borrowed = read(codec, bytes.as_deref().into(), part(input));
        // A payload that a stage made must read the same.
        let shared = read(codec, bytes.map(Bytes::from).into(), part(input));
        match (&borrowed, &shared) {
            (Ok(a), Ok(b)) if a == b => borrowed,
            (Err(_), Err(_)) => borrowed,
            _ => Err(Stop::Case(
                "borrowed and shared bytes read differently".into(),
            )),
        }
    }
    macro_rules! plain {
        ($codec:expr) => {
            one(&$codec, input)
        };
    }
    macro_rules! listed {
        ($codec:expr) => {
            one(&codecs::list($codec), input)
        };
    }
    match text(&input["type"])?.split_once(':') {
        Some(("list", entries)) => with_codec!(entries, input, listed),
        _ => with_codec!(text(&input["type"])?, input, plain),
    }
}

fn read<D: Deserializer>(codec: &D, payload: Payload<'_>, part: Part) -> Result<Json, Stop>
where
    D::Output: Shown,
{
    let record = Record::of_value(None);
    let context: Context<'_> = record.context(part);
    let value = now(codec.deserialize(Input {
        payload,
        context: &context,
    }))?;
    Ok(json!({ "value": value.show() }))
}

/// An entry serialized alone: the same conversion that a list uses.
fn write_one<S: Serializer>(codec: &S, input: &Json) -> Result<Json, Stop>
where
    S::Input: ListEntry,
    <S::Input as ListEntry>::Owned: Shown,
{
    let value = <S::Input as ListEntry>::Owned::read(&input["value"])?;
    let target = Target::new("orders", part(input));
    written(codec.serialize(S::Input::give(&value), &target))
}

fn write_list<S: Serializer + EntrySize>(codec: S, input: &Json) -> Result<Json, Stop>
where
    S::Input: ListEntry + 'static,
    <S::Input as ListEntry>::Owned: Shown,
{
    let value = Option::<Vec<<S::Input as ListEntry>::Owned>>::read(&input["value"])?;
    let target = Target::new("orders", part(input));
    let list = codecs::list(codec);
    written(list.serialize(value.as_ref(), &target))
}

fn written(answer: Answer<'_, Encoded>) -> Result<Json, Stop> {
    let payload = now(answer)?.payload;
    Ok(json!({ "bytes_hex": payload.map(|bytes| hex(&bytes)) }))
}

fn serialize(input: &Json) -> Result<Json, Stop> {
    macro_rules! plain {
        ($codec:expr) => {
            write_one(&$codec, input)
        };
    }
    macro_rules! listed {
        ($codec:expr) => {
            write_list($codec, input)
        };
    }
    match text(&input["type"])?.split_once(':') {
        Some(("list", entries)) => with_codec!(entries, input, listed),
        _ => with_codec!(text(&input["type"])?, input, plain),
    }
}

/// Java's buffer has a position, which its serializer ignores; here the bytes up to the limit are
/// what one hands over.
fn serialize_buffer(input: &Json) -> Result<Json, Stop> {
    let size = |name: &str| {
        input[name]
            .as_u64()
            .and_then(|size| usize::try_from(size).ok())
    };
    let mut buffer = unhex(&input["put_hex"])?.unwrap_or_default();
    buffer.resize(size("capacity").unwrap_or_default(), 0);
    buffer.truncate(size("limit").unwrap_or_default());
    let given: <[u8] as Give>::Given<'_> = Payload::from(buffer.as_slice());
    let target = Target::new("orders", Part::Value);
    written(codecs::bytes().serialize(given, &target))
}

/// The entry type that a list's configuration names.
fn list_serde(input: &Json) -> Result<String, Stop> {
    let key = |name: &str| format!("default.list.{}.serde.{name}", part(input));
    let get = |name: &str| {
        let key = key(name);
        let missing = || Stop::Refused(format!("{key} is missing"));
        input["config"]
            .get(&key)
            .and_then(Json::as_str)
            .ok_or_else(missing)
    };
    let list = get("type")?;
    if !matches!(
        list,
        "java.util.ArrayList" | "java.util.LinkedList" | "java.util.List"
    ) {
        return Err(Stop::Refused(format!("{} names no list", key("type"))));
    }
    let inner = get("inner")?;
    let simple = inner.rsplit(['.', '$']).next().unwrap_or(inner);
    match simple.strip_suffix("Serde") {
        Some(entries) if !entries.is_empty() => Ok(entries.to_lowercase()),
        _ => Err(Stop::Refused(format!("{} names no serde", key("inner")))),
    }
}

/// Java's consumer yields null without a call. Here a chain is called for null as for anything: it
/// can read an event from the headers of a record without value, and it can fail.
fn consumer_poll(input: &Json) -> Result<Json, Stop> {
    let bytes = unhex(&input["value_hex"])?;
    let payload = || Payload::from(bytes.as_deref());
    let record = Record::of_value(bytes.as_deref());
    let context = record.context(Part::Value);
    let called = match text(&input["type"])? {
        "always_fails" => {
            let chain = deserialize_with(|_| Err::<(), _>(Error::malformed("always")));
            now(chain.deserialize(Input {
                payload: payload(),
                context: &context,
            }))?;
            Json::Null
        }
        _ => {
            let chain = deserialize_with(|input| {
                Ok(input.payload.is_null().then_some("decoded from headers"))
            });
            json!(now(chain.deserialize(Input {
                payload: payload(),
                context: &context
            }))?)
        }
    };
    Ok(json!({ "value": called, "deserializer_called": true }))
}
