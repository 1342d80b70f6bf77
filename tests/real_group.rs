//! A group's members on real Apache Kafka: all three protocols, under load.
#![cfg(feature = "kafka")]

#[path = "support/group.rs"]
mod group;
#[path = "support/real.rs"]
mod real;
#[path = "support/transaction.rs"]
mod transaction;

use group::{PATIENCE, assigned, churn, fill, settings, start, take};
use kafka_chain::transport::Settings;
use kafka_chain::transport::kafka::{
    AssignedPartition, Commit, KafkaRecord, KafkaSink, NewTopic, PartitionReader, ReadTo,
    create_topics,
};
use std::time::Duration;
use tokio::time::{sleep, timeout};
use transaction::transaction;

const PARTITIONS: i32 = 6;
const NO_RECORD: [i64; 0] = [];

struct Rig {
    servers: String,
    topic: String,
    sink: KafkaSink,
}

/// A topic of its own, or nothing where there is no Kafka.
async fn rig(name: &str) -> Option<Rig> {
    let servers = real::kafka()?;
    let topic = format!("group-{name}-{}", std::process::id());
    let mut own = Settings::new();
    own.set("bootstrap.servers", &servers).set("linger.ms", "0");
    let topics = vec![NewTopic::new(&topic, PARTITIONS)];
    create_topics(&own, topics, PATIENCE).await.unwrap();
    let sink = KafkaSink::start(&own).unwrap();
    Some(Rig {
        servers,
        topic,
        sink,
    })
}

impl Rig {
    fn settings(&self, more: &[(&str, &str)]) -> Settings {
        settings(&self.servers, &self.topic, more)
    }
}

async fn churned(name: &str, protocol: &[(&str, &str)], pause: u64) {
    let Some(rig) = rig(name).await else { return };
    let settings = rig.settings(protocol);
    let pause = Duration::from_millis(pause);
    let (twice, ownerships) = churn(&rig.sink, &settings, &rig.topic, PARTITIONS, 4, pause).await;
    println!("{name}: {ownerships} ownerships, {twice} records twice");
    assert!(ownerships > 6, "partitions have moved");
}

/// FC-066, FC-070.
#[tokio::test]
async fn an_eager_group_loses_nothing_while_members_come_and_go() {
    let timeouts = [
        ("session.timeout.ms", "3000"),
        ("heartbeat.interval.ms", "200"),
    ];
    churned("eager", &timeouts, 1200).await;
}

/// FC-066, FC-070.
#[tokio::test]
async fn a_cooperative_group_loses_nothing_while_members_come_and_go() {
    let settings = [
        ("session.timeout.ms", "3000"),
        ("heartbeat.interval.ms", "200"),
        ("partition.assignment.strategy", "cooperative-sticky"),
    ];
    churned("cooperative", &settings, 1500).await;
}

/// FC-066, FC-070.
#[tokio::test]
async fn a_kip_848_group_loses_nothing_while_members_come_and_go() {
    churned("kip848", &[("group.protocol", "consumer")], 1500).await;
}

/// FC-077, and how late a resumed partition is on a real broker.
#[tokio::test]
async fn offsets_and_pauses_hold_on_a_real_broker() {
    let Some(rig) = rig("resume").await else {
        return;
    };
    for partition in 0..PARTITIONS {
        fill(&rig.sink, &rig.topic, partition, 5).await;
    }
    let settings = rig.settings(&[("session.timeout.ms", "6000")]);
    let mut first = start(&settings, &rig.topic);
    let handle = first.handle();
    let mut partitions = assigned(&mut first).await;
    assert_eq!(partitions.len(), 6);
    for assigned in &mut partitions {
        assert_eq!(assigned.start, None);
        assert_eq!(take(&mut assigned.reader, 5).await, [0, 1, 2, 3, 4]);
    }
    let mut one = partitions.remove(0);
    assert!(handle.pause(&one.partition, true).await.unwrap());
    fill(&rig.sink, &rig.topic, one.partition.partition, 5).await;
    let none = timeout(Duration::from_millis(700), one.reader.next_batch(1)).await;
    assert!(none.is_err(), "paused");
    assert!(handle.pause(&one.partition, false).await.unwrap());
    let began = std::time::Instant::now();
    assert_eq!(take(&mut one.reader, 5).await, [5, 6, 7, 8, 9]);
    println!("resumed after {:?}", began.elapsed());

    let lagging = async {
        while handle.lags().len() != 6 {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(PATIENCE, lagging).await.unwrap();
    let last = partitions
        .iter()
        .map(|assigned| Commit::new(assigned.partition.clone(), 4))
        .collect();
    let results = first.close(last, PATIENCE).await;
    assert!(results.iter().all(Result::is_ok), "{results:?}");

    let mut second = start(&settings, &rig.topic);
    let mut starts: Vec<_> = assigned(&mut second)
        .await
        .into_iter()
        .map(|assigned| assigned.start)
        .collect();
    starts.sort();
    assert_eq!(starts, [None, Some(4), Some(4), Some(4), Some(4), Some(4)]);
    second.close(Vec::new(), PATIENCE).await;
}

async fn read(reader: &mut PartitionReader, into: &mut Vec<KafkaRecord>) -> Option<ReadTo> {
    let read = std::future::poll_fn(|cx| reader.poll_take(cx, 100, into));
    timeout(PATIENCE, read).await.unwrap()
}

/// Reads until `position` and answers the offsets of the records.
async fn read_to(reader: &mut PartitionReader, position: i64) -> Vec<i64> {
    let mut records = Vec::new();
    loop {
        match read(reader, &mut records).await {
            Some(ReadTo::End(end)) if end == position => break,
            Some(ReadTo::End(end)) => assert!(end < position, "{end}"),
            Some(ReadTo::Records) => {}
            None => panic!("the ownership goes on"),
        }
    }
    records
        .iter()
        .map(|record| record.record().offset)
        .collect()
}

/// FC-058, FC-061: markers at the end, of committed and of aborted transactions, are passed: the
/// position lies behind them, and nothing lags.
#[tokio::test]
async fn markers_of_transactions_at_the_end_are_passed() {
    let Some(rig) = rig("markers").await else {
        return;
    };
    transaction(&rig.servers, &rig.topic, 3, true);
    let settings = rig.settings(&[
        ("session.timeout.ms", "6000"),
        ("statistics.interval.ms", "100"),
    ]);
    let mut consumer = start(&settings, &rig.topic);
    let handle = consumer.handle();
    let mut partitions = assigned(&mut consumer).await;
    let at = |assigned: &AssignedPartition| assigned.partition.partition == 0;
    let first = partitions.iter().position(at).unwrap();
    let mut one = partitions.remove(first);
    assert_eq!(read_to(&mut one.reader, 4).await, [0, 1, 2]);
    transaction(&rig.servers, &rig.topic, 2, false);
    assert_eq!(read_to(&mut one.reader, 7).await, NO_RECORD);
    let no_lag = async {
        let lags = || handle.lags().into_iter().find(|lag| lag.partition == 0);
        while lags().is_none_or(|lag| lag.lag != 0) {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, no_lag).await.unwrap();
    let last = vec![Commit::new(one.partition.clone(), 7)];
    assert_eq!(consumer.close(last, PATIENCE).await, [Ok(())]);

    // Nothing but markers since: the next member passes them as well.
    transaction(&rig.servers, &rig.topic, 1, false);
    let mut second = start(&settings, &rig.topic);
    let mut partitions = assigned(&mut second).await;
    let first = partitions.iter().position(at).unwrap();
    let mut one = partitions.remove(first);
    assert_eq!(one.start, Some(7));
    assert_eq!(read_to(&mut one.reader, 9).await, NO_RECORD);
    fill(&rig.sink, &rig.topic, 0, 1).await;
    assert_eq!(take(&mut one.reader, 1).await, [9]);
    second.close(Vec::new(), PATIENCE).await;
}
