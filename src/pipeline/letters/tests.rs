//! What must hold of a writer whatever the cluster does, on one that does what it is told.

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

/// FC-033.
#[tokio::test(start_paused = true)]
async fn a_small_letter_is_not_shortened_by_a_large_neighbours_fault() {
    let topic = Topic {
        largest: 2_000,
        ..Topic::of(1)
    };
    let cluster = Cluster::with(&[(DEAD, topic)]);
    let writer = writer(&cluster);
    let (large, small) = ("x".repeat(5_000), "y".repeat(100));
    let writes = [failed(0, &large), failed(1, &small)].map(|failed| writer.write(&failed));
    let [large, small] = writes.map(tokio::spawn);
    acknowledged(small.await.unwrap());
    acknowledged(large.await.unwrap());
    let written = cluster.written();
    assert_eq!(written.len(), 2, "each once");
    for record in written {
        let (_, info) = read(record.headers.view()).unwrap();
        let size = record.value.as_ref().unwrap().len();
        match info.offset() {
            Some(0) => assert_eq!((size, left_out(&record)), (0, Some(5_000))),
            _ => assert_eq!((size, left_out(&record)), (100, None)),
        }
    }
    let started = cluster.state().started.clone();
    let alone = |settings: &&Settings| settings.get("batch.num.messages") == Some("1");
    assert_eq!(started.iter().filter(alone).count(), 1, "when it is needed");
}

/// FC-019: full, shortened, without value, then held; never dropped, never a hot loop.
#[tokio::test(start_paused = true)]
async fn each_step_is_tried_before_the_next_and_the_last_holds_or_stops() {
    let mut error = Error::malformed("é".repeat(100_000));
    for n in 0..40 {
        error = error.with_source(Error::malformed(format!("cause {n} {}", "é".repeat(2_000))));
    }
    let (value, error) = ("v".repeat(10_000), Arc::new(error));
    let large = || Failed {
        error: Arc::clone(&error),
        ..failed(0, &value)
    };
    let sizes = |largest| Topic {
        largest,
        ..Topic::of(1)
    };
    let cluster = Cluster::with(&[(DEAD, sizes(100_000))]);
    let writer = writer(&cluster);
    let causes = |record: &OutgoingRecord| {
        let (_, info) = read(record.headers.view()).unwrap();
        info.causes().is_some()
    };

    acknowledged(writer.write(&large()).await);
    let record = cluster.state().written.pop().unwrap();
    assert!(causes(&record) && left_out(&record).is_none());

    cluster.set(DEAD, sizes(12_000));
    acknowledged(writer.write(&large()).await);
    let record = cluster.state().written.pop().unwrap();
    assert!(!causes(&record) && left_out(&record).is_none());
    assert_eq!(record.value.as_deref(), Some(value.as_bytes()));

    cluster.set(DEAD, sizes(2_000));
    acknowledged(writer.write(&large()).await);
    let record = cluster.state().written.pop().unwrap();
    assert_eq!(left_out(&record), Some(10_000));
    assert_eq!(record.key.as_deref(), Some(&b"k"[..]));

    cluster.set(DEAD, sizes(10));
    cluster.state().queued.clear();
    let error = held(writer.write(&large()).await);
    let tries = cluster.state().queued.len();
    assert_eq!(tries, 4, "with its batch, and once a step");
    assert!(cluster.written().is_empty());
    let text = error.message();
    for told in [DEAD, "orders-0@0", "10000 bytes"] {
        assert!(text.contains(told), "{text}");
    }
    assert!(!format!("{error:#}").contains("vvv"), "no payload");

    let mut stopping = settings();
    stopping.too_large = TooLarge::Stop;
    let stopping = writer_with(&cluster, &stopping);
    let written = stopping.write(&large()).await;
    assert!(matches!(written, Written::Refused(_)), "{written:?}");

    cluster.set(DEAD, sizes(100_000));
    acknowledged(writer.write(&large()).await);
    assert_eq!(cluster.written().len(), 1, "whole again");
}

#[tokio::test(start_paused = true)]
async fn a_step_that_changes_nothing_is_left_out() {
    let topic = Topic {
        largest: 10,
        ..Topic::of(1)
    };
    let cluster = Cluster::with(&[(DEAD, topic)]);
    let null = Failed {
        record: Arc::new(OwnedRecord {
            topic: "orders".to_owned(),
            ..OwnedRecord::default()
        }),
        ..failed(0, "")
    };
    held(writer(&cluster).write(&null).await);
    assert_eq!(
        cluster.state().queued.len(),
        3,
        "there is no value to leave out"
    );
}

#[tokio::test(start_paused = true)]
async fn a_right_that_is_given_is_seen_without_a_restart_and_costs_others_nothing() {
    let closed = Topic {
        granted: false,
        ..Topic::of(1)
    };
    let cluster = Cluster::with(&[("closed", closed), ("open", Topic::of(1))]);
    let writer = writer(&cluster).route(|failed| {
        let open = failed.record.offset >= 100;
        Some(if open { "open" } else { "closed" }.to_owned())
    });
    acknowledged(writer.write(&failed(100, "v")).await);
    let error = held(writer.write(&failed(0, "v")).await);
    assert_eq!(WriteFailure::of(&error), Some(WriteFailure::Unauthorized));
    assert!(error.message().contains("closed"), "{error}");
    cluster.set("closed", Topic::of(1));
    // The client remembers, and no other is started so soon.
    held(writer.write(&failed(0, "v")).await);
    assert_eq!(cluster.starts(), 1);
    advance(BETWEEN_STARTS).await;
    acknowledged(writer.write(&failed(0, "v")).await);
    assert_eq!(cluster.starts(), 2);
    acknowledged(writer.write(&failed(101, "v")).await);
    let clients = |topic: &str| {
        let state = cluster.state();
        let queued = state
            .queued
            .iter()
            .filter(|(_, record)| record.topic == topic);
        queued.map(|(client, _)| *client).collect::<Vec<_>>()
    };
    assert_eq!(clients("closed"), [1, 1, 2]);
    assert_eq!(clients("open"), [1, 1], "its client stays the same");
}

#[tokio::test(start_paused = true)]
async fn however_often_it_fails_a_client_is_started_once_a_second() {
    let closed = Topic {
        granted: false,
        ..Topic::of(1)
    };
    let cluster = Cluster::with(&[(DEAD, closed)]);
    let writer = writer(&cluster);
    let began = Instant::now();
    for n in 0..1_000 {
        held(writer.write(&failed(n, "v")).await);
    }
    let seconds = usize::try_from(began.elapsed().as_secs()).unwrap();
    let starts = cluster.starts();
    assert!(
        (seconds / 2..=seconds + 1).contains(&starts),
        "{starts} in {seconds} s"
    );
}

#[tokio::test(start_paused = true)]
async fn a_fatal_error_replaces_the_client_of_every_topic() {
    let cluster = Cluster::with(&[("a", Topic::of(1)), ("b", Topic::of(1))]);
    let writer = writer(&cluster)
        .route(|failed| Some(if failed.record.offset == 0 { "a" } else { "b" }.to_owned()));
    acknowledged(writer.write(&failed(1, "v")).await);
    cluster.state().next = Some(Error::unavailable("fatal").with_source(WriteFailure::Fatal));
    held(writer.write(&failed(0, "v")).await);
    advance(BETWEEN_STARTS).await;
    acknowledged(writer.write(&failed(0, "v")).await);
    acknowledged(writer.write(&failed(1, "v")).await);
    assert_eq!(cluster.starts(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_start_holds_and_is_tried_again() {
    let cluster = Cluster::with(&[(DEAD, Topic::of(1))]);
    let writer = writer(&cluster);
    cluster.state().next = Some(Error::unavailable("fatal").with_source(WriteFailure::Fatal));
    held(writer.write(&failed(0, "v")).await);
    cluster.state().refuses_to_start = true;
    advance(BETWEEN_STARTS).await;
    let error = held(writer.write(&failed(0, "v")).await);
    assert!(error.message().contains("certificate"), "{error}");
    cluster.state().refuses_to_start = false;
    advance(BETWEEN_STARTS).await;
    acknowledged(writer.write(&failed(0, "v")).await);
}

/// FC-024.
#[tokio::test(start_paused = true)]
async fn a_missing_topic_is_named_and_found_once_it_exists() {
    let cluster = Cluster::default();
    let writer = writer(&cluster);
    let writes: Vec<_> = (0..500)
        .map(|n| tokio::spawn(writer.write(&failed(n, "v"))))
        .collect();
    for write in writes {
        let error = held(write.await.unwrap());
        assert_eq!(error.message(), format!("topic {DEAD} does not exist"));
    }
    let state = cluster.state().looks;
    assert_eq!(state, 1, "those that wait share one look");
    assert!(cluster.state().queued.is_empty(), "nothing is sent there");
    cluster.set(DEAD, Topic::of(1));
    acknowledged(writer.write(&failed(0, "v")).await);
    assert_eq!(cluster.starts(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_topic_that_is_deleted_and_comes_back_is_noticed() {
    let cluster = Cluster::with(&[(DEAD, Topic::of(1))]);
    let writer = writer(&cluster);
    acknowledged(writer.write(&failed(0, "v")).await);
    cluster.state().topics.clear();
    held(writer.write(&failed(1, "v")).await);
    let error = held(writer.write(&failed(1, "v")).await);
    assert!(error.message().contains("does not exist"), "{error}");
    cluster.set(DEAD, Topic::of(1));
    acknowledged(writer.write(&failed(1, "v")).await);
}

/// The first poll is all that the worker gives each write before the next one.
#[tokio::test(start_paused = true)]
async fn letters_are_written_in_the_order_of_their_first_polls() {
    let cluster = Cluster::with(&[(DEAD, Topic::of(1))]);
    let writer = writer(&cluster);
    // The second round finds the topic known; both use up a task's budget many times over.
    for round in 0..2 {
        let mut writes = Vec::new();
        for n in 0..1_000 {
            let mut write = writer.write(&failed(round * 1_000 + n, "v"));
            let mut context = Context::from_waker(Waker::noop());
            assert!(write.as_mut().poll(&mut context).is_pending());
            writes.push(write);
        }
        // Polled the other way round from then on.
        for write in writes
            .into_iter()
            .rev()
            .map(tokio::spawn)
            .collect::<Vec<_>>()
        {
            acknowledged(write.await.unwrap());
        }
    }
    assert_eq!(
        offsets(&cluster.written()),
        (0..2_000).collect::<Vec<_>>(),
        "in order"
    );
    assert_eq!(cluster.state().looks, 1);
}

#[tokio::test(start_paused = true)]
async fn a_known_topic_is_queued_for_by_the_first_poll() {
    let cluster = Cluster::with(&[(DEAD, Topic::of(1))]);
    let writer = writer(&cluster);
    acknowledged(writer.write(&failed(0, "v")).await);
    let mut write = writer.write(&failed(1, "v"));
    let mut context = Context::from_waker(Waker::noop());
    assert!(matches!(write.as_mut().poll(&mut context), Poll::Pending));
    assert_eq!(cluster.state().queued.len(), 2);
}

/// FC-022: no such partition there, or no longer.
#[tokio::test(start_paused = true)]
async fn the_partition_is_the_sources_where_there_is_one() {
    let cluster = Cluster::with(&[(DEAD, Topic::of(6))]);
    let writer = writer(&cluster);
    let of_five = || {
        let mut failed = failed(0, "v");
        Arc::make_mut(&mut failed.record).partition = 5;
        failed
    };
    acknowledged(writer.write(&of_five()).await);
    cluster.set(DEAD, Topic::of(1));
    acknowledged(writer.write(&of_five()).await);
    assert_eq!(cluster.state().looks, 2);
    cluster.set(DEAD, Topic::of(6));
    acknowledged(writer.write(&of_five()).await);
    sleep(Duration::from_secs(61)).await;
    acknowledged(writer.write(&of_five()).await);
    let partitions: Vec<_> = cluster.written().iter().map(|r| r.partition).collect();
    assert_eq!(partitions, [Some(5), None, None, Some(5)]);
}

/// FC-030: what was only queued is not written.
#[tokio::test(start_paused = true)]
async fn nothing_counts_as_written_before_it_is_acknowledged() {
    let cluster = Cluster::with(&[(DEAD, Topic::of(1))]);
    let writer = writer(&cluster);
    acknowledged(writer.write(&failed(0, "v")).await);
    cluster.state().down = true;
    let error = held(writer.write(&failed(1, "v")).await);
    assert!(error.message().contains(DEAD), "{error}");
    assert_eq!(
        cluster.state().queued.len(),
        2,
        "what was known was believed"
    );
    // Dropped in flight: it may be there or not, and nobody was told that it is.
    let mut write = writer.write(&failed(2, "v"));
    let early = timeout(UNANSWERED / 2, &mut write).await;
    assert!(early.is_err());
    drop(write);
    // Closed in flight.
    cluster.state().down = false;
    acknowledged(writer.write(&failed(2, "v")).await);
    cluster.state().down = true;
    let write = tokio::spawn(writer.write(&failed(3, "v")));
    tokio::task::yield_now().await;
    let closed = writer.producer().close(Duration::from_secs(1)).await;
    assert!(closed.is_err(), "what was queued is not acknowledged");
    held(write.await.unwrap());
    let error = held(writer.write(&failed(3, "v")).await);
    assert!(error.message().contains("closed"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn those_that_wait_for_a_cluster_that_is_down_wait_once() {
    let cluster = Cluster::with(&[(DEAD, Topic::of(1))]);
    cluster.state().down = true;
    let writer = writer(&cluster);
    let writes: Vec<_> = (0..100)
        .map(|n| tokio::spawn(writer.write(&failed(n, "v"))))
        .collect();
    for write in writes {
        let error = timeout(UNANSWERED * 2, write).await.unwrap().unwrap();
        assert!(held(error).message().contains(DEAD));
    }
    assert_eq!(cluster.state().looks, 1);
    cluster.state().down = false;
    acknowledged(writer.write(&failed(0, "v")).await);
}

#[tokio::test(start_paused = true)]
async fn a_route_may_choose_but_never_the_topic_the_record_came_from() {
    let cluster = Cluster::with(&[("chosen", Topic::of(1)), (DEAD, Topic::of(1))]);
    let route = |failed: &Failed| match failed.record.offset {
        0 => Some("chosen".to_owned()),
        1 => None,
        2 => Some("orders".to_owned()),
        _ => Some("no such name".to_owned()),
    };
    let writer = writer(&cluster).route(route);
    acknowledged(writer.write(&failed(0, "v")).await);
    acknowledged(writer.write(&failed(1, "v")).await);
    let topics: Vec<_> = cluster.written().into_iter().map(|r| r.topic).collect();
    assert_eq!(topics, ["chosen", DEAD]);
    for offset in [2, 3] {
        let written = writer.write(&failed(offset, "v")).await;
        assert!(matches!(written, Written::Refused(_)), "{written:?}");
        assert!(writer.rung(&failed(offset, "v"), Rung::Full).is_err());
    }
    assert_eq!(cluster.state().queued.len(), 2);
}

/// FC-027: the source's timestamp only where it was asked for, is one, and is accepted.
#[tokio::test(start_paused = true)]
async fn a_timestamp_that_is_not_accepted_gives_way_to_the_time_of_writing() {
    let topic = Topic {
        oldest: 1_000,
        ..Topic::of(1)
    };
    let cluster = Cluster::with(&[(DEAD, topic)]);
    let mut settings = settings();
    settings.timestamp = Some(TimestampPolicy::Source);
    let copying = writer_with(&cluster, &settings);
    let at = |timestamp| {
        let mut failed = failed(0, "v");
        Arc::make_mut(&mut failed.record).timestamp = timestamp;
        failed
    };
    for timestamp in [
        Timestamp::CreateTime(5_000),
        Timestamp::CreateTime(5),
        Timestamp::CreateTime(0),
        Timestamp::NotAvailable,
    ] {
        acknowledged(copying.write(&at(timestamp)).await);
    }
    acknowledged(
        writer(&cluster)
            .write(&at(Timestamp::CreateTime(5_000)))
            .await,
    );
    let written = cluster.written();
    let timestamps: Vec<_> = written.iter().map(|record| record.timestamp).collect();
    assert_eq!(timestamps, [Some(5_000), None, None, None, None]);
    let (_, info) = read(written[1].headers.view()).unwrap();
    assert_eq!(info.timestamp(), Timestamp::CreateTime(5));
}

#[tokio::test(start_paused = true)]
async fn what_a_handler_gave_up_is_told_as_the_handlers() {
    let cluster = Cluster::with(&[(DEAD, Topic::of(1))]);
    let mut settings = settings();
    settings.dialects = vec![Dialect::KafkaChain, Dialect::Connect];
    let failed = Failed {
        origin: Origin::Handler,
        error: Arc::new(Error::unavailable("down").at("handler")),
        attempts: 7,
        ..failed(0, "v")
    };
    acknowledged(writer_with(&cluster, &settings).write(&failed).await);
    let record = cluster.written().remove(0);
    let header = |name: &str| record.headers.view().get_last(name).flatten();
    assert_eq!(header("kafka-chain-part"), Some(&b"handler"[..]));
    assert_eq!(header("kafka-chain-attempts"), Some(&b"7"[..]));
    assert_eq!(header("__connect.errors.stage"), Some(&b"TASK_PUT"[..]));
    let (_, info) = read(record.headers.view()).unwrap();
    assert_eq!((info.part(), info.attempts()), (None, Some(7)));
}

#[tokio::test(start_paused = true)]
async fn what_a_handler_produces_is_written_in_order_or_held_as_one() {
    let largest = Topic {
        largest: 1_000,
        ..Topic::of(1)
    };
    let cluster = Cluster::with(&[("out", largest)]);
    let producer = cluster.producer();
    let out = |topic: &str, value: String| OutgoingRecord {
        topic: topic.to_owned(),
        value: Some(value.into()),
        ..OutgoingRecord::default()
    };
    let all: Arc<[_]> = (0..100).map(|n| out("out", n.to_string())).collect();
    acknowledged(producer.write_all(all).await);
    let values: Vec<_> = cluster.written().into_iter().map(|r| r.value).collect();
    let expected: Vec<_> = (0..100).map(|n| Some(Bytes::from(n.to_string()))).collect();
    assert_eq!(values, expected);

    // A neighbour that is too large is no fault of the others.
    cluster.state().written.clear();
    let mixed = [out("out", "x".repeat(5_000)), out("out", "small".into())];
    let error = held(producer.write_all(mixed.into()).await);
    assert_eq!(WriteFailure::of(&error), Some(WriteFailure::TooLarge));
    assert_eq!(cluster.written().len(), 1);

    let missing = [out("none", "v".into()), out("out", "v".into())];
    let error = held(producer.write_all(missing.into()).await);
    assert!(error.message().contains("none"), "{error}");
    acknowledged(producer.write_all([].into()).await);
    producer.flush(Duration::from_secs(1)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn topics_that_nobody_writes_to_are_forgotten() {
    let cluster = Cluster::default();
    let producer = cluster.producer();
    for n in 0..5_000 {
        cluster.set(&format!("t{n}"), Topic::of(1));
        let partitions = producer.partitions(&format!("t{n}")).await.unwrap();
        assert_eq!(partitions, Some(1));
    }
    assert!(producer.remembered() <= 1_000);
}
