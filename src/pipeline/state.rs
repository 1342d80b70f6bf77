//! The state of a partition: streaks of dead letters, and pause and probe.

use super::verdict::{Limits, Ratio, Verdict};
use crate::status::Status;
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

/// The longest wait between two tries of a probe, and so how late an end of an outage is seen. The
/// retries of its chain wait no longer either, whatever their backoff says.
pub const MAX_PROBE_WAIT: Duration = Duration::from_secs(1);

/// The wait before a probe's first try.
const FIRST_PROBE_WAIT: Duration = Duration::from_millis(100);

/// Why a partition pauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PauseReason {
    /// A record failed with a Temporary error that nothing retried: an outage.
    Temporary,
    /// Too many Exhausted records in a row, or the policy pauses at the first one.
    Exhausted,
    /// The flood breaker: too many dead letters in a row, or too large a share of the latest records.
    Flood,
    /// An output, a dead letter, or a copy for later could not be written.
    Unwritten,
}

impl PauseReason {
    /// All of them, in the order in which they are declared.
    pub(super) const ALL: [PauseReason; 4] = [
        PauseReason::Temporary,
        PauseReason::Exhausted,
        PauseReason::Flood,
        PauseReason::Unwritten,
    ];

    /// The stable lower-case name used in events, metrics and health.
    pub const fn as_str(self) -> &'static str {
        match self {
            PauseReason::Temporary => "temporary",
            PauseReason::Exhausted => "exhausted",
            PauseReason::Flood => "flood",
            PauseReason::Unwritten => "unwritten",
        }
    }
}

/// The record that is tried again while a partition pauses: the lowest that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Its offset.
    pub offset: i64,
    /// How long to wait before its next try.
    pub wait: Duration,
}

/// What a partition remembers between records: pure, without a clock.
///
/// It flows, or it pauses. While it pauses nothing new is taken, work in flight finishes, and one
/// record, the lowest failed one, is tried again. The pause ends when that succeeds, when nothing
/// failed is left because the last of it turned out Permanent and was dead-lettered, or when a user
/// resumes. What is held then goes again, in order.
///
/// Only successes of records end a streak: a dead letter written late ends a pause, not a streak.
#[derive(Clone, Debug)]
pub struct PartitionState {
    limits: Limits,
    exhausted: u32,
    dead_letters: u32,
    latest: Latest,
    pause: Option<Pause>,
}

/// Which of the latest records were dead-lettered, as far as a ratio asks.
#[derive(Clone, Debug, Default)]
struct Latest {
    bad: VecDeque<bool>,
    count: u32,
}

#[derive(Clone, Debug)]
struct Pause {
    reason: PauseReason,
    failed: BTreeSet<i64>,
    tries: u32,
}

impl PartitionState {
    /// Flowing, with no record seen.
    pub fn new(limits: Limits) -> Self {
        PartitionState {
            limits,
            exhausted: 0,
            dead_letters: 0,
            latest: Latest::default(),
            pause: None,
        }
    }

    /// Why it pauses, if it does.
    pub fn paused(&self) -> Option<PauseReason> {
        self.pause.as_ref().map(|pause| pause.reason)
    }

    /// The record to try again, while it pauses.
    pub fn probe(&self) -> Option<Probe> {
        let pause = self.pause.as_ref()?;
        let offset = *pause.failed.first()?;
        let factor = 1_u32.checked_shl(pause.tries).unwrap_or(u32::MAX);
        let wait = FIRST_PROBE_WAIT.saturating_mul(factor).min(MAX_PROBE_WAIT);
        Some(Probe { offset, wait })
    }

    /// How many records failed and are held.
    pub fn held(&self) -> usize {
        self.pause.as_ref().map_or(0, |pause| pause.failed.len())
    }

    /// The record was handled.
    pub fn succeeded(&mut self, offset: i64) {
        self.exhausted = 0;
        self.dead_letters = 0;
        if self.release_by(offset) == Some(PauseReason::Flood) {
            self.latest = Latest::default();
        }
        self.remember(false);
    }

    /// The record failed and was judged; what is to be done with it here and now. `Pause` says that
    /// it is held, whatever the verdict was.
    #[must_use]
    pub fn failed(&mut self, offset: i64, verdict: Verdict, status: Status) -> Verdict {
        match verdict {
            Verdict::Stop => Verdict::Stop,
            Verdict::Pause if status == Status::Exhausted => {
                self.hold(offset, PauseReason::Exhausted)
            }
            Verdict::Pause => self.hold(offset, PauseReason::Temporary),
            Verdict::Done => {
                self.settled(offset);
                Verdict::Done
            }
            // An outage: the record waits here, where its order is kept.
            Verdict::Delay(_) if self.pause.is_some() => self.hold(offset, PauseReason::Exhausted),
            Verdict::Delay(wait) => {
                self.settled(offset);
                Verdict::Delay(wait)
            }
            Verdict::DeadLetter => match self.forbids(status) {
                Some(reason) => self.hold(offset, reason),
                None => {
                    self.dead_letters = self.dead_letters.saturating_add(1);
                    if status == Status::Exhausted {
                        self.exhausted = self.exhausted.saturating_add(1);
                    }
                    self.remember(true);
                    self.settled(offset);
                    Verdict::DeadLetter
                }
            },
        }
    }

    /// The record's dead letter, or its copy for later, could not be written: it is held.
    pub fn unwritten(&mut self, offset: i64) {
        self.hold(offset, PauseReason::Unwritten);
    }

    /// The record's dead letter, or its copy for later, was written after all.
    pub fn written(&mut self, offset: i64) {
        self.release_by(offset);
    }

    /// A user says to go on: ends the pause and all streaks. False when it was not paused.
    pub fn resume(&mut self) -> bool {
        self.exhausted = 0;
        self.dead_letters = 0;
        self.latest = Latest::default();
        self.pause.take().is_some()
    }

    fn forbids(&self, status: Status) -> Option<PauseReason> {
        let over = |streak: u32, limit: u32| limit > 0 && streak >= limit;
        if self.paused() == Some(PauseReason::Flood)
            || over(self.dead_letters, self.limits.consecutive)
            || self.ratio_reached()
        {
            Some(PauseReason::Flood)
        } else if status == Status::Exhausted
            && (self.pause.is_some() || over(self.exhausted, self.limits.exhausted))
        {
            Some(PauseReason::Exhausted)
        } else {
            None
        }
    }

    /// Whether one more dead letter would exceed the share.
    fn ratio_reached(&self) -> bool {
        let Some(Ratio { window, share }) = self.limits.ratio else {
            return false;
        };
        if window == 0 || self.latest.bad.len() < usize::from(window) {
            return false;
        }
        let leaves = u32::from(self.latest.bad.front() == Some(&true));
        let bad = self.latest.count + 1 - leaves;
        f64::from(bad) > share * f64::from(window)
    }

    fn remember(&mut self, bad: bool) {
        let Some(Ratio { window, .. }) = self.limits.ratio else {
            return;
        };
        while self.latest.bad.len() >= usize::from(window.max(1)) {
            self.latest.count -= u32::from(self.latest.bad.pop_front() == Some(true));
        }
        self.latest.bad.push_back(bad);
        self.latest.count += u32::from(bad);
    }

    fn hold(&mut self, offset: i64, reason: PauseReason) -> Verdict {
        let pause = self.pause.get_or_insert_with(|| Pause {
            reason,
            failed: BTreeSet::new(),
            tries: 0,
        });
        if reason == PauseReason::Flood {
            pause.reason = reason;
        }
        if !pause.failed.insert(offset) {
            pause.tries = pause.tries.saturating_add(1);
        }
        Verdict::Pause
    }

    /// The record needs no more tries, though it did not succeed: the next failed one is the probe.
    fn settled(&mut self, offset: i64) {
        if let Some(pause) = &mut self.pause
            && pause.failed.remove(&offset)
        {
            pause.tries = 0;
            if pause.failed.is_empty() {
                self.pause = None;
            }
        }
    }

    /// Ends the pause if the record was held; why there was one.
    fn release_by(&mut self, offset: i64) -> Option<PauseReason> {
        let pause = self.pause.take_if(|p| p.failed.contains(&offset))?;
        Some(pause.reason)
    }
}
