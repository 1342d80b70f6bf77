//! Records written at a steady rate, numbered from 0.

use crate::rig::client;
use rdkafka::client::ClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Header, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer, ProducerContext, ThreadedProducer};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub(crate) const PARTITIONS: i32 = 6;

/// A multiple of the partitions, so that a key lies in one of them.
pub(crate) const KEYS: u64 = 600;

/// The header with a record's number, also on what is made of it.
pub(crate) const ID: &str = "id";

pub(crate) fn partition_of(id: u64) -> i32 {
    (id % PARTITIONS as u64) as i32
}

/// What becomes of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Fate {
    Good,
    /// No document: its dead letter is all that can become of it.
    Poison,
    /// Its handler fails once.
    Transient,
    /// Its handler fails until the worker's patience is over.
    Stubborn,
    /// The same, but its chain.
    Unreadable,
    /// One call of its handler takes that long.
    Slow,
    /// Poison whose dead letter is too large for its topic.
    Huge,
}

/// No fault of any record's.
pub(crate) fn good(_: u64) -> Fate {
    Fate::Good
}

/// 5 % poison and 2 % transient, in each partition.
pub(crate) fn mixed(id: u64) -> Fate {
    let turn = id / PARTITIONS as u64;
    match (turn % 20, turn % 50) {
        (7, _) => Fate::Poison,
        (_, 11) => Fate::Transient,
        _ => Fate::Good,
    }
}

struct Counted {
    acknowledged: Arc<AtomicU64>,
}

impl ClientContext for Counted {
    fn error(&self, _: KafkaError, _: &str) {}
}

impl ProducerContext for Counted {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if result.is_ok() {
            self.acknowledged.fetch_add(1, Ordering::Release);
        }
    }
}

pub(crate) struct Load {
    sent: Arc<AtomicU64>,
    acknowledged: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Load {
    /// Writes `rate` records a second to `topic` until it is stopped.
    pub(crate) fn start(servers: &str, topic: &str, rate: u64, fate: fn(u64) -> Fate) -> Self {
        let sent = Arc::new(AtomicU64::new(0));
        let acknowledged = Arc::new(AtomicU64::new(0));
        let over = Arc::new(AtomicBool::new(false));
        let settings = [
            ("enable.idempotence", "true"),
            ("linger.ms", "5"),
            ("message.timeout.ms", "300000"),
            ("queue.buffering.max.messages", "1000000"),
        ];
        let counted = Counted {
            acknowledged: Arc::clone(&acknowledged),
        };
        let producer: ThreadedProducer<Counted> = client(servers, &settings)
            .create_with_context(counted)
            .expect("a producer can be made");
        let topic = topic.to_owned();
        let thread = {
            let (sent, over) = (Arc::clone(&sent), Arc::clone(&over));
            std::thread::spawn(move || {
                let began = Instant::now();
                while !over.load(Ordering::Acquire) {
                    let due = began.elapsed().as_millis() as u64 * rate / 1000;
                    let mut next = sent.load(Ordering::Relaxed);
                    while next < due {
                        write(&producer, &topic, next, fate(next));
                        next += 1;
                    }
                    sent.store(next, Ordering::Release);
                    std::thread::sleep(Duration::from_millis(5));
                }
                producer
                    .flush(Duration::from_secs(120))
                    .expect("what was produced is acknowledged");
            })
        };
        Load {
            sent,
            acknowledged,
            over,
            thread,
        }
    }

    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Acquire)
    }

    /// Stops; how many records there are, all of them acknowledged.
    pub(crate) fn stop(self) -> u64 {
        self.over.store(true, Ordering::Release);
        self.thread.join().expect("the producer ends");
        let sent = self.sent.load(Ordering::Acquire);
        assert_eq!(self.acknowledged.load(Ordering::Acquire), sent);
        sent
    }
}

fn write(producer: &ThreadedProducer<Counted>, topic: &str, id: u64, fate: Fate) {
    let key = format!("key-{}", id % KEYS);
    let number = id.to_string();
    let fate_text = serde_json::to_string(&fate).expect("a fate has a text");
    let value = match fate {
        Fate::Poison => format!("{{\"id\":{id},"),
        Fate::Huge => format!("{{\"id\":{id},{:.>50000}", ""),
        _ => format!(
            "{{\"id\":{id},\"fate\":{fate_text},\"text\":\"{:.>100}\"}}",
            ""
        ),
    };
    loop {
        let record = BaseRecord::to(topic)
            .partition(partition_of(id))
            .key(&key)
            .payload(&value)
            .headers(OwnedHeaders::new().insert(Header {
                key: ID,
                value: Some(&number),
            }));
        match producer.send(record) {
            Ok(()) => return,
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), _)) => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err((error, _)) => panic!("could not produce: {error}"),
        }
    }
}
