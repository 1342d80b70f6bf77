//! Faults on real Apache Kafka and Redis: processes killed, brokers gone, services down, members coming and going.
//!
//! `scripts/fault-test NAME` builds and runs this. It is the driver of a fault and, started again by
//! itself, a worker process that the fault befalls. To add a fault: a file with a function of
//! [`Options`] that answers a [`Report`], and its line in [`FAULTS`].

mod broker;
mod cluster;
mod delay_topic_kill;
mod forward_worker;
mod kill;
mod load;
mod long_backoff;
mod outage;
mod process;
mod rebalance;
#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "redis")]
mod redis_kill;
#[cfg(feature = "redis")]
mod redis_worker;
mod report;
mod rig;
#[cfg(feature = "embedded")]
mod scheduler_kill;
#[cfg(feature = "embedded")]
mod scheduler_worker;
mod tally;
mod timed;
mod worker;
mod workers;

use report::Report;
use rig::Options;
use std::process::ExitCode;

/// A fault's name, and what makes it happen.
type Fault = (&'static str, fn(&Options) -> Report);

const FAULTS: &[Fault] = &[
    ("kill", kill::run),
    ("kill-exactly-once", kill::run_exactly_once),
    ("broker", broker::run),
    ("long-backoff", long_backoff::run),
    ("outage", outage::run),
    ("rebalance", rebalance::run),
    ("delay-topic-kill", delay_topic_kill::run),
    #[cfg(feature = "redis")]
    ("redis-kill", redis_kill::run),
    #[cfg(feature = "redis")]
    ("redis-restart", redis_kill::run_restart),
    #[cfg(feature = "embedded")]
    ("scheduler-kill", scheduler_kill::run),
];

const USAGE: &str = "\
usage: scripts/fault-test NAME [--long] [--no-commits | --careless | --too-soon]
  --long        with the sizes and timeouts of the real thing; otherwise scaled down
  --no-commits  of kill: offsets are not committed, so that it must fail
  --careless    of delay-topic-kill, redis-*: what keeps records safe is left out; some are lost
  --too-soon    of the same: times are checked that are later than what was asked for; some are early";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["run", name, rest @ ..] => drive(name, rest),
        ["work", properties, rest @ ..] => worker::main(properties, rest),
        ["forward", properties, rest @ ..] => forward_worker::main(properties, rest),
        #[cfg(feature = "embedded")]
        ["schedule", servers, topic, folder] => scheduler_worker::main(servers, topic, folder),
        #[cfg(feature = "redis")]
        ["deliver", url, queue, servers, rest @ ..] => {
            redis_worker::main(url, queue, servers, rest)
        }
        ["list"] => {
            FAULTS.iter().for_each(|(name, _)| println!("{name}"));
            ExitCode::SUCCESS
        }
        // As `cargo test` calls it.
        _ => {
            println!("SKIPPED: faults need their own services: run scripts/fault-test");
            ExitCode::SUCCESS
        }
    }
}

fn drive(name: &str, words: &[&str]) -> ExitCode {
    let Some((_, run)) = FAULTS.iter().find(|(known, _)| *known == name) else {
        eprintln!("there is no fault `{name}`\n{USAGE}");
        return ExitCode::from(2);
    };
    let options = match Options::read(words) {
        Ok(options) => options,
        Err(mistake) => {
            eprintln!("{mistake}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(&options).end(name) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
