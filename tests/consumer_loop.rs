//! The whole way of a record on an embedded broker: consume, chain, handler or dead letter, offset.
#![cfg(all(feature = "kafka", feature = "cloudevents", feature = "encryption"))]

mod kafka_support;

use bytes::Bytes;
use kafka_chain::backoff::{Fixed, RetryEvent};
use kafka_chain::codecs::cloudevents::cloudevents;
use kafka_chain::codecs::encryption::{AesGcm, Key, KeyId, KeyProvider, StaticKeys, aes_gcm};
use kafka_chain::codecs::json::json;
use kafka_chain::dead_letter::{self, DeadLetters};
use kafka_chain::decorators::ChainExt;
use kafka_chain::transport::kafka::{EmbeddedBroker, KafkaSink, KafkaSource};
use kafka_chain::{
    Answer, Deserializer, Encoded, Error, ErrorKind, Headers, Outcome, OutgoingRecord, OwnedRecord,
    Part, Payload, Serializer, Target, deserialize, deserialize_with,
};
use kafka_support::{next, sink, source};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const TOPIC: &str = "orders";
const DEAD: &str = "orders.dead-letter";

struct Shop {
    broker: EmbeddedBroker,
    sink: KafkaSink,
}

/// A record that was handled: its offset, and whether it had a value.
type Handled = (i64, bool);

impl Shop {
    fn open() -> Self {
        let broker = EmbeddedBroker::start(1).unwrap();
        for topic in [TOPIC, DEAD] {
            broker.create_topic(topic, 1).unwrap();
        }
        let sink = sink(&broker);
        Shop { broker, sink }
    }

    async fn produce(&self, key: &str, value: Option<&[u8]>, headers: Headers) {
        let record = OutgoingRecord {
            topic: TOPIC.to_owned(),
            partition: Some(0),
            key: Some(Bytes::copy_from_slice(key.as_bytes())),
            value: value.map(Bytes::copy_from_slice),
            headers,
            timestamp: None,
        };
        self.sink.send(record).await.unwrap();
    }

    /// Reads `records` with `chain` as group `group`; what fails is dead-lettered, then stored.
    async fn consume<D, T>(&self, group: &str, chain: &D, records: usize) -> Vec<Handled>
    where
        D: Deserializer<Output = Outcome<Option<T>>>,
        T: Send,
    {
        let mut source = source(&self.broker, group, TOPIC);
        let letters = DeadLetters::new().group(group);
        let mut handled = Vec::new();
        for _ in 0..records {
            let message = next(&mut source).await;
            let record = message.record();
            match deserialize(chain, &record, Part::Value).await.unwrap() {
                Ok(value) => handled.push((record.offset, value.is_some())),
                Err(failure) => {
                    self.sink
                        .send(letters.full(&failure, 1_700_000_000_000).unwrap())
                        .await
                        .unwrap();
                }
            }
            assert!(source.store(&message).unwrap());
        }
        source.commit().await.unwrap();
        source.close().await;
        handled
    }

    /// What lies in the dead-letter topic once `records` are there.
    async fn dead(&self, records: usize) -> Vec<OwnedRecord> {
        let mut source: KafkaSource = source(&self.broker, "undertaker", DEAD);
        let mut dead = Vec::new();
        for _ in 0..records {
            dead.push(next(&mut source).await.record().to_owned());
        }
        let more = tokio::time::timeout(Duration::from_millis(300), source.recv()).await;
        assert!(more.is_err(), "there are more dead letters than {records}");
        source.close().await;
        dead
    }
}

/// FC-001: an undecodable record is dead-lettered once, untouched; nothing waits for it, and what is
/// behind it is read.
#[tokio::test]
async fn a_poison_record_goes_to_the_dead_letters_and_the_loop_goes_on() {
    let shop = Shop::open();
    let cut_off: &[u8] = &[0x7B, 0x22, 0x61, 0x22, 0x3A];
    for value in [&br#"{"a":1}"#[..], cut_off, br#"{"a":3}"#] {
        shop.produce("k", Some(value), Headers::new()).await;
    }
    let retries = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&retries);
    let observer = move |_: &RetryEvent<'_>| {
        counted.fetch_add(1, Ordering::Relaxed);
    };
    let chain = json::<serde_json::Value>()
        .retry(Fixed::new(Duration::from_secs(3600), 3))
        .observer(Arc::new(observer))
        .handle_exceptions();
    assert_eq!(shop.consume("g", &chain, 3).await, [(0, true), (2, true)]);
    assert_eq!(retries.load(Ordering::Relaxed), 0);
    let dead = shop.dead(1).await;
    assert_eq!(dead[0].value.as_deref(), Some(cut_off));

    // The committed offset is 3: the next member of the group begins there.
    shop.produce("k", Some(b"{}"), Headers::new()).await;
    assert_eq!(shop.consume("g", &chain, 1).await, [(3, true)]);
}

/// FC-004, in a custom deserializer: the panic is a failure of its record; the next ones are read.
#[tokio::test]
async fn a_panic_in_a_deserializer_is_a_dead_letter_and_not_a_silent_partition() {
    let shop = Shop::open();
    for number in 0..6 {
        shop.produce("k", Some(number.to_string().as_bytes()), Headers::new())
            .await;
    }
    let chain = deserialize_with(|input| match input.payload.as_bytes() {
        Some(b"3") => panic!("three"),
        bytes => Ok(bytes.map(<[u8]>::len)),
    })
    .named("fragile")
    .handle_exceptions();
    let offsets: Vec<_> = shop
        .consume("g", &chain, 6)
        .await
        .iter()
        .map(|(o, _)| *o)
        .collect();
    assert_eq!(offsets, [0, 1, 2, 4, 5]);
    let dead = shop.dead(1).await;
    let (_, info) = dead_letter::read(dead[0].headers.view()).unwrap();
    assert_eq!(info.offset(), Some(3));
    assert_eq!(info.kind(), Some(ErrorKind::Panic));
    assert_eq!(info.stage_path(), Some("exception-handling > fragile"));
}

/// A key service with one key, which is down for its first calls.
struct KeyService {
    key: Key,
    down_for: AtomicUsize,
}

impl KeyProvider for KeyService {
    fn decryption_key(&self, id: &str) -> Answer<'_, Option<Key>> {
        let down = self
            .down_for
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(1)
            });
        if down.is_ok() {
            return Answer::err(Error::unavailable("the key service answered 503"));
        }
        Answer::ok((id == "k2").then(|| self.key.clone()))
    }

    fn encryption_key(&self) -> Answer<'_, (KeyId, Key)> {
        Answer::err(Error::unsupported("it decrypts only"))
    }
}

/// FC-009: after a rotation the lost key is permanent and named; an outage is not, and is retried.
#[tokio::test]
async fn an_unknown_key_is_a_dead_letter_and_a_key_service_that_is_down_is_not() {
    let shop = Shop::open();
    let encrypt = async |id: &'static str, byte: u8| -> Encoded {
        let stage = aes_gcm(StaticKeys::single(id, [byte; 32]).unwrap());
        let target = Target::new(TOPIC, Part::Value);
        let payload = Payload::Shared(Bytes::from_static(b"order"));
        stage.serialize(payload, &target).await.unwrap()
    };
    let mut sent = Vec::new();
    for offset in 0..21 {
        let encoded = if offset < 18 {
            encrypt("k1", 1).await
        } else {
            encrypt("k2", 2).await
        };
        shop.produce("k", encoded.payload.as_deref(), Headers::new())
            .await;
        sent.push(encoded.payload);
    }
    let chain = |down_for| {
        let down_for = AtomicUsize::new(down_for);
        let service = KeyService {
            key: Key::new(&[2; 32]).unwrap(),
            down_for,
        };
        AesGcm::new(service)
            .stage()
            .retry(Fixed::new(Duration::from_millis(1), 3))
            .handle_exceptions()
    };
    let handled = shop.consume("first", &chain(0), 21).await;
    assert_eq!(handled, [(18, true), (19, true), (20, true)]);
    let dead = shop.dead(18).await;
    for (letter, ciphertext) in dead.iter().zip(&sent) {
        assert_eq!(letter.value, *ciphertext);
        let (_, info) = dead_letter::read(letter.headers.view()).unwrap();
        assert_eq!(info.kind(), Some(ErrorKind::Decrypt));
        assert_eq!(info.message(), Some("key `k1` is unknown"));
        let shown = format!("{:?}", letter.headers.iter().collect::<Vec<_>>());
        assert!(!shown.contains("order\""), "no plaintext in a header");
    }

    let shop = Shop::open();
    for encoded in &sent[18..] {
        shop.produce("k", encoded.as_deref(), Headers::new()).await;
    }
    let handled = shop.consume("second", &chain(2), 3).await;
    assert_eq!(handled.len(), 3);
    shop.dead(0).await;
}

/// FC-012: delete markers come through in order, as no value.
#[tokio::test]
async fn a_tombstone_is_no_value_and_no_error() {
    let shop = Shop::open();
    shop.produce("k1", Some(br#"{"x":1}"#), Headers::new())
        .await;
    shop.produce("k1", None, Headers::new()).await;
    shop.produce("k2", None, Headers::new()).await;
    let chain = json::<serde_json::Value>().handle_exceptions();
    let handled = shop.consume("g", &chain, 3).await;
    assert_eq!(handled, [(0, true), (1, false), (2, false)]);
    shop.dead(0).await;
}

/// FC-013, FC-018, FC-025: a dead letter has key, value and headers as they were consumed.
#[tokio::test]
async fn null_empty_and_odd_bytes_come_out_of_the_dead_letters_as_they_went_in() {
    let shop = Shop::open();
    let forms: [Option<&[u8]>; 3] = [None, Some(b""), Some(b"\xC3\x28\xFF\x00")];
    let mut sent = Vec::new();
    for key in forms {
        for value in forms {
            for header in forms {
                let headers = Headers::from_iter([
                    (&b"sig"[..], header.map(Bytes::copy_from_slice)),
                    (&b"sig"[..], Some(Bytes::from_static(b"again"))),
                ]);
                let record = OutgoingRecord {
                    topic: TOPIC.to_owned(),
                    partition: Some(0),
                    key: key.map(Bytes::copy_from_slice),
                    value: value.map(Bytes::copy_from_slice),
                    headers,
                    timestamp: None,
                };
                shop.sink.send(record.clone()).await.unwrap();
                sent.push(record);
            }
        }
    }
    let chain = deserialize_with(|_| Err::<Option<u8>, _>(Error::schema("none is right")))
        .handle_exceptions();
    assert!(shop.consume("g", &chain, sent.len()).await.is_empty());
    let dead = shop.dead(sent.len()).await;
    for (letter, sent) in dead.iter().zip(&sent) {
        assert_eq!((&letter.key, &letter.value), (&sent.key, &sent.value));
        let own: Vec<_> = letter
            .headers
            .iter()
            .take(sent.headers.iter().count())
            .collect();
        assert_eq!(own, sent.headers.iter().collect::<Vec<_>>());
    }
}

/// FC-014: a null header stops nothing; one that an event requires is a dead letter that names it.
#[tokio::test]
async fn null_headers_are_absent_ones() {
    let shop = Shop::open();
    let event = |more: &[(&'static str, Option<&'static str>)]| -> Headers {
        let mut headers = vec![
            ("ce_specversion", Some("1.0")),
            ("ce_id", Some("1")),
            ("ce_type", Some("t")),
            ("ce_source", Some("/s")),
        ];
        headers.extend_from_slice(more);
        headers.into_iter().collect()
    };
    for more in [("trace", None), ("ce_subject", None), ("ce_id", None)] {
        let mut headers = event(&[more]);
        if more.0 == "ce_id" {
            headers.remove("ce_id");
            headers.push("ce_id", None::<Bytes>);
        }
        shop.produce("k", Some(b"{}"), headers).await;
    }
    let handled = shop
        .consume("g", &cloudevents().handle_exceptions(), 3)
        .await;
    assert_eq!(handled, [(0, true), (1, true)]);
    let dead = shop.dead(1).await;
    let (_, info) = dead_letter::read(dead[0].headers.view()).unwrap();
    assert!(
        info.message().unwrap().contains("id"),
        "{:?}",
        info.message()
    );
}

/// FC-034: the bad record is the last one; restarts add no further copy.
#[tokio::test]
async fn a_dead_letter_at_the_end_of_a_partition_is_written_once_over_three_restarts() {
    let shop = Shop::open();
    shop.produce("k", Some(b"{"), Headers::new()).await;
    let chain = json::<serde_json::Value>().handle_exceptions();
    assert!(shop.consume("g", &chain, 1).await.is_empty());
    for _ in 0..3 {
        let mut source = source(&shop.broker, "g", TOPIC);
        let none = tokio::time::timeout(Duration::from_millis(400), source.recv()).await;
        assert!(none.is_err(), "the record came again");
        source.close().await;
    }
    shop.dead(1).await;
}

/// FC-005: what the handler fails to write is an error of the handler, not an undecodable input: a
/// failure is told by where it arose.
#[tokio::test]
async fn an_encode_error_is_not_taken_for_an_undecodable_record() {
    let calls = AtomicUsize::new(0);
    let writing = kafka_chain::serialize_with(|_: Option<&String>, _: &Target<'_>| {
        match calls.fetch_add(1, Ordering::Relaxed) {
            0 | 1 => Err(Error::unavailable("the schema service answered 503")),
            _ => Ok(Encoded::from(b"out".to_vec())),
        }
    })
    .named("publish")
    .retry(Fixed::new(Duration::from_millis(1), 4));
    let reading = json::<String>().handle_exceptions();
    let record = kafka_chain::Record::of_value(Some(br#""in""#));
    let value = deserialize(&reading, &record, Part::Value)
        .await
        .unwrap()
        .unwrap();
    let target = Target::new("out", Part::Value);
    let written = writing.serialize(value.as_ref(), &target).await.unwrap();
    assert_eq!(written.payload.as_deref(), Some(&b"out"[..]));
    assert_eq!(calls.load(Ordering::Relaxed), 3);

    let refused = kafka_chain::serialize_with(|_: Option<&String>, _: &Target<'_>| {
        Err(Error::schema("the type has no such field"))
    })
    .named("publish");
    let error = refused
        .serialize(value.as_ref(), &target)
        .await
        .unwrap_err();
    assert_eq!(error.stage_path(), "publish");
}
