//! Invoices are sent some time after their order, with topics alone: records wait in delay topics, and a
//! forwarder moves each to its target when it is due.
//!
//! `cargo run --example delay_forwarder` runs on the embedded broker; nothing needs to be there. Two
//! records have the envelope of a delay queue that keeps its target in the value, and one asks for a
//! target that is not allowed: it goes to the dead-letter topic.

use kafka_chain::clock::{Clock, SystemClock};
use kafka_chain::config::Registry;
use kafka_chain::delay::topic::{DelayTiers, DelayTopics};
use kafka_chain::delay::{DelaySink, Delayed, When};
use kafka_chain::forwarder::Forwarder;
use kafka_chain::transport::Settings;
use kafka_chain::transport::kafka::{EmbeddedBroker, KafkaSink, KafkaSource};
use kafka_chain::{Error, OutgoingRecord};
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::timeout;

/// What is sent, and after how many milliseconds.
const INVOICES: [(&str, u64); 6] = [
    ("invoice 1", 3_000),
    ("invoice 2", 500),
    ("invoice 3", 1_500),
    ("invoice 4", 4_200),
    ("invoice 5", 2_000),
    ("invoice 6", 1_000),
];

/// Which wait for the delay of the topic they are in.
const ENVELOPES: [&str; 2] = ["reminder 1", "reminder 2"];

/// How late a record may be on a busy machine.
const LATE: i64 = 5_000;

const PROPERTIES: &str = "\
group.id=billing-forwarder
topics=billing.delay.1s,billing.delay.2s
deliver.allow=outbox
dead.letter.topic=billing.dead-letter
";

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(0) => ExitCode::SUCCESS,
        Ok(wrong) => {
            println!("{wrong} records did not come as they should");
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
    for topic in [
        "billing.delay.1s",
        "billing.delay.2s",
        "billing.dead-letter",
        "outbox",
    ] {
        broker.create_topic(topic, 2)?;
    }
    let client: Settings = [("bootstrap.servers", broker.bootstrap_servers())]
        .into_iter()
        .collect();
    let mut outbox = read(&client, "outbox")?;
    let mut letters = read(&client, "billing.dead-letter")?;

    let configuration = Registry::builtin()
        .configure(&PROPERTIES.parse().map_err(Error::permanent)?)
        .map_err(Error::permanent)?;
    let servers = broker.bootstrap_servers().to_owned();
    let forwarder = Forwarder::builder(&configuration)
        .map_err(Error::permanent)?
        .pipeline(|pipeline| {
            pipeline
                .client("bootstrap.servers", servers)
                .stop_on_signals()
        })
        .build()?;
    let (handle, running) = (forwarder.handle(), tokio::spawn(forwarder.run()));

    let sink = KafkaSink::start(&client)?;
    let began = SystemClock.now();
    write(&sink).await?;
    println!(
        "{} records wait in billing.delay.1s and billing.delay.2s",
        INVOICES.len() + ENVELOPES.len() + 1
    );

    let mut wrong = INVOICES.len() + ENVELOPES.len();
    for _ in 0..INVOICES.len() + ENVELOPES.len() {
        let Ok(record) = timeout(Duration::from_secs(15), outbox.recv()).await else {
            break;
        };
        let record = record?;
        let text = String::from_utf8_lossy(record.record().value.unwrap_or_default()).into_owned();
        let after = SystemClock.now() - began;
        let asked = INVOICES.iter().find(|(invoice, _)| *invoice == text);
        let asked = asked.map_or(2_000, |(_, delay)| *delay as i64);
        println!("{after:>6} ms  {text} (due after {asked} ms)");
        wrong -= usize::from((0..LATE).contains(&(after - asked)));
    }
    let letter = timeout(Duration::from_secs(15), letters.recv()).await;
    match letter {
        Ok(letter) => {
            let letter = letter?;
            let info = kafka_chain::dead_letter::read(letter.record().headers);
            let why = info.as_ref().and_then(|(_, info)| info.message());
            println!("dead letter: {}", why.unwrap_or("without a reason"));
        }
        Err(_) => wrong += 1,
    }
    handle.stop();
    running
        .await
        .map_err(|_| Error::permanent("the forwarder is gone"))??;
    Ok(wrong)
}

/// Writes what is to wait: by a sink that knows the topics, and by hand.
async fn write(sink: &KafkaSink) -> Result<(), Error> {
    let tiers = DelayTiers::new("billing", [1, 2].map(Duration::from_secs))?;
    let later = DelayTopics::new(sink.clone(), tiers);
    let batch = INVOICES.map(|(text, delay)| {
        let record = OutgoingRecord {
            topic: "outbox".to_owned(),
            key: Some(text.into()),
            value: Some(text.into()),
            ..OutgoingRecord::default()
        };
        Delayed::new(When::After(Duration::from_millis(delay)), record)
    });
    for answer in later.schedule(batch.into()).await {
        answer?;
    }
    let by_hand = ENVELOPES
        .map(|text| ("outbox", text))
        .into_iter()
        .chain([("payroll", "a raise")]);
    for (topic, text) in by_hand {
        let envelope = format!(r#"{{"topic":"{topic}","key":"{text}","value":"{text}"}}"#);
        let record = OutgoingRecord {
            topic: "billing.delay.2s".to_owned(),
            value: Some(envelope.into()),
            ..OutgoingRecord::default()
        };
        sink.send(record).await?;
    }
    Ok(())
}

fn read(client: &Settings, topic: &str) -> Result<KafkaSource, Error> {
    let mut client = client.clone();
    client
        .set("group.id", format!("{topic}-reader"))
        .set("fetch.wait.max.ms", "20");
    KafkaSource::start(&client, &[topic])
}
