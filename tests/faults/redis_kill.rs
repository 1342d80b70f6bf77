//! Workers of a queue in Redis are killed under load, several at once; and Redis itself is, which is
//! started again without its scripts.

use crate::cluster::Cluster;
use crate::load::PARTITIONS;
use crate::process::{Hear, Process};
use crate::redis::{Redis, Schedule, stats};
use crate::redis_worker::{BATCH, LEASE};
use crate::report::Report;
use crate::rig::{Options, pause, say, within};
use crate::timed::{Arrivals, BROKERS_TIME, TimedLoad};
use rand::RngExt;
use rand::seq::SliceRandom;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const RATE: u64 = 1_500;
const WORKERS: usize = 3;

/// How many records are delivered between two kills, at least.
const BETWEEN: u64 = 500;

const PATIENCE: Duration = Duration::from_secs(40);

#[derive(Debug, Default)]
struct Known {
    /// Claimed, and neither finished nor given back.
    in_flight: u64,
    early: u64,
}

impl Hear for Known {
    fn hear(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |index: usize| -> u64 { words[index].parse().expect("a number") };
        match words[0] {
            // One batch at a time: one before it was given up.
            "claimed" => self.in_flight = number(1),
            "finished" => self.in_flight = self.in_flight.saturating_sub(number(1)),
            _ => self.early = number(2),
        }
    }
}

/// Workers are killed.
pub(crate) fn run(options: &Options) -> Report {
    let mut scene = Scene::start(options, "redis-kill", true);
    let kills = options.of(20, 6);
    for kill in 1..=kills {
        pause(rand::rng().random_range(options.of(1.0..3.0, 0.5..1.5)));
        scene.flows(&format!("kill {kill}"));
        scene.kill_workers(kill, kills);
    }
    let killed = scene.killed;
    scene.report.say("kills", killed);
    scene.end(killed * BATCH as u64)
}

/// Redis is killed.
pub(crate) fn run_restart(options: &Options) -> Report {
    let mut scene = Scene::start(options, "redis-restart", !options.careless);
    let kills = options.of(20, 5);
    for kill in 1..=kills {
        pause(rand::rng().random_range(options.of(1.0..3.0, 0.5..1.5)));
        scene.flows(&format!("kill {kill}"));
        scene.kill_redis(kill, kills);
    }
    scene.report.say("kills", kills);
    let repeated = scene.repeated.load(Ordering::Relaxed);
    scene.report.say("schedules_repeated", repeated);
    // What is delivered cannot be removed before Redis is back, perhaps after its lease.
    scene.end(kills * (WORKERS * BATCH) as u64)
}

struct Scene<'o> {
    options: &'o Options,
    name: &'static str,
    cluster: Cluster,
    redis: Redis,
    arrivals: Arrivals,
    load: TimedLoad,
    repeated: Arc<AtomicU64>,
    workers: Vec<Process<Known>>,
    report: Report,
    killed: u64,
    /// Early ones that processes which are gone told of.
    early: u64,
    idle: u64,
}

impl<'o> Scene<'o> {
    fn start(options: &'o Options, name: &'static str, on_disk: bool) -> Self {
        let cluster = Cluster::start(options);
        let redis = Redis::start(options, on_disk);
        let outputs = format!("{name}.outputs");
        cluster.create(&outputs, PARTITIONS, &[BROKERS_TIME]);
        let longest = options.of(10_000, 3_000);
        let schedule = Schedule::new(options, &redis.url, name, &outputs, longest);
        let mut scene = Scene {
            options,
            name,
            arrivals: Arrivals::listen(&cluster.servers, &outputs),
            repeated: schedule.repeated(),
            load: TimedLoad::start(RATE, schedule),
            cluster,
            redis,
            workers: Vec::new(),
            report: Report::new(),
            killed: 0,
            early: 0,
            idle: 0,
        };
        scene.workers = (0..WORKERS).map(|number| scene.worker(number)).collect();
        scene
    }

    fn worker(&self, number: usize) -> Process<Known> {
        let (url, servers) = (&self.redis.url, &self.cluster.servers);
        let mut words = vec!["deliver", url, self.name, servers];
        let careless = self.options.careless && self.name == "redis-kill";
        words.extend(careless.then_some("careless"));
        let name = format!("{}-{number}", self.name);
        Process::start(self.options, &name, &words)
    }

    /// Kills some at once, each with a batch in flight.
    fn kill_workers(&mut self, kill: u64, kills: u64) {
        let mut chosen: Vec<usize> = (0..WORKERS).collect();
        chosen.shuffle(&mut rand::rng());
        chosen.truncate(rand::rng().random_range(1..=WORKERS));
        let mut in_flight = 0;
        for number in &chosen {
            let worker = &mut self.workers[*number];
            if !worker.freeze_when(PATIENCE, |known| known.in_flight > 0) {
                self.idle += 1;
            }
        }
        for number in &chosen {
            let worker = &mut self.workers[*number];
            worker.kill();
            in_flight += worker.known().in_flight;
            self.early += worker.known().early;
            self.killed += 1;
        }
        for number in &chosen {
            self.workers[*number] = self.worker(*number);
        }
        say(format!(
            "kill {kill} of {kills}: {} workers with {in_flight} in flight, {}",
            chosen.len(),
            self.so_far()
        ));
    }

    /// Kills Redis while workers have a batch in flight.
    fn kill_redis(&mut self, kill: u64, kills: u64) {
        let in_flight = || -> u64 {
            let workers = self.workers.iter();
            workers.map(|worker| worker.known().in_flight).sum()
        };
        let busy = within(PATIENCE, || {
            self.redis.freeze();
            std::thread::sleep(Duration::from_millis(2));
            let busy = in_flight() > 0;
            if !busy {
                self.redis.thaw();
                std::thread::sleep(Duration::from_millis(7));
            }
            busy
        });
        let in_flight = in_flight();
        self.redis.kill();
        self.idle += u64::from(!busy);
        // For longer than the leases at times.
        let away = rand::rng().random_range(0.0..1.5 * LEASE.as_secs_f64());
        pause(away);
        self.redis.launch();
        say(format!(
            "kill {kill} of {kills}: {in_flight} in flight, away for {away:.1} s, {}",
            self.so_far()
        ));
        for worker in &mut self.workers {
            let runs = worker.is_running();
            self.report.must(runs, format!("{} is gone", worker.name));
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

    fn end(mut self, bound: u64) -> Report {
        let produced = self.load.stop();
        say(format!("{produced} are scheduled"));
        let idle = Duration::from_millis(self.options.of(10_000, 3_000)) + 4 * LEASE;
        self.arrivals.wait_for(produced, idle);
        // What was delivered is removed, by whoever claims it again if need be.
        within(2 * LEASE, || {
            let stats = stats(&self.redis.url, self.name);
            stats.waiting + stats.in_flight == 0
        });
        for worker in &mut self.workers {
            let well = worker.stop();
            let name = &worker.name;
            self.report.must(well, format!("{name} did not end well"));
            self.early += worker.known().early;
        }
        let stats = stats(&self.redis.url, self.name);
        let left = stats.waiting + stats.in_flight + stats.dead;
        let (mut report, ended) = (self.report, self.arrivals.end());
        report.add(self.name, ended.totals(produced, |_| true), bound);
        report.early(self.early + ended.early() + stats.early);
        report.say("idle_kills", self.idle);
        report.say("latest_ms", ended.latest_ms());
        report.say("left", left);
        let idle = self.idle;
        report.must(idle == 0, format!("{idle} kills found nothing in flight"));
        report.must(left == 0, format!("{left} are left in Redis: {stats:?}"));
        report
    }
}
