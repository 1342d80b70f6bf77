//! Dead letters on real Apache Kafka: what its topics refuse, and what comes back.
#![cfg(feature = "kafka")]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod kafka_support;
#[path = "support/letters.rs"]
mod letters;
#[path = "support/real.rs"]
mod real;

use kafka_chain::dead_letter::{Dialect, read, read_as};
use kafka_chain::pipeline::{DeadLetterSettings, DeadLetterWriter, Failed, Written};
use kafka_chain::transport::kafka::{NewTopic, create_topics};
use kafka_chain::transport::{Settings, WriteFailure};
use kafka_chain::{OwnedRecord, Timestamp};
use kafka_support::{PATIENCE, settings};
use letters::{acknowledged, failed, held, nasty, read_all, until_acknowledged};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

struct Rig {
    servers: String,
    source: String,
    dead: String,
}

impl Rig {
    /// Names of its own, or nothing where there is no Kafka. No topic exists yet.
    fn new(name: &str) -> Option<Self> {
        let source = format!("letters-{name}-{}", std::process::id());
        Some(Rig {
            servers: real::kafka()?,
            dead: format!("{source}.dead-letter"),
            source,
        })
    }

    async fn create(&self, partitions: i32, config: &[(&str, &str)]) {
        let mut topic = NewTopic::new(&self.dead, partitions);
        let config = config.iter();
        topic.config = config.map(|(n, v)| ((*n).into(), (*v).into())).collect();
        create_topics(&self.settings(&[]), vec![topic], PATIENCE)
            .await
            .unwrap();
    }

    fn settings(&self, more: &[(&str, &str)]) -> Settings {
        settings(&self.servers, more)
    }

    fn writer(&self, more: &[(&str, &str)]) -> DeadLetterWriter {
        DeadLetterWriter::start(&DeadLetterSettings::new(self.settings(more))).unwrap()
    }

    fn failed(&self, offset: i64, value: &str) -> Failed {
        failed(&self.source, offset, value)
    }

    async fn read(&self, count: usize) -> Vec<OwnedRecord> {
        let settings =
            self.settings(&[("group.id", &self.dead), ("auto.offset.reset", "earliest")]);
        read_all(&settings, &self.dead, count).await
    }
}

/// FC-024.
#[tokio::test]
async fn a_missing_topic_is_named_and_written_to_once_it_exists() {
    let Some(rig) = Rig::new("missing") else {
        return;
    };
    let writer = rig.writer(&[]);
    for offset in 0..3 {
        let error = held(writer.write(&rig.failed(offset, "v")).await);
        assert_eq!(WriteFailure::of(&error), Some(WriteFailure::UnknownTopic));
        assert!(error.message().contains(&rig.dead), "{error}");
    }
    rig.create(1, &[]).await;
    let began = Instant::now();
    until_acknowledged(&writer, &rig.failed(0, "v")).await;
    println!("written {:?} after the topic was created", began.elapsed());
    acknowledged(writer.write(&rig.failed(1, "v")).await);
    assert_eq!(rig.read(2).await.len(), 2);
    writer.producer().close(PATIENCE).await.unwrap();
}

/// FC-033: both in one batch, which the broker refuses as one.
#[tokio::test]
async fn only_what_is_too_large_itself_loses_its_value() {
    let Some(rig) = Rig::new("large") else { return };
    rig.create(1, &[("max.message.bytes", "2000")]).await;
    let writer = rig.writer(&[("linger.ms", "100")]);
    let (large, small) = ("x".repeat(5_000), "y".repeat(100));
    let mut writes = Vec::new();
    for (offset, value) in [
        (0, &small),
        (1, &large),
        (2, &small),
        (3, &small),
        (4, &small),
    ] {
        writes.push(tokio::spawn(writer.write(&rig.failed(offset, value))));
    }
    for write in writes {
        acknowledged(write.await.unwrap());
    }
    let records = rig.read(5).await;
    let mut seen: Vec<_> = records
        .iter()
        .map(|record| {
            let (_, info) = read(record.headers.view()).unwrap();
            let size = record.value.as_ref().unwrap().len();
            (info.offset().unwrap(), size, info.value_left_out())
        })
        .collect();
    seen.sort_unstable();
    let whole = |offset| (offset, 100, None);
    let expected = [whole(0), (1, 0, Some(5_000)), whole(2), whole(3), whole(4)];
    assert_eq!(seen, expected);
}

/// FC-019: what does not fit without its value either is held, and written when the topic takes it.
#[tokio::test]
async fn a_letter_that_fits_in_no_way_is_held_and_others_go_on() {
    let Some(rig) = Rig::new("never") else { return };
    rig.create(1, &[("max.message.bytes", "1500")]).await;
    let writer = rig.writer(&[]);
    let mut failed = rig.failed(0, "v");
    let long = vec![b'h'; 3_000];
    Arc::make_mut(&mut failed.record)
        .headers
        .push("mine", Some(long));
    for _ in 0..2 {
        let error = held(writer.write(&failed).await);
        assert!(error.message().contains(&rig.dead), "{error}");
    }
    acknowledged(writer.write(&rig.failed(1, "v")).await);
    assert_eq!(rig.read(1).await.len(), 1);
}

/// A value of several megabytes that its topic takes is no error of the client's limit.
#[tokio::test]
async fn the_broker_says_what_is_too_large_and_not_the_client() {
    let Some(rig) = Rig::new("megabytes") else {
        return;
    };
    rig.create(1, &[("max.message.bytes", "8000000")]).await;
    acknowledged(
        rig.writer(&[])
            .write(&rig.failed(0, &"v".repeat(5_000_000)))
            .await,
    );
    let records = rig.read(1).await;
    assert_eq!(records[0].value.as_ref().unwrap().len(), 5_000_000);
}

/// FC-022.
#[tokio::test]
async fn the_partition_is_the_sources_number_where_there_is_one() {
    let Some(rig) = Rig::new("partitions") else {
        return;
    };
    rig.create(3, &[]).await;
    let writer = rig.writer(&[]);
    for partition in [2, 1, 5, 5] {
        let mut failed = rig.failed(i64::from(partition), "v");
        Arc::make_mut(&mut failed.record).partition = partition;
        acknowledged(writer.write(&failed).await);
    }
    let records = rig.read(4).await;
    let mut by_key = Vec::new();
    for record in &records {
        let (_, info) = read(record.headers.view()).unwrap();
        match info.partition().unwrap() {
            5 => by_key.push(record.partition),
            same => assert_eq!(record.partition, same),
        }
    }
    assert_eq!(by_key.len(), 2);
    assert_eq!(by_key[0], by_key[1], "of one key");
}

/// FC-012, FC-013, FC-018, FC-025: all dialects at once, and nothing of the record is touched.
#[tokio::test]
async fn what_was_consumed_comes_back_byte_for_byte_in_every_dialect() {
    let Some(rig) = Rig::new("bytes") else { return };
    rig.create(1, &[]).await;
    let mut settings = DeadLetterSettings::new(rig.settings(&[]));
    settings.dialects = Dialect::ALL.to_vec();
    settings.group = Some("shop".to_owned());
    let writer = DeadLetterWriter::start(&settings).unwrap();
    let all = nasty(&rig.source);
    for failed in &all {
        acknowledged(writer.write(failed).await);
    }
    letters::same(&all, &rig.read(all.len()).await);
}

/// FC-027: kept for as long as its topic keeps records, whatever the source's timestamp.
#[tokio::test]
async fn a_letter_of_an_old_record_is_dated_when_it_is_written() {
    let Some(rig) = Rig::new("old") else { return };
    let retention = [("retention.ms", "604800000")];
    rig.create(1, &retention).await;
    let writer = rig.writer(&[]);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let now = i64::try_from(now.as_millis()).unwrap();
    let old = now - 30 * 24 * 3_600_000;
    let timestamps = [
        Timestamp::NotAvailable,
        Timestamp::CreateTime(0),
        Timestamp::CreateTime(old),
        Timestamp::LogAppendTime(old),
    ];
    for (offset, timestamp) in (0..).zip(timestamps) {
        let mut failed = rig.failed(offset, "v");
        Arc::make_mut(&mut failed.record).timestamp = timestamp;
        acknowledged(writer.write(&failed).await);
    }
    // The rig's broker looks for what is too old each second.
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    for (record, timestamp) in rig.read(4).await.iter().zip(timestamps) {
        let written = record.timestamp.millis().unwrap();
        assert!(written >= now - 60_000, "{written}");
        let (_, info) = read_as(Dialect::KafkaChain, record.headers.view())
            .map(|info| ((), info))
            .unwrap();
        assert_eq!(info.timestamp(), timestamp);
    }
}

/// A broker refuses timestamps far in the future: copying one gives way to the time of writing.
#[tokio::test]
async fn a_timestamp_that_the_broker_refuses_is_not_insisted_on() {
    let Some(rig) = Rig::new("future") else {
        return;
    };
    // What is as old as that would be deleted at the next look.
    rig.create(1, &[("retention.ms", "-1")]).await;
    let mut settings = DeadLetterSettings::new(rig.settings(&[("linger.ms", "50")]));
    settings.dialects = vec![Dialect::Connect];
    let writer = DeadLetterWriter::start(&settings).unwrap();
    let at = |offset, timestamp| {
        let mut failed = rig.failed(offset, "v");
        Arc::make_mut(&mut failed.record).timestamp = Timestamp::CreateTime(timestamp);
        tokio::spawn(writer.write(&failed))
    };
    let far = 32_503_680_000_000;
    let past = 1_700_000_000_000;
    for write in [at(0, far), at(1, past)] {
        acknowledged(write.await.unwrap());
    }
    let records = rig.read(2).await;
    let copied = records
        .iter()
        .filter(|r| r.timestamp.millis() == Some(past));
    assert_eq!(copied.count(), 1);
    assert!(records.iter().all(|r| r.timestamp.millis() < Some(far)));
}

/// An end in order: what was queued is there.
#[tokio::test]
async fn closing_waits_for_what_was_queued() {
    let Some(rig) = Rig::new("close") else { return };
    rig.create(1, &[]).await;
    let writer = rig.writer(&[("linger.ms", "2000")]);
    let write = tokio::spawn(writer.write(&rig.failed(0, "v")));
    while writer
        .producer()
        .partitions(&rig.dead)
        .await
        .unwrap()
        .is_none()
    {}
    tokio::task::yield_now().await;
    writer.producer().close(PATIENCE).await.unwrap();
    let written = write.await.unwrap();
    assert!(matches!(written, Written::Acknowledged), "{written:?}");
    held(writer.write(&rig.failed(1, "v")).await);
}
