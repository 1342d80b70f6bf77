//! The loop: consume, decode, deliver or dead-letter, store the offset, commit.

use crate::orders::Order;
use cloudevents::{Data, Event};
use indicatif::ProgressBar;
use kafka_chain::config::{Chain, Configuration};
use kafka_chain::dead_letter::{self, DeadLetterInfo, DeadLetters, destination};
use kafka_chain::transport::Settings;
use kafka_chain::transport::kafka::{KafkaSink, KafkaSource};
use kafka_chain::{Component, Error, Failure, Part, Record, Result, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// How long the loop waits for a record that was produced before it gives up.
const IDLE: Duration = Duration::from_secs(30);

const COMMIT_EVERY: Duration = Duration::from_secs(1);

/// Partition and offset.
pub type Place = (i32, i64);

/// What became of the records.
#[derive(Debug, Default)]
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

    pub fn total(&self) -> usize {
        self.delivered_at.len() + self.dead_at.len()
    }

    fn knows(&self, place: &Place) -> bool {
        self.delivered_at.contains(place) || self.dead_at.contains(place)
    }
}

pub struct Consumer {
    key: Chain<Value>,
    value: Chain<Value>,
    settings: Settings,
    topic: String,
    dead_letters: DeadLetters,
    dead_letter_topic: String,
}

impl Consumer {
    pub fn new(
        configuration: &Configuration,
        settings: Settings,
        run_name: Option<String>,
    ) -> Result<Self> {
        let own = configuration.own();
        let group = settings.get("group.id").unwrap_or("shop").to_owned();
        let topic = own.value("topics").unwrap_or("orders").to_owned();
        if topic.contains(',') {
            return Err(Error::config("topics: this example consumes one topic"));
        }
        let topic = match run_name {
            Some(run) => format!("{topic}-{run}"),
            None => topic,
        };
        let template = own
            .value("dead.letter.topic")
            .unwrap_or("${topic}.dead-letter");
        let chain = |part| {
            configuration
                .deserializer::<Value>(part)
                .map_err(Error::permanent)
        };
        Ok(Consumer {
            key: chain(Part::Key)?,
            value: chain(Part::Value)?,
            settings,
            dead_letter_topic: destination(template, &topic, Some(&group))?,
            topic,
            dead_letters: DeadLetters::new().group(group).to(template),
        })
    }

    pub fn topic(&self) -> &str {
        &self.topic
    }

    pub fn dead_letter_topic(&self) -> &str {
        &self.dead_letter_topic
    }

    pub fn chain(&self) -> &Chain<Value> {
        &self.value
    }

    /// Consumes until `records` are delivered or dead-lettered.
    pub async fn run(
        &self,
        records: usize,
        sink: &KafkaSink,
        progress: &ProgressBar,
    ) -> Result<Tally> {
        let mut source = KafkaSource::start(&self.settings, &[&self.topic])?;
        let mut tally = Tally::default();
        let mut committed = Instant::now();
        while tally.total() < records {
            let received = tokio::time::timeout(IDLE, source.recv()).await;
            let Ok(received) = received else {
                let missing = records - tally.total();
                let cause = source
                    .take_warning()
                    .map_or_else(String::new, |w| format!(": {w}"));
                return Err(Error::timeout(format!(
                    "{missing} records did not come within {IDLE:?}{cause}"
                )));
            };
            let message = received?;
            // An error here is one that no exception handling took: the loop stops and nothing is
            // stored, so that the record comes again.
            let record = message.record();
            let place = (record.partition, record.offset);
            let handled = match tally.knows(&place) {
                true => {
                    tally.again += 1;
                    continue;
                }
                false => self.handle(&record, &mut tally).await,
            };
            // The error of a loop that stops says at which record.
            let here = || format!("{}-{}@{}", record.topic, record.partition, record.offset);
            match handled.map_err(|error| error.at(here()))? {
                Ok(()) => {
                    tally.delivered_at.insert(place);
                }
                Err(failure) => {
                    sink.send(self.dead_letters.full(&failure, now())?).await?;
                    let stage = failure.error.stages().last().unwrap_or("").to_owned();
                    let kind = failure.error.kind().to_string();
                    *tally.dead_lettered.entry((kind, stage)).or_default() += 1;
                    tally.dead_at.insert(place);
                }
            }
            source.store(&message)?;
            progress.set_position(tally.total() as u64);
            if committed.elapsed() >= COMMIT_EVERY {
                source.commit().await?;
                committed = Instant::now();
            }
        }
        source.commit().await?;
        source.close().await;
        self.key.close().await?;
        self.value.close().await?;
        Ok(tally)
    }

    async fn handle(
        &self,
        record: &Record<'_>,
        tally: &mut Tally,
    ) -> Result<std::result::Result<(), Box<Failure>>> {
        let key = self.key.read(record).await?;
        let value = self.value.read(record).await?;
        match key.and(value) {
            Ok(value) => deliver(value, tally).map(Ok),
            Err(failure) => Ok(Err(failure)),
        }
    }

    /// The dead letters as they lie in their topic, `expected` of them or what there is.
    pub async fn dead_letters(&self, expected: usize) -> Result<Vec<DeadLetterInfo>> {
        let mut found = Vec::new();
        if expected == 0 {
            return Ok(found);
        }
        let mut settings = self.settings.clone();
        let group = settings.get("group.id").unwrap_or("shop");
        settings.set("group.id", format!("{group}.look"));
        let mut source = KafkaSource::start(&settings, &[self.dead_letter_topic()])?;
        while found.len() < expected {
            let wait = tokio::time::timeout(Duration::from_secs(10), source.recv());
            let Ok(message) = wait.await else { break };
            let message = message?;
            found.extend(dead_letter::read(message.record().headers).map(|(_, letter)| letter));
        }
        source.close().await;
        Ok(found)
    }
}

fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    })
}

/// What the shop does with an order; here it counts them.
fn deliver(value: Option<Value>, tally: &mut Tally) -> Result<()> {
    match value {
        None | Some(Value::Null) => tally.tombstones += 1,
        Some(value) => match value.take::<Event>().ok().and_then(|event| order(&event)) {
            Some(order) if order.cents > 0 => tally.orders += 1,
            _ => tally.others += 1,
        },
    }
    Ok(())
}

fn order(event: &Event) -> Option<Order> {
    match event.data()? {
        Data::Json(json) => serde_json::from_value(json.clone()).ok(),
        Data::Binary(bytes) => serde_json::from_slice(bytes).ok(),
        Data::String(text) => serde_json::from_str(text).ok(),
    }
}
