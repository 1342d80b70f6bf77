//! Sending through the Kafka transport: full queues, placement and errors.
#![cfg(feature = "kafka")]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod kafka_support;

use kafka_chain::transport::kafka::{EmbeddedBroker, KafkaSink, KafkaSource};
use kafka_chain::{ErrorKind, Status};
use kafka_support::{PATIENCE, settings, sink, value};
use std::time::Duration;
use tokio::time::timeout;

/// FC-049: a queue of one record and no broker. The runtime stays free, each write ends with a
/// timeout error, and the end comes.
#[tokio::test]
async fn a_full_queue_blocks_neither_the_runtime_nor_for_ever() {
    let sink = KafkaSink::start(&settings(
        // Nobody listens on the discard port of this machine.
        "127.0.0.1:9",
        &[
            ("queue.buffering.max.messages", "1"),
            ("delivery.timeout.ms", "1000"),
            ("linger.ms", "0"),
        ],
    ))
    .unwrap();
    let writes: Vec<_> = (0..20)
        .map(|n| {
            let sink = sink.clone();
            tokio::spawn(async move { sink.send(value("dlq", &format!("secret-{n}"))).await })
        })
        .collect();
    // Every write has had its turn on the one thread, and all of them wait: none holds it.
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert!(!writes.iter().any(tokio::task::JoinHandle::is_finished));
    let mut ticks = 0;
    while !writes.iter().all(tokio::task::JoinHandle::is_finished) {
        tokio::time::sleep(Duration::from_millis(10)).await;
        ticks += 1;
    }
    // A queue that were waited for on this thread would leave room for one tick a write.
    assert!(ticks > writes.len(), "{ticks}");
    for write in writes {
        let error = write.await.unwrap().unwrap_err();
        assert_eq!(
            (error.kind(), error.status()),
            (ErrorKind::Timeout, Status::Temporary)
        );
        let shown = format!("{error:?}");
        assert!(
            shown.contains("dlq") && !shown.contains("secret"),
            "{shown}"
        );
    }
    timeout(PATIENCE, sink.flush()).await.unwrap().unwrap();
}

#[tokio::test]
async fn many_sends_at_once_pass_a_small_queue_in_order() {
    let broker = EmbeddedBroker::start(1).unwrap();
    broker.create_topic("small", 1).unwrap();
    let sink = KafkaSink::start(&settings(
        &broker.bootstrap_servers(),
        &[("queue.buffering.max.messages", "3"), ("linger.ms", "0")],
    ))
    .unwrap();
    let sends: Vec<_> = (0..100)
        .map(|n| {
            let sink = sink.clone();
            tokio::spawn(async move { sink.send(value("small", &n.to_string())).await })
        })
        .collect();
    for (n, send) in sends.into_iter().enumerate() {
        let delivered = timeout(PATIENCE, send).await.unwrap().unwrap().unwrap();
        assert_eq!(delivered.offset, i64::try_from(n).unwrap());
    }
}

#[tokio::test]
async fn keys_land_where_the_java_client_puts_them() {
    let broker = EmbeddedBroker::start(1).unwrap();
    broker.create_topic("keys", 12).unwrap();
    let sink = sink(&broker);
    for n in 0..20 {
        let key = format!("key-{n}");
        let expected = (java_murmur2(key.as_bytes()) & 0x7fff_ffff) % 12;
        let mut out = value("keys", "v");
        out.partition = None;
        out.key = Some(key.into());
        let delivered = sink.send(out).await.unwrap();
        assert_eq!(u32::try_from(delivered.partition), Ok(expected));
    }
}

/// MurmurHash2 with the seed of Kafka's default partitioner.
fn java_murmur2(data: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let mut hash = 0x9747_b28c ^ u32::try_from(data.len()).unwrap();
    let mut chunks = data.chunks_exact(4);
    for chunk in &mut chunks {
        let mut k = u32::from_le_bytes(chunk.try_into().unwrap()).wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    let rest = chunks.remainder();
    if !rest.is_empty() {
        for (index, byte) in rest.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * index);
        }
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> 15)
}

#[tokio::test]
async fn topics_are_looked_up_and_never_created_by_that() {
    let broker = EmbeddedBroker::start(1).unwrap();
    broker.create_topic("seven", 7).unwrap();
    let sink = sink(&broker);
    assert_eq!(sink.topic_partitions("seven").await.unwrap(), Some(7));
    assert_eq!(sink.topic_partitions("none").await.unwrap(), None);
    assert_eq!(sink.topic_partitions("none").await.unwrap(), None);
}

#[tokio::test]
async fn an_unknown_topic_is_temporary_and_a_record_too_large_is_permanent() {
    let broker = EmbeddedBroker::start(1).unwrap();
    broker.create_topic("there", 1).unwrap();
    let sink = KafkaSink::start(&settings(
        &broker.bootstrap_servers(),
        &[
            ("topic.metadata.propagation.max.ms", "100"),
            ("message.max.bytes", "2000"),
        ],
    ))
    .unwrap();
    let error = sink.send(value("missing", "v")).await.unwrap_err();
    assert_eq!(error.status(), Status::Temporary);
    assert!(error.message().contains("missing"), "{error}");

    let large = "x".repeat(3000);
    let error = sink.send(value("there", &large)).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.status()),
        (ErrorKind::Other, Status::Permanent)
    );
    assert!(!error.to_string().contains("xxx"), "{error}");
    sink.send(value("there", "fits")).await.unwrap();
}

#[tokio::test]
async fn wrong_settings_are_named_without_secrets() {
    let none = KafkaSource::start(&settings("127.0.0.1:9", &[]), &["t"]).unwrap_err();
    assert!(none.message().contains("group.id"), "{none}");
    let error = KafkaSink::start(&settings(
        "127.0.0.1:9",
        &[
            ("linger.ms", "soon"),
            ("max.poll.records", "1"),
            ("sasl.password", "hunter\0two"),
        ],
    ))
    .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    let text = error.to_string();
    for name in ["linger.ms", "max.poll.records", "sasl.password"] {
        assert!(text.contains(name), "{text}");
    }
    assert!(!text.contains("hunter"), "{text}");
    let error = KafkaSink::start(&settings("127.0.0.1:9", &[("acks", "0")])).unwrap_err();
    assert!(error.message().contains("acks"), "{error}");
}
