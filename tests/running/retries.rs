//! Retries that do not block: put aside, delivered again, given up with their history.

use super::support::{Rig, Seen, Started, builder, values};
use kafka_chain::clock::{Clock, SystemClock};
use kafka_chain::dead_letter;
use kafka_chain::delay::memory::MemoryStore;
use kafka_chain::delay::worker::{Worker, WorkerOptions};
use kafka_chain::delay::{DelaySink, Delayed, Durability, Limits, Receipt};
use kafka_chain::pipeline::{HandlerContext, handle_with};
use kafka_chain::{BoxFuture, Error, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A store in memory that outlives the pipelines of a test.
#[derive(Clone)]
struct Outliving(Arc<MemoryStore>);

impl DelaySink for Outliving {
    fn schedule(&self, batch: Vec<Delayed>) -> BoxFuture<'_, Vec<Result<Receipt>>> {
        self.0.schedule(batch)
    }

    fn durability(&self) -> Durability {
        Durability::StoreProcess
    }
}

const RETRIES: &str =
    "retry.delay=list\nretry.delay.list.waitsSeconds=0.1, 0.2\nretry.order=relaxed";

#[tokio::test]
async fn what_fails_comes_again_later_and_holds_nobody_up() {
    let rig = Rig::new(&["orders", "orders.dead-letter", "orders.shop.retry"]);
    rig.produce("orders", &values(0..30)).await;
    let configuration = rig.configuration(RETRIES);
    let store = Arc::new(MemoryStore::new(Limits::default()).unwrap());
    let worker = Worker::new(
        Arc::clone(&store),
        rig.sink.clone(),
        WorkerOptions::default(),
    );
    let delivering = tokio::spawn(async move { worker.run(std::future::pending()).await });
    let seen = Seen::default();
    let by_handler = seen.clone();
    let pipeline = builder(&configuration)
        .values::<String>()
        .unwrap()
        .retry_sink(Outliving(store))
        .handler(handle_with(
            move |order: String, context: &HandlerContext<'_>| {
                let retried = context.retried();
                let delivery = retried.as_ref().map_or(1, |retried| retried.attempt);
                if let Some(retried) = &retried {
                    assert_eq!(retried.topic, "orders");
                }
                by_handler.push(format!("{delivery} {order}"));
                let fails = match order.as_str() {
                    "order-4" => delivery < 3,
                    "order-7" => true,
                    _ => false,
                };
                async move {
                    match fails {
                        true => Err("the courier is away"),
                        false => Ok(()),
                    }
                }
            },
        ))
        .unwrap();
    let started = Started::of(pipeline);
    seen.wait_for(34).await;
    let letters = rig.read("orders.dead-letter", 1).await;
    started.stop().await;
    delivering.abort();

    let mut deliveries: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in seen.all() {
        let (delivery, order) = line.split_once(' ').unwrap();
        let of_order = deliveries.entry(order.to_owned()).or_default();
        of_order.push(delivery.to_owned());
    }
    assert_eq!(deliveries["order-4"], ["1", "2", "3"]);
    assert_eq!(deliveries["order-7"], ["1", "2", "3"]);
    assert_eq!(deliveries["order-1"], ["1"]);
    let (_, letter) = dead_letter::read(letters[0].as_record().headers).unwrap();
    assert_eq!(letter.topic(), Some("orders"));
    assert_eq!(letter.partition(), Some(1));
    assert_eq!(letter.offset(), Some(2));
    assert_eq!(letter.message(), Some("the courier is away"));
    assert_eq!(letters[0].value.as_deref(), Some(&b"order-7"[..]));
}

/// The same through topics, which the pipeline consumes itself.
#[tokio::test]
async fn a_topic_for_each_delay_needs_no_store() {
    let rig = Rig::new(&[
        "orders",
        "orders.dead-letter",
        "orders.shop.retry.100ms",
        "orders.shop.retry.200ms",
    ]);
    rig.produce("orders", &values(0..30)).await;
    let configuration = rig.configuration("retry.topics=100ms, 200ms\nretry.order=relaxed");
    let seen = Seen::default();
    let by_handler = seen.clone();
    let pipeline = builder(&configuration)
        .values::<String>()
        .unwrap()
        .handler(handle_with(
            move |order: String, context: &HandlerContext<'_>| {
                let retried = context.retried();
                let delivery = retried.as_ref().map_or(1, |retried| retried.attempt);
                if let Some(first_failed) = retried.and_then(|retried| retried.first_failed) {
                    let since = SystemClock.now() - first_failed;
                    let due = [100, 300][delivery as usize - 2];
                    assert!(since >= due, "delivery {delivery} after {since} ms");
                }
                by_handler.push(format!("{delivery} {order}"));
                let fails = order == "order-7" || order == "order-4" && delivery < 3;
                async move {
                    match fails {
                        true => Err("the courier is away"),
                        false => Ok(()),
                    }
                }
            },
        ))
        .unwrap();
    let started = Started::of(pipeline);
    seen.wait_for(34).await;
    let letters = rig.read("orders.dead-letter", 1).await;
    started.stop().await;
    let set = seen.set();
    for line in ["3 order-4", "3 order-7", "1 order-29"] {
        assert!(set.contains(line), "{line}: {set:?}");
    }
    assert_eq!(set.len(), 34);
    let (_, letter) = dead_letter::read(letters[0].as_record().headers).unwrap();
    assert_eq!((letter.topic(), letter.offset()), (Some("orders"), Some(2)));
    assert_eq!(letters[0].value.as_deref(), Some(&b"order-7"[..]));
}

#[tokio::test]
async fn a_sink_that_forgets_is_refused() {
    let rig = Rig::new(&[]);
    let configuration = rig.configuration(RETRIES);
    let store = MemoryStore::new(Limits::default()).unwrap();
    let refused = builder(&configuration)
        .values::<String>()
        .unwrap()
        .retry_sink(store)
        .handler(handle_with(|_: String, _: &HandlerContext<'_>| async {
            Ok::<(), Error>(())
        }));
    let text = refused.unwrap_err().to_string();
    assert!(text.contains("outlives this process"), "{text}");
}
