//! Headers that others wrote.

use super::{NOW, failed, record};
use kafka_chain::Headers;
use kafka_chain::dead_letter::{DeadLetters, Dialect, Originals, READ_LIMIT, read, read_as};

#[test]
fn of_headers_that_repeat_the_newest_is_read_and_the_oldest_is_the_first_failures() {
    // Spring appends; SmallRye puts its own in front.
    let spring = |headers: &mut Headers, topic: &'static str, offset: i64| {
        headers.push("kafka_dlt-original-topic", Some(topic));
        headers.push("kafka_dlt-original-partition", Some(&[0, 0, 0, 1][..]));
        headers.push(
            "kafka_dlt-original-offset",
            Some(offset.to_be_bytes().to_vec()),
        );
    };
    let smallrye = |headers: &mut Headers, topic: &'static str, offset: &'static str| {
        headers.push("dead-letter-topic", Some(topic));
        headers.push("dead-letter-partition", Some("1"));
        headers.push("dead-letter-offset", Some(offset));
    };
    let mut record = record();
    spring(&mut record.headers, "first", 1);
    spring(&mut record.headers, "second", 2);
    smallrye(&mut record.headers, "second", "2");
    smallrye(&mut record.headers, "first", "1");
    let letters = DeadLetters::new().dialects([Dialect::Spring, Dialect::SmallRye]);
    let kept = letters.full(&failed(&record), NOW).unwrap();
    for dialect in [Dialect::Spring, Dialect::SmallRye] {
        let info = read_as(dialect, record.headers.view()).unwrap();
        assert_eq!(
            (info.topic(), info.offset()),
            (Some("second"), Some(2)),
            "{dialect}"
        );
        let info = read_as(dialect, kept.headers.view()).unwrap();
        assert_eq!(
            (info.topic(), info.offset()),
            (Some("first"), Some(1)),
            "{dialect}"
        );
    }
    let grown = letters
        .originals(Originals::Append)
        .full(&failed(&record), NOW)
        .unwrap();
    let topics = grown
        .headers
        .iter()
        .filter(|(name, _)| *name == "kafka_dlt-original-topic");
    let topics: Vec<_> = topics.map(|(_, value)| value.unwrap().as_ref()).collect();
    assert_eq!(topics, [&b"first"[..], b"second", b"orders"]);
}

#[test]
fn retry_headers_alone_are_no_dead_letters() {
    let mut headers = Headers::new();
    headers.push("retry_topic-attempts", Some(&[0, 0, 0, 2][..]));
    headers.push("springDeserializerExceptionValue", Some("\u{0}\u{0}"));
    assert_eq!(read(headers.view()), None);
    headers.push("kafka_dlt-original-topic", Some("orders"));
    let (dialect, info) = read(headers.view()).unwrap();
    assert_eq!((dialect, info.attempts()), (Dialect::Spring, Some(2)));
}

#[test]
fn a_text_that_is_too_long_to_read_is_cut_and_a_name_is_absent() {
    let mut headers = Headers::new();
    headers.push("__streams.errors.topic", Some("t".repeat(250)));
    headers.push("__streams.errors.message", Some("é".repeat(READ_LIMIT)));
    headers.push("__streams.errors.offset", Some("+1"));
    let (_, info) = read(headers.view()).unwrap();
    assert_eq!((info.topic(), info.offset()), (None, None));
    assert_eq!(info.message().unwrap().len(), READ_LIMIT);
}
