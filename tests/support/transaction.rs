//! A producer's transactions, to leave markers in a topic.
#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    reason = "helper of several tests"
)]

use rdkafka::ClientConfig;
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(40);

/// Begins a transaction, writes so many records to partition 0, and ends it.
pub fn transaction(servers: &str, topic: &str, records: usize, commits: bool) {
    let producer: ThreadedProducer<DefaultProducerContext> = ClientConfig::new()
        .set("bootstrap.servers", servers)
        .set("transactional.id", topic)
        .create()
        .unwrap();
    producer.init_transactions(PATIENCE).unwrap();
    producer.begin_transaction().unwrap();
    for _ in 0..records {
        let record = BaseRecord::<(), str>::to(topic).partition(0).payload("x");
        producer.send(record).unwrap();
    }
    // Aborting throws away what was not sent.
    producer.flush(PATIENCE).unwrap();
    match commits {
        true => producer.commit_transaction(PATIENCE).unwrap(),
        false => producer.abort_transaction(PATIENCE).unwrap(),
    }
}
