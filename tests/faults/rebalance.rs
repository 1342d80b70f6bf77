//! Consumers join and leave under load, by each of the three ways to share partitions.

use crate::cluster::Cluster;
use crate::load::{Load, PARTITIONS, good};
use crate::report::Report;
use crate::rig::{Options, say, within};
use crate::tally::Tally;
use crate::workers::{Crew, Known, Worker};
use rand::RngExt;
use std::collections::HashMap;
use std::time::{Duration, Instant};

const RATE: u64 = 900;
const COMMIT_INTERVAL_MS: u64 = 200;
const MAX_UNCOMMITTED: u64 = 100;

/// How long a partition may stand still.
const WINDOW: Duration = Duration::from_secs(10);

/// How often somebody comes or goes.
const EVERY: Duration = Duration::from_secs(2);

/// How many members there are, at least and at most.
const MEMBERS: (usize, usize) = (1, 4);

const PROTOCOLS: [(&str, &str); 3] = [
    (
        "eager",
        "session.timeout.ms=6000\nheartbeat.interval.ms=200",
    ),
    (
        "cooperative",
        "session.timeout.ms=6000\nheartbeat.interval.ms=200\n\
         partition.assignment.strategy=cooperative-sticky",
    ),
    ("kip-848", "group.protocol=consumer"),
];

pub(crate) fn run(options: &Options) -> Report {
    let mut report = Report::new();
    let cluster = Cluster::start(options);
    // Beside each other, each with its own topic.
    let ended: Vec<Churn> = std::thread::scope(|scope| {
        let cluster = &cluster;
        let threads: Vec<_> = PROTOCOLS
            .iter()
            .map(|(name, protocol)| scope.spawn(|| churn(options, cluster, name, protocol)))
            .collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, Churn>| thread.join();
        let ended: Result<Vec<Churn>, _> = threads.into_iter().map(join).collect();
        ended.expect("each group was tried")
    });
    for churn in ended {
        churn.tell(&mut report);
    }
    report
}

/// What came of one group.
struct Churn {
    name: &'static str,
    totals: crate::tally::Totals,
    /// Joins and leaves.
    changes: u64,
    /// Assignments of all members.
    rebalances: usize,
    longest_gap: Duration,
    /// Records that were handled after a later one, in one ownership.
    backwards: usize,
    ended_badly: usize,
}

fn churn(options: &Options, cluster: &Cluster, name: &'static str, protocol: &str) -> Churn {
    let topics = [".outputs", ".dead-letter"].map(|more| format!("{name}{more}"));
    for topic in [name, &topics[0], &topics[1]] {
        cluster.create(topic, PARTITIONS, &[]);
    }
    let tally = Tally::start(&cluster.servers, &topics[0], Some(&topics[1]));
    let crew = Crew::new(options, &cluster.servers, name)
        .properties(&format!(
            "{protocol}\ncommit.interval.ms={COMMIT_INTERVAL_MS}\nmax.uncommitted={MAX_UNCOMMITTED}"
        ))
        .order("linger=0".to_owned());
    let mut started = 0;
    let mut join = |workers: &mut Vec<Worker>| {
        started += 1;
        workers.push(crew.start(&format!("{started}")));
    };
    let (mut workers, mut gone) = (Vec::new(), Vec::new());
    join(&mut workers);
    join(&mut workers);
    let load = Load::start(&cluster.servers, name, RATE, good);
    within(WINDOW * 2, || {
        let all: usize = workers.iter().map(|worker| worker.known().owns()).sum();
        all == PARTITIONS as usize
    });

    let from = Instant::now();
    let until = from + Duration::from_secs(options.of(60, 12));
    let (mut changes, mut ended_badly) = (0, 0);
    while Instant::now() + EVERY <= until {
        std::thread::sleep(EVERY);
        changes += 1;
        let (least, most) = MEMBERS;
        let joins = match workers.len() {
            few if few <= least => true,
            many if many >= most => false,
            _ => rand::rng().random(),
        };
        if joins {
            join(&mut workers);
        } else {
            let mut worker = workers.swap_remove(rand::rng().random_range(0..workers.len()));
            ended_badly += usize::from(!worker.stop());
            gone.push(worker);
        }
        say(format!(
            "{name}: {} members of {}",
            workers.len(),
            workers.len() + gone.len()
        ));
    }
    let to = Instant::now();
    let produced = load.stop();
    tally.wait_for(produced, WINDOW * 2);
    for mut worker in workers {
        ended_badly += usize::from(!worker.stop());
        gone.push(worker);
    }
    let gaps = (0..PARTITIONS).map(|partition| tally.longest_gap(partition, from, to));
    let longest_gap = gaps.max().unwrap_or_default();
    let assigned = |worker: &Worker| worker.known().count("assigned", from);
    Churn {
        name,
        changes,
        rebalances: gone.iter().map(assigned).sum(),
        longest_gap,
        backwards: gone.iter().map(|worker| backwards(&worker.known())).sum(),
        ended_badly,
        totals: tally.end(produced),
    }
}

/// How many records were handled after a later one of their partition, in one ownership.
fn backwards(known: &Known) -> usize {
    let mut latest: HashMap<(i32, u64), i64> = HashMap::new();
    let mut count = 0;
    for (partition, offset, ownership) in &known.order {
        let before = latest.insert((*partition, *ownership), *offset);
        count += usize::from(before.is_some_and(|before| before >= *offset));
    }
    count
}

impl Churn {
    fn tell(self, report: &mut Report) {
        let Churn {
            name,
            changes,
            rebalances,
            longest_gap,
            backwards,
            ended_badly,
            totals,
        } = self;
        report.add(
            name,
            totals,
            changes * (RATE * COMMIT_INTERVAL_MS / 1000 + MAX_UNCOMMITTED),
        );
        report.say(&format!("{name}_rebalances"), rebalances);
        report.seconds(&format!("{name}_longest_gap"), longest_gap);
        report.must(
            rebalances > 3,
            format!("{name}: only {rebalances} rebalances"),
        );
        report.must(
            longest_gap < WINDOW,
            format!("{name}: a partition stood still for {longest_gap:?}"),
        );
        report.must(
            backwards == 0,
            format!("{name}: {backwards} records after a later one"),
        );
        report.must(
            ended_badly == 0,
            format!("{name}: {ended_badly} members did not end well"),
        );
    }
}
