//! Records that keep their partitions busy for many times `max.poll.interval.ms`.

use crate::cluster::Cluster;
use crate::load::{Fate, Load, PARTITIONS};
use crate::report::Report;
use crate::rig::{Options, pause, say, within};
use crate::tally::Tally;
use crate::workers::{Crew, Worker};
use std::time::{Duration, Instant};

const TOPIC: &str = "backoff";
const RATE: u64 = 1_000;

/// The first records of three partitions: retried by the handler, retried by the chain, and handled
/// in one long call.
fn fate(id: u64) -> Fate {
    match id {
        0 => Fate::Stubborn,
        1 => Fate::Unreadable,
        2 => Fate::Slow,
        _ => Fate::Good,
    }
}

const BUSY: i32 = 3;

pub(crate) fn run(options: &Options) -> Report {
    let mut report = Report::new();
    let cluster = Cluster::start(options);
    let (outputs, letters) = (format!("{TOPIC}.outputs"), format!("{TOPIC}.dead-letter"));
    for topic in [TOPIC, &outputs, &letters] {
        cluster.create(topic, PARTITIONS, &[]);
    }
    let tally = Tally::start(&cluster.servers, &outputs, Some(&letters));
    // Seconds: the longest time between polls, a record's trouble, and one wait of its chain, which
    // is longer than the first.
    let (poll, trouble, wait) = options.of((10, 60, 15), (2, 12, 3));
    let crew = Crew::new(options, &cluster.servers, TOPIC)
        .properties(&format!(
            "max.poll.interval.ms={}\nsession.timeout.ms={}\nheartbeat.interval.ms=300\n\
             value.deserializer=retry(shop)\nvalue.deserializer.retry.backoff=fixed\n\
             value.deserializer.retry.backoff.fixed.intervalSeconds={wait}\n\
             value.deserializer.retry.backoff.fixed.maxAttempts=1000\n\
             handler.attempts=1000\nhandler.backoff=fixed\n\
             handler.backoff.fixed.intervalSeconds={}\nhandler.backoff.fixed.maxAttempts=1000",
            poll * 1000,
            options.of(6000, 2000),
            options.of(5.0, 0.5),
        ))
        .order(format!("stubborn={trouble}"))
        .order("linger=0".to_owned());
    let mut workers: Vec<Worker> = ["a", "b"].map(|name| crew.start(name)).into();
    let both = within(Duration::from_secs(20), || {
        workers.iter().all(|worker| worker.known().owns() == 3)
    });
    report.must(both, "the two members never shared the partitions");
    let since = Instant::now();
    let load = Load::start(&cluster.servers, TOPIC, RATE, fate);
    say(format!(
        "the trouble lasts {trouble} s, polls may be {poll} s apart"
    ));

    let trouble = Duration::from_secs(trouble);
    pause(1.0);
    let (from, to) = (Instant::now(), since + trouble);
    std::thread::sleep(to.saturating_duration_since(from));
    let mut gap = Duration::ZERO;
    for partition in 0..PARTITIONS {
        let arrived = tally.between(partition, since, to);
        say(format!(
            "partition {partition}: {arrived} outputs meanwhile"
        ));
        if partition < BUSY {
            report.must(
                arrived == 0,
                format!("partition {partition} lost its order"),
            );
        } else {
            gap = gap.max(tally.longest_gap(partition, from, to));
        }
    }
    report.must(
        gap < Duration::from_secs(2),
        format!("a partition without trouble stood still for {gap:?}"),
    );
    let flowing = within(Duration::from_secs(40), || {
        tally.flowing_after(to, 0).is_some()
    });
    report.must(flowing, "a partition never flowed again");
    let produced = load.stop();
    tally.wait_for(produced, Duration::from_secs(20));
    let mut rebalances = 0;
    for worker in &mut workers {
        let known = worker.known();
        rebalances += ["assigned", "revoked", "lost"]
            .map(|what| known.count(what, since))
            .iter()
            .sum::<usize>();
        drop(known);
        report.must(worker.stop(), "a worker did not end well");
    }
    report.add("long-backoff", tally.end(produced), 0);
    report.say("rebalances", rebalances);
    report.must(rebalances == 0, format!("{rebalances} rebalances"));
    report.say("longest_gap_ms", gap.as_millis());
    report
}
