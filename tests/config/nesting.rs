//! Nesting: the same type twice, mixed forms, both roles, and what a chain prints.

use crate::support::{configure, encrypted, mistakes, properties, registry};
use kafka_chain::config::Configuration;
use kafka_chain::{Part, Record, Status, Value};
use std::sync::atomic::Ordering;

fn print(configuration: &Configuration, part: Part) -> String {
    configuration
        .deserializer::<Value>(part)
        .unwrap()
        .to_string()
}

#[tokio::test(start_paused = true)]
async fn retry_in_pipe_in_retry_each_with_its_own_backoff() {
    let text = "\
value.deserializer=retry#outer(pipe(retry#kms(decryption), json))
value.deserializer.outer.backoff=fixed
value.deserializer.outer.backoff.fixed.intervalSeconds=10
value.deserializer.outer.backoff.fixed.maxAttempts=1
value.deserializer.outer.matcher=status(exhausted)
value.deserializer.kms.backoff=fixed
value.deserializer.kms.backoff.fixed.intervalSeconds=0.1
value.deserializer.kms.backoff.fixed.maxAttempts=2
";
    let (registry, calls) = registry(4);
    let configuration = registry
        .configure(&properties(text))
        .unwrap_or_else(|r| panic!("{r}"));
    assert_eq!(
        print(&configuration, Part::Value),
        "retry#outer(pipe(retry#kms(decryption), json))"
    );
    let chain = configuration
        .deserializer::<serde_json::Value>(Part::Value)
        .unwrap();
    let payload = encrypted("{}");
    let started = tokio::time::Instant::now();
    let value = chain
        .read(&Record::of_value(Some(&payload)))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(value, Some(serde_json::json!({})));
    // Three calls inside (two waits), one wait outside, then two calls inside.
    assert_eq!(calls.load(Ordering::Relaxed), 5);
    assert_eq!(started.elapsed().as_millis(), 100 + 100 + 10_000 + 100);
}

#[tokio::test(start_paused = true)]
async fn pipe_in_pipe() {
    let text = "value.deserializer=pipe(pipe#inner(decryption#first, decryption#second), string)";
    let configuration = configure(text).unwrap_or_else(|r| panic!("{r}"));
    let chain = configuration.deserializer::<String>(Part::Value).unwrap();
    let payload = encrypted(std::str::from_utf8(&encrypted("hello")).unwrap());
    let value = chain
        .read(&Record::of_value(Some(&payload)))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(value.as_deref(), Some("hello"));

    let error = chain.read(&Record::of_value(Some(b"!"))).await.unwrap_err();
    assert_eq!(
        error.stage_path(),
        "pipe.from > inner.from > first > closure"
    );
}

#[test]
fn the_same_type_twice_without_names_names_both_places() {
    let flat = "\
value.deserializer=pipe
pipe.deserializer.from=decryption
pipe.deserializer.to=pipe
";
    assert_eq!(
        mistakes(flat),
        [
            "test.properties:3: pipe.deserializer.to: `pipe` stands in value.deserializer at \
         test.properties:1 and again in pipe.deserializer.to at test.properties:3: name one, as in \
         `pipe#other`, and its keys are `value.deserializer.other.…`"
        ]
    );
    let one_line = "value.deserializer=retry(pipe(retry(decryption), json))";
    let mistakes = mistakes(one_line);
    assert_eq!(mistakes.len(), 1, "{mistakes:?}");
    assert!(
        mistakes[0].contains("`retry` stands twice in value.deserializer at"),
        "{mistakes:?}"
    );
}

/// The order of KIP-873's prose: decryption, retry, exception handling, then CloudEvents.
#[tokio::test]
async fn the_order_of_the_pages_prose_works_and_explain_warns_that_errors_of_to_escape() {
    let text = "value.deserializer=pipe(exception-handling(retry(decryption)), json)";
    let configuration = configure(text).unwrap_or_else(|r| panic!("{r}"));
    let chain = configuration
        .deserializer::<serde_json::Value>(Part::Value)
        .unwrap();
    let failure = chain
        .read(&Record::of_value(Some(b"!")))
        .await
        .unwrap()
        .unwrap_err();
    assert_eq!(failure.record.value.as_deref(), Some(&b"!"[..]));
    let escaped = chain.read(&Record::of_value(Some(b"~"))).await.unwrap_err();
    assert_eq!(escaped.stage_path(), "pipe.to > json");
    let lints: Vec<_> = configuration
        .lints()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        lints,
        [
            "value.deserializer: pipe: errors of its `to`, `json`, escape: no exception-handling takes \
         them. Put it around the pipe: exception-handling(… pipe(…, json))"
        ]
    );
}

#[test]
fn a_retry_around_exception_handling_and_a_retry_that_outlasts_the_poll_are_linted() {
    let text = "\
value.deserializer=retry(exception-handling(decryption))
max.poll.interval.ms=5000
retry.deserializer.backoff.exponential.maxAttempts=3
";
    let configuration = configure(text).unwrap_or_else(|r| panic!("{r}"));
    let lints: Vec<_> = configuration
        .lints()
        .iter()
        .map(|lint| lint.message.clone())
        .collect();
    assert!(
        lints[0].starts_with("it wraps exception-handling"),
        "{lints:?}"
    );
    assert!(lints[1].starts_with("it may wait 7s in all, longer than max.poll.interval.ms (5s)"));
    assert_eq!(lints.len(), 2);
}

/// FC-107 (a): each side gets its own.
#[tokio::test(start_paused = true)]
async fn the_same_decorator_in_key_and_value_with_different_settings() {
    let text = "\
key.deserializer=exception-handling(retry(decryption))
key.deserializer.retry.backoff=none
key.deserializer.exception-handling.matcher=none
value.deserializer=exception-handling(retry(decryption))
value.retry.deserializer.backoff=fixed
value.retry.deserializer.backoff.fixed.intervalSeconds=0.05
value.retry.deserializer.backoff.fixed.maxAttempts=1
";
    let (registry, calls) = registry(100);
    let configuration = registry
        .configure(&properties(text))
        .unwrap_or_else(|r| panic!("{r}"));
    let record = Record {
        key: Some(b"k"),
        ..Record::of_value(Some(b"v"))
    };
    let key = configuration.deserializer::<Value>(Part::Key).unwrap();
    let error = key.read(&record).await.unwrap_err();
    assert_eq!((error.status(), error.attempts()), (Status::Exhausted, 1));
    let value = configuration.deserializer::<Value>(Part::Value).unwrap();
    let failure = value.read(&record).await.unwrap().unwrap_err();
    assert_eq!(
        (failure.error.status(), failure.error.attempts()),
        (Status::Exhausted, 2)
    );
    assert_eq!(calls.load(Ordering::Relaxed), 3);
}

#[test]
fn a_part_given_in_the_expression_and_by_a_key_of_its_role_is_an_error() {
    let text = "\
value.deserializer=pipe(decryption, json)
value.deserializer.pipe.to=string
";
    assert_eq!(
        mistakes(text),
        [
            "test.properties:2: value.deserializer.pipe.to: the to of `pipe` is `json` already, in the \
         expression at test.properties:1"
        ]
    );
}

#[test]
fn an_unprefixed_flat_key_is_ignored_where_the_expression_says_the_part() {
    let text = "\
key.deserializer=pipe(decryption, string)
value.deserializer=pipe
pipe.deserializer.from=decryption
pipe.deserializer.to=json
";
    let configuration = configure(text).unwrap_or_else(|r| panic!("{r}"));
    assert_eq!(print(&configuration, Part::Key), "pipe(decryption, string)");
    assert_eq!(print(&configuration, Part::Value), "pipe(decryption, json)");
}

#[test]
fn parts_that_the_expression_leaves_out_come_from_keys() {
    let text = "\
value.deserializer=exception-handling(retry#kms)
value.deserializer.kms.delegate=pipe(decryption)
pipe.deserializer.to=json
";
    let configuration = configure(text).unwrap_or_else(|r| panic!("{r}"));
    assert_eq!(
        print(&configuration, Part::Value),
        "exception-handling(retry#kms(pipe(decryption, json)))"
    );
}

#[test]
fn what_a_chain_prints_builds_the_same_chain() {
    for chain in [
        "bytes",
        "exception-handling(retry(pipe(decryption, json)))",
        "pipe#a(pipe#b(decryption#x, decryption#y), list(long))",
        "retry#a(retry#b(retry#c(decryption)))",
    ] {
        let configuration = configure(&format!("value.deserializer={chain}"));
        let configuration = configuration.unwrap_or_else(|r| panic!("{r}"));
        assert_eq!(print(&configuration, Part::Value), chain);
    }
}

#[test]
fn thirty_two_deep_builds_and_thirty_three_is_refused() {
    let nest = |depth: usize| {
        let heads: String = (0..depth - 1)
            .map(|level| format!("retry#r{level}("))
            .collect();
        format!("value.deserializer={heads}bytes{}", ")".repeat(depth - 1))
    };
    assert!(configure(&nest(32)).is_ok());
    assert!(mistakes(&nest(33))[0].contains("the chain nests deeper than 32"));

    let keys: String = (0..40)
        .map(|level| {
            format!(
                "value.deserializer.r{level}.delegate=retry#r{}\n",
                level + 1
            )
        })
        .collect();
    let flat = format!("value.deserializer=retry#r0\n{keys}");
    let mistakes = mistakes(&flat);
    assert!(
        mistakes
            .iter()
            .any(|m| m.contains("the chain nests deeper than 32")),
        "{mistakes:?}"
    );
}

/// FC-107 (c): an instance given in code wins over the properties of its role.
#[tokio::test]
async fn an_instance_given_in_code_wins_and_the_properties_are_warned_of() {
    let (registry, _) = registry(0);
    let registry = registry.with_instance(
        Part::Value,
        kafka_chain::deserialize_with(|input| Ok(input.payload.as_bytes().map(|b| b.len() as i64))),
    );
    let text = "\
key.deserializer=string
value.deserializer=retry(json)
value.deserializer.retry.backoff=none
";
    let configuration = registry
        .configure(&properties(text))
        .unwrap_or_else(|r| panic!("{r}"));
    let chain = configuration.deserializer::<i64>(Part::Value).unwrap();
    let read = chain
        .read(&Record::of_value(Some(b"four")))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(read, Some(4));
    let warned: Vec<_> = configuration
        .warnings()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        warned,
        [
            "test.properties:2: value.deserializer: left out: this role was given a deserializer in code",
            "test.properties:3: value.deserializer.retry.backoff: left out: this role was given a \
         deserializer in code",
        ]
    );
    assert_eq!(print(&configuration, Part::Key), "string");
}

/// FC-107 (d): of the serializers one is set; the other stays as it is.
#[tokio::test]
async fn a_serializer_for_values_leaves_the_one_for_keys_alone() {
    let configuration = configure("value.serializer=json").unwrap_or_else(|r| panic!("{r}"));
    let value = configuration.serializer(Part::Value).unwrap();
    let key = configuration.serializer(Part::Key).unwrap();
    assert_eq!(
        (value.to_string(), key.to_string()),
        ("json".to_owned(), "bytes".to_owned())
    );
    let written = value
        .write("t", &Value::Json(serde_json::json!({"a": 1})))
        .await
        .unwrap();
    assert_eq!(written.payload.as_deref(), Some(&b"{\"a\":1}"[..]));
    let written = key
        .write("t", &Value::Bytes(bytes::Bytes::from_static(b"k")))
        .await
        .unwrap();
    assert_eq!(written.payload.as_deref(), Some(&b"k"[..]));
}

/// FC-037: the order of the keys in a file never matters.
#[tokio::test(start_paused = true)]
async fn the_order_of_keys_changes_nothing() {
    let lines = [
        "value.deserializer=exception-handling",
        "exception.handling.deserializer.delegate=retry",
        "retry.deserializer.delegate=decryption",
        "retry.deserializer.backoff=fixed",
        "retry.deserializer.backoff.fixed.maxAttempts=3",
    ];
    let mut reversed = lines;
    reversed.reverse();
    for text in [lines.join("\n"), reversed.join("\n")] {
        let (registry, calls) = registry(1000);
        let configuration = registry
            .configure(&properties(&text))
            .unwrap_or_else(|r| panic!("{r}"));
        let chain = configuration.deserializer::<Value>(Part::Value).unwrap();
        let failure = chain
            .read(&Record::of_value(Some(b"v")))
            .await
            .unwrap()
            .unwrap_err();
        assert_eq!(
            (failure.error.status(), failure.error.attempts()),
            (Status::Exhausted, 4)
        );
        assert_eq!(calls.load(Ordering::Relaxed), 4);
    }
}
