//! Records through the Kafka transport: bytes, offsets and outages.
#![cfg(feature = "kafka")]

mod kafka_support;

use bytes::Bytes;
use kafka_chain::OutgoingRecord;
use kafka_chain::transport::kafka::{EmbeddedBroker, KafkaSource, NewTopic, create_topics};
use kafka_chain::{Headers, OwnedRecord, Status, Timestamp};
use kafka_support::{PATIENCE, next, settings, sink, source, text, value};
use std::time::Duration;
use tokio::time::timeout;

/// FC-013: null and empty stay apart in key, value and header value, in all 27 combinations.
#[tokio::test]
async fn null_and_empty_come_back_as_they_went() {
    let broker = EmbeddedBroker::start(1).unwrap();
    broker.create_topic("matrix", 1).unwrap();
    let sink = sink(&broker);
    let forms: [Option<&'static [u8]>; 3] = [None, Some(b""), Some(b"a")];
    let mut sent = Vec::new();
    for key in forms {
        for value in forms {
            for header in forms {
                let offset = i64::try_from(sent.len()).unwrap();
                let record = OwnedRecord {
                    topic: "matrix".to_owned(),
                    partition: 0,
                    offset,
                    timestamp: Timestamp::CreateTime(1_700_000_000_000 + offset),
                    key: key.map(Bytes::from_static),
                    value: value.map(Bytes::from_static),
                    headers: [("h", header)].into_iter().collect(),
                };
                let mut out = OutgoingRecord::from(record.clone());
                out.partition = Some(0);
                let delivered = sink.send(out).await.unwrap();
                assert_eq!((delivered.partition, delivered.offset), (0, offset));
                sent.push(record);
            }
        }
    }
    let mut source = source(&broker, "matrix", "matrix");
    for expected in sent {
        let got = next(&mut source).await;
        assert_eq!(got.record().to_owned(), expected);
    }
    source.close().await;
}

/// FC-018: header names and values of any bytes, repeats, nulls and order survive both ways.
#[tokio::test]
async fn headers_come_back_byte_for_byte() {
    let broker = EmbeddedBroker::start(1).unwrap();
    broker.create_topic("headers", 1).unwrap();
    let sink = sink(&broker);
    let sig: &[u8] = &[0xC3, 0x28, 0xFF, 0x00];
    let everything: Vec<u8> = (0..=255).collect();
    let mut headers = Headers::new();
    for (name, value) in [
        (&b"sig"[..], Some(sig)),
        (b"repeat", Some(b"1")),
        (b"repeat", None),
        (b"repeat", Some(b"")),
        (&[0xFF, 0xFE, b'n'], Some(b"not UTF-8")),
        (b"", Some(b"no name")),
        ("h\u{e9}".as_bytes(), Some(&everything[..])),
        (b"Repeat", Some(b"another name")),
    ] {
        headers.push(
            Bytes::copy_from_slice(name),
            value.map(Bytes::copy_from_slice),
        );
    }
    for _ in 0..2 {
        let mut out = value("headers", "v");
        out.headers = headers.clone();
        sink.send(out).await.unwrap();
    }
    sink.send(value("headers", "none")).await.unwrap();

    let mut source = source(&broker, "headers", "headers");
    for _ in 0..2 {
        let got = next(&mut source).await;
        let record = got.record();
        assert!(got.has_readable_headers());
        assert_eq!(record.headers.len(), 8);
        assert_eq!(record.headers.get(8), None);
        assert_eq!(record.headers.get(usize::MAX), None);
        assert_eq!(record.headers.to_owned(), headers);
        assert_eq!(record.headers.get_last("sig"), Some(Some(sig)));
        assert_eq!(record.headers.get_last("repeat"), Some(Some(&b""[..])));
        assert_eq!(record.headers.get_last(b"absent"), None);
        // A dead letter's copy: the same once more.
        let mut copy = OutgoingRecord::from(record.to_owned());
        copy.partition = Some(0);
        assert_eq!(copy.headers, headers);
    }
    let bare = next(&mut source).await;
    assert!(bare.record().headers.is_empty());
    assert!(bare.has_readable_headers());
    source.close().await;
}

/// librdkafka's limit, kept in sight: a name ends at its first NUL.
#[tokio::test]
async fn a_header_name_with_a_nul_is_seen_up_to_it() {
    let broker = EmbeddedBroker::start(1).unwrap();
    broker.create_topic("nul", 1).unwrap();
    let mut out = value("nul", "v");
    out.headers.push(&b"a\0b"[..], Some(&b"x\0y"[..]));
    sink(&broker).send(out).await.unwrap();
    let mut source = source(&broker, "nul", "nul");
    let got = next(&mut source).await;
    assert_eq!(
        got.record().headers.get(0),
        Some((&b"a"[..], Some(&b"x\0y"[..])))
    );
}

/// The headers of one message read from many threads at once: the lazy parse happens once.
#[tokio::test]
async fn headers_can_be_read_from_several_threads() {
    let broker = EmbeddedBroker::start(1).unwrap();
    broker.create_topic("threads", 1).unwrap();
    let sink = sink(&broker);
    for _ in 0..50 {
        let mut out = value("threads", "v");
        out.headers = (0..20)
            .map(|n| (format!("h{n}"), Some(format!("{n}"))))
            .collect();
        sink.send(out).await.unwrap();
    }
    let mut source = source(&broker, "threads", "threads");
    for _ in 0..50 {
        let got = next(&mut source).await;
        std::thread::scope(|scope| {
            let read = || got.record().headers.iter().count();
            let other = scope.spawn(read);
            assert_eq!((read(), other.join().unwrap()), (20, 20));
        });
    }
}

/// FC-054: handing a record out stores nothing, whatever the settings say; what was stored and
/// committed is where the next member resumes.
#[tokio::test]
async fn the_group_resumes_after_the_last_stored_and_committed_record() {
    let broker = EmbeddedBroker::start(1).unwrap();
    broker.create_topic("resume", 1).unwrap();
    let sink = sink(&broker);
    for n in 0..6 {
        sink.send(value("resume", &n.to_string())).await.unwrap();
    }
    let start = || {
        let settings = settings(
            &broker.bootstrap_servers(),
            &[
                ("group.id", "resume"),
                ("session.timeout.ms", "1500"),
                ("heartbeat.interval.ms", "100"),
                ("enable.auto.commit", "true"),
                ("auto.commit.interval.ms", "10"),
                ("enable.auto.offset.store", "true"),
            ],
        );
        KafkaSource::start(&settings, &["resume"]).unwrap()
    };

    let mut first = start();
    first.commit().await.expect("nothing stored is fine");
    for n in 0..3 {
        let record = next(&mut first).await;
        assert_eq!(text(&record), n.to_string());
        if n < 2 {
            assert!(first.store(&record).unwrap());
        }
    }
    first.commit().await.unwrap();
    // Received, never stored, and auto-commit has had its chance.
    let unfinished = next(&mut first).await;
    assert_eq!(text(&unfinished), "3");
    tokio::time::sleep(Duration::from_millis(50)).await;
    timeout(PATIENCE, first.close())
        .await
        .expect("closing does not wait for records in hand");
    assert_eq!(text(&unfinished), "3", "a record outlives its source");

    let mut second = start();
    for n in 2..6 {
        let record = next(&mut second).await;
        assert_eq!(text(&record), n.to_string());
        second.store(&record).unwrap();
    }
    // Not committed by hand: closing commits what was stored.
    timeout(PATIENCE, second.close()).await.unwrap();
    drop(unfinished);

    sink.send(value("resume", "6")).await.unwrap();
    let mut third = start();
    assert_eq!(text(&next(&mut third).await), "6");
}

#[tokio::test]
async fn a_record_of_a_lost_partition_is_not_stored() {
    let broker = EmbeddedBroker::start(1).unwrap();
    broker.create_topic("lost", 1).unwrap();
    sink(&broker).send(value("lost", "v")).await.unwrap();
    let mut first = source(&broker, "lost", "lost");
    let record = next(&mut first).await;
    first.close().await;
    let second = source(&broker, "lost-2", "lost");
    assert!(!second.store(&record).unwrap());
}

/// FC-048, with a real outage: records flow again when the broker is back, both ways.
#[tokio::test]
async fn source_and_sink_survive_an_outage() {
    let broker = EmbeddedBroker::start(1).unwrap();
    broker.create_topic("outage", 1).unwrap();
    let sink = sink(&broker);
    let mut source = source(&broker, "outage", "outage");
    sink.send(value("outage", "before")).await.unwrap();
    assert_eq!(text(&next(&mut source).await), "before");

    broker.take_down(1).unwrap();
    let waiting = tokio::spawn({
        let sink = sink.clone();
        async move { sink.send(value("outage", "during")).await }
    });
    let none = timeout(Duration::from_millis(300), source.recv()).await;
    assert!(none.is_err(), "{none:?}");
    let warning = source.take_warning().expect("the outage is noted");
    assert_eq!(warning.status(), Status::Temporary);
    assert!(!waiting.is_finished());

    broker.bring_up(1).unwrap();
    timeout(PATIENCE, waiting).await.unwrap().unwrap().unwrap();
    assert_eq!(text(&next(&mut source).await), "during");
    timeout(PATIENCE, source.close()).await.unwrap();
}

#[tokio::test]
async fn creating_topics_without_a_broker_ends_within_its_limit() {
    let topics = vec![NewTopic::new("t", 1)];
    // Nobody listens on the discard port of this machine.
    let nowhere = settings("127.0.0.1:9", &[]);
    let error = create_topics(&nowhere, topics, Duration::from_millis(200))
        .await
        .unwrap_err();
    assert_eq!(error.status(), Status::Temporary, "{error}");
}
