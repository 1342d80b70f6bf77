//! Delay topics, forwarders of them, and a collector at the target.
#![allow(dead_code, unreachable_pub, reason = "each test takes what it needs")]

use kafka_chain::clock::{Clock, SystemClock};
use kafka_chain::config::{Configuration, Registry};
use kafka_chain::delay::DelaySink;
use kafka_chain::delay::conformance::sink::{Arrival, SinkRig};
use kafka_chain::delay::topic::{DelayTiers, DelayTopics};
use kafka_chain::forwarder::{Forwarder, ForwarderCounts};
use kafka_chain::pipeline::{PipelineHandle, Summary};
use kafka_chain::properties::Properties;
use kafka_chain::transport::Settings;
use kafka_chain::transport::kafka::{KafkaSink, KafkaSource};
use kafka_chain::{BoxFuture, OutgoingRecord, OwnedRecord, Result};
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::timeout;

pub const PATIENCE: Duration = Duration::from_secs(60);

pub fn client(servers: &str, more: &[(&str, &str)]) -> Settings {
    let mut all = Settings::new();
    all.set("bootstrap.servers", servers)
        .set("reconnect.backoff.ms", "10")
        .set("reconnect.backoff.max.ms", "50");
    all.extend(more.iter().copied());
    all
}

pub fn sink(servers: &str) -> KafkaSink {
    KafkaSink::start(&client(servers, &[("linger.ms", "0")])).unwrap()
}

/// A configuration of a forwarder in a group.
pub fn configuration(servers: &str, group: &str, more: &str) -> Configuration {
    let text = format!(
        "bootstrap.servers={servers}\ngroup.id={group}\ncommit.interval.ms=100\n\
         session.timeout.ms=6000\nheartbeat.interval.ms=500\nreconnect.backoff.ms=10\nreconnect.backoff.max.ms=50\n\
         metadata.max.age.ms=1000\n{more}"
    );
    let properties: Properties = text.parse().unwrap();
    Registry::builtin().configure(&properties).unwrap()
}

/// A forwarder at work.
pub struct Running {
    pub handle: PipelineHandle,
    pub counts: Arc<ForwarderCounts>,
    task: JoinHandle<Result<Summary>>,
}

impl Running {
    pub fn start(forwarder: Forwarder) -> Self {
        Running {
            handle: forwarder.handle(),
            counts: forwarder.counts(),
            task: tokio::spawn(async move {
                let ended = forwarder.run().await;
                if let Err(error) = &ended {
                    println!("the forwarder ended: {error:#}");
                }
                ended
            }),
        }
    }

    pub async fn ended(self) -> Result<Summary> {
        let ended = timeout(PATIENCE, self.task).await;
        ended.expect("the forwarder did not end").unwrap()
    }

    pub async fn stop(self) -> Summary {
        self.handle.stop();
        self.ended().await.unwrap()
    }

    /// Drops it where it stands, without a last commit.
    pub fn kill(self) {
        self.task.abort();
    }

    pub fn early(&self) -> u64 {
        self.counts.early.load(Ordering::Relaxed)
    }
}

#[derive(Default)]
struct Arrived {
    records: Mutex<VecDeque<(Arrival, OwnedRecord)>>,
    more: Notify,
}

/// Reads a topic and notes when records come.
pub struct Collector {
    arrived: Arc<Arrived>,
    task: JoinHandle<()>,
}

impl Collector {
    /// Of what comes from the beginning of the topic.
    pub fn start(servers: &str, topic: &str) -> Self {
        let group = format!("collect-{topic}-{}", rand::random::<u32>());
        let settings = client(
            servers,
            &[
                ("group.id", &group),
                ("auto.offset.reset", "earliest"),
                ("fetch.wait.max.ms", "100"),
                ("session.timeout.ms", "6000"),
            ],
        );
        let mut source = KafkaSource::start(&settings, &[topic]).unwrap();
        let arrived: Arc<Arrived> = Arc::default();
        let to = Arc::clone(&arrived);
        let task = tokio::spawn(async move {
            while let Ok(record) = source.recv().await {
                let at = SystemClock.now();
                let record = record.record().to_owned();
                let arrival = Arrival {
                    record: OutgoingRecord {
                        timestamp: None,
                        ..OutgoingRecord::from(record.clone())
                    },
                    at,
                };
                to.records.lock().unwrap().push_back((arrival, record));
                to.more.notify_one();
            }
        });
        Collector { arrived, task }
    }

    /// What has come since the last call: until there are `count`, or the time is over.
    pub async fn take(&self, count: usize, limit: Duration) -> Vec<(Arrival, OwnedRecord)> {
        let enough = async {
            loop {
                let more = self.arrived.more.notified();
                if self.arrived.records.lock().unwrap().len() >= count {
                    return;
                }
                more.await;
            }
        };
        let _ = timeout(limit, enough).await;
        self.arrived.records.lock().unwrap().drain(..).collect()
    }

    pub async fn values(&self, count: usize) -> Vec<String> {
        let all = self.take(count, PATIENCE).await;
        assert!(all.len() >= count, "{} of {count} came", all.len());
        all.iter().map(|(_, record)| text(record)).collect()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub fn text(record: &OwnedRecord) -> String {
    String::from_utf8(record.value.clone().unwrap_or_default().to_vec()).unwrap()
}

pub fn header(record: &OwnedRecord, name: &str) -> Option<String> {
    let value = record.headers.view().get_last(name)??;
    Some(String::from_utf8_lossy(value).into_owned())
}

/// Delay topics with a forwarder, for the conformance of a sink.
pub struct TopicsRig {
    servers: String,
    target: String,
    tiers: DelayTiers,
    sink: Arc<DelayTopics<KafkaSink>>,
    collector: Collector,
    running: Mutex<Option<Running>>,
    tolerance: Duration,
}

impl TopicsRig {
    /// All topics are there already.
    pub async fn start(
        servers: &str,
        target: &str,
        tiers: DelayTiers,
        tolerance: Duration,
    ) -> Self {
        let rig = TopicsRig {
            sink: Arc::new(DelayTopics::new(sink(servers), tiers.clone())),
            collector: Collector::start(servers, target),
            servers: servers.to_owned(),
            target: target.to_owned(),
            tiers,
            running: Mutex::default(),
            tolerance,
        };
        *rig.running.lock().unwrap() = Some(rig.forwarder());
        rig
    }

    fn forwarder(&self) -> Running {
        let group = format!("forward-{}", self.target);
        let more = format!("deliver.allow={}", self.target);
        let configuration = configuration(&self.servers, &group, &more);
        let builder = Forwarder::builder(&configuration).unwrap();
        Running::start(builder.tiers(self.tiers.clone()).build().unwrap())
    }

    pub fn early(&self) -> u64 {
        self.running
            .lock()
            .unwrap()
            .as_ref()
            .map_or(0, Running::early)
    }
}

impl SinkRig for TopicsRig {
    fn sink(&self) -> Arc<dyn DelaySink> {
        Arc::clone(&self.sink) as Arc<dyn DelaySink>
    }

    fn topic(&self) -> String {
        self.target.clone()
    }

    fn now(&self) -> i64 {
        SystemClock.now()
    }

    fn max_delay(&self) -> Duration {
        Duration::from_secs(366 * 86_400)
    }

    fn tolerance(&self) -> Duration {
        self.tolerance
    }

    fn arrivals(&self, count: usize, limit: Duration) -> BoxFuture<'_, Vec<Arrival>> {
        Box::pin(async move {
            let all = self.collector.take(count, limit).await;
            all.into_iter().map(|(arrival, _)| arrival).collect()
        })
    }

    fn restart(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            assert_eq!(self.early(), 0);
            // What other rules had delivered is committed by then, and does not come again.
            tokio::time::sleep(Duration::from_millis(400)).await;
            let before = self.running.lock().unwrap().take();
            if let Some(before) = before {
                before.kill();
            }
            *self.running.lock().unwrap() = Some(self.forwarder());
        })
    }
}
