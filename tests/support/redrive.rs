//! A cluster's dead letters for tests of their way back.
#![allow(dead_code, unreachable_pub, reason = "each test takes what it needs")]

use bytes::Bytes;
use kafka_chain::dead_letter::{DeadLetters, Dialect};
use kafka_chain::transport::Settings;
use kafka_chain::transport::kafka::{KafkaSink, NewTopic, OffsetReader, create_topics};
use kafka_chain::{Error, Failure, OutgoingRecord, OwnedRecord, Part, Timestamp};
use std::collections::BTreeMap;
use std::time::Duration;

/// Far above what any step takes: it turns a hang into a failure.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// When the records of the tests were produced: an hour ago, so that no retention takes them.
pub fn produced_at() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    i64::try_from(now.unwrap().as_millis()).unwrap() - 3_600_000
}

pub struct Rig {
    pub settings: Settings,
    name: String,
    pub sink: KafkaSink,
}

impl Rig {
    /// Topics `<name>-<suffix>`, this many partitions each.
    pub async fn new(servers: String, name: &str, topics: &[(&str, i32)]) -> Self {
        let settings: Settings = [("bootstrap.servers", servers)].into_iter().collect();
        let name = format!("redrive-{name}-{}", std::process::id());
        let sink = KafkaSink::start(&settings).unwrap();
        let rig = Rig {
            settings,
            name,
            sink,
        };
        rig.create(topics).await;
        rig
    }

    pub async fn create(&self, topics: &[(&str, i32)]) {
        let new = |(suffix, count): &(&str, i32)| NewTopic::new(self.topic(suffix), *count);
        let topics = topics.iter().map(new).collect();
        create_topics(&self.settings, topics, PATIENCE)
            .await
            .unwrap();
    }

    pub fn topic(&self, suffix: &str) -> String {
        format!("{}-{suffix}", self.name)
    }

    /// A record as it was consumed, number `index` of partition `index % 3`.
    pub fn source(&self, suffix: &str, index: i64) -> OwnedRecord {
        let mut headers = kafka_chain::Headers::new();
        headers.push("id", Some(format!("{suffix}-{index}")));
        if index % 2 == 0 {
            headers.push(&b"\xff\x01"[..], Some(&b"\x00\xff"[..]));
            headers.push("null", None::<Bytes>);
            headers.push("id-again", Some("a"));
            headers.push("id-again", Some(""));
        }
        OwnedRecord {
            topic: self.topic(suffix),
            partition: i32::try_from(index % 3).unwrap(),
            offset: index,
            timestamp: Timestamp::CreateTime(produced_at() / 1_000_000 * 1_000_000 + index),
            key: (index % 5 != 0).then(|| Bytes::from(format!("key {index}"))),
            value: (index % 7 != 0).then(|| Bytes::from(format!("value {index}"))),
            headers,
        }
    }

    pub async fn send_all(&self, records: Vec<OutgoingRecord>) {
        let mut sends = tokio::task::JoinSet::new();
        for record in records {
            let sink = self.sink.clone();
            sends.spawn(async move { sink.send(record).await });
        }
        while let Some(sent) = sends.join_next().await {
            sent.unwrap().unwrap();
        }
    }

    /// Everything that a `read_committed` reader sees of a topic.
    pub async fn read(&self, topic: &str) -> Vec<OwnedRecord> {
        let mut settings = self.settings.clone();
        settings.set("group.id", format!("{}-reader", self.name));
        let mut reader = OffsetReader::start(&settings).unwrap();
        let count = reader.partitions(topic).await.unwrap().unwrap();
        let numbers: Vec<i32> = (0..count).collect();
        let bounds = reader.bounds(topic, &numbers).await.unwrap();
        let places: Vec<(i32, i64)> = numbers
            .iter()
            .copied()
            .zip(bounds.iter().map(|b| b.first))
            .collect();
        let mut open: BTreeMap<i32, i64> = numbers
            .iter()
            .copied()
            .zip(bounds.iter().map(|b| b.end))
            .collect();
        reader.assign(topic, &places).unwrap();
        let mut records = Vec::new();
        while !open.is_empty() {
            let read = reader.read(1_000, PATIENCE).await.unwrap();
            assert!(
                !read.records.is_empty() || !read.ends.is_empty(),
                "{topic}: {open:?}"
            );
            records.extend(read.records.iter().map(|record| record.record().to_owned()));
            for (partition, end) in read.ends {
                if open.get(&partition).is_some_and(|open| end >= *open) {
                    open.remove(&partition);
                }
            }
        }
        records
    }

    pub async fn ends(&self, topic: &str) -> Vec<i64> {
        let mut settings = self.settings.clone();
        settings.set("group.id", format!("{}-reader", self.name));
        let reader = OffsetReader::start(&settings).unwrap();
        let count = reader.partitions(topic).await.unwrap().unwrap();
        let numbers: Vec<i32> = (0..count).collect();
        let bounds = reader.bounds(topic, &numbers).await.unwrap();
        bounds.iter().map(|bounds| bounds.end).collect()
    }
}

pub enum Size {
    Full,
    WithoutValue,
}

/// The dead letter of `record` in `topic`.
pub fn letter(record: &OwnedRecord, topic: &str, dialect: Dialect, size: Size) -> OutgoingRecord {
    let error = Error::decrypt("no such key").at("aes-gcm").at("pipe.from");
    letter_of(error, record, topic, dialect, size)
}

pub fn letter_of(
    error: Error,
    record: &OwnedRecord,
    topic: &str,
    dialect: Dialect,
    size: Size,
) -> OutgoingRecord {
    let failure = Failure::new(error, &record.as_record().context(Part::Value));
    let letters = DeadLetters::new()
        .dialects([dialect])
        .group("shop")
        .to(topic);
    let mut letter = match size {
        Size::Full => letters.full(&failure, produced_at() + 1),
        Size::WithoutValue => letters.without_value(&failure, produced_at() + 1),
    }
    .unwrap();
    letter.partition = Some(record.partition);
    letter
}

/// The text of the last header of this name.
pub fn text(record: &OwnedRecord, name: &str) -> Option<String> {
    let value = record.headers.view().get_last(name)??;
    Some(String::from_utf8_lossy(value).into_owned())
}
