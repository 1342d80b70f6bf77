//! The one error of the crate: what happened, whether trying again helps, and where in the chain.

use crate::status::{ErrorKind, Status};
use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

/// What a stage answers.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The name of a stage in a [stage path](Error::stage_path): a type name or the label a user gave.
pub type StageName = Cow<'static, str>;

type Source = Box<dyn std::error::Error + Send + Sync + 'static>;

/// The error of every stage.
///
/// One word wide, so that a `Result<u64, Error>` is 16 bytes and moving it through the layers of a
/// chain is free; the rest is behind a box that only a failing record pays for.
///
/// Neither `Display` nor `Debug` prints payload bytes. `Display` is one line: stage path, status,
/// kind and message, then attempts and elapsed time when a retry was involved. The alternate form
/// `{:#}` adds the chain of causes; what a cause prints about itself is its author's business.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    status: Status,
    message: Cow<'static, str>,
    /// Innermost stage first: the path is pushed on the error's way out.
    stages: Vec<StageName>,
    attempts: u32,
    elapsed: Duration,
    source: Option<Source>,
}

impl Error {
    /// An error of this kind and status. `message` is short and holds no payload bytes or secrets.
    #[cold]
    pub fn new(kind: ErrorKind, status: Status, message: impl Into<Cow<'static, str>>) -> Self {
        Error(Box::new(Inner {
            kind,
            status,
            message: message.into(),
            stages: Vec::new(),
            attempts: 1,
            elapsed: Duration::ZERO,
            source: None,
        }))
    }

    /// A user's own error that trying again may cure; its kind is [`ErrorKind::Unavailable`].
    ///
    /// Its text becomes the message, so it must not quote payloads or secrets.
    pub fn temporary(source: impl Into<Source>) -> Self {
        Self::wrapping(ErrorKind::Unavailable, Status::Temporary, source.into())
    }

    /// A user's own error that trying again cannot cure; its kind is [`ErrorKind::Other`].
    ///
    /// Its text becomes the message, so it must not quote payloads or secrets.
    pub fn permanent(source: impl Into<Source>) -> Self {
        Self::wrapping(ErrorKind::Other, Status::Permanent, source.into())
    }

    fn wrapping(kind: ErrorKind, status: Status, source: Source) -> Self {
        Error::new(kind, status, source.to_string()).with_source(source)
    }

    /// Permanent: the bytes are not in the format the stage reads.
    pub fn malformed(message: impl Into<Cow<'static, str>>) -> Self {
        Error::new(ErrorKind::Malformed, Status::Permanent, message)
    }

    /// Permanent: a format or version the stage does not know.
    pub fn unsupported(message: impl Into<Cow<'static, str>>) -> Self {
        Error::new(ErrorKind::Unsupported, Status::Permanent, message)
    }

    /// Permanent: a ciphertext that cannot be opened.
    pub fn decrypt(message: impl Into<Cow<'static, str>>) -> Self {
        Error::new(ErrorKind::Decrypt, Status::Permanent, message)
    }

    /// Permanent: well-formed data that breaks a rule of its type.
    pub fn schema(message: impl Into<Cow<'static, str>>) -> Self {
        Error::new(ErrorKind::Schema, Status::Permanent, message)
    }

    /// Temporary: a service did not answer or refused for now.
    pub fn unavailable(message: impl Into<Cow<'static, str>>) -> Self {
        Error::new(ErrorKind::Unavailable, Status::Temporary, message)
    }

    /// Temporary: an attempt took longer than its limit.
    pub fn timeout(message: impl Into<Cow<'static, str>>) -> Self {
        Error::new(ErrorKind::Timeout, Status::Temporary, message)
    }

    /// Permanent: the chain is wired wrongly. It surfaces as an error and is never dead-lettered by
    /// default, for no record is at fault.
    pub fn config(message: impl Into<Cow<'static, str>>) -> Self {
        Error::new(ErrorKind::Config, Status::Permanent, message)
    }

    /// The same error with a cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Source>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// The same error with another kind.
    #[must_use]
    pub fn with_kind(mut self, kind: ErrorKind) -> Self {
        self.0.kind = kind;
        self
    }

    /// The same error with another status.
    #[must_use]
    pub fn with_status(mut self, status: Status) -> Self {
        self.0.status = status;
        self
    }

    /// The same error after `attempts` calls over `elapsed`, as a retry records it. Of nested
    /// retries the outermost writes last.
    #[must_use]
    pub fn with_attempts(mut self, attempts: u32, elapsed: Duration) -> Self {
        self.0.attempts = attempts;
        self.0.elapsed = elapsed;
        self
    }

    /// The same error seen from the stage outside: puts `stage` in front of the stage path.
    #[must_use]
    pub fn at(mut self, stage: impl Into<StageName>) -> Self {
        self.0.stages.push(stage.into());
        self
    }

    /// What went wrong.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Whether trying again helps.
    pub fn status(&self) -> Status {
        self.0.status
    }

    /// What went wrong, in words, without place, status or kind.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// How often the failing stage was called: 1 unless a retry called it again.
    pub fn attempts(&self) -> u32 {
        self.0.attempts
    }

    /// How long a retry went on, from the first answer that was not a ready success to the last
    /// failure; zero without a retry.
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed
    }

    /// The stages the error passed, outermost first.
    pub fn stages(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.0.stages.iter().rev().map(AsRef::as_ref)
    }

    /// The stages the error passed, outermost first, as one line:
    /// `exception-handling > retry > pipe.from > aes-gcm`.
    pub fn stage_path(&self) -> String {
        let mut path = String::new();
        for stage in self.stages() {
            if !path.is_empty() {
                path.push_str(" > ");
            }
            path.push_str(stage);
        }
        path
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        for stage in self.stages() {
            f.write_str(if first { "" } else { " > " })?;
            f.write_str(stage)?;
            first = false;
        }
        if !first {
            f.write_str(": ")?;
        }
        write!(f, "{} {}: {}", self.0.status, self.0.kind, self.0.message)?;
        if self.0.attempts > 1 {
            write!(
                f,
                " (after {} attempts in {:?})",
                self.0.attempts, self.0.elapsed
            )?;
        }
        if f.alternate() {
            let mut cause: Option<&(dyn std::error::Error + 'static)> =
                std::error::Error::source(self);
            // A chain of causes is finite in practice; the bound keeps a cyclic one harmless.
            for _ in 0..MAX_CAUSES {
                let Some(current) = cause else { break };
                let text = current.to_string();
                if text != self.0.message {
                    write!(f, "; caused by: {text}")?;
                }
                cause = current.source();
            }
        }
        Ok(())
    }
}

const MAX_CAUSES: usize = 16;

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:#}")
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

/// What a user's own error type says about itself, so that `?` turns it into an [`Error`].
///
/// ```
/// use kafka_chain::{Classify, Error, ErrorKind, Status};
///
/// #[derive(Debug, thiserror::Error)]
/// #[error("key service answered {0}")]
/// struct KeyService(u16);
///
/// impl Classify for KeyService {
///     fn status(&self) -> Status {
///         if self.0 >= 500 { Status::Temporary } else { Status::Permanent }
///     }
///     fn kind(&self) -> ErrorKind {
///         ErrorKind::Unavailable
///     }
/// }
///
/// fn fetch() -> kafka_chain::Result<()> {
///     Err(KeyService(503))?
/// }
/// assert_eq!(fetch().unwrap_err().status(), Status::Temporary);
/// ```
pub trait Classify: std::error::Error + Send + Sync + 'static {
    /// Whether trying again helps.
    fn status(&self) -> Status;

    /// What went wrong; [`ErrorKind::Other`] unless the type knows better.
    fn kind(&self) -> ErrorKind {
        ErrorKind::Other
    }
}

impl<E: Classify> From<E> for Error {
    fn from(error: E) -> Self {
        Error::wrapping(error.kind(), error.status(), Box::new(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_word() {
        assert_eq!(size_of::<Error>(), size_of::<usize>());
        assert_eq!(size_of::<Result<u64>>(), 16);
    }

    #[test]
    fn display_is_one_line_with_path_status_kind_and_message() {
        let error = Error::decrypt("authentication tag does not match")
            .at("aes-gcm")
            .at("pipe.from")
            .at("retry");
        assert_eq!(
            error.to_string(),
            "retry > pipe.from > aes-gcm: permanent decrypt: authentication tag does not match"
        );
        assert_eq!(error.stage_path(), "retry > pipe.from > aes-gcm");
    }

    #[test]
    fn alternate_display_adds_the_causes_and_attempts() {
        let cause = std::io::Error::other("connection reset");
        let error = Error::unavailable("key service did not answer")
            .with_source(cause)
            .with_attempts(4, Duration::from_millis(1500))
            .with_status(Status::Exhausted);
        assert_eq!(
            format!("{error:#}"),
            "exhausted unavailable: key service did not answer (after 4 attempts in 1.5s); \
             caused by: connection reset"
        );
    }
}
