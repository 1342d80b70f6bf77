//! The broker is killed, frozen, without the dead-letter topic, and with one that takes small records
//! only; the process that consumes is never restarted.

use crate::cluster::Cluster;
use crate::load::{Fate, Load, PARTITIONS};
use crate::report::Report;
use crate::rig::{Options, pause, say, within};
use crate::tally::Tally;
use crate::workers::{Crew, Worker};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

const TOPIC: &str = "broker";
const RATE: u64 = 2_400;
const COMMIT_INTERVAL_MS: u64 = 200;
const MAX_UNCOMMITTED: u64 = 200;

/// `max.in.flight`: so many outputs of a partition may be on their way when the broker goes.
const IN_FLIGHT: usize = 100;

/// What the dead-letter topic takes, in bytes: less than a huge record.
const LETTER_BYTES: &str = "10000";

/// Only partitions below this one have dead letters.
const WITH_LETTERS: i32 = 3;

/// How late everything flows again, at most.
const RECOVERY: Duration = Duration::from_secs(30);

fn fate(id: u64) -> Fate {
    let (partition, turn) = (id % PARTITIONS as u64, id / PARTITIONS as u64);
    match (partition < WITH_LETTERS as u64, turn % 20, turn % 200) {
        (true, _, 27) => Fate::Huge,
        (true, 7, _) => Fate::Poison,
        (_, 11, _) => Fate::Transient,
        _ => Fate::Good,
    }
}

fn huge_until(produced: u64) -> u64 {
    (0..produced).filter(|id| fate(*id) == Fate::Huge).count() as u64
}

struct Scene {
    cluster: Cluster,
    tally: Tally,
    worker: Worker,
    report: Report,
}

pub(crate) fn run(options: &Options) -> Report {
    let cluster = Cluster::start(options);
    let (outputs, letters) = (format!("{TOPIC}.outputs"), format!("{TOPIC}.dead-letter"));
    for topic in [TOPIC, &outputs] {
        cluster.create(topic, PARTITIONS, &[]);
    }
    let tally = Tally::start(&cluster.servers, &outputs, None);
    let crew = Crew::new(options, &cluster.servers, TOPIC).properties(&format!(
        "commit.interval.ms={COMMIT_INTERVAL_MS}\nmax.uncommitted={MAX_UNCOMMITTED}\n\
         session.timeout.ms={}\nheartbeat.interval.ms=300\nprocessing.order=key\n\
         max.in.flight={IN_FLIGHT}\n\
         handler.backoff=fixed\nhandler.backoff.fixed.intervalSeconds=0.02\n\
         handler.backoff.fixed.maxAttempts=4",
        // A member that was cut off for longer joins again as another, and the coordinator waits
        // this long for the one that it knew.
        options.of(6000, 3000)
    ));
    let worker = crew.start("a");
    let load = Load::start(&cluster.servers, TOPIC, RATE, fate);
    let mut scene = Scene {
        cluster,
        tally,
        worker,
        report: Report::new(),
    };
    scene.without_topic(options, &letters);
    scene.killed(options);
    scene.frozen(options);
    scene.end(load)
}

impl Scene {
    /// Partitions with dead letters hold, others go on; then the topic is there.
    fn without_topic(&mut self, options: &Options, letters: &str) {
        let all_hold = within(RECOVERY, || self.holding().len() == WITH_LETTERS as usize);
        self.report
            .must(all_hold, "not each partition with dead letters holds");
        // What was in flight ends first.
        pause(1.0);
        let from = Instant::now();
        pause(options.of(20.0, 2.0));
        let to = Instant::now();
        for partition in 0..PARTITIONS {
            let arrived = self.tally.between(partition, from, to);
            self.report.must(
                (arrived > 0) == (partition >= WITH_LETTERS),
                format!("without the topic, {arrived} outputs of partition {partition}"),
            );
        }
        let config = [("max.message.bytes", LETTER_BYTES)];
        self.cluster.create(letters, PARTITIONS, &config);
        self.tally.read(letters);
        self.recovered("topic", Instant::now());
    }

    fn killed(&mut self, options: &Options) {
        self.cluster.kill();
        say("the broker is killed");
        pause(options.of(15.0, 2.0));
        self.cluster.restart();
        self.recovered("kill", Instant::now());
    }

    fn frozen(&mut self, options: &Options) {
        self.cluster.freeze();
        say("the broker is frozen");
        pause(options.of(30.0, 5.0));
        self.cluster.thaw();
        self.recovered("freeze", Instant::now());
    }

    /// The partitions that told of a dead letter they could not write.
    fn holding(&self) -> BTreeSet<i32> {
        let known = self.worker.known();
        let unwritten = known.told.iter().filter(|told| {
            told.what == "paused"
                && told
                    .words
                    .last()
                    .is_some_and(|reason| reason == "unwritten")
        });
        unwritten.map(|told| told.number(0)).collect()
    }

    fn recovered(&mut self, name: &str, since: Instant) {
        let flows = within(RECOVERY, || {
            self.tally.flowing_after(since, IN_FLIGHT).is_some()
        });
        let late = self.tally.flowing_after(since, IN_FLIGHT);
        say(format!("{name}: all flow again after {late:?}"));
        self.report
            .must(flows, format!("{name}: not all partitions flow again"));
        self.report.must(
            self.worker.is_running(),
            format!("{name}: the process is gone"),
        );
        self.report
            .seconds(&format!("{name}_recovery"), late.unwrap_or(RECOVERY));
        // The next fault finds records in flight, and no backlog of the last.
        pause(2.0);
    }

    fn end(mut self, load: Load) -> Report {
        let produced = load.stop();
        self.tally.wait_for(produced, RECOVERY);
        self.report
            .must(self.worker.stop(), "the worker did not end well");
        let (left_out, huge) = (self.tally.left_out(), huge_until(produced));
        let totals = self.tally.end(produced);
        // Killed and frozen: one process has all partitions.
        let faults = 2;
        let uncommitted = MAX_UNCOMMITTED * PARTITIONS as u64;
        let bound = faults * (RATE * COMMIT_INTERVAL_MS / 1000 + uncommitted);
        self.report.add("broker", totals, bound);
        self.report.say("values_left_out", left_out);
        self.report.must(
            left_out >= huge,
            format!("{huge} records were too large, {left_out} values left out"),
        );
        self.report
    }
}
