//! A scheduler beside a producer of its topic and a consumer of its targets.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of several tests"
)]

use bytes::Bytes;
use kafka_chain::clock::{Clock, SystemClock};
use kafka_chain::delay::conformance::sink::Arrival;
use kafka_chain::delay::deliver::DeliverRules;
use kafka_chain::scheduler::{Scheduler, SchedulerCounts, SchedulerOptions};
use kafka_chain::transport::Settings;
use kafka_chain::transport::kafka::{
    EmbeddedBroker, KafkaSink, KafkaSource, NewTopic, PartitionLog, create_topics,
};
use kafka_chain::{OutgoingRecord, Result};
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{Notify, oneshot};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};

/// Far above what any step takes: it turns a hang into a failure.
pub const PATIENCE: Duration = Duration::from_secs(40);

pub fn now() -> i64 {
    SystemClock.now()
}

#[derive(Default)]
struct Arrived {
    arrivals: Mutex<VecDeque<Arrival>>,
    more: Notify,
}

/// A topic of delayed records, two targets, and the dead letters.
pub struct Rig {
    pub servers: String,
    pub topic: String,
    pub sink: KafkaSink,
    pub partitions: i32,
    arrived: Arc<Arrived>,
    listening: JoinHandle<()>,
    broker: Option<EmbeddedBroker>,
}

impl Rig {
    pub async fn real(servers: String, name: &str, partitions: i32) -> Self {
        let topic = format!("schedule-{name}-{}", std::process::id());
        let mut settings = Settings::new();
        settings.set("bootstrap.servers", &servers);
        let others = [".orders", ".audit", ".dead-letter"];
        let mut topics = vec![NewTopic::new(&topic, partitions)];
        topics.extend(others.map(|name| NewTopic::new(format!("{topic}{name}"), 2)));
        create_topics(&settings, topics, PATIENCE).await.unwrap();
        Self::on(servers, topic, partitions, None).await
    }

    pub async fn embedded(name: &str, partitions: i32) -> Self {
        let broker = EmbeddedBroker::start(1).unwrap();
        let topic = format!("schedule-{name}");
        for (suffix, partitions) in [
            ("", partitions),
            (".schedule", partitions),
            (".orders", 2),
            (".audit", 2),
            (".dead-letter", 2),
        ] {
            let name = format!("{topic}{suffix}");
            broker.create_topic(&name, partitions).unwrap();
        }
        Self::on(broker.bootstrap_servers(), topic, partitions, Some(broker)).await
    }

    async fn on(
        servers: String,
        topic: String,
        partitions: i32,
        broker: Option<EmbeddedBroker>,
    ) -> Self {
        let mut settings = Settings::new();
        settings
            .set("bootstrap.servers", &servers)
            .set("linger.ms", "0");
        let sink = KafkaSink::start(&settings).unwrap();
        let arrived = Arc::new(Arrived::default());
        let listening = listen(&servers, &topic, Arc::clone(&arrived));
        Rig {
            servers,
            topic,
            sink,
            partitions,
            arrived,
            listening,
            broker,
        }
    }

    pub fn target(&self) -> String {
        format!("{}.orders", self.topic)
    }

    pub fn consumer(&self, group: &str) -> Settings {
        let mut settings = Settings::new();
        settings
            .set("bootstrap.servers", &self.servers)
            .set("group.id", format!("{}-{group}", self.topic))
            .set("session.timeout.ms", "3000")
            .set("heartbeat.interval.ms", "100")
            .set("reconnect.backoff.max.ms", "100");
        settings
    }

    pub fn options(&self, folder: &Path) -> SchedulerOptions {
        let allow = [self.target(), format!("{}.audit", self.topic)];
        let rules = DeliverRules::new(allow).unwrap();
        SchedulerOptions {
            check_topics: self.broker.is_none(),
            ..SchedulerOptions::new(&self.topic, self.consumer("scheduler"), rules, folder)
        }
    }

    /// A record of the delayed topic.
    pub fn delayed(&self, partition: i32, text: &str, at: i64) -> OutgoingRecord {
        let mut record = OutgoingRecord {
            topic: self.topic.clone(),
            partition: Some(partition),
            key: Some(Bytes::from_static(b"key")),
            value: Some(text.to_owned().into()),
            ..OutgoingRecord::default()
        };
        record.headers.push("trace", Some(text.to_owned()));
        record.headers.push("deliver-after", Some(at.to_string()));
        record.headers.push("deliver-to", Some(self.target()));
        record
    }

    /// Writes all, in order within a partition.
    pub async fn put(&self, records: Vec<OutgoingRecord>) {
        let mut sends = JoinSet::new();
        for record in records {
            let sink = self.sink.clone();
            sends.spawn(async move { sink.send(record).await.unwrap() });
            tokio::task::yield_now().await;
        }
        while let Some(sent) = sends.join_next().await {
            sent.unwrap();
        }
    }

    /// What has arrived since the last call, once there are `count` or the time is over.
    pub async fn arrivals(&self, count: usize, limit: Duration) -> Vec<Arrival> {
        let enough = async {
            loop {
                let more = self.arrived.more.notified();
                if self.arrived.arrivals.lock().unwrap().len() >= count {
                    return;
                }
                more.await;
            }
        };
        let _ = timeout(limit, enough).await;
        self.arrived.arrivals.lock().unwrap().drain(..).collect()
    }

    /// How often each text has arrived, once there are `count` and a little later.
    pub async fn texts(&self, count: usize) -> BTreeMap<String, usize> {
        let mut arrivals = self.arrivals(count, PATIENCE).await;
        arrivals.extend(self.arrivals(usize::MAX, Duration::from_millis(500)).await);
        let mut texts = BTreeMap::new();
        for arrival in arrivals {
            *texts.entry(text(&arrival.record)).or_default() += 1;
        }
        texts
    }

    /// The entries of the changelog that no tombstone has taken back.
    pub async fn waiting(&self) -> BTreeMap<String, usize> {
        let mut settings = Settings::new();
        settings.set("bootstrap.servers", &self.servers);
        let mut entries = BTreeMap::new();
        for partition in 0..self.partitions {
            let topic = format!("{}.schedule", self.topic);
            let log = PartitionLog::open(&settings, &topic, partition)
                .await
                .unwrap();
            let (low, high) = (log.low(), log.high());
            if low == high {
                continue;
            }
            let mut reader = log.read(low).unwrap();
            while let Some(batch) = reader.next_batch().await {
                for record in batch.unwrap() {
                    let record = record.record();
                    let key = String::from_utf8_lossy(record.key.unwrap());
                    let key = format!("{partition}/{key}");
                    match record.value {
                        Some(value) => entries.insert(key, value.len()),
                        None => entries.remove(&key),
                    };
                }
            }
            assert_eq!(reader.end(), high);
        }
        entries
    }

    pub async fn start(&self, options: SchedulerOptions) -> Running {
        Running::start(Scheduler::start(options).await.unwrap())
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

fn listen(servers: &str, topic: &str, arrived: Arc<Arrived>) -> JoinHandle<()> {
    let mut settings = Settings::new();
    settings
        .set("bootstrap.servers", servers)
        .set("group.id", format!("{topic}-arrivals"))
        .set("fetch.wait.max.ms", "20")
        .set("session.timeout.ms", "6000");
    let topics = [".orders", ".audit", ".dead-letter"].map(|name| format!("{topic}{name}"));
    let mut source = KafkaSource::start(&settings, &topics).unwrap();
    tokio::spawn(async move {
        loop {
            let record = source.recv().await.unwrap();
            let at = now();
            let record = OutgoingRecord::from(record.record().to_owned());
            let mut arrivals = arrived.arrivals.lock().unwrap();
            arrivals.push_back(Arrival { record, at });
            arrived.more.notify_one();
        }
    })
}

pub fn text(record: &OutgoingRecord) -> String {
    String::from_utf8(record.value.clone().unwrap_or_default().to_vec()).unwrap()
}

/// A scheduler at work.
pub struct Running {
    pub counts: Arc<SchedulerCounts>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<()>>,
}

impl Running {
    pub fn start(scheduler: Scheduler) -> Self {
        let counts = scheduler.counts();
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(async move {
            let ended = scheduler
                .run(async {
                    let _ = stopped.await;
                })
                .await;
            if let Some(warning) = scheduler.take_warning() {
                println!("warning: {warning:#}");
            }
            scheduler.close().await;
            ended
        });
        Running { counts, stop, task }
    }

    /// Waits until so many records were taken in.
    pub async fn ingested(&self, count: u64) {
        let enough = async {
            while self.counts.ingested.load(Ordering::Relaxed) < count {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(PATIENCE, enough).await.expect("records in time");
    }

    pub async fn stop(self) -> Arc<SchedulerCounts> {
        self.stop.send(()).expect("it still runs");
        let ended = timeout(PATIENCE, self.task).await;
        ended.expect("an end in time").unwrap().unwrap();
        self.counts
    }

    /// Waits for it to end by itself.
    pub async fn ended(self) -> Result<()> {
        timeout(PATIENCE, self.task).await.expect("an end").unwrap()
    }
}
