//! What the shop does with its orders, and a look at what became of the others.

use crate::orders::Order;
use cloudevents::{Data, Event};
use indicatif::ProgressBar;
use kafka_chain::config::Configuration;
use kafka_chain::dead_letter::{self, DeadLetterInfo};
use kafka_chain::pipeline::{
    Event as RecordEvent, Handler, HandlerContext, Pipeline, PipelineEvent, Verdict,
};
use kafka_chain::transport::Settings;
use kafka_chain::transport::kafka::KafkaSource;
use kafka_chain::{Error, Result, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// How long the shop waits for a record that was produced before it gives up.
const IDLE: Duration = Duration::from_secs(30);

/// Partition and offset.
pub type Place = (i32, i64);

/// What became of the records.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    pub orders: usize,
    pub others: usize,
    pub tombstones: usize,
    /// Where each record lies that was delivered, and each that was dead-lettered.
    pub delivered_at: BTreeSet<Place>,
    pub dead_at: BTreeSet<Place>,
    /// Records that came again, after a rebalance or a restart of the broker.
    pub again: usize,
    /// By kind and stage of the error.
    pub dead_lettered: BTreeMap<(String, String), usize>,
}

impl Tally {
    pub fn delivered(&self) -> usize {
        self.orders + self.others + self.tombstones
    }

    fn total(&self) -> usize {
        self.delivered_at.len() + self.dead_at.len()
    }
}

/// The shop's books, which all partitions write.
#[derive(Clone)]
pub struct Shop {
    tally: Arc<Mutex<Tally>>,
    written: Arc<Notify>,
    progress: ProgressBar,
}

impl Handler<Option<Value>> for Shop {
    type Error = Error;

    /// What the shop does with an order; here it counts them.
    async fn handle(&self, value: Option<Value>, context: &HandlerContext<'_>) -> Result<()> {
        let record = context.record();
        let mut tally = self.tally();
        if !tally.delivered_at.insert((record.partition, record.offset)) {
            tally.again += 1;
            return Ok(());
        }
        match value {
            None | Some(Value::Null) => tally.tombstones += 1,
            Some(value) => match value.take::<Event>().ok().and_then(|event| order(&event)) {
                Some(order) if order.cents > 0 => tally.orders += 1,
                _ => tally.others += 1,
            },
        }
        self.show(&tally);
        Ok(())
    }
}

impl Shop {
    pub fn new(progress: ProgressBar) -> Self {
        Shop {
            tally: Arc::default(),
            written: Arc::default(),
            progress,
        }
    }

    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn show(&self, tally: &Tally) {
        self.progress.set_position(tally.total() as u64);
        self.written.notify_one();
    }

    /// Notes what goes to the dead-letter topic.
    fn note(&self, event: &PipelineEvent<'_>) {
        if let PipelineEvent::Record {
            event:
                RecordEvent::Judged {
                    failed,
                    verdict: Verdict::DeadLetter,
                },
            ..
        } = event
        {
            let mut tally = self.tally();
            tally
                .dead_at
                .insert((failed.record.partition, failed.record.offset));
            let what = (failed.error.kind().to_string(), failed.error.stage_path());
            *tally.dead_lettered.entry(what).or_default() += 1;
            self.show(&tally);
        }
    }

    /// Consumes `topic` until `records` are delivered or dead-lettered.
    pub async fn run(
        &self,
        configuration: &Configuration,
        settings: &Settings,
        topic: &str,
        records: usize,
    ) -> Result<Tally> {
        let (shop, servers) = (self.clone(), settings.get("bootstrap.servers"));
        let pipeline = Pipeline::builder(configuration)
            .and_then(|builder| builder.nullable_values::<Value>())
            .map_err(Error::permanent)?
            .client("bootstrap.servers", servers.unwrap_or_default())
            .topics([topic])
            .observer(move |event: &PipelineEvent<'_>| shop.note(event))
            .stop_on_signals()
            .handler(self.clone())?;
        let handle = pipeline.handle();
        let all_there = async {
            while self.tally().total() < records {
                if tokio::time::timeout(IDLE, self.written.notified())
                    .await
                    .is_err()
                {
                    break;
                }
            }
            handle.stop();
        };
        let (ran, ()) = tokio::join!(pipeline.run(), all_there);
        ran?;
        let tally = self.tally().clone();
        match records - tally.total() {
            0 => Ok(tally),
            missing => Err(Error::timeout(format!(
                "{missing} records did not come within {IDLE:?}"
            ))),
        }
    }
}

fn order(event: &Event) -> Option<Order> {
    match event.data()? {
        Data::Json(json) => serde_json::from_value(json.clone()).ok(),
        Data::Binary(bytes) => serde_json::from_slice(bytes).ok(),
        Data::String(text) => serde_json::from_str(text).ok(),
    }
}

/// The dead letters as they lie in `topic`, `expected` of them or what there is.
pub async fn dead_letters(
    settings: &Settings,
    topic: &str,
    expected: usize,
) -> Result<Vec<DeadLetterInfo>> {
    let mut found = Vec::new();
    if expected == 0 {
        return Ok(found);
    }
    let mut settings = settings.clone();
    let group = settings.get("group.id").unwrap_or("shop");
    settings.set("group.id", format!("{group}.look"));
    let mut source = KafkaSource::start(&settings, &[topic])?;
    while found.len() < expected {
        let wait = tokio::time::timeout(Duration::from_secs(10), source.recv());
        let Ok(message) = wait.await else { break };
        let message = message?;
        found.extend(dead_letter::read(message.record().headers).map(|(_, letter)| letter));
    }
    source.close().await;
    Ok(found)
}
