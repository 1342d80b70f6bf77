//! Faults on real Apache Kafka: processes killed, brokers gone, services down, members coming and going.
//!
//! `scripts/fault-test NAME` builds and runs this. It is the driver of a fault and, started again by
//! itself, a worker process that the fault befalls. To add a fault: a file with a function of
//! [`Options`] that answers a [`Report`], and its line in [`FAULTS`].

mod broker;
mod cluster;
mod kill;
mod load;
mod long_backoff;
mod outage;
mod rebalance;
mod report;
mod rig;
#[cfg(feature = "embedded")]
mod scheduler_kill;
#[cfg(feature = "embedded")]
mod scheduler_worker;
mod tally;
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
    #[cfg(feature = "embedded")]
    ("scheduler-kill", scheduler_kill::run),
];

const USAGE: &str = "\
usage: scripts/fault-test NAME [--long] [--no-commits]
  --long        with the sizes and timeouts of the real thing; otherwise scaled down
  --no-commits  of kill: offsets are not committed, so that it must fail";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["run", name, rest @ ..] => drive(name, rest),
        ["work", properties, rest @ ..] => worker::main(properties, rest),
        #[cfg(feature = "embedded")]
        ["schedule", servers, topic, folder] => scheduler_worker::main(servers, topic, folder),
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
