//! Texts of bounded length for headers.

use std::fmt;

use crate::error::Error;

/// The longest error message in a header, in bytes of UTF-8.
pub const MESSAGE_LIMIT: usize = 2048;

/// The longest chain of causes in a header, in bytes of UTF-8: with the message 4 KiB.
pub const CAUSES_LIMIT: usize = 2048;

/// The longest stack trace in a header, in bytes of UTF-8; it repeats message and causes.
pub const TRACE_LIMIT: usize = 4096;

/// The longest stage path and the longest group in a header, in bytes of UTF-8.
pub const NAME_LIMIT: usize = 1024;

/// The longest text in the headers of a shortened dead letter, in bytes of UTF-8.
pub const SHORT_LIMIT: usize = 256;

/// How many causes are looked at: a cyclic chain stays harmless.
const MAX_CAUSES: usize = 16;

const ELLIPSIS: char = '…';

/// Collects one line of text up to a limit and refuses the rest, so that a text of any length costs
/// no more than the limit.
struct Capped {
    text: String,
    limit: usize,
    over: bool,
}

impl fmt::Write for Capped {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.over {
            return Err(fmt::Error);
        }
        for found in text.chars() {
            // Nothing that could move a terminal's cursor, break a line or turn its direction.
            let shown = match found {
                '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => ' ',
                found if found.is_control() => ' ',
                found => found,
            };
            if self.text.len() + shown.len_utf8() > self.limit {
                self.over = true;
                return Err(fmt::Error);
            }
            self.text.push(shown);
        }
        Ok(())
    }
}

/// One line of at most `limit` bytes: what `write` writes, control characters made blanks, cut
/// between characters with an ellipsis.
fn capped(limit: usize, write: impl FnOnce(&mut dyn fmt::Write) -> fmt::Result) -> String {
    let mut line = Capped {
        text: String::new(),
        limit,
        over: false,
    };
    let cut = write(&mut line).is_err() || line.over;
    if cut {
        ended(&line.text, limit)
    } else {
        line.text
    }
}

/// The start of `text` and an ellipsis, in at most `limit` bytes.
fn ended(text: &str, limit: usize) -> String {
    let mut text = prefix(text, limit.saturating_sub(ELLIPSIS.len_utf8())).to_owned();
    text.push(ELLIPSIS);
    text
}

/// The longest start of `text` in at most `limit` bytes that cuts no character.
pub(super) fn prefix(text: &str, limit: usize) -> &str {
    let end = (0..=limit.min(text.len()))
        .rev()
        .find(|at| text.is_char_boundary(*at));
    end.and_then(|end| text.get(..end)).unwrap_or_default()
}

/// `text` in one line of at most `limit` bytes.
pub(super) fn line(text: impl fmt::Display, limit: usize) -> String {
    capped(limit, |out| write!(out, "{text}"))
}

/// The texts of an error, each within its limit.
pub(super) struct Texts {
    pub(super) message: String,
    pub(super) causes: Vec<String>,
    pub(super) stages: Vec<String>,
    pub(super) stage_path: String,
}

impl Texts {
    pub(super) fn of(error: &Error) -> Self {
        let message = line(error.message(), MESSAGE_LIMIT);
        let mut causes: Vec<String> = Vec::new();
        let mut cause = std::error::Error::source(error);
        for _ in 0..MAX_CAUSES {
            let Some(current) = cause else { break };
            let text = line(current, CAUSES_LIMIT);
            // A wrapped error's text is its wrapper's message.
            if text != message {
                causes.push(text);
            }
            cause = current.source();
        }
        Texts {
            message,
            causes,
            stages: error
                .stages()
                .take(NAME_LIMIT)
                .map(|stage| line(stage, SHORT_LIMIT))
                .collect(),
            stage_path: capped(NAME_LIMIT, |out| {
                for (index, stage) in error.stages().enumerate() {
                    out.write_str(if index == 0 { "" } else { " > " })?;
                    out.write_str(stage)?;
                }
                Ok(())
            }),
        }
    }

    /// All causes, outermost first, in one line.
    pub(super) fn cause_line(&self) -> String {
        capped(CAUSES_LIMIT, |out| {
            for (index, cause) in self.causes.iter().enumerate() {
                out.write_str(if index == 0 { "" } else { "; caused by: " })?;
                out.write_str(cause)?;
            }
            Ok(())
        })
    }

    /// What stands for a stack trace: class and message, the stages from the innermost, the causes.
    pub(super) fn trace(&self, class: &str) -> String {
        let mut trace = format!("{class}: {}\n", self.message);
        for stage in self.stages.iter().rev() {
            if trace.len() > TRACE_LIMIT {
                break;
            }
            trace.push_str("\tat ");
            trace.push_str(stage);
            trace.push('\n');
        }
        for cause in &self.causes {
            if trace.len() > TRACE_LIMIT {
                break;
            }
            trace.push_str("Caused by: ");
            trace.push_str(cause);
            trace.push('\n');
        }
        if trace.len() > TRACE_LIMIT {
            ended(&trace, TRACE_LIMIT)
        } else {
            trace
        }
    }
}

/// A stable hash of what went wrong, to group dead letters by: 16 hexadecimal digits.
///
/// FNV-1a with 64 bits (offset basis `cbf29ce484222325`, prime `100000001b3`) over the kind's name,
/// a zero byte, the stage path, a zero byte, and the message in which each run of ASCII digits is
/// one `#`: two errors that differ in a number, an offset or a size are one.
pub fn fingerprint(kind: &str, stage_path: &str, message: &str) -> String {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    let mut feed = |byte: u8| hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    for part in [kind, stage_path] {
        part.bytes().for_each(&mut feed);
        feed(0);
    }
    let mut digits = false;
    for byte in message.bytes() {
        let digit = byte.is_ascii_digit();
        match (digit, digits) {
            (true, true) => {}
            (true, false) => feed(b'#'),
            (false, _) => feed(byte),
        }
        digits = digit;
    }
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_between_characters_with_an_ellipsis_and_has_no_control_characters() {
        assert_eq!(line("é".repeat(5), 10), "ééééé");
        assert_eq!(line("é".repeat(6), 10), "ééé…");
        assert_eq!(line("a\r\nb\u{1b}[2J\u{202e}c\0", 20), "a  b [2J c ");
        assert_eq!(prefix("é", 1), "");
    }

    #[test]
    fn a_fingerprint_sees_the_shape_of_a_message_and_not_its_numbers() {
        assert_eq!(fingerprint("a", "b", "c12"), fingerprint("a", "b", "c3"));
        assert_ne!(fingerprint("a", "b", "c"), fingerprint("a", "b", "c3"));
        assert_ne!(fingerprint("a", "b", "c"), fingerprint("a", "bc", ""));
        // FNV-1a of "a\0b\0c#", worked out apart from this code.
        assert_eq!(fingerprint("a", "b", "c12"), "cec62b155110e6e4");
    }
}
