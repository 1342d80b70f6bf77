//! A pipe that writes: the same type, with `from` first in the direction of the data again.

use crate::support::{Leaf, PERMANENT, Step, TEMPORARY, Waits, ms};
use bytes::Bytes;
use kafka_chain::codecs::json::json;
use kafka_chain::decorators::ChainExt;
use kafka_chain::{
    Encoded, Error, Headers, Part, Payload, Serializer, Status, Target, deserialize,
    serialize_bytes_with_future, serialize_with,
};
use std::sync::Mutex;

const TARGET: Target<'static> = Target::new("orders", Part::Value);

fn pairs(headers: &Headers) -> Vec<(String, Option<String>)> {
    let text = |bytes: &Bytes| String::from_utf8(bytes.to_vec()).unwrap();
    let pair = |(name, value): (_, Option<&Bytes>)| (text(name), value.map(text));
    headers.iter().map(pair).collect()
}

fn pair(name: &str, value: Option<&str>) -> (String, Option<String>) {
    (name.to_owned(), value.map(str::to_owned))
}

/// Writes a number as decimal text, with two headers of one name.
fn decimal(number: Option<&u32>, _: &Target<'_>) -> Result<Encoded, Error> {
    let payload = number.map(|number| number.to_string().into());
    let mut headers = Headers::new();
    headers.push("format", Some("decimal"));
    headers.push("format", None::<Bytes>);
    Ok(Encoded { payload, headers })
}

/// Turns bytes around, later, with a header of its own.
fn backwards<'a>(
    payload: Payload<'a>,
    _: &'a Target<'a>,
) -> kafka_chain::BoxFuture<'a, Result<Encoded, Error>> {
    Box::pin(async move {
        tokio::task::yield_now().await;
        let headers = Headers::from_iter([("format", Some("backwards")), ("order", Some(""))]);
        let payload = payload
            .as_bytes()
            .map(|bytes| bytes.iter().rev().copied().collect());
        Ok(Encoded { payload, headers })
    })
}

#[tokio::test]
async fn bytes_go_through_both_halves_and_headers_are_kept_in_order() {
    let chain = serialize_with(decimal).pipe(serialize_bytes_with_future(backwards));
    for (number, written) in [(Some(&123), Some(&b"321"[..])), (None, None)] {
        let encoded = chain.serialize(number, &TARGET).await.unwrap();
        assert_eq!(encoded.payload.as_deref(), written);
        let expected = [
            pair("format", Some("decimal")),
            pair("format", None),
            pair("format", Some("backwards")),
            pair("order", Some("")),
        ];
        assert_eq!(pairs(&encoded.headers), expected);
    }
}

/// What a chain writes, its mirror reads. One value serves as both where it can.
#[tokio::test]
async fn one_pipe_serves_both_directions() {
    let both = Leaf::new([Step::Echo])
        .named("a")
        .pipe(Leaf::new([Step::Echo]).named("b"));
    let three: [Option<&[u8]>; 3] = [None, Some(b""), Some(b"a")];
    for bytes in three {
        let written = both.serialize(Payload::from(bytes), &TARGET).await.unwrap();
        assert_eq!(written.payload.as_deref(), bytes);
        let record = kafka_chain::Record::of_value(bytes);
        let read = deserialize(&both, &record, Part::Value).await.unwrap();
        assert_eq!(read.as_deref(), bytes);
    }

    let write = json::<u32>().pipe(Leaf::new([Step::Echo]).named("seal"));
    let read = Leaf::new([Step::Echo]).named("open").pipe(json::<u32>());
    for number in [Some(7), None] {
        let written = write
            .serialize(number.as_ref(), &TARGET)
            .await
            .unwrap()
            .payload;
        assert_eq!(written.is_none(), number.is_none());
        let record = kafka_chain::Record::of_value(written.as_deref());
        assert_eq!(
            deserialize(&read, &record, Part::Value).await.unwrap(),
            number
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_of_either_half_ends_the_pipe_there() {
    for step in [PERMANENT, PERMANENT.later(ms(5))] {
        let (from, to) = (Leaf::new([step.clone()]), Leaf::new([Step::Echo]));
        let chain = from.named("a").pipe(to.named("b"));
        let error = chain
            .serialize(Payload::from(&b"x"[..]), &TARGET)
            .await
            .unwrap_err();
        assert_eq!(
            (error.stage_path().as_str(), to.calls()),
            ("pipe.from > a", 0)
        );

        let chain = to.named("a").pipe(Leaf::new([step]).named("b"));
        let error = chain
            .serialize(Payload::from(&b"x"[..]), &TARGET)
            .await
            .unwrap_err();
        assert_eq!(error.stage_path(), "pipe.to > b");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pipe_that_is_tried_again_adds_its_headers_once() {
    let (from, to) = (
        Leaf::new([Step::Echo]),
        Leaf::new([TEMPORARY, TEMPORARY, Step::Echo]),
    );
    let chain = from.named("a").pipe(to.named("b")).retry(Waits([10, 10]));
    let encoded = chain
        .serialize(Payload::from(&b"x"[..]), &TARGET)
        .await
        .unwrap();
    assert_eq!(encoded.payload.as_deref(), Some(&b"x"[..]));
    let expected = [pair("call", Some("3")), pair("call", Some("3"))];
    assert_eq!(pairs(&encoded.headers), expected);
    assert_eq!((from.calls(), to.calls()), (3, 3));

    let chain = chain
        .pipe(Leaf::new([TEMPORARY]).named("c"))
        .retry(Waits([10]))
        .labelled("send");
    let error = chain.serialize(Payload::Null, &TARGET).await.unwrap_err();
    assert_eq!((error.status(), error.attempts()), (Status::Exhausted, 2));
    assert_eq!(error.stage_path(), "send > pipe.to > c");
}

#[tokio::test]
async fn both_halves_see_the_headers_that_the_record_has_already() {
    static SEEN: Mutex<Vec<(String, String, Part, usize)>> = Mutex::new(Vec::new());
    let see = |half: &str, target: &Target<'_>| {
        let seen = (
            half.to_owned(),
            target.topic.to_owned(),
            target.part,
            target.headers.len(),
        );
        SEEN.lock().unwrap().push(seen);
    };
    let from = serialize_with(move |number: Option<&u32>, target| {
        see("from", target);
        decimal(number, target)
    });
    let to = serialize_bytes_with_future(move |payload, target| {
        see("to", target);
        backwards(payload, target)
    });
    let headers = Headers::from_iter([("trace", Some("1"))]);
    let target = Target {
        headers: headers.view(),
        ..Target::new("orders", Part::Key)
    };
    let encoded = from.pipe(to).serialize(Some(&12), &target).await.unwrap();
    // Only what was added comes back.
    assert!(encoded.headers.view().get_last("trace").is_none());
    let seen = |half: &str| (half.to_owned(), "orders".to_owned(), Part::Key, 1);
    assert_eq!(*SEEN.lock().unwrap(), [seen("from"), seen("to")]);
}
