//! A scheduler process, which tells on standard output what it has done. It ends with its driver,
//! whose end closes its standard input, and by SIGTERM.

use kafka_chain::Result;
use kafka_chain::delay::deliver::DeliverRules;
use kafka_chain::scheduler::{Scheduler, SchedulerOptions};
use kafka_chain::transport::Settings;
use std::io::{Read, Write};
use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// How many records of a partition are in flight at once.
pub(crate) const BATCH: usize = 100;

pub(crate) fn main(servers: &str, topic: &str, folder: &str) -> ExitCode {
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(9);
    });
    let ended = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime can be made")
        .block_on(work(servers, topic, folder));
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn work(servers: &str, topic: &str, folder: &str) -> Result<()> {
    let mut consumer = Settings::new();
    consumer
        .set("bootstrap.servers", servers)
        .set("group.id", topic)
        .set("session.timeout.ms", "1500")
        .set("heartbeat.interval.ms", "300")
        .set("reconnect.backoff.max.ms", "500");
    let rules = DeliverRules::new([format!("{topic}.outputs")])?;
    let options = SchedulerOptions {
        batch: BATCH,
        ..SchedulerOptions::new(topic, consumer, rules, folder)
    };
    let scheduler = Scheduler::start(options).await?;
    let counts = scheduler.counts();
    let telling = tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_millis(20)).await;
            let line = format!(
                "{} {} {} {}\n",
                counts.ingested.load(Relaxed),
                counts.delivered.load(Relaxed),
                counts.early.load(Relaxed),
                counts.cold.load(Relaxed)
            );
            let _ = std::io::stdout().lock().write_all(line.as_bytes());
        }
    });
    let mut terminate = signal(SignalKind::terminate()).expect("signals can be listened for");
    let stop = async {
        terminate.recv().await;
    };
    let ended = scheduler.run(stop).await;
    if let Some(warning) = scheduler.take_warning() {
        eprintln!("warning: {warning:#}");
    }
    telling.abort();
    scheduler.close().await;
    ended
}
