//! A pipe that reads: the bytes of `from` go to `to`, and what is no bytes goes around it.

use crate::support::{Leaf, PERMANENT, Step, TEMPORARY, failed, ms, read};
use bytes::Bytes;
use kafka_chain::codecs::json::json;
use kafka_chain::decorators::{ChainExt, ExceptionHandling, Pipe};
use kafka_chain::{
    BoxDeserializer, Component, Error, ErrorKind, Input, Outcome, Part, Payload, Record, Result,
    Value, deserialize, deserialize_with, matcher,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

const THREE: [Option<&[u8]>; 3] = [None, Some(b""), Some(b"a")];

/// An erased leaf that yields what it is given.
fn echo(input: Input<'_>) -> Result<Value> {
    Ok(Value::from(input.payload.into_bytes()))
}

fn flat(value: &Value) -> Option<&[u8]> {
    match value {
        Value::Null => None,
        Value::Bytes(bytes) => Some(bytes),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn what_from_yields_is_what_to_reads_now_or_later() {
    let reverse = || {
        deserialize_with(|input| {
            let bytes = input.payload.into_bytes();
            Ok(bytes.map(|bytes| Bytes::from_iter(bytes.iter().rev().copied())))
        })
    };
    let (now, later) = (Step::Echo, Step::Echo.later(ms(10)));
    for from in [&now, &later] {
        for to in [&now, &later] {
            let from = Leaf::new([from.clone()]).named("from");
            let to = Leaf::new([to.clone()]).named("to");
            let chain = from.pipe(reverse()).pipe(to);
            assert_eq!(
                read(&chain, b"abc").await.unwrap().as_deref(),
                Some(&b"cba"[..])
            );
        }
    }
    let number = Leaf::new([now]).named("from").pipe(json::<u32>());
    assert_eq!(read(&number, b"42").await.unwrap(), Some(42));
}

/// FC-012 and FC-013, within a chain: null is not empty, and both go through.
#[tokio::test(start_paused = true)]
async fn null_and_empty_go_to_to_as_they_are() {
    for (from, to) in [
        (Step::Echo, Step::Echo.later(ms(1))),
        (Step::Echo.later(ms(1)), Step::Echo),
    ] {
        let (from, to) = (Leaf::new([from]), Leaf::new([to]));
        let typed = from.named("from").pipe(to.named("to"));
        let calls = AtomicU32::new(0);
        let erased = deserialize_with(echo).pipe(deserialize_with(|input| {
            calls.fetch_add(1, Ordering::Relaxed);
            echo(input)
        }));
        let handled = to.named("from").handle_exceptions().pipe(to.named("to"));
        for bytes in THREE {
            let record = Record::of_value(bytes);
            let read = deserialize(&typed, &record, Part::Value).await.unwrap();
            assert_eq!(read.as_deref(), bytes);
            let read = deserialize(&erased, &record, Part::Value).await.unwrap();
            assert_eq!(flat(&read), bytes);
            let read = deserialize(&handled, &record, Part::Value).await.unwrap();
            assert_eq!(read.unwrap().as_deref(), bytes);
        }
        assert_eq!((from.calls(), to.calls()), (3, 9));
        assert_eq!(calls.load(Ordering::Relaxed), 3);
    }
    // `to` decides what a null is: to JSON it is no document, and empty is a broken one.
    let chain = deserialize_with(|input| Ok(input.payload.into_bytes())).pipe(json::<u32>());
    let of = async |bytes| deserialize(&chain, &Record::of_value(bytes), Part::Value).await;
    assert_eq!(of(None).await.unwrap(), None);
    assert_eq!(
        of(Some(b"")).await.unwrap_err().kind(),
        ErrorKind::Malformed
    );
}

#[tokio::test(start_paused = true)]
async fn an_error_of_either_half_ends_the_pipe_there() {
    for step in [
        TEMPORARY,
        PERMANENT,
        TEMPORARY.later(ms(5)),
        PERMANENT.later(ms(5)),
    ] {
        let (from, to) = (Leaf::new([step.clone()]), Leaf::new([Step::Echo]));
        let error = read(&from.named("a").pipe(to.named("b")), b"x")
            .await
            .unwrap_err();
        assert_eq!(
            (error.stage_path().as_str(), to.calls()),
            ("pipe.from > a", 0)
        );

        let (from, to) = (Leaf::new([Step::Echo]), Leaf::new([step]));
        let error = read(&from.named("a").pipe(to.named("b")), b"x")
            .await
            .unwrap_err();
        assert_eq!(
            (error.stage_path().as_str(), to.calls()),
            ("pipe.to > b", 1)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_of_from_is_the_outcome_of_a_typed_pipe() {
    for step in [PERMANENT, PERMANENT.later(ms(5))] {
        let (from, to) = (Leaf::new([step]), Leaf::new([Step::Echo]));
        let chain = from.named("a").handle_exceptions().pipe(to.named("b"));
        let outcome: Outcome<Option<Bytes>> = read(&chain, b"x").await.unwrap();
        let failure = outcome.unwrap_err();
        assert_eq!(failure.error.stage_path(), "exception-handling > a");
        assert_eq!(
            (failure.record.value.as_deref(), to.calls()),
            (Some(&b"x"[..]), 0)
        );

        // An error of `to` is not taken by the handling inside `from`.
        let broken = Leaf::new([PERMANENT]).named("b");
        let error = read(&to.named("a").handle_exceptions().pipe(broken), b"x")
            .await
            .unwrap_err();
        assert_eq!(error.stage_path(), "pipe.to > b");
    }
}

#[tokio::test]
async fn handlings_in_both_halves_are_an_outcome_of_an_outcome_and_pipes_of_pipes_too() {
    let good = || Leaf::new([Step::Echo]).named("good").handle_exceptions();
    let bad = || Leaf::new([PERMANENT]).named("bad").handle_exceptions();
    let outcome: Outcome<Outcome<_>> = read(&good().pipe(bad()), b"x").await.unwrap();
    assert_eq!(
        outcome.unwrap().unwrap_err().error.stage_path(),
        "exception-handling > bad"
    );
    let outcome: Outcome<Outcome<_>> = read(&bad().pipe(good()), b"x").await.unwrap();
    assert_eq!(
        outcome.unwrap_err().error.stage_path(),
        "exception-handling > bad"
    );

    // An outcome of an outcome may stand in a `from` again.
    let three = good()
        .pipe(bad())
        .pipe(Leaf::new([Step::Echo]).named("never"));
    let outcome: Outcome<Outcome<Option<Bytes>>> = read(&three, b"x").await.unwrap();
    assert_eq!(
        outcome.unwrap().unwrap_err().error.stage_path(),
        "exception-handling > bad"
    );
}

#[tokio::test]
async fn a_failure_of_an_erased_pipe_is_one_flat_value() {
    let broken = || deserialize_with(|_| Err::<Value, _>(Error::decrypt("as told")));
    let calls = Arc::new(AtomicU32::new(0));
    let count = calls.clone();
    let to = deserialize_with(move |input| {
        count.fetch_add(1, Ordering::Relaxed);
        echo(input)
    });
    let from = ExceptionHandling::erased(broken().named("aes"));
    let pipe = ExceptionHandling::erased(Pipe::new(from, to)).labelled("outer");
    let failure = failed(read(&pipe, b"x").await.unwrap());
    assert_eq!(failure.error.stage_path(), "exception-handling > aes");
    assert_eq!(calls.load(Ordering::Relaxed), 0);

    let to = ExceptionHandling::erased(broken().named("aes"));
    let pipe = ExceptionHandling::erased(deserialize_with(echo)).pipe(to);
    let failure = failed(read(&pipe, b"x").await.unwrap());
    assert_eq!(failure.error.stage_path(), "exception-handling > aes");
}

#[tokio::test]
async fn a_from_that_yields_no_bytes_is_a_wiring_mistake_that_surfaces() {
    let text = deserialize_with(|_| Ok(Value::from("hunter2".to_owned())));
    let pipe = text.pipe(deserialize_with(echo));
    let chain = ExceptionHandling::erased(pipe).matcher(matcher::all());
    let error = read(&chain, b"x").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert_eq!(error.stage_path(), "exception-handling > pipe.from");
    assert_eq!(
        error.message(),
        "a pipe's `from` must yield bytes, not string"
    );
}

/// Chains nest 32 deep; both ways to nest pipes hold bytes, nulls and errors that much.
#[tokio::test(start_paused = true)]
async fn pipes_nest_as_deep_as_chains_may() {
    fn nest<T: Send + 'static>(
        leaf: impl Fn() -> BoxDeserializer<T>,
        pipe: impl Fn(BoxDeserializer<T>, BoxDeserializer<T>) -> BoxDeserializer<T>,
    ) -> [BoxDeserializer<T>; 2] {
        let left = (1..kafka_chain::MAX_DEPTH).fold(leaf(), |chain, _| pipe(chain, leaf()));
        let right = (1..kafka_chain::MAX_DEPTH).fold(leaf(), |chain, _| pipe(leaf(), chain));
        [left, right]
    }
    type Typed = BoxDeserializer<Option<Bytes>>;
    let typed = |leaf: &Leaf| {
        let leaf = leaf.clone();
        nest(
            move || leaf.named("leaf").boxed(),
            |from: Typed, to: Typed| from.pipe(to).boxed(),
        )
    };
    let erased = nest(
        || deserialize_with(echo).boxed(),
        |from, to| ExceptionHandling::erased(from.pipe(to)).boxed(),
    );
    for step in [Step::Echo, Step::Echo.later(ms(1))] {
        for chain in typed(&Leaf::new([step])) {
            assert_eq!(chain.describe().depth(), kafka_chain::MAX_DEPTH);
            for bytes in THREE {
                let record = Record::of_value(bytes);
                let read = deserialize(&chain, &record, Part::Value).await.unwrap();
                assert_eq!(read.as_deref(), bytes);
            }
        }
    }
    for chain in erased {
        for bytes in THREE {
            let record = Record::of_value(bytes);
            let read = deserialize(&chain, &record, Part::Value).await.unwrap();
            assert_eq!(flat(&read), bytes);
        }
    }
    // 31 good leaves first: the last one is the innermost `to`, or the outermost.
    let mut steps = vec![Step::Echo; kafka_chain::MAX_DEPTH - 1];
    steps.push(PERMANENT);
    let [left, _] = typed(&Leaf::new(steps.clone()));
    assert_eq!(
        read(&left, b"x").await.unwrap_err().stage_path(),
        "pipe.to > leaf"
    );
    let [_, right] = typed(&Leaf::new(steps));
    let path = format!("{}leaf", "pipe.to > ".repeat(kafka_chain::MAX_DEPTH - 1));
    assert_eq!(read(&right, b"x").await.unwrap_err().stage_path(), path);
}

#[tokio::test(start_paused = true)]
async fn close_closes_both_halves_even_if_one_fails_and_tells_the_first_error() {
    let (unavailable, malformed) = (ErrorKind::Unavailable, ErrorKind::Malformed);
    let table = [
        (Step::Echo, Step::Echo, None),
        (TEMPORARY, Step::Echo, Some(unavailable)),
        (Step::Echo, PERMANENT, Some(malformed)),
        (TEMPORARY, PERMANENT, Some(unavailable)),
    ];
    for (from, to, expected) in table {
        for (from_waits, to_waits) in [(false, false), (true, false), (false, true), (true, true)] {
            let late = |step: &Step, waits| match waits {
                true => step.clone().later(ms(5)),
                false => step.clone(),
            };
            let from = Leaf::new([late(&from, from_waits)]);
            let to = Leaf::new([late(&to, to_waits)]);
            let closed = from.named("a").pipe(to.named("b")).close().await;
            assert_eq!(closed.err().map(|error| error.kind()), expected);
            assert_eq!((from.closed(), to.closed()), (1, 1));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn every_decorator_forwards_close() {
    let (a, b) = (Leaf::new([Step::Echo]), Leaf::new([PERMANENT.later(ms(5))]));
    let waits = crate::support::Waits([10]);
    let chain = a
        .named("a")
        .retry(waits)
        .pipe(b.named("b"))
        .retry(waits)
        .handle_exceptions();
    let chain = Arc::new(chain.handle_exceptions().boxed());
    let error = chain.close().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Malformed);
    // Once each: closing is not tried again, and no error of it becomes a value.
    assert_eq!((a.closed(), b.closed()), (1, 1));
}

#[test]
fn a_shared_payload_is_handed_on_without_a_copy() {
    let bytes = Bytes::from(vec![1, 2, 3]);
    let (first, address) = (bytes.clone(), bytes.as_ptr());
    let chain = deserialize_with(move |_| Ok(Some(first.clone()))).pipe(deserialize_with(
        |input| match input.payload {
            Payload::Shared(bytes) => Ok(Some(bytes)),
            _ => Err(Error::malformed("not shared")),
        },
    ));
    let record = Record::of_value(Some(b"x"));
    let context = record.context(Part::Value);
    let answer = kafka_chain::Deserializer::deserialize(&chain, Input::of(&context));
    let read = answer.now().unwrap().unwrap().unwrap();
    assert_eq!(read.as_ptr(), address);
}
