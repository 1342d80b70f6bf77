//! Kafka's primitive types, text in every charset, and JSON.

use super::{read, read_both, round_trip, write};
use kafka_chain::codecs::json::Json;
use kafka_chain::codecs::{
    BooleanCodec, BytesCodec, DoubleCodec, FloatCodec, IntegerCodec, LongCodec, ShortCodec,
    StringCodec, UuidCodec, VoidCodec,
};
use kafka_chain::{Part, Payload, Serializer, Target};
use std::collections::BTreeMap;

pub(super) fn primitives(input: &[u8]) {
    /// A number takes its size in bytes, and is written as it was read.
    macro_rules! numbers {
        ($($codec:ident: $size:literal),*) => {$(
            let read = round_trip(&$codec, input);
            assert_eq!(read.is_some(), input.len() == $size, stringify!($codec));
            if let Some((_, written)) = read {
                assert_eq!(written, input, stringify!($codec));
            }
        )*};
    }
    numbers!(ShortCodec: 2, IntegerCodec: 4, LongCodec: 8, FloatCodec: 4);
    if let Some((value, written)) = round_trip(&DoubleCodec, input) {
        // Java writes every NaN the same.
        assert!(written == input || value.is_nan());
    }
    let boolean = round_trip(&BooleanCodec, input);
    assert_eq!(boolean.is_some(), matches!(input, [0 | 1]));
    assert_eq!(read_both(&VoidCodec, input), None);

    let read = read_both(&BytesCodec, input).unwrap();
    assert_eq!(read, input);
    let target = Target::new("orders", Part::Value);
    let written = BytesCodec
        .serialize(Payload::Borrowed(input), &target)
        .now()
        .unwrap();
    assert_eq!(written.unwrap().payload.unwrap(), input);
}

const ENCODINGS: [&str; 33] = [
    "UTF-8",
    "US-ASCII",
    "ISO-8859-1",
    "UTF-16",
    "UTF-16BE",
    "UTF-16LE",
    "ISO-8859-2",
    "ISO-8859-3",
    "ISO-8859-4",
    "ISO-8859-5",
    "ISO-8859-6",
    "ISO-8859-7",
    "ISO-8859-8",
    "ISO-8859-9",
    "ISO-8859-13",
    "ISO-8859-15",
    "ISO-8859-16",
    "windows-1250",
    "windows-1251",
    "windows-1252",
    "windows-1253",
    "windows-1254",
    "windows-1255",
    "windows-1256",
    "windows-1257",
    "windows-1258",
    "KOI8-R",
    "KOI8-U",
    "IBM866",
    "x-MacRoman",
    "latin1",
    "utf8",
    "ascii",
];

/// The first byte says which charset.
pub(super) fn string(input: &[u8]) {
    let Some((&which, bytes)) = input.split_first() else {
        return;
    };
    let name = ENCODINGS[usize::from(which) % ENCODINGS.len()];
    let codec = StringCodec::with_encoding(name).unwrap();
    let text = read_both(&codec, bytes).expect("text is never an error");
    assert!(text.chars().count() <= bytes.len());
    if let ("UTF-8", Ok(valid)) = (codec.encoding(), std::str::from_utf8(bytes)) {
        assert_eq!(text, valid);
    }
    let written = write(&codec, Some(&text)).unwrap();
    let again = read(&codec, Payload::Borrowed(&written)).unwrap().unwrap();
    if !text.contains(char::REPLACEMENT_CHARACTER) {
        assert_eq!(again, text, "{name}");
    }
    assert_eq!(again.chars().count(), text.chars().count(), "{name}");

    let codec = UuidCodec::with_encoding(name).unwrap();
    round_trip(&codec, bytes);
}

/// A type with one of each: borrowed names, numbers, options, maps.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
struct Order {
    id: u64,
    name: String,
    price: Option<f64>,
    #[serde(default)]
    lines: Vec<i16>,
    #[serde(default)]
    tags: BTreeMap<String, Kind>,
}

#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
enum Kind {
    New,
    Used { years: u8 },
}

pub(super) fn json(input: &[u8]) {
    let whole = round_trip(&Json::<serde_json::Value>::new(), input);
    let typed = round_trip(&Json::<Order>::new(), input);
    // Half a surrogate pair is JSON (RFC 8259 section 8.2), but no text of Rust's: a type that does
    // not look at it may read such a document.
    let surrogate = |part: &[u8]| part.eq_ignore_ascii_case(b"\\ud");
    assert!(
        typed.is_none() || whole.is_some() || input.windows(3).any(surrogate),
        "what fits a type is a document"
    );
    if let Some((value, written)) = whole {
        assert!(!written.is_empty());
        assert!(written.len() <= 8 * input.len() + 32, "{value:?}");
    }
    let text = round_trip(&Json::<String>::new(), input);
    assert!(text.is_none() || input.trim_ascii().starts_with(b"\""));
}
