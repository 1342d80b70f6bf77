//! An open-loop load and what becomes of it: when each record is sent and due is fixed beforehand,
//! however long others take.

use super::{PARTITIONS, producer, settings, topics};
use bytes::Bytes;
use kafka_chain::OutgoingRecord;
use kafka_chain::delay::deliver::{DELIVER_AFTER, DELIVER_TO};
use kafka_chain::transport::kafka::KafkaSource;
use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

/// How long what has not come is waited for.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Clone, Copy)]
pub(crate) struct Load {
    /// Records a second.
    pub(crate) rate: u64,
    pub(crate) seconds: u64,
    /// In milliseconds, of the topic.
    pub(crate) delay: i64,
    /// Whether each record asks for a time of its own, 200 ms to the delay, by a header.
    pub(crate) mixed: bool,
    /// Whether they are the article's envelopes, due by their timestamp.
    pub(crate) envelope: bool,
}

pub(crate) struct Measured {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    max: f64,
    pub(crate) early: usize,
    pub(crate) lost: usize,
    sent: usize,
    twice: usize,
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "late by p50 {:.1} ms, p99 {:.1} ms, max {:.1} ms; early={} lost={} of {} twice={}",
            self.p50, self.p99, self.max, self.early, self.lost, self.sent, self.twice
        )
    }
}

fn micros() -> i64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("after 1970");
    i64::try_from(now.as_micros()).expect("a time")
}

/// One record: its number and when it is due, in its value.
fn record(load: &Load, topic: &str, target: &str, number: u64, sent: i64) -> OutgoingRecord {
    let delay = match load.mixed {
        true => 200 + i64::try_from(number * 7_919).expect("small") % (load.delay - 200),
        false => load.delay,
    };
    let due = sent + delay;
    let partition = i32::try_from(number % u64::from(PARTITIONS.unsigned_abs())).expect("small");
    let text = format!("{number} {due} {}", "x".repeat(150));
    let mut record = OutgoingRecord {
        topic: topic.to_owned(),
        partition: Some(partition),
        key: Some(Bytes::from(format!("k{}", number % 1_000))),
        ..OutgoingRecord::default()
    };
    if load.envelope {
        record.timestamp = Some(sent);
        let value = format!(
            r#"{{"topic":"{target}","key":"k{}","value":"{text}"}}"#,
            number % 1_000
        );
        record.value = Some(Bytes::from(value));
    } else {
        record.value = Some(Bytes::from(text));
        record.headers.push(DELIVER_TO, Some(target.to_owned()));
        record.headers.push(DELIVER_AFTER, Some(due.to_string()));
    }
    record
}

/// Sends the load to `topic` and sees what comes to `target`.
pub(crate) async fn run(load: &Load, topic: &str, target: &str) -> Measured {
    let count = load.rate * load.seconds;
    let group = format!("collect-{:x}", rand::random::<u32>());
    let settings = settings(&[
        ("group.id", &group),
        ("auto.offset.reset", "earliest"),
        ("fetch.wait.max.ms", "100"),
    ]);
    let mut source = KafkaSource::start(&settings, &[target]).expect("a consumer");
    let collecting = tokio::spawn(async move {
        let (mut seen, mut lates) = (vec![false; count as usize], Vec::new());
        let (mut came, mut twice, mut early) = (0, 0, 0);
        let last = Instant::now() + Duration::from_secs(load_seconds(count)) + PATIENCE;
        while came < count {
            let left = last.saturating_duration_since(Instant::now());
            let Ok(Ok(record)) = timeout(left, source.recv()).await else {
                break;
            };
            let now = micros();
            let value = record.record().value.unwrap_or_default();
            let text = std::str::from_utf8(value).expect("text");
            let mut words = text.split(' ').map(str::parse::<i64>);
            let (Some(Ok(number)), Some(Ok(due))) = (words.next(), words.next()) else {
                panic!("not ours: {text}");
            };
            let number = usize::try_from(number).expect("small");
            if std::mem::replace(&mut seen[number], true) {
                twice += 1;
                continue;
            }
            came += 1;
            early += usize::from(now < due * 1_000);
            // The first second is for connections and caches.
            if number as u64 > count / 10 {
                lates.push((now - due * 1_000) as f64 / 1e3);
            }
        }
        source.close().await;
        (lates, came, twice, early)
    });
    // The forwarder and the collector have joined their groups by then.
    tokio::time::sleep(Duration::from_secs(6)).await;
    let sink = producer();
    let began = Instant::now();
    let first = micros() / 1_000;
    let mut sends = JoinSet::new();
    for number in 0..count {
        let after = Duration::from_micros(number * 1_000_000 / load.rate);
        sleep_until(began + after).await;
        let planned = first + i64::try_from(after.as_millis()).expect("small");
        let record = record(load, topic, target, number, planned);
        let sink = sink.clone();
        sends.spawn(async move { sink.send(record).await.expect("sent") });
        while sends.try_join_next().is_some() {}
    }
    sends.join_all().await;
    let (mut lates, came, twice, early) = collecting.await.expect("no panic");
    lates.sort_by(f64::total_cmp);
    let at = |share: usize| {
        let index = (lates.len() * share / 100).min(lates.len().saturating_sub(1));
        lates.get(index).copied().unwrap_or(f64::NAN)
    };
    Measured {
        p50: at(50),
        p99: at(99),
        max: at(100),
        early,
        lost: usize::try_from(count - came).expect("small"),
        sent: usize::try_from(count).expect("small"),
        twice,
    }
}

/// An upper bound of how long the load lasts.
fn load_seconds(count: u64) -> u64 {
    10 + count / 100
}

/// The same load straight to its target: due when it is sent.
pub(crate) async fn bare(load: &Load) -> Measured {
    let topics = topics("bare", 1, PARTITIONS).await;
    let load = Load {
        delay: 0,
        mixed: false,
        envelope: false,
        ..*load
    };
    run(&load, &topics.target, &topics.target).await
}

/// Fills `topic` with envelopes for `target`.
pub(crate) async fn fill(topic: &str, target: &str, count: u64) {
    let load = Load {
        rate: 1,
        seconds: 1,
        delay: 0,
        mixed: false,
        envelope: true,
    };
    let sink = producer();
    let now = micros() / 1_000;
    let mut sends = JoinSet::new();
    for number in 0..count {
        let (sink, record) = (sink.clone(), record(&load, topic, target, number, now));
        sends.spawn(async move { sink.send(record).await.expect("sent") });
        if sends.len() > 10_000 {
            sends.join_next().await;
        }
    }
    sends.join_all().await;
}
