//! One of two processes of a group is killed, again and again, under load.

use crate::cluster::Cluster;
use crate::load::{Load, PARTITIONS, mixed};
use crate::report::Report;
use crate::rig::{Options, pause, say, within};
use crate::tally::Tally;
use crate::workers::{Crew, Worker};
use kafka_chain::pipeline::Guarantee;
use rand::RngExt;
use std::time::Duration;

const RATE: u64 = 3_000;
const COMMIT_INTERVAL_MS: u64 = 200;
const MAX_UNCOMMITTED: u64 = 500;

/// How many records are handled between two kills, at least.
const BETWEEN: u64 = 500;

pub(crate) fn run(options: &Options) -> Report {
    killed(options, Guarantee::AtLeastOnce)
}

/// What is written is visible once, to those who read what is committed.
pub(crate) fn run_exactly_once(options: &Options) -> Report {
    killed(options, Guarantee::ExactlyOnce)
}

fn killed(options: &Options, guarantee: Guarantee) -> Report {
    let mut report = Report::new();
    let cluster = Cluster::start(options);
    let mut idle = 0;
    for members in [Members::Dynamic, Members::Static] {
        idle += part(options, &cluster, members, guarantee, &mut report);
    }
    report.say("idle_kills", idle);
    report.must(idle == 0, format!("{idle} kills hit no record in flight"));
    report
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Members {
    Dynamic,
    Static,
}

impl Members {
    fn topic(self) -> &'static str {
        match self {
            Members::Dynamic => "kill-dynamic",
            Members::Static => "kill-static",
        }
    }

    fn own(self, worker: &str) -> String {
        match self {
            Members::Dynamic => "session.timeout.ms=1500\nheartbeat.interval.ms=300".to_owned(),
            // Back within it: the others keep what they have.
            Members::Static => format!("group.instance.id={worker}\nsession.timeout.ms=6000"),
        }
    }
}

struct Pair<'c> {
    members: Members,
    crew: Crew<'c>,
    workers: [Worker; 2],
    /// Handled by those who are gone.
    before: u64,
}

impl<'c> Pair<'c> {
    fn start(members: Members, crew: Crew<'c>) -> Self {
        let workers = ["a", "b"].map(|name| crew.start_with(name, &members.own(name)));
        Pair {
            members,
            crew,
            workers,
            before: 0,
        }
    }

    fn handled(&self) -> u64 {
        let now = self.workers.iter().map(|worker| worker.known().handled);
        self.before + now.sum::<u64>()
    }

    /// Kills one at random once it has records in flight; how many they were.
    fn kill_one(&mut self) -> usize {
        let chosen = rand::rng().random_range(0..self.workers.len());
        let worker = &mut self.workers[chosen];
        within(Duration::from_secs(20), || {
            !worker.known().in_flight.is_empty()
        });
        let in_flight = worker.kill();
        self.before += worker.known().handled;
        let name = worker.name.clone();
        self.workers[chosen] = self.crew.start_with(&name, &self.members.own(&name));
        in_flight
    }
}

/// How many kills hit nothing.
fn part(
    options: &Options,
    cluster: &Cluster,
    members: Members,
    guarantee: Guarantee,
    report: &mut Report,
) -> u64 {
    let topic = members.topic();
    let (records, kills) = options.of((200_000, 30), (40_000, 6));
    let (outputs, letters) = (format!("{topic}.outputs"), format!("{topic}.dead-letter"));
    for topic in [topic, &outputs, &letters] {
        cluster.create(topic, PARTITIONS, &[]);
    }
    let tally = Tally::start(&cluster.servers, &outputs, Some(&letters));
    let interval = match options.no_commits {
        true => 86_400_000,
        false => COMMIT_INTERVAL_MS,
    };
    // With few records in flight, and these slow, a backlog is handled at twice the rate at most, and
    // the records of a commit interval are not many more than are produced in it.
    let crew = Crew::new(options, &cluster.servers, topic)
        .properties(&format!(
            "commit.interval.ms={interval}\nmax.uncommitted={MAX_UNCOMMITTED}\n\
             processing.order=key\nmax.in.flight=12\n\
             handler.backoff=fixed\nhandler.backoff.fixed.intervalSeconds=0.02\n\
             handler.backoff.fixed.maxAttempts=4\nprocessing.guarantee={}",
            guarantee.as_str()
        ))
        .order("linger=10".to_owned())
        .order(match guarantee {
            Guarantee::AtLeastOnce => "takes=0".to_owned(),
            // Nothing is awaited by the handler, which is to have records in flight.
            Guarantee::ExactlyOnce => "takes=0.005".to_owned(),
        });
    let mut pair = Pair::start(members, crew);
    let load = Load::start(&cluster.servers, topic, RATE, mixed);

    let (mut idle, mut after) = (0, 0);
    for kill in 1..=kills {
        pause(rand::rng().random_range(options.of(1.0..3.0, 0.8..2.2)));
        let flows = within(Duration::from_secs(30), || {
            pair.handled() >= after + BETWEEN
        });
        report.must(flows, format!("{topic}: nothing flowed before kill {kill}"));
        let in_flight = pair.kill_one();
        idle += u64::from(in_flight == 0);
        after = pair.handled();
        say(format!(
            "{topic}: kill {kill} of {kills}: {in_flight} in flight, {after} handled of {}",
            load.sent()
        ));
    }
    within(Duration::from_secs(120), || load.sent() >= records);
    let produced = load.stop();
    say(format!("{topic}: {produced} are produced"));
    tally.wait_for(produced, Duration::from_secs(20));
    say(format!("{topic}: {} have an end", tally.accounted()));
    for worker in &mut pair.workers {
        let well = worker.stop();
        report.must(well, format!("{topic}: {} did not end well", worker.name));
    }
    let bound = match guarantee {
        Guarantee::AtLeastOnce => kills * (RATE * COMMIT_INTERVAL_MS / 1000 + MAX_UNCOMMITTED),
        Guarantee::ExactlyOnce => 0,
    };
    report.add(topic, tally.end(produced), bound);
    idle
}
