//! Kinds of handlers: of outcomes, of batches, and those that block.

use crate::support::{Desk, Log, Rig, Script, json, millis, record, secs, settings};
use kafka_chain::backoff::{Backoff, SharedBackoff};
use kafka_chain::codecs;
use kafka_chain::decorators::ExceptionHandling;
use kafka_chain::matcher::{Matcher, SharedMatcher};
use kafka_chain::pipeline::observe::PartitionGauge;
use kafka_chain::pipeline::{
    Attempts, Batch, BatchHandler, Ended, HandlerContext, HandlerError, Ledger, Order, Policy,
    Single, SyncPool, WorkerParts, WorkerSettings, blocking, nullable_values, outcomes, values,
    worker,
};
use kafka_chain::{Error, ErrorKind, OwnedRecord, Result};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn mixed() -> Log {
    let log = Log::default();
    log.append(record(0, None, "{\"a\":1}"));
    log.append(record(1, None, "{"));
    log.append(OwnedRecord {
        value: None,
        ..record(2, None, "")
    });
    log.append(record(3, None, "{\"a\":2}"));
    log.end()
}

#[tokio::test(start_paused = true)]
async fn a_handler_of_values_sees_neither_failures_nor_nulls() {
    let script = Script::new(|_, _| async { Ok(()) });
    let chain = || ExceptionHandling::new(codecs::json::json::<serde_json::Value>());
    let work = Single::new(values(chain()), script.clone());
    let rig = Rig::with(mixed().source(0), work, settings(), Desk::default());
    let done = rig.over().await;
    assert_eq!((script.offsets(), done.mark), (vec![0, 3], Some(4)));
    let kinds: Vec<_> = done
        .desk
        .dead_letters()
        .iter()
        .map(|f| f.error.kind())
        .collect();
    assert_eq!(kinds, [ErrorKind::Malformed, ErrorKind::Schema]);

    let script = Script::new(|_, _| async { Ok(()) });
    let work = Single::new(nullable_values(chain()), script.clone());
    let rig = Rig::with(mixed().source(0), work, settings(), Desk::default());
    assert_eq!(rig.over().await.desk.dead_offsets(), [1]);
    assert_eq!(script.offsets(), [0, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn a_handler_of_outcomes_sees_failures_and_decides() {
    let script = Script::new(|offset, _| async move {
        match offset {
            1 => Err(Error::permanent("not for me either")),
            _ => Ok(()),
        }
    });
    let chain = ExceptionHandling::new(codecs::json::json::<serde_json::Value>());
    let work = Single::new(outcomes(chain), script.clone());
    let rig = Rig::with(mixed().source(0), work, settings(), Desk::default());
    let done = rig.over().await;
    assert_eq!(script.offsets(), [0, 1, 2, 3]);
    assert_eq!((done.desk.dead_offsets(), done.mark), (vec![1], Some(4)));
}

/// Fails item 3 for good and item 5 once; notes the batches.
#[derive(Clone, Default)]
struct Batches(Arc<Mutex<Vec<Vec<i64>>>>);

impl BatchHandler<serde_json::Value> for Batches {
    type Error = Error;

    async fn handle(
        &self,
        values: Vec<serde_json::Value>,
        contexts: &[HandlerContext<'_>],
    ) -> Vec<Result<()>> {
        assert_eq!(values.len(), contexts.len());
        let offsets: Vec<_> = contexts.iter().map(|c| c.record().offset).collect();
        self.0.lock().unwrap().push(offsets.clone());
        let one = |(offset, context): (i64, &HandlerContext<'_>)| match offset {
            3 => Err(Error::permanent("bad")),
            5 if context.attempt() == 1 => Err(Error::temporary("once")),
            _ => Ok(()),
        };
        offsets.into_iter().zip(contexts).map(one).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_handler_answers_for_each_item() {
    let log = Log::default();
    for offset in 0..10 {
        log.append(record(offset, None, if offset == 7 { "{" } else { "{}" }));
    }
    let batches = Batches::default();
    let work = Batch::new(json(), batches.clone(), 8);
    let source = log.end().source(0);
    let done = Rig::with(source, work, settings(), Desk::default())
        .over()
        .await;
    let seen = batches.0.lock().unwrap().clone();
    assert_eq!(seen, [vec![0, 1, 2, 3, 4, 5, 6], vec![5], vec![8, 9]]);
    assert_eq!(done.desk.dead_offsets(), [3, 7]);
    assert_eq!(done.mark, Some(10));
}

struct Short;

impl BatchHandler<serde_json::Value> for Short {
    type Error = Error;

    async fn handle(
        &self,
        values: Vec<serde_json::Value>,
        _: &[HandlerContext<'_>],
    ) -> Vec<Result<()>> {
        values.into_iter().skip(1).map(|_| Ok(())).collect()
    }
}

/// An error whose conversion panics.
struct Broken;

impl HandlerError for Broken {
    fn into_error(self) -> Error {
        panic!("card-4111")
    }
}

/// Panics before its future is there, or makes an error that does.
struct Panicking(bool);

impl BatchHandler<serde_json::Value> for Panicking {
    type Error = Broken;

    #[allow(clippy::manual_async_fn, reason = "what panics is not in the future")]
    fn handle(
        &self,
        values: Vec<serde_json::Value>,
        _: &[HandlerContext<'_>],
    ) -> impl Future<Output = Vec<std::result::Result<(), Broken>>> + Send {
        assert!(!self.0, "card-4111");
        async move { values.into_iter().map(|_| Err(Broken)).collect() }
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_handler_that_panics_anywhere_fails_its_items_and_nothing_else() {
    for at_once in [true, false] {
        let work = Batch::new(json(), Panicking(at_once), 8);
        let source = Log::of(0..2).end().source(0);
        let done = Rig::with(source, work, settings(), Desk::default())
            .over()
            .await;
        assert!(done.is_over());
        assert_eq!(done.desk.dead_offsets(), [0, 1]);
        for failed in done.desk.dead_letters() {
            assert_eq!(failed.error.kind(), ErrorKind::Panic);
            assert!(!format!("{:?}", failed.error).contains("4111"));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_backoff_or_matcher_that_panics_stops_the_pipeline_and_tells_which() {
    #[derive(Debug)]
    struct Panics;
    impl Backoff for Panics {
        fn retries(&self) -> Option<u32> {
            None
        }

        fn wait(&self, _: u32, _: f64) -> Option<Duration> {
            panic!("card-4111")
        }
    }
    impl Matcher for Panics {
        fn matches(&self, _: &Error) -> bool {
            panic!("card-4111")
        }
    }
    let by_backoff = WorkerSettings {
        attempts: Attempts::new(None, SharedBackoff::new(Panics)),
        ..settings()
    };
    let by_matcher = WorkerSettings {
        policy: Policy {
            ignore: Some(SharedMatcher::new(Panics)),
            ..Policy::default()
        },
        ..settings()
    };
    for (settings, named) in [(by_backoff, "backoff"), (by_matcher, "matcher")] {
        let script = Script::new(|_, _| async { Err(Error::temporary("no")) });
        let work = Single::new(json(), script);
        let rig = Rig::with(Log::of(0..1).source(0), work, settings, Desk::default());
        match rig.over().await.ended {
            Ended::Stopped(error) => {
                let text = format!("{error} {error:?}");
                assert!(text.contains(named) && !text.contains("4111"), "{text}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_handler_that_forgets_an_item_stops_the_pipeline() {
    let work = Batch::new(json(), Short, 8);
    let rig = Rig::with(Log::of(0..4).source(0), work, settings(), Desk::default());
    let done = rig.over().await;
    match done.ended {
        Ended::Stopped(error) => {
            assert_eq!(error.kind(), ErrorKind::Config);
            assert!(error.message().contains("3 results for 4 items"), "{error}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(done.mark, None);
}

#[tokio::test]
async fn batches_have_no_order_of_keys() {
    let mark = Ledger::new().assign(crate::support::orders());
    let parts = WorkerParts {
        source: Log::of(0..1).source(0),
        committed: None,
        work: Arc::new(Batch::new(json(), Short, 8)),
        effects: Arc::new(Desk::default()),
        settings: Arc::new(WorkerSettings {
            order: Order::Key,
            ..settings()
        }),
        gauge: PartitionGauge::new(crate::support::orders(), mark.clone()),
        mark,
    };
    let refused = worker(parts).map(|_| ()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Config);
}

/// A handler that blocks its thread until it is let go, once for each record.
fn gated(gate: Receiver<()>) -> impl Fn(serde_json::Value, &HandlerContext<'_>) -> Result<()> {
    let gate = Mutex::new(gate);
    move |_, _| {
        let _ = gate.lock().unwrap().recv();
        Ok(())
    }
}

async fn until(mut holds: impl FnMut() -> bool) {
    while !holds() {
        tokio::time::sleep(millis(1)).await;
    }
}

/// On real time: a thread that blocks is no idle runtime, but paused time would think so.
#[tokio::test]
async fn a_handler_that_blocks_holds_up_no_other_work() {
    let pool = SyncPool::start(2).unwrap();
    let (go, gate) = channel();
    let work = Single::new(json(), blocking(&pool, gated(gate)));
    let source = Log::of(0..3).end().source(0);
    let rig = Rig::with(source, work, settings(), Desk::default());
    until(|| pool.free() == 1).await;
    assert_eq!(rig.mark.get(), None);
    (0..3).for_each(|_| go.send(()).unwrap());
    assert_eq!(rig.over().await.mark, Some(3));
    assert_eq!(pool.free(), 2);
}

#[tokio::test]
async fn a_blocking_handlers_errors_and_panics_are_attempts() {
    let pool = SyncPool::start(1).unwrap();
    let calls = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&calls);
    let handler = move |_: serde_json::Value, context: &HandlerContext<'_>| {
        let call = (context.record().offset, context.attempt());
        noted.lock().unwrap().push(call);
        match call {
            (0, 1) => Err(Error::temporary("once")),
            (0, 2) => panic!("the handler panics"),
            (1, _) => Err(Error::permanent("bad")),
            _ => Ok(()),
        }
    };
    let settings = WorkerSettings {
        attempts: crate::support::attempts(3, millis(1)),
        ..settings()
    };
    let source = Log::of(0..3).end().source(0);
    let work = Single::new(json(), blocking(&pool, handler));
    let done = Rig::with(source, work, settings, Desk::default())
        .over()
        .await;
    assert_eq!((done.desk.dead_offsets(), done.mark), (vec![1], Some(3)));
    assert_eq!(
        *calls.lock().unwrap(),
        [(0, 1), (0, 2), (0, 3), (1, 1), (2, 1)]
    );
    assert_eq!(pool.free(), 1, "a panic frees its slot");
}

#[tokio::test]
async fn no_time_limit_ends_a_blocking_call_and_no_record_runs_twice_at_once() {
    let pool = SyncPool::start(2).unwrap();
    let (go, gate) = channel();
    let running = Arc::new(Mutex::new((0, 0)));
    let noted = Arc::clone(&running);
    let inner = gated(gate);
    let handler = move |value: serde_json::Value, context: &HandlerContext<'_>| {
        {
            let mut now = noted.lock().unwrap();
            now.0 += 1;
            now.1 = now.0.max(now.1);
        }
        let result = inner(value, context);
        noted.lock().unwrap().0 -= 1;
        result
    };
    let work = Arc::new(Single::new(json(), blocking(&pool, handler)).timeout(millis(1)));
    let start = |ledger: &mut Ledger, log: &Log| {
        let mark = ledger.assign(crate::support::orders());
        let parts = WorkerParts {
            source: log.source(0),
            committed: None,
            gauge: PartitionGauge::new(crate::support::orders(), mark.clone()),
            work: Arc::clone(&work),
            effects: Arc::new(Desk::default()),
            settings: Arc::new(settings()),
            mark: mark.clone(),
        };
        let (worker, control) = worker(parts).unwrap();
        (tokio::spawn(worker.run()), control, mark)
    };
    let (mut ledger, log) = (Ledger::new(), Log::of([0]).end());
    let (first, control, mark) = start(&mut ledger, &log);
    until(|| running.lock().unwrap().0 == 1).await;
    tokio::time::sleep(millis(20)).await;
    assert_eq!(pool.free(), 1, "its slot stays taken");
    control.drain(Duration::from_millis(10));
    assert!(matches!(first.await.unwrap(), Ended::Abandoned(1)));
    assert_eq!(mark.get(), None);

    // The partition comes back while the first call still runs: the record waits for its end.
    let (mut second, _control, mark) = start(&mut ledger, &log);
    let early = tokio::time::timeout(millis(30), &mut second).await;
    assert!(early.is_err());
    assert_eq!(*running.lock().unwrap(), (1, 1));
    go.send(()).unwrap();
    go.send(()).unwrap();
    let ended = tokio::time::timeout(secs(60), second)
        .await
        .unwrap()
        .unwrap();
    assert!(matches!(ended, Ended::Over), "{ended:?}");
    assert_eq!((mark.get(), *running.lock().unwrap()), (Some(1), (0, 1)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_works_on_a_multi_thread_runtime() {
    let script = Script::new(|offset, _| async move {
        tokio::task::yield_now().await;
        match offset % 97 {
            0 => Err(Error::permanent("bad")),
            _ => Ok(()),
        }
    });
    for order in Order::ALL {
        let settings = WorkerSettings {
            order,
            ..settings()
        };
        let done = Rig::start(&Log::of(0..5_000).end(), &script, settings)
            .over()
            .await;
        assert_eq!(done.mark, Some(5_000));
        assert_eq!(done.desk.dead_offsets().len(), 52);
    }
}
