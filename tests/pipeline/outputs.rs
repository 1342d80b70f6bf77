//! What handlers send, while it is not written.

use crate::support::{Desk, Log, Rig, json, secs, settings};
use bytes::Bytes;
use kafka_chain::pipeline::{HandlerContext, Order, Single, WorkerSettings, handle_with};
use kafka_chain::{Error, OutgoingRecord};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
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
