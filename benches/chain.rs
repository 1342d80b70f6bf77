//! A good record through the decorators: by hand, typed, erased; around a trivial delegate and JSON.
mod support;

use bytes::Bytes;
use criterion::{BenchmarkGroup, Criterion, measurement::WallTime};
use kafka_chain::{Answer, Context, Deserializer, Part, Payload, Record, Serializer, Target};
use std::hint::black_box;
use support::chains::{self, FRAMED_ORDER, read};

fn reads<D: Deserializer>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    chain: &D,
    context: &Context<'_>,
    payload: &Payload<'_>,
) {
    group.bench_function(name, |bencher| {
        bencher.iter(|| read(black_box(chain), black_box(context), payload.clone()));
    });
}

fn json(criterion: &mut Criterion) {
    let record = Record::of_value(Some(FRAMED_ORDER));
    let context = record.context(Part::Value);
    for (kind, payload) in [
        ("borrowed", Payload::Borrowed(FRAMED_ORDER)),
        ("shared", Payload::Shared(Bytes::from_static(FRAMED_ORDER))),
    ] {
        let mut group = criterion.benchmark_group(format!("json {kind}"));
        group.bench_function("by hand", |bencher| {
            bencher.iter(|| {
                chains::json_by_hand::<chains::Order>(black_box(&context), payload.clone())
            });
        });
        reads(
            &mut group,
            "typed",
            &chains::order_typed(),
            &context,
            &payload,
        );
        reads(
            &mut group,
            "erased",
            &chains::order_erased(),
            &context,
            &payload,
        );
        group.finish();
    }
}

fn trivial(criterion: &mut Criterion) {
    let record = Record::of_value(Some(&[2]));
    let context = record.context(Part::Value);
    let payload = Payload::Borrowed(&[2]);
    let mut group = criterion.benchmark_group("trivial");
    group.bench_function("no decorator", |bencher| {
        bencher.iter(|| chains::number_bare(black_box(&context), payload.clone()));
    });
    reads(
        &mut group,
        "typed",
        &chains::number_typed(),
        &context,
        &payload,
    );
    reads(
        &mut group,
        "erased",
        &chains::number_erased(),
        &context,
        &payload,
    );
    group.finish();
}

fn write(criterion: &mut Criterion) {
    let order: chains::Order = serde_json::from_slice(FRAMED_ORDER.split_at(5).1).unwrap();
    let target = Target::new("orders", Part::Value);
    let writer = chains::order_writer();
    let mut group = criterion.benchmark_group("write json");
    group.bench_function("by hand", |bencher| {
        bencher.iter(|| chains::order_written_by_hand(black_box(Some(&order))));
    });
    group.bench_function("typed", |bencher| {
        bencher.iter(
            || match writer.serialize(black_box(Some(&order)), &target) {
                Answer::Ready(Ok(encoded)) => encoded,
                _ => chains::refused(),
            },
        );
    });
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    json(&mut criterion);
    trivial(&mut criterion);
    write(&mut criterion);
    criterion.final_summary();
}
