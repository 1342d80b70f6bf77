//! The producer's side: an event becomes a record of encrypted bytes, with `Pipe` in the direction
//! object → bytes → bytes; then the same parts, the other way round, read it back.
//!
//! `cargo run --example encrypt_cloudevents`; it needs no broker.

use cloudevents::{AttributesReader, Event, EventBuilder, EventBuilderV10};
use kafka_chain::codecs::cloudevents::cloudevents;
use kafka_chain::codecs::encryption::{StaticKeys, aes_gcm};
use kafka_chain::decorators::ChainExt;
use kafka_chain::{Component, Part, Record, Serializer, Target, deserialize};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let keys = || StaticKeys::single("2026-12", [7; 32]);
    let event = EventBuilderV10::new()
        .id("1")
        .ty("com.example.order.placed")
        .source("https://shop.example.com/orders")
        .data(
            "application/json",
            serde_json::json!({"item": "teapot", "cents": 1999}),
        )
        .build()?;

    // `from` is always first in the direction of the data: format, then encrypt.
    let writing = cloudevents().pipe(aes_gcm(keys()?));
    let written = writing
        .serialize(Some(&event), &Target::new("orders", Part::Value))
        .await?;
    println!("written with {}", writing.describe());
    for (name, value) in written.headers.iter() {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        println!(
            "  {}: {}",
            text(name),
            value.map_or("null".to_owned(), |value| text(value))
        );
    }
    let payload = written.payload.as_deref();
    println!(
        "  value: {} encrypted bytes",
        payload.map_or(0, <[u8]>::len)
    );

    let reading = aes_gcm(keys()?).pipe(cloudevents());
    let record = Record {
        headers: written.headers.view(),
        ..Record::of_value(payload)
    };
    let read: Option<Event> = deserialize(&reading, &record, Part::Value).await?;
    println!("read with {}", reading.describe());
    match read {
        Some(read) => println!("  {} {} from {}", read.ty(), read.id(), read.source()),
        None => println!("  a tombstone"),
    }
    Ok(())
}
