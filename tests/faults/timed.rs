//! Records that are due later: written at a steady rate, and read back where they are delivered.

use crate::load::{ID, PARTITIONS};
use crate::rig::{client, say, within};
use crate::tally::Totals;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Headers, Message};
use rdkafka::{Offset, TopicPartitionList};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The header with a record's time, which stays with it.
pub(crate) const DUE: &str = "due";

/// What a topic needs so that the brokers say when a record came to it.
pub(crate) const BROKERS_TIME: (&str, &str) = ("message.timestamp.type", "LogAppendTime");

/// How much sooner records are asked for than they are checked for, when early ones are to be seen.
pub(crate) const TOO_SOON_MS: i64 = 300;

/// Milliseconds since the epoch. All processes of a test are on one machine, and have one clock.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as i64)
}

/// Writes records by their numbers.
pub(crate) trait Writer: Send + 'static {
    fn write(&mut self, ids: Range<u64>);

    /// What was written is acknowledged.
    fn flush(&mut self);
}

/// Numbers from 0 at a steady rate, until it is stopped.
pub(crate) struct TimedLoad {
    sent: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl TimedLoad {
    pub(crate) fn start(rate: u64, mut writer: impl Writer) -> Self {
        let sent = Arc::new(AtomicU64::new(0));
        let over = Arc::new(AtomicBool::new(false));
        let thread = {
            let (sent, over) = (Arc::clone(&sent), Arc::clone(&over));
            std::thread::spawn(move || {
                let (began, mut next) = (Instant::now(), 0);
                while !over.load(Ordering::Acquire) {
                    let until = began.elapsed().as_millis() as u64 * rate / 1_000;
                    writer.write(next..until);
                    next = until;
                    sent.store(next, Ordering::Release);
                    std::thread::sleep(Duration::from_millis(5));
                }
                writer.flush();
            })
        };
        TimedLoad { sent, over, thread }
    }

    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Acquire)
    }

    /// Stops; how many records there are, all of them acknowledged.
    pub(crate) fn stop(self) -> u64 {
        self.over.store(true, Ordering::Release);
        self.thread.join().expect("the writer ends");
        self.sent.load(Ordering::Acquire)
    }
}

#[derive(Debug, Default)]
struct Found {
    /// How often each record came.
    copies: BTreeMap<u64, u64>,
    early: u64,
    latest_ms: i64,
}

/// What is delivered, read by a client of the test's own.
pub(crate) struct Arrivals {
    consumer: Arc<BaseConsumer>,
    topic: String,
    found: Arc<Mutex<Found>>,
    over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Arrivals {
    /// Reads a topic in which the brokers write the time ([`BROKERS_TIME`]).
    pub(crate) fn listen(servers: &str, topic: &str) -> Self {
        let settings = [
            ("group.id", "arrivals"),
            ("enable.auto.commit", "false"),
            ("fetch.wait.max.ms", "50"),
        ];
        let consumer: BaseConsumer = client(servers, &settings)
            .create()
            .expect("a consumer can be made");
        let mut list = TopicPartitionList::new();
        for partition in 0..PARTITIONS {
            list.add_partition_offset(topic, partition, Offset::Beginning)
                .expect("the offset is valid");
        }
        consumer.assign(&list).expect("the topic can be assigned");
        let consumer = Arc::new(consumer);
        let found = Arc::<Mutex<Found>>::default();
        let over = Arc::new(AtomicBool::new(false));
        let thread = {
            let (consumer, found, over) =
                (Arc::clone(&consumer), Arc::clone(&found), Arc::clone(&over));
            std::thread::spawn(move || {
                while !over.load(Ordering::Acquire) {
                    if let Some(Ok(message)) = consumer.poll(Duration::from_millis(50)) {
                        lock(&found).take(&message);
                    }
                }
            })
        };
        Arrivals {
            consumer,
            topic: topic.to_owned(),
            found,
            over,
            thread,
        }
    }

    pub(crate) fn distinct(&self) -> u64 {
        lock(&self.found).copies.len() as u64
    }

    /// How often records came again.
    pub(crate) fn duplicates(&self) -> u64 {
        let found = lock(&self.found);
        found.copies.values().map(|copies| copies - 1).sum()
    }

    /// How many of the first `sent` records, of those chosen, have not come.
    pub(crate) fn missing(&self, sent: u64, chosen: impl Fn(u64) -> bool) -> u64 {
        let found = lock(&self.found);
        let missing = (0..sent).filter(|id| chosen(*id) && !found.copies.contains_key(id));
        missing.count() as u64
    }

    /// Waits until so many have come, no longer than `idle` without one.
    pub(crate) fn wait_for(&self, count: u64, idle: Duration) {
        let (mut before, mut since) = (0, Instant::now());
        while before < count && since.elapsed() < idle {
            let now = self.distinct();
            if now > before {
                (before, since) = (now, Instant::now());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Reads to the end, now that nobody writes any more.
    pub(crate) fn end(self) -> Ended {
        let ends: Vec<i64> = (0..PARTITIONS)
            .map(|partition| {
                let limit = Duration::from_secs(20);
                let marks = self
                    .consumer
                    .fetch_watermarks(&self.topic, partition, limit);
                marks.expect("the ends are known").1
            })
            .collect();
        let read = within(Duration::from_secs(30), || {
            let position = self.consumer.position().expect("the positions are known");
            let mut places = position.elements().into_iter();
            places.all(
                |place| match (place.offset(), ends[place.partition() as usize]) {
                    (_, 0) => true,
                    (Offset::Offset(offset), end) => offset >= end,
                    _ => false,
                },
            )
        });
        assert!(read, "the topic is not read to its ends");
        self.over.store(true, Ordering::Release);
        self.thread.join().expect("the reader ends");
        Ended(std::mem::take(&mut lock(&self.found)))
    }
}

/// All that was delivered.
pub(crate) struct Ended(Found);

impl Ended {
    /// What became of the chosen ones of `produced` records.
    pub(crate) fn totals(&self, produced: u64, chosen: impl Fn(u64) -> bool) -> Totals {
        let copies = &self.0.copies;
        let last = copies.keys().next_back();
        assert!(last.is_none_or(|last| *last < produced), "made of nothing");
        let (mut totals, mut lost) = (Totals::default(), Vec::new());
        for id in (0..produced).filter(|id| chosen(*id)) {
            totals.produced += 1;
            match copies.get(&id) {
                Some(copies) => {
                    totals.handled += 1;
                    totals.duplicates += copies - 1;
                }
                None => lost.push(id),
            }
        }
        if let Some(some) = lost.chunks(20).next() {
            say(format!("lost: {some:?}"));
        }
        totals.lost = lost.len() as u64;
        totals
    }

    /// How many were delivered before their time.
    pub(crate) fn early(&self) -> u64 {
        self.0.early
    }

    /// How late the latest was, in milliseconds.
    pub(crate) fn latest_ms(&self) -> i64 {
        self.0.latest_ms
    }
}

impl Found {
    fn take(&mut self, message: &impl Message<Headers: Headers>) {
        let header = |name: &str| -> i64 {
            let headers = message.headers().expect("it has headers");
            let found = headers.iter().find(|header| header.key == name);
            let value = found.and_then(|header| header.value).expect("it is there");
            String::from_utf8_lossy(value).parse().expect("a number")
        };
        *self.copies.entry(header(ID) as u64).or_default() += 1;
        let came = message.timestamp().to_millis().expect("it has a time");
        let late = came - header(DUE);
        self.early += u64::from(late < 0);
        self.latest_ms = self.latest_ms.max(late);
    }
}

fn lock(found: &Mutex<Found>) -> MutexGuard<'_, Found> {
    found.lock().unwrap_or_else(PoisonError::into_inner)
}
