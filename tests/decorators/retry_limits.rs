//! The limits of a retry: of one attempt, of all of them, and of the place it runs in.

use crate::support::{Endless, Leaf, Step, TEMPORARY, Waits, ms, poll_once, read};
use bytes::Bytes;
use kafka_chain::backoff::RetryEvent;
use kafka_chain::decorators::{ChainExt, Retry};
use kafka_chain::{Error, ErrorKind, Stage, Status, deserialize_with, matcher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn an_attempt_that_takes_too_long_is_dropped_and_made_again() {
    let leaf = Leaf::new([Step::Never, Step::Echo]);
    let chain = leaf
        .named("leaf")
        .retry(Waits([100]))
        .attempt_timeout(ms(1000));
    let value = read(&chain, b"x").await.unwrap();
    assert_eq!(value.as_deref(), Some(&b"x"[..]));
    assert_eq!(leaf.times(), [0, 1100].map(ms));
    assert_eq!(leaf.running(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_delegate_that_never_answers_is_exhausted_with_kind_timeout() {
    let leaf = Leaf::new([Step::Never]);
    let attempt = leaf.clone();
    let observer = move |_: &RetryEvent<'_>| assert_eq!(attempt.running(), 0, "dropped already");
    let chain = leaf
        .named("leaf")
        .retry(Waits([100, 100]))
        .attempt_timeout(ms(1000));
    let chain = chain.observer(Arc::new(observer));
    let failure = read(&chain.handle_exceptions(), b"x")
        .await
        .unwrap()
        .unwrap_err();
    let error = failure.error;
    assert_eq!(
        (error.kind(), error.status()),
        (ErrorKind::Timeout, Status::Exhausted)
    );
    assert_eq!((error.attempts(), error.elapsed()), (3, ms(3200)));
    assert_eq!(error.stage_path(), "exception-handling > retry");
    assert_eq!((leaf.calls(), leaf.running()), (3, 0));
}

#[tokio::test(start_paused = true)]
async fn without_an_attempt_timeout_an_attempt_may_take_its_time() {
    let leaf = Leaf::new([Step::Echo.later(Duration::from_secs(3600))]);
    read(&leaf.named("leaf").retry(Waits([100])), b"x")
        .await
        .unwrap();
    let in_time = Leaf::new([Step::Echo.later(ms(999))]);
    let chain = in_time
        .named("leaf")
        .retry(Waits([]))
        .attempt_timeout(ms(1000));
    read(&chain, b"x").await.unwrap();
}

/// FC-038 (a): a limit shorter than one wait cuts the wait and leaves one retry.
#[tokio::test(start_paused = true)]
async fn a_time_limit_shorter_than_the_first_wait_leaves_one_retry() {
    for limit in [15_000, 1, 0] {
        let leaf = Leaf::new([TEMPORARY]);
        let chain = leaf
            .named("leaf")
            .retry(Endless(30_000))
            .time_limit(ms(limit));
        let error = read(&chain, b"x").await.unwrap_err();
        assert_eq!(leaf.times(), [0, limit].map(ms), "limit of {limit} ms");
        assert_eq!((error.attempts(), error.status()), (2, Status::Exhausted));
    }
}

/// FC-038 (b): a slow first attempt does not use the window up.
#[tokio::test(start_paused = true)]
async fn the_time_limit_runs_from_the_first_failure() {
    let leaf = Leaf::new([TEMPORARY.later(ms(2000)), TEMPORARY]);
    let chain = leaf
        .named("leaf")
        .retry(Waits([400; 9]))
        .time_limit(ms(1000));
    let error = read(&chain, b"x").await.unwrap_err();
    assert_eq!(leaf.times(), [0, 2400, 2800, 3000].map(ms));
    assert_eq!((error.attempts(), error.elapsed()), (4, ms(3000)));
}

/// FC-038 (c)
#[tokio::test(start_paused = true)]
async fn no_attempt_starts_after_the_time_limit() {
    let leaf = Leaf::new([TEMPORARY]);
    let waits = Waits([1000, 2000, 4000, 8000, 16_000, 32_000]);
    let chain = leaf.named("leaf").retry(waits).time_limit(ms(15_000));
    let error = read(&chain, b"x").await.unwrap_err();
    assert_eq!(leaf.times(), [0, 1000, 3000, 7000, 15_000].map(ms));
    assert_eq!((error.status(), error.attempts()), (Status::Exhausted, 5));
    assert_eq!(error.kind(), ErrorKind::Unavailable);
}

#[tokio::test(start_paused = true)]
async fn the_longest_of_times_are_no_trouble() {
    let leaf = Leaf::new([TEMPORARY, Step::Echo]);
    let chain = leaf
        .named("leaf")
        .retry(Endless(u64::MAX))
        .attempt_timeout(Duration::MAX);
    let chain = chain.time_limit(Duration::MAX);
    assert!(
        tokio::time::timeout(ms(1000), read(&chain, b"x"))
            .await
            .is_err()
    );
    assert_eq!(leaf.calls(), 1);
}

/// Waits of nothing between answers that are there at once still let others on the thread go on.
#[tokio::test(start_paused = true)]
async fn a_retry_that_never_waits_starves_nobody() {
    const MANY: u32 = 1_000;
    let calls = AtomicU32::new(0);
    let leaf = deserialize_with(|_| match calls.fetch_add(1, Ordering::Relaxed) {
        0..MANY => Err(Error::unavailable("as told")),
        _ => Ok(None::<Bytes>),
    });
    let chain = leaf.retry(Endless(0));
    let other = async {
        for _ in 0..3 {
            tokio::task::yield_now().await;
        }
        calls.load(Ordering::Relaxed)
    };
    let (read, calls_before) = tokio::join!(read(&chain, b"x"), other);
    read.unwrap();
    assert!(calls_before < MANY, "{calls_before}");
}

/// A retry that needs a timer, as told by `limits`, under an exception handling that takes all.
fn read_without_timer(
    step: Step,
    limits: fn(Retry<Stage<Leaf>>) -> Retry<Stage<Leaf>>,
    run: impl FnOnce(&mut dyn FnMut() -> Poll<Error>) -> Error,
) {
    let leaf = Leaf::new([step]);
    let told = Arc::new(AtomicU32::new(0));
    let count = told.clone();
    let observer = move |_: &RetryEvent<'_>| _ = count.fetch_add(1, Ordering::Relaxed);
    let retry = leaf
        .named("leaf")
        .retry(Waits([1, 1]))
        .observer(Arc::new(observer));
    let chain = limits(retry).handle_exceptions().matcher(matcher::all());
    let error = run(&mut || poll_once(read(&chain, b"x")).map(Result::unwrap_err));
    assert_eq!(
        (error.kind(), error.status()),
        (ErrorKind::Config, Status::Permanent)
    );
    assert_eq!(error.stage_path(), "exception-handling > retry");
    assert!(
        error
            .message()
            .contains("tokio runtime with its timer enabled")
    );
    assert_eq!((leaf.calls(), leaf.running()), (1, 0));
    assert_eq!(
        told.load(Ordering::Relaxed),
        0,
        "a retry that does not happen is not told of"
    );
}

#[test]
fn without_a_timer_a_retry_that_must_wait_says_so_and_is_not_dead_lettered() {
    fn now(poll: Poll<Error>) -> Error {
        match poll {
            Poll::Ready(error) => error,
            Poll::Pending => panic!("nothing would ever wake it"),
        }
    }
    let timeout = |retry: Retry<_>| retry.attempt_timeout(ms(10));
    let timeout_and_matcher =
        |retry: Retry<_>| retry.attempt_timeout(ms(10)).matcher(matcher::all());
    let no_timer = || {
        tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap()
    };

    read_without_timer(TEMPORARY, |retry| retry, |poll| now(poll()));
    read_without_timer(Step::Never, timeout, |poll| now(poll()));
    read_without_timer(Step::Never, timeout_and_matcher, |poll| now(poll()));
    read_without_timer(
        TEMPORARY,
        |retry| retry,
        |poll| no_timer().block_on(async { now(poll()) }),
    );
    read_without_timer(Step::Never, timeout, |poll| {
        no_timer().block_on(async { now(poll()) })
    });
}

#[test]
fn without_a_runtime_all_that_needs_no_wait_works() {
    let leaf = Leaf::new([Step::Echo, crate::support::PERMANENT]);
    let chain = leaf.named("leaf").retry(Waits([1])).handle_exceptions();
    let Poll::Ready(Ok(Ok(Some(value)))) = poll_once(read(&chain, b"x")) else {
        panic!("a good record needs no timer");
    };
    assert_eq!(&value[..], b"x");
    let Poll::Ready(Ok(Err(failure))) = poll_once(read(&chain, b"x")) else {
        panic!("a bad record needs no timer");
    };
    assert_eq!(failure.error.status(), Status::Permanent);
}
