//! What becomes of a record that failed: one pure function.

use crate::backoff::{Backoff, SharedBackoff};
use crate::error::Error;
use crate::matcher::{Matcher, SharedMatcher};
use crate::status::{ErrorKind, Status};
use std::time::Duration;

/// What is to be done with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is finished.
    Done,
    /// It goes to the dead-letter topic, and is finished when that is acknowledged.
    DeadLetter,
    /// It is delivered again, not before this long from now, and is finished here when that is
    /// acknowledged.
    Delay(Duration),
    /// It is not finished: its partition pauses, and the record is tried again until it succeeds.
    Pause,
    /// It is not finished: the pipeline stops.
    Stop,
}

impl Verdict {
    /// The stable lower-case name used in events and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Verdict::Done => "done",
            Verdict::DeadLetter => "dead-letter",
            Verdict::Delay(_) => "delay",
            Verdict::Pause => "pause",
            Verdict::Stop => "stop",
        }
    }
}

/// What becomes of a record whose retries gave up (`on.exhausted`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnExhausted {
    /// To the dead-letter topic, up to a [limit](Limits::exhausted) in a row.
    #[default]
    DeadLetter,
    /// Pause and probe.
    Pause,
    /// Stop the pipeline.
    Stop,
}

impl OnExhausted {
    /// Every choice.
    pub const ALL: [OnExhausted; 3] = [
        OnExhausted::DeadLetter,
        OnExhausted::Pause,
        OnExhausted::Stop,
    ];

    /// The value of `on.exhausted`.
    pub const fn as_str(self) -> &'static str {
        match self {
            OnExhausted::DeadLetter => "dead-letter",
            OnExhausted::Pause => "pause",
            OnExhausted::Stop => "stop",
        }
    }

    /// The choice with this name, if there is one.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|choice| choice.as_str() == name)
    }
}

/// How many records of a partition may be dead-lettered before that looks like an outage or a
/// mistake rather than like bad records.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// How many Exhausted ones in a row, with no success between (`dead.letter.limit.exhausted`,
    /// default 3); 0 is no limit.
    pub exhausted: u32,
    /// How many of any status in a row, with no success between (`dead.letter.limit.consecutive`,
    /// default 1,000); 0 is no limit.
    pub consecutive: u32,
    /// Which share of the latest records; none by default.
    pub ratio: Option<Ratio>,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            exhausted: 3,
            consecutive: 1_000,
            ratio: None,
        }
    }
}

/// A limit over a window of the latest records of a partition.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// How many records the window has; nothing is limited before it is full.
    pub window: u16,
    /// The share of them, between 0 and 1, that may be dead-lettered.
    pub share: f64,
}

/// How failures are judged. The default loses nothing and fills no dead-letter topic in an outage.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// What becomes of Exhausted records.
    pub on_exhausted: OnExhausted,
    /// Errors whose records count as finished: they are dropped. None by default.
    pub ignore: Option<SharedMatcher>,
    /// How long an Exhausted record is put aside before each further delivery; when this ends, or
    /// without it, `on_exhausted` says.
    pub delay: Option<SharedBackoff>,
    /// When dead-lettering turns into pause and probe; the
    /// [state of a partition](super::PartitionState) holds this.
    pub limits: Limits,
}

/// Judges a failure of a record that was tried `attempts` times; for a policy that delays, of its
/// `attempts`-th delivery.
///
/// | error | verdict |
/// |---|---|
/// | of kind Config | Stop: a wiring mistake is no record's fault |
/// | that the policy ignores | Done |
/// | Permanent | DeadLetter |
/// | Temporary, so not retried | Pause |
/// | Exhausted | Delay while the policy has one, else as `on_exhausted` says |
pub fn judge(error: &Error, attempts: u32, policy: &Policy) -> Verdict {
    if error.kind() == ErrorKind::Config {
        return Verdict::Stop;
    }
    if policy.ignore.as_ref().is_some_and(|m| m.matches(error)) {
        return Verdict::Done;
    }
    match error.status() {
        Status::Permanent => Verdict::DeadLetter,
        Status::Temporary => Verdict::Pause,
        Status::Exhausted => {
            let delay = policy.delay.as_ref();
            match (
                delay.and_then(|delay| delay.wait(attempts, 1.0)),
                policy.on_exhausted,
            ) {
                (Some(wait), _) => Verdict::Delay(wait),
                (None, OnExhausted::DeadLetter) => Verdict::DeadLetter,
                (None, OnExhausted::Pause) => Verdict::Pause,
                (None, OnExhausted::Stop) => Verdict::Stop,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backoff::List;

    fn of(kind: ErrorKind, status: Status) -> Error {
        Error::new(kind, status, "no")
    }

    #[test]
    fn every_status_and_kind_has_its_verdict() {
        for kind in ErrorKind::ALL {
            for status in Status::ALL {
                for on_exhausted in OnExhausted::ALL {
                    let policy = Policy {
                        on_exhausted,
                        ..Policy::default()
                    };
                    let expected = match (kind, status, on_exhausted) {
                        (ErrorKind::Config, _, _) => Verdict::Stop,
                        (_, Status::Permanent, _) => Verdict::DeadLetter,
                        (_, Status::Temporary, _) => Verdict::Pause,
                        (_, Status::Exhausted, OnExhausted::DeadLetter) => Verdict::DeadLetter,
                        (_, Status::Exhausted, OnExhausted::Pause) => Verdict::Pause,
                        (_, Status::Exhausted, OnExhausted::Stop) => Verdict::Stop,
                    };
                    let error = of(kind, status);
                    assert_eq!(judge(&error, 1, &policy), expected, "{error}");
                }
            }
        }
    }

    #[test]
    fn attempts_alone_change_no_default_verdict() {
        let error = of(ErrorKind::Other, Status::Temporary);
        for attempts in [0, 1, 5, u32::MAX] {
            assert_eq!(judge(&error, attempts, &Policy::default()), Verdict::Pause);
        }
    }

    #[test]
    fn what_is_ignored_is_finished_unless_the_wiring_is_wrong() {
        let policy = Policy {
            ignore: Some(SharedMatcher::new(|_: &Error| true)),
            ..Policy::default()
        };
        let judged = |kind| judge(&of(kind, Status::Permanent), 1, &policy);
        assert_eq!(judged(ErrorKind::Schema), Verdict::Done);
        assert_eq!(judged(ErrorKind::Config), Verdict::Stop);
    }

    #[test]
    fn an_exhausted_record_is_delayed_until_the_delays_end() {
        let waits = [Duration::from_secs(60), Duration::from_secs(600)];
        let policy = Policy {
            delay: Some(SharedBackoff::new(List::new(waits).unwrap())),
            ..Policy::default()
        };
        let judged = |status, attempts| judge(&of(ErrorKind::Other, status), attempts, &policy);
        assert_eq!(judged(Status::Exhausted, 1), Verdict::Delay(waits[0]));
        assert_eq!(judged(Status::Exhausted, 2), Verdict::Delay(waits[1]));
        assert_eq!(judged(Status::Exhausted, 3), Verdict::DeadLetter);
        assert_eq!(judged(Status::Permanent, 1), Verdict::DeadLetter);
        assert_eq!(judged(Status::Temporary, 1), Verdict::Pause);
    }

    #[test]
    fn names_round_trip() {
        for choice in OnExhausted::ALL {
            assert_eq!(OnExhausted::from_name(choice.as_str()), Some(choice));
        }
        assert_eq!(OnExhausted::from_name("skip"), None);
    }
}
