//! A retry calls again while an error may pass, and says how often when it gives up.

use crate::support::{Endless, Leaf, PERMANENT, Step, TEMPORARY, Waits, ms, poll_once, read};
use bytes::Bytes;
use kafka_chain::backoff::{Backoff, RetryEvent, RetryObserver};
use kafka_chain::codecs::json::json;
use kafka_chain::decorators::{ChainExt, Retry};
use kafka_chain::{
    ErrorKind, Part, Payload, Record, Serializer, Status, Target, deserialize, deserialize_with,
    matcher,
};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;

/// The `n`-th wait is `first` doubled `n - 1` times, at most `max`.
struct Doubling {
    first: Duration,
    max: Duration,
    retries: u32,
}

impl Backoff for Doubling {
    fn wait(&self, retry: u32, _: f64) -> Option<Duration> {
        let wait = self.first.saturating_mul(1 << (retry - 1));
        (retry <= self.retries).then(|| wait.min(self.max))
    }

    fn retries(&self) -> Option<u32> {
        Some(self.retries)
    }
}

/// FC-045: the first call counts, so five attempts are four waits.
#[tokio::test(start_paused = true)]
async fn five_attempts_are_five_calls_and_four_exact_waits() {
    let leaf = Leaf::new([TEMPORARY]);
    let doubling = |retries| Doubling {
        first: ms(100),
        max: ms(10_000),
        retries,
    };
    let error = read(&leaf.named("leaf").retry(doubling(4)), b"x")
        .await
        .unwrap_err();
    assert_eq!(leaf.waits(), [100, 200, 400, 800].map(ms));
    assert_eq!((error.attempts(), error.elapsed()), (5, ms(1500)));
    assert_eq!(error.status(), Status::Exhausted);
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(error.stage_path(), "retry > leaf");

    let leaf = Leaf::new([TEMPORARY]);
    let error = read(&leaf.named("leaf").retry(doubling(0)), b"x")
        .await
        .unwrap_err();
    assert_eq!(leaf.times(), [ms(0)]);
    assert_eq!((error.attempts(), error.elapsed()), (1, ms(0)));
    assert_eq!(error.status(), Status::Exhausted);
}

/// FC-008, and the decoding half of FC-001: no wait is spent on what cannot get better.
#[tokio::test(start_paused = true)]
async fn a_permanently_bad_record_is_called_once_however_many_retries_there_are() {
    let start = Instant::now();
    for step in [PERMANENT, PERMANENT.later(ms(7))] {
        let leaf = Leaf::new([step]);
        let error = read(&leaf.named("leaf").retry(Endless(100)), b"x")
            .await
            .unwrap_err();
        assert_eq!((leaf.calls(), error.attempts()), (1, 1));
        assert_eq!(error.status(), Status::Permanent);
    }
    assert_eq!(start.elapsed(), ms(7));

    let leaf = Leaf::new([TEMPORARY, TEMPORARY, TEMPORARY, Step::Echo]);
    let value = read(&leaf.named("leaf").retry(Endless(100)), b"x")
        .await
        .unwrap();
    assert_eq!(value.as_deref(), Some(&b"x"[..]));
    assert_eq!((leaf.calls(), start.elapsed()), (4, ms(307)));
}

/// FC-001: the record between two good ones is cut off.
#[tokio::test(start_paused = true)]
async fn an_undecodable_record_is_a_failure_at_once_and_holds_up_nobody() {
    let start = Instant::now();
    let chain = json::<HashMap<String, u8>>()
        .retry(Waits([1000; 3]))
        .handle_exceptions();
    let mut seen = Vec::new();
    for bytes in [
        &br#"{"a":1}"#[..],
        &[0x7b, 0x22, 0x61, 0x22, 0x3a],
        br#"{"a":3}"#,
    ] {
        let outcome = read(&chain, bytes).await.unwrap();
        seen.push(outcome.map(|map| map.unwrap()["a"]));
    }
    assert_eq!(start.elapsed(), ms(0));
    let failure = seen.remove(1).unwrap_err();
    assert_eq!(
        failure.record.value.as_deref(),
        Some(&b"\x7b\x22\x61\x22\x3a"[..])
    );
    assert_eq!(
        (failure.error.attempts(), failure.error.kind()),
        (1, ErrorKind::Malformed)
    );
    assert_eq!(seen, [Ok(1), Ok(3)]);
}

#[tokio::test(start_paused = true)]
async fn a_good_record_is_answered_at_once_and_a_slow_one_without_a_second_call() {
    let leaf = Leaf::new([Step::Echo, Step::Echo.later(ms(50))]);
    let chain = leaf.named("leaf").retry(Waits([100])).handle_exceptions();
    assert!(poll_once(read(&chain, b"x")).is_ready());
    let value = read(&chain, b"y").await.unwrap().unwrap();
    assert_eq!((value.as_deref(), leaf.calls()), (Some(&b"y"[..]), 2));
}

/// FC-035: the count belongs to the call, so records do not reset one another.
#[tokio::test(start_paused = true)]
async fn interleaved_records_have_counts_of_their_own() {
    type Calls = HashMap<(i32, i64), Vec<Duration>>;
    let calls: Arc<Mutex<Calls>> = Arc::default();
    let (diary, start) = (calls.clone(), Instant::now());
    let leaf = deserialize_with(move |input| {
        let record = input.context.record;
        let mut diary = diary.lock().unwrap();
        let mine = diary.entry((record.partition, record.offset)).or_default();
        mine.push(start.elapsed());
        match (record.partition, mine.len()) {
            (2, 2) => Ok(input.payload.into_bytes()),
            _ => Err(kafka_chain::Error::unavailable("as told")),
        }
    });
    let chain = leaf.retry(Waits([100, 200]));
    let record = |partition, offset| Record {
        partition,
        offset,
        ..Record::of_value(Some(b"x"))
    };
    let (a, b, c) = (record(0, 7), record(1, 7), record(2, 7));
    let later = async {
        tokio::time::sleep(ms(50)).await;
        deserialize(&chain, &b, Part::Value).await
    };
    let (a, b, c) = tokio::join!(
        deserialize(&chain, &a, Part::Value),
        later,
        deserialize(&chain, &c, Part::Value),
    );
    let calls = calls.lock().unwrap();
    assert_eq!(calls[&(0, 7)], [0, 100, 300].map(ms));
    assert_eq!(calls[&(1, 7)], [50, 150, 350].map(ms));
    assert_eq!(calls[&(2, 7)], [0, 100].map(ms));
    for error in [a.unwrap_err(), b.unwrap_err()] {
        assert_eq!((error.attempts(), error.elapsed()), (3, ms(300)));
    }
    assert_eq!(c.unwrap(), Some(Bytes::from_static(b"x")));
    // All three waited at once, on one thread.
    assert_eq!(start.elapsed(), ms(350));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_answer_calls_and_waits_no_more() {
    // Dropped in the wait.
    let leaf = Leaf::new([TEMPORARY]);
    let chain = leaf.named("leaf").retry(Endless(100));
    let given_up = tokio::time::timeout(ms(250), read(&chain, b"x")).await;
    assert!(given_up.is_err());
    tokio::time::sleep(ms(10_000)).await;
    assert_eq!(leaf.times(), [0, 100, 200].map(ms));

    // Dropped while the delegate waits.
    let leaf = Leaf::new([TEMPORARY, Step::Never]);
    let chain = leaf.named("leaf").retry(Endless(100));
    let mut reading = Box::pin(read(&chain, b"x"));
    let given_up = tokio::time::timeout(ms(250), &mut reading).await;
    assert!(given_up.is_err());
    assert_eq!((leaf.calls(), leaf.running()), (2, 1));
    drop(reading);
    assert_eq!(leaf.running(), 0);
    tokio::time::sleep(ms(10_000)).await;
    assert_eq!(leaf.calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn of_nested_retries_the_outermost_that_tried_again_tells_its_attempts() {
    // The inner one gives up, which the outer one does not take by default.
    let leaf = Leaf::new([TEMPORARY]);
    let inner = leaf.named("leaf").retry(Waits([10, 10])).labelled("inner");
    let error = read(&inner.retry(Waits([100])), b"x").await.unwrap_err();
    assert_eq!(
        (leaf.calls(), error.attempts(), error.elapsed()),
        (3, 3, ms(20))
    );
    assert_eq!(error.stage_path(), "retry > inner > leaf");

    // Told to take it, the outer one does the whole inner one again.
    let leaf = Leaf::new([TEMPORARY]);
    let inner = leaf.named("leaf").retry(Waits([10, 10])).labelled("inner");
    let outer = inner
        .retry(Waits([100]))
        .matcher(matcher::status(Status::Exhausted));
    let error = read(&outer, b"x").await.unwrap_err();
    assert_eq!(leaf.times(), [0, 10, 20, 120, 130, 140].map(ms));
    assert_eq!((error.attempts(), error.elapsed()), (2, ms(140)));
    assert_eq!(error.status(), Status::Exhausted);
}

#[tokio::test(start_paused = true)]
async fn a_matcher_says_what_is_tried_again_and_only_temporary_becomes_exhausted() {
    let leaf = Leaf::new([PERMANENT]);
    let chain = leaf
        .named("leaf")
        .retry(Waits([10]))
        .matcher(matcher::all());
    let error = read(&chain, b"x").await.unwrap_err();
    assert_eq!((leaf.calls(), error.attempts()), (2, 2));
    assert_eq!(error.status(), Status::Permanent);

    let leaf = Leaf::new([TEMPORARY]);
    let chain = leaf
        .named("leaf")
        .retry(Waits([10]))
        .matcher(matcher::none());
    let error = read(&chain, b"x").await.unwrap_err();
    assert_eq!((leaf.calls(), error.status()), (1, Status::Temporary));
}

/// A chain that is wired wrongly is not tried again, so that it surfaces even from a retry that
/// takes every error and never ends.
#[tokio::test(start_paused = true)]
async fn a_wiring_mistake_is_never_tried_again() {
    let leaf = Leaf::new([Step::Fail(ErrorKind::Config, Status::Permanent)]);
    let chain = leaf
        .named("leaf")
        .retry(Endless(100))
        .matcher(matcher::all());
    let read = tokio::time::timeout(ms(10_000), read(&chain, b"x")).await;
    assert_eq!(read.unwrap().unwrap_err().kind(), ErrorKind::Config);
    assert_eq!(leaf.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_serializer_is_tried_again_and_a_failed_attempt_leaves_no_header() {
    let leaf = Leaf::new([TEMPORARY, TEMPORARY.later(ms(5)), Step::Echo]);
    let chain = leaf.named("leaf").retry(Waits([100, 200]));
    let target = Target::new("orders", Part::Key);
    let bytes = Bytes::from_static(b"x");
    let encoded = chain
        .serialize(Payload::from(bytes), &target)
        .await
        .unwrap();
    assert_eq!(encoded.payload.as_deref(), Some(&b"x"[..]));
    let headers: Vec<_> = encoded.headers.view().iter().collect();
    assert_eq!(headers, [(&b"call"[..], Some(&b"3"[..]))]);
    assert_eq!(leaf.waits(), [100, 205].map(ms));

    let leaf = Leaf::new([TEMPORARY]);
    let chain = leaf.named("leaf").retry(Waits([100, 200]));
    let error = chain.serialize(Payload::Null, &target).await.unwrap_err();
    assert_eq!((error.status(), error.attempts()), (Status::Exhausted, 3));
    assert_eq!(error.stage_path(), "retry > leaf");
}

type Told = (String, u32, Duration, Status);

fn observer() -> (Arc<Mutex<Vec<Told>>>, Arc<dyn RetryObserver>) {
    let told: Arc<Mutex<Vec<Told>>> = Arc::default();
    let list = told.clone();
    let observer = move |event: &RetryEvent<'_>| {
        let status = event.error.status();
        let told = (event.stage.to_owned(), event.attempts, event.wait, status);
        list.lock().unwrap().push(told);
    };
    (told, Arc::new(observer))
}

#[tokio::test(start_paused = true)]
async fn an_observer_is_told_of_each_retry_with_the_wait_that_follows() {
    let (told, observer) = observer();
    let leaf = Leaf::new([TEMPORARY, Step::Echo, TEMPORARY]);
    let chain = leaf
        .named("leaf")
        .retry(Waits([100, 200]))
        .labelled("kms")
        .observer(observer);
    read(&chain, b"x").await.unwrap();
    read(&chain, b"x").await.unwrap_err();
    let kms = |attempts, wait| ("kms".to_owned(), attempts, ms(wait), Status::Temporary);
    let expected = [kms(1, 100), kms(1, 100), kms(2, 200)];
    assert_eq!(*told.lock().unwrap(), expected);
}

/// Jitter alone: as many milliseconds as chance says, up to a million.
struct Jitter;

impl Backoff for Jitter {
    fn wait(&self, retry: u32, chance: f64) -> Option<Duration> {
        assert!((0.0..=1.0).contains(&chance));
        (retry <= 4).then(|| ms((chance * 1e6) as u64))
    }

    fn retries(&self) -> Option<u32> {
        Some(4)
    }
}

#[tokio::test(start_paused = true)]
async fn a_seed_makes_the_jitter_repeatable_and_records_still_differ() {
    async fn two_records(
        seed: impl FnOnce(Retry<kafka_chain::Stage<Leaf>>) -> Seeded,
    ) -> [Vec<Duration>; 2] {
        let leaf = Leaf::new([TEMPORARY]);
        let chain = seed(leaf.named("leaf").retry(Jitter));
        read(&chain, b"x").await.unwrap_err();
        read(&chain, b"x").await.unwrap_err();
        let waits = leaf.waits();
        [waits[..4].to_vec(), waits[5..].to_vec()]
    }
    type Seeded = Retry<kafka_chain::Stage<Leaf>>;
    let seven = two_records(|retry| retry.seed(7)).await;
    assert_eq!(seven, two_records(|retry| retry.seed(7)).await);
    assert_ne!(seven, two_records(|retry| retry.seed(1_000_000)).await);
    let [first, second] = &seven;
    assert_ne!(first, second);
    assert!(first.windows(2).all(|pair| pair[0] != pair[1]), "{first:?}");
    // Without a seed each retry draws its own.
    assert_ne!(
        two_records(|retry| retry).await,
        two_records(|retry| retry).await
    );
}
