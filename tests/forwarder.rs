//! The forwarder on the embedded broker.
#![cfg(feature = "kafka")]

#[path = "support/forwarding.rs"]
mod forwarding;

use bytes::Bytes;
use forwarding::{Collector, Running, TopicsRig, configuration, header, sink};
use kafka_chain::delay::conformance::{all_kept, sink as conformance};
use kafka_chain::delay::deliver::DELIVER_TO;
use kafka_chain::delay::topic::DelayTiers;
use kafka_chain::delay::{DelaySink, Delayed, When};
use kafka_chain::forwarder::Forwarder;
use kafka_chain::transport::kafka::EmbeddedBroker;
use kafka_chain::{ErrorKind, OutgoingRecord};
use std::sync::atomic::Ordering;
use std::time::Duration;

fn broker(topics: &[&str]) -> EmbeddedBroker {
    let broker = EmbeddedBroker::start(1).unwrap();
    for topic in topics {
        broker.create_topic(topic, 2).unwrap();
    }
    broker
}

fn held(topic: &str, to: &str, value: &str) -> OutgoingRecord {
    let mut record = OutgoingRecord {
        topic: topic.to_owned(),
        key: Some(Bytes::from_static(b"k")),
        value: Some(Bytes::copy_from_slice(value.as_bytes())),
        ..OutgoingRecord::default()
    };
    if !to.is_empty() {
        record.headers.push(DELIVER_TO, Some(to.to_owned()));
    }
    record
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn delay_topics_keep_the_rules_of_a_sink() {
    let topics = ["t.delay.200ms", "t.delay.500ms", "t.delay.1s", "t.delay.1h"];
    let broker = broker(&[&topics[..], &["target"]].concat());
    let tiers = DelayTiers::of_topics(topics).unwrap();
    let tolerance = Duration::from_secs(5);
    let rig = TopicsRig::start(&broker.bootstrap_servers(), "target", tiers, tolerance).await;
    all_kept(&conformance::check(&rig).await).unwrap_or_else(|broken| panic!("\n{broken}"));
    assert_eq!(rig.early(), 0);
}

#[tokio::test]
async fn what_cannot_be_delivered_is_a_dead_letter_and_holds_nothing_up() {
    let broker = broker(&["t.delay.100ms", "t.delay.100ms.dead-letter", "target"]);
    let servers = broker.bootstrap_servers();
    let more = "topics=t.delay.100ms\ndeliver.allow=target";
    let configuration = configuration(&servers, "f", more);
    let running = Running::start(Forwarder::builder(&configuration).unwrap().build().unwrap());
    let sink = sink(&servers);
    let envelope = r#"{"topic":"target","key":"k1","value":"enveloped"}"#;
    for record in [
        held("t.delay.100ms", "elsewhere", "not allowed"),
        held("t.delay.100ms", "", "{broken"),
        held("t.delay.100ms", "", r#"{"key":"k1","value":"no topic"}"#),
        held("t.delay.100ms", "__consumer_offsets", "internal"),
        held("t.delay.100ms", "t.delay.100ms", "cycle"),
        held("t.delay.100ms", "target", "delivered"),
        held("t.delay.100ms", "", envelope),
    ] {
        sink.send(record).await.unwrap();
    }
    let target = Collector::start(&servers, "target");
    let mut values = target.values(2).await;
    values.sort();
    assert_eq!(values, ["delivered", "enveloped"]);
    let dead = Collector::start(&servers, "t.delay.100ms.dead-letter");
    let dead = dead.take(5, forwarding::PATIENCE).await;
    assert_eq!(dead.len(), 5);
    let reasons: Vec<String> = (dead.iter())
        .map(|(_, letter)| header(letter, "kafka-chain-message").unwrap())
        .collect();
    for reason in ["deliver.allow", "line 1", "no topic", "internal", "cycle"] {
        assert!(
            reasons.iter().any(|r| r.contains(reason)),
            "{reason}: {reasons:?}"
        );
    }
    assert_eq!(running.early(), 0);
    assert_eq!(running.counts.forwarded.load(Ordering::Relaxed), 2);
    running.stop().await;
}

/// FC-085: mixed delays do not wait for one another, nor do many equal ones add up.
#[tokio::test]
async fn a_long_delay_holds_up_no_short_one() {
    let topics = ["t.delay.1s", "t.delay.1m", "t.delay.1h"];
    let broker = broker(&[&topics[..], &["target"]].concat());
    let servers = broker.bootstrap_servers();
    let tiers = DelayTiers::of_topics(topics).unwrap();
    let tolerance = Duration::from_secs(5);
    let rig = TopicsRig::start(&servers, "target", tiers, tolerance).await;
    use kafka_chain::delay::conformance::sink::SinkRig;
    let record = |text: &str| OutgoingRecord {
        topic: "target".to_owned(),
        partition: Some(0),
        key: Some(Bytes::from_static(b"k")),
        value: Some(Bytes::copy_from_slice(text.as_bytes())),
        ..OutgoingRecord::default()
    };
    let after =
        |seconds, text: &str| Delayed::new(When::After(Duration::from_secs(seconds)), record(text));
    let mut batch = vec![after(3_600, "hour"), after(59, "minute"), after(3, "three")];
    batch.extend((0..12).map(|n| after(1, &format!("one-{n}"))));
    let receipts = rig.sink().schedule(batch).await;
    assert!(receipts.iter().all(Result::is_ok));
    let came = rig.arrivals(13, Duration::from_secs(20)).await;
    let values: Vec<_> = came
        .iter()
        .map(|a| a.record.value.clone().unwrap())
        .collect();
    assert_eq!(values.len(), 13);
    assert_eq!(values.last().unwrap(), "three");
    assert_eq!(
        values[..12],
        (0..12).map(|n| format!("one-{n}")).collect::<Vec<_>>()[..]
    );
}

#[test]
fn a_forwarder_that_could_deliver_nothing_is_refused() {
    let build = |more: &str| {
        let configuration = configuration("localhost:1", "f", more);
        let built = Forwarder::builder(&configuration).unwrap().build();
        let error = built.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        error.to_string()
    };
    assert!(build("topics=t.delay.1s").contains("deliver.allow"));
    assert!(build("topics=orders\ndeliver.allow=a").contains("orders"));
    assert!(build("topics=\ndeliver.allow=a").contains("no delay topics"));
}

#[test]
fn mistakes_in_properties_are_reported_with_their_keys() {
    let text = "deliver.allow=a b\ndeliver.to=__x\ndeliver.max.delay.ms=soon\n";
    let report = kafka_chain::config::Registry::builtin()
        .configure(&text.parse().unwrap())
        .unwrap_err()
        .to_string();
    assert!(report.contains("deliver.allow"), "{report}");
    assert!(report.contains("deliver.max.delay.ms"), "{report}");
}

/// Servers that were set by program are where targets are looked for, too.
#[tokio::test]
async fn the_clients_settings_of_its_pipeline_are_its_own() {
    let broker = broker(&["t.delay.100ms", "t.delay.100ms.dead-letter", "target"]);
    let servers = broker.bootstrap_servers();
    let properties = "group.id=f\ntopics=t.delay.100ms\ndeliver.allow=target";
    let registry = kafka_chain::config::Registry::builtin();
    let configuration = registry.configure(&properties.parse().unwrap()).unwrap();
    let forwarder = Forwarder::builder(&configuration)
        .unwrap()
        .pipeline(|pipeline| pipeline.client("bootstrap.servers", servers.clone()))
        .build()
        .unwrap();
    let running = Running::start(forwarder);
    let collector = Collector::start(&servers, "target");
    let record = held("t.delay.100ms", "target", "x");
    sink(&servers).send(record).await.unwrap();
    assert_eq!(collector.values(1).await, ["x"]);
    running.stop().await;
}
