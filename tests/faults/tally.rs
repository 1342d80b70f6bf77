//! What became of each record, read back from the topics by a client of the test's own.

use crate::load::{ID, KEYS, PARTITIONS};
use crate::rig::{client, say, within};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Header, Headers, Message, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{Offset, TopicPartitionList};
use std::collections::HashMap;
use std::fmt;
use std::ops::AddAssign;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Numbers of records.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) produced: u64,
    /// With an output.
    pub(crate) handled: u64,
    /// With a dead letter.
    pub(crate) dead_lettered: u64,
    /// With neither.
    pub(crate) lost: u64,
    /// Outputs and dead letters beyond the first of a record.
    pub(crate) duplicates: u64,
    /// First outputs that came before the first one of an earlier record of their key.
    pub(crate) disorders: u64,
}

impl AddAssign for Totals {
    fn add_assign(&mut self, other: Self) {
        self.produced += other.produced;
        self.handled += other.handled;
        self.dead_lettered += other.dead_lettered;
        self.lost += other.lost;
        self.duplicates += other.duplicates;
        self.disorders += other.disorders;
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "produced={} handled={} dead-lettered={} lost={} duplicates={}",
            self.produced, self.handled, self.dead_lettered, self.lost, self.duplicates
        )
    }
}

/// How long reading to the ends may take; an open transaction of a dead process is in the way.
const LIMIT: Duration = Duration::from_secs(30);

#[derive(Default)]
struct Found {
    /// By record: outputs and dead letters.
    copies: Vec<(u16, u16)>,
    /// By key: the latest record that had an output.
    latest: HashMap<u64, u64>,
    disorders: u64,
    left_out: u64,
    /// By partition: when each output came that was its record's first.
    arrivals: Vec<Vec<Instant>>,
    /// How many last records were read.
    ends: usize,
}

/// The number of the record that the tally writes last to each partition.
const END: &str = "end";

impl Found {
    fn take(&mut self, message: &BorrowedMessage<'_>, is_output: bool) {
        let id = id_of(message).expect("a record has its number");
        if id == END {
            self.ends += 1;
            return;
        }
        let id: u64 = id.parse().expect("a number is one");
        let index = usize::try_from(id).expect("numbers are small");
        if self.copies.len() <= index {
            self.copies.resize(index + 1, (0, 0));
        }
        let copies = &mut self.copies[index];
        match is_output {
            true => copies.0 += 1,
            false => copies.1 += 1,
        }
        if !is_output && is_left_out(message) {
            self.left_out += 1;
        }
        if *copies == (1, 0) {
            self.arrivals[message.partition() as usize].push(Instant::now());
            let latest = self.latest.entry(id % KEYS).or_insert(id);
            self.disorders += u64::from(*latest > id);
            *latest = id.max(*latest);
        }
    }
}

fn id_of<'m>(message: &'m BorrowedMessage<'_>) -> Option<&'m str> {
    let headers = message.headers()?;
    let found = headers.iter().find(|header| header.key == ID)?;
    std::str::from_utf8(found.value?).ok()
}

fn is_left_out(message: &BorrowedMessage<'_>) -> bool {
    let mut names = message
        .headers()
        .into_iter()
        .flat_map(|headers| headers.iter());
    names.any(|header| header.key == "kafka-chain-value-left-out")
}

/// Reads on while the test runs.
pub(crate) struct Tally {
    consumer: Arc<BaseConsumer>,
    found: Arc<Mutex<Found>>,
    over: Arc<AtomicBool>,
    servers: String,
    topics: Vec<String>,
    thread: Option<JoinHandle<()>>,
}

impl Tally {
    /// Reads the topic `outputs`, and `dead_letters` if there is one yet.
    pub(crate) fn start(servers: &str, outputs: &str, dead_letters: Option<&str>) -> Self {
        let settings = [
            ("group.id", "tally"),
            ("enable.auto.commit", "false"),
            ("enable.partition.eof", "true"),
            ("isolation.level", "read_committed"),
            ("fetch.wait.max.ms", "50"),
        ];
        let consumer: BaseConsumer = client(servers, &settings)
            .create()
            .expect("a consumer can be made");
        let consumer = Arc::new(consumer);
        let found = Arc::new(Mutex::new(Found {
            arrivals: vec![Vec::new(); PARTITIONS as usize],
            ..Found::default()
        }));
        let over = Arc::new(AtomicBool::new(false));
        let thread = {
            let (consumer, found, over) =
                (Arc::clone(&consumer), Arc::clone(&found), Arc::clone(&over));
            let outputs = outputs.to_owned();
            std::thread::spawn(move || {
                while !over.load(Ordering::Acquire) {
                    match consumer.poll(Duration::from_millis(50)) {
                        Some(Ok(message)) => {
                            lock(&found).take(&message, message.topic() == outputs);
                        }
                        // Behind the markers of transactions, too.
                        Some(Err(KafkaError::PartitionEOF(_))) | None => {}
                        Some(Err(_)) => std::thread::sleep(Duration::from_millis(20)),
                    }
                }
            })
        };
        let mut tally = Tally {
            consumer,
            found,
            over,
            servers: servers.to_owned(),
            topics: Vec::new(),
            thread: Some(thread),
        };
        tally.read(outputs);
        if let Some(dead_letters) = dead_letters {
            tally.read(dead_letters);
        }
        tally
    }

    /// Reads one more topic, which exists by now.
    pub(crate) fn read(&mut self, topic: &str) {
        let mut list = TopicPartitionList::new();
        for partition in 0..PARTITIONS {
            list.add_partition_offset(topic, partition, Offset::Beginning)
                .expect("the offset is valid");
        }
        self.consumer
            .incremental_assign(&list)
            .expect("the topic can be assigned");
        self.topics.push(topic.to_owned());
    }

    fn found(&self) -> MutexGuard<'_, Found> {
        lock(&self.found)
    }

    /// How many records have an output or a dead letter.
    pub(crate) fn accounted(&self) -> u64 {
        let found = self.found();
        let there = found.copies.iter().filter(|copies| **copies != (0, 0));
        there.count() as u64
    }

    /// How many dead letters of a partition's records there are.
    pub(crate) fn dead_lettered(&self, partition: i32) -> u64 {
        let found = self.found();
        let of_partition = found
            .copies
            .iter()
            .skip(partition as usize)
            .step_by(PARTITIONS as usize);
        of_partition.filter(|copies| copies.1 > 0).count() as u64
    }

    /// How many dead letters say that their value was left out.
    pub(crate) fn left_out(&self) -> u64 {
        self.found().left_out
    }

    /// How late after `since` each partition had a first output of a record beyond so many, which may
    /// have been on their way; `None` when one has none.
    pub(crate) fn flowing_after(&self, since: Instant, beyond: usize) -> Option<Duration> {
        let found = self.found();
        let first = |arrivals: &Vec<Instant>| {
            let index = arrivals.partition_point(|at| *at < since);
            arrivals.get(index + beyond).map(|at| *at - since)
        };
        let firsts: Option<Vec<Duration>> = found.arrivals.iter().map(first).collect();
        firsts?.into_iter().max()
    }

    /// How many first outputs of a partition came in a time.
    pub(crate) fn between(&self, partition: i32, from: Instant, to: Instant) -> usize {
        let found = self.found();
        let arrivals = &found.arrivals[partition as usize];
        arrivals.partition_point(|at| *at < to) - arrivals.partition_point(|at| *at < from)
    }

    /// The longest time without a first output of a partition.
    pub(crate) fn longest_gap(&self, partition: i32, from: Instant, to: Instant) -> Duration {
        let found = self.found();
        let arrivals = found.arrivals[partition as usize].iter().copied();
        let mut last = from;
        let mut longest = Duration::ZERO;
        for at in arrivals.filter(|at| (from..to).contains(at)).chain([to]) {
            longest = longest.max(at - last);
            last = at;
        }
        longest
    }

    /// Waits until each of `produced` records is accounted for; no longer than `idle` without one.
    pub(crate) fn wait_for(&self, produced: u64, idle: Duration) -> bool {
        let (mut before, mut since) = (0, Instant::now());
        loop {
            let now = self.accounted();
            if now >= produced {
                return true;
            }
            if now > before {
                (before, since) = (now, Instant::now());
            } else if since.elapsed() > idle {
                return false;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Reads to the ends, now that nobody writes any more, and counts. Last records of its own mark
    /// them, for what lies at an end may be the marker of a transaction.
    pub(crate) fn end(mut self, produced: u64) -> Totals {
        let ends = self.topics.len() * PARTITIONS as usize;
        let producer: BaseProducer = client(&self.servers, &[])
            .create()
            .expect("a producer can be made");
        for topic in &self.topics {
            for partition in 0..PARTITIONS {
                let header = Header {
                    key: ID,
                    value: Some(END),
                };
                let record: BaseRecord<'_, [u8], [u8]> = BaseRecord::to(topic)
                    .partition(partition)
                    .headers(OwnedHeaders::new().insert(header));
                assert!(producer.send(record).is_ok(), "there is room for a record");
            }
        }
        producer
            .flush(LIMIT)
            .expect("the last records are acknowledged");
        let read = within(LIMIT, || self.found().ends >= ends);
        assert!(read, "the topics are not read to their ends");
        self.over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the reader ends");
        }
        let found = self.found();
        let mut totals = Totals {
            produced,
            disorders: found.disorders,
            ..Totals::default()
        };
        for (outputs, letters) in &found.copies {
            totals.handled += u64::from(*outputs > 0);
            totals.dead_lettered += u64::from(*letters > 0);
            let copies = u64::from(outputs + letters);
            totals.duplicates += copies.saturating_sub(1);
        }
        let found_none = |id: &u64| {
            let copies = found.copies.get(*id as usize);
            copies.is_none_or(|copies| *copies == (0, 0))
        };
        let lost: Vec<u64> = (0..produced).filter(found_none).collect();
        totals.lost = lost.len() as u64;
        if let Some(some) = lost.chunks(20).next() {
            say(format!("of {} lost: {some:?}", self.topics[0]));
        }
        assert!(found.copies.len() as u64 <= produced, "outputs of nothing");
        totals
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn lock(found: &Mutex<Found>) -> MutexGuard<'_, Found> {
    found.lock().unwrap_or_else(PoisonError::into_inner)
}
