//! What must hold of a writer whatever the cluster does, on one that does what it is told.

mod ladder;
mod places;
mod replacing;

use super::fake::{Cluster, Topic, UNANSWERED};
use super::fleet::BETWEEN_STARTS;
use super::settings::DeadLetterSettings;
use super::writer::DeadLetterWriter;
use crate::dead_letter::{Dialect, Rung, TimestampPolicy, read};
use crate::error::Error;
use crate::pipeline::source::{Failed, Origin, Written};
use crate::pipeline::too_large::TooLarge;
use crate::record::{OutgoingRecord, OwnedRecord, Part, Timestamp};
use crate::transport::{Settings, WriteFailure};
use bytes::Bytes;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::time::{Instant, advance, sleep, timeout};

const DEAD: &str = "orders.dead-letter";

fn failed(offset: i64, value: &str) -> Failed {
    Failed {
        record: Arc::new(OwnedRecord {
            topic: "orders".to_owned(),
            offset,
            key: Some(Bytes::from_static(b"k")),
            value: Some(Bytes::copy_from_slice(value.as_bytes())),
            ..OwnedRecord::default()
        }),
        origin: Origin::Chain(Part::Value),
        error: Arc::new(Error::malformed("not JSON").at("json")),
        attempts: 1,
    }
}

fn settings() -> DeadLetterSettings {
    DeadLetterSettings::new(Settings::new())
}

fn writer(cluster: &Cluster) -> DeadLetterWriter {
    writer_with(cluster, &settings())
}

fn writer_with(cluster: &Cluster, settings: &DeadLetterSettings) -> DeadLetterWriter {
    DeadLetterWriter::new(settings, cluster.producer()).unwrap()
}

fn held(written: Written) -> Error {
    match written {
        Written::Held(error) => error,
        other => panic!("{other:?}"),
    }
}

fn acknowledged(written: Written) {
    assert!(matches!(written, Written::Acknowledged), "{written:?}");
}

fn offsets(written: &[OutgoingRecord]) -> Vec<i64> {
    let offset = |record: &OutgoingRecord| read(record.headers.view()).unwrap().1.offset();
    written.iter().filter_map(offset).collect()
}

fn left_out(record: &OutgoingRecord) -> Option<u64> {
    read(record.headers.view()).unwrap().1.value_left_out()
}
