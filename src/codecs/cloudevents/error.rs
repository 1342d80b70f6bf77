//! Why a record is not the CloudEvent it should be.

use crate::error::Classify;
use crate::status::{ErrorKind, Status};
use std::borrow::Cow;
use std::fmt;

/// The longest attribute name an error repeats, in bytes.
const MAX_NAME: usize = 20;

/// Which rule a record breaks.
///
/// Every rule is a Permanent error: the same record breaks it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// Neither a structured content type nor a `ce_specversion` header.
    NotCloudEvent,
    /// A structured event in a format other than JSON, or a batch.
    UnsupportedFormat,
    /// A `specversion` other than 1.0 and 0.3.
    UnknownSpecVersion,
    /// A required attribute is absent or null.
    MissingAttribute,
    /// An attribute that must not be empty is.
    EmptyAttribute,
    /// A name of other characters than `a`–`z` and `0`–`9`, or a reserved one.
    InvalidName,
    /// A JSON value of a type that the attribute cannot have.
    InvalidType,
    /// A value outside the syntax or range of the attribute's type.
    InvalidValue,
    /// A member that a JSON object has twice.
    DuplicateAttribute,
    /// A header that is not UTF-8 text.
    InvalidUtf8,
    /// A structured event that is not a JSON object.
    InvalidJson,
    /// Data, or a value, that is not base64 with padding.
    InvalidBase64,
    /// A `data` member that does not fit the content type.
    InvalidData,
    /// Both `data` and `data_base64`.
    DataConflict,
}

impl Reason {
    /// The error kind that matchers and dead-letter headers see.
    pub const fn kind(self) -> ErrorKind {
        match self {
            Reason::NotCloudEvent | Reason::UnsupportedFormat | Reason::UnknownSpecVersion => {
                ErrorKind::Unsupported
            }
            Reason::InvalidUtf8 | Reason::InvalidJson | Reason::InvalidBase64 => {
                ErrorKind::Malformed
            }
            _ => ErrorKind::Schema,
        }
    }
}

/// The source of every [`Error`](crate::Error) that this codec answers, for a program that wants
/// to know the rule and the attribute:
/// `error.source().and_then(|s| s.downcast_ref::<EventError>())`.
///
/// It quotes no payload. Attribute names are repeated when they are short and plain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventError {
    reason: Reason,
    attribute: Option<Cow<'static, str>>,
    detail: Cow<'static, str>,
}

impl EventError {
    #[cold]
    pub(super) fn new(reason: Reason, detail: impl Into<Cow<'static, str>>) -> Self {
        EventError {
            reason,
            attribute: None,
            detail: detail.into(),
        }
    }

    /// Names the attribute at fault.
    #[cold]
    pub(super) fn of(reason: Reason, attribute: &str, detail: &'static str) -> Self {
        EventError::new(reason, detail).named(attribute)
    }

    #[cold]
    pub(super) fn named(mut self, attribute: &str) -> Self {
        self.attribute = Some(printable(attribute));
        self
    }

    #[cold]
    pub(super) fn missing(attribute: &'static str) -> Self {
        Self::of(Reason::MissingAttribute, attribute, "is missing")
    }

    #[cold]
    pub(super) fn empty(attribute: &str) -> Self {
        Self::of(Reason::EmptyAttribute, attribute, "is empty")
    }

    #[cold]
    pub(super) fn value(attribute: &str, detail: &'static str) -> Self {
        Self::of(Reason::InvalidValue, attribute, detail)
    }

    /// Whether nothing claims to be a CloudEvent, so that a null is a plain tombstone.
    pub(super) fn is_plain(&self) -> bool {
        self.reason == Reason::NotCloudEvent && self.attribute.is_none()
    }

    /// The rule that is broken.
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// The attribute at fault, or `(unprintable)` when its name is long or not plain.
    pub fn attribute(&self) -> Option<&str> {
        self.attribute.as_deref()
    }
}

/// A name as an error may show it: letters, digits, `_` and `-`, no longer than the
/// specification advises. What is no such name may be anything, a secret among it.
fn printable(name: &str) -> Cow<'static, str> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
    if name.len() <= MAX_NAME && name.bytes().all(plain) {
        Cow::Owned(name.to_owned())
    } else {
        Cow::Borrowed("(unprintable)")
    }
}

impl fmt::Display for EventError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.attribute {
            Some(attribute) => write!(f, "attribute {attribute} {}", self.detail),
            None => f.write_str(&self.detail),
        }
    }
}

impl std::error::Error for EventError {}

impl Classify for EventError {
    fn status(&self) -> Status {
        Status::Permanent
    }

    fn kind(&self) -> ErrorKind {
        self.reason.kind()
    }
}

/// What may be said about a value that is not the JSON it should be: serde_json's own text quotes
/// it.
#[cold]
pub(super) fn json_position(error: &serde_json::Error) -> String {
    use serde_json::error::Category;
    let category = match error.classify() {
        Category::Io => "io error",
        Category::Syntax => "syntax error",
        Category::Data => "unexpected value",
        Category::Eof => "unexpected end",
    };
    format!(
        "{category} at line {} column {}",
        error.line(),
        error.column()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_attribute_and_its_kind() {
        let error = crate::error::Error::from(EventError::missing("id"));
        assert_eq!(
            error.to_string(),
            "permanent schema: attribute id is missing"
        );
        let source = std::error::Error::source(&error).expect("a source");
        let found = source.downcast_ref::<EventError>().expect("an EventError");
        assert_eq!(found.reason(), Reason::MissingAttribute);
        assert_eq!(found.attribute(), Some("id"));
    }

    #[test]
    fn a_name_that_may_be_anything_is_not_repeated() {
        for name in ["a b", "é", "x\n", &"x".repeat(21)] {
            let error = EventError::of(Reason::InvalidName, name, "is not a name");
            assert_eq!(error.attribute(), Some("(unprintable)"), "{name:?}");
        }
        let error = EventError::of(Reason::InvalidName, "confluentRouting", "is not a name");
        assert_eq!(error.attribute(), Some("confluentRouting"));
    }
}
