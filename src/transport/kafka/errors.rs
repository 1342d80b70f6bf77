//! librdkafka's errors as ours.

use crate::error::Error;
use crate::status::{ErrorKind, Status};
use crate::transport::WriteFailure;
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};

/// The error of `doing` (what was tried, with the topic's name where there is one).
///
/// Temporary unless the code says that this record (or call) never succeeds; kind Config when no
/// record would until somebody changes rights or settings.
pub(super) fn error(doing: &str, code: Code) -> Error {
    let (kind, status) = classify(code);
    Error::new(kind, status, format!("{doing}: {code}"))
}

/// The error of a write to `topic`, or of a look at it by one who is to write there: names the right
/// that is missing, and has a [`WriteFailure`] as its source.
pub(super) fn of_write(doing: &str, topic: &str, code: Code) -> Error {
    let right = match code {
        Code::TopicAuthorizationFailed => format!(" (the right Write on Topic:{topic} is missing)"),
        Code::ClusterAuthorizationFailed => {
            format!(" (the right Write on Topic:{topic} or IdempotentWrite on Cluster is missing)")
        }
        _ => String::new(),
    };
    let error = error(&format!("{doing} topic {topic}{right}"), code);
    match write_failure(code) {
        Some(failure) => error.with_source(failure),
        None => error,
    }
}

fn write_failure(code: Code) -> Option<WriteFailure> {
    Some(match code {
        Code::MessageSizeTooLarge | Code::MessageBatchTooLarge => WriteFailure::TooLarge,
        Code::InvalidDifferentRecord => WriteFailure::BatchRefused,
        Code::InvalidTimestamp => WriteFailure::InvalidTimestamp,
        Code::UnknownTopic | Code::UnknownTopicOrPartition => WriteFailure::UnknownTopic,
        Code::UnknownPartition => WriteFailure::UnknownPartition,
        Code::TopicAuthorizationFailed
        | Code::ClusterAuthorizationFailed
        | Code::SaslAuthenticationFailed
        | Code::Authentication => WriteFailure::Unauthorized,
        Code::Fatal
        | Code::Fenced
        | Code::ProducerFenced
        | Code::InvalidProducerEpoch
        | Code::InvalidProducerIdMapping
        | Code::OutOfOrderSequenceNumber
        | Code::UnknownProducerId
        | Code::GaplessGuarantee => WriteFailure::Fatal,
        _ => return None,
    })
}

/// As [`error`]; what librdkafka says about a setting is left out, for it may quote the value.
pub(super) fn from_kafka(doing: &str, cause: &KafkaError) -> Error {
    match cause {
        KafkaError::ClientConfig(_, _, name, _) => {
            Error::config(format!("{doing}: the value of {name} is not accepted"))
        }
        // Neither names a value: it is about combinations of settings and missing files.
        KafkaError::ClientCreation(text) => Error::config(format!("{doing}: {text}")),
        KafkaError::Nul(_) => Error::config(format!("{doing}: a name contains NUL")),
        KafkaError::MessageConsumptionFatal(code) => {
            error(doing, *code).with_status(Status::Permanent)
        }
        cause => match cause.rdkafka_error_code() {
            Some(code) => error(doing, code),
            None => Error::unavailable(format!("{doing}: {cause}")),
        },
    }
}

fn classify(code: Code) -> (ErrorKind, Status) {
    match code {
        Code::TopicAuthorizationFailed
        | Code::GroupAuthorizationFailed
        | Code::ClusterAuthorizationFailed
        | Code::TransactionalIdAuthorizationFailed
        | Code::DelegationTokenAuthorizationFailed
        | Code::SaslAuthenticationFailed
        | Code::Authentication
        | Code::UnsupportedSASLMechanism
        | Code::IllegalSASLState
        | Code::SecurityDisabled
        | Code::SSL
        | Code::InvalidConfig
        | Code::InvalidRequiredAcks
        | Code::InvalidSessionTimeout
        | Code::InvalidGroupId
        | Code::InvalidReplicationFactor
        | Code::InvalidPartitions
        | Code::InconsistentGroupProtocol
        | Code::UnsupportedVersion
        | Code::UnsupportedFeature
        | Code::NotConfigured
        | Code::UnknownGroup => (ErrorKind::Config, Status::Permanent),
        Code::MessageSizeTooLarge
        | Code::InvalidMessage
        | Code::InvalidMessageSize
        | Code::InvalidRecord
        | Code::InvalidTimestamp
        | Code::InvalidTopic
        | Code::UnknownPartition
        | Code::InvalidArgument
        | Code::InvalidRequest
        | Code::BadMessage
        | Code::MessageBatchTooLarge
        | Code::UnsupportedForMessageFormat
        | Code::UnsupportedCompressionType
        | Code::BadCompression
        | Code::PolicyViolation
        | Code::AutoOffsetReset
        | Code::Fatal
        | Code::Fenced
        | Code::FencedInstanceId
        | Code::ProducerFenced
        | Code::InvalidProducerEpoch
        | Code::InvalidProducerIdMapping => (ErrorKind::Other, Status::Permanent),
        Code::MessageTimedOut
        | Code::OperationTimedOut
        | Code::RequestTimedOut
        | Code::TimedOutQueue
        | Code::QueueFull => (ErrorKind::Timeout, Status::Temporary),
        _ => (ErrorKind::Unavailable, Status::Temporary),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_say_whether_trying_again_helps() {
        let cases = [
            (
                Code::MessageSizeTooLarge,
                ErrorKind::Other,
                Status::Permanent,
            ),
            (Code::InvalidTopic, ErrorKind::Other, Status::Permanent),
            (
                Code::TopicAuthorizationFailed,
                ErrorKind::Config,
                Status::Permanent,
            ),
            (Code::MessageTimedOut, ErrorKind::Timeout, Status::Temporary),
            (
                Code::BrokerTransportFailure,
                ErrorKind::Unavailable,
                Status::Temporary,
            ),
            (
                Code::UnknownTopicOrPartition,
                ErrorKind::Unavailable,
                Status::Temporary,
            ),
            (
                Code::UnknownTopic,
                ErrorKind::Unavailable,
                Status::Temporary,
            ),
            (
                Code::NotEnoughReplicas,
                ErrorKind::Unavailable,
                Status::Temporary,
            ),
        ];
        for (code, kind, status) in cases {
            let error = error("could not write to dlq", code);
            assert_eq!((error.kind(), error.status()), (kind, status), "{code:?}");
            assert!(error.to_string().contains("dlq"));
        }
    }

    #[test]
    fn a_write_names_its_topic_and_the_right_that_is_missing() {
        let error = |code| of_write("could not write to", "dlq", code);
        let missing = error(Code::TopicAuthorizationFailed);
        assert!(
            missing.message().contains("Write on Topic:dlq"),
            "{missing}"
        );
        let cases = [
            (
                Code::TopicAuthorizationFailed,
                Some(WriteFailure::Unauthorized),
            ),
            (Code::MessageSizeTooLarge, Some(WriteFailure::TooLarge)),
            (Code::MessageBatchTooLarge, Some(WriteFailure::TooLarge)),
            (
                Code::InvalidDifferentRecord,
                Some(WriteFailure::BatchRefused),
            ),
            (Code::UnknownTopic, Some(WriteFailure::UnknownTopic)),
            (Code::Fatal, Some(WriteFailure::Fatal)),
            (Code::MessageTimedOut, None),
        ];
        for (code, failure) in cases {
            let error = error(code);
            assert_eq!(WriteFailure::of(&error), failure, "{code:?}");
            assert!(error.message().contains("topic dlq"), "{error}");
        }
    }

    #[test]
    fn a_refused_setting_is_named_without_its_value() {
        let cause = KafkaError::ClientConfig(
            rdkafka::types::RDKafkaConfRes::RD_KAFKA_CONF_INVALID,
            "Invalid value \"hunter2\"".into(),
            "sasl.password".into(),
            "hunter2".into(),
        );
        let text = from_kafka("could not start", &cause).to_string();
        assert!(
            text.contains("sasl.password") && !text.contains("hunter2"),
            "{text}"
        );
    }
}
