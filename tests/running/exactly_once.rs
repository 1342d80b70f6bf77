//! Exactly once on the embedded broker, which pretends: the calls are made, and what is written arrives.

use super::support::{Rig, Seen, Started, builder, record, values};
use kafka_chain::pipeline::{HandlerContext, PipelineEvent, handle_with};
use kafka_chain::{Error, ErrorKind};

const EXACTLY_ONCE: &str = "processing.guarantee=exactly_once";

#[tokio::test]
async fn outputs_and_dead_letters_are_written_in_transactions() {
    let rig = Rig::new(&["orders", "orders.dead-letter", "shipped"]);
    rig.produce("orders", &values(0..30)).await;
    let configuration = rig.configuration(EXACTLY_ONCE);
    let commits = Seen::default();
    let told = commits.clone();
    let pipeline = builder(&configuration)
        .values::<String>()
        .unwrap()
        .observer(move |event: &PipelineEvent<'_>| {
            if let PipelineEvent::Committed { partitions } = event {
                told.push(partitions.to_string());
            }
        })
        .handler(handle_with(
            |order: String, context: &HandlerContext<'_>| {
                let shipped = record("shipped", 0, &order);
                context.send(shipped);
                async move {
                    match order.ends_with('7') {
                        true => Err(Error::schema("a seven")),
                        false => Ok(()),
                    }
                }
            },
        ))
        .unwrap();
    let started = Started::of(pipeline);
    let shipped = rig.read("shipped", 27).await;
    let letters = rig.read("orders.dead-letter", 3).await;
    assert!(
        shipped
            .iter()
            .all(|record| !record.value.as_ref().unwrap().ends_with(b"7"))
    );
    assert!(
        letters
            .iter()
            .all(|letter| letter.value.as_ref().unwrap().ends_with(b"7"))
    );
    let summary = started.stop().await;
    assert_eq!((summary.abandoned, summary.uncommitted), (0, 0));
    assert!(!commits.all().is_empty());
}

#[tokio::test]
async fn a_consumer_that_does_not_wait_for_transactions_is_refused() {
    let rig = Rig::new(&["orders"]);
    let configuration = rig.configuration(EXACTLY_ONCE);
    let refused = builder(&configuration)
        .client("isolation.level", "read_uncommitted")
        .values::<String>()
        .unwrap()
        .handler(handle_with(|_: String, _: &HandlerContext<'_>| async {
            Ok::<(), Error>(())
        }));
    let error = refused.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.message().contains("isolation.level"), "{error}");
}
