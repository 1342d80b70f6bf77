//! Transactions on real Apache Kafka: what the embedded broker only pretends.
#![cfg(feature = "kafka")]

#[path = "support/group.rs"]
mod group;
#[path = "support/real.rs"]
mod real;

use bytes::Bytes;
use group::{PATIENCE, assigned, settings, start};
use kafka_chain::transport::kafka::{
    Commit, GroupConsumer, KafkaSink, NewTopic, OwnedPartition, Transaction, TransactionalSink,
    create_topics,
};
use kafka_chain::transport::{Settings, TransactionError};
use kafka_chain::{ErrorKind, OutgoingRecord, Status};
use std::collections::BTreeMap;
use tokio::time::timeout;

struct Rig {
    servers: String,
    name: String,
}

/// Topics `<name>-0` (the source), `-1` and `-small` (1,000 bytes a batch), or nothing without Kafka.
async fn rig(name: &str) -> Option<Rig> {
    let servers = real::kafka()?;
    let name = format!("transactions-{name}-{}", std::process::id());
    let rig = Rig { servers, name };
    let mut small = NewTopic::new(rig.topic("small"), 1);
    small.config = BTreeMap::from([("max.message.bytes".to_owned(), "1000".to_owned())]);
    let topics = vec![
        NewTopic::new(rig.topic("0"), 1),
        NewTopic::new(rig.topic("1"), 1),
        small,
    ];
    create_topics(&rig.settings(), topics, PATIENCE)
        .await
        .unwrap();
    Some(rig)
}

impl Rig {
    fn topic(&self, suffix: &str) -> String {
        format!("{}-{suffix}", self.name)
    }

    fn settings(&self) -> Settings {
        let mut own = Settings::new();
        own.set("bootstrap.servers", &self.servers)
            .set("reconnect.backoff.ms", "10");
        own
    }

    fn sink(&self) -> TransactionalSink {
        TransactionalSink::start(&self.settings(), &self.name).unwrap()
    }

    fn record(&self, suffix: &str, value: &str) -> OutgoingRecord {
        OutgoingRecord {
            topic: self.topic(suffix),
            partition: Some(0),
            value: Some(Bytes::copy_from_slice(value.as_bytes())),
            ..OutgoingRecord::default()
        }
    }

    /// What a `read_committed` reader sees of a topic, up to a last record written for it.
    async fn committed(&self, suffix: &str) -> Vec<String> {
        let sink = KafkaSink::start(&self.settings()).unwrap();
        sink.send(self.record(suffix, "end")).await.unwrap();
        let group = format!("{}-reader", self.name);
        let settings = settings(&self.servers, &group, &[("session.timeout.ms", "6000")]);
        let mut reader = start(&settings, &self.topic(suffix));
        let mut records = assigned(&mut reader).await.remove(0).reader;
        let mut seen = Vec::new();
        loop {
            let batch = timeout(PATIENCE, records.next_batch(1000)).await;
            for record in batch.unwrap().unwrap() {
                let value = record.record().value.unwrap().to_vec();
                match String::from_utf8(value).unwrap() {
                    end if end == "end" => return seen,
                    value => seen.push(value),
                }
            }
        }
    }

    async fn member(&self) -> (GroupConsumer, OwnedPartition) {
        let settings = settings(&self.servers, &self.name, &[("session.timeout.ms", "6000")]);
        let mut member = start(&settings, &self.topic("0"));
        let owned = assigned(&mut member).await.remove(0).partition;
        (member, owned)
    }
}

async fn transact(sink: &TransactionalSink, work: Transaction) -> Result<(), TransactionError> {
    timeout(PATIENCE, sink.transact(work)).await.unwrap()
}

fn records(records: Vec<OutgoingRecord>) -> Transaction {
    Transaction {
        records,
        ..Transaction::default()
    }
}

#[tokio::test]
async fn records_and_offsets_are_committed_together() {
    let Some(rig) = rig("together").await else {
        return;
    };
    let (member, owned) = rig.member().await;
    let (handle, sink) = (member.handle(), rig.sink());
    let partitions = [owned.clone()];
    assert_eq!(handle.committed(&partitions).await.unwrap(), [None]);
    for (offset, value) in [(3, "a"), (5, "b")] {
        let work = Transaction {
            records: vec![rig.record("1", value), rig.record("1", value)],
            offsets: vec![Commit::new(owned.clone(), offset)],
            group: Some(handle.group_metadata()),
        };
        transact(&sink, work).await.unwrap();
        assert_eq!(handle.committed(&partitions).await.unwrap(), [Some(offset)]);
    }
    assert_eq!(rig.committed("1").await, ["a", "a", "b", "b"]);
    member.close(Vec::new(), PATIENCE).await;
}

/// What failed leaves nothing visible and commits nothing; the same producer goes on.
#[tokio::test]
async fn a_record_too_large_aborts_and_is_named() {
    let Some(rig) = rig("large").await else {
        return;
    };
    let (member, owned) = rig.member().await;
    let (handle, sink) = (member.handle(), rig.sink());
    let large = "x".repeat(2_000);
    let work = Transaction {
        records: vec![
            rig.record("1", "a"),
            rig.record("small", "b"),
            rig.record("small", &large),
            rig.record("small", "c"),
        ],
        offsets: vec![Commit::new(owned.clone(), 3)],
        group: Some(handle.group_metadata()),
    };
    let error = transact(&sink, work.clone()).await.unwrap_err();
    let TransactionError::Aborted { error, record } = error else {
        panic!("{error:?}");
    };
    assert_eq!(
        (record, error.status()),
        (Some(2), Status::Permanent),
        "{error}"
    );
    assert!(error.message().contains(&rig.topic("small")), "{error}");
    assert!(!error.to_string().contains("xxx"), "{error}");
    let owned = [owned];
    assert_eq!(handle.committed(&owned).await.unwrap(), [None]);
    let mut shorter = work;
    shorter.records.remove(2);
    transact(&sink, shorter).await.unwrap();
    assert_eq!(handle.committed(&owned).await.unwrap(), [Some(3)]);
    assert_eq!(rig.committed("1").await, ["a"]);
    assert_eq!(rig.committed("small").await, ["b", "c"]);
    member.close(Vec::new(), PATIENCE).await;
}

/// Records that fit alone and not together are sent one by one; a locally refused one is named.
#[tokio::test]
async fn a_batch_too_large_is_sent_record_by_record() {
    let Some(rig) = rig("batch").await else {
        return;
    };
    let sink = rig.sink();
    let half = "h".repeat(700);
    let work = records(vec![rig.record("small", &half), rig.record("small", &half)]);
    transact(&sink, work).await.unwrap();
    assert_eq!(rig.committed("small").await, [half.clone(), half]);

    let huge = "x".repeat(2_000_000);
    let work = records(vec![rig.record("1", "a"), rig.record("1", &huge)]);
    let error = transact(&sink, work).await.unwrap_err();
    assert!(
        matches!(
            error,
            TransactionError::Aborted {
                record: Some(1),
                ..
            }
        ),
        "{error:?}"
    );
    assert_eq!(rig.committed("1").await, Vec::<String>::new());
}

#[tokio::test]
async fn a_missing_topic_or_partition_is_named_at_once_and_found_once_it_is_there() {
    let Some(rig) = rig("missing").await else {
        return;
    };
    let sink = rig.sink();
    let mut wrong = rig.record("1", "x");
    wrong.partition = Some(7);
    for (work, status) in [
        (rig.record("later", "x"), Status::Temporary),
        (wrong, Status::Permanent),
    ] {
        let work = records(vec![rig.record("1", "a"), work]);
        let error = transact(&sink, work).await.unwrap_err();
        let TransactionError::Aborted { error, record } = error else {
            panic!("{error:?}");
        };
        assert_eq!((record, error.status()), (Some(1), status), "{error}");
    }
    let topics = vec![NewTopic::new(rig.topic("later"), 1)];
    create_topics(&rig.settings(), topics, PATIENCE)
        .await
        .unwrap();
    transact(&sink, records(vec![rig.record("later", "x")]))
        .await
        .unwrap();
    assert_eq!(rig.committed("later").await, ["x"]);
    assert_eq!(rig.committed("1").await, Vec::<String>::new());
}

#[tokio::test]
async fn the_later_producer_of_an_id_ends_the_earlier() {
    let Some(rig) = rig("fenced").await else {
        return;
    };
    let first = rig.sink();
    transact(&first, records(vec![rig.record("1", "a")]))
        .await
        .unwrap();
    let second = rig.sink();
    transact(&second, Transaction::default()).await.unwrap();
    let error = transact(&first, records(vec![rig.record("1", "zombie")])).await;
    let error = error.unwrap_err();
    assert!(matches!(error, TransactionError::Fatal(_)), "{error:?}");
    let again = transact(&first, records(vec![rig.record("1", "zombie")])).await;
    assert!(matches!(again, Err(TransactionError::Fatal(_))));
    transact(&second, records(vec![rig.record("1", "b")]))
        .await
        .unwrap();
    assert_eq!(rig.committed("1").await, ["a", "b"]);
}

/// FC-069: nothing of an ownership that is over is committed, though the group knows the member.
#[tokio::test]
async fn offsets_of_an_ended_ownership_abort() {
    let Some(rig) = rig("stale").await else {
        return;
    };
    let (member, owned) = rig.member().await;
    let (handle, sink) = (member.handle(), rig.sink());
    let mut stale = owned.clone();
    stale.ownership += 1;
    let work = |owned: &OwnedPartition, value: &str| Transaction {
        records: vec![rig.record("1", value)],
        offsets: vec![Commit::new(owned.clone(), 1)],
        group: Some(handle.group_metadata()),
    };
    let error = transact(&sink, work(&stale, "stale")).await.unwrap_err();
    assert!(
        matches!(error, TransactionError::Aborted { record: None, .. }),
        "{error:?}"
    );
    transact(&sink, work(&owned, "now")).await.unwrap();
    member.close(Vec::new(), PATIENCE).await;
    let error = transact(&sink, work(&owned, "late")).await.unwrap_err();
    assert_eq!(error.error().kind(), ErrorKind::Unavailable);
    assert_eq!(rig.committed("1").await, ["now"]);
}

/// A dropped future leaves the transaction to its end; a dropped producer leaves nothing open.
#[tokio::test]
async fn what_is_dropped_is_whole_or_not_there() {
    let Some(rig) = rig("dropped").await else {
        return;
    };
    let sink = rig.sink();
    transact(&sink, Transaction::default()).await.unwrap();
    let dropped = sink.transact(records(vec![rig.record("1", "a"), rig.record("1", "a")]));
    let soon = timeout(std::time::Duration::from_millis(1), dropped).await;
    drop(soon);
    drop(sink);
    let next = rig.sink();
    transact(&next, records(vec![rig.record("1", "b")]))
        .await
        .unwrap();
    let seen = rig.committed("1").await;
    assert!(
        seen == ["a", "a", "b"] || seen == ["b"],
        "all or nothing: {seen:?}"
    );
}
