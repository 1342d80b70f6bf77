//! Records that failed, and what becomes of them in a dead-letter topic.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "helpers of several tests"
)]

use bytes::Bytes;
use kafka_chain::dead_letter::{Dialect, read_as};
use kafka_chain::pipeline::{DeadLetterWriter, Failed, Origin, Written};
use kafka_chain::transport::Settings;
use kafka_chain::transport::kafka::KafkaSource;
use kafka_chain::{Error, Headers, OwnedRecord, Part, Timestamp};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// Far above what any step takes: it turns a hang into a failure.
const PATIENCE: Duration = Duration::from_secs(60);

pub fn failed(topic: &str, offset: i64, value: &str) -> Failed {
    Failed {
        record: Arc::new(OwnedRecord {
            topic: topic.to_owned(),
            offset,
            timestamp: Timestamp::CreateTime(1_700_000_000_000),
            key: Some(Bytes::from_static(b"user-7")),
            value: Some(Bytes::copy_from_slice(value.as_bytes())),
            ..OwnedRecord::default()
        }),
        origin: Origin::Chain(Part::Value),
        error: Arc::new(Error::malformed("the JSON ends too early").at("json")),
        attempts: 1,
    }
}

/// Keys, values and headers that are null, empty, repeated and not UTF-8; failed in every way.
pub fn nasty(topic: &str) -> Vec<Failed> {
    let bytes = [None, Some(&b""[..]), Some(&b"\xC3\x28\xFF\x00"[..])];
    let origins = [
        Origin::Chain(Part::Key),
        Origin::Chain(Part::Value),
        Origin::Handler,
    ];
    let own = |header: Option<&'static [u8]>| {
        let mut headers = Headers::new();
        headers.push("sig", header);
        headers.push("app-retry", Some("1"));
        headers.push("sig", Some(&b"\xC3\x28\xFF\x00"[..]));
        headers.push(&b"\xFFname"[..], None::<Bytes>);
        headers.push("", Some(""));
        headers
    };
    let mut all = Vec::new();
    for key in bytes {
        for value in bytes {
            for header in bytes {
                let offset = i64::try_from(all.len()).unwrap();
                all.push(Failed {
                    record: Arc::new(OwnedRecord {
                        key: key.map(Bytes::from_static),
                        value: value.map(Bytes::from_static),
                        headers: own(header),
                        ..OwnedRecord::clone(&failed(topic, offset, "").record)
                    }),
                    origin: origins[all.len() % 3],
                    ..failed(topic, offset, "")
                });
            }
        }
    }
    all
}

/// Whether `read` are the letters of `given`: the record's own bytes first, then all dialects.
pub fn same(given: &[Failed], read: &[OwnedRecord]) {
    assert_eq!(given.len(), read.len());
    for record in read {
        let info = read_as(Dialect::KafkaChain, record.headers.view()).unwrap();
        let offset = usize::try_from(info.offset().unwrap()).unwrap();
        let failed = &given[offset];
        assert_eq!(record.key, failed.record.key, "{offset}");
        assert_eq!(record.value, failed.record.value, "{offset}");
        let count = failed.record.headers.iter().count();
        let own: Headers = record
            .headers
            .iter()
            .take(count)
            .map(|(name, value)| (name.clone(), value.cloned()))
            .collect();
        assert_eq!(own, failed.record.headers, "{offset}");
        for dialect in Dialect::ALL {
            let info = read_as(dialect, record.headers.view()).unwrap();
            if dialect != Dialect::CloudEvents {
                assert_eq!(
                    info.topic(),
                    Some(failed.record.topic.as_str()),
                    "{dialect}"
                );
            }
            assert_eq!(info.offset(), Some(failed.record.offset), "{dialect}");
        }
        let part = match failed.origin {
            Origin::Chain(part) => Some(part),
            Origin::Handler => None,
        };
        assert_eq!(info.part(), part);
    }
}

pub fn held(written: Written) -> Error {
    match written {
        Written::Held(error) => error,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
pub fn acknowledged(written: Written) {
    assert!(matches!(written, Written::Acknowledged), "{written:?}");
}

/// As a probe does.
pub async fn until_acknowledged(writer: &DeadLetterWriter, failed: &Failed) {
    let written = async {
        while !matches!(writer.write(failed).await, Written::Acknowledged) {
            sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(PATIENCE, written).await.expect("a letter in time");
}

/// The first `count` records of a topic.
pub async fn read_all(settings: &Settings, topic: &str, count: usize) -> Vec<OwnedRecord> {
    let mut source = KafkaSource::start(settings, &[topic]).unwrap();
    let mut records = Vec::new();
    while records.len() < count {
        let record = timeout(PATIENCE, source.recv()).await;
        records.push(
            record
                .expect("a record in time")
                .unwrap()
                .record()
                .to_owned(),
        );
    }
    source.close().await;
    records
}
