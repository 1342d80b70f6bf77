//! The way back from a dead-letter topic: `cargo run --example redrive -- orders.dead-letter june
//! --kind decrypt --dry-run` tells what would go back to its topic, and without `--dry-run` it goes.
//!
//! `cargo run --example redrive` needs no set-up: it fills a dead-letter topic on an embedded broker
//! and redrives a part of it. With `--bootstrap-servers HOST:PORT` alone it does the same on a cluster,
//! on topics made for the run, where a second run shows that nothing is repeated.

#[path = "redriving/arguments.rs"]
mod arguments;
#[path = "redriving/demo.rs"]
mod demo;

use arguments::Arguments;
use indicatif::{ProgressBar, ProgressStyle};
use kafka_chain::properties::Properties;
use kafka_chain::redrive::{Filter, Redrive, RedriveBuilder, Summary};
use kafka_chain::transport::Settings;
use kafka_chain::transport::kafka::{EmbeddedBroker, NewTopic, create_topics};
use kafka_chain::{Error, Result};
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How many of those that stay are listed.
const LISTED: usize = 10;

fn main() -> ExitCode {
    let arguments = match Arguments::read(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(usage) => {
            eprintln!("{usage}");
            return ExitCode::from(2);
        }
    };
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("no runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    let done = match &arguments.what {
        Some((topic, job)) => runtime.block_on(redrive(&arguments, topic, job)),
        None => runtime.block_on(demonstrate(&arguments)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn redrive(arguments: &Arguments, topic: &str, job: &str) -> Result<()> {
    let mut settings = Settings::new();
    if let Some(file) = &arguments.client {
        let properties = Properties::from_file(file).and_then(Properties::resolve);
        let properties = properties.map_err(|report| Error::config(report.to_string()))?;
        let pairs = properties.iter();
        settings.extend(pairs.map(|one| (one.key.clone(), one.value.clone())));
    }
    if let Some(servers) = &arguments.bootstrap_servers {
        settings.set("bootstrap.servers", servers);
    }
    settings.set_default("bootstrap.servers", "localhost:9092");
    let builder = arguments
        .redrive(&settings, topic, job)
        .map_err(Error::config)?;
    run(builder, arguments.dry_run).await.map(drop)
}

/// Runs one redrive and prints what it did.
async fn run(builder: RedriveBuilder, dry: bool) -> Result<Summary> {
    let progress = progress();
    let bar = progress.clone();
    let builder = builder.on_progress(move |summary| {
        bar.set_position(summary.read);
        bar.set_message(format!("{} redriven", summary.redriven));
    });
    let redrive: Redrive = builder.build()?;
    let what = if dry { "dry run of" } else { "run of" };
    println!(
        "{what} {}, to {}",
        redrive.group(),
        redrive.allowed().join(", ")
    );
    let summary = match dry {
        true => redrive.dry_run().await,
        false => redrive.run().await,
    };
    progress.finish_and_clear();
    let summary = summary?;
    println!("{summary}");
    for stayed in summary.stayed.iter().take(LISTED) {
        println!(
            "  stays: [{}] @{}: {}",
            stayed.partition, stayed.offset, stayed.problem
        );
    }
    let listed = summary.stayed.len().min(LISTED);
    let stayed = summary.refused + summary.unresolvable;
    let more = stayed.saturating_sub(u64::try_from(listed).unwrap_or(0));
    if more > 0 {
        println!("  stays: {more} more");
    }
    println!();
    Ok(summary)
}

async fn demonstrate(arguments: &Arguments) -> Result<()> {
    let embedded = match arguments.bootstrap_servers {
        Some(_) => None,
        None => Some(EmbeddedBroker::start(1)?),
    };
    let mut settings = Settings::new();
    let orders = match (&arguments.bootstrap_servers, &embedded) {
        (Some(servers), _) => {
            settings.set("bootstrap.servers", servers);
            let since = SystemTime::now().duration_since(UNIX_EPOCH);
            format!("orders-{}", since.map_or(0, |since| since.as_millis()))
        }
        (None, broker) => {
            let servers = broker.as_ref().map(EmbeddedBroker::bootstrap_servers);
            settings.set("bootstrap.servers", servers.unwrap_or_default());
            "orders".to_owned()
        }
    };
    let letters = format!("{orders}.dead-letter");
    let topics = [
        orders.clone(),
        letters.clone(),
        format!("{letters}.parking"),
    ];
    for topic in &topics {
        match &embedded {
            Some(broker) => broker.create_topic(topic, demo::PARTITIONS)?,
            None => {
                let topic = NewTopic::new(topic, demo::PARTITIONS);
                create_topics(&settings, vec![topic], Duration::from_secs(15)).await?;
            }
        }
    }
    let count = demo::fill(&settings, &orders).await?;
    println!("{count} dead letters in {letters}, as kafka-chain, Spring and Connect write them\n");
    let lost_key = || {
        let redrive = Redrive::builder(&settings, &letters, "lost-key");
        redrive.filter(Filter::new().kind("decrypt"))
    };
    run(lost_key(), true).await?;
    let first = run(lost_key(), false).await?;
    if embedded.is_some() {
        println!(
            "The embedded broker only pretends transactions. On Apache Kafka (--bootstrap-servers\n\
             HOST:PORT) the same job, run again, goes on where it was and repeats nothing."
        );
        return Ok(());
    }
    let second = run(lost_key(), false).await?;
    println!(
        "{} went back the first time, {} the second time",
        first.redriven, second.redriven
    );
    Ok(())
}

fn progress() -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{spinner} {pos} read, {msg}  {per_sec}")
        .unwrap_or_else(|_| ProgressStyle::default_spinner());
    ProgressBar::new_spinner().with_style(style)
}
