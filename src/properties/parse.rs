//! Logical lines and what they mean, by the rules of `java.util.Properties.load`.

use std::borrow::Cow;
use std::iter::Peekable;
use std::sync::Arc;

use super::escape::unescape;
use super::{Charset, Origin, Problem, ProblemKind, Properties, Property, Report, UTF8_BOM};

/// See [`Properties::parse`].
pub(super) fn parse(bytes: &[u8], charset: Charset, file: Arc<str>) -> Result<Properties, Report> {
    let (properties, report) = parse_all(bytes, charset, file);
    report.into_result(properties)
}

/// The entries with all mistakes: what was read of a file that has some serves only to find others
/// in it.
pub(super) fn parse_all(bytes: &[u8], charset: Charset, file: Arc<str>) -> (Properties, Report) {
    let mut report = Report::new();
    let properties = match charset {
        Charset::Iso8859_1 => load(bytes.iter().map(|&b| char::from(b)), &file, &mut report),
        Charset::Utf8 => {
            let bytes = bytes.strip_prefix(UTF8_BOM).unwrap_or(bytes);
            let text = String::from_utf8_lossy(bytes);
            // Owned means that something was replaced.
            if matches!(text, Cow::Owned(_)) {
                refuse_invalid_utf8(bytes, &file, &mut report);
            }
            load(text.chars(), &file, &mut report)
        }
    };
    (properties, report)
}

/// Reports each line that has bytes which are not UTF-8, once.
fn refuse_invalid_utf8(bytes: &[u8], file: &Arc<str>, report: &mut Report) {
    let mut line = 1;
    let mut reported = 0;
    for chunk in bytes.utf8_chunks() {
        let mut chars = chunk.valid().chars().peekable();
        while let Some(c) = chars.next() {
            if is_line_end(c) && !(c == '\r' && chars.peek() == Some(&'\n')) {
                line += 1;
            }
        }
        if !chunk.invalid().is_empty() && reported != line {
            reported = line;
            let message = "not valid UTF-8; save the file as UTF-8 or read it as ISO-8859-1";
            let origin = Origin {
                file: file.clone(),
                line: Some(line),
            };
            report.push(Problem::of(ProblemKind::InvalidUtf8, message).at(&origin));
        }
    }
}

fn load(chars: impl Iterator<Item = char>, file: &Arc<str>, report: &mut Report) -> Properties {
    let mut properties = Properties::new();
    let mut reader = LineReader {
        chars: chars.peekable(),
        line: 1,
    };
    let mut line = LogicalLine::default();
    while reader.read(&mut line) {
        let origin_of = |at| Origin {
            file: file.clone(),
            line: Some(line.number_at(at)),
        };
        let (key, value, value_at) = split(&line.text);
        let key = unescape(key, |bad| {
            report.push(Problem::of(bad.kind, bad.message).at(&origin_of(bad.at)));
        });
        let value = unescape(value, |bad| {
            let origin = origin_of(value_at + bad.at);
            report.push(Problem::of(bad.kind, bad.message).key(&key).at(&origin));
        });
        let origin = origin_of(0);
        if let Some(earlier) = properties.put(Property::new(key, value, origin.clone())) {
            let earlier_line = earlier.origin.line.unwrap_or_default();
            let message =
                format!("written again; this one counts, not the one of line {earlier_line}");
            let kind = ProblemKind::DuplicateKey;
            properties.warn(Problem::of(kind, message).key(earlier.key).at(&origin));
        }
    }
    properties
}

fn is_line_end(c: char) -> bool {
    matches!(c, '\n' | '\r')
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\u{c}')
}

/// Physical lines joined, escapes not yet decoded.
#[derive(Default)]
struct LogicalLine {
    text: String,
    /// Offset in `text` where each physical line begins, and its number.
    starts: Vec<(usize, u32)>,
}

impl LogicalLine {
    fn push(&mut self, c: char, number: u32) {
        if self.text.is_empty() {
            self.starts.clear();
        }
        if self.starts.last().is_none_or(|&(_, last)| last != number) {
            self.starts.push((self.text.len(), number));
        }
        self.text.push(c);
    }

    fn number_at(&self, offset: usize) -> u32 {
        let after = self.starts.partition_point(|&(start, _)| start <= offset);
        after
            .checked_sub(1)
            .and_then(|index| self.starts.get(index))
            .map_or(1, |start| start.1)
    }
}

struct LineReader<I: Iterator<Item = char>> {
    chars: Peekable<I>,
    /// Number of the physical line that the next character belongs to.
    line: u32,
}

impl<I: Iterator<Item = char>> LineReader<I> {
    /// Reads the next logical line that is neither blank nor a comment; false at the end.
    ///
    /// The line may be empty: a backslash alone before the end of input is an entry in Java, though
    /// not if `\r\n` stands between.
    fn read(&mut self, into: &mut LogicalLine) -> bool {
        into.text.clear();
        into.starts.clear();
        let mut in_comment = false;
        let mut skip_blanks = true;
        let mut continued = false;
        let mut backslash = false;
        while let Some(c) = self.chars.next() {
            let number = self.line;
            let line_end = is_line_end(c);
            let at_end = self.chars.peek().is_none();
            if line_end {
                if c == '\r' {
                    self.chars.next_if_eq(&'\n');
                }
                self.line = self.line.saturating_add(1);
            }
            if in_comment {
                in_comment = !line_end;
                continue;
            }
            if skip_blanks {
                if is_blank(c) || (line_end && !continued) {
                    continue;
                }
                skip_blanks = false;
                continued = false;
            }
            if !line_end {
                if into.text.is_empty() && matches!(c, '#' | '!') {
                    in_comment = true;
                    skip_blanks = true;
                    continue;
                }
                into.push(c, number);
                backslash = c == '\\' && !backslash;
            } else if into.text.is_empty() {
                skip_blanks = true;
            } else if backslash && !at_end {
                into.text.pop();
                skip_blanks = true;
                continued = true;
                backslash = false;
            } else {
                break;
            }
        }
        let found = !into.text.is_empty();
        if backslash {
            into.text.pop();
        }
        found
    }
}

/// The key and the value of a logical line, escapes not decoded, and the offset of the value.
fn split(line: &str) -> (&str, &str, usize) {
    let mut backslash = false;
    let key_end = line.find(|c| {
        let ends = !backslash && (matches!(c, '=' | ':') || is_blank(c));
        backslash = c == '\\' && !backslash;
        ends
    });
    let (key, rest) = line.split_at(key_end.unwrap_or(line.len()));
    let value = rest.trim_start_matches(is_blank);
    let value = value
        .strip_prefix(['=', ':'])
        .unwrap_or(value)
        .trim_start_matches(is_blank);
    (key, value, line.len() - value.len())
}
