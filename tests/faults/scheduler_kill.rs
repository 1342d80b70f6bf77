//! One of two schedulers is killed, again and again, under load; half of those that take its place
//! find an empty folder.

use crate::cluster::Cluster;
use crate::load::{ID, PARTITIONS, partition_of};
use crate::report::Report;
use crate::rig::{Options, client, pause, say, signal, within};
use crate::scheduler_worker::BATCH;
use crate::tally::Totals;
use rand::RngExt;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Header, Headers, Message, OwnedHeaders};
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};
use rdkafka::{Offset, TopicPartitionList};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const TOPIC: &str = "scheduler-kill";
const RATE: u64 = 400;

/// How many records are delivered between two kills, at least.
const BETWEEN: u64 = 200;

/// The header with a record's time, which stays with it.
const DUE: &str = "due";

pub(crate) fn run(options: &Options) -> Report {
    let mut report = Report::new();
    let cluster = Cluster::start(options);
    let outputs = format!("{TOPIC}.outputs");
    for topic in [TOPIC, &outputs, &format!("{TOPIC}.dead-letter")] {
        cluster.create(topic, PARTITIONS, &[]);
    }
    let arrivals = Arrivals::listen(&cluster.servers, &outputs);
    let (kills, longest) = options.of((20, 10_000), (6, 3_000));
    let mut workers = ["a", "b"].map(|name| Worker::start(options, &cluster.servers, name));
    let load = Load::start(&cluster.servers, longest);

    let (mut after, mut idle, mut cold, mut early) = (0, 0, 0, 0);
    for kill in 1..=kills {
        pause(rand::rng().random_range(options.of(1.0..3.0, 0.5..1.5)));
        let flows = within(Duration::from_secs(40), || {
            arrivals.distinct() >= after + BETWEEN
        });
        report.must(flows, format!("nothing was delivered before kill {kill}"));
        let chosen = rand::rng().random_range(0..workers.len());
        let worker = &mut workers[chosen];
        // It is to be at work: the other may have everything while it restores.
        let before = worker.told().delivered;
        within(Duration::from_secs(20), || worker.told().delivered > before);
        worker.kill();
        let waiting = load.sent().saturating_sub(arrivals.distinct());
        idle += u64::from(waiting == 0);
        let told = worker.told();
        cold += told.cold;
        early += told.early;
        let name = worker.name;
        let empty = kill % 2 == 0;
        if empty {
            let folder = folder(options, name);
            std::fs::remove_dir_all(folder).expect("the folder can be removed");
        }
        workers[chosen] = Worker::start(options, &cluster.servers, name);
        after = arrivals.distinct();
        let found = if empty {
            "an empty folder"
        } else {
            "its folder"
        };
        say(format!(
            "kill {kill} of {kills}: {waiting} wait, {after} delivered, {name} finds {found}"
        ));
    }
    let produced = load.stop();
    say(format!("{produced} are produced"));
    arrivals.wait_for(produced, Duration::from_millis(longest + 20_000));
    say(format!("{} are delivered", arrivals.distinct()));
    for worker in &mut workers {
        let well = worker.stop();
        report.must(well, format!("{} did not end well", worker.name));
        let told = worker.told();
        cold += told.cold;
        early += told.early;
    }
    // What comes twice may come late.
    pause(1.0);
    let found = arrivals.end();
    let lost = (0..produced)
        .filter(|id| !found.copies.contains_key(id))
        .count() as u64;
    let copies: u64 = found.copies.values().sum();
    let handled = found.copies.len() as u64;
    // One batch in flight of each partition, all of which one of the two may have.
    let bound = kills * PARTITIONS as u64 * BATCH as u64;
    let totals = Totals {
        produced,
        handled,
        lost,
        duplicates: copies - handled,
        ..Totals::default()
    };
    report.add(TOPIC, totals, bound);
    early += found.early;
    report.say("early", early);
    report.say("kills", kills);
    report.say("cold_partitions", cold);
    report.say("idle_kills", idle);
    report.must(early == 0, format!("{early} early"));
    report.must(idle == 0, format!("{idle} kills found nothing waiting"));
    report.must(
        cold > 0,
        "no partition was restored from the changelog alone",
    );
    report
}

fn folder(options: &Options, name: &str) -> PathBuf {
    options.folder.join(format!("index-{name}"))
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as i64)
}

/// The last that a worker told.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    delivered: u64,
    early: u64,
    cold: u64,
}

struct Worker {
    name: &'static str,
    child: Child,
    /// Its end ends the worker.
    _input: Option<ChildStdin>,
    told: Arc<Mutex<Told>>,
    reader: Option<JoinHandle<()>>,
}

impl Worker {
    fn start(options: &Options, servers: &str, name: &'static str) -> Self {
        let errors = options.folder.join(format!("{TOPIC}-{name}.errors"));
        let errors = File::options().create(true).append(true).open(errors);
        let mut child = Command::new(std::env::current_exe().expect("this program has a path"))
            .args(["schedule", servers, TOPIC])
            .arg(folder(options, name))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors.expect("the folder can be written"))
            .spawn()
            .expect("a worker can be started");
        let output = child.stdout.take().expect("standard output is a pipe");
        let told = Arc::new(Mutex::new(Told::default()));
        let hearing = Arc::clone(&told);
        let reader = std::thread::spawn(move || {
            // A line without its end was cut off by a SIGKILL.
            let lines = BufReader::new(output).lines().map_while(Result::ok);
            for line in lines {
                let numbers: Vec<u64> = (line.split(' ').flat_map(str::parse)).collect();
                if let [_, delivered, early, cold] = numbers[..] {
                    *hearing.lock().expect("no panic") = Told {
                        delivered,
                        early,
                        cold,
                    };
                }
            }
        });
        Worker {
            name,
            _input: child.stdin.take(),
            child,
            told,
            reader: Some(reader),
        }
    }

    fn told(&self) -> Told {
        *self.told.lock().expect("no panic")
    }

    /// SIGKILL.
    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.hear_out();
    }

    /// SIGTERM; whether it ended well.
    fn stop(&mut self) -> bool {
        signal("TERM", &self.child.id().to_string());
        let ended = within(Duration::from_secs(30), || {
            !matches!(self.child.try_wait(), Ok(None))
        });
        let well = ended && self.child.wait().is_ok_and(|status| status.success());
        self.kill();
        well
    }

    fn hear_out(&mut self) {
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Writes records that are due between now and `longest` milliseconds later.
struct Load {
    sent: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Load {
    fn start(servers: &str, longest: u64) -> Self {
        let settings = [("enable.idempotence", "true"), ("linger.ms", "5")];
        let producer: ThreadedProducer<DefaultProducerContext> = client(servers, &settings)
            .create()
            .expect("a producer can be made");
        let (sent, over) = (
            Arc::new(AtomicU64::new(0)),
            Arc::new(AtomicBool::new(false)),
        );
        let thread = {
            let (sent, over) = (Arc::clone(&sent), Arc::clone(&over));
            std::thread::spawn(move || {
                let began = Instant::now();
                while !over.load(Ordering::Acquire) {
                    let due = began.elapsed().as_millis() as u64 * RATE / 1_000;
                    let mut next = sent.load(Ordering::Relaxed);
                    while next < due {
                        write(&producer, next, longest);
                        next += 1;
                    }
                    sent.store(next, Ordering::Release);
                    std::thread::sleep(Duration::from_millis(5));
                }
                producer
                    .flush(Duration::from_secs(60))
                    .expect("what was produced is acknowledged");
            })
        };
        Load { sent, over, thread }
    }

    fn sent(&self) -> u64 {
        self.sent.load(Ordering::Acquire)
    }

    fn stop(self) -> u64 {
        self.over.store(true, Ordering::Release);
        self.thread.join().expect("the producer ends");
        self.sent.load(Ordering::Acquire)
    }
}

fn write(producer: &ThreadedProducer<DefaultProducerContext>, id: u64, longest: u64) {
    let due = now() + rand::rng().random_range(0..longest) as i64;
    let (number, due, to) = (id.to_string(), due.to_string(), format!("{TOPIC}.outputs"));
    let headers = [
        (ID, &number),
        (DUE, &due),
        ("deliver-after", &due),
        ("deliver-to", &to),
    ];
    let headers = headers
        .into_iter()
        .fold(OwnedHeaders::new(), |all, (key, value)| {
            all.insert(Header {
                key,
                value: Some(value),
            })
        });
    let record = BaseRecord::to(TOPIC)
        .partition(partition_of(id))
        .key(&number)
        .payload("value")
        .headers(headers);
    producer.send(record).expect("there is room for a record");
}

#[derive(Debug, Default)]
struct Found {
    /// How often each record came.
    copies: std::collections::HashMap<u64, u64>,
    early: u64,
}

/// What is delivered, read by a client of the test's own.
struct Arrivals {
    found: Arc<Mutex<Found>>,
    over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Arrivals {
    fn listen(servers: &str, topic: &str) -> Self {
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
        let found = Arc::<Mutex<Found>>::default();
        let over = Arc::new(AtomicBool::new(false));
        let thread = {
            let (found, over) = (Arc::clone(&found), Arc::clone(&over));
            std::thread::spawn(move || {
                while !over.load(Ordering::Acquire) {
                    let Some(Ok(message)) = consumer.poll(Duration::from_millis(50)) else {
                        continue;
                    };
                    let header = |name: &str| -> i64 {
                        let headers = message.headers().expect("it has headers");
                        let found = headers.iter().find(|header| header.key == name);
                        let value = found.and_then(|header| header.value).expect("it is there");
                        String::from_utf8_lossy(value).parse().expect("a number")
                    };
                    let mut found = found.lock().expect("no panic");
                    *found.copies.entry(header(ID) as u64).or_default() += 1;
                    // When it was sent, by the clock of the scheduler.
                    let sent = message.timestamp().to_millis().expect("it has a time");
                    found.early += u64::from(sent < header(DUE));
                }
            })
        };
        Arrivals {
            found,
            over,
            thread,
        }
    }

    fn distinct(&self) -> u64 {
        self.found.lock().expect("no panic").copies.len() as u64
    }

    /// Waits until so many have come, no longer than `idle` without one.
    fn wait_for(&self, count: u64, idle: Duration) {
        let (mut before, mut since) = (0, Instant::now());
        while before < count && since.elapsed() < idle {
            let now = self.distinct();
            if now > before {
                (before, since) = (now, Instant::now());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn end(self) -> Found {
        self.over.store(true, Ordering::Release);
        self.thread.join().expect("the reader ends");
        std::mem::take(&mut self.found.lock().expect("no panic"))
    }
}
