//! The codecs: CloudEvents beside cloudevents-sdk and serde_json, and inputs of two sizes.
mod support;

use criterion::{Criterion, Throughput};
use kafka_chain::codecs::json::json;
use kafka_chain::codecs::list::list;
use kafka_chain::codecs::primitives::long;
use kafka_chain::codecs::string::string;
use kafka_chain::properties::{Charset, Properties};
use kafka_chain::{Deserializer, Part, Payload, Record};
use std::hint::black_box;
use support::chains::read;
use support::inputs;

#[cfg(feature = "cloudevents")]
fn events(criterion: &mut Criterion) {
    use cloudevents::Event;
    use cloudevents::message::BinaryDeserializer;
    use kafka_chain::codecs::cloudevents::{EventView, cloudevents};
    use support::events::{Bare, Order, SdkRecord, binary, structured};

    let codec = cloudevents();
    for (mode, owned) in [("structured", structured(false)), ("binary", binary(false))] {
        let record = owned.as_record();
        let context = record.context(Part::Value);
        let (headers, value) = (record.headers, record.value.unwrap());
        let mut group = criterion.benchmark_group(format!("cloudevents {mode}"));
        group.bench_function("event", |bencher| {
            bencher.iter(|| read(&codec, black_box(&context), Payload::Borrowed(value)));
        });
        group.bench_function("view and typed data", |bencher| {
            bencher.iter(|| {
                let view = EventView::read(black_box(headers), Some(black_box(value))).unwrap();
                black_box(view.data::<Order<'_>>().unwrap());
                black_box(&view);
            });
        });
        match mode {
            "structured" => {
                group.bench_function("cloudevents-sdk", |bencher| {
                    bencher.iter(|| serde_json::from_slice::<Event>(black_box(value)).unwrap());
                });
                group.bench_function("serde_json", |bencher| {
                    bencher.iter(|| serde_json::from_slice::<Bare<'_>>(black_box(value)).unwrap());
                });
            }
            _ => {
                group.bench_function("cloudevents-sdk", |bencher| {
                    bencher.iter(|| {
                        let headers = black_box(headers);
                        SdkRecord { headers, value }.into_event().unwrap()
                    });
                });
                group.bench_function("serde_json", |bencher| {
                    bencher.iter(|| serde_json::from_slice::<Order<'_>>(black_box(value)).unwrap());
                });
            }
        }
        group.finish();
    }
}

fn reads<D: Deserializer>(criterion: &mut Criterion, name: &str, chain: &D, inputs: [Vec<u8>; 2]) {
    let mut group = criterion.benchmark_group(name);
    for input in inputs {
        let record = Record::of_value(Some(&input));
        let context = record.context(Part::Value);
        group.throughput(Throughput::Bytes(input.len() as u64));
        group.bench_function(input.len().to_string(), |bencher| {
            bencher.iter(|| read(chain, black_box(&context), Payload::Borrowed(&input)));
        });
    }
    group.finish();
}

fn sizes(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("properties");
    for text in [300, 3000].map(inputs::properties) {
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function(text.len().to_string(), |bencher| {
            bencher.iter(|| Properties::parse(text.as_bytes(), Charset::Utf8, "<text>").unwrap());
        });
    }
    group.finish();
    let documents = [200, 2000].map(|entries| inputs::json(entries).into_bytes());
    reads(
        criterion,
        "list of longs",
        &list(long()),
        [1000, 10_000].map(inputs::longs),
    );
    reads(
        criterion,
        "list of strings",
        &list(string()),
        [1000, 10_000].map(inputs::strings),
    );
    reads(criterion, "json", &json::<serde_json::Value>(), documents);
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    #[cfg(feature = "cloudevents")]
    events(&mut criterion);
    sizes(&mut criterion);
    criterion.final_summary();
}
