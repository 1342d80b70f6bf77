//! A worker process: a pipeline of the properties it is given, which tells on standard output what
//! happens, one line each. It ends with its driver, whose end closes its standard input.

use crate::load::{Fate, ID};
use bytes::Bytes;
use kafka_chain::config::{Configuration, Registry};
use kafka_chain::pipeline::{
    Event, Guarantee, Handler, HandlerContext, Pipeline, PipelineEvent, PipelineObserver,
};
use kafka_chain::properties::Properties;
use kafka_chain::transport::kafka::KafkaSink;
use kafka_chain::transport::{Settings, producer_settings};
use kafka_chain::{Error, Headers, Input, OutgoingRecord, Result, deserialize_with};
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// What a worker is told beside its properties.
#[derive(Clone, Debug, Default)]
struct Orders {
    outputs: String,
    /// The decoder asks this service: a file, there while the service is up.
    decoder_service: Option<PathBuf>,
    /// The same for the handler.
    handler_service: Option<PathBuf>,
    /// How long stubborn and unreadable records fail, and slow ones take.
    stubborn: Duration,
    /// How long each call of the handler takes, beside its output.
    takes: Duration,
    /// `linger.ms` of the handler's producer.
    linger: String,
}

impl Orders {
    fn read(words: &[&str]) -> Self {
        let mut orders = Orders {
            linger: "5".to_owned(),
            ..Orders::default()
        };
        for word in words {
            match word.split_once('=') {
                Some(("outputs", name)) => orders.outputs = name.to_owned(),
                Some(("decoder-service", file)) => orders.decoder_service = Some(file.into()),
                Some(("handler-service", file)) => orders.handler_service = Some(file.into()),
                Some(("linger", millis)) => orders.linger = millis.to_owned(),
                Some(("stubborn", text)) => orders.stubborn = seconds(text),
                Some(("takes", text)) => orders.takes = seconds(text),
                _ => panic!("`{word}` is no order"),
            }
        }
        orders
    }
}

fn seconds(text: &str) -> Duration {
    Duration::from_secs_f64(text.parse().expect("a number of seconds"))
}

pub(crate) fn main(properties: &str, words: &[&str]) -> ExitCode {
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(9);
    });
    let ended = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime can be made")
        .block_on(work(properties, Orders::read(words)));
    match ended {
        Ok(summary) => {
            tell(format_args!("ended {summary}"));
            ExitCode::SUCCESS
        }
        Err(error) => {
            tell(format_args!("broken {error}"));
            ExitCode::FAILURE
        }
    }
}

/// One write a line, so that what was told before a SIGKILL is there.
fn tell(line: std::fmt::Arguments<'_>) {
    let line = format!("{line}").replace('\n', " ") + "\n";
    let _ = std::io::stdout().lock().write_all(line.as_bytes());
}

#[derive(Debug, serde::Deserialize)]
struct Order {
    fate: Fate,
}

async fn work(properties: &str, orders: Orders) -> std::result::Result<String, String> {
    let properties = Properties::from_file(properties).map_err(|report| report.to_string())?;
    let reading = orders.clone();
    let registry = Registry::builtin().with_deserializer("shop", move |_| {
        let orders = reading.clone();
        let patience = Patience::default();
        Some(deserialize_with(move |input: Input<'_>| {
            read(&orders, &patience, &input)
        }))
    });
    let configuration = registry
        .configure(&properties)
        .map_err(|report| report.to_string())?;
    let pipeline = Pipeline::builder(&configuration)
        .map_err(|report| report.to_string())?
        .values::<Order>()
        .map_err(|report| report.to_string())?
        .observer(Teller)
        .stop_on_signals();
    let shop = Shop::start(&configuration, orders).map_err(|error| error.to_string())?;
    let pipeline = pipeline.handler(shop).map_err(|error| error.to_string())?;
    let summary = pipeline.run().await.map_err(|error| error.to_string())?;
    Ok(format!(
        "abandoned={} uncommitted={}",
        summary.abandoned, summary.uncommitted
    ))
}

/// Until when something fails, from its first try on.
#[derive(Debug, Default)]
struct Patience(std::sync::OnceLock<Instant>);

impl Patience {
    fn is_over(&self, limit: Duration) -> bool {
        self.0.get_or_init(Instant::now).elapsed() >= limit
    }
}

fn read(orders: &Orders, patience: &Patience, input: &Input<'_>) -> Result<Option<Order>> {
    ask(orders.decoder_service.as_ref())?;
    let Some(bytes) = input.payload.as_bytes() else {
        return Ok(None);
    };
    let order: Order =
        serde_json::from_slice(bytes).map_err(|_| Error::malformed("it is not an order"))?;
    match order.fate {
        Fate::Unreadable if !patience.is_over(orders.stubborn) => {
            Err(Error::unavailable("it cannot be read yet"))
        }
        _ => Ok(Some(order)),
    }
}

fn ask(service: Option<&PathBuf>) -> Result<()> {
    match service {
        Some(file) if !file.exists() => Err(Error::unavailable("the service is down")),
        _ => Ok(()),
    }
}

/// Handles an order by an output record, which is there, acknowledged, before it says so.
struct Shop {
    orders: Orders,
    /// None where the pipeline itself writes the outputs, together with the offsets.
    sink: Option<KafkaSink>,
    patience: Patience,
}

impl Shop {
    fn start(configuration: &Configuration, orders: Orders) -> Result<Self> {
        let client = configuration.client().iter();
        let client: Settings = client.map(|p| (p.key.clone(), p.value.clone())).collect();
        let guarantee = configuration.own().value("processing.guarantee");
        let by_pipeline = guarantee == Some(Guarantee::ExactlyOnce.as_str());
        let own: Settings = [("linger.ms", &orders.linger)].into_iter().collect();
        let sink = match by_pipeline {
            true => None,
            false => Some(KafkaSink::start(&producer_settings(&client, &own))?),
        };
        Ok(Shop {
            orders,
            sink,
            patience: Patience::default(),
        })
    }
}

impl Handler<Order> for Shop {
    type Error = Error;

    async fn handle(&self, order: Order, context: &HandlerContext<'_>) -> Result<()> {
        let record = context.record();
        tell(format_args!("start {} {}", record.partition, record.offset));
        ask(self.orders.handler_service.as_ref())?;
        if !self.orders.takes.is_zero() {
            tokio::time::sleep(self.orders.takes).await;
        }
        match order.fate {
            Fate::Transient if context.attempt() == 1 => {
                return Err(Error::unavailable("not at once"));
            }
            Fate::Stubborn if !self.patience.is_over(self.orders.stubborn) => {
                return Err(Error::unavailable("not yet"));
            }
            Fate::Slow => tokio::time::sleep(self.orders.stubborn).await,
            _ => {}
        }
        let id = record
            .headers
            .iter()
            .find(|(name, _)| *name == ID.as_bytes());
        let mut headers = Headers::new();
        if let Some((name, value)) = id {
            headers.push(name.to_vec(), value.map(<[u8]>::to_vec));
        }
        let output = OutgoingRecord {
            topic: self.orders.outputs.clone(),
            partition: Some(record.partition),
            key: record.key.map(Bytes::copy_from_slice),
            value: Some(Bytes::from_static(b"done")),
            headers,
            timestamp: None,
        };
        match &self.sink {
            Some(sink) => sink.send(output).await.map(drop),
            None => {
                context.send(output);
                Ok(())
            }
        }
    }
}

struct Teller;

impl PipelineObserver for Teller {
    fn event(&self, event: &PipelineEvent<'_>) {
        match event {
            PipelineEvent::Record { partition, event } => {
                let (place, owned) = (partition.partition, partition.ownership);
                match event {
                    Event::Handled { offset } => {
                        tell(format_args!("done {place} {offset} {owned}"))
                    }
                    Event::Judged { failed, verdict } => tell(format_args!(
                        "judged {place} {} {verdict:?} {}",
                        failed.record.offset, failed.error
                    )),
                    Event::Paused { offset, reason } => {
                        tell(format_args!("paused {place} {offset} {}", reason.as_str()));
                    }
                    Event::Resumed { .. } => tell(format_args!("resumed {place}")),
                    Event::Unwritten { offset, error, .. } => {
                        tell(format_args!("unwritten {place} {offset} {error}"));
                    }
                    other => tell(format_args!("other {other:?}")),
                }
            }
            PipelineEvent::Assigned(partitions) => each("assigned", partitions),
            PipelineEvent::Revoked(partitions) => each("revoked", partitions),
            PipelineEvent::Lost(partitions) => each("lost", partitions),
            PipelineEvent::Committed { .. } => {}
            other => tell(format_args!("other {other:?}")),
        }
    }
}

fn each(what: &str, partitions: &[kafka_chain::transport::kafka::OwnedPartition]) {
    let names: Vec<String> = partitions
        .iter()
        .map(|partition| format!(" {}/{}", partition.partition, partition.ownership))
        .collect();
    tell(format_args!("{what}{}", names.concat()));
}
