//! Java's charsets, under Java's names and with Java's tables.
//!
//! Tables come from `encoding_rs`, whose charsets are those of the web; where Java's differ they
//! are corrected here. Compared with OpenJDK 17; the tests hold a hash of every table.

use crate::error::{Error, Result};
use bytes::Bytes;
use encoding_rs::Encoding;
use std::borrow::Cow;
use std::sync::Arc;

const REPLACEMENT: char = char::REPLACEMENT_CHARACTER;
const UNMAPPABLE: u8 = b'?';

/// The characters of the bytes 0x80 to 0xFF; U+FFFD where there is none.
type Table = [char; 128];

/// A charset of Java.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Charset {
    name: &'static str,
    form: Form,
}

#[derive(Clone, Debug, PartialEq)]
enum Form {
    Utf8,
    /// `None`: told by a byte order mark when read, big-endian without one; written big-endian
    /// behind a mark.
    Utf16(Option<Order>),
    Ascii,
    Latin1,
    Table(Arc<Table>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Order {
    Big,
    Little,
}

impl Default for Charset {
    fn default() -> Self {
        Charset {
            name: "UTF-8",
            form: Form::Utf8,
        }
    }
}

impl Charset {
    /// The charset of this name or alias, in any case.
    pub(super) fn named(name: &str) -> Result<Self> {
        let is = |known: &str| known.eq_ignore_ascii_case(name);
        for (canonical, form, aliases) in UNIVERSAL {
            if is(canonical) || aliases.iter().any(|alias| is(alias)) {
                return Ok(Charset {
                    name: canonical,
                    form: form.clone(),
                });
            }
        }
        for single in &SINGLE {
            if is(single.name) || single.aliases.iter().any(|alias| is(alias)) {
                let form = Form::Table(Arc::new(single.table()));
                return Ok(Charset {
                    name: single.name,
                    form,
                });
            }
        }
        Err(Error::config(format!(
            "encoding: `{name}` is not a charset known here (UTF-8, UTF-16, UTF-16BE, UTF-16LE, \
             US-ASCII, ISO-8859-1 and other single-byte charsets, by their Java names)"
        )))
    }

    /// Java's canonical name.
    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// The text of `bytes`, U+FFFD for what is malformed, as often as Java has it.
    pub(super) fn decode<'a>(&self, bytes: &'a [u8]) -> Cow<'a, str> {
        match &self.form {
            Form::Utf8 => decode_utf8(bytes),
            Form::Utf16(order) => decode_utf16(bytes, *order).into(),
            Form::Ascii => decode_bytes(bytes, |_| REPLACEMENT),
            Form::Latin1 => decode_bytes(bytes, char::from),
            Form::Table(table) => decode_bytes(bytes, |byte| {
                table
                    .get(usize::from(byte & 0x7f))
                    .copied()
                    .unwrap_or(REPLACEMENT)
            }),
        }
    }

    /// The bytes of `text`, `?` for each character that the charset lacks.
    pub(super) fn encode(&self, text: &str) -> Bytes {
        match &self.form {
            Form::Utf8 => Bytes::copy_from_slice(text.as_bytes()),
            Form::Utf16(order) => encode_utf16(text, *order),
            Form::Ascii => encode_chars(text, |_| None),
            Form::Latin1 => encode_chars(text, |c| u8::try_from(c).ok()),
            Form::Table(table) => encode_chars(text, |c| {
                let index = table
                    .iter()
                    .position(|known| *known == c && c != REPLACEMENT)?;
                u8::try_from(0x80 + index).ok()
            }),
        }
    }
}

fn decode_bytes(bytes: &[u8], high: impl Fn(u8) -> char) -> Cow<'_, str> {
    if bytes.is_ascii()
        && let Ok(text) = std::str::from_utf8(bytes)
    {
        return text.into();
    }
    let char_of = |byte: &u8| {
        if byte.is_ascii() {
            char::from(*byte)
        } else {
            high(*byte)
        }
    };
    bytes.iter().map(char_of).collect::<String>().into()
}

fn encode_chars(text: &str, high: impl Fn(char) -> Option<u8>) -> Bytes {
    let byte_of = |c: char| match u8::try_from(c) {
        Ok(byte) if byte.is_ascii() => byte,
        _ => high(c).unwrap_or(UNMAPPABLE),
    };
    text.chars().map(byte_of).collect::<Vec<u8>>().into()
}

/// Like [`String::from_utf8_lossy`], but the three bytes of an encoded surrogate, or the two that
/// are there of one, are one malformed sequence, as in Java.
fn decode_utf8(bytes: &[u8]) -> Cow<'_, str> {
    let mut chunks = match std::str::from_utf8(bytes) {
        Ok(text) => return text.into(),
        Err(_) => bytes.utf8_chunks().peekable(),
    };
    let mut text = String::with_capacity(bytes.len());
    while let Some(chunk) = chunks.next() {
        text.push_str(chunk.valid());
        if chunk.invalid().is_empty() {
            continue;
        }
        text.push(REPLACEMENT);
        if chunk.invalid() == [0xED] {
            let surrogate = |byte: u8| (0xA0..=0xBF).contains(&byte);
            let continuation = |byte: u8| (0x80..=0xBF).contains(&byte);
            let second = chunks.next_if(|next| is_lone(next, surrogate));
            if second.is_some() {
                chunks.next_if(|next| is_lone(next, continuation));
            }
        }
    }
    text.into()
}

fn is_lone(chunk: &std::str::Utf8Chunk<'_>, accept: impl Fn(u8) -> bool) -> bool {
    chunk.valid().is_empty() && matches!(chunk.invalid(), [byte] if accept(*byte))
}

/// As Java has it, a high surrogate and whatever follows it are one malformed sequence.
fn decode_utf16(bytes: &[u8], order: Option<Order>) -> String {
    let (order, mut rest) = match (order, bytes) {
        (Some(order), _) => (order, bytes),
        (None, [0xFE, 0xFF, rest @ ..]) => (Order::Big, rest),
        (None, [0xFF, 0xFE, rest @ ..]) => (Order::Little, rest),
        (None, _) => (Order::Big, bytes),
    };
    let mut text = String::with_capacity(bytes.len() / 2);
    loop {
        let Some((unit, after)) = take_unit(rest, order) else {
            if !rest.is_empty() {
                text.push(REPLACEMENT);
            }
            return text;
        };
        rest = after;
        if (0xD800..=0xDBFF).contains(&unit) {
            let Some((low, after)) = take_unit(rest, order) else {
                text.push(REPLACEMENT);
                return text;
            };
            rest = after;
            let pair = char::decode_utf16([unit, low]).next();
            text.push(pair.and_then(|pair| pair.ok()).unwrap_or(REPLACEMENT));
        } else {
            text.push(char::from_u32(u32::from(unit)).unwrap_or(REPLACEMENT));
        }
    }
}

fn take_unit(bytes: &[u8], order: Order) -> Option<(u16, &[u8])> {
    let (unit, rest) = bytes.split_first_chunk::<2>()?;
    let unit = match order {
        Order::Big => u16::from_be_bytes(*unit),
        Order::Little => u16::from_le_bytes(*unit),
    };
    Some((unit, rest))
}

fn encode_utf16(text: &str, order: Option<Order>) -> Bytes {
    let mut bytes = Vec::with_capacity(2 * text.len());
    if order.is_none() && !text.is_empty() {
        bytes.extend([0xFE, 0xFF]);
    }
    for unit in text.encode_utf16() {
        bytes.extend(match order {
            Some(Order::Little) => unit.to_le_bytes(),
            _ => unit.to_be_bytes(),
        });
    }
    bytes.into()
}

const UNIVERSAL: [(&str, Form, &[&str]); 6] = [
    ("UTF-8", Form::Utf8, &["UTF8", "unicode-1-1-utf-8"]),
    (
        "UTF-16",
        Form::Utf16(None),
        &["UTF_16", "unicode", "utf16", "UnicodeBig"],
    ),
    (
        "UTF-16BE",
        Form::Utf16(Some(Order::Big)),
        &[
            "X-UTF-16BE",
            "UTF_16BE",
            "ISO-10646-UCS-2",
            "UnicodeBigUnmarked",
        ],
    ),
    (
        "UTF-16LE",
        Form::Utf16(Some(Order::Little)),
        &["X-UTF-16LE", "UTF_16LE", "UnicodeLittleUnmarked"],
    ),
    (
        "US-ASCII",
        Form::Ascii,
        &[
            "ASCII",
            "ISO646-US",
            "IBM367",
            "646",
            "us",
            "cp367",
            "csASCII",
            "iso-ir-6",
            "ascii7",
            "default",
            "ANSI_X3.4-1968",
            "ANSI_X3.4-1986",
            "iso_646.irv:1983",
            "ISO_646.irv:1991",
        ],
    ),
    (
        "ISO-8859-1",
        Form::Latin1,
        &[
            "latin1",
            "l1",
            "819",
            "ISO8859-1",
            "ISO8859_1",
            "ISO_8859-1",
            "ISO_8859_1",
            "8859_1",
            "ISO_8859-1:1987",
            "iso-ir-100",
            "cp819",
            "IBM819",
            "IBM-819",
            "csISOLatin1",
        ],
    ),
];

/// A charset of one byte a character, by the table of a web charset and what Java has otherwise.
struct Single {
    name: &'static str,
    aliases: &'static [&'static str],
    web: &'static Encoding,
    java: fn(u8, char) -> char,
}

impl Single {
    fn table(&self) -> Table {
        std::array::from_fn(|index| {
            let byte = 0x80 | u8::try_from(index).unwrap_or(0);
            let (text, _) = self
                .web
                .decode_without_bom_handling(std::slice::from_ref(&byte));
            (self.java)(byte, text.chars().next().unwrap_or(REPLACEMENT))
        })
    }
}

fn same(_: u8, web: char) -> char {
    web
}

/// The web reads bytes that Windows leaves open as control characters; Java calls them malformed.
fn windows(_: u8, web: char) -> char {
    if ('\u{80}'..='\u{9f}').contains(&web) {
        REPLACEMENT
    } else {
        web
    }
}

/// The web gives windows-1255 a point for vav that Java's does not have.
fn hebrew(byte: u8, web: char) -> char {
    if byte == 0xCA {
        REPLACEMENT
    } else {
        windows(byte, web)
    }
}

/// The web reads ISO-8859-9 as windows-1254, which has letters in place of the control characters.
fn latin5(byte: u8, web: char) -> char {
    if (0x80..=0x9F).contains(&byte) {
        char::from(byte)
    } else {
        web
    }
}

/// The web's KOI8-U is KOI8-RU, with a Belarusian letter for two box drawings.
fn koi8_u(byte: u8, web: char) -> char {
    match byte {
        0xAE => '\u{255d}',
        0xBE => '\u{256c}',
        _ => web,
    }
}

macro_rules! singles {
    ($($name:literal $web:ident $java:ident [$($alias:literal),*])*) => {
        static SINGLE: [Single; [$($name),*].len()] = [$(Single {
            name: $name,
            aliases: &[$($alias),*],
            web: &encoding_rs::$web,
            java: $java,
        }),*];
    };
}

singles! {
    "ISO-8859-2" ISO_8859_2_INIT same ["ISO8859-2", "iso8859_2", "ISO_8859-2", "ISO_8859-2:1987",
        "8859_2", "latin2", "l2", "cp912", "ibm912", "ibm-912", "912", "iso-ir-101", "csISOLatin2"]
    "ISO-8859-3" ISO_8859_3_INIT same ["ISO8859-3", "iso8859_3", "ISO_8859-3", "ISO_8859-3:1988",
        "8859_3", "latin3", "l3", "cp913", "ibm913", "ibm-913", "913", "iso-ir-109", "csISOLatin3"]
    "ISO-8859-4" ISO_8859_4_INIT same ["iso8859-4", "iso8859_4", "ISO_8859-4", "ISO_8859-4:1988",
        "8859_4", "latin4", "l4", "cp914", "ibm914", "ibm-914", "914", "iso-ir-110", "csISOLatin4"]
    "ISO-8859-5" ISO_8859_5_INIT same ["ISO8859-5", "iso8859_5", "ISO_8859-5", "ISO_8859-5:1988",
        "8859_5", "cyrillic", "cp915", "ibm915", "ibm-915", "915", "iso-ir-144",
        "csISOLatinCyrillic"]
    "ISO-8859-6" ISO_8859_6_INIT same ["ISO8859-6", "iso8859_6", "ISO_8859-6", "ISO_8859-6:1987",
        "8859_6", "arabic", "cp1089", "ibm1089", "ibm-1089", "1089", "iso-ir-127", "ECMA-114",
        "ASMO-708", "csISOLatinArabic"]
    "ISO-8859-7" ISO_8859_7_INIT same ["iso8859-7", "iso8859_7", "ISO_8859-7", "ISO_8859-7:1987",
        "8859_7", "greek", "greek8", "cp813", "ibm813", "ibm-813", "813", "iso-ir-126", "ECMA-118",
        "ELOT_928", "sun_eu_greek", "csISOLatinGreek"]
    "ISO-8859-8" ISO_8859_8_INIT same ["ISO8859-8", "iso8859_8", "ISO_8859-8", "ISO_8859-8:1988",
        "8859_8", "hebrew", "cp916", "ibm916", "ibm-916", "916", "iso-ir-138", "csISOLatinHebrew"]
    "ISO-8859-9" WINDOWS_1254_INIT latin5 ["ISO8859-9", "iso8859_9", "ISO_8859-9",
        "ISO_8859-9:1989", "8859_9", "latin5", "l5", "cp920", "ibm920", "ibm-920", "920",
        "iso-ir-148", "csISOLatin5"]
    "ISO-8859-13" ISO_8859_13_INIT same ["ISO8859-13", "iso8859_13", "iso_8859-13", "8859_13"]
    "ISO-8859-15" ISO_8859_15_INIT same ["ISO8859-15", "ISO8859_15", "ISO_8859-15", "8859_15",
        "ISO8859_15_FDIS", "Latin-9", "LATIN9", "LATIN0", "L9", "cp923", "IBM923", "IBM-923", "923",
        "csISO885915", "csISOlatin9", "csISOlatin0"]
    "ISO-8859-16" ISO_8859_16_INIT same ["ISO8859_16", "ISO_8859-16", "ISO_8859-16:2001", "latin10",
        "l10", "iso-ir-226", "csISO885916"]
    "windows-1250" WINDOWS_1250_INIT windows ["cp1250", "cp5346"]
    "windows-1251" WINDOWS_1251_INIT windows ["cp1251", "cp5347", "ansi-1251"]
    "windows-1252" WINDOWS_1252_INIT windows ["cp1252", "cp5348", "ibm-1252", "ibm1252"]
    "windows-1253" WINDOWS_1253_INIT windows ["cp1253", "cp5349"]
    "windows-1254" WINDOWS_1254_INIT windows ["cp1254", "cp5350"]
    "windows-1255" WINDOWS_1255_INIT hebrew ["cp1255"]
    "windows-1256" WINDOWS_1256_INIT windows ["cp1256"]
    "windows-1257" WINDOWS_1257_INIT windows ["cp1257", "cp5353"]
    "windows-1258" WINDOWS_1258_INIT windows ["cp1258"]
    "KOI8-R" KOI8_R_INIT same ["koi8_r", "koi8", "cskoi8r"]
    "KOI8-U" KOI8_U_INIT koi8_u ["koi8_u"]
    "IBM866" IBM866_INIT same ["cp866", "ibm-866", "866", "csIBM866"]
    "x-MacRoman" MACINTOSH_INIT same ["MacRoman"]
}
