//! Text and UUIDs in Java's charsets; the expected hashes were computed with OpenJDK 17.

#[path = "support/codec_calls.rs"]
mod codec_calls;

use codec_calls::{kind, read_bytes, write};
use kafka_chain::ErrorKind;
use kafka_chain::codecs::{self, StringCodec, UuidCodec};

#[test]
fn uuids_are_read_as_jdk_17_reads_them() {
    let parse = |text: &str| read_bytes(&codecs::uuid(), text.as_bytes());
    let read = |text: &str| parse(text).unwrap().unwrap().to_string();
    assert_eq!(read("+1-2-3-4-5"), "00000001-0002-0003-0004-000000000005");
    assert_eq!(
        read("123456789-2-3-4-5"),
        "23456789-0002-0003-0004-000000000005"
    );
    assert_eq!(
        read("7fffffffffffffff-2-3-4-5"),
        "ffffffff-0002-0003-0004-000000000005"
    );
    assert_eq!(
        read("1-20000-3-4-5"),
        "00000001-0000-0003-0004-000000000005"
    );
    assert_eq!(
        read("123E4567-E89B-12D3-A456-426614174000"),
        "123e4567-e89b-12d3-a456-426614174000"
    );
    for odd in [
        "",
        "1-2-3-4-",
        "1-2-3-4",
        "1-2-3-4-5-6",
        "1-2-3-4-5 ",
        "1-2-3-4-+",
        "ffffffffffffffff-2-3-4-5",
        "123e4567-e89b-12d3-a456-4266141740001",
        "{123e4567-e89b-12d3-a456-42661417400}",
    ] {
        assert_eq!(kind(parse(odd)), ErrorKind::Malformed, "{odd}");
    }
}

/// FNV-1a over UTF-16 code units, the same in Java as here.
struct Hash(u64);

impl Hash {
    fn new() -> Self {
        Hash(0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, text: &str) {
        for unit in text.encode_utf16().chain([0xffff]) {
            for byte in unit.to_be_bytes() {
                self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
    }
}

/// Pseudo-random numbers, the same in Java as here.
struct Sequence(u64);

impl Sequence {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % below
    }
}

fn decoded(encoding: &str, cases: usize, shortest: usize, longest: usize, alphabet: &[u8]) -> u64 {
    let codec = StringCodec::with_encoding(encoding).unwrap();
    let (mut hash, mut sequence) = (Hash::new(), Sequence(1));
    for _ in 0..cases {
        let length = shortest + sequence.next(longest - shortest + 1);
        let bytes: Vec<u8> = (0..length)
            .map(|_| alphabet[sequence.next(alphabet.len())])
            .collect();
        hash.add(&read_bytes(&codec, &bytes).unwrap().unwrap());
    }
    hash.0
}

#[test]
fn malformed_text_has_as_many_replacements_as_in_java() {
    let utf8 = [
        0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc1, 0xc2, 0xdf, 0xe0, 0xe1, 0xec,
        0xed, 0xee, 0xef, 0xf0, 0xf1, 0xf4, 0xf5, 0xff, 0xbe,
    ];
    assert_eq!(
        decoded("UTF-8", 200_000, 1, 7, &utf8),
        0x6ee7_bc35_2727_fb7b
    );
    let utf16 = [0x00, 0x41, 0xd8, 0xdb, 0xdc, 0xdf, 0xfe, 0xff, 0x20];
    assert_eq!(
        decoded("UTF-16", 100_000, 0, 9, &utf16),
        0x2fb5_9178_a0dc_ef21
    );
    assert_eq!(
        decoded("UTF-16BE", 100_000, 0, 9, &utf16),
        0x61be_6be5_3fca_6f2d
    );
    assert_eq!(
        decoded("UTF-16LE", 100_000, 0, 9, &utf16),
        0x3fd6_0878_1c05_f7c1
    );
    let surrogate = read_bytes(&codecs::string(), &[0xED, 0xA0, 0x80, b'a']).unwrap();
    assert_eq!(surrogate.as_deref(), Some("\u{fffd}a"));
}

/// A hash of all 256 characters of each charset, computed with OpenJDK 17.
const TABLES: [(&str, u64); 26] = [
    ("ISO-8859-1", 0xe282c15bc8ce6125),
    ("US-ASCII", 0x53008d3f00205025),
    ("ISO-8859-2", 0x1a19aaab809d79bc),
    ("ISO-8859-3", 0x83491cb23cc1d54b),
    ("ISO-8859-4", 0x4d4e2d1c3064322e),
    ("ISO-8859-5", 0xf204e0dc757bafdc),
    ("ISO-8859-6", 0x7ab5fff4e9db44aa),
    ("ISO-8859-7", 0xe15574bc06cdd046),
    ("ISO-8859-8", 0x07136cd75cf288f1),
    ("ISO-8859-9", 0x52b116ff2bbcec0e),
    ("ISO-8859-13", 0xfb07594450345b0c),
    ("ISO-8859-15", 0xbc08a0e5b0925ff6),
    ("ISO-8859-16", 0x176a5d900a9ca09e),
    ("windows-1250", 0x9850a50bd86e0140),
    ("windows-1251", 0x9655a97ee810d25f),
    ("windows-1252", 0x27c6d68bc73258ac),
    ("windows-1253", 0xa148b26471273196),
    ("windows-1254", 0xe32c56a2da237312),
    ("windows-1255", 0xa0f490d3e3c294b7),
    ("windows-1256", 0xea4be081fe8e4736),
    ("windows-1257", 0xbb6a141b194e1886),
    ("windows-1258", 0x8c00136b35173482),
    ("KOI8-R", 0xaf6bcd952d9050f0),
    ("KOI8-U", 0x47743523d90043e7),
    ("IBM866", 0xa739b7f49ab7a0b5),
    ("x-MacRoman", 0x0aa06048d86e0145),
];

#[test]
fn every_single_byte_charset_is_javas_in_both_directions() {
    for (name, expected) in TABLES {
        let codec = StringCodec::with_encoding(name).unwrap();
        assert_eq!(codec.encoding(), name);
        let mut hash = Hash::new();
        for byte in 0..=u8::MAX {
            let text = read_bytes(&codec, &[byte]).unwrap().unwrap();
            hash.add(&text);
            let back = if text == "\u{fffd}" { b'?' } else { byte };
            assert_eq!(
                write(&codec, Some(&text)).unwrap(),
                [back].as_slice(),
                "{name} {byte}"
            );
        }
        assert_eq!(hash.0, expected, "{name}");
        let lacking = "\u{1f600}\u{fffd}\u{4e2d}".to_owned();
        assert_eq!(write(&codec, Some(&lacking)).unwrap(), "???");
    }
}

#[test]
fn encodings_are_known_by_javas_names_and_no_others() {
    for (alias, name) in [
        ("utf8", "UTF-8"),
        ("Latin1", "ISO-8859-1"),
        ("iso8859_1", "ISO-8859-1"),
        ("ascii", "US-ASCII"),
        ("utf-16", "UTF-16"),
        ("UnicodeBigUnmarked", "UTF-16BE"),
        ("x-utf-16le", "UTF-16LE"),
        ("CP1252", "windows-1252"),
        ("latin5", "ISO-8859-9"),
    ] {
        assert_eq!(StringCodec::with_encoding(alias).unwrap().encoding(), name);
        assert_eq!(UuidCodec::with_encoding(alias).unwrap().encoding(), name);
    }
    for unknown in ["", "nope", " utf8", "x-user-defined", "Shift_JIS", "GBK"] {
        assert_eq!(kind(StringCodec::with_encoding(unknown)), ErrorKind::Config);
        assert_eq!(kind(UuidCodec::with_encoding(unknown)), ErrorKind::Config);
    }
}

#[test]
fn an_empty_text_in_utf_16_has_no_mark() {
    let codec = StringCodec::with_encoding("UTF-16").unwrap();
    assert_eq!(write(&codec, Some(&String::new())).unwrap(), "");
    let a = write(&codec, Some(&"a".to_owned())).unwrap();
    assert_eq!(a.as_ref(), [0xfe, 0xff, 0, b'a']);
}
