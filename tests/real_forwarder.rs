//! The forwarder on real Apache Kafka.
#![cfg(feature = "kafka")]

#[path = "support/forwarding.rs"]
mod forwarding;
#[path = "support/real.rs"]
mod real;

use bytes::Bytes;
use forwarding::{Collector, PATIENCE, Running, TopicsRig, client, configuration, header, sink};
use kafka_chain::clock::{Clock, SystemClock};
use kafka_chain::delay::conformance::{all_kept, sink as conformance};
use kafka_chain::delay::deliver::{DELIVER_AFTER, DELIVER_TO};
use kafka_chain::delay::topic::{DelayTiers, DelayTopics};
use kafka_chain::delay::{DelaySink, Delayed, When};
use kafka_chain::forwarder::{Forwarder, delay_topics};
use kafka_chain::transport::kafka::{KafkaSink, NewTopic, create_topics};
use kafka_chain::{ErrorKind, OutgoingRecord};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Delay topics and a target of its own, or nothing where there is no Kafka.
struct Rig {
    servers: String,
    name: String,
    target: String,
    tiers: DelayTiers,
}

async fn rig(name: &str, delays: &[u64], partitions: i32) -> Option<Rig> {
    let servers = real::kafka()?;
    let name = format!("{name}-{}", std::process::id());
    let delays = delays.iter().copied().map(Duration::from_millis);
    let tiers = DelayTiers::new(&name, delays).unwrap();
    let target = format!("{name}-target");
    let mut topics = delay_topics(&tiers, partitions);
    let letters = tiers.tiers().iter();
    topics.extend(letters.map(|tier| NewTopic::new(format!("{}.dead-letter", tier.topic), 1)));
    topics.push(NewTopic::new(&target, partitions));
    create_topics(&client(&servers, &[]), topics, PATIENCE)
        .await
        .unwrap();
    Some(Rig {
        servers,
        name,
        target,
        tiers,
    })
}

impl Rig {
    fn forwarder(&self, more: &str) -> Forwarder {
        let more = format!("deliver.allow={}*\n{more}", self.name);
        let configuration = configuration(&self.servers, &format!("f-{}", self.name), &more);
        let builder = Forwarder::builder(&configuration).unwrap();
        builder.tiers(self.tiers.clone()).build().unwrap()
    }

    fn sink(&self) -> DelayTopics<KafkaSink> {
        DelayTopics::new(sink(&self.servers), self.tiers.clone())
    }

    fn record(&self, key: &str, value: &str) -> OutgoingRecord {
        OutgoingRecord {
            topic: self.target.clone(),
            key: Some(Bytes::copy_from_slice(key.as_bytes())),
            value: Some(Bytes::copy_from_slice(value.as_bytes())),
            ..OutgoingRecord::default()
        }
    }

    fn held(&self, partition: i32, to: &str, value: &str) -> OutgoingRecord {
        let mut record = self.record("k", value);
        record.topic.clone_from(&self.tiers.tiers()[0].topic);
        record.partition = Some(partition);
        record.headers.push(DELIVER_TO, Some(to.to_owned()));
        record
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn delay_topics_keep_the_rules_of_a_sink() {
    let delays = [200, 500, 1_000, 3_600_000];
    let Some(rig) = rig("conform", &delays, 3).await else {
        return;
    };
    let tolerance = Duration::from_secs(8);
    let topics = TopicsRig::start(&rig.servers, &rig.target, rig.tiers, tolerance).await;
    let checked = conformance::check(&topics).await;
    all_kept(&checked).unwrap_or_else(|broken| panic!("\n{broken}"));
    assert_eq!(topics.early(), 0);
}

/// Members come and go while they hold records: every record is delivered, none early, and nobody
/// waits for what is only held.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebalance_with_held_records_loses_nothing_and_is_not_held_up() {
    let Some(rig) = rig("rebalance", &[1_500], 4).await else {
        return;
    };
    let collector = Collector::start(&rig.servers, &rig.target);
    let first = Running::start(rig.forwarder(""));
    let sink = rig.sink();
    let (mut dues, mut early) = (BTreeMap::new(), 0);
    let mut second = None;
    for round in 0..12_u64 {
        let items = (0..50).map(|n| {
            let value = format!("{round}-{n}");
            let delay = Duration::from_millis(300 + 97 * (n * 7 % 40));
            Delayed::new(When::After(delay), rig.record(&format!("k{n}"), &value))
        });
        for (n, receipt) in sink.schedule(items.collect()).await.into_iter().enumerate() {
            dues.insert(format!("{round}-{n}"), receipt.unwrap().deliver_at);
        }
        sleep(Duration::from_millis(400)).await;
        second = match second {
            None => Some(Running::start(rig.forwarder(""))),
            Some(running) => {
                let running: Running = running;
                early += running.early();
                let since = Instant::now();
                running.stop().await;
                let took = since.elapsed();
                assert!(took < Duration::from_secs(20), "stopping took {took:?}");
                None
            }
        };
    }
    let mut missing: BTreeSet<String> = dues.keys().cloned().collect();
    let (mut twice, mut latest) = (0, 0);
    let until = Instant::now() + PATIENCE;
    while !missing.is_empty() && Instant::now() < until {
        for (arrival, record) in collector.take(1, Duration::from_secs(1)).await {
            let value = forwarding::text(&record);
            let late = arrival.at - dues[&value];
            assert!(late >= 0, "{value} came {} ms early", -late);
            latest = latest.max(late);
            twice += usize::from(!missing.remove(&value));
        }
    }
    assert_eq!(missing.len(), 0, "missing: {missing:?}");
    println!(
        "{} records, {twice} twice, at most {latest} ms late",
        dues.len()
    );
    assert_eq!(early + first.early(), 0);
    first.stop().await;
}

/// FC-085: heads of different times in four partitions, each on its own timer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heads_of_different_times_do_not_wait_for_one_another() {
    let Some(rig) = rig("heads", &[2_000, 3_600_000], 4).await else {
        return;
    };
    let running = Running::start(rig.forwarder(""));
    let collector = Collector::start(&rig.servers, &rig.target);
    let sink = sink(&rig.servers);
    let now = SystemClock.now();
    let mut dues = BTreeMap::new();
    for partition in 0..4 {
        // The first of each partition is due last.
        for (n, after) in [3_600_000, 1_900, 100 + 400 * i64::from(partition), 600]
            .iter()
            .enumerate()
        {
            let value = format!("{partition}-{n}");
            let due = now + after;
            let mut record = rig.held(partition, &rig.target, &value);
            record.headers.push(DELIVER_AFTER, Some(due.to_string()));
            sink.send(record).await.unwrap();
            dues.insert(value, due);
        }
    }
    let came = collector.take(12, PATIENCE).await;
    assert_eq!(came.len(), 12);
    for (arrival, record) in came {
        let value = forwarding::text(&record);
        let late = arrival.at - dues[&value];
        assert!(late >= 0, "{value} came {} ms early", -late);
        println!("{value}: {late} ms late");
    }
    assert_eq!(running.early(), 0);
    running.stop().await;
}

/// What is broken, not allowed or not there is a dead letter, whole, and the rest goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_delivered_is_a_dead_letter() {
    let Some(rig) = rig("letters", &[100], 1).await else {
        return;
    };
    let running = Running::start(rig.forwarder("handler.attempts=3"));
    let sink = sink(&rig.servers);
    let missing = format!("{}-missing", rig.name);
    let mut broken = rig.held(0, &rig.target, "{broken");
    broken.headers = [(&[0xFF_u8, b'n'][..], None::<Bytes>)]
        .into_iter()
        .collect();
    for record in [
        broken.clone(),
        rig.held(0, "elsewhere", "not allowed"),
        rig.held(0, &missing, "missing"),
        rig.held(0, &format!("{}:7", rig.target), "no such partition"),
        rig.held(0, &rig.target, "delivered"),
    ] {
        sink.send(record).await.unwrap();
    }
    let target = Collector::start(&rig.servers, &rig.target);
    assert_eq!(target.values(1).await, ["delivered"]);
    let letters = format!("{}.dead-letter", rig.tiers.tiers()[0].topic);
    let letters = Collector::start(&rig.servers, &letters);
    let letters = letters.take(4, PATIENCE).await;
    let reasons: Vec<_> = (letters.iter())
        .map(|(_, letter)| header(letter, "kafka-chain-message").unwrap())
        .collect();
    for (reason, why) in reasons
        .iter()
        .zip(["envelope", "allow", "not exist", "partitions"])
    {
        assert!(reason.contains(why), "{why}: {reasons:?}");
    }
    let (_, whole) = &letters[0];
    assert_eq!((&whole.key, &whole.value), (&broken.key, &broken.value));
    assert_eq!(whole.headers.iter().next(), broken.headers.iter().next());
    running.stop().await;
}

/// FC-088: a topic that forgets its records before they are due.
#[tokio::test]
async fn a_topic_that_is_kept_for_too_short_a_time_is_refused() {
    let Some(servers) = real::kafka() else { return };
    let name = format!("kept-{}", std::process::id());
    let tiers = DelayTiers::new(&name, [90, 30].map(Duration::from_secs)).unwrap();
    let mut topics = delay_topics(&tiers, 1);
    for topic in &mut topics {
        topic
            .config
            .insert("retention.ms".to_owned(), "60000".to_owned());
    }
    create_topics(&client(&servers, &[]), topics, PATIENCE)
        .await
        .unwrap();
    let configuration = configuration(&servers, &name, "deliver.allow=orders");
    let builder = Forwarder::builder(&configuration).unwrap().tiers(tiers);
    let error = Running::start(builder.build().unwrap())
        .ended()
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    for part in [&format!("{name}.delay.90s"), "60000 ms", "90000 ms"] {
        assert!(error.message().contains(part), "{error}");
    }
    assert!(!error.message().contains(".delay.30s"), "{error}");
}

/// A forwarder that is dropped where it stands, again and again, under load.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_forwarders_lose_nothing() {
    let Some(rig) = rig("killed", &[500], 3).await else {
        return;
    };
    let collector = Collector::start(&rig.servers, &rig.target);
    let sink = Arc::new(rig.sink());
    let mut running = Running::start(rig.forwarder(""));
    let mut dues = BTreeMap::new();
    for round in 0..40_u64 {
        let items = (0..25).map(|n| {
            let delay = Duration::from_millis(100 + 37 * (n % 11));
            let record = rig.record(&format!("k{n}"), &format!("{round}-{n}"));
            Delayed::new(When::After(delay), record)
        });
        for (n, receipt) in sink.schedule(items.collect()).await.into_iter().enumerate() {
            dues.insert(format!("{round}-{n}"), receipt.unwrap().deliver_at);
        }
        sleep(Duration::from_millis(100)).await;
        if round % 10 == 9 {
            assert_eq!(running.early(), 0);
            running.kill();
            running = Running::start(rig.forwarder(""));
        }
    }
    let mut missing: BTreeSet<String> = dues.keys().cloned().collect();
    let (mut twice, until) = (0, Instant::now() + PATIENCE);
    while !missing.is_empty() && Instant::now() < until {
        for (arrival, record) in collector.take(1, Duration::from_secs(1)).await {
            let value = forwarding::text(&record);
            assert!(arrival.at >= dues[&value], "{value} is early");
            twice += usize::from(!missing.remove(&value));
        }
    }
    assert_eq!(missing.len(), 0, "missing: {missing:?}");
    println!("{} records, {twice} twice", dues.len());
    assert_eq!(running.early(), 0);
    running.stop().await;
}
