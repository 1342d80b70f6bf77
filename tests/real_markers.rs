//! A pipeline on real Apache Kafka behind which nothing but markers of transactions is left.
#![cfg(feature = "kafka")]

#[path = "support/group.rs"]
mod group;
#[path = "support/real.rs"]
mod real;
#[path = "support/transaction.rs"]
mod transaction;

use group::{PATIENCE, assigned, settings, start};
use kafka_chain::Error;
use kafka_chain::config::Registry;
use kafka_chain::pipeline::observe::Health;
use kafka_chain::pipeline::{HandlerContext, Pipeline, handle_with};
use kafka_chain::properties::Properties;
use kafka_chain::transport::Settings;
use kafka_chain::transport::kafka::{NewTopic, create_topics};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::{sleep, timeout};
use transaction::transaction;

/// Runs a pipeline until `done` says so; how many records it handled.
async fn run(servers: &str, topic: &str, done: impl Fn(&Health, usize) -> bool) -> usize {
    let text = format!(
        "bootstrap.servers={servers}\ngroup.id={topic}\ntopics={topic}\n\
         value.deserializer=string\nsession.timeout.ms=6000\nheartbeat.interval.ms=500\n\
         statistics.interval.ms=100\ncommit.interval.ms=50\n"
    );
    let properties: Properties = text.parse().unwrap();
    let configuration = Registry::builtin().configure(&properties).unwrap();
    let handled = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&handled);
    let pipeline = Pipeline::builder(&configuration)
        .unwrap()
        .values::<String>()
        .unwrap()
        .handler(handle_with(move |_: String, _: &HandlerContext<'_>| {
            counts.fetch_add(1, Ordering::SeqCst);
            async { Ok::<(), Error>(()) }
        }))
        .unwrap();
    let handle = pipeline.handle();
    let task = tokio::spawn(pipeline.run());
    let waiting = async {
        while !done(&handle.health(), handled.load(Ordering::SeqCst)) {
            sleep(Duration::from_millis(20)).await;
        }
    };
    if timeout(PATIENCE, waiting).await.is_err() {
        panic!("{}", handle.health());
    }
    handle.stop();
    let ended = timeout(PATIENCE, task).await.unwrap().unwrap();
    assert_eq!(ended.unwrap().uncommitted, 0);
    handled.load(Ordering::SeqCst)
}

async fn committed(settings: &Settings, topic: &str) -> Option<i64> {
    let mut consumer = start(settings, topic);
    let start = assigned(&mut consumer).await.remove(0).start;
    consumer.close(Vec::new(), PATIENCE).await;
    start
}

/// FC-058, FC-061: nothing waits for a marker, no lag counts one, and what is committed lies behind
/// it; after a restart as well, when no record comes that would tell.
#[tokio::test]
async fn markers_at_the_end_are_no_lag_and_are_committed() {
    let Some(servers) = real::kafka() else { return };
    let topic = format!("markers-{}", std::process::id());
    let settings = settings(&servers, &topic, &[("session.timeout.ms", "6000")]);
    let topics = vec![NewTopic::new(&topic, 1)];
    create_topics(&settings, topics, PATIENCE).await.unwrap();
    let no_lag = |health: &Health| health.partitions.first().is_some_and(|p| p.lag == Some(0));

    transaction(&servers, &topic, 3, true);
    transaction(&servers, &topic, 2, false);
    let first = |health: &Health, handled| handled == 3 && no_lag(health);
    assert_eq!(run(&servers, &topic, first).await, 3);
    assert_eq!(committed(&settings, &topic).await, Some(7));

    transaction(&servers, &topic, 1, false);
    let handled = run(&servers, &topic, |health, _| no_lag(health)).await;
    assert_eq!(handled, 0);
    assert_eq!(committed(&settings, &topic).await, Some(9));
}
