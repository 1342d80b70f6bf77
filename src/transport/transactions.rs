//! What may become of a transaction.

use crate::error::Error;
use std::fmt;

/// Why a transaction was not committed, and what helps. The text names topics, never a payload.
#[derive(Debug)]
pub enum TransactionError {
    /// Nothing of it is visible, nothing of it was committed, and the same producer can try again.
    Aborted {
        /// Why.
        error: Error,
        /// The index of the one record that is to blame, where there is one: it is too large, its
        /// topic or partition does not exist, writing there is not allowed.
        record: Option<usize>,
    },
    /// Nothing of it was committed, and this producer is over: another took its transactional id, or
    /// it met an error that does not pass. A new producer can try again.
    Fatal(Error),
    /// The commit was asked for and not answered for certain: it may or may not have happened. This
    /// producer is over. Once a new one of the same transactional id is ready, nothing is pending any
    /// more, and the group's committed offsets tell which it was.
    InDoubt(Error),
}

impl TransactionError {
    /// The cause.
    pub fn error(&self) -> &Error {
        match self {
            TransactionError::Aborted { error, .. }
            | TransactionError::Fatal(error)
            | TransactionError::InDoubt(error) => error,
        }
    }

    /// The cause, owned.
    pub fn into_error(self) -> Error {
        match self {
            TransactionError::Aborted { error, .. }
            | TransactionError::Fatal(error)
            | TransactionError::InDoubt(error) => error,
        }
    }
}

impl fmt::Display for TransactionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self {
            TransactionError::Aborted { .. } => "aborted",
            TransactionError::Fatal(_) => "failed for good",
            TransactionError::InDoubt(_) => "in doubt",
        };
        write!(f, "transaction {what}: {}", self.error())
    }
}

impl std::error::Error for TransactionError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(self.error())
    }
}
