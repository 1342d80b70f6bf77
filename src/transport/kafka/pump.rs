//! The consumer's polling loop, apart from librdkafka so that its answers to errors can be tried.

use super::errors;
use crate::error::{Error, Result};
use crate::status::Status;
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use std::time::Duration;

/// The longest wait between two polls while errors repeat.
pub(super) const LONGEST_WAIT: Duration = Duration::from_millis(500);
const SHORTEST_WAIT: Duration = Duration::from_millis(5);

/// What the loop polls and where it gives what it found.
pub(super) trait Pump {
    /// A record.
    type Record;
    /// A record or an error, or neither within the poll's own short limit.
    fn poll(&mut self) -> Option<Result<Self::Record, KafkaError>>;
    /// Hands over; false when nobody takes any more.
    fn give(&mut self, item: Result<Self::Record>) -> bool;
    /// Notes an error that is expected to pass.
    fn warn(&mut self, warning: Error);
    /// Waits, or less when the loop is to stop.
    fn wait(&mut self, time: Duration);
    /// Whether the loop is to stop.
    fn stopped(&self) -> bool;
}

/// Polls until stopped or until an error that does not pass, which is given last.
///
/// librdkafka cures most errors itself (it reconnects, rejoins the group, finds the new leader):
/// they are noted, and the loop goes on, slower while they repeat so that it never spins.
pub(super) fn run<P: Pump>(pump: &mut P) {
    let mut wait = Duration::ZERO;
    while !pump.stopped() {
        match pump.poll() {
            None => {}
            Some(Ok(record)) => {
                wait = Duration::ZERO;
                if !pump.give(Ok(record)) {
                    return;
                }
            }
            // Not an error: news that the end was reached, at most once a partition and record.
            Some(Err(KafkaError::PartitionEOF(_))) => {}
            Some(Err(cause)) => {
                let error = errors::from_kafka("could not consume", &cause);
                if ends(&cause, &error) {
                    pump.give(Err(error));
                    return;
                }
                pump.warn(error);
                wait = (wait * 2).clamp(SHORTEST_WAIT, LONGEST_WAIT);
                pump.wait(wait);
            }
        }
    }
}

/// Only what librdkafka calls fatal, what a missing right or wrong secret causes, and a partition
/// without an offset when `auto.offset.reset=error` asks for that.
pub(super) fn ends(cause: &KafkaError, error: &Error) -> bool {
    match cause {
        KafkaError::MessageConsumptionFatal(_) => true,
        // A record that librdkafka cannot read is skipped by it only with a CRC error; whatever
        // else is permanent would come again for ever.
        _ => {
            error.status() == Status::Permanent
                && !matches!(
                    cause.rdkafka_error_code(),
                    Some(Code::BadMessage | Code::BadCompression | Code::SSL)
                )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    #[derive(Default)]
    struct Script {
        polls: VecDeque<Option<Result<u8, KafkaError>>>,
        given: Vec<Result<u8>>,
        warnings: usize,
        waits: Vec<Duration>,
    }

    impl Pump for Script {
        type Record = u8;
        fn poll(&mut self) -> Option<Result<u8, KafkaError>> {
            self.polls.pop_front().flatten()
        }
        fn give(&mut self, item: Result<u8>) -> bool {
            self.given.push(item);
            true
        }
        fn warn(&mut self, _: Error) {
            self.warnings += 1;
        }
        fn wait(&mut self, time: Duration) {
            self.waits.push(time);
        }
        fn stopped(&self) -> bool {
            self.polls.is_empty()
        }
    }

    fn failing(code: Code) -> Option<Result<u8, KafkaError>> {
        Some(Err(KafkaError::MessageConsumption(code)))
    }

    /// FC-048.
    #[test]
    fn passing_errors_do_not_end_the_loop_and_a_fatal_one_does() {
        let mut script = Script {
            polls: [
                failing(Code::BrokerTransportFailure),
                failing(Code::AllBrokersDown),
                failing(Code::PollExceeded),
                Some(Err(KafkaError::PartitionEOF(0))),
                None,
                Some(Ok(1)),
                Some(Ok(2)),
                Some(Err(KafkaError::MessageConsumptionFatal(Code::Fatal))),
                Some(Ok(3)),
            ]
            .into(),
            ..Script::default()
        };
        run(&mut script);
        assert_eq!(script.warnings, 3);
        let [Ok(1), Ok(2), Err(fatal)] = script.given.as_slice() else {
            panic!("{:?}", script.given);
        };
        assert_eq!(fatal.status(), Status::Permanent);
        assert_eq!(
            script.polls.len(),
            1,
            "nothing is polled after a fatal error"
        );
    }

    /// FC-048: no busy spin while errors repeat.
    #[test]
    fn repeating_errors_slow_the_loop_down_and_a_record_resets_it() {
        let mut script = Script::default();
        for _ in 0..100 {
            script.polls.push_back(failing(Code::AllBrokersDown));
        }
        script.polls.push_back(Some(Ok(1)));
        script.polls.push_back(failing(Code::AllBrokersDown));
        run(&mut script);
        assert_eq!(script.waits.len(), 101);
        assert!(script.waits[..100].is_sorted());
        assert_eq!(script.waits[99], LONGEST_WAIT);
        assert_eq!(script.waits[100], SHORTEST_WAIT);
    }

    #[test]
    fn a_missing_right_and_a_missing_offset_end_the_loop() {
        for code in [
            Code::GroupAuthorizationFailed,
            Code::Authentication,
            Code::AutoOffsetReset,
        ] {
            let mut script = Script {
                polls: [failing(code), Some(Ok(1))].into(),
                ..Script::default()
            };
            run(&mut script);
            assert!(matches!(script.given.as_slice(), [Err(_)]), "{code:?}");
        }
    }
}
