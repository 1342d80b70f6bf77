//! The `json` codec as a chain sees it.
use kafka_chain::codecs::json::{Json, json};
use kafka_chain::{
    Component, Deserializer, Encoded, Error, ErrorKind, Input, Part, Record, Serializer, Status,
    Target,
};
use proptest::prelude::*;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json as value};
use std::collections::BTreeMap;

fn read<T: DeserializeOwned + Send + 'static>(payload: Option<&[u8]>) -> Result<Option<T>, Error> {
    let record = Record::of_value(payload);
    let context = record.context(Part::Value);
    json::<T>()
        .deserialize(Input::of(&context))
        .now()
        .expect("JSON answers at once")
}

fn write<T: Serialize + Sync + 'static>(given: Option<&T>) -> Result<Encoded, Error> {
    let target = Target::new("orders", Part::Value);
    json::<T>()
        .serialize(given, &target)
        .now()
        .expect("JSON answers at once")
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Order {
    id: u32,
    note: Option<String>,
}

/// FC-012, FC-013: null is no value and is not an error, the document `null` is a value, and empty
/// bytes are neither.
#[test]
fn null_the_document_null_and_empty_are_three_things() {
    assert_eq!(read::<Order>(None).unwrap(), None);
    assert_eq!(read::<Value>(None).unwrap(), None);
    assert_eq!(read::<Option<u8>>(None).unwrap(), None);
    assert_eq!(read::<Option<u8>>(Some(b"null")).unwrap(), Some(None));
    assert_eq!(read::<Value>(Some(b"null")).unwrap(), Some(Value::Null));
    assert_eq!(
        read::<Order>(Some(b"null")).unwrap_err().kind(),
        ErrorKind::Schema
    );
    let empty = read::<Option<u8>>(Some(b"")).unwrap_err();
    assert_eq!(
        (empty.kind(), empty.status()),
        (ErrorKind::Malformed, Status::Permanent)
    );

    assert_eq!(write::<Order>(None).unwrap(), Encoded::of(None));
    assert_eq!(
        write::<Option<u8>>(Some(&None)).unwrap(),
        Encoded::from(b"null".to_vec())
    );
    assert_eq!(
        write(Some(&Value::Null)).unwrap(),
        Encoded::from(b"null".to_vec())
    );
}

#[test]
fn a_type_is_read_and_written() {
    let order = Order {
        id: 7,
        note: Some("now".into()),
    };
    let written = write(Some(&order)).unwrap();
    assert_eq!(written, Encoded::from(br#"{"id":7,"note":"now"}"#.to_vec()));
    assert_eq!(read(written.payload.as_deref()).unwrap(), Some(order));
}

#[test]
fn an_untyped_document_is_read_whole() {
    let document = br#" {"a":[1,2.5,-3,true,null,"\u00e9"],"b":{"a":18446744073709551615}} "#;
    assert_eq!(
        read::<Value>(Some(document)).unwrap(),
        Some(value!({"a": [1, 2.5, -3, true, null, "é"], "b": {"a": u64::MAX}}))
    );
}

/// FC-111: an error says where and what sort, and quotes nothing.
#[test]
fn errors_are_reduced_to_category_line_and_column() {
    let message = |payload: &[u8]| {
        let error = read::<Order>(Some(payload)).unwrap_err();
        assert_eq!(error.status(), Status::Permanent);
        assert!(std::error::Error::source(&error).is_none());
        assert!(
            !format!("{error:#} {error:?}").contains("hunter2"),
            "{error:#}"
        );
        error.to_string()
    };
    assert_eq!(
        message(b"{\n  \"id\": hunter2}"),
        "json: permanent malformed: not a JSON document at line 2 column 9"
    );
    assert_eq!(
        message(b"{\"id\":1} hunter2"),
        "json: permanent malformed: not a JSON document at line 1 column 10"
    );
    assert_eq!(
        message(b"{\"id\":1"),
        "json: permanent malformed: the JSON document ends early at line 1 column 7"
    );
    assert_eq!(
        message(b"{\"id\":\"hunter2\"}"),
        "json: permanent schema: the document does not fit the type at line 1 column 15"
    );
    assert_eq!(
        message(b"{\"hunter2\":1}"),
        "json: permanent schema: the document does not fit the type at line 1 column 13"
    );
    assert_eq!(
        message(b"\xff\xfe"),
        "json: permanent malformed: not UTF-8 at line 1 column 1"
    );
}

#[derive(Debug)]
struct Loud;

impl<'de> Deserialize<'de> for Loud {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Err(serde::de::Error::custom(format!("refused {text}")))
    }
}

impl Serialize for Loud {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("hunter2"))
    }
}

#[test]
fn the_message_of_a_custom_serde_error_never_surfaces() {
    let error = read::<Loud>(Some(b"\"hunter2\"")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Schema);
    assert!(!format!("{error:#?}").contains("hunter2"));
    let error = write(Some(&Loud)).unwrap_err();
    assert_eq!(
        format!("{error:#}"),
        "json: permanent schema: the value has no form in JSON"
    );
}

#[test]
fn a_map_whose_keys_are_not_strings_has_no_form_in_json() {
    let map = BTreeMap::from([(vec![1u8], 1u8)]);
    let error = write(Some(&map)).unwrap_err();
    assert_eq!(
        (error.kind(), error.status()),
        (ErrorKind::Schema, Status::Permanent)
    );
}

#[test]
fn nesting_is_limited() {
    let nested = |depth: usize| [b"[".repeat(depth), b"]".repeat(depth)].concat();
    assert!(read::<Value>(Some(&nested(127))).is_ok());
    for depth in [128, 1_000_000] {
        let error = read::<Value>(Some(&nested(depth))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Malformed);
    }
}

#[derive(Debug)]
struct Panics;

impl<'de> Deserialize<'de> for Panics {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(serde::de::IgnoredAny)?;
        panic!("a type of the user panics")
    }
}

#[test]
fn a_panic_of_a_type_is_contained() {
    let error = read::<Panics>(Some(b"1")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "json: permanent panic: the stage panicked"
    );
}

#[test]
fn it_prints_as_json_without_its_type() {
    assert_eq!(json::<Order>().describe().to_string(), "json");
    assert_eq!(format!("{:?}", Json::<Order>::new()), "Json");
}

fn documents() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(document in documents()) {
        let written = write(Some(&document)).unwrap();
        prop_assert_eq!(read(written.payload.as_deref()).unwrap(), Some(document));
    }

    #[test]
    fn arbitrary_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let errors = [read::<Value>(Some(&bytes)).err(), read::<Order>(Some(&bytes)).err()];
        for error in errors.into_iter().flatten() {
            prop_assert!(matches!(error.kind(), ErrorKind::Malformed | ErrorKind::Schema));
        }
    }

    #[test]
    fn a_document_cut_short_is_malformed(text in "[a-z]{0,20}", cut in 0usize..40) {
        let document = serde_json::to_vec(&Order { id: 1, note: Some(text) }).unwrap();
        let cut = cut % document.len();
        prop_assert_eq!(
            read::<Order>(Some(&document[..cut])).unwrap_err().kind(),
            ErrorKind::Malformed
        );
    }
}

/// A document is UTF-8 as a whole, in what a type leaves out too.
#[test]
fn a_document_that_is_not_utf8_is_refused_where_nobody_reads_it_too() {
    #[derive(Debug, serde::Deserialize)]
    struct Item {
        #[expect(dead_code, reason = "only read")]
        id: u8,
    }
    let record = kafka_chain::Record::of_value(Some(b"{\"id\":7,\n\"\xF9\":1}"));
    let context = record.context(kafka_chain::Part::Value);
    let stage = kafka_chain::codecs::json::json::<Item>();
    let answer = kafka_chain::Deserializer::deserialize(&stage, kafka_chain::Input::of(&context));
    let error = answer.now().unwrap().unwrap_err();
    assert_eq!(error.message(), "not UTF-8 at line 2 column 2");
    assert_eq!(error.kind(), kafka_chain::ErrorKind::Malformed);
}

/// A number that was read and written again is the same to the last bit.
#[test]
fn numbers_survive_reading_and_writing() {
    for text in [
        "5e-304",
        "0.1",
        "1.7976931348623157e308",
        "2.2250738585072014e-308",
    ] {
        let record = kafka_chain::Record::of_value(Some(text.as_bytes()));
        let context = record.context(kafka_chain::Part::Value);
        let stage = kafka_chain::codecs::json::json::<f64>();
        let answer =
            kafka_chain::Deserializer::deserialize(&stage, kafka_chain::Input::of(&context));
        let read = answer.now().unwrap().unwrap().unwrap();
        assert_eq!(
            read.to_bits(),
            text.parse::<f64>().unwrap().to_bits(),
            "{text}"
        );
    }
}
