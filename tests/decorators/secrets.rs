//! FC-111: nothing that prints shows what was consumed or made of it.

use crate::support::{Leaf, Step, TEMPORARY, Waits, failed, ms};
use bytes::Bytes;
use kafka_chain::backoff::RetryEvent;
use kafka_chain::codecs::json::json;
use kafka_chain::decorators::{ChainExt, ExceptionHandling};
use kafka_chain::{
    Component, Deserializer, Encoded, Headers, Input, Part, Payload, Record, Serializer, Target,
    Value, deserialize, deserialize_with,
};
use std::fmt::{Debug, Display};
use std::sync::{Arc, Mutex};

const SECRET: &str = "hunter2";

fn all_of(value: &(impl Debug + Display)) -> [String; 4] {
    [
        format!("{value}"),
        format!("{value:#}"),
        format!("{value:?}"),
        format!("{value:#?}"),
    ]
}

fn debug_of(value: &impl Debug) -> [String; 2] {
    [format!("{value:?}"), format!("{value:#?}")]
}

/// Also as a list of numbers, the way `Debug` prints bytes.
fn assert_none_shows(texts: impl IntoIterator<Item = String>) {
    let (plain, pretty) = ("104, 117, 110", "104,\n");
    for text in texts {
        let shown = text.contains(SECRET) || text.contains(plain) || text.contains(pretty);
        assert!(!shown, "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn no_print_of_anything_shows_a_payload() {
    let headers = Headers::from_iter([("authorization", Some(SECRET)), ("null", None)]);
    let json_text = format!(r#"{{"password":"{SECRET}"}}"#);
    let record = Record {
        key: Some(SECRET.as_bytes()),
        headers: headers.view(),
        ..Record::of_value(Some(json_text.as_bytes()))
    };
    let context = record.context(Part::Value);
    assert_none_shows(debug_of(&record));
    assert_none_shows(debug_of(&record.to_owned()));
    assert_none_shows(debug_of(&context));
    assert_none_shows(debug_of(&headers));
    assert_none_shows(debug_of(&Input::of(&context)));
    assert_none_shows(debug_of(&Payload::from(Bytes::from_static(b"hunter2"))));

    // An error of JSON, whose parser quotes what it read.
    let chain = Leaf::new([Step::Echo])
        .named("leaf")
        .pipe(json::<u32>())
        .retry(Waits([1]));
    let chain = chain.handle_exceptions();
    assert_none_shows(debug_of(&chain));
    assert_none_shows([chain.describe().to_string()]);
    let answer = chain.deserialize(Input::of(&context));
    assert_none_shows(debug_of(&answer));
    let outcome = answer.await.unwrap();
    assert_none_shows(debug_of(&outcome));
    let failure = outcome.unwrap_err();
    assert_none_shows(all_of(&*failure));
    assert_none_shows(all_of(&failure.error));
    assert_eq!(
        failure.error.stage_path(),
        "exception-handling > retry > pipe.to > json"
    );

    // A failure and a result of an erased chain.
    let erased = json::<u32>().handle_exceptions();
    let failure = deserialize(&erased, &record, Part::Key)
        .await
        .unwrap()
        .unwrap_err();
    assert_none_shows(debug_of(&Value::from(failure)));
    let text = deserialize_with(|_| Ok(Value::from(SECRET.to_owned())));
    let wrong = text.pipe(deserialize_with(|_| Ok(Value::Null)));
    assert_none_shows(all_of(
        &deserialize(&wrong, &record, Part::Value).await.unwrap_err(),
    ));
    let broken = deserialize_with(|_| -> Result<Value, _> { panic!("{SECRET}") });
    let value = deserialize(&ExceptionHandling::erased(broken), &record, Part::Value).await;
    let value = value.unwrap();
    assert_none_shows(debug_of(&value));
    assert_none_shows(all_of(&*failed(value)));

    // What is written.
    let target = Target {
        headers: headers.view(),
        ..Target::new("orders", Part::Value)
    };
    assert_none_shows(debug_of(&target));
    let encoded = Encoded {
        headers: headers.clone(),
        ..Encoded::from(SECRET.as_bytes().to_vec())
    };
    assert_none_shows(debug_of(&encoded));
    let writer = Leaf::new([TEMPORARY.later(ms(1))])
        .named("leaf")
        .retry(Waits([1]));
    let answer = writer.serialize(Payload::from(SECRET.as_bytes()), &target);
    assert_none_shows(debug_of(&answer));
    assert_none_shows(all_of(&answer.await.unwrap_err()));
}

#[tokio::test(start_paused = true)]
async fn what_an_observer_is_told_shows_no_payload_either() {
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let list = told.clone();
    let observer = move |event: &RetryEvent<'_>| list.lock().unwrap().extend(debug_of(event));
    let leaf = Leaf::new([TEMPORARY, Step::Never]).named("leaf");
    let chain = leaf
        .retry(Waits([1, 1]))
        .attempt_timeout(ms(5))
        .observer(Arc::new(observer));
    let record = Record::of_value(Some(SECRET.as_bytes()));
    assert_none_shows(all_of(
        &deserialize(&chain, &record, Part::Value).await.unwrap_err(),
    ));
    let told = std::mem::take(&mut *told.lock().unwrap());
    assert_eq!(told.len(), 4);
    assert_none_shows(told);
}
