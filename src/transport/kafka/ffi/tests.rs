use super::*;
use bytes::Bytes;
use rdkafka::client::ClientContext;
use rdkafka::message::DeliveryResult;
use rdkafka::producer::BaseProducer;
use std::sync::atomic::{AtomicUsize, Ordering};

fn headers(all: &[(&[u8], Option<&[u8]>)]) -> Headers {
    all.iter()
        .map(|(name, value)| {
            (
                Bytes::copy_from_slice(name),
                value.map(Bytes::copy_from_slice),
            )
        })
        .collect()
}

#[test]
fn native_headers_keep_every_byte_null_and_repeat() {
    let everything: Vec<u8> = (0..=255).collect();
    let all = headers(&[
        (b"a", Some(b"1")),
        (b"a", None),
        (b"a", Some(b"")),
        (&[0xC3, 0x28, 0xFF], Some(&everything)),
        (b"", None),
    ]);
    let native = NewHeaders::of(&all).unwrap();
    assert_eq!(native.0.len(), 5);
    let read: Headers = (0..native.0.len())
        .filter_map(|index| native.0.get(index))
        .map(|(name, value)| {
            (
                Bytes::copy_from_slice(name),
                value.map(Bytes::copy_from_slice),
            )
        })
        .collect();
    assert_eq!(read, all);
}

#[test]
fn an_index_past_the_end_has_no_header() {
    let native = NewHeaders::of(&headers(&[(b"a", None)])).unwrap();
    // As librdkafka's int these would be 1, -1 and 0.
    for index in [1, usize::MAX, 1 << 32] {
        assert_eq!(native.0.get(index), None, "{index}");
    }
}

struct Counting(Arc<AtomicUsize>);

/// Counts its drops: each opaque must be dropped once, whatever becomes of its record.
struct Opaque(Arc<AtomicUsize>);

impl Drop for Opaque {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl ClientContext for Counting {}

impl ProducerContext for Counting {
    type DeliveryOpaque = Box<Opaque>;
    fn delivery(&self, _: &DeliveryResult<'_>, _: Box<Opaque>) {
        self.0.fetch_add(1000, Ordering::SeqCst);
    }
}

#[test]
fn what_was_given_to_a_refused_or_purged_record_is_freed_once() {
    let drops = Arc::new(AtomicUsize::new(0));
    let mut config = ClientConfig::new();
    config.set("queue.buffering.max.messages", "1");
    let producer: BaseProducer<Counting> = config
        .create_with_context(Counting(Arc::clone(&drops)))
        .unwrap();
    let opaque = || Box::new(Opaque(Arc::clone(&drops)));
    let record = |topic: &str| OutgoingRecord {
        topic: topic.to_owned(),
        headers: headers(&[(b"h", Some(b"v"))]),
        ..OutgoingRecord::default()
    };
    assert_eq!(
        produce(&producer, &record("a\0b"), opaque()),
        Err(RDKafkaErrorCode::InvalidTopic)
    );
    assert_eq!(drops.load(Ordering::SeqCst), 1);
    assert_eq!(produce(&producer, &record("t"), opaque()), Ok(()));
    assert_eq!(
        produce(&producer, &record("t"), opaque()),
        Err(RDKafkaErrorCode::QueueFull)
    );
    assert_eq!(drops.load(Ordering::SeqCst), 2);
    // Dropping the producer purges its queue, which reports the one record.
    drop(producer);
    assert_eq!(drops.load(Ordering::SeqCst), 1003);
}

#[test]
fn mock_clusters_come_and_go() {
    for _ in 0..3 {
        let cluster = MockCluster::new(2).unwrap();
        assert_eq!(cluster.bootstrap_servers().split(',').count(), 2);
        assert!(cluster.bootstrap_servers().starts_with("127.0.0.1:"));
        cluster.create_topic("t", 3).unwrap();
        assert_eq!(
            cluster.create_topic("t", 3),
            Err(RDKafkaErrorCode::TopicAlreadyExists)
        );
        assert_eq!(
            cluster.create_topic("a\0b", 3),
            Err(RDKafkaErrorCode::InvalidTopic)
        );
        assert!(cluster.set_broker(9, false).is_err());
    }
}
