//! Reminders that are delivered at any time they ask for: a topic, its scheduler, and an inbox.
//!
//! `cargo run --example scheduler --features embedded` runs on the embedded broker; nothing needs
//! to be there. After two seconds the scheduler ends and its folder is deleted: the one that takes
//! its place finds what waits in the changelog.

use kafka_chain::clock::{Clock, SystemClock};
use kafka_chain::delay::deliver::DeliverRules;
use kafka_chain::delay::producer::{DelayedProducer, ProducerOptions};
use kafka_chain::delay::{DelaySink, Delayed, When};
use kafka_chain::scheduler::{Scheduler, SchedulerOptions};
use kafka_chain::transport::Settings;
use kafka_chain::transport::kafka::{EmbeddedBroker, KafkaSink, KafkaSource};
use kafka_chain::{Error, OutgoingRecord};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::{sleep, timeout};

const REMINDERS: [(&str, u64); 8] = [
    ("water the plants", 5_000),
    ("tea is ready", 3_000),
    ("call back", 1_000),
    ("the meeting begins", 4_000),
    ("stand up", 1_500),
    ("post the letter", 4_500),
    ("eggs are done", 3_500),
    ("look out of the window", 2_500),
];

/// How late a reminder may be on a busy machine.
const LATE: i64 = 5_000;

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(0) => ExitCode::SUCCESS,
        Ok(wrong) => {
            println!("{wrong} reminders did not come as they should");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<usize, Error> {
    let broker = EmbeddedBroker::start(1)?;
    for topic in ["reminders", "reminders.schedule", "inbox"] {
        broker.create_topic(topic, 3)?;
    }
    let mut client = Settings::new();
    client.set("bootstrap.servers", broker.bootstrap_servers());
    let folder = Folder::new();
    let reading = read_inbox(&client)?;

    let first = tokio::spawn(schedule(client.clone(), folder.0.clone(), 2_000));
    let sink = KafkaSink::start(&client)?;
    let producer = DelayedProducer::new(sink, "reminders", ProducerOptions::default());
    let began = SystemClock.now();
    let batch = REMINDERS.map(|(text, delay)| {
        let record = OutgoingRecord {
            topic: "inbox".to_owned(),
            key: Some(text.into()),
            value: Some(text.into()),
            ..OutgoingRecord::default()
        };
        Delayed::new(When::After(Duration::from_millis(delay)), record)
    });
    for answer in producer.schedule(batch.into()).await {
        answer?;
    }
    println!("{} reminders are written", REMINDERS.len());

    let second = async {
        if let Ok(ended) = first.await {
            ended?;
        }
        folder.empty();
        println!("the scheduler has ended and its folder is gone; another begins");
        schedule(client.clone(), folder.0.clone(), 10_000).await
    };
    tokio::select! {
        ended = second => ended.map(|()| REMINDERS.len()),
        wrong = expect(reading, began) => wrong,
    }
}

/// A scheduler that ends after some time.
async fn schedule(mut client: Settings, folder: PathBuf, millis: u64) -> Result<(), Error> {
    client
        .set("group.id", "reminders")
        .set("group.protocol", "consumer");
    let rules = DeliverRules::new(["inbox"])?;
    let scheduler = Scheduler::start(SchedulerOptions {
        check_topics: false,
        ..SchedulerOptions::new("reminders", client, rules, folder)
    })
    .await?;
    scheduler.run(sleep(Duration::from_millis(millis))).await?;
    let counts = scheduler.counts();
    println!(
        "it has taken in {} records as {} entries, restored {} and delivered {}",
        counts.ingested.load(Ordering::Relaxed),
        counts.entries.load(Ordering::Relaxed),
        counts.restored.load(Ordering::Relaxed),
        counts.delivered.load(Ordering::Relaxed)
    );
    scheduler.close().await;
    Ok(())
}

fn read_inbox(client: &Settings) -> Result<KafkaSource, Error> {
    let mut client = client.clone();
    client
        .set("group.id", "inbox")
        .set("fetch.wait.max.ms", "20");
    KafkaSource::start(&client, &["inbox"])
}

/// Reads the inbox; how many reminders are missing, early or late.
async fn expect(mut inbox: KafkaSource, began: i64) -> Result<usize, Error> {
    let mut right = 0;
    for _ in REMINDERS {
        let Ok(record) = timeout(Duration::from_secs(15), inbox.recv()).await else {
            break;
        };
        let record = record?;
        let text = String::from_utf8_lossy(record.record().value.unwrap_or_default()).into_owned();
        let after = SystemClock.now() - began;
        let asked = REMINDERS.iter().find(|(reminder, _)| *reminder == text);
        let asked = asked.map_or(i64::MAX, |(_, delay)| *delay as i64);
        println!("{after:>6} ms  {text} (asked for {asked} ms)");
        right += usize::from((0..LATE).contains(&(after - asked)));
    }
    Ok(REMINDERS.len() - right)
}

/// A folder that goes with the example.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let name = format!("kafka-chain-scheduler-{}", std::process::id());
        Folder(std::env::temp_dir().join(name))
    }

    fn empty(&self) {
        remove(&self.0);
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

fn remove(folder: &Path) {
    // It may not be there.
    let _ = std::fs::remove_dir_all(folder);
}
