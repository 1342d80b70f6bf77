//! The main job: encrypted CloudEvents, some of them corrupt, a key service that is sometimes down,
//! and nothing lost: each order is delivered or lies in the dead-letter topic with its error.
//!
//! `cargo run --example consumer_pipeline` needs no set-up: it starts an embedded broker, produces
//! 10,000 sample orders and consumes them with the chain of `examples/consumer.properties`.
//! `--bootstrap-servers HOST:PORT` runs the same on a cluster, on topics made for the run;
//! `--properties FILE` with another chain; `--records N` with more or fewer orders.
//!
//! At least once: the offset of a record is committed only after its effect is durable: the order
//! handled, or its dead letter acknowledged.

#[path = "shop/arguments.rs"]
mod arguments;
#[path = "shop/consumer.rs"]
mod consumer;
#[path = "shop/key_service.rs"]
mod key_service;
#[path = "shop/orders.rs"]
mod orders;
#[path = "shop/report.rs"]
mod report;

use arguments::Arguments;
use consumer::{Place, Shop};
use indicatif::{ProgressBar, ProgressStyle};
use kafka_chain::backoff::RetryEvent;
use kafka_chain::codecs::encryption::AesGcm;
use kafka_chain::config::{Configuration, Registry};
use kafka_chain::dead_letter::{DEFAULT_DESTINATION, destination};
use kafka_chain::properties::Properties;
use kafka_chain::transport::kafka::{EmbeddedBroker, KafkaSink, NewTopic, create_topics};
use kafka_chain::transport::{Delivered, Settings, producer_settings};
use kafka_chain::{Error, Result};
use key_service::KeyService;
use std::collections::{BTreeSet, VecDeque};
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::task::JoinHandle;

const PARTITIONS: i32 = 6;

/// How many records the producer has under way at once.
const IN_FLIGHT: usize = 500;

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
    match runtime.block_on(run(&arguments)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the whole job; whether the numbers add up.
async fn run(arguments: &Arguments) -> Result<bool> {
    let key_service = KeyService::new()?;
    let retries = Arc::new(AtomicUsize::new(0));
    let configuration = match configure(arguments, &key_service, &retries) {
        Ok(configuration) => configuration,
        Err(report) => {
            eprintln!("{report}");
            return Ok(false);
        }
    };
    for warning in configuration.warnings() {
        eprintln!("warning: {warning}");
    }
    for lint in configuration.lints() {
        eprintln!("lint: {lint}");
    }

    let embedded = match arguments.bootstrap_servers {
        Some(_) => None,
        None => Some(EmbeddedBroker::start(1)?),
    };
    let mut settings: Settings = configuration
        .client()
        .iter()
        .map(|property| (property.key.clone(), property.value.clone()))
        .collect();
    match (&arguments.bootstrap_servers, &embedded) {
        (Some(servers), _) => settings.set("bootstrap.servers", servers),
        (None, Some(broker)) => settings.set("bootstrap.servers", broker.bootstrap_servers()),
        (None, None) => &mut settings,
    };
    let own = |key| configuration.own().value(key);
    let topic = own("topics").unwrap_or("orders");
    if topic.contains(',') {
        return Err(Error::config("topics: this example consumes one topic"));
    }
    let topic = match arguments.run_name() {
        Some(run) => format!("{topic}-{run}"),
        None => topic.to_owned(),
    };
    let template = own("dead.letter.topic").unwrap_or(DEFAULT_DESTINATION);
    let dead_letter_topic = destination(template, &topic, settings.get("group.id"))?;
    let topics = [&topic, &dead_letter_topic];
    match &embedded {
        Some(broker) => {
            for topic in topics {
                broker.create_topic(topic, PARTITIONS)?;
            }
        }
        None => {
            let topics = topics.map(|topic| NewTopic::new(topic, PARTITIONS));
            create_topics(&settings, topics.to_vec(), Duration::from_secs(15)).await?;
        }
    }
    println!(
        "broker   {}",
        settings.get("bootstrap.servers").unwrap_or("embedded")
    );
    for chain in configuration.roles().iter().filter(|chain| chain.is_set) {
        println!("{} chain  {}", chain.part, chain.tree);
    }

    let progress = progress(arguments.records);
    let sink = KafkaSink::start(&producer_settings(&settings, &Settings::new()))?;
    let shop = Shop::new(progress.clone());
    let (produced, consumed) = tokio::join!(
        produce(&sink, arguments.records, &topic),
        shop.run(&configuration, &settings, &topic, arguments.records)
    );
    progress.finish_and_clear();
    let (produced, tally) = (produced?, consumed?);
    let dead_letters =
        consumer::dead_letters(&settings, &dead_letter_topic, tally.dead_at.len()).await?;
    let right = report::print(
        &produced,
        &tally,
        retries.load(Ordering::Relaxed),
        key_service.calls(),
        &dead_letters,
    );
    Ok(right)
}

fn configure(
    arguments: &Arguments,
    key_service: &KeyService,
    retries: &Arc<AtomicUsize>,
) -> std::result::Result<Configuration, kafka_chain::properties::Report> {
    let (key_service, retries) = (key_service.clone(), Arc::clone(retries));
    let registry = Registry::builtin()
        .with_deserializer("com.example.DecryptionDeserializer", move |_| {
            Some(AesGcm::new(key_service.clone()))
        })
        .with_retry_observer(move |_: &RetryEvent<'_>| {
            retries.fetch_add(1, Ordering::Relaxed);
        });
    let properties = match &arguments.properties {
        Some(file) => Properties::from_file(file)?,
        None => Properties::parse(
            include_bytes!("consumer.properties"),
            kafka_chain::properties::Charset::Utf8,
            "examples/consumer.properties",
        )?,
    };
    registry.resolve_and_configure(properties)
}

/// Produces the sample orders, some of them at a time; where each lies, once all are acknowledged.
async fn produce(sink: &KafkaSink, records: usize, topic: &str) -> Result<BTreeSet<Place>> {
    let mut samples = orders::Samples::new()?;
    let mut under_way = VecDeque::with_capacity(IN_FLIGHT);
    let mut places = BTreeSet::new();
    for number in 0..records {
        if under_way.len() == IN_FLIGHT
            && let Some(oldest) = under_way.pop_front()
        {
            places.insert(acknowledged(oldest).await?);
        }
        let record = samples.record(number, topic).await?;
        let sink = sink.clone();
        under_way.push_back(tokio::spawn(async move { sink.send(record).await }));
    }
    for sent in under_way {
        places.insert(acknowledged(sent).await?);
    }
    Ok(places)
}

async fn acknowledged(sent: JoinHandle<Result<Delivered>>) -> Result<Place> {
    let delivered = sent
        .await
        .map_err(|_| Error::permanent("a send was given up"))??;
    Ok((delivered.partition, delivered.offset))
}

fn progress(records: usize) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} orders  {per_sec}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(records as u64).with_style(style)
}
