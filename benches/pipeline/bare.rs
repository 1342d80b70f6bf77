//! The loops that people write.

use crate::common::{Span, decode, servers};
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, StreamConsumer};
use rdkafka::message::Message;
use rdkafka::util::AsyncRuntime;
use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

fn client(group: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", servers())
        .set("group.id", group)
        .set("auto.offset.reset", "earliest")
        .set("enable.auto.commit", "false");
    config
}

pub(crate) fn base_consumer(topic: &str, group: &str, records: u64) {
    let consumer: BaseConsumer = client(group).create().expect("a consumer");
    consumer.subscribe(&[topic]).expect("a subscription");
    let (mut seen, mut span, mut committed) = (0, None, Instant::now());
    while seen < records {
        let Some(message) = consumer.poll(Duration::from_millis(100)) else {
            continue;
        };
        let message = message.expect("a message");
        span.get_or_insert_with(Span::begin);
        decode(message.payload());
        seen += 1;
        if seen % 1024 == 0 && committed.elapsed() >= Duration::from_secs(1) {
            committed = Instant::now();
            let _ = consumer.commit_consumer_state(CommitMode::Async);
        }
    }
    span.expect("records").print(records);
}

struct Tokio;

impl AsyncRuntime for Tokio {
    type Delay = Pin<Box<dyn Future<Output = ()> + Send>>;

    fn spawn<T: Future<Output = ()> + Send + 'static>(task: T) {
        tokio::spawn(task);
    }

    fn delay_for(duration: Duration) -> Self::Delay {
        Box::pin(tokio::time::sleep(duration))
    }
}

pub(crate) async fn stream_consumer(topic: &str, group: &str, records: u64) {
    let consumer: StreamConsumer<_, Tokio> = client(group).create().expect("a consumer");
    consumer.subscribe(&[topic]).expect("a subscription");
    let (mut seen, mut span, mut committed) = (0, None, Instant::now());
    while seen < records {
        let message = consumer.recv().await.expect("a message");
        span.get_or_insert_with(Span::begin);
        decode(message.payload());
        seen += 1;
        if seen % 1024 == 0 && committed.elapsed() >= Duration::from_secs(1) {
            committed = Instant::now();
            let _ = consumer.commit_consumer_state(CommitMode::Async);
        }
    }
    span.expect("records").print(records);
}

/// Consumes and produces the same bytes with the headers of a dead letter, acknowledged by all.
pub(crate) async fn bare_copy(topic: &str, group: &str, records: u64) {
    use rdkafka::message::OwnedHeaders;
    use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};
    let consumer: BaseConsumer = client(group).create().expect("a consumer");
    consumer.subscribe(&[topic]).expect("a subscription");
    let producer: ThreadedProducer<DefaultProducerContext> = ClientConfig::new()
        .set("bootstrap.servers", servers())
        .set("acks", "all")
        .set("enable.idempotence", "true")
        .set("linger.ms", "5")
        .create()
        .expect("a producer");
    let to = format!("{topic}.dead-letter");
    let text = "permanent malformed: the JSON is not what is read from it, at line 1";
    let (mut seen, mut span) = (0, None);
    while seen < records {
        let Some(message) = consumer.poll(Duration::from_millis(100)) else {
            continue;
        };
        let message = message.expect("a message");
        span.get_or_insert_with(Span::begin);
        let mut headers = OwnedHeaders::new();
        for name in 0..14 {
            let key = format!("kafka-chain-header-{name}");
            headers = headers.insert(rdkafka::message::Header {
                key: &key,
                value: Some(text),
            });
        }
        let mut record = BaseRecord::to(&to)
            .key(message.key().unwrap_or_default())
            .payload(message.payload().unwrap_or_default())
            .partition(message.partition())
            .headers(headers);
        while let Err((_, back)) = producer.send(record) {
            record = back;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        seen += 1;
    }
    producer.flush(Duration::from_secs(60)).expect("a flush");
    span.expect("records").print(records);
}
