//! A decorator adds no heap allocation to a good record: exact counts of typed and erased chains, in
//! both directions, against the counts of their leaves alone.

use bytes::Bytes;
use kafka_chain::backoff::Fixed;
use kafka_chain::codecs::json::json;
use kafka_chain::config::{Erase, EraseWriter, Registry};
use kafka_chain::decorators::{ChainExt, ExceptionHandling, Pipe, Retry};
use kafka_chain::properties::Properties;
use kafka_chain::{
    Answer, BoxDeserializer, BoxSerializer, Component, Deserializer, Encoded, Error, Give, Headers,
    Input, Part, Payload, Record, Result, Serializer, Stage, Target, Value,
};

/// Reads eight bytes and allocates nothing.
#[derive(Clone, Copy)]
struct Number;

impl Component for Number {}

impl Deserializer for Number {
    type Output = Option<i64>;

    fn deserialize<'a>(&'a self, input: Input<'a>) -> Answer<'a, Option<i64>> {
        let read = |bytes: &[u8]| -> Result<i64> {
            let bytes = bytes.try_into();
            Ok(i64::from_be_bytes(
                bytes.map_err(|_| Error::malformed("eight bytes"))?,
            ))
        };
        Answer::Ready(input.payload.as_bytes().map(read).transpose())
    }
}

/// Yields the bytes behind the first: copies them if they are borrowed, which is one allocation.
#[derive(Clone, Copy)]
struct Rest;

impl Component for Rest {}

impl Deserializer for Rest {
    type Output = Option<Bytes>;

    fn deserialize<'a>(&'a self, input: Input<'a>) -> Answer<'a, Option<Bytes>> {
        Answer::ok(match input.payload {
            Payload::Null => None,
            Payload::Borrowed(bytes) => Some(Bytes::copy_from_slice(&bytes[1..])),
            Payload::Shared(bytes) => Some(bytes.slice(1..)),
        })
    }
}

/// Writes the same static bytes and allocates nothing.
#[derive(Clone, Copy)]
struct Fixture;

impl Component for Fixture {}

impl Serializer for Fixture {
    type Input = i64;

    fn serialize<'a>(&'a self, _: Option<&'a i64>, _: &'a Target<'a>) -> Answer<'a, Encoded> {
        Answer::ok(Encoded::of(Some(Bytes::from_static(b"fixture"))))
    }
}

/// Bytes as they are; borrowed ones are copied, which is one allocation.
#[derive(Clone, Copy)]
struct Same;

impl Component for Same {}

impl Serializer for Same {
    type Input = [u8];

    fn serialize<'a>(&'a self, value: Payload<'a>, _: &'a Target<'a>) -> Answer<'a, Encoded> {
        Answer::ok(Encoded::of(value.into_bytes()))
    }
}

fn number() -> Stage<Number> {
    Stage::new("number", Number)
}

fn rest() -> Stage<Rest> {
    Stage::new("rest", Rest)
}

const NUMBER: &[u8] = &[0, 0, 0, 0, 0, 0, 0, 42];
const FRAMED: &[u8] = &[7, 0, 0, 0, 0, 0, 0, 0, 42];

/// Shared bytes as they are once anything holds a second reference: counted already.
fn shared(bytes: &[u8]) -> Payload<'static> {
    let bytes = Bytes::copy_from_slice(bytes);
    let payload = Payload::Shared(bytes.clone());
    drop(bytes);
    payload
}

/// How many allocations one record costs, from the second on, in the middle of which `check` looks
/// at what was read.
fn reading<D: Deserializer>(chain: &D, payload: &Payload<'_>, check: impl Fn(D::Output)) -> u64 {
    let record = Record::of_value(None);
    let context = record.context(Part::Value);
    let once = || {
        let input = Input {
            payload: payload.clone(),
            context: &context,
        };
        match chain.deserialize(input) {
            Answer::Ready(Ok(value)) => check(value),
            other => panic!("a good record was answered {other:?}"),
        }
    };
    once();
    allocation_counter::measure(once).count_total
}

fn writing<'a, S: Serializer>(chain: &'a S, value: <S::Input as Give>::Given<'a>) -> u64 {
    const TARGET: &Target<'static> = &Target::new("topic", Part::Value);
    let once = || match chain.serialize(value.clone(), TARGET) {
        Answer::Ready(Ok(encoded)) => assert!(encoded.payload.is_some()),
        other => panic!("a good value was answered {other:?}"),
    };
    once();
    allocation_counter::measure(once).count_total
}

fn is_42(value: Option<i64>) {
    assert_eq!(value, Some(42));
}

fn is_value_42(value: Value) {
    assert!(matches!(value, Value::Long(42)), "{value:?}");
}

fn boxed(leaf: impl Deserializer<Output = Value> + 'static) -> BoxDeserializer<Value> {
    Box::new(leaf)
}

fn erased_retry(delegate: BoxDeserializer<Value>) -> BoxDeserializer<Value> {
    Retry::new(delegate, shared_backoff()).boxed()
}

fn shared_backoff() -> kafka_chain::backoff::SharedBackoff {
    kafka_chain::backoff::SharedBackoff::new(Fixed::default())
}

#[test]
fn the_counter_counts() {
    assert_eq!(
        allocation_counter::measure(|| drop(Box::new(1))).count_total,
        1
    );
}

#[test]
fn a_typed_decorator_alone_adds_no_allocation() {
    for payload in [Payload::Borrowed(NUMBER), shared(NUMBER)] {
        assert_eq!(reading(&number(), &payload, is_42), 0, "bare");
        let retry = number().retry(Fixed::default());
        assert_eq!(reading(&retry, &payload, is_42), 0, "retry");
        let handling = number().handle_exceptions();
        assert_eq!(
            reading(&handling, &payload, |value| is_42(value.unwrap())),
            0
        );
    }
}

#[test]
fn an_erased_decorator_alone_adds_no_allocation() {
    for payload in [Payload::Borrowed(NUMBER), shared(NUMBER)] {
        let bare = boxed(Erase(number()));
        assert_eq!(reading(&bare, &payload, is_value_42), 0, "bare");
        let retry = erased_retry(boxed(Erase(number())));
        assert_eq!(reading(&retry, &payload, is_value_42), 0, "retry");
        let handling = ExceptionHandling::erased(boxed(Erase(number()))).boxed();
        assert_eq!(
            reading(&handling, &payload, is_value_42),
            0,
            "exception handling"
        );
    }
}

/// The copy that `Rest` makes of borrowed bytes is all there is, with a pipe around it and without.
#[test]
fn a_pipe_adds_no_allocation_to_those_of_its_halves() {
    let is_number = |bytes: Option<Bytes>| assert_eq!(bytes.as_deref(), Some(NUMBER));
    for (payload, halves) in [(Payload::Borrowed(FRAMED), 1), (shared(FRAMED), 0)] {
        assert_eq!(
            reading(&rest(), &payload, is_number),
            halves,
            "`from` alone"
        );
        assert_eq!(reading(&rest().pipe(number()), &payload, is_42), halves);
        let erased = Pipe::new(boxed(Erase(rest())), boxed(Erase(number()))).boxed();
        assert_eq!(reading(&erased, &payload, is_value_42), halves, "erased");
    }
}

#[test]
fn three_decorators_together_add_no_allocation() {
    for (payload, halves) in [(Payload::Borrowed(FRAMED), 1), (shared(FRAMED), 0)] {
        let chain = rest().pipe(number()).retry(Fixed::default());
        let chain = chain.handle_exceptions();
        assert_eq!(
            reading(&chain, &payload, |value| is_42(value.unwrap())),
            halves
        );
        let pipe = Pipe::new(boxed(Erase(rest())), boxed(Erase(number()))).boxed();
        let erased = ExceptionHandling::erased(erased_retry(pipe)).boxed();
        assert_eq!(reading(&erased, &payload, is_value_42), halves, "erased");
    }
}

#[test]
fn a_retry_within_a_pipe_shares_what_from_yielded() {
    let chain = rest().pipe(number().retry(Fixed::default()));
    assert_eq!(reading(&chain, &shared(FRAMED), is_42), 0);
}

/// Bytes that own exactly their vector get a reference count, on the heap, with their first clone:
/// the one exception, which a retry right behind such a stage pays.
#[test]
fn a_retry_of_bytes_that_were_never_shared_allocates_their_count() {
    let chain = number().retry(Fixed::default());
    let record = Record::of_value(None);
    let context = record.context(Part::Value);
    let input = Input {
        payload: Payload::Shared(Bytes::from(NUMBER.to_vec())),
        context: &context,
    };
    let count = allocation_counter::measure(|| {
        let answer = chain.deserialize(input);
        assert!(matches!(answer, Answer::Ready(Ok(Some(42)))));
    });
    assert_eq!(count.count_total, 1);
}

#[test]
fn a_null_passes_three_decorators_without_an_allocation() {
    let chain = rest().pipe(number()).retry(Fixed::default());
    let chain = chain.handle_exceptions();
    let is_null = |value: kafka_chain::Outcome<Option<i64>>| assert_eq!(value.unwrap(), None);
    assert_eq!(reading(&chain, &Payload::Null, is_null), 0);
}

#[test]
fn a_chain_of_properties_adds_no_allocation() {
    let registry = Registry::builtin()
        .with_deserializer("rest", |_| Some(Rest))
        .with_deserializer("number", |_| Some(Number));
    let chain = |text: &str| {
        let properties = Properties::from_iter([("value.deserializer", text)]);
        let configuration = registry.configure(&properties).unwrap();
        configuration.deserializer::<i64>(Part::Value).unwrap()
    };
    for (payload, halves) in [(Payload::Borrowed(FRAMED), 1), (shared(FRAMED), 0)] {
        for text in [
            "pipe(rest, number)",
            "retry(pipe(rest, number))",
            "exception-handling(retry(pipe(rest, number)))",
        ] {
            let count = reading(&chain(text), &payload, |value| is_42(value.unwrap()));
            assert_eq!(count, halves, "{text}");
        }
    }
}

/// What JSON allocates is the same with three decorators around it. A registered type travels in a
/// box of its own, which is the one allocation that its being erased costs, whatever is around it.
#[test]
fn around_json_the_count_is_that_of_json() {
    #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
    struct Order {
        id: u32,
        customer: String,
        items: Vec<u32>,
    }
    let document: &[u8] = br#"#{"id":7,"customer":"c-1","items":[1,2]}"#;
    let payload = shared(document);
    let checked = |order: Option<Order>| assert_eq!(order.unwrap().id, 7);
    let bare = reading(&json::<Order>(), &shared(&document[1..]), checked);
    assert_eq!(bare, 2, "a string and a vector");

    let chain = rest().pipe(json::<Order>()).retry(Fixed::default());
    let chain = chain.handle_exceptions();
    assert_eq!(
        reading(&chain, &payload, |order| checked(order.unwrap())),
        bare
    );

    let registry = Registry::builtin()
        .with_json::<Order>("order")
        .with_deserializer("rest", |_| Some(Rest));
    let count = |text: &str| {
        let properties = Properties::from_iter([("value.deserializer", text)]);
        let configuration = registry.configure(&properties).unwrap();
        let chain = configuration.deserializer::<Order>(Part::Value).unwrap();
        reading(&chain, &payload, |order| checked(order.unwrap()))
    };
    assert_eq!(count("pipe(rest, order)"), bare + 1);
    assert_eq!(
        count("exception-handling(retry(pipe(rest, order)))"),
        bare + 1
    );
}

#[test]
fn a_decorator_that_writes_adds_no_allocation() {
    let bare = Stage::new("fixture", Fixture);
    assert_eq!(writing(&bare, Some(&42)), 0, "bare");
    assert_eq!(
        writing(&bare.clone().retry(Fixed::default()), Some(&42)),
        0,
        "retry"
    );
    let pipe = bare.clone().pipe(Stage::new("same", Same));
    assert_eq!(writing(&pipe, Some(&42)), 0, "pipe");
    let three = bare
        .retry(Fixed::default())
        .pipe(Stage::new("same", Same))
        .retry(Fixed::default());
    assert_eq!(writing(&three, Some(&42)), 0, "three");
}

#[test]
fn an_erased_decorator_that_writes_adds_no_allocation() {
    let fixture = || EraseWriter(Stage::new("fixture", Fixture)).boxed_serializer();
    let same = || -> BoxSerializer<[u8]> { Box::new(Stage::new("same", Same)) };
    let value = Value::Long(42);
    assert_eq!(writing(&fixture(), Some(&value)), 0, "bare");
    let retry = Retry::new(fixture(), shared_backoff()).boxed_serializer();
    assert_eq!(writing(&retry, Some(&value)), 0, "retry");
    let pipe = Pipe::new(fixture(), same()).boxed_serializer();
    assert_eq!(writing(&pipe, Some(&value)), 0, "pipe");
    let pipe = Pipe::new(retry, same()).boxed_serializer();
    let three = Retry::new(pipe, shared_backoff()).boxed_serializer();
    assert_eq!(writing(&three, Some(&value)), 0, "three");
}

/// Bytes to bytes: the one allocation of borrowed bytes is the codec's own.
#[test]
fn a_retry_that_writes_bytes_shares_them() {
    for (payload, own) in [(Payload::Borrowed(NUMBER), 1), (shared(NUMBER), 0)] {
        assert_eq!(writing(&Stage::new("same", Same), payload.clone()), own);
        let retry = Stage::new("same", Same).retry(Fixed::default());
        assert_eq!(writing(&retry, payload), own);
    }
}

#[test]
fn a_pipe_takes_the_headers_of_either_half_as_they_are() {
    let some = || Headers::from_iter([("a", Some("1"))]);
    for (mut first, second) in [(some(), Headers::new()), (Headers::new(), some())] {
        let count = allocation_counter::measure(|| first.append(second)).count_total;
        assert_eq!(count, 0);
        assert_eq!(first, some());
    }
}
