//! A panic of a leaf is an error of that leaf, and decorators contain nothing.

use crate::support::{Leaf, PERMANENT, Step, TEMPORARY, Waits, ms, poll_once, read};
use bytes::Bytes;
use kafka_chain::backoff::RetryEvent;
use kafka_chain::decorators::ChainExt;
use kafka_chain::{
    Answer, Component, Deserializer, Encoded, Error, ErrorKind, Input, Part, Payload, Record,
    Result, Serializer, Stage, Status, Target, deserialize_with_future,
};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

const SECRET: &str = "hunter2";

/// When a [`Bomb`] goes off, for a payload that begins with `!`.
#[derive(Clone, Copy, Debug, PartialEq)]
enum When {
    Call,
    Poll,
    /// Its future gives its answer and panics when it is dropped.
    DropAfterAnswer,
    /// The same with an error for an answer.
    DropAfterError,
    /// It panics when it is polled and once more when it is dropped.
    PollAndDrop,
    /// A panic whose payload panics when it is dropped, which panics when it is dropped.
    CallWithGrenade,
    PollWithGrenade,
}

const ALL: [When; 7] = [
    When::Call,
    When::Poll,
    When::DropAfterAnswer,
    When::DropAfterError,
    When::PollAndDrop,
    When::CallWithGrenade,
    When::PollWithGrenade,
];

struct Grenade(u32);

impl Drop for Grenade {
    fn drop(&mut self) {
        if self.0 > 0 {
            panic_any(Grenade(self.0 - 1));
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Bomb(When);

/// A future of any of the answers, so that it is the stage itself that drops it.
struct Fuse<T>(When, PhantomData<fn() -> T>);

impl<T: Default> Future for Fuse<T> {
    type Output = Result<T>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        match self.0 {
            When::Poll | When::PollAndDrop => panic!("{SECRET}"),
            When::PollWithGrenade => panic_any(Grenade(2)),
            When::DropAfterError => Poll::Ready(Err(Error::malformed("as told"))),
            _ => Poll::Ready(Ok(T::default())),
        }
    }
}

impl<T> Drop for Fuse<T> {
    fn drop(&mut self) {
        if matches!(
            self.0,
            When::DropAfterAnswer | When::DropAfterError | When::PollAndDrop
        ) {
            panic!("{SECRET}");
        }
    }
}

impl Bomb {
    fn answer<'a, T: Default + 'a>(
        &self,
        payload: Payload<'a>,
        good: impl FnOnce(Option<Bytes>) -> T,
    ) -> Answer<'a, T> {
        let armed = payload
            .as_bytes()
            .is_some_and(|bytes| bytes.starts_with(b"!"));
        match self.0 {
            _ if !armed => Answer::ok(good(payload.into_bytes())),
            When::Call => panic!("{SECRET}"),
            When::CallWithGrenade => panic_any(Grenade(2)),
            _ => Answer::pending(Fuse(self.0, PhantomData)),
        }
    }
}

impl Component for Bomb {
    fn close(&self) -> Answer<'_, ()> {
        self.answer(Payload::Borrowed(b"!"), |_| ())
    }
}

impl Deserializer for Bomb {
    type Output = Option<Bytes>;

    fn deserialize<'a>(&'a self, input: Input<'a>) -> Answer<'a, Option<Bytes>> {
        self.answer(input.payload, |bytes| bytes)
    }
}

impl Serializer for Bomb {
    type Input = [u8];

    fn serialize<'a>(&'a self, value: Payload<'a>, _: &'a Target<'a>) -> Answer<'a, Encoded> {
        self.answer(value, Encoded::of)
    }
}

fn assert_is_contained(error: &Error, when: When, path: &str) {
    if when == When::DropAfterError {
        assert_eq!(
            error.kind(),
            ErrorKind::Malformed,
            "the first mistake is the one told"
        );
    } else {
        assert_eq!(error.kind(), ErrorKind::Panic, "{when:?}");
        assert_eq!(error.message(), "the stage panicked");
    }
    assert_eq!(error.status(), Status::Permanent);
    assert_eq!(error.stage_path(), path);
    assert!(!format!("{error:#} {error:?}").contains(SECRET));
    assert!(std::error::Error::source(error).is_none());
}

/// FC-004, for a deserializer: offset 3 panics on every call, 4 and 5 are fine.
#[tokio::test(start_paused = true)]
async fn a_panic_is_a_failure_of_its_record_and_the_next_ones_are_fine() {
    let start = tokio::time::Instant::now();
    for when in ALL {
        let chain = Stage::new("bomb", Bomb(when));
        let chain = chain
            .pipe(Leaf::new([Step::Echo]).named("leaf"))
            .retry(Waits([100; 2]));
        let chain = chain.handle_exceptions();
        let failure = read(&chain, b"!3").await.unwrap().unwrap_err();
        let path = "exception-handling > retry > pipe.from > bomb";
        assert_is_contained(&failure.error, when, path);
        assert_eq!(failure.error.attempts(), 1, "a panic is permanent");
        assert_eq!(failure.record.value.as_deref(), Some(&b"!3"[..]));
        for good in [b"4", b"5"] {
            let value = read(&chain, good).await.unwrap().unwrap();
            assert_eq!(value.as_deref(), Some(&good[..]));
        }
    }
    assert_eq!(start.elapsed(), ms(0));
}

#[tokio::test]
async fn a_serializer_is_contained_as_well_and_so_is_close() {
    for when in ALL {
        let stage = Stage::new("bomb", Bomb(when));
        let chain = Leaf::new([Step::Echo])
            .named("leaf")
            .pipe(stage)
            .retry(Waits([1]));
        let target = Target::new("orders", Part::Value);
        let answer = chain.serialize(Payload::from(&b"!"[..]), &target);
        assert_is_contained(&answer.await.unwrap_err(), when, "retry > pipe.to > bomb");
        let good = chain
            .serialize(Payload::from(&b"x"[..]), &target)
            .await
            .unwrap();
        assert_eq!(good.payload.as_deref(), Some(&b"x"[..]));

        let leaf = Leaf::new([Step::Echo]);
        let chain = Stage::new("bomb", Bomb(when))
            .pipe(leaf.named("leaf"))
            .handle_exceptions();
        assert_is_contained(&chain.close().await.unwrap_err(), when, "bomb");
        assert_eq!(leaf.closed(), 1, "the other half is closed all the same");
    }
}

#[tokio::test(start_paused = true)]
async fn a_future_that_panics_when_it_is_dropped_unfinished_disturbs_nobody() {
    let stage = Stage::new("bomb", Bomb(When::DropAfterAnswer));
    let record = Record::of_value(Some(b"!"));
    let context = record.context(Part::Value);
    drop(stage.deserialize(Input::of(&context)));

    // Dropped because of a panic that is on its way already.
    let unwinding = catch_unwind(AssertUnwindSafe(|| {
        let _answer = stage.deserialize(Input::of(&context));
        panic!("of somebody else");
    }));
    let panic = unwinding.unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"of somebody else"));

    // Dropped by an attempt timeout.
    let stuck = deserialize_with_future(|_| {
        Box::pin(async {
            let _fuse = Fuse::<()>(When::DropAfterAnswer, PhantomData);
            std::future::pending::<Result<Option<Bytes>>>().await
        })
    });
    let chain = stuck.retry(Waits([1])).attempt_timeout(ms(5));
    let error = read(&chain, b"x").await.unwrap_err();
    assert_eq!((error.kind(), error.attempts()), (ErrorKind::Timeout, 2));
    assert_eq!(error.status(), Status::Exhausted);
}

/// Told to, a retry calls a leaf again that panicked.
#[tokio::test(start_paused = true)]
async fn a_panic_has_a_kind_that_a_matcher_can_take() {
    let chain = Stage::new("bomb", Bomb(When::Call)).retry(Waits([10, 10]));
    let chain = chain.matcher(kafka_chain::matcher::kind(ErrorKind::Panic));
    let error = read(&chain, b"!").await.unwrap_err();
    assert_eq!((error.attempts(), error.status()), (3, Status::Permanent));
}

fn panics(run: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(run)).is_err()
}

/// A mistake of what is plugged into a decorator is not a fault of the record: it is not made into
/// an error that could be dead-lettered.
#[tokio::test(start_paused = true)]
async fn decorators_contain_nothing() {
    let all = kafka_chain::matcher::all;
    let bad = |_: &Error| -> bool { panic!("in a matcher") };
    let leaf = |step| Leaf::new([step]).named("leaf");

    let chain = leaf(PERMANENT).handle_exceptions().matcher(bad);
    assert!(panics(|| _ = poll_once(read(&chain, b"x"))));
    let chain = leaf(PERMANENT)
        .retry(Waits([1]))
        .matcher(bad)
        .handle_exceptions()
        .matcher(all());
    assert!(panics(|| _ = poll_once(read(&chain, b"x"))));
    let observer = |_: &RetryEvent<'_>| panic!("in an observer");
    let chain = leaf(TEMPORARY)
        .retry(Waits([1]))
        .observer(Arc::new(observer));
    let chain = chain.handle_exceptions().matcher(all());
    assert!(panics(|| _ = poll_once(read(&chain, b"x"))));
    // A leaf of one's own that no stage is put around is on its own as well.
    let chain = Bomb(When::Call)
        .retry(Waits([1]))
        .handle_exceptions()
        .matcher(all());
    assert!(panics(|| _ = poll_once(read(&chain, b"!"))));
}

#[tokio::test]
async fn an_answer_that_was_given_is_not_given_twice() {
    let stage = Stage::new("bomb", Bomb(When::Poll));
    let record = Record::of_value(Some(b"!"));
    let context = record.context(Part::Value);
    let Answer::Pending(mut future) = stage.deserialize(Input::of(&context)) else {
        panic!("the bomb waits");
    };
    assert_eq!(future.as_mut().await.unwrap_err().kind(), ErrorKind::Panic);
    assert_eq!(future.as_mut().await.unwrap_err().kind(), ErrorKind::Config);
}
