//! A group's members on the embedded broker: rebalances, pauses, commits, the end.
#![cfg(feature = "kafka")]

#[path = "support/group.rs"]
mod group;

use group::{PATIENCE, assigned, churn, fill, next, revoked, settings, start, take};
use kafka_chain::transport::Settings;
use kafka_chain::transport::kafka::{
    Commit, CommitFailure, EmbeddedBroker, GroupConsumer, GroupEvent, GroupOptions, KafkaSink,
};
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};

const EAGER: &[(&str, &str)] = &[
    ("session.timeout.ms", "1100"),
    ("heartbeat.interval.ms", "50"),
];
const COOPERATIVE: &[(&str, &str)] = &[
    ("session.timeout.ms", "3000"),
    ("heartbeat.interval.ms", "50"),
    ("partition.assignment.strategy", "cooperative-sticky"),
];
const KIP_848: &[(&str, &str)] = &[("group.protocol", "consumer")];

struct Rig {
    broker: EmbeddedBroker,
    sink: KafkaSink,
}

fn rig(topic: &str, partitions: i32) -> Rig {
    let broker = EmbeddedBroker::start(1).unwrap();
    broker.create_topic(topic, partitions).unwrap();
    let mut settings = Settings::new();
    settings
        .set("bootstrap.servers", broker.bootstrap_servers())
        .set("linger.ms", "0");
    let sink = KafkaSink::start(&settings).unwrap();
    Rig { broker, sink }
}

impl Rig {
    fn settings(&self, group: &str, more: &[(&str, &str)]) -> Settings {
        settings(&self.broker.bootstrap_servers(), group, more)
    }
}

async fn churned(topic: &str, protocol: &[(&str, &str)], rounds: usize, pause: u64) {
    let rig = rig(topic, 4);
    let settings = rig.settings(topic, protocol);
    let pause = Duration::from_millis(pause);
    let (twice, ownerships) = churn(&rig.sink, &settings, topic, 4, rounds, pause).await;
    println!("{topic}: {ownerships} ownerships, {twice} records twice");
    assert!(ownerships > 4, "partitions have moved");
}

/// FC-066, FC-070.
#[tokio::test]
async fn an_eager_group_loses_nothing_while_members_come_and_go() {
    churned("eager", EAGER, 5, 700).await;
}

/// FC-066, FC-070.
#[tokio::test]
async fn a_cooperative_group_loses_nothing_while_members_come_and_go() {
    churned("cooperative", COOPERATIVE, 2, 3500).await;
}

/// FC-066, FC-070.
#[tokio::test]
async fn a_kip_848_group_loses_nothing_while_members_come_and_go() {
    churned("kip848", KIP_848, 5, 700).await;
}

/// FC-070: what waited before the member joined comes in order and without a hole.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backlog_is_read_in_order_from_its_beginning() {
    let rig = rig("backlog", 4);
    for partition in 0..4 {
        fill(&rig.sink, "backlog", partition, 1000).await;
    }
    let mut consumer = start(&rig.settings("backlog", EAGER), "backlog");
    let partitions = assigned(&mut consumer).await;
    assert_eq!(partitions.len(), 4);
    let mut readers = tokio::task::JoinSet::new();
    for mut partition in partitions {
        assert_eq!(partition.start, None, "nothing was committed yet");
        readers.spawn(async move { take(&mut partition.reader, 1000).await });
    }
    while let Some(offsets) = readers.join_next().await {
        assert!(offsets.unwrap().into_iter().eq(0..1000));
    }
    consumer.close(Vec::new(), PATIENCE).await;
}

/// FC-077: commits at the end are there for the next member, with their metadata kept apart from
/// what was only read.
#[tokio::test]
async fn the_next_member_begins_at_what_was_committed() {
    let rig = rig("resume", 1);
    fill(&rig.sink, "resume", 0, 10).await;
    let settings = rig.settings("resume", EAGER);

    let mut first = start(&settings, "resume");
    let mut partition = assigned(&mut first).await.remove(0);
    assert_eq!(take(&mut partition.reader, 8).await, [0, 1, 2, 3, 4, 5, 6, 7]);
    let mut commit = Commit::new(partition.partition.clone(), 3);
    commit.metadata = Some("of mine".to_owned());
    assert_eq!(first.handle().commit(vec![commit]).await, [Ok(())]);
    let last = vec![Commit::new(partition.partition.clone(), 5)];
    assert_eq!(first.close(last, PATIENCE).await, [Ok(())]);
    assert!(partition.reader.next_batch(1).await.is_none());

    let mut second = start(&settings, "resume");
    let mut again = assigned(&mut second).await.remove(0);
    assert_eq!(again.start, Some(5));
    assert_eq!(take(&mut again.reader, 5).await, [5, 6, 7, 8, 9]);
    // The first member's ownership means nothing here, not even with the same number.
    let stale = Commit::new(partition.partition, 9);
    let [Err(error)] = &first_results(second.close(vec![], PATIENCE).await, stale)[..] else {
        panic!("a closed consumer commits nothing");
    };
    assert_eq!(error.failure, CommitFailure::NotOwned);
}

fn first_results(
    nothing: kafka_chain::transport::kafka::CommitResults,
    commit: Commit,
) -> kafka_chain::transport::kafka::CommitResults {
    assert!(nothing.is_empty());
    vec![Err(kafka_chain::transport::kafka::CommitError::clone(
        &not_owned(commit),
    ))]
}
