//! The pipeline on a real Kafka, beside the loops that people write: client CPU and throughput.
//!
//! `pipeline NAME` compares, `pipeline` lists the names. Each side runs in a process of its own, in
//! turn with the other, on the Kafka at `KAFKA_BOOTSTRAP_SERVERS`.

use kafka_chain::config::Registry;
use kafka_chain::pipeline::{HandlerContext, Pipeline, handle_with};
use kafka_chain::properties::Properties;
use kafka_chain::transport::Settings;
use kafka_chain::transport::kafka::{KafkaSink, NewTopic, create_topics};
use kafka_chain::{Error, OutgoingRecord};
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, StreamConsumer};
use rdkafka::message::Message;
use rdkafka::util::AsyncRuntime;
use serde::{Deserialize, Serialize};
use std::future::Future;
use std::hint::black_box;
use std::pin::Pin;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const PARTITIONS: i32 = 6;
const BYTES: usize = 512;

#[derive(Debug, Serialize, Deserialize)]
struct Order {
    id: u64,
    customer: String,
    item: String,
    cents: u64,
    note: String,
}

fn servers() -> String {
    std::env::var("KAFKA_BOOTSTRAP_SERVERS").expect("KAFKA_BOOTSTRAP_SERVERS names a Kafka")
}

fn number(name: &str, default: u64) -> u64 {
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
struct Span {
    cpu: f64,
    began: Instant,
}

impl Span {
    fn begin() -> Self {
        Span {
            cpu: cpu(),
            began: Instant::now(),
        }
    }

    fn print(self, records: u64) {
        let (cpu, wall) = (cpu() - self.cpu, self.began.elapsed().as_secs_f64());
        println!(
            "cpu_us={:.4} rate={:.0}",
            cpu * 1e6 / records as f64,
            records as f64 / wall
        );
    }
}

fn client(group: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", servers())
        .set("group.id", group)
        .set("auto.offset.reset", "earliest")
        .set("enable.auto.commit", "false");
    config
}

fn decode(payload: Option<&[u8]>) {
    let order: Order = serde_json::from_slice(payload.unwrap_or_default()).expect("an order");
    black_box(order);
}

fn base_consumer(topic: &str, group: &str, records: u64) {
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

async fn stream_consumer(topic: &str, group: &str, records: u64) {
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

fn configuration(topic: &str, group: &str, more: &str) -> kafka_chain::config::Configuration {
    let text = format!(
        "bootstrap.servers={}\ngroup.id={group}\ntopics={topic}\n\
         value.deserializer=exception-handling(com.example.OrderDeserializer)\n{more}",
        servers()
    );
    let properties: Properties = text.parse().expect("properties");
    Registry::builtin()
        .with_json::<Order>("com.example.OrderDeserializer")
        .configure(&properties)
        .unwrap_or_else(|report| panic!("{report}"))
}

/// Counts records, marks the first, and stops at the last.
struct Count {
    seen: AtomicU64,
    records: u64,
    span: std::sync::OnceLock<Span>,
    done: tokio::sync::Notify,
}

impl Count {
    fn new(records: u64) -> Arc<Self> {
        Arc::new(Count {
            seen: AtomicU64::new(0),
            records,
            span: std::sync::OnceLock::new(),
            done: tokio::sync::Notify::new(),
        })
    }

    fn one(&self) {
        self.span.get_or_init(Span::begin);
        if self.seen.fetch_add(1, Ordering::Relaxed) + 1 == self.records {
            self.span.get().expect("a span").print(self.records);
            self.done.notify_one();
        }
    }
}

async fn pipeline(topic: &str, group: &str, records: u64) {
    let configuration = configuration(topic, group, "");
    let count = Count::new(records);
    let counting = Arc::clone(&count);
    let pipeline = Pipeline::builder(&configuration)
        .and_then(|builder| builder.values::<Order>())
        .expect("a builder")
        .handler(handle_with(move |order: Order, _: &HandlerContext<'_>| {
            black_box(order);
            counting.one();
            std::future::ready(Ok::<(), Error>(()))
        }))
        .expect("a pipeline");
    let handle = pipeline.handle();
    let stopping = async {
        count.done.notified().await;
        handle.stop();
    };
    let (ran, ()) = tokio::join!(pipeline.run(), stopping);
    ran.expect("a clean end");
}

/// 1 ms of work for each record, in the order of the partition or of keys.
async fn waiting(topic: &str, group: &str, records: u64, order: &str) {
    let more = format!("processing.order={order}\nmax.in.flight=1000");
    let configuration = configuration(topic, group, &more);
    let count = Count::new(records);
    let counting = Arc::clone(&count);
    let pipeline = Pipeline::builder(&configuration)
        .and_then(|builder| builder.values::<Order>())
        .expect("a builder")
        .handler(handle_with(move |order: Order, _: &HandlerContext<'_>| {
            let counting = Arc::clone(&counting);
            async move {
                tokio::time::sleep(Duration::from_millis(1)).await;
                black_box(order);
                counting.one();
                Ok::<(), Error>(())
            }
        }))
        .expect("a pipeline");
    let handle = pipeline.handle();
    let stopping = async {
        count.done.notified().await;
        handle.stop();
    };
    let (ran, ()) = tokio::join!(pipeline.run(), stopping);
    ran.expect("a clean end");
}

/// Reads all of a topic where a share of the records is no order, to its end and the dead letters'.
async fn poisoned(topic: &str, group: &str, records: u64) {
    let more = "dead.letter.limit.consecutive=0\ndead.letter.producer.linger.ms=5";
    let configuration = configuration(topic, group, more);
    let count = Count::new(records);
    let (counting, letters) = (Arc::clone(&count), Arc::clone(&count));
    let pipeline = Pipeline::builder(&configuration)
        .and_then(|builder| builder.values::<Order>())
        .expect("a builder")
        .observer(move |event: &kafka_chain::pipeline::PipelineEvent<'_>| {
            use kafka_chain::pipeline::{Event, PipelineEvent};
            if let PipelineEvent::Record {
                event: Event::Written { .. },
                ..
            } = event
            {
                letters.one();
            }
        })
        .handler(handle_with(move |order: Order, _: &HandlerContext<'_>| {
            black_box(order);
            counting.one();
            std::future::ready(Ok::<(), Error>(()))
        }))
        .expect("a pipeline");
    let handle = pipeline.handle();
    let stopping = async {
        count.done.notified().await;
        handle.stop();
    };
    let (ran, ()) = tokio::join!(pipeline.run(), stopping);
    ran.expect("a clean end");
}

/// Consumes and produces the same bytes with the headers of a dead letter, acknowledged by all.
async fn bare_copy(topic: &str, group: &str, records: u64) {
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

async fn fill(topic: &str, records: u64, partitions: i32, poison_every: u64) {
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

struct Measured {
    cpu_us: f64,
    rate: f64,
}

/// Runs one side in a process of its own.
fn measure(role: &str, topic: &str, records: u64) -> Measured {
    static GROUPS: AtomicU64 = AtomicU64::new(0);
    let group = format!("{topic}-{role}-{}", GROUPS.fetch_add(1, Ordering::Relaxed));
    let program = std::env::current_exe().expect("this program");
    let output = Command::new(program)
        .args(["--role", role, topic, &group, &records.to_string()])
        .output()
        .expect("a process");
    let text = String::from_utf8_lossy(&output.stdout);
    let value = |name: &str| {
        let found = text.split_whitespace().find_map(|w| w.strip_prefix(name));
        found.and_then(|value| value.parse().ok())
    };
    match (value("cpu_us="), value("rate=")) {
        (Some(cpu_us), Some(rate)) => Measured { cpu_us, rate },
        _ => panic!("{role}: {text}{}", String::from_utf8_lossy(&output.stderr)),
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn verdict(name: &str, ratio: f64, target: &str, met: bool) {
    let word = if met { "met" } else { "short" };
    println!("{name} ratio={ratio:.3} target={target} {word}");
}

fn fresh(name: &str) -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("time");
    format!("bench-{name}-{}", since.as_millis())
}

async fn clean() {
    let records = number("BENCH_RECORDS", 2_000_000);
    let pairs = number("BENCH_PAIRS", 7);
    let topic = fresh("clean");
    fill(&topic, records, PARTITIONS, 0).await;
    let roles = ["pipeline", "base", "stream"];
    let mut all: [Vec<Measured>; 3] = Default::default();
    for pair in 0..pairs {
        for (role, measured) in roles.iter().zip(&mut all) {
            let one = measure(role, &topic, records);
            println!(
                "{pair} {role:<9} {:.3} µs of CPU a record, {:.0} records/s",
                one.cpu_us, one.rate
            );
            measured.push(one);
        }
    }
    let cpu = |side: &Vec<Measured>| median(side.iter().map(|one| one.cpu_us).collect());
    let rate = |side: &Vec<Measured>| median(side.iter().map(|one| one.rate).collect());
    let [ours, base, stream] = &all;
    for (role, side) in roles.iter().zip(&all) {
        println!(
            "median {role:<9} {:.3} µs of CPU a record, {:.0} records/s",
            cpu(side),
            rate(side)
        );
    }
    let faster = if cpu(base) < cpu(stream) {
        base
    } else {
        stream
    };
    let ratios = ours.iter().zip(faster).map(|(a, b)| a.cpu_us / b.cpu_us);
    let ratio = median(ratios.collect());
    verdict("pipeline", ratio, "<=1.10", ratio <= 1.1);
}

async fn poison(name: &str, every: u64, base: &str, least: f64) {
    let records = number("BENCH_RECORDS", 500_000);
    let pairs = number("BENCH_PAIRS", 5);
    let (bad, good) = (fresh("poison"), fresh("good"));
    fill(&bad, records, PARTITIONS, every).await;
    if base == "pipeline" {
        fill(&good, records, PARTITIONS, 0).await;
    }
    let against = if base == "pipeline" { &good } else { &bad };
    let mut ratios = Vec::new();
    for pair in 0..pairs {
        let ours = measure("poisoned", &bad, records);
        let theirs = measure(base, against, records);
        println!(
            "{pair} pipeline {:.0} records/s, {base} {:.0} records/s",
            ours.rate, theirs.rate
        );
        ratios.push(ours.rate / theirs.rate);
    }
    let ratio = median(ratios);
    verdict(name, ratio, &format!(">={least:.2}"), ratio >= least);
}

async fn keys() {
    let records = number("BENCH_RECORDS", 200_000);
    let pairs = number("BENCH_PAIRS", 3);
    let topic = fresh("keys");
    fill(&topic, records, 1, 0).await;
    let mut ratios = Vec::new();
    for pair in 0..pairs {
        let key = measure("order-key", &topic, records);
        // One after the other it takes long: fewer tell as much.
        let partition = measure("order-partition", &topic, records / 50);
        println!(
            "{pair} by key {:.0} records/s, by partition {:.0} records/s",
            key.rate, partition.rate
        );
        ratios.push(key.rate / partition.rate);
    }
    let ratio = median(ratios);
    verdict("pipeline-keys", ratio, ">=50", ratio >= 50.0);
}

fn play(role: &str, topic: &str, group: &str, records: u64) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    match role {
        "base" => base_consumer(topic, group, records),
        "stream" => runtime.block_on(stream_consumer(topic, group, records)),
        "pipeline" => runtime.block_on(pipeline(topic, group, records)),
        "poisoned" => runtime.block_on(poisoned(topic, group, records)),
        "copy" => runtime.block_on(bare_copy(topic, group, records)),
        "order-key" => runtime.block_on(waiting(topic, group, records, "key")),
        "order-partition" => runtime.block_on(waiting(topic, group, records, "partition")),
        _ => panic!("there is no role {role}"),
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| a != "--bench")
        .collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let runtime = || tokio::runtime::Runtime::new().expect("a runtime");
    match words.as_slice() {
        ["--role", role, topic, group, records] => {
            play(role, topic, group, records.parse().expect("a number"));
        }
        ["pipeline"] => runtime().block_on(clean()),
        ["pipeline-poison"] => runtime().block_on(poison("pipeline-poison", 10, "pipeline", 0.7)),
        ["pipeline-all-poison"] => {
            runtime().block_on(poison("pipeline-all-poison", 1, "copy", 0.5))
        }
        ["pipeline-keys"] => runtime().block_on(keys()),
        _ => println!(
            "pipeline              clean records, to the faster of two bare loops, in client CPU\n\
             pipeline-poison       one record in ten is no order, to clean ones, in records a second\n\
             pipeline-all-poison   none is an order, to a bare loop that copies them\n\
             pipeline-keys         1 ms of work a record, by key to by partition"
        ),
    }
}
