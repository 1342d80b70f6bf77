//! `processing.guarantee=exactly_once` on real Apache Kafka: a `read_committed` reader sees what comes
//! of each record once.
#![cfg(feature = "kafka")]

#[path = "support/group.rs"]
mod group;
#[path = "support/real.rs"]
mod real;

use bytes::Bytes;
use group::{PATIENCE, settings};
use kafka_chain::config::{Configuration, Registry};
use kafka_chain::pipeline::{
    Event, HandlerContext, Order, PauseReason, Pipeline, PipelineEvent, PipelineHandle, Summary,
    handle_with,
};
use kafka_chain::properties::Properties;
use kafka_chain::transport::Settings;
use kafka_chain::transport::kafka::{
    KafkaSink, KafkaSource, NewTopic, Transaction, TransactionalSink, create_topics,
};
use kafka_chain::{Error, OutgoingRecord, OwnedRecord, Result};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

const PARTITIONS: i32 = 4;

struct Rig {
    servers: String,
    name: String,
    sink: KafkaSink,
}

/// A topic of its own, with one for outputs (`.out`) and one for dead letters, or nothing.
async fn rig(name: &str) -> Option<Rig> {
    let servers = real::kafka()?;
    let name = format!("once-{name}-{}", std::process::id());
    let mut own = Settings::new();
    own.set("bootstrap.servers", &servers);
    let sink = KafkaSink::start(&own).unwrap();
    let rig = Rig {
        servers,
        name,
        sink,
    };
    let mut letters = NewTopic::new(rig.letters(), PARTITIONS);
    let limit = ("max.message.bytes".to_owned(), "20000".to_owned());
    letters.config = BTreeMap::from([limit]);
    let topics = vec![
        NewTopic::new(&rig.name, PARTITIONS),
        NewTopic::new(rig.outputs(), PARTITIONS),
        letters,
    ];
    create_topics(&own, topics, PATIENCE).await.unwrap();
    Some(rig)
}

impl Rig {
    fn outputs(&self) -> String {
        format!("{}.out", self.name)
    }

    fn letters(&self) -> String {
        format!("{}.dead-letter", self.name)
    }

    fn configuration(&self, more: &str) -> Configuration {
        let group = match more.contains("group.protocol=consumer") {
            true => "",
            false => "session.timeout.ms=6000\nheartbeat.interval.ms=200",
        };
        let text = format!(
            "bootstrap.servers={}\ngroup.id={}\ntopics={}\nvalue.deserializer=string\n\
             processing.guarantee=exactly_once\n{group}\n\
             dead.letter.limit.consecutive=0\n{more}",
            self.servers, self.name, self.name
        );
        let properties: Properties = text.parse().unwrap();
        Registry::builtin().configure(&properties).unwrap()
    }

    async fn fill(&self, range: std::ops::Range<usize>) {
        let mut sends = tokio::task::JoinSet::new();
        for id in range {
            let (sink, topic) = (self.sink.clone(), self.name.clone());
            sends.spawn(async move { sink.send(record(&topic, id, &id.to_string())).await });
        }
        while let Some(sent) = sends.join_next().await {
            sent.unwrap().unwrap();
        }
    }

    /// A pipeline that writes an output for each record, or a dead letter for each seventh.
    fn start(&self, more: &str) -> Started {
        self.start_with(more, Duration::ZERO)
    }

    fn start_with(&self, more: &str, takes: Duration) -> Started {
        let configuration = self.configuration(more);
        let outputs = self.outputs();
        let events = Events::default();
        let pipeline = Pipeline::builder(&configuration)
            .unwrap()
            .values::<String>()
            .unwrap()
            .observer({
                let events = events.clone();
                move |event: &PipelineEvent<'_>| events.take(event)
            })
            .handler(handle_with(
                move |value: String, context: &HandlerContext<'_>| {
                    let id: usize = value.split(' ').next().unwrap().parse().unwrap();
                    let dead = id.is_multiple_of(7);
                    if !dead {
                        context.send(record(&outputs, id, &value));
                        context.send(record(&outputs, id, &format!("{value}+")));
                    }
                    async move {
                        if !takes.is_zero() {
                            sleep(takes).await;
                        }
                        match dead {
                            true => Err(Error::schema("a seventh")),
                            false => Ok(()),
                        }
                    }
                },
            ))
            .unwrap();
        Started {
            handle: pipeline.handle(),
            task: tokio::spawn(pipeline.run()),
            events,
        }
    }

    /// How often each value is in a topic, for those who read what is committed. Reads until nothing
    /// more is missing or too much.
    async fn committed(&self, topic: &str, expected: usize) -> BTreeMap<String, usize> {
        let group = format!("{topic}-{}", rand::random::<u32>());
        let more = [("session.timeout.ms", "6000")];
        let reader = settings(&self.servers, &group, &more);
        let mut source = KafkaSource::start(&reader, &[topic]).unwrap();
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        while seen.values().sum::<usize>() < expected {
            let next = timeout(PATIENCE, source.recv()).await;
            let next = next.unwrap_or_else(|_| panic!("{topic}: {} of {expected}", seen.len()));
            let next = next.unwrap();
            let value = String::from_utf8_lossy(next.record().value.unwrap()).into_owned();
            *seen.entry(value).or_default() += 1;
        }
        // What comes too much comes before this.
        for partition in 0..PARTITIONS {
            let mut end = record(topic, 0, "end");
            end.partition = Some(partition);
            self.sink.send(end).await.unwrap();
        }
        while seen.get("end").copied().unwrap_or_default() < 4 {
            let next = timeout(PATIENCE, source.recv()).await.unwrap().unwrap();
            let value = String::from_utf8_lossy(next.record().value.unwrap()).into_owned();
            *seen.entry(value).or_default() += 1;
        }
        seen.remove("end");
        source.close().await;
        seen
    }

    /// The first record of a topic that was committed.
    async fn first(&self, topic: &str) -> OwnedRecord {
        let group = format!("{topic}-{}", rand::random::<u32>());
        let reader = settings(&self.servers, &group, &[("session.timeout.ms", "6000")]);
        let mut source = KafkaSource::start(&reader, &[topic]).unwrap();
        let first = timeout(PATIENCE, source.recv()).await.unwrap().unwrap();
        let first = first.record().to_owned();
        source.close().await;
        first
    }

    async fn each_once(&self, records: usize) {
        let dead = records.div_ceil(7);
        let outputs = self.committed(&self.outputs(), 2 * (records - dead)).await;
        let letters = self.committed(&self.letters(), dead).await;
        assert_eq!((outputs.len(), letters.len()), (2 * (records - dead), dead));
        let twice: Vec<_> = outputs
            .iter()
            .chain(&letters)
            .filter(|(_, n)| **n > 1)
            .collect();
        assert!(twice.is_empty(), "more than once: {twice:?}");
    }
}

fn record(topic: &str, id: usize, value: &str) -> OutgoingRecord {
    OutgoingRecord {
        topic: topic.to_owned(),
        partition: Some(i32::try_from(id).unwrap() % PARTITIONS),
        key: Some(Bytes::from(id.to_string())),
        value: Some(Bytes::copy_from_slice(value.as_bytes())),
        ..OutgoingRecord::default()
    }
}

#[derive(Clone, Default)]
struct Events {
    commits: Arc<AtomicUsize>,
    told: Arc<Mutex<Vec<String>>>,
}

impl Events {
    fn take(&self, event: &PipelineEvent<'_>) {
        match event {
            PipelineEvent::Committed { .. } => {
                self.commits.fetch_add(1, Ordering::AcqRel);
            }
            PipelineEvent::Record {
                event: Event::Judged { .. } | Event::Handled { .. } | Event::Written { .. },
                ..
            } => {}
            event => self.told.lock().unwrap().push(format!("{event:?}")),
        }
    }

    async fn until(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let waiting = async {
            while !is_so(self) {
                sleep(Duration::from_millis(20)).await;
            }
        };
        let told = || self.told.lock().unwrap().join("\n");
        assert!(
            timeout(PATIENCE, waiting).await.is_ok(),
            "{what}: {}",
            told()
        );
    }

    async fn until_told(&self, word: &str) {
        let told = |events: &Self| events.told.lock().unwrap().iter().any(|t| t.contains(word));
        self.until(word, told).await;
    }
}

struct Started {
    handle: PipelineHandle,
    task: JoinHandle<Result<Summary>>,
    events: Events,
}

impl Started {
    async fn stop(self) -> Summary {
        self.handle.stop();
        timeout(PATIENCE, self.task)
            .await
            .unwrap()
            .unwrap()
            .unwrap()
    }

    /// As a crash ends it, but for its open transaction.
    async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

#[tokio::test]
async fn outputs_and_dead_letters_are_seen_once_through_stops_and_starts() {
    for order in Order::ALL {
        let Some(rig) = rig(order.as_str()).await else {
            return;
        };
        rig.fill(0..700).await;
        let more = format!(
            "processing.order={}\nprocessing.instance=one",
            order.as_str()
        );
        let first = rig.start(&more);
        first
            .events
            .until("commits", |e| e.commits.load(Ordering::Acquire) > 0)
            .await;
        let summary = first.stop().await;
        assert_eq!(summary.uncommitted, 0);
        rig.fill(700..1400).await;
        let second = rig.start(&more);
        rig.each_once(1400).await;
        second.stop().await;
    }
}

/// Consumers are dropped in the middle of their work, with and without a name to come back under.
#[tokio::test]
async fn consumers_that_are_dropped_write_nothing_twice() {
    let Some(rig) = rig("dropped").await else {
        return;
    };
    rig.fill(0..3000).await;
    for (round, name) in ["a", "a", "", "a", ""].iter().enumerate() {
        let more = format!("commit.interval.ms=30\nprocessing.instance={name}");
        let running = rig.start_with(&more, Duration::from_millis(1));
        running
            .events
            .until("commits", |e| e.commits.load(Ordering::Acquire) > round)
            .await;
        running.kill().await;
    }
    let last = rig.start("");
    rig.each_once(3000).await;
    last.stop().await;
}

async fn rebalanced(name: &str, protocol: &str) {
    let Some(rig) = rig(name).await else { return };
    rig.fill(0..2000).await;
    let more = format!("{protocol}\ncommit.interval.ms=50");
    let takes = Duration::from_millis(2);
    let first = rig.start_with(&more, takes);
    first
        .events
        .until("commits", |e| e.commits.load(Ordering::Acquire) > 1)
        .await;
    let second = rig.start_with(&more, takes);
    second
        .events
        .until("commits", |e| e.commits.load(Ordering::Acquire) > 1)
        .await;
    let third = rig.start_with(&more, takes);
    first.stop().await;
    third.events.until_told("Assigned").await;
    second.kill().await;
    rig.fill(2000..2800).await;
    rig.each_once(2800).await;
    third.stop().await;
}

#[tokio::test]
async fn an_eager_group_writes_nothing_twice_while_members_come_and_go() {
    rebalanced("eager", "").await;
}

#[tokio::test]
async fn a_cooperative_group_writes_nothing_twice_while_members_come_and_go() {
    rebalanced(
        "cooperative",
        "partition.assignment.strategy=cooperative-sticky",
    )
    .await;
}

#[tokio::test]
async fn a_kip_848_group_writes_nothing_twice_while_members_come_and_go() {
    rebalanced("kip848", "group.protocol=consumer").await;
}

/// Somebody else has taken the transactional id: the pipeline takes it back, and nothing is lost or
/// written twice by that.
#[tokio::test]
async fn a_pipeline_that_is_fenced_goes_on_with_a_new_producer() {
    let Some(rig) = rig("fenced").await else {
        return;
    };
    rig.fill(0..1400).await;
    let running = rig.start_with(
        "processing.instance=one\ncommit.interval.ms=50",
        Duration::from_millis(1),
    );
    running
        .events
        .until("commits", |e| e.commits.load(Ordering::Acquire) > 1)
        .await;
    let mut own = Settings::new();
    own.set("bootstrap.servers", &rig.servers);
    let other = TransactionalSink::start(&own, &format!("{}.one", rig.name)).unwrap();
    timeout(PATIENCE, other.transact(Transaction::default()))
        .await
        .unwrap()
        .unwrap();
    running.events.until_told("Warning").await;
    rig.each_once(1400).await;
    running.stop().await;
}

/// A dead letter that is too large loses its value and holds nobody up; a record whose output cannot be
/// written holds its partition until its topic is there, and the others go on.
#[tokio::test]
async fn what_cannot_be_written_holds_its_partition_alone() {
    let Some(rig) = rig("unwritten").await else {
        return;
    };
    let large = format!("7 {}", "x".repeat(30_000));
    rig.sink.send(record(&rig.name, 7, &large)).await.unwrap();
    rig.fill(0..100).await;
    let missing = format!("{}.later", rig.name);
    let configuration = rig.configuration("");
    let (outputs, later) = (rig.outputs(), missing.clone());
    let events = Events::default();
    let pipeline = Pipeline::builder(&configuration)
        .unwrap()
        .values::<String>()
        .unwrap()
        .observer({
            let events = events.clone();
            move |event: &PipelineEvent<'_>| events.take(event)
        })
        .handler(handle_with(
            move |value: String, context: &HandlerContext<'_>| {
                let large = value.len() > 1_000;
                let id: usize = value.split(' ').next().unwrap().parse().unwrap();
                let topic = match id {
                    50 => &later,
                    _ => &outputs,
                };
                context.send(record(topic, id, &value));
                async move {
                    match large {
                        true => Err(Error::schema("too long")),
                        false => Ok(()),
                    }
                }
            },
        ))
        .unwrap();
    let started = Started {
        handle: pipeline.handle(),
        task: tokio::spawn(pipeline.run()),
        events,
    };
    started.events.until_told("Unwritten").await;
    // Of partition 2 only those before 50.
    let others = rig.committed(&rig.outputs(), 75 + 12).await;
    assert!(others.values().all(|n| *n == 1), "{others:?}");
    let letters = rig.committed(&rig.letters(), 1).await;
    assert_eq!(
        letters.into_iter().collect::<Vec<_>>(),
        [(String::new(), 1)]
    );

    started.events.until_told("reason: Unwritten").await;
    let paused = |handle: &PipelineHandle| {
        let partitions = handle.health().partitions.into_iter();
        let paused = partitions.filter(|partition| partition.paused.is_some());
        paused
            .map(|partition| (partition.partition, partition.paused))
            .collect::<Vec<_>>()
    };
    assert_eq!(paused(&started.handle), [(2, Some(PauseReason::Unwritten))]);

    let mut own = Settings::new();
    own.set("bootstrap.servers", &rig.servers);
    let topics = vec![NewTopic::new(&missing, PARTITIONS)];
    create_topics(&own, topics, PATIENCE).await.unwrap();
    started.events.until_told("Resumed").await;
    assert_eq!(paused(&started.handle), []);
    let late = rig.committed(&missing, 1).await;
    assert_eq!(late.into_iter().collect::<Vec<_>>(), [("50".to_owned(), 1)]);
    let summary = started.stop().await;
    assert_eq!(summary.uncommitted, 0);
}

/// None of its record's outputs is seen then, and its neighbours are as if it had never been.
#[tokio::test]
async fn an_output_that_is_too_large_makes_a_dead_letter_of_its_record() {
    let Some(rig) = rig("refused").await else {
        return;
    };
    rig.fill(0..100).await;
    let configuration = rig.configuration("");
    let (outputs, small) = (rig.outputs(), rig.letters());
    let events = Events::default();
    let pipeline = Pipeline::builder(&configuration)
        .unwrap()
        .values::<String>()
        .unwrap()
        .observer({
            let events = events.clone();
            move |event: &PipelineEvent<'_>| events.take(event)
        })
        .handler(handle_with(
            move |value: String, context: &HandlerContext<'_>| {
                let id: usize = value.parse().unwrap();
                context.send(record(&outputs, id, &value));
                if id == 50 {
                    context.send(record(&small, id, &"x".repeat(30_000)));
                }
                std::future::ready(Ok::<(), Error>(()))
            },
        ))
        .unwrap();
    let started = Started {
        handle: pipeline.handle(),
        task: tokio::spawn(pipeline.run()),
        events,
    };
    let seen = rig.committed(&rig.outputs(), 99).await;
    assert!(seen.values().all(|n| *n == 1), "{seen:?}");
    assert!(!seen.contains_key("50"));
    let letter = rig.first(&rig.letters()).await;
    started.events.until_told("Unwritten").await;
    assert_eq!(started.stop().await.uncommitted, 0);
    assert_eq!(rig.committed(&rig.letters(), 1).await.len(), 1);
    assert_eq!(letter.value.as_deref(), Some(&b"50"[..]));
    assert_eq!(letter.partition, 50 % PARTITIONS);
    let (_, info) = kafka_chain::dead_letter::read(letter.headers.view()).unwrap();
    assert_eq!(info.offset(), Some(12));
    assert_eq!(info.stage_path(), Some("output"));
    let text = info.message().unwrap();
    assert!(
        text.contains(&rig.letters()) && !text.contains("xxx"),
        "{text}"
    );
}

/// A copy that waits in a retry topic is written with the offset, and what comes of it when it comes
/// back too.
#[tokio::test]
async fn records_that_wait_in_retry_topics_are_handled_once_to_the_end() {
    let Some(rig) = rig("retries").await else {
        return;
    };
    let mut own = Settings::new();
    own.set("bootstrap.servers", &rig.servers);
    let waiting = format!("{0}.{0}.retry.200ms", rig.name);
    let topics = vec![NewTopic::new(waiting, PARTITIONS)];
    create_topics(&own, topics, PATIENCE).await.unwrap();
    rig.fill(0..200).await;
    let configuration = rig.configuration(
        "retry.topics=200ms\nretry.order=relaxed\ncommit.interval.ms=50\nprocessing.instance=one",
    );
    let start = || {
        let outputs = rig.outputs();
        let events = Events::default();
        let pipeline = Pipeline::builder(&configuration)
            .unwrap()
            .values::<String>()
            .unwrap()
            .observer({
                let events = events.clone();
                move |event: &PipelineEvent<'_>| events.take(event)
            })
            .handler(handle_with(
                move |value: String, context: &HandlerContext<'_>| {
                    let id: usize = value.parse().unwrap();
                    let first = !context.record().topic.contains(".retry.");
                    let fails = id.is_multiple_of(3) && first;
                    context.send(record(&outputs, id, &value));
                    async move {
                        match fails {
                            true => Err(Error::unavailable("not at once")),
                            false => Ok(()),
                        }
                    }
                },
            ))
            .unwrap();
        Started {
            handle: pipeline.handle(),
            task: tokio::spawn(pipeline.run()),
            events,
        }
    };
    let first = start();
    let committed = |e: &Events| e.commits.load(Ordering::Acquire) > 0;
    first.events.until("commits", committed).await;
    first.kill().await;
    let second = start();
    let outputs = rig.committed(&rig.outputs(), 200).await;
    assert_eq!(outputs.len(), 200);
    second.stop().await;
}
