//! An error that is taken becomes a value beside the untouched record; any other stays an error.

use crate::support::{Leaf, PERMANENT, Step, TEMPORARY, Waits, failed, ms, read};
use bytes::Bytes;
use kafka_chain::codecs::json::json;
use kafka_chain::decorators::{ChainExt, ExceptionHandling};
use kafka_chain::matcher::{self, SharedMatcher};
use kafka_chain::{
    Error, ErrorKind, Headers, Outcome, Part, Record, Result, Stage, Status, Target, Timestamp,
    Value, deserialize, deserialize_with, serialize_with,
};
use std::error::Error as _;
use std::sync::atomic::{AtomicU32, Ordering};

/// The key service is down, as far as this error knows.
#[derive(Debug, thiserror::Error)]
#[error("key service does not answer")]
struct NoKeys(#[source] std::io::Error);

#[tokio::test(start_paused = true)]
async fn a_failure_carries_the_error_and_the_record_as_it_was_consumed() {
    let mut headers = Headers::new();
    headers.push("trace", Some("1"));
    headers.push("trace", None::<Bytes>);
    headers.push(&b"\xff\xfe"[..], Some(&b"\x00\xff"[..]));
    headers.push("empty", Some(""));
    headers.push("trace", Some("2"));
    let record = Record {
        topic: "orders",
        partition: 3,
        offset: 41,
        timestamp: Timestamp::LogAppendTime(1_700_000_000_123),
        key: Some(b"\xffkey"),
        value: Some(b"\x01sealed"),
        headers: headers.view(),
    };
    let decrypt = deserialize_with(|_| -> Result<Option<Bytes>> {
        let refused = std::io::Error::other("connection refused");
        Err(Error::temporary(NoKeys(refused)))
    });
    let chain = decrypt
        .named("decrypt")
        .pipe(json::<u32>())
        .retry(Waits([100, 200]))
        .handle_exceptions();

    for part in [Part::Key, Part::Value] {
        let failure = deserialize(&chain, &record, part)
            .await
            .unwrap()
            .unwrap_err();
        assert_eq!(failure.part, part);
        assert_eq!(failure.record, record.to_owned());
        let seen: Vec<_> = failure.record.headers.view().iter().collect();
        let expected: [(&[u8], Option<&[u8]>); 5] = [
            (b"trace", Some(b"1")),
            (b"trace", None),
            (b"\xff\xfe", Some(b"\x00\xff")),
            (b"empty", Some(b"")),
            (b"trace", Some(b"2")),
        ];
        assert_eq!(seen, expected);
        assert_eq!(failure.record.topic, "orders");
        assert_eq!((failure.record.partition, failure.record.offset), (3, 41));
        assert_eq!(failure.record.timestamp.millis(), Some(1_700_000_000_123));
        assert_eq!(failure.record.timestamp.type_name(), "LogAppendTime");
        assert_eq!(failure.record.key.as_deref(), Some(&b"\xffkey"[..]));
        assert_eq!(failure.record.value.as_deref(), Some(&b"\x01sealed"[..]));

        let error = &failure.error;
        let judged = (
            error.kind(),
            error.status(),
            error.attempts(),
            error.elapsed(),
        );
        let expected = (ErrorKind::Unavailable, Status::Exhausted, 3, ms(300));
        assert_eq!(judged, expected);
        let path = "exception-handling > retry > pipe.from > decrypt";
        assert_eq!(error.stage_path(), path);
        let cause = error.source().unwrap();
        assert_eq!(cause.to_string(), "key service does not answer");
        assert_eq!(cause.source().unwrap().to_string(), "connection refused");
    }
}

/// FC-013, within a chain.
#[tokio::test]
async fn null_and_empty_stay_apart_in_key_value_and_headers() {
    let chain = Leaf::new([PERMANENT]).named("leaf").handle_exceptions();
    let three: [Option<&[u8]>; 3] = [None, Some(b""), Some(b"a")];
    for key in three {
        for value in three {
            for header in three {
                let headers = Headers::from_iter([(&b"h"[..], header)]);
                let record = Record {
                    key,
                    headers: headers.view(),
                    ..Record::of_value(value)
                };
                let failure = deserialize(&chain, &record, Part::Value).await;
                let kept = failure.unwrap().unwrap_err().record;
                assert_eq!((kept.key.as_deref(), kept.value.as_deref()), (key, value));
                assert_eq!(kept.headers.view().get_last("h"), Some(header));
            }
        }
    }
}

/// What is dead-lettered is what was consumed, never what a stage made of it.
#[tokio::test]
async fn a_failure_behind_a_pipe_holds_the_raw_bytes() {
    let open = deserialize_with(|_| Ok(Some(Bytes::from_static(b"plaintext"))));
    let chain = open.pipe(json::<u32>()).handle_exceptions();
    let failure = read(&chain, b"sealed").await.unwrap().unwrap_err();
    assert_eq!(
        failure.error.stage_path(),
        "exception-handling > pipe.to > json"
    );
    assert_eq!(failure.record.value.as_deref(), Some(&b"sealed"[..]));
}

#[tokio::test]
async fn permanent_and_exhausted_errors_are_taken_and_temporary_ones_surface() {
    for kind in ErrorKind::ALL {
        for status in Status::ALL {
            let leaf = Leaf::new([Step::Fail(kind, status)]);
            let answer = read(&leaf.named("leaf").handle_exceptions(), b"x").await;
            let taken = kind != ErrorKind::Config && status != Status::Temporary;
            assert_eq!(answer.is_ok(), taken, "{status} {kind}");
            let error = match answer {
                Ok(outcome) => outcome.unwrap_err().error,
                Err(error) => error,
            };
            assert_eq!((error.kind(), error.status()), (kind, status));
            assert_eq!(error.stage_path(), "exception-handling > leaf");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_matcher_decides_but_a_wiring_mistake_surfaces_whatever_it_says() {
    use matcher::{all, all_of, any_of, kind, none, not, predicate, status};
    type Rule = fn(ErrorKind, Status) -> bool;
    let decrypt = || kind(ErrorKind::Decrypt);
    let exhausted = || status(Status::Exhausted);
    let table: [(SharedMatcher, Rule); 8] = [
        (all(), |_, _| true),
        (none(), |_, _| false),
        (exhausted(), |_, s| s == Status::Exhausted),
        (decrypt(), |k, _| k == ErrorKind::Decrypt),
        (predicate("short", |e| e.message().len() < 8), |_, _| true),
        (any_of([exhausted(), decrypt()]), |k, s| {
            s == Status::Exhausted || k == ErrorKind::Decrypt
        }),
        (all_of([exhausted(), decrypt()]), |k, s| {
            s == Status::Exhausted && k == ErrorKind::Decrypt
        }),
        (not(decrypt()), |k, _| k != ErrorKind::Decrypt),
    ];
    for (matcher, rule) in table {
        for kind in ErrorKind::ALL {
            for status in Status::ALL {
                // Once at once and once after a wait: the same rule for both.
                for step in [
                    Step::Fail(kind, status),
                    Step::Fail(kind, status).later(ms(1)),
                ] {
                    let leaf = Leaf::new([step]).named("leaf");
                    let chain = leaf.handle_exceptions().matcher(matcher.clone());
                    let taken = read(&chain, b"x").await.is_ok();
                    let expected = kind != ErrorKind::Config && rule(kind, status);
                    assert_eq!(taken, expected, "{matcher:?} takes {status} {kind}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_closure_is_a_matcher() {
    let leaf = Leaf::new([TEMPORARY]).named("leaf");
    let chain = leaf
        .handle_exceptions()
        .matcher(|error: &Error| error.attempts() == 1);
    assert!(read(&chain, b"x").await.unwrap().is_err());
}

/// A typed chain says with its type who took the error; an erased one is flat.
#[tokio::test]
async fn nested_handlings_answer_an_outcome_of_an_outcome_or_one_flat_value() {
    let inner = Leaf::new([PERMANENT]).named("leaf").handle_exceptions();
    let outer = inner.labelled("inner").handle_exceptions();
    let outcome: Outcome<Outcome<_>> = read(&outer, b"x").await.unwrap();
    let failure = outcome.unwrap().unwrap_err();
    assert_eq!(failure.error.stage_path(), "inner > leaf");

    let broken = deserialize_with(|_| Err::<Value, _>(Error::schema("as told")));
    let inner = ExceptionHandling::erased(broken).labelled("inner");
    let value = read(&ExceptionHandling::erased(inner), b"x").await.unwrap();
    let failure = failed(value);
    assert_eq!(failure.error.stage_path(), "inner > closure");
}

#[tokio::test]
async fn what_an_inner_handling_declines_the_outer_one_may_take() {
    let leaf = Leaf::new([TEMPORARY]).named("leaf");
    let inner = leaf.handle_exceptions().labelled("inner");
    let outer = inner
        .handle_exceptions()
        .matcher(matcher::all())
        .labelled("outer");
    let failure = read(&outer, b"x").await.unwrap().unwrap_err();
    assert_eq!(failure.error.stage_path(), "outer > inner > leaf");
}

/// FC-005: a handler publishes with the library and that fails twice with the very error that a bad
/// input would have. The input is not taken for undecodable, for the error arose elsewhere.
#[tokio::test]
async fn where_an_error_arose_decides_and_not_its_type() {
    let broken = || Error::schema("schema server answered 503");
    let failures = AtomicU32::new(2);
    let publish = serialize_with(move |_: Option<&u32>, _| {
        let left =
            failures.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
        left.map_or_else(|_| Ok(b"1".to_vec().into()), |_| Err(broken()))
    });
    let publish = publish.named("publish");
    let chain = json::<u32>().handle_exceptions();
    let target = Target::new("results", Part::Value);

    let mut runs = 0;
    let published = loop {
        runs += 1;
        let number = read(&chain, b"5").await.unwrap().unwrap();
        match kafka_chain::Serializer::serialize(&publish, number.as_ref(), &target).await {
            Ok(encoded) => break encoded,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Schema);
                assert_eq!(error.stage_path(), "publish");
            }
        }
    };
    assert_eq!((runs, published.payload.as_deref()), (3, Some(&b"1"[..])));

    let undecodable = read(&chain, br#""five""#).await.unwrap().unwrap_err();
    assert_eq!(undecodable.error.kind(), ErrorKind::Schema);
    assert_eq!(undecodable.error.stage_path(), "exception-handling > json");
}

/// FC-012: a tombstone is data in front of a codec and behind it.
#[tokio::test]
async fn a_tombstone_is_no_failure() {
    let chain = json::<u32>().handle_exceptions();
    let record = Record::of_value(None);
    let outcome = deserialize(&chain, &record, Part::Value).await.unwrap();
    assert_eq!(outcome.unwrap(), None);

    let stage: Stage<_> = deserialize_with(|input| Ok(input.payload.into_bytes()));
    let echo = stage.handle_exceptions();
    let of = async |value| deserialize(&echo, &Record::of_value(value), Part::Value).await;
    assert_eq!(of(None).await.unwrap().unwrap(), None);
    assert_eq!(of(Some(b"")).await.unwrap().unwrap(), Some(Bytes::new()));
}
