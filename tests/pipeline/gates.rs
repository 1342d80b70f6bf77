//! Records that wait for their time.

use crate::support::{Log, Rig, Script, millis, record, secs, settings};
use kafka_chain::clock::FakeClock;
use kafka_chain::delay::alarm::Alarm;
use kafka_chain::pipeline::{Ended, Gate, Order, SharedGate, WorkerSettings};
use kafka_chain::{BoxFuture, Record};
use std::sync::Arc;
use tokio::time::{sleep, timeout};

const NOW: i64 = 1_800_000_000_000;

/// Opens at as many milliseconds after [`NOW`] as the value says.
struct ByValue(Alarm);

impl Gate for ByValue {
    fn opens_at(&self, record: &Record<'_>) -> Option<i64> {
        let text = std::str::from_utf8(record.value?).ok()?;
        text.parse::<i64>().ok().map(|offset| NOW + offset)
    }

    fn now(&self) -> i64 {
        self.0.clock().now()
    }

    fn reached(&self, at: i64) -> BoxFuture<'static, ()> {
        self.0.reached(at)
    }
}

fn gated() -> (WorkerSettings, Arc<FakeClock>) {
    let clock = Arc::new(FakeClock::at(NOW));
    let alarm = Alarm::new(clock.clone());
    let settings = WorkerSettings {
        gate: Some(SharedGate::new(ByValue(alarm))),
        ..settings()
    };
    (settings, clock)
}

fn log(values: &[&str]) -> Log {
    let log = Log::default();
    for (offset, value) in (0..).zip(values) {
        log.append(record(offset, None, value));
    }
    log
}

/// FC-085: short waits are not held up by long ones, and equal ones do not add up.
#[tokio::test(start_paused = true)]
async fn records_are_handled_when_due_and_the_mark_waits_for_the_last() {
    let (settings, _) = gated();
    let log = log(&["3600000", "5000", "null", "1000", "1000", "1000"]).end();
    let script = Script::new(|_, _| async { Ok(()) });
    let rig = Rig::start(&log, &script, settings);
    sleep(millis(6_000)).await;
    assert_eq!(rig.mark.get(), None, "the first waits");
    let done = rig.over().await;
    assert!(done.is_over());
    assert_eq!(done.mark, Some(6));
    assert_eq!(script.offsets(), [2, 3, 4, 5, 1, 0]);
    for call in script.calls() {
        let due = [3_600_000, 5_000, 0, 1_000, 1_000, 1_000][usize::try_from(call.offset).unwrap()];
        let late = call.at.checked_sub(millis(due)).expect("not early");
        assert!(late <= millis(2), "{call:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn giving_a_partition_back_waits_for_no_gate() {
    let (settings, _) = gated();
    let log = log(&["null", "3600000"]);
    let script = Script::new(|_, _| async { Ok(()) });
    let rig = Rig::start(&log, &script, settings);
    sleep(secs(1)).await;
    rig.control.drain(secs(600));
    let ended = timeout(millis(100), rig.task).await.unwrap().unwrap();
    assert!(matches!(ended, Ended::Drained), "{ended:?}");
    assert_eq!(rig.mark.get(), Some(1));
    assert_eq!(script.offsets(), [0]);
}

#[tokio::test(start_paused = true)]
async fn what_waits_is_within_the_limits_of_what_may_be_taken() {
    let (mut settings, _) = gated();
    settings.max_uncommitted = 10;
    let values: Vec<String> = (0..100)
        .map(|n| (1_000 * (1 + n / 10)).to_string())
        .collect();
    let log = log(&values.iter().map(String::as_str).collect::<Vec<_>>()).end();
    let script = Script::new(|_, _| async { Ok(()) });
    let rig = Rig::start(&log, &script, settings);
    sleep(millis(500)).await;
    assert_eq!(log.handed_out(), 10);
    let done = rig.over().await;
    assert_eq!(done.mark, Some(100));
    assert!(script.offsets().is_sorted(), "equal times keep their order");
}

/// FC-101.
#[tokio::test(start_paused = true)]
async fn a_step_of_the_clock_opens_the_gate_within_a_second() {
    let (settings, clock) = gated();
    let log = log(&["7200000"]).end();
    let script = Script::new(|_, _| async { Ok(()) });
    let rig = Rig::start(&log, &script, settings);
    sleep(secs(10)).await;
    clock.step(7_200_000);
    timeout(millis(1_100), rig.over()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn keys_keep_their_order_behind_the_gate_and_in_parallel() {
    let (mut settings, _) = gated();
    settings.order = Order::Key;
    let log = Log::default();
    for offset in 0..300 {
        let due = 1_000 + 10 * (offset % 7);
        log.append(record(
            offset,
            Some(["a", "b", "c"][offset as usize % 3]),
            &due.to_string(),
        ));
    }
    let script = Script::new(|offset, _| async move {
        sleep(millis(u64::try_from(offset % 5).unwrap())).await;
        Ok(())
    });
    let done = Rig::start(&log.end(), &script, settings).over().await;
    assert_eq!(done.mark, Some(300));
    let mut calls: Vec<i64> = script.offsets();
    for key in 0..3 {
        let of_key = calls.iter().filter(|offset| **offset % 3 == key);
        assert!(of_key.is_sorted_by_key(|offset| (*offset % 7, *offset)));
    }
    calls.sort_unstable();
    assert_eq!(calls, (0..300).collect::<Vec<i64>>());
}
