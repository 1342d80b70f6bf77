//! What went wrong, and whether trying again helps.

use std::fmt;

/// What went wrong, as far as a matcher or an operator needs to tell errors apart.
///
/// The name in properties (`kind(decrypt)`) and in dead-letter headers is [`ErrorKind::as_str`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The bytes are not in the format the stage reads.
    Malformed,
    /// The bytes are in a format or version the stage does not know.
    Unsupported,
    /// A ciphertext could not be opened: wrong or unknown key, or a failed authentication tag.
    Decrypt,
    /// The data is well-formed but breaks the rules of its schema or type.
    Schema,
    /// A service the stage depends on did not answer or refused for now.
    Unavailable,
    /// An attempt took longer than its limit.
    Timeout,
    /// A leaf stage panicked; the panic was contained.
    Panic,
    /// The chain itself is wired wrongly; no record is at fault.
    Config,
    /// Anything else.
    Other,
}

impl ErrorKind {
    /// Every kind, in the order of the documentation.
    pub const ALL: [ErrorKind; 9] = [
        ErrorKind::Malformed,
        ErrorKind::Unsupported,
        ErrorKind::Decrypt,
        ErrorKind::Schema,
        ErrorKind::Unavailable,
        ErrorKind::Timeout,
        ErrorKind::Panic,
        ErrorKind::Config,
        ErrorKind::Other,
    ];

    /// The stable lower-case name used in properties, metrics and dead-letter headers.
    pub const fn as_str(self) -> &'static str {
        match self {
            ErrorKind::Malformed => "malformed",
            ErrorKind::Unsupported => "unsupported",
            ErrorKind::Decrypt => "decrypt",
            ErrorKind::Schema => "schema",
            ErrorKind::Unavailable => "unavailable",
            ErrorKind::Timeout => "timeout",
            ErrorKind::Panic => "panic",
            ErrorKind::Config => "config",
            ErrorKind::Other => "other",
        }
    }

    /// The kind with this name, if there is one.
    pub fn from_name(name: &str) -> Option<ErrorKind> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Does trying again help?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// It may: the cause is expected to pass.
    Temporary,
    /// It does not: the same input gives the same error.
    Permanent,
    /// It might have, but a [`Retry`](crate::decorators::Retry) tried as often as it may.
    Exhausted,
}

impl Status {
    /// Every status.
    pub const ALL: [Status; 3] = [Status::Temporary, Status::Permanent, Status::Exhausted];

    /// The stable lower-case name used in properties, metrics and dead-letter headers.
    pub const fn as_str(self) -> &'static str {
        match self {
            Status::Temporary => "temporary",
            Status::Permanent => "permanent",
            Status::Exhausted => "exhausted",
        }
    }

    /// The status with this name, if there is one.
    pub fn from_name(name: &str) -> Option<Status> {
        Self::ALL.into_iter().find(|status| status.as_str() == name)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for kind in ErrorKind::ALL {
            assert_eq!(ErrorKind::from_name(kind.as_str()), Some(kind));
        }
        for status in Status::ALL {
            assert_eq!(Status::from_name(status.as_str()), Some(status));
        }
        assert_eq!(ErrorKind::from_name("Decrypt"), None);
    }
}
