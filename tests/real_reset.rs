//! Logs that begin anew, or lose their beginning, under a pipeline that reads them; on real Apache
//! Kafka.
#![cfg(feature = "kafka")]

#[path = "support/real.rs"]
mod real;

use kafka_chain::config::{Configuration, Registry};
use kafka_chain::pipeline::{HandlerContext, Pipeline, PipelineEvent, Summary, handle_with};
use kafka_chain::properties::Properties;
use kafka_chain::transport::Settings;
use kafka_chain::transport::kafka::KafkaSink;
use kafka_chain::{Error, OutgoingRecord, Result};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{ClientConfig, TopicPartitionList};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

const PATIENCE: Duration = Duration::from_secs(60);

struct Rig {
    servers: String,
    topic: String,
    admin: AdminClient<DefaultClientContext>,
    sink: KafkaSink,
    seen: Arc<Mutex<Vec<String>>>,
    events: Arc<Mutex<Vec<String>>>,
}

/// A topic of its own, or nothing where there is no Kafka.
async fn rig(name: &str) -> Option<Rig> {
    let servers = real::kafka()?;
    let topic = format!("reset-{name}-{}", std::process::id());
    let mut own = Settings::new();
    own.set("bootstrap.servers", &servers).set("linger.ms", "0");
    let rig = Rig {
        admin: client(&servers).create().unwrap(),
        sink: KafkaSink::start(&own).unwrap(),
        servers,
        topic,
        seen: Arc::default(),
        events: Arc::default(),
    };
    rig.create().await;
    Some(rig)
}

fn client(servers: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", servers);
    config
}

async fn until(what: &str, mut is_so: impl FnMut() -> bool, so_far: impl Fn() -> String) {
    let waiting = async {
        while !is_so() {
            sleep(Duration::from_millis(20)).await;
        }
    };
    let came = timeout(PATIENCE, waiting).await.is_ok();
    assert!(came, "it never came that {what}: {}", so_far());
}

impl Rig {
    async fn create(&self) {
        let topic = NewTopic::new(&self.topic, 1, TopicReplication::Fixed(1));
        let created = async {
            loop {
                let results = self.admin.create_topics([&topic], &AdminOptions::new());
                match results.await.unwrap().remove(0) {
                    Ok(_) => break,
                    // The one before is being deleted.
                    Err(_) => sleep(Duration::from_millis(5)).await,
                }
            }
        };
        timeout(PATIENCE, created).await.unwrap();
    }

    /// Another topic under the same name.
    async fn create_anew(&self) {
        let topics = [self.topic.as_str()];
        let deleted = self.admin.delete_topics(&topics, &AdminOptions::new());
        deleted.await.unwrap().remove(0).unwrap();
        self.create().await;
    }

    async fn fill(&self, name: &str, records: usize) -> Vec<String> {
        let values: Vec<String> = (0..records).map(|id| format!("{name}-{id}")).collect();
        for value in &values {
            let record = OutgoingRecord {
                topic: self.topic.clone(),
                partition: Some(0),
                value: Some(value.clone().into()),
                ..OutgoingRecord::default()
            };
            self.sink.send(record).await.unwrap();
        }
        values
    }

    fn configuration(&self, more: &str) -> Configuration {
        let text = format!(
            "bootstrap.servers={}\ngroup.id={}\ntopics={}\nvalue.deserializer=string\n\
             commit.interval.ms=50\nsession.timeout.ms=6000\nheartbeat.interval.ms=200\n{more}",
            self.servers, self.topic, self.topic
        );
        let properties: Properties = text.parse().unwrap();
        Registry::builtin().configure(&properties).unwrap()
    }

    /// A pipeline that remembers what it saw.
    fn start(&self, more: &str) -> (impl FnOnce() + use<>, JoinHandle<Result<Summary>>) {
        let (seen, events) = (Arc::clone(&self.seen), Arc::clone(&self.events));
        let pipeline = Pipeline::builder(&self.configuration(more))
            .unwrap()
            .values::<String>()
            .unwrap()
            .observer(move |event: &PipelineEvent<'_>| match event {
                PipelineEvent::Record { .. } | PipelineEvent::Committed { .. } => {}
                event => {
                    println!("{event:?}");
                    events.lock().unwrap().push(format!("{event:?}"));
                }
            })
            .handler(handle_with(move |value: String, _: &HandlerContext<'_>| {
                seen.lock().unwrap().push(value);
                async { Ok::<(), Error>(()) }
            }))
            .unwrap();
        let handle = pipeline.handle();
        (move || handle.stop(), tokio::spawn(pipeline.run()))
    }

    fn resets(&self) -> usize {
        let events = self.events.lock().unwrap();
        events.iter().filter(|e| e.contains("OffsetReset")).count()
    }

    async fn until_seen(&self, values: &[String]) {
        let missing = || {
            let seen = self.seen.lock().unwrap();
            let missing = values.iter().filter(|value| !seen.contains(value));
            missing.cloned().collect::<Vec<_>>()
        };
        let so_far = || format!("missing {:?}", missing());
        until("all were seen", || missing().is_empty(), so_far).await;
    }

    fn seen_once(&self) {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for value in self.seen.lock().unwrap().iter() {
            *counts.entry(value.clone()).or_default() += 1;
        }
        counts.retain(|_, count| *count > 1);
        assert!(counts.is_empty(), "more than once: {counts:?}");
    }

    /// Waits until the group has committed this offset.
    async fn until_committed(&self, offset: i64) {
        let mut config = client(&self.servers);
        let reader: BaseConsumer = config.set("group.id", &self.topic).create().unwrap();
        let reader = Arc::new(reader);
        let mut last = None;
        let looking = async {
            while last != Some(offset) {
                let (reader, topic) = (Arc::clone(&reader), self.topic.clone());
                let found = tokio::task::spawn_blocking(move || {
                    let mut list = TopicPartitionList::new();
                    list.add_partition(&topic, 0);
                    let found = reader.committed_offsets(list, PATIENCE).unwrap();
                    found.elements()[0].offset().to_raw()
                });
                last = found.await.unwrap();
                sleep(Duration::from_millis(20)).await;
            }
        };
        let came = timeout(PATIENCE, looking).await.is_ok();
        assert!(came, "{last:?} is committed, not {offset}");
    }
}

/// A topic that is deleted and created again before the group looks: what is written to it is handled
/// and committed, though its offsets were there before.
async fn created_anew(name: &str, more: &str) {
    let Some(rig) = rig(name).await else { return };
    let (stop, running) = rig.start(more);
    // How soon the group looks is not ours to say: if it sees no topic it is rebalanced instead.
    for round in 0..20 {
        let old = rig.fill(&format!("{round}-old"), 40).await;
        rig.until_seen(&old).await;
        rig.until_committed(40).await;
        rig.create_anew().await;
        let new = rig.fill(&format!("{round}-new"), 15).await;
        rig.until_seen(&new).await;
        rig.until_committed(15).await;
        rig.seen_once();
        if rig.resets() > 0 {
            break;
        }
        rig.create_anew().await;
    }
    assert!(rig.resets() > 0, "the group never lost its position");
    let more = rig.fill("more", 3).await;
    rig.until_seen(&more).await;
    rig.until_committed(18).await;
    rig.seen_once();
    stop();
    let summary = timeout(PATIENCE, running).await.unwrap().unwrap().unwrap();
    assert_eq!((summary.abandoned, summary.uncommitted), (0, 0));
}

#[tokio::test]
async fn a_topic_created_anew_is_read_from_its_beginning() {
    created_anew("anew", "").await;
}

#[tokio::test]
async fn a_topic_created_anew_is_read_exactly_once() {
    created_anew("anew-once", "processing.guarantee=exactly_once").await;
}
