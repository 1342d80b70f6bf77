//! How a pipeline ends.

use super::support::{PARTITIONS, Rig, Seen, Started, builder, until, values};
use kafka_chain::pipeline::{HandlerContext, handle_with};
use kafka_chain::{Error, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// FC-077: what is in flight at the stop finishes and is committed.
#[tokio::test]
async fn a_stop_lets_the_record_in_flight_finish_and_commits_it() {
    let rig = Rig::new(&["orders", "orders.dead-letter"]);
    rig.produce("orders", &values(0..1)).await;
    let configuration = rig.configuration("commit.interval.ms=60000");
    let begun = Arc::new(AtomicBool::new(false));
    let seen = Seen::default();
    let pipeline = {
        let (begun, seen) = (Arc::clone(&begun), seen.clone());
        builder(&configuration)
            .values::<String>()
            .unwrap()
            .handler(handle_with(move |order: String, _: &HandlerContext<'_>| {
                begun.store(true, Ordering::Release);
                let seen = seen.clone();
                async move {
                    tokio::time::sleep(Duration::from_millis(300)).await;
                    seen.push(order);
                    Ok::<(), Error>(())
                }
            }))
            .unwrap()
    };
    let started = Started::of(pipeline);
    until("the handler is called", || begun.load(Ordering::Acquire)).await;
    let summary = started.stop().await;
    assert_eq!((summary.abandoned, summary.uncommitted), (0, 0));
    assert_eq!(seen.all(), ["order-0"]);

    rig.produce("orders", &values(1..2)).await;
    let seen = Seen::default();
    let by_handler = seen.clone();
    let pipeline = builder(&configuration)
        .values::<String>()
        .unwrap()
        .handler(handle_with(move |order: String, _: &HandlerContext<'_>| {
            by_handler.push(order);
            async { Ok::<(), Error>(()) }
        }))
        .unwrap();
    let started = Started::of(pipeline);
    seen.wait_for(1).await;
    started.stop().await;
    assert_eq!(seen.all(), ["order-1"]);
}

#[tokio::test]
async fn what_takes_longer_than_the_stop_may_is_given_up_and_comes_again() {
    let rig = Rig::new(&["orders", "orders.dead-letter"]);
    rig.produce("orders", &values(0..1)).await;
    let configuration = rig.configuration("");
    let seen = Seen::default();
    for run in 0..2 {
        let by_handler = seen.clone();
        let pipeline = builder(&configuration)
            .values::<String>()
            .unwrap()
            .handler(handle_with(move |order: String, _: &HandlerContext<'_>| {
                by_handler.push(format!("{run} {order}"));
                async move {
                    if run == 0 {
                        std::future::pending::<()>().await;
                    }
                    Ok::<(), Error>(())
                }
            }))
            .unwrap();
        let started = Started::of(pipeline);
        seen.wait_for(run + 1).await;
        started.handle.stop_within(Duration::from_millis(50));
        let summary = started.ended().await.unwrap();
        assert_eq!(summary.abandoned, 1 - run);
    }
    assert_eq!(seen.all(), ["0 order-0", "1 order-0"]);
}

#[tokio::test]
async fn a_wiring_mistake_stops_the_pipeline_and_says_where() {
    let rig = Rig::new(&["orders", "orders.dead-letter"]);
    rig.produce("orders", &values(0..1)).await;
    let configuration = rig.configuration("");
    let pipeline = builder(&configuration)
        .values::<String>()
        .unwrap()
        .handler(handle_with(
            move |_: String, _: &HandlerContext<'_>| async {
                Err::<(), _>(Error::config("the shop has no address"))
            },
        ))
        .unwrap();
    let error = Started::of(pipeline).ended().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    let text = error.to_string();
    assert!(text.contains("the shop has no address"), "{text}");
    assert!(text.contains("orders-0"), "{text}");
}

#[tokio::test]
async fn a_users_pause_holds_a_partition_until_it_is_resumed() {
    let rig = Rig::new(&["orders", "orders.dead-letter"]);
    let configuration = rig.configuration("");
    let seen = Seen::default();
    let by_handler = seen.clone();
    let pipeline = builder(&configuration)
        .values::<String>()
        .unwrap()
        .handler(handle_with(move |order: String, _: &HandlerContext<'_>| {
            by_handler.push(order);
            async { Ok::<(), Error>(()) }
        }))
        .unwrap();
    let started = Started::of(pipeline);
    started.handle.pause("orders", 1);
    rig.produce("orders", &values(0..9)).await;
    seen.wait_for(6).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!seen.set().contains("order-1"));
    assert_eq!(seen.all().len(), 6);
    started.handle.resume("orders", 1);
    seen.wait_for(9).await;
    started.stop().await;
}

/// The broker answers no commit any more; the first wish to stop would wait for it, for a while.
#[tokio::test]
async fn a_second_wish_to_stop_ends_at_once_while_a_broker_does_not_answer() {
    let rig = Rig::new(&["orders", "orders.dead-letter"]);
    let configuration = rig.configuration("commit.interval.ms=3600000");
    let seen = Seen::default();
    let by_handler = seen.clone();
    let pipeline = builder(&configuration)
        .values::<String>()
        .unwrap()
        .handler(handle_with(move |order: String, _: &HandlerContext<'_>| {
            by_handler.push(order);
            async { Ok::<(), Error>(()) }
        }))
        .unwrap();
    let started = Started::of(pipeline);
    rig.produce("orders", &values(0..PARTITIONS as usize)).await;
    seen.wait_for(PARTITIONS as usize).await;
    rig.broker.slow_down(1, Duration::from_secs(3_600)).unwrap();
    started.handle.stop();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!started.has_ended(), "the last commit is waited for");
    started.handle.stop_now();
    let summary = started.ended_within(Duration::from_secs(5)).await.unwrap();
    assert_eq!(summary.uncommitted, PARTITIONS as usize);
}

/// Nor is a single wish waited for without a limit.
#[tokio::test]
async fn a_stop_ends_though_a_broker_does_not_answer() {
    let rig = Rig::new(&["orders", "orders.dead-letter"]);
    let configuration = rig.configuration("");
    let seen = Seen::default();
    let by_handler = seen.clone();
    let pipeline = builder(&configuration)
        .values::<String>()
        .unwrap()
        .handler(handle_with(move |order: String, _: &HandlerContext<'_>| {
            by_handler.push(order);
            async { Ok::<(), Error>(()) }
        }))
        .unwrap();
    let started = Started::of(pipeline);
    rig.produce("orders", &values(0..PARTITIONS as usize)).await;
    seen.wait_for(PARTITIONS as usize).await;
    rig.broker.slow_down(1, Duration::from_secs(3_600)).unwrap();
    started.stop().await;
}
