//! Attempts, verdicts and dead letters.

use crate::support::{Desk, Log, Rig, Script, attempts, json, millis, record, secs, settings};
use kafka_chain::backoff::{Fixed, SharedBackoff};
use kafka_chain::pipeline::{
    Attempts, Ended, Limits, OnExhausted, Order, Origin, Policy, Single, WorkerSettings, Written,
};
use kafka_chain::{Error, ErrorKind, Part, Result, Status};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

fn unlimited() -> Policy {
    Policy {
        limits: Limits {
            exhausted: 0,
            consecutive: 0,
            ratio: None,
        },
        ..Policy::default()
    }
}

/// FC-001: an undecodable record is dead-lettered at once, byte for byte, and its neighbours pass.
#[tokio::test(start_paused = true)]
async fn an_unreadable_record_is_dead_lettered_without_a_wait() {
    let log = Log::default();
    for (offset, value) in [(0, "{\"a\":1}"), (1, "{\"a\":"), (2, "{\"a\":3}")] {
        log.append(record(offset, None, value));
    }
    let (started, script) = (Instant::now(), Script::new(|_, _| async { Ok(()) }));
    let done = Rig::start(&log.end(), &script, settings()).over().await;
    assert!(done.is_over());
    assert_eq!(script.offsets(), [0, 2]);
    assert_eq!(done.mark, Some(3));
    assert_eq!(started.elapsed(), secs(0));
    let letters = done.desk.dead_letters();
    assert_eq!(letters.len(), 1);
    assert_eq!(letters[0].record.value.as_deref(), Some(&b"{\"a\":"[..]));
    assert_eq!(letters[0].origin, Origin::Chain(Part::Value));
    assert_eq!(letters[0].error.kind(), ErrorKind::Malformed);
}

/// FC-004: a panic counts as a failed attempt; the record is never marked without its dead letter.
#[tokio::test(start_paused = true)]
async fn a_handler_that_panics_is_tried_again_and_then_dead_lettered() {
    for order in Order::ALL {
        let script = Script::new(|offset, _| async move {
            assert_ne!(offset, 3, "the handler panics");
            Ok(())
        });
        let settings = WorkerSettings {
            order,
            ..settings()
        };
        let log = Log::of(0..6).end();
        let done = Rig::start(&log, &script, settings).over().await;
        assert!(done.is_over());
        assert_eq!(script.count(3), 3);
        assert_eq!((script.count(4), script.count(5)), (1, 1));
        assert_eq!(done.mark, Some(6));
        let letters = done.desk.dead_letters();
        assert_eq!(letters.len(), 1);
        let error = &letters[0].error;
        assert_eq!(error.kind(), ErrorKind::Panic);
        assert_eq!((error.status(), error.attempts()), (Status::Exhausted, 3));
        assert!(!error.to_string().contains("the handler panics"), "{error}");
    }
}

/// FC-004: a panic of a reader that nothing contains is an attempt too.
#[tokio::test(start_paused = true)]
async fn a_reader_that_panics_is_dead_lettered() {
    let script = Script::new(|_, _| async { Ok(()) });
    let reader = kafka_chain::pipeline::read_with(|record| -> Result<()> {
        assert_ne!(record.offset, 3);
        Ok(())
    });
    let work = Single::new(reader, script.clone());
    let source = Log::of(0..5).end().source(0);
    let done = Rig::with(source, work, settings(), Desk::default())
        .over()
        .await;
    assert_eq!(done.desk.dead_offsets(), [3]);
    assert_eq!(script.offsets(), [0, 1, 2, 4]);
    assert_eq!(done.mark, Some(5));
}

/// FC-008: without a limit of attempts, what fails decides.
#[tokio::test(start_paused = true)]
async fn a_permanent_failure_is_not_tried_again_however_many_attempts_there_are() {
    let script = Script::new(|offset, attempt| async move {
        match (offset, attempt) {
            (7, _) => Err(Error::permanent("bad")),
            (8, 1..=3) => Err(Error::temporary("not yet")),
            _ => Ok(()),
        }
    });
    let log = Log::of(0..9);
    log.append(record(9, None, "not json"));
    let settings = WorkerSettings {
        attempts: Attempts::new(None, SharedBackoff::new(Fixed::new(secs(1), u32::MAX))),
        ..settings()
    };
    let done = Rig::start(&log.end(), &script, settings).over().await;
    assert_eq!(script.count(7), 1);
    assert_eq!(script.count(8), 4);
    assert_eq!(script.count(9), 0);
    assert_eq!(done.desk.dead_offsets(), [7, 9]);
    assert_eq!(done.mark, Some(10));
}

/// FC-035: attempts are counted by record, whatever fails beside it.
#[tokio::test(start_paused = true)]
async fn failures_of_two_partitions_do_not_count_for_each_other() {
    let fails = || Script::new(|_, _| async { Err(Error::temporary("down")) });
    let (first, second) = (fails(), fails());
    let a = Rig::start(&Log::of([5]).end(), &first, settings());
    let b = Rig::start(&Log::of([9]).end(), &second, settings());
    let (a, b) = tokio::join!(a.over(), b.over());
    assert_eq!(first.offsets(), [5, 5, 5]);
    assert_eq!(second.offsets(), [9, 9, 9]);
    assert_eq!((a.mark, b.mark), (Some(6), Some(10)));
    assert_eq!(
        (a.desk.dead_offsets(), b.desk.dead_offsets()),
        (vec![5], vec![9])
    );
}

/// FC-036: twenty failing side by side: each is dead-lettered once, after exactly three calls.
#[tokio::test(start_paused = true)]
async fn records_that_fail_side_by_side_are_each_dead_lettered_once() {
    let acknowledged = Arc::new(AtomicBool::new(false));
    let gate = Arc::new(Notify::new());
    let desk = Desk::answering({
        let (acknowledged, gate) = (Arc::clone(&acknowledged), Arc::clone(&gate));
        move |_| {
            let (acknowledged, gate) = (Arc::clone(&acknowledged), Arc::clone(&gate));
            Box::pin(async move {
                while !acknowledged.load(Ordering::SeqCst) {
                    gate.notified().await;
                }
                Written::Acknowledged
            })
        }
    });
    let script = Script::new(|offset, _| async move {
        sleep(millis(u64::try_from(offset % 7).unwrap())).await;
        Err(Error::temporary("down"))
    });
    let settings = WorkerSettings {
        order: Order::Unordered,
        max_in_flight: 20,
        policy: unlimited(),
        ..settings()
    };
    let source = Log::of(0..20).end().source(0);
    let rig = Rig::with(source, Single::new(json(), script.clone()), settings, desk);
    sleep(secs(60)).await;
    let mut dead = rig.desk.dead_offsets();
    dead.sort_unstable();
    assert_eq!(dead, (0..20).collect::<Vec<_>>());
    assert_eq!(script.calls().len(), 60);
    assert_eq!(rig.mark.get(), None, "nothing is acknowledged");
    acknowledged.store(true, Ordering::SeqCst);
    for _ in 0..20 {
        gate.notify_one();
        tokio::task::yield_now().await;
    }
    gate.notify_waiters();
    let done = rig.over().await;
    assert_eq!(done.mark, Some(20));
    assert_eq!(script.calls().len(), 60);
}

/// FC-037: the handler is called as often as was set, then there is one dead letter.
#[tokio::test(start_paused = true)]
async fn a_handler_that_always_fails_is_called_as_often_as_set() {
    let script = Script::new(|_, _| async { Err(Error::temporary("down")) });
    let settings = WorkerSettings {
        attempts: attempts(4, secs(2)),
        ..settings()
    };
    let done = Rig::start(&Log::of([0]).end(), &script, settings)
        .over()
        .await;
    let at: Vec<_> = script
        .calls()
        .iter()
        .map(|call| call.at.as_secs())
        .collect();
    assert_eq!(at, [0, 2, 4, 6]);
    let tries: Vec<_> = script.calls().iter().map(|call| call.attempt).collect();
    assert_eq!(tries, [1, 2, 3, 4]);
    let letters = done.desk.dead_letters();
    assert_eq!(letters.len(), 1);
    let error = &letters[0].error;
    assert_eq!((error.attempts(), error.elapsed()), (4, secs(6)));
    assert_eq!(
        (letters[0].attempts, letters[0].origin),
        (4, Origin::Handler)
    );
    assert_eq!(error.stage_path(), "handler");
}

#[tokio::test(start_paused = true)]
async fn five_attempts_are_the_default() {
    let script = Script::new(|_, _| async { Err(Error::temporary("down")) });
    let log = Log::of([0]).end();
    let done = Rig::start(&log, &script, WorkerSettings::default())
        .over()
        .await;
    let at: Vec<_> = script
        .calls()
        .iter()
        .map(|call| call.at.as_secs())
        .collect();
    assert_eq!(at, [0, 1, 3, 7, 15]);
    assert_eq!(done.desk.dead_offsets(), [0]);
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_under_way_holds_the_mark_and_not_the_others() {
    let desk = Desk::answering(|_| {
        Box::pin(async {
            sleep(secs(10)).await;
            Written::Acknowledged
        })
    });
    let script = Script::new(|offset, _| async move {
        match offset {
            1 => Err(Error::permanent("bad")),
            _ => Ok(()),
        }
    });
    let source = Log::of(0..100).end().source(0);
    let rig = Rig::with(
        source,
        Single::new(json(), script.clone()),
        settings(),
        desk,
    );
    sleep(secs(1)).await;
    assert_eq!(script.calls().len(), 100);
    assert_eq!(rig.mark.get(), Some(1));
    let done = rig.over().await;
    assert_eq!(done.mark, Some(100));
}

/// FC-055: a policy of stopping leaves the failed record unmarked, every time.
#[tokio::test(start_paused = true)]
async fn a_record_that_stops_the_pipeline_is_not_marked() {
    for run in 0..100 {
        let at = run % 10;
        let script = Script::new(move |offset, _| async move {
            if offset == at {
                Err(Error::temporary("down"))
            } else {
                Ok(())
            }
        });
        let order = Order::ALL[usize::try_from(run).unwrap() % 3];
        let settings = WorkerSettings {
            order,
            policy: Policy {
                on_exhausted: OnExhausted::Stop,
                ..Policy::default()
            },
            ..settings()
        };
        let rig = Rig::start(&Log::of(0..10), &script, settings);
        if run % 4 == 0 {
            rig.control.drain(secs(5));
        }
        let mut done = rig.over().await;
        if run % 4 != 0 {
            assert!(matches!(done.ended, Ended::Stopped(_)), "{:?}", done.ended);
            assert_eq!(done.mark, (at > 0).then_some(at));
        }
        assert_eq!(done.desk.dead_offsets(), [0; 0]);
        let last = done.ledger.revoke(&crate::support::orders());
        assert!(last.is_none_or(|mark| mark.offset <= at), "run {run}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_mistake_of_the_wiring_stops_and_dead_letters_nothing() {
    let script = Script::new(|_, _| async { Err(Error::config("wrong")) });
    let done = Rig::start(&Log::of(0..5), &script, settings()).over().await;
    match done.ended {
        Ended::Stopped(error) => assert_eq!(error.kind(), ErrorKind::Config),
        other => panic!("{other:?}"),
    }
    assert_eq!((done.mark, script.offsets()), (None, vec![0]));
    assert_eq!(done.desk.dead_offsets(), [0; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_takes_too_long_is_dropped_and_tried_again() {
    let script = Script::new(|offset, attempt| async move {
        if offset == 1 && attempt < 3 {
            sleep(secs(3600)).await;
        }
        Ok(())
    });
    let work = Single::new(json(), script.clone()).timeout(secs(5));
    let source = Log::of(0..3).end().source(0);
    let done = Rig::with(source, work, settings(), Desk::default())
        .over()
        .await;
    let at: Vec<_> = script
        .calls()
        .iter()
        .map(|call| call.at.as_secs())
        .collect();
    assert_eq!(script.offsets(), [0, 1, 1, 1, 2]);
    assert_eq!(at, [0, 0, 6, 12, 12]);
    assert_eq!(done.mark, Some(3));
}

#[tokio::test(start_paused = true)]
async fn without_a_place_for_delays_a_policy_that_delays_stops() {
    let script = Script::new(|_, _| async { Err(Error::temporary("down")) });
    let settings = WorkerSettings {
        policy: Policy {
            delay: Some(SharedBackoff::new(Fixed::new(secs(60), 5))),
            ..Policy::default()
        },
        ..settings()
    };
    let done = Rig::start(&Log::of([0]), &script, settings).over().await;
    assert!(matches!(done.ended, Ended::Stopped(_)), "{:?}", done.ended);
    assert_eq!(done.mark, None);
}

/// A broker that acknowledges nothing must not have the whole partition in memory.
#[tokio::test(start_paused = true)]
async fn dead_letters_under_way_are_bounded() {
    let log = Log::default();
    for offset in 0..5_000 {
        log.append(record(offset, None, "{"));
    }
    let script = Script::new(|_, _| async { Ok(()) });
    let settings = WorkerSettings {
        policy: unlimited(),
        ..settings()
    };
    let desk = Desk::answering(|_| Box::pin(std::future::pending()));
    let work = Single::new(json(), script);
    let rig = Rig::with(log.source(0), work, settings, desk);
    sleep(secs(60)).await;
    assert_eq!(rig.desk.dead_offsets(), (0..512).collect::<Vec<_>>());
    assert_eq!(rig.mark.get(), None);
}
