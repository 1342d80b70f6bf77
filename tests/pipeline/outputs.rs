//! What handlers send, while it is not written.

use crate::support::{Desk, Log, Rig, json, orders, secs, settings};
use bytes::Bytes;
use kafka_chain::backoff::{Fixed, SharedBackoff};
use kafka_chain::pipeline::observe::PartitionGauge;
use kafka_chain::pipeline::{
    Effects, Ended, Failed, HandlerContext, Ledger, Order, Policy, Sent, Single, WorkerParts,
    WorkerSettings, Written, handle_with, worker,
};
use kafka_chain::{BoxFuture, Error, OutgoingRecord, Status};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::sleep;

const MIB: usize = 1024 * 1024;

/// Of small records large ones are made.
#[tokio::test(start_paused = true)]
async fn unwritten_outputs_hold_further_records_within_the_bytes_in_flight() {
    for order in Order::ALL {
        let handled = Arc::new(AtomicUsize::new(0));
        let counting = Arc::clone(&handled);
        let handler = handle_with(move |_: serde_json::Value, context: &HandlerContext<'_>| {
            counting.fetch_add(1, Ordering::SeqCst);
            context.send(OutgoingRecord {
                topic: "bills".to_owned(),
                value: Some(Bytes::from(vec![0; MIB])),
                ..OutgoingRecord::default()
            });
            std::future::ready(Ok::<(), Error>(()))
        });
        let settings = WorkerSettings {
            order,
            max_in_flight: 4,
            max_bytes: 8 * MIB,
            ..settings()
        };
        let source = Log::of(0..500).end().source(0);
        let rig = Rig::with(
            source,
            Single::new(json(), handler),
            settings,
            Desk::default(),
        );
        sleep(secs(60)).await;
        let held = handled.load(Ordering::SeqCst);
        assert!((8..=12).contains(&held), "{order:?}: {held} were handled");
        assert_eq!(rig.mark.get(), None);
        rig.desk.outputs.add_permits(1_000);
        let done = rig.over().await;
        assert!(done.is_over());
        assert_eq!(
            (done.mark, handled.load(Ordering::SeqCst)),
            (Some(500), 500)
        );
    }
}

/// Writes one of two outputs at first, and no copy for later at all.
#[derive(Default)]
struct Fussy {
    outputs: Mutex<Vec<Vec<OutgoingRecord>>>,
    dead_letters: Mutex<Vec<i64>>,
}

impl Effects for Fussy {
    fn dead_letter(&self, failed: &Failed) -> BoxFuture<'static, Written> {
        self.dead_letters.lock().unwrap().push(failed.record.offset);
        Box::pin(async { Written::Acknowledged })
    }

    fn outputs(&self, sent: &Sent<'_>) -> BoxFuture<'static, Written> {
        let mut seen = self.outputs.lock().unwrap();
        seen.push(sent.outputs.to_vec());
        let left = sent.outputs[1..].to_vec();
        let written = match left.is_empty() {
            true => Written::Acknowledged,
            false => Written::Partly(left.into(), Error::unavailable("no such topic")),
        };
        Box::pin(async { written })
    }

    fn delay(&self, _: &Failed, _: Duration) -> BoxFuture<'static, Written> {
        Box::pin(async { Written::Failed(Error::permanent("too large")) })
    }
}

fn to(topic: &str) -> OutgoingRecord {
    OutgoingRecord::to(topic)
}

#[tokio::test(start_paused = true)]
async fn what_is_written_is_not_written_again_and_no_refused_copy_holds_a_partition() {
    let handler = handle_with(|_: serde_json::Value, context: &HandlerContext<'_>| {
        let offset = context.record().offset;
        context.send_all(vec![to("bills"), to("missing")]);
        std::future::ready(match offset {
            1 => Err(Error::permanent("no").with_status(Status::Exhausted)),
            _ => Ok(()),
        })
    });
    let settings = WorkerSettings {
        policy: Policy {
            delay: Some(SharedBackoff::new(Fixed::new(secs(5), 3))),
            ..Policy::default()
        },
        ..settings()
    };
    let mut ledger = Ledger::new();
    let mark = ledger.assign(orders());
    let effects = Arc::new(Fussy::default());
    let parts = WorkerParts {
        source: Log::of(0..2).end().source(0),
        committed: None,
        work: Arc::new(Single::new(json(), handler)),
        effects: Arc::clone(&effects),
        settings: Arc::new(settings),
        mark: mark.clone(),
        gauge: PartitionGauge::new(orders(), mark.clone()),
    };
    let (worker, _control) = worker(parts).unwrap();
    let ended = tokio::time::timeout(secs(1_000), worker.run()).await;
    assert!(matches!(ended, Ok(Ended::Over)), "{ended:?}");
    assert_eq!(mark.get(), Some(2));
    let outputs = effects.outputs.lock().unwrap();
    assert_eq!(
        *outputs,
        [vec![to("bills"), to("missing")], vec![to("missing")]]
    );
    assert_eq!(*effects.dead_letters.lock().unwrap(), [1]);
}
