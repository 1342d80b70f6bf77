//! The two samples of the article on delay topics, on rdkafka instead of the Java client, statement by
//! statement: a poll gives up to 500 records, by partition; one that is not due pauses its partition,
//! seeks back, and leaves the loop over all of them; each that is due is sent, awaited, and committed.

use super::{producer, servers};
use bytes::Bytes;
use kafka_chain::OutgoingRecord;
use kafka_chain::transport::kafka::KafkaSink;
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::message::{Message, OwnedMessage};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::runtime::Handle;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sample {
    /// A timer resumes everything once a second.
    Timer,
    /// Sleeps until the record that stopped it is due.
    Sleep,
    /// The first, whose loop goes on with the other partitions: nothing else is changed.
    Repaired,
}

impl Sample {
    pub(crate) const ALL: [Sample; 3] = [Sample::Timer, Sample::Sleep, Sample::Repaired];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Sample::Timer => "article's first sample (timer)",
            Sample::Sleep => "article's second sample (sleep)",
            Sample::Repaired => "article's first sample with its loss repaired",
        }
    }
}

#[derive(Default)]
struct Lock {
    rung: Mutex<bool>,
    changed: Condvar,
}

pub(crate) struct Running {
    exit: Arc<AtomicBool>,
    pub(crate) sent: Arc<AtomicU64>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

fn now() -> i64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("after 1970");
    i64::try_from(now.as_millis()).expect("a time")
}

impl Running {
    pub(crate) fn start(topic: &str, delay: i64, sample: Sample) -> Self {
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", servers())
            .set("group.id", format!("d-{:x}", rand::random::<u32>()))
            .set("enable.auto.commit", "false")
            .set("auto.offset.reset", "earliest")
            .set("isolation.level", "read_committed")
            // The article has 5 s; librdkafka wants the session to be no longer than that.
            .set("max.poll.interval.ms", "10000")
            .set("session.timeout.ms", "6000")
            .create()
            .expect("a consumer");
        let producer = producer();
        consumer.subscribe(&[topic]).expect("subscribed");
        let (consumer, lock) = (Arc::new(consumer), Arc::new(Lock::default()));
        let (exit, sent) = (
            Arc::new(AtomicBool::new(false)),
            Arc::<AtomicU64>::default(),
        );
        let mut threads = Vec::new();
        if sample != Sample::Sleep {
            let (consumer, lock, exit) = (consumer.clone(), lock.clone(), exit.clone());
            threads.push(std::thread::spawn(move || {
                while !exit.load(Ordering::Relaxed) {
                    resume(&consumer);
                    *lock.rung.lock().expect("lock") = true;
                    lock.changed.notify_all();
                    std::thread::sleep(Duration::from_secs(1));
                }
            }));
        }
        let looping = Loop {
            consumer,
            producer,
            runtime: Handle::current(),
            lock,
            delay,
            sample,
            sent: sent.clone(),
        };
        let over = exit.clone();
        threads.push(std::thread::spawn(move || looping.run(&over)));
        Running {
            exit,
            sent,
            threads,
        }
    }

    pub(crate) async fn stop(self) {
        self.exit.store(true, Ordering::Relaxed);
        let threads = self.threads;
        let joined = tokio::task::spawn_blocking(move || {
            threads
                .into_iter()
                .for_each(|thread| thread.join().expect("no panic"));
        });
        joined.await.expect("no panic");
    }
}

fn resume(consumer: &BaseConsumer) {
    if let Ok(all) = consumer.assignment() {
        let _ = consumer.resume(&all);
    }
}

struct Loop {
    consumer: Arc<BaseConsumer>,
    producer: KafkaSink,
    runtime: Handle,
    lock: Arc<Lock>,
    delay: i64,
    sample: Sample,
    sent: Arc<AtomicU64>,
}

impl Loop {
    /// What Java's poll gives: up to 500 of what is there, those of a partition together.
    fn poll(&self) -> Vec<OwnedMessage> {
        let mut records = Vec::new();
        let mut wait = Duration::from_millis(200);
        while records.len() < 500 {
            match self.consumer.poll(wait) {
                Some(Ok(record)) => records.push(record.detach()),
                Some(Err(_)) => {}
                None => break,
            }
            wait = Duration::ZERO;
        }
        records.sort_by_key(Message::partition);
        records
    }

    fn wait(&self) {
        let rung = self.lock.rung.lock().expect("lock");
        let timed = self
            .lock
            .changed
            .wait_timeout_while(rung, Duration::from_secs(2), |r| !*r);
        *timed.expect("lock").0 = false;
    }

    fn run(&self, exit: &AtomicBool) {
        while !exit.load(Ordering::Relaxed) {
            let records = self.poll();
            if records.is_empty() {
                if self.sample != Sample::Sleep {
                    self.wait();
                }
                continue;
            }
            let (mut timed, mut stopped) = (false, None);
            for record in &records {
                if stopped == Some(record.partition()) {
                    continue;
                }
                let timestamp = record.timestamp().to_millis().unwrap_or(-1);
                let span = timestamp + self.delay - now();
                let is_due = match self.sample {
                    Sample::Sleep => span <= 0,
                    _ => span < 0,
                };
                if is_due {
                    self.forward(record);
                    continue;
                }
                self.back_off(record);
                match self.sample {
                    Sample::Timer => timed = true,
                    Sample::Sleep => {
                        std::thread::sleep(Duration::from_millis(span.unsigned_abs()));
                        resume(&self.consumer);
                    }
                    Sample::Repaired => {
                        timed = true;
                        stopped = Some(record.partition());
                        continue;
                    }
                }
                break;
            }
            if timed {
                self.wait();
            }
        }
    }

    fn back_off(&self, record: &OwnedMessage) {
        let mut list = TopicPartitionList::new();
        list.add_partition(record.topic(), record.partition());
        let _ = self.consumer.pause(&list);
        let (topic, partition) = (record.topic(), record.partition());
        let offset = Offset::Offset(record.offset());
        let _ = self
            .consumer
            .seek(topic, partition, offset, Duration::from_secs(5));
    }

    fn forward(&self, record: &OwnedMessage) {
        let value: serde_json::Value =
            serde_json::from_slice(record.payload().unwrap_or_default()).expect("JSON");
        let Some(topic) = value.get("topic").and_then(|topic| topic.as_str()) else {
            return;
        };
        // `jsonNode.asText()` of the whole object, as the article has it, is "".
        let key = value.get("key").map(|_| String::new());
        let text = value.get("value").map(|value| match value.as_str() {
            Some(text) => text.to_owned(),
            None => String::new(),
        });
        let outgoing = OutgoingRecord {
            topic: topic.to_owned(),
            key: key.map(Bytes::from),
            value: text.map(Bytes::from),
            ..OutgoingRecord::default()
        };
        // `.get()`
        let sent = self.runtime.block_on(self.producer.send(outgoing));
        sent.expect("sent");
        let mut list = TopicPartitionList::new();
        let offset = Offset::Offset(record.offset() + 1);
        list.add_partition_offset(record.topic(), record.partition(), offset)
            .expect("an offset");
        let _ = self.consumer.commit(&list, CommitMode::Sync);
        self.sent.fetch_add(1, Ordering::Relaxed);
    }
}

/// How many records a second of a backlog that is due the repaired sample forwards.
pub(crate) async fn drain(topic: &str, delay: i64, time: Duration) -> f64 {
    let running = Running::start(topic, delay, Sample::Repaired);
    while running.sent.load(Ordering::Relaxed) == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let began = Instant::now();
    let before = running.sent.load(Ordering::Relaxed);
    tokio::time::sleep(time).await;
    let sent = running.sent.load(Ordering::Relaxed) - before;
    let rate = sent as f64 / began.elapsed().as_secs_f64();
    running.stop().await;
    rate
}
