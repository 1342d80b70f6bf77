//! A forwarder process of the properties it is given, which tells what it owns and has done. It ends with
//! its driver and by SIGTERM.

use crate::load::ID;
use crate::process::{end_with_driver, tell};
use crate::timed::{DUE, now};
use kafka_chain::config::Registry;
use kafka_chain::forwarder::Forwarder;
use kafka_chain::pipeline::PipelineEvent;
use kafka_chain::properties::Properties;
use kafka_chain::transport::kafka::OwnedPartition;
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::producer::{BaseRecord, DefaultProducerContext, ThreadedProducer};
use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

pub(crate) fn main(properties: &str, words: &[&str]) -> ExitCode {
    end_with_driver();
    let properties = match Properties::from_file(properties) {
        Ok(properties) => properties,
        Err(report) => {
            eprintln!("{report}");
            return ExitCode::FAILURE;
        }
    };
    if words == ["careless"] {
        careless(&properties);
    }
    let ended = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime can be made")
        .block_on(work(&properties));
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn work(properties: &Properties) -> Result<(), String> {
    let configuration = Registry::builtin()
        .configure(properties)
        .map_err(|report| report.to_string())?;
    let builder = Forwarder::builder(&configuration).map_err(|report| report.to_string())?;
    let owned = Mutex::<BTreeSet<(String, i32)>>::default();
    let watch = move |event: &PipelineEvent<'_>| {
        let mut owned = owned.lock().expect("no panic");
        match event {
            PipelineEvent::Assigned(partitions) => owned.extend(names(partitions)),
            PipelineEvent::Revoked(partitions) | PipelineEvent::Lost(partitions) => {
                for name in names(partitions) {
                    owned.remove(&name);
                }
            }
            PipelineEvent::CommitFailed(error) => return eprintln!("{} {error:?}", now()),
            PipelineEvent::Warning(error) => return eprintln!("{} {error:#}", now()),
            _ => return,
        }
        let names: Vec<String> = (owned.iter())
            .map(|(topic, partition)| format!(" {topic}/{partition}"))
            .collect();
        tell(format_args!("owns{}", names.concat()));
    };
    let forwarder = builder
        .pipeline(|pipeline| pipeline.observer(watch).stop_on_signals())
        .build()
        .map_err(|error| format!("{error:#}"))?;
    let counts = forwarder.counts();
    let telling = tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_millis(20)).await;
            let (forwarded, early) = (counts.forwarded.load(Relaxed), counts.early.load(Relaxed));
            tell(format_args!("forwarded {forwarded} {early}"));
        }
    });
    let ended = forwarder.run().await;
    telling.abort();
    ended.map(drop).map_err(|error| format!("{error:#}"))
}

fn names(partitions: &[OwnedPartition]) -> impl Iterator<Item = (String, i32)> + '_ {
    let name = |partition: &OwnedPartition| (partition.topic.to_string(), partition.partition);
    partitions.iter().map(name)
}

/// What forgets: holds records in memory and commits their offsets as they are read.
fn careless(properties: &Properties) -> ! {
    let value = |name: &str| &*properties.get(name).expect("it is set").value;
    let mut client = ClientConfig::new();
    client.set("bootstrap.servers", value("bootstrap.servers"));
    let producer: ThreadedProducer<DefaultProducerContext> =
        client.create().expect("a producer can be made");
    let consumer: BaseConsumer = client
        .set("group.id", value("group.id"))
        .set("session.timeout.ms", value("session.timeout.ms"))
        .set("heartbeat.interval.ms", value("heartbeat.interval.ms"))
        .set("auto.offset.reset", "earliest")
        .set("auto.commit.interval.ms", "100")
        .create()
        .expect("a consumer can be made");
    let topics: Vec<&str> = value("topics").split(',').collect();
    consumer
        .subscribe(&topics)
        .expect("topics can be subscribed to");
    let (mut held, mut forwarded, mut told) = (BTreeSet::new(), 0_u64, 0);
    loop {
        if let Some(Ok(message)) = consumer.poll(Duration::from_millis(1)) {
            held.insert((header(&message, DUE), header(&message, ID)));
        }
        while let Some((due, id)) = held.first().copied().filter(|(due, _)| *due <= now()) {
            held.pop_first();
            let (due, id) = (due.to_string(), id.to_string());
            let headers = crate::delay_topic_kill::headers(&[(ID, &id), (DUE, &due)]);
            let record = BaseRecord::to(value("deliver.allow"))
                .key(&id)
                .payload("value")
                .headers(headers);
            producer.send(record).expect("there is room for a record");
            forwarded += 1;
        }
        if now() - told > 20 {
            told = now();
            let owned = consumer.assignment().expect("it has an assignment");
            let names: Vec<String> = (owned.elements().iter())
                .map(|place| format!(" {}/{}", place.topic(), place.partition()))
                .collect();
            tell(format_args!("owns{}", names.concat()));
            tell(format_args!("forwarded {forwarded} 0"));
        }
    }
}

fn header(message: &BorrowedMessage<'_>, name: &str) -> i64 {
    let headers = message.headers().expect("it has headers");
    let found = headers.iter().find(|header| header.key == name);
    let value = found.and_then(|header| header.value).expect("it is there");
    String::from_utf8_lossy(value).parse().expect("a number")
}
