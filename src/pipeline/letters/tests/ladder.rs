//! What is too large, or dated as the broker does not like it.

use super::*;

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
