//! Dead letters of an imaginary shop, for the demonstration.

use kafka_chain::dead_letter::{DeadLetters, Dialect};
use kafka_chain::redrive::REDRIVES;
use kafka_chain::transport::Settings;
use kafka_chain::transport::kafka::KafkaSink;
use kafka_chain::{Error, Failure, OutgoingRecord, OwnedRecord, Part, Result, Timestamp};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::task::JoinSet;

pub const PARTITIONS: i32 = 3;

/// How many orders failed for the key that was lost, and how many for their schema.
const LOST_KEY: i64 = 600;
const BAD_SCHEMA: i64 = 150;

const DIALECTS: [Dialect; 3] = [Dialect::KafkaChain, Dialect::Spring, Dialect::Connect];

/// Fills the dead-letter topic of `orders`, as three consumers of different frameworks would.
pub async fn fill(settings: &Settings, orders: &str) -> Result<usize> {
    let sink = KafkaSink::start(settings)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now
        .ok()
        .and_then(|now| now.as_millis().try_into().ok())
        .unwrap_or(0);
    let mut letters = Vec::new();
    for number in 0..LOST_KEY + BAD_SCHEMA {
        let record = order(orders, number, now);
        let error = match number < LOST_KEY {
            true => Error::decrypt("no key `june`")
                .at("aes-gcm")
                .at("pipe.from"),
            false => Error::schema("an order without a customer")
                .at("json")
                .at("pipe.to"),
        };
        let dialect = DIALECTS[usize::try_from(number).unwrap_or(0) % DIALECTS.len()];
        letters.push(letter(error, &record, dialect, now)?);
    }
    let lost = || {
        Error::decrypt("no key `june`")
            .at("aes-gcm")
            .at("pipe.from")
    };
    // One that came back again and again.
    let mut again = order(orders, 9_001, now);
    again.headers.push(REDRIVES, Some("3"));
    letters.push(letter(lost(), &again, Dialect::KafkaChain, now)?);
    // One that somebody made up, to get something into another topic.
    let mut forged = letter(lost(), &order("payments", 9_002, now), Dialect::Spring, now)?;
    forged.topic = format!("{orders}.dead-letter");
    letters.push(forged);
    // One that was too large, and is where it was; and one that is not there any more.
    let mut large = order(orders, 9_003, now);
    large.partition = 0;
    large.offset = sink
        .send(OutgoingRecord {
            partition: Some(0),
            ..large.clone().into()
        })
        .await?
        .offset;
    letters.push(without_value(lost(), &large, now)?);
    large.offset += 1_000_000;
    letters.push(without_value(lost(), &large, now)?);

    let count = letters.len();
    let mut sends = JoinSet::new();
    for letter in letters {
        let sink = sink.clone();
        sends.spawn(async move { sink.send(letter).await });
    }
    while let Some(sent) = sends.join_next().await {
        sent.map_err(Error::permanent)??;
    }
    Ok(count)
}

fn order(topic: &str, number: i64, now: i64) -> OwnedRecord {
    OwnedRecord {
        topic: topic.to_owned(),
        partition: i32::try_from(number).unwrap_or(0) % PARTITIONS,
        offset: number,
        timestamp: Timestamp::CreateTime(now - 60_000),
        key: Some(format!("customer {}", number % 40).into()),
        value: Some(format!("order {number}").into()),
        headers: [("trace", Some(format!("trace {number}")))]
            .into_iter()
            .collect(),
    }
}

fn letter(
    error: Error,
    record: &OwnedRecord,
    dialect: Dialect,
    now: i64,
) -> Result<OutgoingRecord> {
    let failure = Failure::new(error, &record.as_record().context(Part::Value));
    let letters = DeadLetters::new().dialects([dialect]).group("shop");
    let mut letter = letters.full(&failure, now)?;
    letter.partition = Some(record.partition);
    Ok(letter)
}

fn without_value(error: Error, record: &OwnedRecord, now: i64) -> Result<OutgoingRecord> {
    let failure = Failure::new(error, &record.as_record().context(Part::Value));
    let mut letter = DeadLetters::new()
        .group("shop")
        .without_value(&failure, now)?;
    letter.partition = Some(record.partition);
    Ok(letter)
}
