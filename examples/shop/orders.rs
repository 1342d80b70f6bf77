//! The sample orders: encrypted CloudEvents, among them every kind of bad record.

use bytes::Bytes;
use cloudevents::{Event, EventBuilder, EventBuilderV10};
use kafka_chain::codecs::cloudevents::{CloudEvents, Encoding};
use kafka_chain::codecs::encryption::{StaticKeys, aes_gcm};
use kafka_chain::decorators::ChainExt;
use kafka_chain::{
    BoxSerializer, Encoded, Error, Headers, OutgoingRecord, Part, Payload, Result, Serializer,
    Target,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};

/// The id and bytes of the key in use.
pub const KEY: (&str, [u8; 32]) = ("2026-12", [7; 32]);

/// A key that the key service no longer has.
const RETIRED: (&str, [u8; 32]) = ("2024-01", [3; 32]);

/// One record in fifty is bad.
const BAD_EVERY: usize = 50;

/// What the shop sells.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    pub id: u64,
    pub customer: String,
    pub item: String,
    pub cents: u64,
}

/// What is wrong with a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    TruncatedCiphertext,
    WrongKeyId,
    BrokenJson,
    MissingAttribute,
    NullValue,
    NonUtf8Header,
}

const FAULTS: [Fault; 6] = [
    Fault::TruncatedCiphertext,
    Fault::WrongKeyId,
    Fault::BrokenJson,
    Fault::MissingAttribute,
    Fault::NullValue,
    Fault::NonUtf8Header,
];

/// Makes the samples, the same ones at each run.
pub struct Samples {
    binary: BoxSerializer<Event>,
    structured: BoxSerializer<Event>,
    retired: BoxSerializer<Event>,
    encryption: BoxSerializer<[u8]>,
    rng: StdRng,
}

impl Samples {
    pub fn new() -> Result<Self> {
        let events = |encoding| CloudEvents::new().encoding(encoding).stage();
        let keys = |(id, bytes): (&str, [u8; 32])| StaticKeys::single(id, bytes);
        Ok(Samples {
            binary: events(Encoding::Binary)
                .pipe(aes_gcm(keys(KEY)?))
                .boxed_serializer(),
            structured: events(Encoding::Structured)
                .pipe(aes_gcm(keys(KEY)?))
                .boxed_serializer(),
            retired: events(Encoding::Binary)
                .pipe(aes_gcm(keys(RETIRED)?))
                .boxed_serializer(),
            encryption: aes_gcm(keys(KEY)?).boxed_serializer(),
            rng: StdRng::seed_from_u64(873),
        })
    }

    /// The sample of this number, for `topic`.
    pub async fn record(&mut self, number: usize, topic: &str) -> Result<OutgoingRecord> {
        let order = self.order(number);
        let fault = (number % BAD_EVERY == BAD_EVERY - 1)
            .then(|| FAULTS.get(number / BAD_EVERY % FAULTS.len()).copied())
            .flatten();
        let encoded = match fault {
            None => self.good(number, &order, topic).await?,
            Some(fault) => self.bad(fault, &order, topic).await?,
        };
        Ok(OutgoingRecord {
            topic: topic.to_owned(),
            partition: None,
            key: Some(Bytes::from(order.customer)),
            value: encoded.payload,
            headers: encoded.headers,
            timestamp: None,
        })
    }

    fn order(&mut self, number: usize) -> Order {
        const ITEMS: [&str; 5] = ["teapot", "kettle", "cup", "saucer", "spoon"];
        let item = ITEMS
            .get(self.rng.random_range(0..ITEMS.len()))
            .copied()
            .unwrap_or("teapot");
        Order {
            id: number as u64,
            customer: format!("customer-{}", self.rng.random_range(0..500)),
            item: item.to_owned(),
            cents: self.rng.random_range(100..20_000),
        }
    }

    async fn good(&self, number: usize, order: &Order, topic: &str) -> Result<Encoded> {
        let event = event(order)?;
        let chain = if number.is_multiple_of(2) {
            &self.binary
        } else {
            &self.structured
        };
        let mut encoded = chain
            .serialize(Some(&event), &Target::new(topic, Part::Value))
            .await?;
        if number % 100 == 1 {
            // A foreign header may hold anything: it is nobody's business here.
            encoded.headers.push(&b"trace"[..], Some(&b"\xC3\x28"[..]));
        }
        Ok(encoded)
    }

    async fn bad(&self, fault: Fault, order: &Order, topic: &str) -> Result<Encoded> {
        let target = Target::new(topic, Part::Value);
        let event = event(order)?;
        Ok(match fault {
            Fault::NullValue => Encoded::default(),
            Fault::TruncatedCiphertext => {
                let mut encoded = self.binary.serialize(Some(&event), &target).await?;
                let half = encoded.payload.as_ref().map_or(0, Bytes::len) / 2;
                if let Some(payload) = &mut encoded.payload {
                    payload.truncate(half);
                }
                encoded
            }
            Fault::WrongKeyId => self.retired.serialize(Some(&event), &target).await?,
            Fault::BrokenJson => {
                let text = format!(r#"{{"specversion":"1.0","id":"{}","#, order.id);
                self.structured_text(text, &target).await?
            }
            Fault::MissingAttribute => {
                let text = format!(
                    r#"{{"specversion":"1.0","id":"{}","source":"/s"}}"#,
                    order.id
                );
                self.structured_text(text, &target).await?
            }
            Fault::NonUtf8Header => {
                let mut encoded = self.binary.serialize(Some(&event), &target).await?;
                encoded
                    .headers
                    .push(&b"ce_subject"[..], Some(&b"\xC3\x28"[..]));
                encoded
            }
        })
    }

    async fn structured_text(&self, text: String, target: &Target<'_>) -> Result<Encoded> {
        let encrypted = self
            .encryption
            .serialize(Payload::from(Bytes::from(text)), target)
            .await?;
        let content_type = (
            &b"content-type"[..],
            Some(&b"application/cloudevents+json"[..]),
        );
        Ok(Encoded {
            headers: Headers::from_iter([content_type]),
            ..encrypted
        })
    }
}

fn event(order: &Order) -> Result<Event> {
    EventBuilderV10::new()
        .id(order.id.to_string())
        .ty("com.example.order.placed")
        .source("https://shop.example.com/orders")
        .subject(order.item.clone())
        .data("application/json", serde_json::json!(order))
        .build()
        .map_err(|error| Error::permanent(error.to_string()))
}
