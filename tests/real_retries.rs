//! Retries that do not block, from end to end on real Apache Kafka: through topics, through Redis, and
//! exactly once. The delays are those of 5 s and 10 s, scaled down by five.
#![cfg(feature = "kafka")]

#[path = "support/real.rs"]
mod real;

use bytes::Bytes;
use kafka_chain::clock::{Clock, SystemClock};
use kafka_chain::config::{Configuration, Registry};
use kafka_chain::dead_letter::{self, RETRY_HEADERS};
use kafka_chain::pipeline::{
    HandlerContext, Pipeline, PipelineBuilder, PipelineHandle, Summary, Work, handle_with,
};
use kafka_chain::properties::Properties;
use kafka_chain::transport::Settings;
use kafka_chain::transport::kafka::{KafkaRecord, KafkaSink, KafkaSource, NewTopic, create_topics};
use kafka_chain::{Headers, OutgoingRecord, OwnedRecord, Result};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// Far above what any step takes: it turns a hang into a failure.
const PATIENCE: Duration = Duration::from_secs(60);

const PARTITIONS: i32 = 3;
const ORDERS: usize = 60;

/// Fails twice.
const STUBBORN: usize = 7;

/// Fails always.
const HOPELESS: usize = 11;

/// When the second and the third delivery are due at the soonest, after the first.
const DUE_MS: [i64; 2] = [1_000, 3_000];

const TOPICS: &str = "retry.topics=1s,2s\nretry.order=relaxed";

struct Rig {
    servers: String,
    orders: String,
    group: String,
    sink: KafkaSink,
}

impl Rig {
    /// Topics of its own, or nothing where there is no Kafka.
    async fn new(name: &str, retries: &[&str]) -> Option<Self> {
        let servers = real::kafka()?;
        let orders = format!("retries-{name}-{}", std::process::id());
        let client: Settings = [("bootstrap.servers", servers.as_str())]
            .into_iter()
            .collect();
        let rig = Rig {
            sink: KafkaSink::start(&client).unwrap(),
            servers,
            orders,
            group: format!("shop-{name}"),
        };
        let retries = (retries.iter()).map(|more| rig.named(&format!("{}.{more}", rig.group)));
        let topics = retries
            .chain([
                rig.orders.clone(),
                rig.named("out"),
                rig.named("dead-letter"),
            ])
            .map(|topic| NewTopic::new(topic, PARTITIONS));
        create_topics(&client, topics.collect(), PATIENCE)
            .await
            .unwrap();
        Some(rig)
    }

    fn named(&self, more: &str) -> String {
        format!("{}.{more}", self.orders)
    }

    fn configuration(&self, group: &str, topics: &str, more: &str) -> Configuration {
        let text = format!(
            "bootstrap.servers={}\ngroup.id={group}\ntopics={topics}\nvalue.deserializer=string\n\
             session.timeout.ms=6000\nheartbeat.interval.ms=500\nmetadata.max.age.ms=1000\n{more}",
            self.servers
        );
        let properties: Properties = text.parse().unwrap();
        Registry::builtin().configure(&properties).unwrap()
    }

    async fn fill(&self) {
        for number in 0..ORDERS {
            self.sink.send(order(&self.orders, number)).await.unwrap();
        }
    }

    /// All that is in `topic` and was committed. Nobody writes to it any more.
    async fn all(&self, topic: &str) -> Vec<OwnedRecord> {
        for partition in 0..PARTITIONS {
            let end = OutgoingRecord {
                topic: topic.to_owned(),
                partition: Some(partition),
                key: Some(Bytes::from_static(b"end")),
                ..OutgoingRecord::default()
            };
            self.sink.send(end).await.unwrap();
        }
        let group = format!("all-{topic}");
        let settings: Settings = [
            ("bootstrap.servers", self.servers.as_str()),
            ("group.id", &group),
            ("auto.offset.reset", "earliest"),
            ("session.timeout.ms", "6000"),
        ]
        .into_iter()
        .collect();
        let mut source = KafkaSource::start(&settings, &[topic]).unwrap();
        let (mut records, mut ends) = (Vec::new(), 0);
        while ends < PARTITIONS {
            let next = timeout(PATIENCE, source.recv()).await;
            let record = next.expect("it is read to its ends").unwrap();
            match record.record().key {
                Some(b"end") => ends += 1,
                _ => records.push(record.record().to_owned()),
            }
        }
        source.close().await;
        records
    }
}

fn order(topic: &str, number: usize) -> OutgoingRecord {
    let mut headers = Headers::new();
    headers.push("trace", Some(&b"\xFF\x00"[..]));
    headers.push(RETRY_HEADERS[6], Some("9 from outside"));
    headers.push("trace", None::<Bytes>);
    OutgoingRecord {
        topic: topic.to_owned(),
        partition: Some(i32::try_from(number).unwrap() % PARTITIONS),
        key: Some(format!("key-{number}").into()),
        value: Some(number.to_string().into()),
        headers,
        timestamp: None,
    }
}

/// One delivery of an order to a handler.
#[derive(Clone, Debug)]
struct Delivery {
    number: usize,
    attempt: u32,
    topic: String,
    /// Since it failed first.
    after_ms: i64,
}

#[derive(Clone, Default)]
struct Deliveries(Arc<Mutex<Vec<Delivery>>>);

impl Deliveries {
    fn all(&self) -> Vec<Delivery> {
        self.0.lock().unwrap().clone()
    }

    async fn until(&self, what: &str, is_so: impl Fn(&[Delivery]) -> bool) {
        let waiting = async {
            while !is_so(&self.0.lock().unwrap()) {
                sleep(Duration::from_millis(20)).await;
            }
        };
        let waited = timeout(PATIENCE, waiting).await;
        assert!(waited.is_ok(), "never {what}: {:?}", self.all());
    }
}

struct Started {
    handle: PipelineHandle,
    task: JoinHandle<Result<Summary>>,
    deliveries: Deliveries,
}

impl Started {
    fn of<W: Work<KafkaRecord>>(pipeline: Pipeline<W>, deliveries: Deliveries) -> Self {
        Started {
            handle: pipeline.handle(),
            task: tokio::spawn(pipeline.run()),
            deliveries,
        }
    }

    async fn stop(self) -> Vec<Delivery> {
        self.handle.stop();
        let ended = timeout(PATIENCE, self.task).await;
        ended.expect("the pipeline ends").unwrap().unwrap();
        self.deliveries.all()
    }
}

/// A pipeline whose handler fails with some orders, and writes an output for each other one.
fn shop(
    configuration: &Configuration,
    outputs: String,
    with: impl FnOnce(PipelineBuilder<'_>) -> PipelineBuilder<'_>,
) -> Started {
    let deliveries = Deliveries::default();
    let log = deliveries.clone();
    let pipeline = with(Pipeline::builder(configuration).unwrap())
        .values::<String>()
        .unwrap()
        .handler(handle_with(
            move |value: String, context: &HandlerContext<'_>| {
                let number: usize = value.parse().unwrap();
                let retried = context.retried();
                let attempt = retried.as_ref().map_or(1, |retried| retried.attempt);
                let failed = retried.as_ref().and_then(|retried| retried.first_failed);
                log.0.lock().unwrap().push(Delivery {
                    number,
                    attempt,
                    topic: match &retried {
                        Some(retried) => retried.topic.clone(),
                        None => context.record().topic.to_owned(),
                    },
                    after_ms: failed.map_or(0, |failed| SystemClock.now() - failed),
                });
                let fails = number == HOPELESS || number == STUBBORN && attempt < 3;
                if !fails {
                    context.send(OutgoingRecord {
                        topic: outputs.clone(),
                        value: Some(value.into()),
                        ..OutgoingRecord::default()
                    });
                }
                async move {
                    match fails {
                        true => Err(format!("the courier is away, try {attempt}")),
                        false => Ok(()),
                    }
                }
            },
        ))
        .unwrap();
    Started::of(pipeline, deliveries)
}

/// Somebody else who reads the orders, and whatever else a pattern finds.
fn audit(rig: &Rig) -> Started {
    let topics = format!("^{}.*", rig.orders);
    let configuration = rig.configuration(&format!("{}-audit", rig.orders), &topics, "");
    let deliveries = Deliveries::default();
    let log = deliveries.clone();
    let outputs = rig.named("out");
    let pipeline = Pipeline::builder(&configuration)
        .unwrap()
        .values::<String>()
        .unwrap()
        .handler(handle_with(
            move |value: String, context: &HandlerContext<'_>| {
                let topic = context.record().topic.to_owned();
                if topic != outputs {
                    log.0.lock().unwrap().push(Delivery {
                        number: value.parse().unwrap(),
                        attempt: context.retried().map_or(1, |retried| retried.attempt),
                        topic,
                        after_ms: 0,
                    });
                }
                async { Ok::<(), String>(()) }
            },
        ))
        .unwrap();
    Started::of(pipeline, deliveries)
}

/// What must hold in whatever way the records wait.
async fn retried(
    rig: &Rig,
    more: &str,
    with: impl FnOnce(PipelineBuilder<'_>) -> PipelineBuilder<'_>,
) {
    rig.fill().await;
    let configuration = rig.configuration(&rig.group, &rig.orders, more);
    let audit = audit(rig);
    let shop = shop(&configuration, rig.named("out"), with);
    shop.deliveries
        .until("all to their ends", |deliveries| {
            let third = |number| {
                let mut its = deliveries.iter().filter(|d| d.number == number);
                its.any(|delivery| delivery.attempt == 3)
            };
            third(STUBBORN) && third(HOPELESS)
        })
        .await;
    let log = shop.stop().await;
    audit
        .deliveries
        .until("the audit has them all", |log| log.len() >= ORDERS)
        .await;
    let audited = audit.stop().await;
    holds(&log, &rig.orders);

    // Each order once, from its own topic, whatever was tried again.
    let mut numbers: Vec<usize> = audited.iter().map(|delivery| delivery.number).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..ORDERS).collect::<Vec<_>>());
    assert!(audited.iter().all(|delivery| delivery.topic == rig.orders));
    assert_eq!(rig.all(&rig.orders).await.len(), ORDERS);

    let outputs = rig.all(&rig.named("out")).await;
    let mut made: Vec<usize> = outputs.iter().map(text).collect();
    made.sort_unstable();
    let expected: Vec<usize> = (0..ORDERS).filter(|n| *n != HOPELESS).collect();
    assert_eq!(made, expected);

    let letters = rig.all(&rig.named("dead-letter")).await;
    assert_eq!(letters.len(), 1, "{letters:?}");
    tells_all(&letters[0], rig);
}

fn text(record: &OwnedRecord) -> usize {
    let value = record.value.as_deref().unwrap();
    std::str::from_utf8(value).unwrap().parse().unwrap()
}

/// Each delivery at its time, and nobody behind a failed one waits for it.
fn holds(log: &[Delivery], orders: &str) {
    let mut by_number: BTreeMap<usize, Vec<&Delivery>> = BTreeMap::new();
    for delivery in log {
        assert_eq!(delivery.topic, orders);
        by_number.entry(delivery.number).or_default().push(delivery);
    }
    assert_eq!(by_number.len(), ORDERS);
    for (number, deliveries) in &by_number {
        let attempts: Vec<u32> = deliveries.iter().map(|delivery| delivery.attempt).collect();
        if ![STUBBORN, HOPELESS].contains(number) {
            assert_eq!(attempts, [1], "{number}");
            continue;
        }
        assert_eq!(attempts, [1, 2, 3], "{number}");
        for (delivery, due) in deliveries[1..].iter().zip(DUE_MS) {
            println!(
                "{number}: try {} after {} ms",
                delivery.attempt, delivery.after_ms
            );
            assert!(delivery.after_ms >= due, "{delivery:?}");
        }
    }
    let first_retry = log
        .iter()
        .position(|delivery| delivery.attempt > 1)
        .unwrap();
    let behind = STUBBORN + PARTITIONS as usize;
    let next = log.iter().position(|delivery| delivery.number == behind);
    assert!(next.unwrap() < first_retry, "{behind} waited");
}

/// The record as it was, where it was first, and each try.
fn tells_all(letter: &OwnedRecord, rig: &Rig) {
    let record = order(&rig.orders, HOPELESS);
    assert_eq!(letter.key, record.key);
    assert_eq!(letter.value, record.value);
    let of = |headers: &Headers, name: &str| -> Vec<Option<Bytes>> {
        let found = headers.iter().filter(|(n, _)| *n == name);
        found.map(|(_, value)| value.cloned()).collect()
    };
    assert_eq!(of(&letter.headers, "trace"), of(&record.headers, "trace"));
    let (_, info) = dead_letter::read(letter.as_record().headers).unwrap();
    let hopeless = i64::try_from(HOPELESS).unwrap();
    let partitions = i64::from(PARTITIONS);
    assert_eq!(info.topic(), Some(rig.orders.as_str()));
    assert_eq!(info.partition().map(i64::from), Some(hopeless % partitions));
    assert_eq!(info.offset(), Some(hopeless / partitions));
    assert_eq!(info.attempts(), Some(3));
    assert_eq!(info.message(), Some("the courier is away, try 3"));
    assert_eq!(info.group(), Some(rig.group.as_str()));
    let text = |value: Option<Bytes>| String::from_utf8(value.unwrap().to_vec()).unwrap();
    let failures = of(&letter.headers, "kafka-chain-retry-failure");
    let failures: Vec<String> = failures.into_iter().map(text).collect();
    let told: Vec<_> = failures
        .iter()
        .map(|failure| {
            let mut words = failure.splitn(3, ' ');
            let attempt = words.next().unwrap().to_owned();
            let at: i64 = words.next().unwrap().parse().unwrap();
            (attempt, at, words.next().unwrap().to_owned())
        })
        .collect();
    assert_eq!(told.len(), 2, "{failures:?}");
    for (index, (attempt, _, error)) in told.iter().enumerate() {
        assert_eq!(*attempt, (index + 1).to_string());
        let expected = format!("the courier is away, try {attempt}");
        assert!(error.contains(&expected), "{error}");
    }
    assert!(told[1].1 - told[0].1 >= DUE_MS[0]);
    assert!(info.failed_at().unwrap() - told[0].1 >= DUE_MS[1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn through_topics() {
    let retries = ["retry.1s", "retry.2s"];
    let Some(rig) = Rig::new("topics", &retries).await else {
        return;
    };
    retried(&rig, TOPICS, |builder| builder).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn through_topics_exactly_once() {
    let retries = ["retry.1s", "retry.2s"];
    let Some(rig) = Rig::new("once", &retries).await else {
        return;
    };
    let more = format!("{TOPICS}\nprocessing.guarantee=exactly_once");
    retried(&rig, &more, |builder| builder).await;
}

#[cfg(feature = "redis")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn through_redis() {
    use kafka_chain::delay::DelayAdmin;
    use kafka_chain::delay::redis::{RedisOptions, RedisStore};
    use kafka_chain::delay::worker::{Worker, WorkerOptions};
    use std::sync::atomic::Ordering;

    let Some(url) = real::redis() else { return };
    let Some(rig) = Rig::new("redis", &["retry"]).await else {
        return;
    };
    let store = RedisStore::connect(RedisOptions::new(&url, &rig.orders)).await;
    let store = Arc::new(store.unwrap());
    let worker = Worker::new(
        Arc::clone(&store),
        rig.sink.clone(),
        WorkerOptions::default(),
    );
    let counts = worker.counts();
    let delivering = tokio::spawn(async move { worker.run(std::future::pending()).await });
    let more = "retry.delay=list\nretry.delay.list.waitsSeconds=1, 2\nretry.order=relaxed";
    retried(&rig, more, |builder| builder.retry_sink(Arc::clone(&store))).await;
    assert_eq!(counts.delivered.load(Ordering::Relaxed), 4);
    assert_eq!(counts.early.load(Ordering::Relaxed), 0);
    let stats = store.stats().await.unwrap();
    assert_eq!((stats.waiting, stats.in_flight, stats.dead), (0, 0, 0));
    delivering.abort();
}
