//! Pause and probe, the flood breaker, and a user's own pause.

use crate::support::{Desk, Log, Rig, Script, json, millis, record, secs, settings};
use kafka_chain::backoff::List;
use kafka_chain::decorators::ChainExt;
use kafka_chain::pipeline::values;
use kafka_chain::pipeline::{Limits, Order, Policy, Single, WorkerSettings, Written, read_with};
use kafka_chain::{Error, Input, Record, Result, deserialize_with};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tokio::time::{Instant, sleep};

/// A service that is down until it is told to be up.
#[derive(Clone, Default)]
struct Service(Arc<AtomicBool>, Arc<AtomicUsize>);

impl Service {
    fn up(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    fn call(&self) -> Result<()> {
        self.1.fetch_add(1, Ordering::SeqCst);
        match self.0.load(Ordering::SeqCst) {
            true => Ok(()),
            false => Err(Error::unavailable("down")),
        }
    }

    fn calls(&self) -> usize {
        self.1.load(Ordering::SeqCst)
    }
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_the_chain_dead_letters_nothing_and_ends_within_a_second() {
    for order in Order::ALL {
        let (service, started) = (Service::default(), Instant::now());
        let reader = read_with({
            let service = service.clone();
            move |_: &Record<'_>| service.call()
        });
        let script = Script::new(|_, _| async { Ok(()) });
        let settings = WorkerSettings {
            order,
            ..settings()
        };
        let source = Log::of(0..500).end().source(0);
        let work = Single::new(reader, script.clone());
        let rig = Rig::with(source, work, settings, Desk::default());
        sleep(secs(60)).await;
        assert!(script.offsets().is_empty());
        assert_eq!(rig.mark.get(), None);
        let failed = service.calls();
        assert!(failed <= 100 + 66, "{failed} calls in a minute of pause");
        service.up();
        let done = rig.over().await;
        assert!(started.elapsed() <= secs(61), "{:?}", started.elapsed());
        assert_eq!(done.mark, Some(500));
        assert_eq!(done.desk.dead_offsets(), [0; 0]);
        assert_eq!(done.desk.told("paused temporary at 0"), 1);
        assert_eq!(done.desk.told("resumed false"), 1);
        let mut handled = script.offsets();
        handled.sort_unstable();
        assert_eq!(handled, (0..500).collect::<Vec<_>>(), "each once");
    }
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_the_handlers_service_costs_three_dead_letters_at_most() {
    for order in Order::ALL {
        let service = Service::default();
        let script = Script::new({
            let service = service.clone();
            move |_, _| std::future::ready(service.call())
        });
        let settings = WorkerSettings {
            order,
            ..settings()
        };
        let rig = Rig::start(&Log::of(0..500).end(), &script, settings);
        sleep(secs(600)).await;
        assert_eq!(rig.desk.dead_offsets().len(), 3);
        assert!(rig.mark.get() <= Some(3));
        service.up();
        let up = Instant::now();
        let done = rig.over().await;
        assert!(up.elapsed() <= secs(1), "{:?}", up.elapsed());
        assert_eq!(done.desk.dead_offsets().len(), 3);
        assert_eq!(done.mark, Some(500));
    }
}

/// A chain whose waits are long sees the end of an outage no later than one that never retries.
#[tokio::test(start_paused = true)]
async fn a_probe_does_not_wait_as_long_as_its_chain_does() {
    for order in Order::ALL {
        let service = Service::default();
        let calls = service.clone();
        let chain = deserialize_with(move |_: Input<'_>| calls.call().map(Some))
            .retry(List::new([secs(300), secs(300)]).unwrap())
            .handle_exceptions();
        let script = Script::new(|_, _| async { Ok(()) });
        let settings = WorkerSettings {
            order,
            ..settings()
        };
        let source = Log::of(0..500).end().source(0);
        let work = Single::new(values(chain), script.clone());
        let rig = Rig::with(source, work, settings, Desk::default());
        sleep(secs(20_000)).await;
        assert_eq!(rig.desk.dead_offsets().len(), 3);
        service.up();
        let up = Instant::now();
        let done = rig.over().await;
        assert!(up.elapsed() <= secs(1), "{order:?} {:?}", up.elapsed());
        assert_eq!(done.mark, Some(500));
    }
}

#[tokio::test(start_paused = true)]
async fn while_it_pauses_one_record_is_tried_and_what_was_taken_stays_in_order() {
    let script = Script::new(|offset, attempt| async move {
        if offset == 2 && attempt <= 5 {
            return Err(Error::unavailable("down").with_status(kafka_chain::Status::Exhausted));
        }
        Ok(())
    });
    let policy = Policy {
        on_exhausted: kafka_chain::pipeline::OnExhausted::Pause,
        ..Policy::default()
    };
    let settings = WorkerSettings {
        policy,
        ..settings()
    };
    let done = Rig::start(&Log::of(0..5).end(), &script, settings)
        .over()
        .await;
    assert_eq!(script.offsets(), [0, 1, 2, 2, 2, 2, 2, 2, 3, 4]);
    let at: Vec<_> = script.calls().iter().map(|c| c.at.as_millis()).collect();
    assert_eq!(at, [0, 0, 0, 100, 300, 700, 1500, 2500, 2500, 2500]);
    assert_eq!(done.mark, Some(5));
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_turns_permanent_makes_way_for_the_next_failed() {
    // Three in flight fail together; then the lowest turns out bad, and the next succeeds.
    let script = Script::new(|offset, attempt| async move {
        let exhausted = |e: Error| Err(e.with_status(kafka_chain::Status::Exhausted));
        match (offset, attempt) {
            (0..=2, 1) => exhausted(Error::unavailable("down")),
            (0, 2) => Err(Error::permanent("bad after all")),
            (1, 2) => exhausted(Error::unavailable("still down")),
            _ => Ok(()),
        }
    });
    let settings = WorkerSettings {
        order: Order::Unordered,
        max_in_flight: 3,
        policy: Policy {
            on_exhausted: kafka_chain::pipeline::OnExhausted::Pause,
            ..Policy::default()
        },
        ..settings()
    };
    let done = Rig::start(&Log::of(0..6).end(), &script, settings)
        .over()
        .await;
    let mut calls = script.offsets();
    assert_eq!(
        calls.drain(3..6).collect::<Vec<_>>(),
        [0, 1, 1],
        "the probes"
    );
    calls.sort_unstable();
    assert_eq!(calls, [0, 1, 2, 2, 3, 4, 5], "then 2 again and the rest");
    assert_eq!(done.desk.dead_offsets(), [0]);
    assert_eq!(done.mark, Some(6));
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_bad_records_pauses_until_a_user_resumes() {
    let script = Script::new(|_, _| async { Err(Error::permanent("bad")) });
    let settings = WorkerSettings {
        policy: Policy {
            limits: Limits {
                consecutive: 10,
                ..Limits::default()
            },
            ..Policy::default()
        },
        ..settings()
    };
    let rig = Rig::start(&Log::of(0..25).end(), &script, settings);
    for round in 1..=2 {
        sleep(secs(100)).await;
        assert_eq!(rig.desk.dead_offsets().len(), 10 * round);
        let at = 10 * round;
        assert_eq!(rig.desk.told(&format!("paused flood at {at}")), 1);
        rig.control.resume();
    }
    let done = rig.over().await;
    assert_eq!(done.desk.dead_offsets(), (0..25).collect::<Vec<_>>());
    assert_eq!(done.mark, Some(25));
    assert_eq!(done.desk.told("resumed true"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_that_cannot_be_written_is_written_again_and_its_record_not_handled_again() {
    let service = Service::default();
    let desk = Desk::answering({
        let service = service.clone();
        move |_| {
            let service = service.clone();
            Box::pin(async move {
                sleep(millis(5)).await;
                match service.call() {
                    Ok(()) => Written::Acknowledged,
                    Err(error) => Written::Held(error),
                }
            })
        }
    });
    let script = Script::new(|offset, _| async move {
        match offset % 10 {
            3 => Err(Error::permanent("bad")),
            _ => Ok(()),
        }
    });
    let log = Log::of(0..1_000);
    let source = log.clone().end().source(0);
    let rig = Rig::with(
        source,
        Single::new(json(), script.clone()),
        settings(),
        desk,
    );
    sleep(secs(300)).await;
    assert_eq!(rig.mark.get(), Some(3));
    service.up();
    let up = Instant::now();
    let done = rig.over().await;
    assert!(up.elapsed() <= secs(2), "{:?}", up.elapsed());
    assert_eq!(done.mark, Some(1_000));
    assert_eq!(
        script.offsets(),
        (0..1_000).collect::<Vec<_>>(),
        "each once"
    );
    assert!(done.desk.told("unwritten 3") > 100);
    let mut dead = done.desk.dead_offsets();
    dead.sort_unstable();
    dead.dedup();
    assert_eq!(dead.len(), 100);
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_whose_writing_panics_is_held() {
    let panics = AtomicUsize::new(0);
    let desk = Desk::answering(move |_| {
        assert!(panics.fetch_add(1, Ordering::SeqCst) > 2, "the desk panics");
        Box::pin(async { Written::Acknowledged })
    });
    let script = Script::new(|_, _| async { Err(Error::permanent("bad")) });
    let source = Log::of([0]).end().source(0);
    let rig = Rig::with(
        source,
        Single::new(json(), script.clone()),
        settings(),
        desk,
    );
    let done = rig.over().await;
    assert_eq!((done.mark, script.calls().len()), (Some(1), 1));
    assert_eq!(done.desk.told("unwritten 0"), 3);
}

#[tokio::test(start_paused = true)]
async fn a_users_pause_takes_nothing_and_probes_nothing_until_it_is_ended() {
    let script = Script::new(|_, _| async {
        sleep(secs(1)).await;
        Ok(())
    });
    let log = Log::of(0..3);
    let rig = Rig::start(&log, &script, settings());
    sleep(millis(1_500)).await;
    rig.control.pause();
    sleep(secs(1_000)).await;
    assert_eq!(script.offsets(), [0, 1], "what was in flight finished");
    assert_eq!(rig.mark.get(), Some(2));
    log.append(record(3, None, "not json"));
    rig.control.resume();
    let _ = log.end();
    let done = rig.over().await;
    assert_eq!(script.offsets(), [0, 1, 2]);
    assert_eq!((done.mark, done.desk.dead_offsets()), (Some(4), vec![3]));
}
