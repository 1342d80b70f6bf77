//! The rights of `docs/operations.md`, on a real Kafka that asks for them: who has those of a feature
//! can use it, and who lacks one is told which.
#![cfg(feature = "kafka")]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

#[path = "support/folder.rs"]
mod folder;
#[path = "support/guarded.rs"]
mod guarded;
#[path = "support/real.rs"]
mod real;

use bytes::Bytes;
use guarded::Guarded;
use kafka_chain::config::{Configuration, Registry};
use kafka_chain::delay::deliver::DELIVER_TO;
use kafka_chain::forwarder::Forwarder;
use kafka_chain::pipeline::{
    HandlerContext, Pipeline, PipelineEvent, PipelineHandle, Summary, handle_with,
};
use kafka_chain::redrive::{Redrive, To};
use kafka_chain::transport::Settings;
use kafka_chain::transport::kafka::{KafkaSink, KafkaSource, NewTopic, create_topics};
use kafka_chain::{Error, OutgoingRecord, Result};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// Far above what any step takes: it turns a hang into a failure.
const PATIENCE: Duration = Duration::from_secs(60);

/// The rights of each feature, as the document says them.
fn documented() -> BTreeMap<String, Vec<String>> {
    let document = include_str!("../docs/operations.md");
    let (_, section) = document.split_once("## Rights").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let rows = section
        .lines()
        .filter(|line| line.starts_with("| ") && line.contains(" on "));
    let rows = rows.filter_map(|line| {
        let mut cells = line.trim_matches('|').split(" | ");
        let (feature, rights) = (cells.next()?.trim(), cells.next()?);
        let rights = rights.split('`').filter(|part| part.contains(" on "));
        Some((feature.to_owned(), rights.map(str::to_owned).collect()))
    });
    rows.collect()
}

struct Rig {
    kafka: Guarded,
    rights: BTreeMap<String, Vec<String>>,
    sink: KafkaSink,
}

impl Rig {
    /// A user with the rights of these features, and no other.
    async fn user(&self, user: &str, features: &[&str]) -> Settings {
        let rights: Vec<&String> = features
            .iter()
            .flat_map(|feature| {
                self.rights
                    .get(*feature)
                    .unwrap_or_else(|| panic!("{feature}"))
            })
            .collect();
        self.kafka.allow(user, rights);
        // The broker applies them a moment later.
        sleep(Duration::from_millis(500)).await;
        self.kafka.user(user)
    }

    async fn create(&self, topics: &[&str]) {
        let topics = topics.iter().map(|name| NewTopic::new(*name, 1)).collect();
        create_topics(&self.kafka.admin(), topics, PATIENCE)
            .await
            .unwrap();
    }

    async fn produce(&self, topic: &str, value: &str, headers: &[(&'static str, &str)]) {
        let mut record = OutgoingRecord {
            topic: topic.to_owned(),
            value: Some(Bytes::copy_from_slice(value.as_bytes())),
            ..OutgoingRecord::default()
        };
        for (name, value) in headers {
            record.headers.push(*name, Some((*value).to_owned()));
        }
        self.sink.send(record).await.unwrap();
    }

    /// Waits for a record with this value.
    async fn arrives(&self, topic: &str, value: &str) {
        let mut settings = self.kafka.admin();
        settings
            .set("group.id", format!("read-{}", rand::random::<u32>()))
            .set("auto.offset.reset", "earliest")
            .set("isolation.level", "read_committed");
        let mut source = KafkaSource::start(&settings, &[topic]).unwrap();
        let look = async {
            loop {
                let record = source.recv().await.unwrap();
                if record.record().value == Some(value.as_bytes()) {
                    return;
                }
            }
        };
        let looked = timeout(PATIENCE, look).await;
        assert!(looked.is_ok(), "{value} did not come to {topic}");
        source.close().await;
    }
}

fn configuration(user: &Settings, more: &str) -> Configuration {
    let user: String = user
        .iter()
        .map(|(name, value)| format!("{name}={value}\n"))
        .collect();
    let text = format!(
        "{user}group.id=shop\nvalue.deserializer=string\nsession.timeout.ms=6000\n\
         commit.interval.ms=100\n{more}"
    );
    Registry::builtin()
        .configure(&text.parse().unwrap())
        .unwrap()
}

/// A pipeline at work, and what it told.
struct Running {
    handle: PipelineHandle,
    run: JoinHandle<Result<Summary>>,
    told: Arc<Mutex<Vec<String>>>,
}

impl Running {
    /// Handles `good …`, sends it on to `bills`; `bad …` fails for good, `later …` at the first time.
    fn start(user: &Settings, more: &str) -> Self {
        let told: Arc<Mutex<Vec<String>>> = Arc::default();
        let (events, handled) = (Arc::clone(&told), Arc::clone(&told));
        let configuration = configuration(user, more);
        let pipeline = Pipeline::builder(&configuration)
            .unwrap()
            .observer(move |event: &PipelineEvent<'_>| {
                let text = match event {
                    PipelineEvent::TopicProblem { problem, .. } => problem.to_string(),
                    PipelineEvent::TopicCreated(topic) => format!("created {}", topic.name),
                    PipelineEvent::Warning(warning) => format!("warning {warning}"),
                    PipelineEvent::CommitFailed(error) => format!("not committed {error:?}"),
                    _ => return,
                };
                events.lock().unwrap().push(text);
            })
            .values::<String>()
            .unwrap()
            .handler(handle_with(
                move |value: String, context: &HandlerContext<'_>| {
                    let first = context.retried().is_none();
                    let result = match value.split(' ').next() {
                        Some("bad") => Err(Error::schema("it is bad")),
                        Some("later") if first => Err(Error::unavailable("not yet")),
                        _ => Ok(()),
                    };
                    if result.is_ok() {
                        let record = OutgoingRecord {
                            topic: "bills".to_owned(),
                            value: Some(Bytes::copy_from_slice(value.as_bytes())),
                            ..OutgoingRecord::default()
                        };
                        context.send(record);
                        handled.lock().unwrap().push(format!("handled {value}"));
                    }
                    async { result }
                },
            ))
            .unwrap();
        Running {
            handle: pipeline.handle(),
            run: tokio::spawn(pipeline.run()),
            told,
        }
    }

    fn all(&self) -> Vec<String> {
        self.told.lock().unwrap().clone()
    }

    async fn tells(&self, text: &str) {
        let wait = async {
            while !self.all().iter().any(|told| told.contains(text)) {
                sleep(Duration::from_millis(20)).await;
            }
        };
        let waited = timeout(PATIENCE, wait).await;
        assert!(waited.is_ok(), "`{text}` was not told: {:#?}", self.all());
    }

    async fn ended(self) -> Result<Summary> {
        timeout(PATIENCE, self.run).await.unwrap().unwrap()
    }

    /// Stops; all commits succeeded.
    async fn stop(self) -> Vec<String> {
        self.handle.stop();
        let told = Arc::clone(&self.told);
        let summary = self.ended().await.unwrap();
        let told = told.lock().unwrap().clone();
        assert_eq!(summary.uncommitted, 0, "{told:#?}");
        let failed = told.iter().find(|line| line.starts_with("not committed"));
        assert_eq!(failed, None);
        told
    }
}

/// Features one after the other, each as a user of its own who has what the document says.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_feature_needs_what_the_document_says() {
    if real::kafka().is_none() {
        return;
    }
    let Some(kafka) = Guarded::start("rights") else {
        return;
    };
    let sink = KafkaSink::start(&kafka.admin()).unwrap();
    let rig = Rig {
        rights: documented(),
        kafka,
        sink,
    };
    assert_eq!(rig.rights.len(), 11, "{:#?}", rig.rights.keys());
    rig.create(&["orders", "bills", "orders.shop.retry.1s"])
        .await;
    creating(&rig).await;
    consuming(&rig).await;
    checking(&rig).await;
    retrying(&rig).await;
    exactly_once(&rig).await;
    matching(&rig).await;
    redriving(&rig).await;
    forwarding(&rig).await;
    #[cfg(feature = "embedded")]
    scheduling(&rig).await;
    lacking(&rig).await;
}

async fn creating(rig: &Rig) {
    let features = [
        "consuming",
        "dead letters",
        "outputs",
        "`topics.create=missing`",
    ];
    let user = rig.user("u1", &features).await;
    rig.produce("orders", "bad one", &[]).await;
    let running = Running::start(&user, "topics=orders\ntopics.create=missing");
    running.tells("created orders.dead-letter").await;
    rig.arrives("orders.dead-letter", "bad one").await;
    running.stop().await;
}

async fn consuming(rig: &Rig) {
    let user = rig
        .user("u2", &["consuming", "dead letters", "outputs"])
        .await;
    rig.produce("orders", "bad two", &[]).await;
    rig.produce("orders", "good two", &[]).await;
    let running = Running::start(&user, "topics=orders");
    rig.arrives("bills", "good two").await;
    rig.arrives("orders.dead-letter", "bad two").await;
    let told = running.stop().await;
    // What it could not look at it says.
    for topic in ["orders", "orders.dead-letter"] {
        let right = format!("`DescribeConfigs on Topic:{topic}` is missing");
        assert!(told.iter().any(|line| line.contains(&right)), "{told:#?}");
    }
}

async fn checking(rig: &Rig) {
    let features = [
        "consuming",
        "dead letters",
        "outputs",
        "the check at the start",
    ];
    let user = rig.user("u3", &features).await;
    rig.produce("orders", "good three", &[]).await;
    let running = Running::start(&user, "topics=orders\ntopics.check=refuse");
    rig.arrives("bills", "good three").await;
    let told = running.stop().await;
    let wrong = told.iter().find(|line| line.contains("topic"));
    assert_eq!(wrong, None, "{told:#?}");
}

async fn retrying(rig: &Rig) {
    let features = ["consuming", "dead letters", "outputs", "retries in topics"];
    let user = rig.user("u4", &features).await;
    rig.produce("orders", "later four", &[]).await;
    let more = "topics=orders\nretry.topics=1s\nretry.order=relaxed";
    let running = Running::start(&user, more);
    rig.arrives("bills", "later four").await;
    running.stop().await;
    rig.arrives("orders.shop.retry.1s", "later four").await;
}

async fn exactly_once(rig: &Rig) {
    let features = ["consuming", "dead letters", "outputs", "exactly once"];
    let user = rig.user("u5", &features).await;
    rig.produce("orders", "bad five", &[]).await;
    rig.produce("orders", "good five", &[]).await;
    let more = "topics=orders\nprocessing.guarantee=exactly_once\nprocessing.instance=one";
    let running = Running::start(&user, more);
    rig.arrives("bills", "good five").await;
    rig.arrives("orders.dead-letter", "bad five").await;
    running.stop().await;
}

async fn matching(rig: &Rig) {
    let user = rig
        .user("u6", &["patterns", "dead letters", "outputs"])
        .await;
    rig.produce("orders", "good six", &[]).await;
    let running = Running::start(&user, "topics=^ord");
    rig.arrives("bills", "good six").await;
    running.stop().await;
}

async fn redriving(rig: &Rig) {
    let user = rig.user("u7", &["redrive"]).await;
    let redrive = Redrive::builder(&user, "orders.dead-letter", "june")
        .to(To::Source)
        .allow("orders")
        .build()
        .unwrap();
    let summary = timeout(PATIENCE, redrive.run()).await.unwrap().unwrap();
    assert_eq!(summary.redriven, summary.read, "{summary}");
    assert!(summary.redriven >= 3, "{summary}");
}

async fn forwarding(rig: &Rig) {
    rig.create(&["orders.delay.1s", "orders.delay.1s.dead-letter"])
        .await;
    let user = rig.user("u8", &["forwarder"]).await;
    let more = "group.id=forwarder\ntopics=orders.delay.1s\ndeliver.allow=orders";
    let configuration = configuration(&user, more);
    let forwarder = Forwarder::builder(&configuration).unwrap().build().unwrap();
    let handle = forwarder.handle();
    let run = tokio::spawn(forwarder.run());
    rig.produce("orders.delay.1s", "good eight", &[(DELIVER_TO, "orders")])
        .await;
    rig.produce("orders.delay.1s", "nowhere eight", &[(DELIVER_TO, "bills")])
        .await;
    rig.arrives("orders", "good eight").await;
    rig.arrives("orders.delay.1s.dead-letter", "nowhere eight")
        .await;
    handle.stop();
    timeout(PATIENCE, run).await.unwrap().unwrap().unwrap();
}

#[cfg(feature = "embedded")]
async fn scheduling(rig: &Rig) {
    use kafka_chain::delay::deliver::{DELIVER_AFTER, DeliverRules};
    use kafka_chain::scheduler::{Scheduler, SchedulerOptions};

    rig.create(&["later", "later.dead-letter"]).await;
    let changelog = NewTopic {
        config: [("cleanup.policy".to_owned(), "compact".to_owned())].into(),
        ..NewTopic::new("later.schedule", 1)
    };
    create_topics(&rig.kafka.admin(), vec![changelog], PATIENCE)
        .await
        .unwrap();
    let mut user = rig.user("u9", &["scheduler"]).await;
    user.set("group.id", "scheduler");
    let folder = folder::Folder::new("rights");
    let rules = DeliverRules::new(["orders"]).unwrap();
    let options = SchedulerOptions::new("later", user, rules, folder.path());
    let scheduler = Scheduler::start(options).await.unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let run = tokio::spawn(async move {
        let stopped = async {
            let _ = stopped.await;
        };
        scheduler.run(stopped).await
    });
    let at = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    let at = (at.as_millis() + 500).to_string();
    let headers = |to| [(DELIVER_TO, to), (DELIVER_AFTER, at.as_str())];
    rig.produce("later", "good nine", &headers("orders")).await;
    rig.produce("later", "nowhere nine", &headers("bills"))
        .await;
    rig.arrives("orders", "good nine").await;
    rig.arrives("later.dead-letter", "nowhere nine").await;
    stop.send(()).unwrap();
    timeout(PATIENCE, run).await.unwrap().unwrap().unwrap();
}

/// Who lacks a right is told which.
async fn lacking(rig: &Rig) {
    // It may write to `orders`, and be in such a group.
    let user = rig.kafka.user("u7");
    let group = "group.id=orders.dead-letter.redrive.x";
    let running = Running::start(
        &user,
        &format!("topics=orders\ndebug=fetch,cgrp,topic\n{group}"),
    );
    println!("no Read on the topic: {:?}", running.ended().await);
    let running = Running::start(&user, &format!("topics=bills\n{group}"));
    println!("no Describe on the topic: {:?}", running.ended().await);
    let running = Running::start(&user, "topics=orders");
    println!("no Read on the group: {:?}", running.ended().await);
    // What it needs of the topic of dead letters is not there.
    let user = rig.user("u8", &["consuming"]).await;
    rig.produce("orders", "bad ten", &[]).await;
    let running = Running::start(&user, "topics=orders");
    running
        .tells("`Describe on Topic:orders.dead-letter` is missing")
        .await;
    rig.user("u8", &["dead letters"]).await;
    rig.arrives("orders.dead-letter", "bad ten").await;
    running.stop().await;
}
