//! The state of a partition: streaks, the flood breaker, pause and probe.

use kafka_chain::Status;
use kafka_chain::pipeline::{Limits, MAX_PROBE_WAIT, PartitionState, PauseReason, Ratio, Verdict};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeSet;
use std::time::Duration;

fn state() -> PartitionState {
    PartitionState::new(Limits::default())
}

fn permanent(state: &mut PartitionState, offset: i64) -> Verdict {
    state.failed(offset, Verdict::DeadLetter, Status::Permanent)
}

fn exhausted(state: &mut PartitionState, offset: i64) -> Verdict {
    state.failed(offset, Verdict::DeadLetter, Status::Exhausted)
}

fn temporary(state: &mut PartitionState, offset: i64) -> Verdict {
    state.failed(offset, Verdict::Pause, Status::Temporary)
}

fn probed(state: &PartitionState) -> Option<i64> {
    state.probe().map(|probe| probe.offset)
}

#[test]
fn three_exhausted_in_a_row_are_dead_lettered_and_the_fourth_is_held() {
    let mut state = state();
    for offset in 0..3 {
        assert_eq!(exhausted(&mut state, offset), Verdict::DeadLetter);
    }
    // A Permanent one between is no success.
    assert_eq!(permanent(&mut state, 3), Verdict::DeadLetter);
    assert_eq!(exhausted(&mut state, 4), Verdict::Pause);
    assert_eq!(state.paused(), Some(PauseReason::Exhausted));
    assert_eq!(probed(&state), Some(4));
    // The probe's retries give up again: still held, however often.
    for _ in 0..100 {
        assert_eq!(exhausted(&mut state, 4), Verdict::Pause);
    }
    state.succeeded(4);
    assert_eq!(state.paused(), None);
    assert_eq!(exhausted(&mut state, 5), Verdict::DeadLetter);
}

#[test]
fn a_success_between_ends_the_streak() {
    let mut state = state();
    for offset in 0..100 {
        assert_eq!(exhausted(&mut state, 2 * offset), Verdict::DeadLetter);
        state.succeeded(2 * offset + 1);
    }
    assert_eq!(state.paused(), None);
}

#[test]
fn the_probe_is_the_lowest_failed_record_and_its_waits_end_at_a_second() {
    let mut state = state();
    assert_eq!(temporary(&mut state, 9), Verdict::Pause);
    assert_eq!(temporary(&mut state, 7), Verdict::Pause);
    let mut waits = Vec::new();
    for _ in 0..6 {
        let probe = state.probe().unwrap();
        assert_eq!(probe.offset, 7);
        waits.push(probe.wait.as_millis());
        assert_eq!(temporary(&mut state, 7), Verdict::Pause);
    }
    assert_eq!(waits, [100, 200, 400, 800, 1000, 1000]);
    for _ in 0..100 {
        assert_eq!(temporary(&mut state, 7), Verdict::Pause);
    }
    assert_eq!(state.probe().unwrap().wait, MAX_PROBE_WAIT);
}

#[test]
fn work_in_flight_that_succeeds_releases_nothing() {
    let mut state = state();
    assert_eq!(temporary(&mut state, 7), Verdict::Pause);
    state.succeeded(6);
    state.succeeded(8);
    assert_eq!(state.paused(), Some(PauseReason::Temporary));
    state.succeeded(7);
    assert_eq!(state.paused(), None);
    assert_eq!(state.held(), 0);
}

#[test]
fn a_probe_that_turns_permanent_is_dead_lettered_and_the_next_failed_is_the_probe() {
    let mut state = state();
    assert_eq!(temporary(&mut state, 7), Verdict::Pause);
    assert_eq!(temporary(&mut state, 8), Verdict::Pause);
    assert_eq!(temporary(&mut state, 7), Verdict::Pause);
    assert_eq!(permanent(&mut state, 7), Verdict::DeadLetter);
    let probe = state.probe().unwrap();
    assert_eq!((probe.offset, probe.wait.as_millis()), (8, 100));
    assert_eq!(permanent(&mut state, 8), Verdict::DeadLetter);
    assert_eq!(state.paused(), None, "nothing that failed is left");
}

#[test]
fn the_flood_breaker_holds_what_it_would_have_dead_lettered_until_a_success() {
    let mut state = state();
    for offset in 0..1_000 {
        assert_eq!(permanent(&mut state, offset), Verdict::DeadLetter);
    }
    assert_eq!(permanent(&mut state, 1_000), Verdict::Pause);
    assert_eq!(state.paused(), Some(PauseReason::Flood));
    assert_eq!(permanent(&mut state, 1_000), Verdict::Pause, "still bad");
    assert_eq!(probed(&state), Some(1_000));
    state.succeeded(1_000);
    assert_eq!(state.paused(), None);
    assert_eq!(permanent(&mut state, 1_001), Verdict::DeadLetter);
}

#[test]
fn a_user_ends_the_flood_and_its_streak() {
    let mut state = PartitionState::new(Limits {
        consecutive: 2,
        ..Limits::default()
    });
    for round in 0..3 {
        assert_eq!(permanent(&mut state, 3 * round), Verdict::DeadLetter);
        assert_eq!(permanent(&mut state, 3 * round + 1), Verdict::DeadLetter);
        assert_eq!(permanent(&mut state, 3 * round + 2), Verdict::Pause);
        assert!(state.resume());
        assert!(!state.resume());
    }
}

#[test]
fn an_outage_that_fills_the_breaker_becomes_a_flood() {
    let mut state = PartitionState::new(Limits {
        consecutive: 1,
        ..Limits::default()
    });
    assert_eq!(temporary(&mut state, 1), Verdict::Pause);
    assert_eq!(temporary(&mut state, 2), Verdict::Pause);
    assert_eq!(permanent(&mut state, 1), Verdict::DeadLetter);
    assert_eq!(permanent(&mut state, 2), Verdict::Pause);
    assert_eq!(state.paused(), Some(PauseReason::Flood));
}

#[test]
fn zero_is_no_limit() {
    let mut state = PartitionState::new(Limits {
        exhausted: 0,
        consecutive: 0,
        ratio: None,
    });
    for offset in 0..5_000 {
        assert_eq!(exhausted(&mut state, offset), Verdict::DeadLetter);
    }
}

#[test]
fn a_share_over_a_full_window_is_a_flood_too() {
    let mut state = PartitionState::new(Limits {
        ratio: Some(Ratio {
            window: 10,
            share: 0.5,
        }),
        ..Limits::default()
    });
    let good = |state: &mut PartitionState, offsets: std::ops::Range<i64>| {
        offsets.for_each(|offset| state.succeeded(offset));
    };
    good(&mut state, 0..5);
    for offset in 5..10 {
        assert_eq!(permanent(&mut state, offset), Verdict::DeadLetter);
    }
    assert_eq!(permanent(&mut state, 10), Verdict::Pause, "6 of 10");
    assert_eq!(state.paused(), Some(PauseReason::Flood));
    state.succeeded(10);
    // The window began anew with that success.
    for offset in 11..20 {
        assert_eq!(permanent(&mut state, offset), Verdict::DeadLetter);
    }
    assert_eq!(permanent(&mut state, 20), Verdict::Pause);
}

#[test]
fn a_dead_letter_that_cannot_be_written_pauses_and_its_late_writing_ends_no_streak() {
    let mut state = state();
    for offset in 0..3 {
        assert_eq!(exhausted(&mut state, offset), Verdict::DeadLetter);
    }
    state.unwritten(2);
    assert_eq!(state.paused(), Some(PauseReason::Unwritten));
    state.unwritten(1);
    assert_eq!(probed(&state), Some(1));
    state.written(0);
    assert_eq!(
        state.paused(),
        Some(PauseReason::Unwritten),
        "0 was not held"
    );
    state.written(1);
    assert_eq!(state.paused(), None);
    assert_eq!(exhausted(&mut state, 3), Verdict::Pause);
}

#[test]
fn what_is_delayed_waits_here_while_the_partition_pauses() {
    let mut state = state();
    let minute = Verdict::Delay(Duration::from_secs(60));
    assert_eq!(state.failed(1, minute, Status::Exhausted), minute);
    assert_eq!(temporary(&mut state, 2), Verdict::Pause);
    assert_eq!(state.failed(3, minute, Status::Exhausted), Verdict::Pause);
    assert_eq!(state.held(), 2);
}

#[test]
fn stopping_changes_nothing() {
    let mut state = state();
    assert_eq!(
        state.failed(1, Verdict::Stop, Status::Permanent),
        Verdict::Stop
    );
    assert_eq!(state.paused(), None);
}

/// In 2,000 random runs: the limits hold between successes, the probe is the lowest record held, a
/// flood dead-letters nothing, and what is held is exactly what failed and is neither settled nor
/// released.
#[test]
fn the_rules_hold_in_random_runs() {
    let limits = Limits {
        exhausted: 2,
        consecutive: 4,
        ratio: None,
    };
    for seed in 0..2_000 {
        let mut chance = StdRng::seed_from_u64(seed);
        let mut state = PartitionState::new(limits);
        let mut held = BTreeSet::new();
        let (mut exhausted_ones, mut dead_letters) = (0, 0);
        for step in 0..80 {
            let probing = !held.is_empty() && chance.random_bool(0.6);
            let offset = match state.probe() {
                Some(probe) if probing => probe.offset,
                _ => step,
            };
            let was = state.paused();
            match chance.random_range(0..8) {
                0 | 1 => {
                    state.succeeded(offset);
                    (exhausted_ones, dead_letters) = (0, 0);
                    if held.contains(&offset) {
                        held.clear();
                    }
                }
                2 if chance.random_bool(0.2) => {
                    assert_eq!(state.resume(), !held.is_empty());
                    (exhausted_ones, dead_letters) = (0, 0);
                    held.clear();
                }
                2 | 3 => {
                    assert_eq!(temporary(&mut state, offset), Verdict::Pause);
                    held.insert(offset);
                }
                kind => {
                    let status = match kind {
                        4 | 5 => Status::Exhausted,
                        _ => Status::Permanent,
                    };
                    match state.failed(offset, Verdict::DeadLetter, status) {
                        Verdict::DeadLetter => {
                            dead_letters += 1;
                            exhausted_ones += u32::from(status == Status::Exhausted);
                            assert_ne!(was, Some(PauseReason::Flood), "seed {seed}");
                            held.remove(&offset);
                        }
                        Verdict::Pause => {
                            held.insert(offset);
                        }
                        other => panic!("{other:?}"),
                    }
                    assert!(exhausted_ones <= limits.exhausted, "seed {seed}");
                    assert!(dead_letters <= limits.consecutive, "seed {seed}");
                }
            }
            assert_eq!(probed(&state), held.first().copied(), "seed {seed}");
            assert_eq!(state.held(), held.len(), "seed {seed}");
            assert_eq!(state.paused().is_some(), !held.is_empty(), "seed {seed}");
        }
    }
}
