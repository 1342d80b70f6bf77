//! Reading and writing text and files.

use kafka_chain::properties::{Charset, MAX_FILE_BYTES, Origin, Problem, ProblemKind, Properties};

use super::{TempFile, mistakes, pairs, parse};

/// FC-105
#[test]
fn the_syntax_is_the_java_loaders() {
    let text = "\u{feff}p=D\\:\\\\x\r\na\\=b=c\r\nk1 : v\r\nk2 v\r\nk3=\r\nk4\r\nx=a\\\r\n   b\r\n\
                # c\r\n! c\r\ncity=B\\u00FCckeburg\r\nd=1\r\nd=2\r\n";
    let expected = [
        ("p", "D:\\x"),
        ("a=b", "c"),
        ("k1", "v"),
        ("k2", "v"),
        ("k3", ""),
        ("k4", ""),
        ("x", "ab"),
        ("city", "Bückeburg"),
        ("d", "2"),
    ];
    let properties = parse(text);
    assert_eq!(pairs(&properties), expected);
    assert_eq!(
        properties.get("x").unwrap().origin,
        Origin::line("a.properties", 7)
    );
    assert_eq!(
        properties.get("city").unwrap().origin.to_string(),
        "a.properties:11"
    );
    let warnings: Vec<_> = properties
        .warnings()
        .iter()
        .map(Problem::to_string)
        .collect();
    let warning = "a.properties:13: d: written again; this one counts, not the one of line 12";
    assert_eq!(warnings, [warning]);
    for charset in [Charset::Utf8, Charset::Iso8859_1] {
        let file = TempFile::new(&format!("{charset:?}"), text.as_bytes());
        let read = Properties::from_file_with(&file.0, charset).unwrap();
        assert_eq!(pairs(&read), expected, "{charset:?}");
        assert_eq!(read.get("p").unwrap().origin, Origin::line(file.path(), 1));
        let about_mark = read
            .warnings()
            .iter()
            .any(|w| w.message.contains("byte order mark of UTF-8"));
        assert_eq!(about_mark, charset == Charset::Iso8859_1);
    }
}

/// FC-105
#[test]
fn all_bad_escapes_are_reported_with_their_lines() {
    let text =
        b"ok=1\nu=\\u00G1\n\n# \\u0\nw=a\\\n  b\\\n  \\u12\nhalf=\\uD83D!\n\\u=x\np=C:\\users\n";
    let hint = "(a backslash itself is written \\\\)";
    assert_eq!(
        mistakes(text),
        [
            format!(
                "a.properties:2: u: malformed \\u escape: digit 3 of 4 must be hexadecimal, \
                 but it is something else {hint}"
            ),
            format!(
                "a.properties:7: w: malformed \\u escape: digit 3 of 4 must be hexadecimal, \
                 but the text ends before it {hint}"
            ),
            "a.properties:8: half: a \\u escape is half of a surrogate pair; the other half is \
             missing"
                .to_owned(),
            format!(
                "a.properties:9: malformed \\u escape: digit 1 of 4 must be hexadecimal, but the \
                 text ends before it {hint}"
            ),
            format!(
                "a.properties:10: p: malformed \\u escape: digit 1 of 4 must be hexadecimal, but \
                 it is something else {hint}"
            ),
        ]
    );
}

#[test]
fn bytes_that_are_not_utf_8_are_an_error_of_their_line() {
    let bytes = b"a=1\r\nb=\xe9\xe8\rc=\xff\nd=\\u1";
    let report = Properties::parse(bytes, Charset::Utf8, "a.properties").unwrap_err();
    let found: Vec<_> = report
        .iter()
        .map(|p| (p.kind, p.origin.clone().unwrap().line.unwrap()))
        .collect();
    assert_eq!(
        found,
        [
            (ProblemKind::InvalidUtf8, 2),
            (ProblemKind::InvalidUtf8, 3),
            (ProblemKind::MalformedUnicodeEscape, 4),
        ]
    );
    let latin = Properties::parse(&bytes[..8], Charset::Iso8859_1, "a.properties").unwrap();
    assert_eq!(latin.value("b"), Some("é"));
}

#[test]
fn the_last_entry_of_a_key_counts_at_its_place() {
    let mut properties = parse("a=1\nb=2\na=3\n");
    assert_eq!(pairs(&properties), [("b", "2"), ("a", "3")]);
    assert_eq!(properties.get("a").unwrap().origin.line, Some(3));
    properties.set("b", "4");
    assert_eq!(properties.get("b").unwrap().origin.to_string(), "<code>");
    let mut other: Properties = "a=5\nc=6\nc=7".parse().unwrap();
    other.set_at("d", "8", Origin::file("defaults"));
    properties.merge(other);
    assert_eq!(
        pairs(&properties),
        [("b", "4"), ("a", "5"), ("c", "7"), ("d", "8")]
    );
    assert_eq!(properties.warnings().len(), 2);
    assert_eq!(properties.get("a").unwrap().origin.to_string(), "<text>:1");
    assert_eq!(properties.remove("a").unwrap().value, "5");
    assert_eq!(
        (
            properties.len(),
            properties.contains("a"),
            properties.get("a")
        ),
        (3, false, None)
    );
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let message = |path: &str| Properties::from_file(path).unwrap_err().to_string();
    let missing = message("no/such.properties");
    assert!(
        missing.contains("\n  no/such.properties: cannot be read: "),
        "{missing}"
    );
    let large = TempFile::new("large", &vec![b'\n'; MAX_FILE_BYTES as usize + 1]);
    assert!(message(large.path()).contains("is larger than 4194304 bytes"));
    let full = TempFile::new("full", &vec![b'\n'; MAX_FILE_BYTES as usize]);
    assert!(Properties::from_file(full.path()).unwrap().is_empty());
    let wide = TempFile::new("wide", b"\xff\xfea\0=\0b\0");
    assert!(message(wide.path()).contains("is UTF-16; save it as UTF-8"));
}

#[test]
fn the_writer_writes_as_java_does() {
    let properties =
        Properties::from_iter([(" a b=:#!", "  x y\t\n\r\u{c}\\=:#!"), ("", "é\u{7f}😀~")]);
    assert_eq!(
        properties.to_java_string(),
        "\\ a\\ b\\=\\:\\#\\!=\\  x y\\t\\n\\r\\f\\\\\\=\\:\\#\\!\n=\\u00E9\\u007F\\uD83D\\uDE00~\n"
    );
}
