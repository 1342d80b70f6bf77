//! What the tests of the Kafka transport share.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of several tests"
)]

use bytes::Bytes;
use kafka_chain::OutgoingRecord;
use kafka_chain::transport::Settings;
use kafka_chain::transport::kafka::{EmbeddedBroker, KafkaRecord, KafkaSink, KafkaSource};
use std::time::Duration;
use tokio::time::timeout;

/// Far above what any step takes: it turns a hang into a failure.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn settings(servers: &str, more: &[(&str, &str)]) -> Settings {
    let mut all = Settings::new();
    all.set("bootstrap.servers", servers)
        .set("reconnect.backoff.ms", "10")
        .set("reconnect.backoff.max.ms", "50");
    all.extend(more.iter().copied());
    all
}

pub(crate) fn source(broker: &EmbeddedBroker, group: &str, topic: &str) -> KafkaSource {
    let settings = settings(
        &broker.bootstrap_servers(),
        &[
            ("group.id", group),
            ("session.timeout.ms", "1500"),
            ("heartbeat.interval.ms", "100"),
            ("enable.auto.commit", "false"),
        ],
    );
    KafkaSource::start(&settings, &[topic]).unwrap()
}

pub(crate) fn sink(broker: &EmbeddedBroker) -> KafkaSink {
    KafkaSink::start(&settings(
        &broker.bootstrap_servers(),
        &[("linger.ms", "0")],
    ))
    .unwrap()
}

pub(crate) async fn next(source: &mut KafkaSource) -> KafkaRecord {
    timeout(PATIENCE, source.recv())
        .await
        .expect("a record in time")
        .unwrap()
}

pub(crate) fn value(topic: &str, value: &str) -> OutgoingRecord {
    OutgoingRecord {
        topic: topic.to_owned(),
        partition: Some(0),
        value: Some(Bytes::copy_from_slice(value.as_bytes())),
        ..OutgoingRecord::default()
    }
}

pub(crate) fn text(record: &KafkaRecord) -> String {
    String::from_utf8(record.record().value.unwrap().to_vec()).unwrap()
}
