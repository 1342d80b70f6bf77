//! librdkafka's errors as ours.

use crate::error::Error;
use crate::status::{ErrorKind, Status};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};

/// The error of `doing` (what was tried, with the topic's name where there is one).
///
/// Temporary unless the code says that this record (or call) never succeeds; kind Config when no
/// record would until somebody changes rights or settings.
pub(super) fn error(doing: &str, code: Code) -> Error {
    let (kind, status) = classify(code);
    Error::new(kind, status, format!("{doing}: {code}"))
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
