//! `instructions CASE CALLS`: one way to read a record, called so many times, for an instruction
//! counter. `scripts/bench` runs it twice with different calls and takes the difference.
mod support;

use kafka_chain::{Context, Deserializer, Part, Payload, Record};
use std::hint::black_box;
use support::chains::{self, FRAMED_ORDER, Order, read, taken};

fn chain(calls: u32, chain: &impl Deserializer, value: &[u8]) {
    let record = Record::of_value(Some(value));
    let context = record.context(Part::Value);
    for _ in 0..calls {
        let payload = Payload::Borrowed(black_box(value));
        drop(black_box(read(
            black_box(chain),
            black_box(&context),
            payload,
        )));
    }
}

fn by_hand<T>(
    calls: u32,
    by_hand: impl Fn(&Context<'_>, Payload<'_>) -> kafka_chain::Result<T>,
    value: &[u8],
) {
    let record = Record::of_value(Some(value));
    let context = record.context(Part::Value);
    for _ in 0..calls {
        let payload = Payload::Borrowed(black_box(value));
        drop(black_box(taken(by_hand(black_box(&context), payload))));
    }
}

#[cfg(feature = "cloudevents")]
fn event(calls: u32, owned: &kafka_chain::OwnedRecord) {
    let record = owned.as_record();
    let context = record.context(Part::Value);
    let codec = kafka_chain::codecs::cloudevents::cloudevents();
    for _ in 0..calls {
        let payload = Payload::from(black_box(record.value));
        drop(black_box(read(&codec, black_box(&context), payload)));
    }
}

fn main() {
    let words: Vec<_> = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with("--"))
        .collect();
    let [case, calls] = words.as_slice() else {
        eprintln!("instructions CASE CALLS");
        return;
    };
    let calls = calls.parse().unwrap();
    match case.as_str() {
        "order-by-hand" => by_hand(calls, chains::json_by_hand::<Order>, FRAMED_ORDER),
        "order-typed" => chain(calls, &chains::order_typed(), FRAMED_ORDER),
        "order-erased" => chain(calls, &chains::order_erased(), FRAMED_ORDER),
        "json-by-hand" => by_hand(
            calls,
            chains::json_by_hand::<serde_json::Value>,
            FRAMED_ORDER,
        ),
        "json-erased" => chain(calls, &chains::json_erased(), FRAMED_ORDER),
        "number-bare" => by_hand(calls, chains::number_bare, &[2]),
        "number-typed" => chain(calls, &chains::number_typed(), &[2]),
        "number-erased" => chain(calls, &chains::number_erased(), &[2]),
        #[cfg(feature = "cloudevents")]
        "event-binary" => event(calls, &support::events::binary(false)),
        #[cfg(feature = "cloudevents")]
        "event-structured" => event(calls, &support::events::structured(false)),
        other => panic!("there is no case `{other}`"),
    }
}
