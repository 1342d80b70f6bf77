//! What all roles share: the records, the clock of the CPU, and a topic full of them.

use kafka_chain::OutgoingRecord;
use kafka_chain::transport::Settings;
use kafka_chain::transport::kafka::{KafkaSink, NewTopic, create_topics};
use serde::{Deserialize, Serialize};
use std::hint::black_box;
use std::time::{Duration, Instant};

pub(crate) const PARTITIONS: i32 = 6;
const BYTES: usize = 512;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) id: u64,
    pub(crate) customer: String,
    pub(crate) item: String,
    pub(crate) cents: u64,
    pub(crate) note: String,
}

pub(crate) fn servers() -> String {
    std::env::var("KAFKA_BOOTSTRAP_SERVERS").expect("KAFKA_BOOTSTRAP_SERVERS names a Kafka")
}

pub(crate) fn number(name: &str, default: u64) -> u64 {
    let value = std::env::var(name).ok();
    value.map_or(default, |text| text.parse().expect("a number"))
}

/// CPU time of this process, all its threads, in seconds.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("/proc");
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .expect("a command")
        .split_whitespace()
        .collect();
    let ticks = |index: usize| fields[index].parse::<f64>().expect("ticks");
    (ticks(11) + ticks(12)) / 100.0
}

/// From the first record to the last.
#[derive(Clone, Copy)]
pub(crate) struct Span {
    cpu: f64,
    began: Instant,
}

impl Span {
    pub(crate) fn begin() -> Self {
        Span {
            cpu: cpu(),
            began: Instant::now(),
        }
    }

    pub(crate) fn print(self, records: u64) {
        let (cpu, wall) = (cpu() - self.cpu, self.began.elapsed().as_secs_f64());
        println!(
            "cpu_us={:.4} rate={:.0}",
            cpu * 1e6 / records as f64,
            records as f64 / wall
        );
    }
}

pub(crate) fn decode(payload: Option<&[u8]>) {
    let order: Order = serde_json::from_slice(payload.unwrap_or_default()).expect("an order");
    black_box(order);
}

pub(crate) async fn fill(topic: &str, records: u64, partitions: i32, poison_every: u64) {
    let settings: Settings = [
        ("bootstrap.servers", servers().as_str()),
        ("linger.ms", "20"),
        ("batch.size", "1000000"),
        ("queue.buffering.max.messages", "200000"),
    ]
    .into_iter()
    .collect();
    let topics = [topic.to_owned(), format!("{topic}.dead-letter")];
    let topics = topics.map(|name| NewTopic::new(name, partitions)).to_vec();
    let limit = Duration::from_secs(30);
    create_topics(&settings, topics, limit)
        .await
        .expect("topics");
    let sink = KafkaSink::start(&settings).expect("a producer");
    let mut sends = tokio::task::JoinSet::new();
    for id in 0..records {
        let order = Order {
            id,
            customer: format!("customer-{}", id % 10_000),
            item: "teapot".to_owned(),
            cents: id % 20_000,
            note: String::new(),
        };
        let key = order.customer.clone();
        let mut text = serde_json::to_string(&order).expect("JSON");
        let missing = BYTES.saturating_sub(text.len());
        text.insert_str(text.len() - 2, &"n".repeat(missing));
        if poison_every > 0 && id % poison_every == 0 {
            text.truncate(BYTES / 2);
        }
        let record = OutgoingRecord {
            topic: topic.to_owned(),
            partition: Some(i32::try_from(id % partitions as u64).expect("a partition")),
            key: Some(key.into()),
            value: Some(text.into()),
            ..OutgoingRecord::default()
        };
        let sink = sink.clone();
        sends.spawn(async move { sink.send(record).await });
        while sends.len() > 50_000 {
            sends
                .join_next()
                .await
                .expect("a send")
                .expect("no panic")
                .expect("a record");
        }
    }
    while let Some(sent) = sends.join_next().await {
        sent.expect("no panic").expect("a record");
    }
}
