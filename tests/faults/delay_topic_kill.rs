//! One of two forwarders is killed, again and again, under load; then the broker is, and then
//! forwarders join and leave while records are held.

use crate::cluster::Cluster;
use crate::load::{ID, PARTITIONS, partition_of};
use crate::process::{Hear, Process};
use crate::report::Report;
use crate::rig::{Options, client, pause, say, within};
use crate::timed::{Arrivals, BROKERS_TIME, DUE, TOO_SOON_MS, TimedLoad, Writer, now};
use rand::RngExt;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};
use std::collections::BTreeSet;
use std::ops::Range;
use std::time::{Duration, Instant};

const NAME: &str = "delay-topic-kill";

/// Each record of it waits for two seconds.
const FIXED: &str = "delay-topic-kill.delay.2s";

/// Records of it have times of their own. Those with more left than its half second go on from it to the
/// other.
const MIXED: &str = "delay-topic-kill.delay.500ms";

const OUTPUTS: &str = "delay-topic-kill.outputs";
const RATE: u64 = 600;
const COMMIT_INTERVAL_MS: u64 = 200;

/// What is handed over at once when partitions change hands: what fell due meanwhile.
const BATCH: u64 = 500;

/// One record in so many has a time of its own, at most [`SPREAD_MS`] away. What was delivered before an
/// older record that is still held comes again when its partition changes hands.
const ONE_IN: u64 = 6;
const SPREAD_MS: u64 = 1_500;
const AHEAD: u64 = RATE / ONE_IN * SPREAD_MS / 1_000;

/// How many records are delivered between two faults, at least.
const BETWEEN: u64 = 600;

const PATIENCE: Duration = Duration::from_secs(40);

#[derive(Debug, Default)]
struct Known {
    owns: BTreeSet<String>,
    forwarded: u64,
    early: u64,
}

impl Hear for Known {
    fn hear(&mut self, line: &str) {
        let mut words = line.split(' ');
        match words.next() {
            Some("owns") => self.owns = words.map(str::to_owned).collect(),
            _ => {
                let mut numbers = words.flat_map(str::parse);
                let mut next = || numbers.next().expect("it told numbers");
                (self.forwarded, self.early) = (next(), next());
            }
        }
    }
}

type Forwarder = Process<Known>;

struct Scene<'o> {
    options: &'o Options,
    cluster: Cluster,
    arrivals: Arrivals,
    load: TimedLoad,
    workers: Vec<Forwarder>,
    report: Report,
    /// Early ones that processes which are gone told of.
    early: u64,
    idle: u64,
}

pub(crate) fn run(options: &Options) -> Report {
    let cluster = Cluster::start(options);
    for topic in [FIXED, MIXED] {
        cluster.create(topic, PARTITIONS, &[]);
        cluster.create(&format!("{topic}.dead-letter"), 1, &[]);
    }
    cluster.create(OUTPUTS, PARTITIONS, &[BROKERS_TIME]);
    let servers = cluster.servers.clone();
    let mut scene = Scene {
        options,
        arrivals: Arrivals::listen(&servers, OUTPUTS),
        load: TimedLoad::start(RATE, Records::of(options, &servers)),
        workers: Vec::new(),
        cluster,
        report: Report::new(),
        early: 0,
        idle: 0,
    };
    for name in ["a", "b"] {
        let worker = scene.start(name);
        scene.workers.push(worker);
    }
    let kills = options.of(20, 5);
    scene.killed(kills);
    let away = scene.broker_killed();
    let changes = options.of(6, 2);
    scene.rebalanced(changes);
    scene.end(kills, away, changes)
}

impl Scene<'_> {
    fn start(&self, name: &str) -> Forwarder {
        let text = format!(
            "bootstrap.servers={}\ngroup.id={NAME}\nclient.id={name}\n\
             topics={FIXED},{MIXED}\ndeliver.allow={OUTPUTS}\n\
             commit.interval.ms={COMMIT_INTERVAL_MS}\nsession.timeout.ms=1500\nheartbeat.interval.ms=300\n\
             reconnect.backoff.max.ms=500\n",
            self.cluster.servers,
        );
        let file = self
            .options
            .folder
            .join(format!("{NAME}-{name}.properties"));
        std::fs::write(&file, text).expect("the folder can be written");
        let file = file.to_str().expect("the folder's name is text");
        let mut words = vec!["forward", file];
        words.extend(self.options.careless.then_some("careless"));
        Process::start(self.options, &format!("{NAME}-{name}"), &words)
    }

    fn killed(&mut self, kills: u64) {
        for kill in 1..=kills {
            pause(rand::rng().random_range(self.options.of(1.5..4.0, 1.2..2.2)));
            self.flows(&format!("kill {kill}"));
            let chosen = rand::rng().random_range(0..self.workers.len());
            let worker = &mut self.workers[chosen];
            // It is to be at work: the other may have everything while it joins.
            let before = worker.known().forwarded;
            within(PATIENCE, || worker.known().forwarded > before);
            worker.kill();
            let known = worker.known();
            let held = self.arrivals.missing(self.load.sent(), |id| {
                !is_mixed(id) && (known.owns).contains(&format!("{FIXED}/{}", partition_of(id)))
            });
            self.early += known.early;
            drop(known);
            self.idle += u64::from(held == 0);
            let name = ["a", "b"][chosen];
            self.workers[chosen] = self.start(name);
            say(format!(
                "kill {kill} of {kills}: {name} held {held}, {}",
                self.so_far()
            ));
        }
    }

    /// How long nothing could be delivered.
    fn broker_killed(&mut self) -> Duration {
        self.flows("the broker's kill");
        let since = Instant::now();
        self.cluster.kill();
        say("the broker is killed");
        pause(self.options.of(10.0, 1.5));
        self.cluster.restart();
        say(format!("the broker is back: {}", self.so_far()));
        self.flows("the broker's return");
        let away = since.elapsed();
        for worker in &mut self.workers {
            let runs = worker.is_running();
            self.report.must(runs, format!("{} is gone", worker.name));
        }
        away
    }

    /// A third joins while records are held, and leaves.
    fn rebalanced(&mut self, changes: u64) {
        for change in 1..=changes {
            let mut third = self.start("c");
            let owns = within(PATIENCE, || third.known().forwarded > 0);
            self.report
                .must(owns, format!("change {change}: it got nothing"));
            pause(rand::rng().random_range(0.2..1.0));
            let well = self.options.careless || third.stop();
            self.report.must(well, "the third did not end well");
            self.early += third.known().early;
            self.flows(&format!("change {change}"));
            say(format!("change {change} of {changes}: {}", self.so_far()));
        }
    }

    fn so_far(&self) -> String {
        let (delivered, twice) = (self.arrivals.distinct(), self.arrivals.duplicates());
        format!("{delivered} delivered, {twice} duplicates")
    }

    /// Waits until more was delivered.
    fn flows(&mut self, what: &str) {
        let before = self.arrivals.distinct();
        let flows = within(PATIENCE, || self.arrivals.distinct() >= before + BETWEEN);
        self.report
            .must(flows, format!("nothing was delivered: {what}"));
    }

    fn end(mut self, kills: u64, away: Duration, changes: u64) -> Report {
        let produced = self.load.stop();
        say(format!("{produced} are produced"));
        self.arrivals.wait_for(produced, Duration::from_secs(15));
        for worker in &mut self.workers {
            let well = self.options.careless || worker.stop();
            let name = &worker.name;
            self.report.must(well, format!("{name} did not end well"));
            self.early += worker.known().early;
        }
        drop(self.workers);
        let ended = self.arrivals.end();
        let mut report = self.report;
        // What falls due without the broker is on its way, and comes again: its group is gone too.
        // Nothing does when a forwarder joins or leaves.
        let due = RATE * away.as_millis() as u64 / 1_000;
        let bound = kills * (RATE * COMMIT_INTERVAL_MS / 1_000 + BATCH) + due + BATCH;
        let fixed = ended.totals(produced, |id| !is_mixed(id));
        report.add("fixed-delays", fixed, bound);
        // Partitions change hands when one joins and when one is gone.
        let bound = bound / ONE_IN + (kills + 1 + changes) * AHEAD;
        let mixed = ended.totals(produced, is_mixed);
        report.add("mixed-delays", mixed, bound);
        report.early(self.early + ended.early());
        report.say("kills", kills);
        report.say("idle_kills", self.idle);
        report.say("latest_ms", ended.latest_ms());
        let idle = self.idle;
        report.must(idle == 0, format!("{idle} kills found nothing held"));
        report
    }
}

fn is_mixed(id: u64) -> bool {
    (id / PARTITIONS as u64).is_multiple_of(ONE_IN)
}

/// Writes to the delay topics, with a producer of the test's own.
struct Records {
    producer: ThreadedProducer<DefaultProducerContext>,
    too_soon: i64,
}

impl Records {
    fn of(options: &Options, servers: &str) -> Self {
        let settings = [
            ("enable.idempotence", "true"),
            ("linger.ms", "5"),
            ("message.timeout.ms", "300000"),
        ];
        Records {
            producer: client(servers, &settings)
                .create()
                .expect("a producer can be made"),
            too_soon: if options.too_soon { TOO_SOON_MS } else { 0 },
        }
    }
}

impl Writer for Records {
    fn write(&mut self, ids: Range<u64>) {
        for id in ids {
            let (written, mixed) = (now(), is_mixed(id));
            let (topic, delay) = match mixed {
                true => (MIXED, rand::rng().random_range(0..SPREAD_MS as i64)),
                false => (FIXED, 2_000),
            };
            let due = written + delay;
            let after = due - self.too_soon;
            let (number, due, after) = (id.to_string(), due.to_string(), after.to_string());
            let mut all = vec![(ID, &*number), (DUE, &due), ("deliver-to", OUTPUTS)];
            if mixed {
                all.push(("deliver-after", &after));
            }
            let record = BaseRecord::to(topic)
                .partition(partition_of(id))
                .timestamp(written - self.too_soon)
                .key(&number)
                .payload("value")
                .headers(headers(&all));
            let sent = self.producer.send(record);
            sent.expect("there is room for a record");
        }
    }

    fn flush(&mut self) {
        self.producer
            .flush(Duration::from_secs(60))
            .expect("what was produced is acknowledged");
    }
}

pub(crate) fn headers(all: &[(&str, &str)]) -> OwnedHeaders {
    let add = |headers: OwnedHeaders, (key, value): &(&str, &str)| {
        headers.insert(Header {
            key,
            value: Some(*value),
        })
    };
    all.iter().fold(OwnedHeaders::new(), add)
}
