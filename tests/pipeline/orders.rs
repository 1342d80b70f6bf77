//! Order by partition and by key, and the bounds of what is taken.

use crate::support::{Call, Desk, Log, Rig, Script, json, millis, record, secs, settings};
use kafka_chain::Error;
use kafka_chain::pipeline::{Order, Single, WorkerSettings};
use std::collections::HashMap;
use tokio::time::{Instant, sleep};

fn keyed(count: i64, key: impl Fn(i64) -> Option<String>) -> Log {
    let log = Log::default();
    for offset in 0..count {
        log.append(record(offset, key(offset).as_deref(), "{}"));
    }
    log.end()
}

fn by_key(max_in_flight: usize) -> WorkerSettings {
    WorkerSettings {
        order: Order::Key,
        max_in_flight,
        ..settings()
    }
}

#[tokio::test(start_paused = true)]
async fn records_of_a_key_stay_in_order_while_others_go_on() {
    let log = keyed(2_000, |offset| Some(format!("k{}", offset % 37)));
    let script = Script::new(|offset, attempt| async move {
        sleep(millis(u64::try_from(offset * 13 % 29).unwrap())).await;
        match (offset % 101, attempt) {
            (0, 1) => Err(Error::temporary("once")),
            _ => Ok(()),
        }
    });
    let done = Rig::start(&log, &script, by_key(100)).over().await;
    assert_eq!(done.mark, Some(2_000));
    let mut last: HashMap<i64, Call> = HashMap::new();
    let mut overtaken = 0;
    for (index, call) in script.calls().into_iter().enumerate() {
        if let Some(before) = last.insert(call.offset % 37, call) {
            let in_order = before.offset < call.offset
                || (before.offset == call.offset && before.attempt < call.attempt);
            assert!(in_order, "{before:?} before {call:?}");
        }
        overtaken += usize::from(call.offset < i64::try_from(index).unwrap());
    }
    assert!(overtaken > 100, "keys did not wait for one another");
}

#[tokio::test(start_paused = true)]
async fn a_slow_key_holds_only_itself_and_null_keys_wait_for_nobody() {
    let log = keyed(100, |offset| match offset % 3 {
        0 => Some("slow".to_owned()),
        1 => Some(format!("k{offset}")),
        _ => None,
    });
    let script = Script::new(|offset, _| async move {
        if offset % 3 != 1 {
            sleep(secs(10)).await;
        }
        Ok(())
    });
    let started = Instant::now();
    let done = Rig::start(&log, &script, by_key(50)).over().await;
    assert_eq!(
        started.elapsed(),
        secs(340),
        "34 of the slow key, one after the other"
    );
    let at = |wanted: i64| {
        let calls = script.calls();
        let call = calls.iter().find(|call| call.offset == wanted).unwrap();
        call.at.as_secs()
    };
    assert_eq!((at(97), at(98)), (0, 0));
    assert_eq!((at(96), at(99)), (320, 330));
    assert_eq!(done.mark, Some(100));
}

#[tokio::test(start_paused = true)]
async fn a_key_that_waits_for_its_retry_lets_others_go_on_up_to_the_bound() {
    let log = keyed(1_000, |offset| Some(format!("k{offset}")));
    let script = Script::new(|offset, attempt| async move {
        match (offset, attempt) {
            (3, 1) => Err(Error::temporary("once")),
            _ => Ok(()),
        }
    });
    let settings = WorkerSettings {
        max_uncommitted: 200,
        ..by_key(10)
    };
    let rig = Rig::start(&log, &script, settings);
    sleep(millis(900)).await;
    assert_eq!(rig.mark.get(), Some(3));
    assert_eq!(
        script.offsets().into_iter().max(),
        Some(202),
        "200 from offset 3 on"
    );
    assert_eq!(log.handed_out(), 203);
    let done = rig.over().await;
    assert_eq!(done.mark, Some(1_000));
}

#[tokio::test(start_paused = true)]
async fn no_more_than_allowed_are_handled_at_once() {
    for (order, most) in [
        (Order::Partition, 1),
        (Order::Key, 8),
        (Order::Unordered, 8),
    ] {
        let running = std::sync::Arc::new(std::sync::Mutex::new((0, 0)));
        let script = Script::new({
            let running = std::sync::Arc::clone(&running);
            move |offset, _| {
                let running = std::sync::Arc::clone(&running);
                async move {
                    {
                        let mut now = running.lock().unwrap();
                        now.0 += 1;
                        now.1 = now.1.max(now.0);
                    }
                    sleep(millis(u64::try_from(offset % 5).unwrap() + 1)).await;
                    running.lock().unwrap().0 -= 1;
                    Ok(())
                }
            }
        });
        let settings = WorkerSettings {
            order,
            max_in_flight: 8,
            ..settings()
        };
        let log = keyed(300, |offset| Some(format!("k{offset}")));
        let done = Rig::start(&log, &script, settings).over().await;
        assert_eq!(done.mark, Some(300));
        assert_eq!(*running.lock().unwrap(), (0, most));
    }
}

#[tokio::test(start_paused = true)]
async fn bytes_in_flight_are_bounded_and_a_record_larger_than_the_bound_passes() {
    for order in Order::ALL {
        let log = Log::default();
        let large = format!("\"{}\"", "x".repeat(40_000));
        for offset in 0..50 {
            log.append(record(offset, Some("k"), &large));
        }
        let script = Script::new(|offset, _| async move {
            if offset < 3 {
                sleep(secs(60)).await;
            }
            Ok(())
        });
        let settings = WorkerSettings {
            order,
            max_bytes: 100_000,
            ..settings()
        };
        let rig = Rig::start(&log, &script, settings.clone());
        sleep(secs(30)).await;
        assert_eq!(
            log.handed_out(),
            3,
            "{order:?}: the third reaches the bound"
        );
        let _ = log.end();
        assert_eq!(rig.over().await.mark, Some(50));

        let settings = WorkerSettings {
            max_bytes: 10,
            ..settings
        };
        let log = Log::of(0..1);
        log.append(record(1, None, &large));
        let done = Rig::start(&log.end(), &script, settings).over().await;
        assert_eq!(done.mark, Some(2));
    }
}

#[tokio::test(start_paused = true)]
async fn a_stuck_record_lets_its_partition_run_no_further_than_the_bound() {
    let script = Script::new(|offset, _| async move {
        if offset == 0 {
            sleep(secs(3_600)).await;
        }
        Ok(())
    });
    let settings = WorkerSettings {
        order: Order::Unordered,
        max_uncommitted: 1_000,
        ..settings()
    };
    let log = Log::of(0..5_000).end();
    let rig = Rig::start(&log, &script, settings);
    sleep(secs(60)).await;
    assert_eq!((log.handed_out(), script.calls().len()), (1_000, 1_000));
    assert_eq!(rig.mark.get(), None);
    assert_eq!(rig.over().await.mark, Some(5_000));
}

#[tokio::test(start_paused = true)]
async fn many_keys_side_by_side_are_much_faster_than_one_after_the_other() {
    let mut took = Vec::new();
    for order in [Order::Partition, Order::Key] {
        let script = Script::new(|_, _| async {
            sleep(millis(1)).await;
            Ok(())
        });
        let settings = WorkerSettings {
            order,
            max_in_flight: 1_000,
            ..settings()
        };
        let log = keyed(10_000, |offset| Some(format!("k{offset}")));
        let started = Instant::now();
        let work = Single::new(json(), script);
        let done = Rig::with(log.source(0), work, settings, Desk::default())
            .over()
            .await;
        assert_eq!(done.mark, Some(10_000));
        took.push(started.elapsed());
    }
    assert!(took[0] >= 50 * took[1], "{took:?} of paused time");
}

#[tokio::test(start_paused = true)]
async fn headers_count_among_the_bytes_in_flight() {
    let log = Log::default();
    for offset in 0..100 {
        let mut record = record(offset, Some("one"), "{}");
        record.headers.push("trace", Some(vec![0; 100_000]));
        log.append(record);
    }
    let script = Script::new(|_, _| std::future::pending());
    let settings = WorkerSettings {
        order: Order::Key,
        batch: 1,
        max_bytes: 1_000_000,
        ..settings()
    };
    let _rig = Rig::start(&log, &script, settings);
    sleep(secs(60)).await;
    assert_eq!(log.handed_out(), 10);
}
