//! A service is down while records come: a decoder's with and without Retry, and a handler's.

use crate::cluster::Cluster;
use crate::load::{Load, PARTITIONS, good};
use crate::report::Report;
use crate::rig::{Options, pause, say, within};
use crate::tally::Tally;
use crate::workers::{Crew, Worker};
use rand::RngExt;
use std::time::{Duration, Instant};

const RATE: u64 = 600;

/// How late a partition may flow again.
const RECOVERY: Duration = Duration::from_secs(2);

/// A group that depends on the service.
struct Part {
    name: &'static str,
    /// How many dead letters a partition may have.
    letters: u64,
    tally: Tally,
    worker: Worker,
    load: Load,
}

pub(crate) fn run(options: &Options) -> Report {
    let mut report = Report::new();
    let cluster = Cluster::start(options);
    let service = options.folder.join("service");
    std::fs::write(&service, "").expect("the folder can be written");
    let start = |name: &'static str, letters, asking: &str, properties: String| {
        let topics = [".outputs", ".dead-letter"].map(|more| format!("{name}{more}"));
        for topic in [name, &topics[0], &topics[1]] {
            cluster.create(topic, PARTITIONS, &[]);
        }
        let crew = Crew::new(options, &cluster.servers, name)
            .properties(&properties)
            .order(format!("{asking}={}", service.display()))
            .order("linger=0".to_owned());
        Part {
            name,
            letters,
            tally: Tally::start(&cluster.servers, &topics[0], Some(&topics[1])),
            worker: crew.start("a"),
            load: Load::start(&cluster.servers, name, RATE, good),
        }
    };
    // KIP-873's own numbers, unless scaled down.
    let interval = options.of(1.0, 0.1);
    let parts = [
        start("plain", 0, "decoder-service", String::new()),
        start(
            "kip-873",
            3,
            "decoder-service",
            format!(
                "value.deserializer=exception-handling(retry(pipe(bytes, shop)))\n\
                 value.deserializer.retry.backoff=exponential\n\
                 value.deserializer.retry.backoff.exponential.intervalSeconds={interval}\n\
                 value.deserializer.retry.backoff.exponential.maxAttempts=5\n\
                 value.deserializer.retry.backoff.exponential.backoffRate=1.2"
            ),
        ),
        start(
            "handler",
            3,
            "handler-service",
            format!(
                "handler.backoff=fixed\nhandler.backoff.fixed.maxAttempts=4\n\
                 handler.backoff.fixed.intervalSeconds={interval}"
            ),
        ),
    ];
    let began = Instant::now();
    let flows = within(Duration::from_secs(20), || {
        let mut all = parts.iter();
        all.all(|part| part.tally.flowing_after(began, 0).is_some())
    });
    report.must(flows, "not all partitions flowed before the outage");
    pause(1.0);

    // Its end is to come anywhere between two tries.
    let length = options.of(60.0, 7.0) + rand::rng().random_range(0.0..2.0);
    std::fs::remove_file(&service).expect("the service can go down");
    let down = Instant::now();
    say(format!("the service is down for {length:.1} s"));
    pause(length);
    let up = Instant::now();
    std::fs::write(&service, "").expect("the folder can be written");
    say("the service is up");
    within(RECOVERY * 5, || {
        let mut all = parts.iter();
        all.all(|part| part.tally.flowing_after(up, 0).is_some())
    });
    pause(1.0);
    for part in parts {
        part.end(&mut report, down, up);
    }
    report
}

impl Part {
    fn end(mut self, report: &mut Report, down: Instant, up: Instant) {
        let name = self.name;
        for partition in 0..PARTITIONS {
            let settled = down + Duration::from_secs(1);
            let meanwhile = self.tally.between(partition, settled, up);
            report.must(
                meanwhile == 0,
                format!("{name}: {meanwhile} outputs of partition {partition} without the service"),
            );
            let letters = self.tally.dead_lettered(partition);
            report.must(
                letters <= self.letters,
                format!("{name}: {letters} dead letters in partition {partition}"),
            );
        }
        let known = self.worker.known();
        let paused = known.told.iter().filter(|told| told.what == "paused");
        let paused: std::collections::BTreeSet<i32> = paused
            .filter(|told| told.at < up)
            .map(|told| told.number(0))
            .collect();
        drop(known);
        report.must(
            paused.len() == PARTITIONS as usize,
            format!("{name}: only {paused:?} paused"),
        );
        let recovery = self.tally.flowing_after(up, 0);
        report.must(
            recovery.is_some_and(|late| late <= RECOVERY),
            format!("{name}: flowing again after {recovery:?}"),
        );
        report.seconds(&format!("{name}_recovery"), recovery.unwrap_or_default());
        let produced = self.load.stop();
        self.tally.wait_for(produced, Duration::from_secs(20));
        report.must(
            self.worker.stop(),
            format!("{name}: the worker did not end well"),
        );
        report.add(name, self.tally.end(produced), 0);
    }
}
