//! What every fuzz target does with an input, and what must hold then. `fuzz/` feeds these with
//! coverage-guided inputs, `tests/fuzz_smoke.rs` with mutations of the corpus.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "only tests use it"
)]

mod aes_gcm;
mod chain;
mod cloudevents;
mod codecs;
mod dead_letter;
mod list;
mod properties;

use bytes::Bytes;
use kafka_chain::codecs::cloudevents::EventError;
use kafka_chain::{
    Context, Deserializer, Error, Give, Headers, Input, Part, Payload, Record, Result, Serializer,
    Target,
};
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// One fuzz target: what it calls, and what it may allocate.
pub(crate) struct FuzzTarget {
    pub(crate) name: &'static str,
    /// At the peak, an input of `n` bytes takes at most `per_byte * n + FIXED` bytes.
    per_byte: usize,
    /// The longest input worth trying.
    #[allow(dead_code, reason = "libFuzzer has an option of its own")]
    pub(crate) max_len: usize,
    /// A case of it takes as long as this many of a quick one.
    #[allow(dead_code, reason = "libFuzzer counts time")]
    pub(crate) cost: u64,
    body: fn(&[u8]),
}

/// What an input of no bytes may take: tables that are built once, and texts of errors.
const FIXED: usize = 128 * 1024;

macro_rules! targets {
    ($($name:literal: $body:path, $per_byte:literal, $max_len:literal, $cost:literal;)*) => {
        pub(crate) const TARGETS: &[FuzzTarget] = &[$(
            FuzzTarget {
                name: $name,
                per_byte: $per_byte,
                max_len: $max_len,
                cost: $cost,
                body: $body,
            },
        )*];
    };
}

// The name, what it calls, the bytes that each byte of an input may take, the longest input, and
// the cost. docs/fuzzing.md tells what was measured.
targets! {
    "properties": properties::properties, 1024, 4096, 4;
    "configuration": chain::configuration, 1024, 1024, 50;
    "chain_expression": chain::chain_expression, 512, 65536, 1;
    "matcher": chain::matcher, 512, 4096, 1;
    "primitives": codecs::primitives, 32, 4096, 4;
    "string": codecs::string, 32, 4096, 4;
    "json": codecs::json, 512, 4096, 2;
    "list": list::lists, 128, 65536, 4;
    "cloudevents_binary": cloudevents::binary, 128, 4096, 1;
    "cloudevents_structured": cloudevents::structured, 512, 4096, 2;
    "dead_letter_headers": dead_letter::headers, 512, 4096, 50;
    "aes_gcm": aes_gcm::envelope, 32, 4096, 5;
    "key_file": aes_gcm::key_file, 128, 4096, 1;
}

pub(crate) fn target(name: &str) -> &'static FuzzTarget {
    let found = TARGETS.iter().find(|target| target.name == name);
    found.unwrap_or_else(|| panic!("there is no fuzz target `{name}`"))
}

impl FuzzTarget {
    /// Runs the target on an input and returns how many bytes it took at the peak.
    ///
    /// No other thread may allocate much meanwhile.
    pub(crate) fn run(&self, input: &[u8]) -> usize {
        let before = ALLOCATOR.current_usage();
        ALLOCATOR.reset_peak_usage();
        (self.body)(input);
        let peak = ALLOCATOR.peak_usage().saturating_sub(before);
        let allowed = self.per_byte * input.len() + FIXED;
        assert!(
            peak <= allowed,
            "{}: {peak} bytes at the peak for an input of {}, more than {allowed}",
            self.name,
            input.len()
        );
        peak
    }
}

/// What a secret looks like. No error, `Debug` or explanation shows it unless the input has it
/// where it is no secret.
const MARKER: &str = "hunter2-marker";

/// How many bytes of a payload in a row an error may not repeat.
const QUOTED: usize = 12;

/// No text of `error` repeats the payload. Runs of bytes that the crate's own words could have are
/// not looked at, so that an input which is such words proves nothing.
fn quotes_nothing(error: &Error, payload: &[u8]) {
    let mut text = format!("{error:?} {}", error.message());
    // The name of an attribute, short and plain, is shown on purpose.
    let source = std::error::Error::source(error);
    let event = source.and_then(|source| source.downcast_ref::<EventError>());
    if let Some(name) = event.and_then(EventError::attribute) {
        text = text.replace(name, "");
    }
    let foreign = |b: &u8| !b.is_ascii() || b.is_ascii_control() || b"~^|@%{}\\".contains(b);
    for run in text.as_bytes().windows(QUOTED) {
        if run.iter().any(foreign) && payload.windows(QUOTED).any(|part| part == run) {
            panic!("an error repeats the payload: {text}");
        }
    }
    if text.contains(MARKER) {
        panic!("an error repeats the payload's marker: {text}");
    }
}

/// Lines `name: value` are headers, of which one without colon is null; what follows a blank line
/// is the value, and without a blank line that is null.
fn headers_and_value(input: &[u8]) -> (Headers, Option<&[u8]>) {
    let mut headers = Headers::new();
    let mut rest = input;
    let value = loop {
        let end = rest.iter().position(|b| *b == b'\n');
        let (line, after) = match end {
            Some(end) => (&rest[..end], Some(&rest[end + 1..])),
            None => (rest, None),
        };
        if line.is_empty() {
            break after;
        }
        match line.iter().position(|b| *b == b':') {
            Some(colon) => {
                let value = line[colon + 1..]
                    .strip_prefix(b" ")
                    .unwrap_or(&line[colon + 1..]);
                headers.push(
                    Bytes::copy_from_slice(&line[..colon]),
                    Some(Bytes::copy_from_slice(value)),
                );
            }
            None => headers.push(Bytes::copy_from_slice(line), None::<Bytes>),
        }
        match after {
            Some(after) => rest = after,
            None => break None,
        }
    };
    (headers, value)
}

/// Reads a payload beside no headers; a codec answers at once.
fn read<D: Deserializer>(codec: &D, payload: Payload<'_>) -> Result<D::Output> {
    let record = Record::of_value(None);
    read_in(codec, payload, &record.context(Part::Value))
}

fn read_in<D: Deserializer>(
    codec: &D,
    payload: Payload<'_>,
    context: &Context<'_>,
) -> Result<D::Output> {
    codec.deserialize(Input { payload, context }).now().unwrap()
}

/// Reads bytes that are borrowed and bytes that are shared, which must give the same, and checks
/// what an error says; a null is read as no value.
fn read_both<D, T>(codec: &D, bytes: &[u8]) -> Option<T>
where
    D: Deserializer<Output = Option<T>>,
    T: PartialEq + std::fmt::Debug,
{
    assert!(
        read(codec, Payload::Null).unwrap().is_none(),
        "a null is no value"
    );
    let shared = read(codec, Payload::Shared(Bytes::copy_from_slice(bytes)));
    match (read(codec, Payload::Borrowed(bytes)), shared) {
        (Ok(value), Ok(same)) => {
            // Of floats a NaN is not equal to itself; the bits are compared by the callers.
            assert_eq!(format!("{value:?}"), format!("{same:?}"));
            assert!(value.is_some(), "bytes, were they none at all, are no null");
            value
        }
        (Err(error), Err(same)) => {
            assert_eq!(error.to_string(), same.to_string());
            quotes_nothing(&error, bytes);
            None
        }
        (one, other) => panic!("borrowed: {}, shared: {}", one.is_ok(), other.is_ok()),
    }
}

fn write<S, T>(codec: &S, value: Option<&T>) -> Option<Bytes>
where
    S: Serializer<Input = T>,
    T: Sync + 'static + for<'a> Give<Given<'a> = Option<&'a T>>,
{
    let target = Target::new("orders", Part::Value);
    codec
        .serialize(value, &target)
        .now()
        .unwrap()
        .unwrap()
        .payload
}

/// Reads bytes; what was read is written, is no null, and reads as the same again.
fn round_trip<C, T>(codec: &C, bytes: &[u8]) -> Option<(T, Bytes)>
where
    C: Deserializer<Output = Option<T>> + Serializer<Input = T>,
    T: PartialEq + std::fmt::Debug + Sync + 'static + for<'a> Give<Given<'a> = Option<&'a T>>,
{
    assert_eq!(write(codec, None), None, "no value is a null");
    let value = read_both(codec, bytes)?;
    let written = write(codec, Some(&value)).expect("a value is no null");
    let again = read(codec, Payload::Borrowed(&written)).unwrap().unwrap();
    assert_eq!(format!("{value:?}"), format!("{again:?}"));
    Some((value, written))
}
