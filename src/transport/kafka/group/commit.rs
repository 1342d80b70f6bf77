//! What is to be committed, and what became of it.

use super::period::OwnedPartition;
use crate::error::Error;
use crate::transport::kafka::errors;
use rdkafka::error::RDKafkaErrorCode as Code;
use std::fmt;

/// An offset to commit: the one after the last that is done.
#[derive(Clone, PartialEq, Eq)]
pub struct Commit {
    /// The partition, in the ownership in which the records were done.
    pub partition: OwnedPartition,
    /// The next offset to be delivered to whoever owns the partition next.
    pub offset: i64,
    /// Kept by the group's coordinator with the offset (its limit is 4,096 bytes by default).
    pub metadata: Option<String>,
}

impl Commit {
    /// Everything of `partition` below `offset` is done.
    pub fn new(partition: OwnedPartition, offset: i64) -> Self {
        Commit {
            partition,
            offset,
            metadata: None,
        }
    }
}

impl fmt::Debug for Commit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.partition, self.offset)
    }
}

/// What became of each offset, in the order in which they were given.
pub type CommitResults = Vec<Result<(), CommitError>>;

/// Why an offset was not committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CommitFailure {
    /// The ownership is over: nothing was sent, and nothing may be sent again.
    NotOwned,
    /// The group is being rebalanced.
    Rebalancing,
    /// The group goes by a generation or member that is not ours. What is still ours after the next
    /// rebalance can be committed then; of what is not, [`NotOwned`](Self::NotOwned) tells.
    Generation,
    /// The coordinator moves, loads or cannot be reached.
    Coordinator,
    /// No answer in time, or the connection broke.
    Timeout,
    /// Refused for a reason that stays: a missing right, metadata too large, a fatal error.
    Refused,
}

impl CommitFailure {
    /// Whether the same commit may succeed later.
    pub const fn try_again(self) -> bool {
        !matches!(self, CommitFailure::NotOwned | CommitFailure::Refused)
    }

    /// The stable lower-case name used in events and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            CommitFailure::NotOwned => "not-owned",
            CommitFailure::Rebalancing => "rebalancing",
            CommitFailure::Generation => "generation",
            CommitFailure::Coordinator => "coordinator",
            CommitFailure::Timeout => "timeout",
            CommitFailure::Refused => "refused",
        }
    }

    /// By the broker's or librdkafka's code.
    fn of(code: Code) -> Self {
        match code {
            Code::RebalanceInProgress => CommitFailure::Rebalancing,
            Code::IllegalGeneration
            | Code::UnknownMemberId
            | Code::StaleMemberEpoch
            | Code::FencedMemberEpoch
            | Code::AssignmentLost => CommitFailure::Generation,
            Code::CoordinatorLoadInProgress
            | Code::CoordinatorNotAvailable
            | Code::NotCoordinator
            | Code::WaitingForCoordinator => CommitFailure::Coordinator,
            Code::OffsetMetadataTooLarge => CommitFailure::Refused,
            code => match errors::error("", code).status() {
                crate::status::Status::Temporary => CommitFailure::Timeout,
                _ => CommitFailure::Refused,
            },
        }
    }
}

/// One offset that was not committed. Its text names topic, partition, offset and code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitError {
    /// What was to be committed.
    pub commit: Commit,
    /// Why it was not, and what helps.
    pub failure: CommitFailure,
    code: Option<Code>,
}

impl CommitError {
    pub(super) fn not_owned(commit: Commit) -> Self {
        CommitError {
            commit,
            failure: CommitFailure::NotOwned,
            code: None,
        }
    }

    /// What the code means for this commit; that there was nothing to commit is no error.
    pub(super) fn of(commit: Commit, code: Code) -> Result<(), Self> {
        match code {
            Code::NoError | Code::NoOffset => Ok(()),
            code => Err(CommitError {
                commit,
                failure: CommitFailure::of(code),
                code: Some(code),
            }),
        }
    }
}

impl fmt::Display for CommitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Commit {
            partition, offset, ..
        } = &self.commit;
        write!(
            f,
            "could not commit offset {offset} of {} [{}]: ",
            partition.topic, partition.partition
        )?;
        match self.code {
            Some(code) => write!(f, "{code:?}"),
            None => f.write_str("the partition is no longer ours"),
        }
    }
}

impl std::error::Error for CommitError {}

impl From<CommitError> for Error {
    fn from(error: CommitError) -> Self {
        match error.failure.try_again() {
            true => Error::temporary(error),
            false => Error::permanent(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commit() -> Commit {
        let partition = OwnedPartition {
            topic: "orders".into(),
            partition: 3,
            ownership: 7,
        };
        Commit::new(partition, 42)
    }

    /// FC-071.
    #[test]
    fn each_code_says_whether_to_try_again() {
        let cases = [
            (Code::RebalanceInProgress, CommitFailure::Rebalancing, true),
            (Code::IllegalGeneration, CommitFailure::Generation, true),
            (Code::UnknownMemberId, CommitFailure::Generation, true),
            (
                Code::CoordinatorLoadInProgress,
                CommitFailure::Coordinator,
                true,
            ),
            (Code::NotCoordinator, CommitFailure::Coordinator, true),
            (Code::OperationTimedOut, CommitFailure::Timeout, true),
            (Code::RequestTimedOut, CommitFailure::Timeout, true),
            (Code::BrokerTransportFailure, CommitFailure::Timeout, true),
            (
                Code::GroupAuthorizationFailed,
                CommitFailure::Refused,
                false,
            ),
            (Code::OffsetMetadataTooLarge, CommitFailure::Refused, false),
            (Code::FencedInstanceId, CommitFailure::Refused, false),
        ];
        for (code, failure, again) in cases {
            let error = CommitError::of(commit(), code).unwrap_err();
            assert_eq!(error.failure, failure, "{code:?}");
            assert_eq!(error.failure.try_again(), again, "{code:?}");
        }
        assert_eq!(CommitError::of(commit(), Code::NoOffset), Ok(()));
        assert_eq!(CommitError::of(commit(), Code::NoError), Ok(()));
    }

    /// FC-071: the line names topic, partition, offset and code.
    #[test]
    fn an_error_names_what_and_why() {
        let text = CommitError::of(commit(), Code::IllegalGeneration)
            .unwrap_err()
            .to_string();
        assert_eq!(
            text,
            "could not commit offset 42 of orders [3]: IllegalGeneration"
        );
    }
}
