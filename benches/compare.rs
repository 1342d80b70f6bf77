//! `compare NAME`: two ways to do the same, in turn in one process, and the median of the ratios.
//! `scripts/bench` runs it and `docs/performance.md` explains it.
mod support;

use bytes::Bytes;
use kafka_chain::codecs::json::json;
use kafka_chain::codecs::list::list;
use kafka_chain::codecs::primitives::long;
use kafka_chain::codecs::string::string;
use kafka_chain::properties::{Charset, Properties};
use kafka_chain::{Context, Deserializer, Part, Payload, Record};
use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use support::chains::{self, FRAMED_ORDER, read, taken};
use support::inputs;

/// Rounds of one comparison: enough that the median does not move when a few are disturbed.
const ROUNDS: usize = 101;
/// How long one side of one round runs.
const SIDE: Duration = Duration::from_micros(500);

/// What is claimed of a ratio.
#[derive(Clone, Copy)]
enum Target {
    AtMost(f64),
    AtLeast(f64),
}

/// The times of two ways, in nanoseconds a call, round by round.
struct Times(Vec<(f64, f64)>);

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or(f64::NAN)
}

impl Times {
    /// Runs `a` and `b` in turn; who goes first changes every round.
    fn of(mut a: impl FnMut(), mut b: impl FnMut()) -> Self {
        let (calls_a, calls_b) = (calls(&mut a), calls(&mut b));
        let round = |n: usize| match n % 2 {
            0 => {
                let first = time(&mut a, calls_a);
                (first, time(&mut b, calls_b))
            }
            _ => {
                let first = time(&mut b, calls_b);
                (time(&mut a, calls_a), first)
            }
        };
        Times((0..ROUNDS).map(round).collect())
    }

    fn shown(&self) -> String {
        let (a, b) = (self.median_of(|a, _| a), self.median_of(|_, b| b));
        format!("{a:.1} ns to {b:.1} ns a record")
    }

    fn median_of(&self, number: impl Fn(f64, f64) -> f64) -> f64 {
        median(self.0.iter().map(|(a, b)| number(*a, *b)).collect())
    }
}

#[inline(never)]
fn time(call: &mut impl FnMut(), calls: u32) -> f64 {
    let start = Instant::now();
    for _ in 0..calls {
        call();
    }
    start.elapsed().as_secs_f64() * 1e9 / f64::from(calls)
}

/// How many calls fill one side of a round, found while warming up.
fn calls(call: &mut impl FnMut()) -> u32 {
    let mut calls = 1;
    loop {
        let took = time(call, calls) * f64::from(calls);
        let wanted = SIDE.as_secs_f64() * 1e9;
        if took >= wanted {
            return ((f64::from(calls) * wanted / took) as u32).max(1);
        }
        calls *= 2;
    }
}

/// One comparison: its result for a person, its ratio, and what is claimed.
struct Result {
    lines: String,
    ratio: f64,
    target: Target,
}

/// How many times longer `a` takes than `b`.
fn longer(what: &str, target: f64, times: &Times) -> Result {
    Result {
        lines: format!("{what}: {}", times.shown()),
        ratio: times.median_of(|a, b| a / b),
        target: Target::AtMost(target),
    }
}

/// How many times as fast `a` is as `b`.
fn faster(what: &str, target: f64, times: &Times) -> Result {
    Result {
        lines: format!("{what}: {}", times.shown()),
        ratio: times.median_of(|a, b| b / a),
        target: Target::AtLeast(target),
    }
}

/// What each of three layers adds, as a part of what it may add.
fn layers(allowed: f64, times: &Times) -> Result {
    let added = times.median_of(|a, b| (a - b) / 3.0);
    let shown = times.shown();
    Result {
        lines: format!("three layers to none: {shown}, {added:.2} ns a layer of {allowed} ns"),
        ratio: added / allowed,
        target: Target::AtMost(1.0),
    }
}

/// How the time per byte grows when the input is ten times as large.
fn growth(
    what: &str,
    (large, mut large_call): (usize, impl FnMut()),
    (small, mut small_call): (usize, impl FnMut()),
) -> Result {
    let times = Times::of(&mut large_call, &mut small_call);
    let per_byte = |ns: f64, bytes: usize| ns / bytes as f64;
    let (a, b) = (
        per_byte(times.median_of(|a, _| a), large),
        per_byte(times.median_of(|_, b| b), small),
    );
    Result {
        lines: format!("{what}: {a:.3} ns a byte of {large}, {b:.3} ns a byte of {small}"),
        ratio: times.median_of(|a, b| per_byte(a, large) / per_byte(b, small)),
        target: Target::AtMost(1.25),
    }
}

/// `chain` and `by_hand` on the same record.
fn beside<T, U>(
    chain: &impl Deserializer<Output = T>,
    by_hand: impl Fn(&Context<'_>, Payload<'_>) -> kafka_chain::Result<U>,
    value: &[u8],
    is_shared: bool,
) -> Times {
    let record = Record::of_value(Some(value));
    let context = record.context(Part::Value);
    if is_shared {
        let shared = Bytes::copy_from_slice(value);
        let payload = || Payload::Shared(shared.clone());
        return Times::of(
            || {
                drop(black_box(read(
                    black_box(chain),
                    black_box(&context),
                    payload(),
                )))
            },
            || drop(black_box(taken(by_hand(black_box(&context), payload())))),
        );
    }
    let payload = || Payload::Borrowed(black_box(value));
    Times::of(
        || {
            drop(black_box(read(
                black_box(chain),
                black_box(&context),
                payload(),
            )))
        },
        || drop(black_box(taken(by_hand(black_box(&context), payload())))),
    )
}

fn chain(name: &str) -> Result {
    let is_shared = name.ends_with("shared");
    let what = "chain to hand-written";
    let order = chains::json_by_hand::<chains::Order>;
    match name {
        "chain-typed" | "chain-typed-shared" => {
            let times = beside(&chains::order_typed(), order, FRAMED_ORDER, is_shared);
            longer(what, 1.05, &times)
        }
        "chain-erased-registered" => {
            let times = beside(&chains::order_erased(), order, FRAMED_ORDER, is_shared);
            longer(what, 1.10, &times)
        }
        _ => {
            let document = chains::json_by_hand::<serde_json::Value>;
            let times = beside(&chains::json_erased(), document, FRAMED_ORDER, is_shared);
            longer(what, 1.10, &times)
        }
    }
}

fn layer(name: &str) -> Result {
    let bare = chains::number_bare;
    match name {
        "layer-typed" => layers(5.0, &beside(&chains::number_typed(), bare, &[2], false)),
        _ => layers(10.0, &beside(&chains::number_erased(), bare, &[2], false)),
    }
}

fn events(name: &str) -> Result {
    use cloudevents::Event;
    use cloudevents::message::BinaryDeserializer;
    use kafka_chain::codecs::cloudevents::{EventView, cloudevents};
    use support::events::{Bare, Order, SdkRecord, binary, structured};

    let is_large = name.ends_with("schema");
    let is_binary = name.starts_with("cloudevents-binary");
    let owned = match is_binary {
        true => binary(is_large),
        false => structured(is_large),
    };
    let record = owned.as_record();
    let context = record.context(Part::Value);
    let value = record.value.unwrap();
    let codec = cloudevents();
    let ours = || {
        let payload = Payload::Borrowed(black_box(value));
        black_box(read(&codec, black_box(&context), payload));
    };
    match name {
        _ if is_binary => {
            let times = Times::of(ours, || {
                let headers = black_box(record.headers);
                let value = black_box(value);
                black_box(SdkRecord { headers, value }.into_event().unwrap());
            });
            faster("Event, to cloudevents-sdk", 1.5, &times)
        }
        "cloudevents-structured" | "cloudevents-structured-schema" => {
            let times = Times::of(ours, || {
                black_box(serde_json::from_slice::<Event>(black_box(value)).unwrap());
            });
            faster("Event, to cloudevents-sdk", 2.0, &times)
        }
        _ => {
            let view = || {
                let view = EventView::read(black_box(record.headers), Some(black_box(value)));
                let view = view.unwrap();
                black_box(view.data::<Order<'_>>().unwrap());
                black_box(&view);
            };
            let times = Times::of(view, || {
                black_box(serde_json::from_slice::<Bare<'_>>(black_box(value)).unwrap());
            });
            longer("view and typed data, to serde_json alone", 1.5, &times)
        }
    }
}

/// A chain that reads `bytes`, as one call.
fn reading<D: Deserializer>(chain: &D, bytes: &[u8]) -> impl FnMut() {
    move || {
        let record = Record::of_value(Some(bytes));
        let context = record.context(Part::Value);
        black_box(read(chain, &context, Payload::Borrowed(black_box(bytes))));
    }
}

fn linear(name: &str) -> Result {
    fn two<D: Deserializer>(what: &str, chain: &D, small: &[u8], large: &[u8]) -> Result {
        growth(
            what,
            (large.len(), reading(chain, large)),
            (small.len(), reading(chain, small)),
        )
    }
    match name {
        "linear-properties" => {
            let (small, large) = (inputs::properties(300), inputs::properties(3000));
            let call = |text: &str| {
                let read = Properties::parse(text.as_bytes(), Charset::Utf8, "<text>");
                black_box(read.unwrap());
            };
            growth(
                "properties",
                (large.len(), || call(black_box(&large))),
                (small.len(), || call(black_box(&small))),
            )
        }
        "linear-list" => {
            let (small, large) = (inputs::longs(1000), inputs::longs(10_000));
            two("list of longs", &list(long()), &small, &large)
        }
        "linear-strings" => {
            let (small, large) = (inputs::strings(1000), inputs::strings(10_000));
            two("list of strings", &list(string()), &small, &large)
        }
        _ => {
            let (small, large) = (inputs::json(200), inputs::json(2000));
            let chain = json::<serde_json::Value>();
            two("JSON", &chain, small.as_bytes(), large.as_bytes())
        }
    }
}

type Comparison = (&'static str, fn(&str) -> Result, &'static str);

const COMPARISONS: &[Comparison] = &[
    (
        "chain-typed",
        chain,
        "typed chain around JSON, to the same by hand",
    ),
    ("chain-typed-shared", chain, "the same with shared bytes"),
    (
        "chain-erased",
        chain,
        "chain of properties around JSON, to the same by hand",
    ),
    ("chain-erased-shared", chain, "the same with shared bytes"),
    (
        "chain-erased-registered",
        chain,
        "the same with a type of the user's, which is boxed",
    ),
    (
        "layer-typed",
        layer,
        "what a layer adds to a trivial delegate, of 5 ns",
    ),
    (
        "layer-erased",
        layer,
        "what a layer adds to a trivial delegate, of 10 ns",
    ),
    (
        "cloudevents-structured",
        events,
        "structured mode to Event, to cloudevents-sdk",
    ),
    (
        "cloudevents-structured-schema",
        events,
        "the same with a dataschema and an extension more",
    ),
    (
        "cloudevents-binary",
        events,
        "binary mode to Event, to cloudevents-sdk",
    ),
    (
        "cloudevents-binary-schema",
        events,
        "the same with a dataschema and an extension more",
    ),
    (
        "cloudevents-view",
        events,
        "borrowed view and typed data, to serde_json alone",
    ),
    (
        "cloudevents-view-schema",
        events,
        "the same with a dataschema and an extension more",
    ),
    (
        "linear-properties",
        linear,
        "time per byte of ten times the properties",
    ),
    (
        "linear-list",
        linear,
        "time per byte of ten times the longs in a list",
    ),
    (
        "linear-strings",
        linear,
        "time per byte of ten times the strings in a list",
    ),
    ("linear-json", linear, "time per byte of ten times the JSON"),
];

fn main() -> ExitCode {
    // `cargo bench` adds `--bench` to what it was given.
    let name = std::env::args()
        .skip(1)
        .find(|word| !word.starts_with("--"));
    let Some(name) = name else {
        for (name, _, what) in COMPARISONS {
            println!("{name:<32}{what}");
        }
        return ExitCode::SUCCESS;
    };
    let Some((name, run, _)) = COMPARISONS.iter().find(|(known, ..)| *known == name) else {
        eprintln!("there is no comparison `{name}`");
        return ExitCode::from(2);
    };
    let Result {
        lines,
        ratio,
        target,
    } = run(name);
    let (sign, limit, met) = match target {
        Target::AtMost(limit) => ("<=", limit, ratio <= limit),
        Target::AtLeast(limit) => (">=", limit, ratio >= limit),
    };
    println!("{lines}, median of {ROUNDS} rounds");
    let met = if met { "met" } else { "short" };
    println!("{name} ratio={ratio:.3} target={sign}{limit:.2} {met}");
    ExitCode::SUCCESS
}
