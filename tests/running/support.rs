//! An embedded broker with topics, and pipelines on it.

use bytes::Bytes;
use kafka_chain::config::{Configuration, Registry};
use kafka_chain::pipeline::{Pipeline, PipelineBuilder, PipelineHandle, Summary, Work};
use kafka_chain::properties::Properties;
use kafka_chain::transport::Settings;
use kafka_chain::transport::kafka::{EmbeddedBroker, KafkaRecord, KafkaSink, KafkaSource};
use kafka_chain::{Headers, OutgoingRecord, OwnedRecord, Result};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinHandle;

pub(crate) const PATIENCE: Duration = Duration::from_secs(40);

pub(crate) const PARTITIONS: i32 = 3;

pub(crate) struct Rig {
    pub(crate) broker: EmbeddedBroker,
    pub(crate) sink: KafkaSink,
}

impl Rig {
    pub(crate) fn new(topics: &[&str]) -> Self {
        let broker = EmbeddedBroker::start(1).unwrap();
        for topic in topics {
            broker.create_topic(topic, PARTITIONS).unwrap();
        }
        let settings: Settings = [("bootstrap.servers", broker.bootstrap_servers())]
            .into_iter()
            .collect();
        Rig {
            sink: KafkaSink::start(&settings).unwrap(),
            broker,
        }
    }

    pub(crate) fn create(&self, topic: &str) {
        self.broker.create_topic(topic, PARTITIONS).unwrap();
    }

    pub(crate) fn servers(&self) -> String {
        self.broker.bootstrap_servers().to_owned()
    }

    pub(crate) fn configuration(&self, more: &str) -> Configuration {
        let text = format!(
            "bootstrap.servers={}\ngroup.id=shop\ntopics=orders\nvalue.deserializer=string\n\
             commit.interval.ms=100\nsession.timeout.ms=6000\nheartbeat.interval.ms=1000\n{more}",
            self.servers()
        );
        let properties: Properties = text.parse().unwrap();
        Registry::builtin().configure(&properties).unwrap()
    }

    pub(crate) async fn produce(&self, topic: &str, values: &[String]) {
        for (index, value) in values.iter().enumerate() {
            let partition = i32::try_from(index).unwrap() % PARTITIONS;
            self.sink
                .send(record(topic, partition, value))
                .await
                .unwrap();
        }
    }

    /// All records of `topic`, `count` of them.
    pub(crate) async fn read(&self, topic: &str, count: usize) -> Vec<OwnedRecord> {
        let settings: Settings = [
            ("bootstrap.servers", self.servers().as_str()),
            ("group.id", &format!("read-{}", rand::random::<u32>())),
            ("auto.offset.reset", "earliest"),
            ("session.timeout.ms", "6000"),
        ]
        .into_iter()
        .collect();
        let mut source = KafkaSource::start(&settings, &[topic]).unwrap();
        let mut records = Vec::new();
        while records.len() < count {
            let next = tokio::time::timeout(PATIENCE, source.recv()).await;
            records.push(next.unwrap().unwrap().record().to_owned());
        }
        source.close().await;
        records
    }
}

pub(crate) fn record(topic: &str, partition: i32, value: &str) -> OutgoingRecord {
    OutgoingRecord {
        topic: topic.to_owned(),
        partition: Some(partition),
        key: Some(Bytes::copy_from_slice(value.as_bytes())),
        value: Some(Bytes::copy_from_slice(value.as_bytes())),
        headers: Headers::new(),
        timestamp: None,
    }
}

pub(crate) fn values(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|number| format!("order-{number}")).collect()
}

pub(crate) fn builder(configuration: &Configuration) -> PipelineBuilder<'_> {
    Pipeline::builder(configuration).unwrap()
}

/// A pipeline that runs.
pub(crate) struct Started {
    pub(crate) handle: PipelineHandle,
    task: JoinHandle<Result<Summary>>,
}

impl Started {
    pub(crate) fn of<W: Work<KafkaRecord>>(pipeline: Pipeline<W>) -> Self {
        Started {
            handle: pipeline.handle(),
            task: tokio::spawn(pipeline.run()),
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.task.is_finished()
    }

    pub(crate) async fn ended(self) -> Result<Summary> {
        self.ended_within(PATIENCE).await
    }

    pub(crate) async fn ended_within(self, limit: Duration) -> Result<Summary> {
        tokio::time::timeout(limit, self.task)
            .await
            .expect("the pipeline did not end")
            .unwrap()
    }

    pub(crate) async fn stop(self) -> Summary {
        self.handle.stop();
        self.ended().await.unwrap()
    }
}

/// What handlers saw.
#[derive(Clone, Default)]
pub(crate) struct Seen(Arc<Mutex<Vec<String>>>);

impl Seen {
    pub(crate) fn push(&self, value: impl Into<String>) {
        self.0.lock().unwrap().push(value.into());
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn set(&self) -> BTreeSet<String> {
        self.all().into_iter().collect()
    }

    pub(crate) async fn wait_for(&self, count: usize) {
        until(&format!("{count} were seen"), || self.set().len() >= count).await;
    }
}

pub(crate) async fn until(what: &str, is_so: impl Fn() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(
        tokio::time::timeout(PATIENCE, waiting).await.is_ok(),
        "it never came to pass that {what}"
    );
}
