//! Members of a group that log what they handle, and what must hold of such a log.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "helpers of several tests"
)]

use bytes::Bytes;
use kafka_chain::OutgoingRecord;
use kafka_chain::transport::Settings;
use kafka_chain::transport::kafka::{
    AssignedPartition, Commit, EmbeddedBroker, GroupConsumer, GroupEvent, GroupHandle,
    GroupOptions, KafkaSink, OwnedPartition, PartitionReader, Revoked,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// Far above what any step takes: it turns a hang into a failure.
pub const PATIENCE: Duration = Duration::from_secs(40);

pub const EAGER: &[(&str, &str)] = &[
    ("session.timeout.ms", "1100"),
    ("heartbeat.interval.ms", "50"),
];
pub const COOPERATIVE: &[(&str, &str)] = &[
    ("session.timeout.ms", "3000"),
    ("heartbeat.interval.ms", "50"),
    ("partition.assignment.strategy", "cooperative-sticky"),
];
pub const KIP_848: &[(&str, &str)] = &[("group.protocol", "consumer")];

/// The embedded broker with one topic, and a producer.
pub struct Rig {
    pub broker: EmbeddedBroker,
    pub sink: KafkaSink,
}

pub fn rig(topic: &str, partitions: i32) -> Rig {
    let broker = EmbeddedBroker::start(1).unwrap();
    broker.create_topic(topic, partitions).unwrap();
    let mut settings = Settings::new();
    settings
        .set("bootstrap.servers", broker.bootstrap_servers())
        .set("linger.ms", "0");
    let sink = KafkaSink::start(&settings).unwrap();
    Rig { broker, sink }
}

impl Rig {
    pub fn settings(&self, group: &str, more: &[(&str, &str)]) -> Settings {
        settings(&self.broker.bootstrap_servers(), group, more)
    }
}

pub fn settings(servers: &str, group: &str, more: &[(&str, &str)]) -> Settings {
    let mut all = Settings::new();
    all.set("bootstrap.servers", servers)
        .set("group.id", group)
        .set("reconnect.backoff.ms", "10")
        .set("reconnect.backoff.max.ms", "50");
    all.extend(more.iter().copied());
    all
}

pub fn start(settings: &Settings, topic: &str) -> GroupConsumer {
    GroupConsumer::start(settings, &[topic], &GroupOptions::default()).unwrap()
}

pub async fn next(consumer: &mut GroupConsumer) -> GroupEvent {
    timeout(PATIENCE, consumer.next_event())
        .await
        .expect("an event in time")
        .expect("the consumer is not over")
}

/// Events until one assigns partitions; empty assignments are passed over.
pub async fn assigned(consumer: &mut GroupConsumer) -> Vec<AssignedPartition> {
    loop {
        match next(consumer).await {
            GroupEvent::Assigned(partitions) if partitions.is_empty() => {}
            GroupEvent::Assigned(partitions) => return partitions,
            event => panic!("{event:?}"),
        }
    }
}

pub async fn revoked(consumer: &mut GroupConsumer) -> Revoked {
    loop {
        match next(consumer).await {
            GroupEvent::Assigned(partitions) if partitions.is_empty() => {}
            GroupEvent::Revoked(revoked) => return revoked,
            event => panic!("{event:?}"),
        }
    }
}

/// The offsets of the next `count` records.
pub async fn take(reader: &mut PartitionReader, count: usize) -> Vec<i64> {
    let mut offsets = Vec::new();
    while offsets.len() < count {
        let batch = timeout(PATIENCE, reader.next_batch(count - offsets.len()))
            .await
            .expect("records in time")
            .expect("the ownership goes on");
        offsets.extend(batch.iter().map(|record| record.record().offset));
    }
    offsets
}

pub async fn fill(sink: &KafkaSink, topic: &str, partition: i32, count: usize) {
    let mut sends = tokio::task::JoinSet::new();
    for _ in 0..count {
        let (sink, record) = (sink.clone(), record(topic, partition));
        sends.spawn(async move { sink.send(record).await });
    }
    while let Some(sent) = sends.join_next().await {
        sent.unwrap().unwrap();
    }
}

fn record(topic: &str, partition: i32) -> OutgoingRecord {
    OutgoingRecord {
        topic: topic.to_owned(),
        partition: Some(partition),
        value: Some(Bytes::from_static(b"some value of no great length")),
        ..OutgoingRecord::default()
    }
}

/// What was handled: by which member, in which ownership, in this order.
#[derive(Default)]
pub struct Log {
    handled: Mutex<Vec<(usize, OwnedPartition, i64)>>,
}

impl Log {
    pub fn len(&self) -> usize {
        self.handled.lock().unwrap().len()
    }

    fn push(&self, member: usize, partition: &OwnedPartition, offset: i64) {
        let entry = (member, partition.clone(), offset);
        self.handled.lock().unwrap().push(entry);
    }

    fn seen(&self) -> BTreeMap<i32, BTreeSet<i64>> {
        let mut seen: BTreeMap<i32, BTreeSet<i64>> = BTreeMap::new();
        for (_, partition, offset) in &*self.handled.lock().unwrap() {
            seen.entry(partition.partition).or_default().insert(*offset);
        }
        seen
    }

    pub fn has_all(&self, ends: &[i64]) -> bool {
        let seen = self.seen();
        (0..).zip(ends).all(|(partition, end)| {
            let seen = seen.get(&partition).map_or(0, BTreeSet::len);
            seen == usize::try_from(*end).unwrap()
        })
    }

    /// Offsets rise by one within each ownership, and nothing below `ends` is missing. Answers how
    /// many were handled more than once, and how many ownerships there were.
    pub fn check(&self, ends: &[i64]) -> (usize, usize) {
        let mut last: HashMap<(usize, OwnedPartition), i64> = HashMap::new();
        let handled = self.handled.lock().unwrap();
        for (member, partition, offset) in &*handled {
            let before = last.insert((*member, partition.clone()), *offset);
            if let Some(before) = before {
                assert_eq!(*offset, before + 1, "member {member}, {partition}");
            }
        }
        let count = handled.len();
        drop(handled);
        let seen = self.seen();
        for (partition, end) in (0..).zip(ends) {
            let all: BTreeSet<i64> = (0..*end).collect();
            let missing: Vec<_> = all.difference(&seen[&partition]).collect();
            assert!(missing.is_empty(), "lost of {partition}: {missing:?}");
        }
        let distinct: usize = seen.values().map(BTreeSet::len).sum();
        (count - distinct, last.len())
    }
}

struct Work {
    mark: Arc<AtomicI64>,
    task: JoinHandle<()>,
}

/// A member with a task a partition, which commits every 50 ms and whenever it gives back.
pub struct Running {
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Running {
    pub fn start(member: usize, settings: &Settings, topic: &str, log: &Arc<Log>) -> Self {
        let (stop, stopped) = oneshot::channel();
        let consumer = start(settings, topic);
        let log = Arc::clone(log);
        let task = tokio::spawn(run(member, consumer, stopped, log));
        Running {
            stop: Some(stop),
            task,
        }
    }

    pub async fn stop(mut self) {
        self.stop.take().unwrap().send(()).unwrap();
        timeout(PATIENCE, self.task).await.unwrap().unwrap();
    }
}

async fn run(
    member: usize,
    mut consumer: GroupConsumer,
    mut stopped: oneshot::Receiver<()>,
    log: Arc<Log>,
) {
    let handle = consumer.handle();
    let mut workers: HashMap<OwnedPartition, Work> = HashMap::new();
    let mut tick = tokio::time::interval(Duration::from_millis(50));
    loop {
        tokio::select! {
            event = consumer.next_event() => match event.unwrap() {
                GroupEvent::Assigned(assigned) => {
                    for AssignedPartition { partition, start, reader } in assigned {
                        let mark = Arc::new(AtomicI64::new(-1));
                        let work = work(member, start, reader, Arc::clone(&mark), Arc::clone(&log));
                        let task = tokio::spawn(work);
                        workers.insert(partition, Work { mark, task });
                    }
                }
                GroupEvent::Revoked(revoked) => {
                    let mut ended = HashMap::new();
                    for partition in &revoked.partitions {
                        let mut work = workers.remove(partition).unwrap();
                        (&mut work.task).await.unwrap();
                        ended.insert(partition.clone(), work);
                    }
                    commit(&handle, &ended).await;
                    revoked.done();
                }
                GroupEvent::Lost(lost) => {
                    println!("member {member} lost {lost:?}");
                    for partition in &lost {
                        workers.remove(partition);
                    }
                }
                event => panic!("member {member}: {event:?}"),
            },
            _ = tick.tick() => commit(&handle, &workers).await,
            _ = &mut stopped => break,
        }
        assert!(handle.last_poll_age() < PATIENCE);
    }
    // Readers end with the closing; what they handled until then is committed by it.
    for work in workers.values_mut() {
        work.task.abort();
        let _ = (&mut work.task).await;
    }
    let last = marks(&workers);
    for result in consumer.close(last, Duration::from_secs(10)).await {
        if let Err(error) = result {
            println!("member {member} at its end: {error}");
        }
    }
}

async fn work(
    member: usize,
    start: Option<i64>,
    mut reader: PartitionReader,
    mark: Arc<AtomicI64>,
    log: Arc<Log>,
) {
    let partition = reader.partition().clone();
    let mut first = start;
    while let Some(batch) = reader.next_batch(100).await {
        for record in batch {
            let offset = record.record().offset;
            if let Some(first) = first.take() {
                assert_eq!(offset, first, "{partition} begins at its committed offset");
            }
            log.push(member, &partition, offset);
            mark.store(offset + 1, Ordering::SeqCst);
        }
        sleep(Duration::from_millis(1)).await;
    }
}

fn marks(workers: &HashMap<OwnedPartition, Work>) -> Vec<Commit> {
    let mark = |(partition, work): (&OwnedPartition, &Work)| {
        let mark = work.mark.load(Ordering::SeqCst);
        (mark >= 0).then(|| Commit::new(partition.clone(), mark))
    };
    workers.iter().filter_map(mark).collect()
}

async fn commit(handle: &GroupHandle, workers: &HashMap<OwnedPartition, Work>) {
    for result in handle.commit(marks(workers)).await {
        if let Err(error) = result {
            println!("{error}");
        }
    }
}

/// Members of one group join and leave under load. Answers how many records were handled twice and
/// how many ownerships there were.
pub async fn churn(
    sink: &KafkaSink,
    settings: &Settings,
    topic: &str,
    partitions: i32,
    rounds: usize,
    pause: Duration,
) -> (usize, usize) {
    let log = Arc::new(Log::default());
    let (stop, mut stopped) = oneshot::channel::<()>();
    let load = tokio::spawn({
        let (sink, topic) = (sink.clone(), topic.to_owned());
        async move {
            let mut ends = vec![0_i64; usize::try_from(partitions).unwrap()];
            while stopped.try_recv().is_err() {
                for (partition, end) in (0..).zip(&mut ends) {
                    fill(&sink, &topic, partition, 20).await;
                    *end += 20;
                }
                sleep(Duration::from_millis(10)).await;
            }
            ends
        }
    });
    let mut running = vec![Running::start(0, settings, topic, &log)];
    for round in 0..rounds {
        sleep(pause).await;
        running.push(Running::start(round * 2 + 1, settings, topic, &log));
        sleep(pause).await;
        // The eldest leaves.
        running.remove(0).stop().await;
    }
    stop.send(()).unwrap();
    let ends = load.await.unwrap();
    let all = async {
        while !log.has_all(&ends) {
            sleep(Duration::from_millis(20)).await;
        }
    };
    if timeout(PATIENCE, all).await.is_err() {
        println!("not everything was handled: {ends:?}");
    }
    for member in running {
        member.stop().await;
    }
    assert!(ends.iter().all(|end| *end > 0));
    log.check(&ends)
}
