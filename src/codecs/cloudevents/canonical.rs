//! The canonical text of the CloudEvents types (spec.md, "Type System"), which is how binary mode
//! writes every attribute.

use super::error::{EventError, Reason};
use super::{time, uri};
use crate::error::{Error, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, Utc};

/// A Boolean: `true` or `false`, in this case.
///
/// # Errors
/// Schema, for other text.
pub fn boolean(text: &str) -> Result<bool> {
    match text {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(invalid("not a Boolean")),
    }
}

/// An Integer: a whole number of 32 bits as JSON writes it, without plus, leading zero or blanks.
///
/// # Errors
/// Schema, for other text and for numbers beyond 32 bits.
pub fn integer(text: &str) -> Result<i32> {
    parse_integer(text).ok_or_else(|| invalid("not an Integer of 32 bits"))
}

/// Binary: base64 with padding (RFC 4648 section 4).
///
/// # Errors
/// Malformed, for other text.
pub fn binary(text: &str) -> Result<Vec<u8>> {
    Ok(parse_binary(text)?)
}

/// A Timestamp: RFC 3339, cut to nanoseconds.
///
/// # Errors
/// Schema, for other text.
pub fn timestamp(text: &str) -> Result<DateTime<Utc>> {
    time::parse(text).ok_or_else(|| invalid("not an RFC 3339 time"))
}

/// A URI-reference (RFC 3986 section 4.1), which comes back as it is.
///
/// # Errors
/// Schema, for other text.
pub fn uri_reference(text: &str) -> Result<&str> {
    if uri::is_reference(text) {
        Ok(text)
    } else {
        Err(invalid("not a URI-reference"))
    }
}

pub(super) fn parse_integer(text: &str) -> Option<i32> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let plain = digits.bytes().all(|b| b.is_ascii_digit());
    let leading_zero = digits.len() > 1 && digits.starts_with('0');
    if !plain || leading_zero {
        return None;
    }
    text.parse().ok()
}

pub(super) fn parse_binary(text: &str) -> std::result::Result<Vec<u8>, EventError> {
    STANDARD
        .decode(text)
        .map_err(|_| EventError::new(Reason::InvalidBase64, "not base64 with padding"))
}

pub(super) fn format_binary(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

#[cold]
fn invalid(detail: &'static str) -> Error {
    EventError::new(Reason::InvalidValue, detail).into()
}
