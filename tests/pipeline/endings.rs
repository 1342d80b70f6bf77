//! Revoked, lost, stopped, idle: what is marked, and what never is.

use crate::support::{
    Desk, Log, Rig, Script, attempts, json, millis, orders, record, secs, settings,
};
use kafka_chain::Error;
use kafka_chain::backoff::{Fixed, SharedBackoff};
use kafka_chain::pipeline::{Attempts, Ended, Order, Single, WorkerSettings, Written};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::time::{Instant, sleep};

fn in_every_order() -> impl Iterator<Item = WorkerSettings> {
    Order::ALL.into_iter().map(|order| WorkerSettings {
        order,
        ..settings()
    })
}

/// FC-047: a backoff longer than any poll interval blocks neither its thread nor another partition.
#[tokio::test(start_paused = true)]
async fn a_long_backoff_lets_other_partitions_flow() {
    let slow = Script::new(|_, attempt| async move {
        if attempt < 3 {
            Err(Error::temporary("down"))
        } else {
            Ok(())
        }
    });
    let settings = WorkerSettings {
        attempts: attempts(3, secs(25)),
        ..settings()
    };
    let first = Rig::start(&Log::of([0]).end(), &slow, settings.clone());
    let steady = Script::new(|_, _| async { Ok(()) });
    let log = Log::default();
    let second = Rig::start(&log, &steady, settings);
    for offset in 0..50 {
        log.append(record(offset, None, "{}"));
        sleep(secs(1)).await;
        assert_eq!(second.mark.get(), Some(offset + 1));
    }
    let done = first.over().await;
    let at: Vec<_> = slow.calls().iter().map(|call| call.at.as_secs()).collect();
    assert_eq!(at, [0, 25, 50]);
    assert_eq!(done.mark, Some(1));
    assert!(!second.task.is_finished());
}

/// FC-062: a partition given away in the middle of a long wait and taken back works at once.
#[tokio::test(start_paused = true)]
async fn a_partition_that_comes_back_is_not_stuck_in_its_old_wait() {
    let settings = WorkerSettings {
        attempts: attempts(10, secs(60)),
        ..settings()
    };
    let script = Script::new(|_, attempt| async move {
        if attempt < 5 {
            Err(Error::temporary("down"))
        } else {
            Ok(())
        }
    });
    let log = Log::of(0..3).end();
    let rig = Rig::start(&log, &script, settings.clone());
    sleep(secs(10)).await;
    let revoked = Instant::now();
    rig.control.drain(secs(5));
    let done = rig.over().await;
    assert!(matches!(done.ended, Ended::Drained), "{:?}", done.ended);
    assert_eq!((revoked.elapsed(), done.mark), (secs(0), None));

    sleep(secs(20)).await;
    let good = Script::new(|_, _| async { Ok(()) });
    let again = Instant::now();
    let done = Rig::start(&log, &good, settings).over().await;
    assert_eq!(good.offsets(), [0, 1, 2]);
    assert_eq!((again.elapsed(), done.mark), (secs(0), Some(3)));
}

/// FC-067: nothing is handled before the hook of the assignment is done; what arrived waits.
#[tokio::test(start_paused = true)]
async fn records_wait_for_the_hook_of_the_assignment() {
    let hooked = || Desk::default().with_hook(millis(500));
    let script = Script::new(|_, _| async { Ok(()) });
    let work = || Single::new(json(), script.clone());
    let log = Log::of(0..1);
    let rig = Rig::with(log.source(0), work(), settings(), hooked());
    sleep(millis(499)).await;
    assert!(script.calls().is_empty());
    let _ = log.end();
    let done = rig.over().await;
    assert_eq!((script.offsets(), done.mark), (vec![0], Some(1)));
    assert_eq!(script.calls()[0].at, millis(500));

    // Revoked before the hook is done: dropped, unmarked.
    let rig = Rig::with(Log::of(0..1).source(0), work(), settings(), hooked());
    sleep(millis(200)).await;
    rig.control.drain(secs(5));
    let done = rig.over().await;
    assert!(matches!(done.ended, Ended::Drained), "{:?}", done.ended);
    assert_eq!((script.calls().len(), done.mark), (1, None));
}

/// FC-068: an idle worker stays, takes what comes, and ends as soon as it is told to.
#[tokio::test(start_paused = true)]
async fn an_idle_worker_waits_for_ever() {
    for settings in in_every_order() {
        let script = Script::new(|_, _| async { Ok(()) });
        let log = Log::default();
        let rig = Rig::start(&log, &script, settings);
        sleep(secs(3_600)).await;
        log.append(record(0, Some("a"), "{}"));
        sleep(millis(1)).await;
        assert_eq!((script.offsets(), rig.mark.get()), (vec![0], Some(1)));
        sleep(secs(3_600)).await;
        assert!(!rig.task.is_finished());
        let told = Instant::now();
        rig.control.drain(secs(5));
        let done = rig.over().await;
        assert!(matches!(done.ended, Ended::Drained), "{:?}", done.ended);
        assert_eq!(told.elapsed(), secs(0));
    }
}

/// FC-069: when the partition is lost, work is cancelled and nothing is committed.
#[tokio::test(start_paused = true)]
async fn a_lost_partition_is_dropped_at_once_and_nothing_of_it_committed() {
    for settings in in_every_order() {
        let finished = Arc::new(AtomicUsize::new(0));
        let script = Script::new({
            let finished = Arc::clone(&finished);
            move |offset, _| {
                let finished = Arc::clone(&finished);
                async move {
                    if offset == 10 {
                        sleep(secs(60)).await;
                    }
                    finished.fetch_add(1, Ordering::SeqCst);
                    Ok(())
                }
            }
        });
        let log = Log::of(5..=10);
        let mut rig = Rig::start(&log, &script, settings.clone());
        sleep(secs(1)).await;
        assert_eq!(rig.mark.get(), Some(10));
        let before = rig.ledger.due();
        assert!(rig.ledger.lose(&orders()));
        rig.control.lose();
        let mut done = rig.over().await;
        assert!(matches!(done.ended, Ended::Lost), "{:?}", done.ended);
        assert!(!done.ledger.committed(&before[0]));
        assert_eq!(
            (done.ledger.due(), done.ledger.revoke(&orders())),
            (vec![], None)
        );
        sleep(secs(100)).await;
        assert_eq!(finished.load(Ordering::SeqCst), 5, "10 was cancelled");
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_whose_control_is_dropped_ends_like_a_lost_one() {
    let script = Script::new(|_, _| async { std::future::pending().await });
    let Rig {
        control,
        task,
        mark,
        ..
    } = Rig::start(&Log::of(0..1), &script, settings());
    sleep(secs(1)).await;
    drop(control);
    assert!(matches!(task.await.unwrap(), Ended::Lost));
    assert_eq!(mark.get(), None);
}

/// FC-070: what comes again in an ownership is dropped: offsets rise, none is missing.
#[tokio::test(start_paused = true)]
async fn what_is_handed_out_again_is_handled_once() {
    for settings in in_every_order() {
        let script = Script::new(|_, _| async { Ok(()) });
        let settings = WorkerSettings {
            batch: 7,
            max_in_flight: 1,
            ..settings
        };
        let mut source = Log::of(0..1_000).end().source(0);
        source.rewind = Some((500, 480));
        let work = Single::new(json(), script.clone());
        let done = Rig::with(source, work, settings, Desk::default())
            .over()
            .await;
        assert_eq!(script.offsets(), (0..1_000).collect::<Vec<_>>());
        assert_eq!(done.mark, Some(1_000));
        assert_eq!(done.desk.told("repeated 480"), 1);
    }
}

/// FC-070: over 20 ownerships, each continuing at the last one's mark, every offset is handled, and
/// within each ownership offsets rise.
#[tokio::test(start_paused = true)]
async fn ownerships_that_follow_one_another_leave_no_hole() {
    let log = Log::of(0..1_000);
    let (mut from, mut seen) = (0, Vec::new());
    for round in 0..=20 {
        let script = Script::new(|_, _| async {
            sleep(millis(1)).await;
            Ok(())
        });
        let work = Single::new(json(), script.clone());
        let mut rig = Rig::with(log.source(from), work, settings(), Desk::default());
        match round {
            20 => drop(log.clone().end()),
            _ => {
                sleep(millis(37)).await;
                rig.control.drain(secs(5));
            }
        }
        (&mut rig.task).await.unwrap();
        let mark = rig.ledger.revoke(&orders()).map(|mark| mark.offset);
        let offsets = script.offsets();
        assert!(offsets.is_sorted_by(|a, b| a < b), "{offsets:?}");
        assert_eq!(offsets.first(), Some(&from));
        assert_eq!(
            mark,
            offsets.last().map(|last| last + 1),
            "nothing is handled twice"
        );
        from = mark.unwrap();
        seen.extend(offsets);
    }
    assert_eq!(seen, (0..1_000).collect::<Vec<_>>());
}

/// FC-077: what is finished is marked by the time the worker has ended, in flight work included.
#[tokio::test(start_paused = true)]
async fn draining_finishes_what_is_in_flight_and_leaves_the_rest() {
    for settings in in_every_order() {
        let settings = WorkerSettings {
            max_in_flight: 1,
            ..settings
        };
        let script = Script::new(|_, _| async {
            sleep(secs(1)).await;
            Ok(())
        });
        let mut rig = Rig::start(&Log::of(0..100), &script, settings);
        sleep(millis(4_500)).await;
        rig.control.drain(secs(5));
        let told = Instant::now();
        assert!(matches!((&mut rig.task).await.unwrap(), Ended::Drained));
        assert_eq!(told.elapsed(), millis(500));
        assert_eq!(script.calls().len(), 5);
        assert_eq!(rig.ledger.revoke(&orders()).unwrap().offset, 5);
    }
}

#[tokio::test(start_paused = true)]
async fn draining_waits_for_dead_letters_under_way() {
    let desk = Desk::answering(|_| {
        Box::pin(async {
            sleep(secs(3)).await;
            Written::Acknowledged
        })
    });
    let script = Script::new(|_, _| async { Err(Error::permanent("bad")) });
    let source = Log::of(0..10).source(0);
    let rig = Rig::with(
        source,
        Single::new(json(), script.clone()),
        settings(),
        desk,
    );
    sleep(secs(1)).await;
    rig.control.drain(secs(5));
    let done = rig.over().await;
    assert!(matches!(done.ended, Ended::Drained), "{:?}", done.ended);
    assert_eq!(done.mark, Some(10));
}

#[tokio::test(start_paused = true)]
async fn what_takes_longer_than_the_limit_is_abandoned_unmarked() {
    for settings in in_every_order() {
        let script = Script::new(|offset, _| async move {
            if offset == 2 {
                std::future::pending::<()>().await;
            }
            Ok(())
        });
        let rig = Rig::start(&Log::of(0..3), &script, settings);
        sleep(secs(1)).await;
        let told = Instant::now();
        rig.control.drain(secs(30));
        rig.control.drain(secs(5));
        let done = rig.over().await;
        assert!(
            matches!(done.ended, Ended::Abandoned(1)),
            "{:?}",
            done.ended
        );
        assert_eq!((told.elapsed(), done.mark), (secs(5), Some(2)));
    }
}

/// FC-078: a stop does not wait for a backoff, and nothing is tried, marked or dead-lettered any more.
#[tokio::test(start_paused = true)]
async fn a_stop_does_not_wait_for_a_backoff() {
    for settings in in_every_order() {
        let settings = WorkerSettings {
            attempts: Attempts::new(None, SharedBackoff::new(Fixed::new(secs(600), u32::MAX))),
            ..settings
        };
        let script = Script::new(|_, _| async { Err(Error::temporary("down")) });
        let log = Log::of([0]);
        let rig = Rig::start(&log, &script, settings);
        sleep(secs(900)).await;
        assert_eq!(script.calls().len(), 2);
        let told = Instant::now();
        rig.control.drain(secs(30));
        let done = rig.over().await;
        assert!(matches!(done.ended, Ended::Drained), "{:?}", done.ended);
        assert_eq!(told.elapsed(), secs(0));
        assert_eq!((done.mark, done.desk.dead_offsets().len()), (None, 0));
        sleep(secs(2_000)).await;
        assert_eq!(script.calls().len(), 2);

        // After a restart it is delivered again.
        let good = Script::new(|_, _| async { Ok(()) });
        let done = Rig::start(&log.end(), &good, super::support::settings())
            .over()
            .await;
        assert_eq!((good.offsets(), done.mark), (vec![0], Some(1)));
    }
}
