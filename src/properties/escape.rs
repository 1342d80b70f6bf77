//! The escapes of `.properties` text, both ways.

use std::iter::Peekable;
use std::str::Chars;

use super::ProblemKind;

/// What is wrong with an escape, and the offset in bytes where it begins.
pub(super) struct BadEscape {
    pub(super) at: usize,
    pub(super) kind: ProblemKind,
    pub(super) message: String,
}

impl BadEscape {
    fn unpaired(at: usize) -> Self {
        Self {
            at,
            kind: ProblemKind::UnpairedSurrogate,
            message: "a \\u escape is half of a surrogate pair; the other half is missing".into(),
        }
    }
}

/// Decodes the escapes of a key or a value. Two escapes that are a surrogate pair become one
/// character.
pub(super) fn unescape(text: &str, mut report: impl FnMut(BadEscape)) -> String {
    let mut decoded = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    let mut at = 0;
    let mut high: Option<(u32, usize)> = None;
    while let Some(c) = chars.next() {
        let escape_at = at;
        at += c.len_utf8();
        let mut code = u32::from(c);
        if c == '\\' {
            let Some(escaped) = chars.next() else { break };
            at += escaped.len_utf8();
            code = match escaped {
                't' => u32::from('\t'),
                'n' => u32::from('\n'),
                'r' => u32::from('\r'),
                'f' => 0x0c,
                'u' => match four_digits(&mut chars, &mut at) {
                    Ok(unit) => unit,
                    Err(message) => {
                        let kind = ProblemKind::MalformedUnicodeEscape;
                        report(BadEscape {
                            at: escape_at,
                            kind,
                            message,
                        });
                        continue;
                    }
                },
                other => u32::from(other),
            };
        }
        match (high.take(), code) {
            (Some((high, _)), 0xdc00..=0xdfff) => {
                let joined = 0x10000 + ((high - 0xd800) << 10) + (code - 0xdc00);
                decoded.extend(char::from_u32(joined));
                continue;
            }
            (Some((_, high_at)), _) => report(BadEscape::unpaired(high_at)),
            (None, _) => {}
        }
        match code {
            0xd800..=0xdbff => high = Some((code, escape_at)),
            0xdc00..=0xdfff => report(BadEscape::unpaired(escape_at)),
            _ => decoded.extend(char::from_u32(code)),
        }
    }
    if let Some((_, high_at)) = high {
        report(BadEscape::unpaired(high_at));
    }
    decoded
}

/// What follows `\u`. On an error, only the digits there are have been taken.
fn four_digits(chars: &mut Peekable<Chars<'_>>, at: &mut usize) -> Result<u32, String> {
    let mut unit = 0;
    for digit in 1..=4 {
        let wrong = match chars.peek() {
            None => "the text ends before it",
            Some(c) => match c.to_digit(16) {
                Some(value) => {
                    unit = unit * 16 + value;
                    *at += 1;
                    chars.next();
                    continue;
                }
                None => "it is something else",
            },
        };
        return Err(format!(
            "malformed \\u escape: digit {digit} of 4 must be hexadecimal, but {wrong} \
             (a backslash itself is written \\\\)"
        ));
    }
    Ok(unit)
}

/// Appends a key or a value as Java's `Properties.store` writes it. A key has all its spaces
/// escaped, a value only the first.
pub(super) fn escape(text: &str, is_key: bool, out: &mut String) {
    for (index, c) in text.chars().enumerate() {
        match c {
            ' ' if is_key || index == 0 => out.push_str("\\ "),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\u{c}' => out.push_str("\\f"),
            '\\' | '=' | ':' | '#' | '!' => out.extend(['\\', c]),
            ' '..='~' => out.push(c),
            _ => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04X}"));
                }
            }
        }
    }
}
