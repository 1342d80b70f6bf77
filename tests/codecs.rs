//! What the codecs of Kafka's own types promise beyond single vectors.

#[path = "support/codec_calls.rs"]
mod codec_calls;

use bytes::Bytes;
use codec_calls::{kind, read, read_bytes, write};
use kafka_chain::codecs::{self, List, StringCodec, UuidCodec};
use kafka_chain::{
    Answer, BoxSerializer, Component, Deserializer, Encoded, Error, ErrorKind, Input, Part,
    Payload, Record, Serializer, Stage, Target, Tree, Value, deserialize_with,
    deserialize_with_future, serialize_with,
};
use proptest::prelude::*;
use std::future::ready;
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn every_codec_prints_its_name_and_names_its_stage() {
    let parts: [(&str, &dyn Component); 11] = [
        ("bytes", &codecs::bytes()),
        ("string", &codecs::string()),
        ("short", &codecs::short()),
        ("integer", &codecs::integer()),
        ("long", &codecs::long()),
        ("float", &codecs::float()),
        ("double", &codecs::double()),
        ("boolean", &codecs::boolean()),
        ("uuid", &codecs::uuid()),
        ("void", &codecs::void()),
        (
            "list(list(long))",
            &codecs::list(codecs::list(codecs::long())),
        ),
    ];
    for (printed, part) in parts {
        assert_eq!(part.describe().to_string(), printed);
        assert_eq!(printed.parse::<Tree>().unwrap(), part.describe());
    }
    let error = read_bytes(
        &codecs::list(codecs::boolean()),
        &[1, 0, 0, 0, 1, 0, 0, 0, 1, 7],
    );
    let error = error.unwrap_err();
    assert_eq!(
        error.to_string(),
        "list > boolean: permanent malformed: boolean: the byte is neither 0 nor 1"
    );
    let error = read_bytes(&codecs::long(), b"hunter2").unwrap_err();
    assert_eq!(
        error.to_string(),
        "long: permanent malformed: long: expected 8 bytes, found 7"
    );
}

#[test]
fn shared_bytes_are_counted_and_borrowed_ones_copied() {
    let shared = Bytes::from(vec![1, 2, 3]);
    let read_back = read(&codecs::bytes(), Payload::Shared(shared.clone()))
        .unwrap()
        .unwrap();
    assert_eq!(read_back.as_ptr(), shared.as_ptr());
    let borrowed = read_bytes(&codecs::bytes(), &shared).unwrap().unwrap();
    assert_eq!(borrowed, shared);
    assert_ne!(borrowed.as_ptr(), shared.as_ptr());

    let target = Target::new("orders", Part::Value);
    let codec = codecs::bytes();
    let answer = codec.serialize(Payload::Shared(shared.clone()), &target);
    let written = answer.now().unwrap().unwrap();
    assert_eq!(written.payload.unwrap().as_ptr(), shared.as_ptr());
}

#[test]
fn entries_of_a_list_are_parts_of_its_payload() {
    let payload = Bytes::from_static(&[1, 0, 0, 0, 2, 0, 0, 0, 2, 8, 9, 255, 255, 255, 255]);
    let list = codecs::list(codecs::bytes());
    let entries = read(&list, Payload::Shared(payload.clone()))
        .unwrap()
        .unwrap();
    assert_eq!(entries, [Some(Bytes::from_static(&[8, 9])), None]);
    let first = entries.first().unwrap().as_ref().unwrap();
    assert_eq!(first.as_ptr() as usize, payload.as_ptr() as usize + 9);

    let place = |input: Input<'_>| {
        Ok(match input.payload {
            Payload::Borrowed(bytes) => Some(bytes.as_ptr() as usize),
            _ => None,
        })
    };
    let list = List::new(deserialize_with(place), None);
    let places = read_bytes(&list, &payload).unwrap().unwrap();
    assert_eq!(places, [Some(payload.as_ptr() as usize + 9), None]);
}

#[tokio::test]
async fn entries_that_wait_are_read_in_order_one_after_the_other() {
    static RUNNING: AtomicUsize = AtomicUsize::new(0);
    let slow = deserialize_with_future(|input: Input<'_>| {
        Box::pin(async move {
            assert_eq!(RUNNING.fetch_add(1, Ordering::SeqCst), 0);
            tokio::task::yield_now().await;
            RUNNING.fetch_sub(1, Ordering::SeqCst);
            Ok(input.payload.as_bytes().map(<[u8]>::to_vec))
        })
    });
    let list = List::new(slow, None).stage();
    let bytes = codecs::list(codecs::string());
    let names = vec![
        Some("a".to_owned()),
        None,
        Some(String::new()),
        Some("bc".to_owned()),
    ];
    let bytes = write(&bytes, Some(&names)).unwrap();
    let record = Record::of_value(Some(&bytes));
    let read = kafka_chain::deserialize(&list, &record, Part::Value)
        .await
        .unwrap()
        .unwrap();
    let expected: Vec<_> = names
        .into_iter()
        .map(|name| name.map(String::into_bytes))
        .collect();
    assert_eq!(read, expected);

    let cut = bytes.slice(..bytes.len() - 1);
    let record = Record::of_value(Some(&cut));
    let read = kafka_chain::deserialize(&list, &record, Part::Value).await;
    assert_eq!(kind(read), ErrorKind::Malformed);
}

struct Slow;

impl Component for Slow {}

impl Serializer for Slow {
    type Input = i64;

    fn serialize<'a>(&'a self, value: Option<&'a i64>, _: &'a Target<'a>) -> Answer<'a, Encoded> {
        let bytes = value.map(|value| value.to_be_bytes().to_vec());
        let mut encoded = Encoded::of(bytes.map(Bytes::from));
        encoded.headers.push("seen", Some(Bytes::new()));
        Answer::pending(ready(Ok(encoded)))
    }
}

#[tokio::test]
async fn entries_that_wait_are_written_like_those_that_do_not() {
    let numbers = vec![None, Some(1), None, Some(-1)];
    let target = Target::new("orders", Part::Value);
    for size in [None, Some(8)] {
        let waiting = List::new(Slow, size);
        let ready = List::new(codecs::long(), size);
        let waiting = waiting.serialize(Some(&numbers), &target).await.unwrap();
        assert_eq!(waiting.payload, write(&ready, Some(&numbers)));
        assert_eq!(waiting.headers.iter().count(), 4);
    }
}

#[test]
fn a_list_of_values_is_written_like_a_typed_one() {
    let erased: BoxSerializer<Value> = Box::new(serialize_with(|value: Option<&Value>, target| {
        let number = match value {
            Some(Value::Long(number)) => Some(number),
            None => None,
            Some(other) => return Err(Error::config(other.type_name())),
        };
        codecs::long()
            .into_inner()
            .serialize(number, target)
            .now()
            .unwrap()
    }));
    let list = List::new(erased, codecs::entry_size("long"));
    let values = vec![Value::Long(1), Value::Null, Value::Long(3)];
    let numbers = vec![Some(1), None, Some(3)];
    let written = write(&list, Some(&values));
    assert_eq!(
        written,
        write(&codecs::list(codecs::long()), Some(&numbers))
    );
    assert_eq!(write(&list, None::<&Vec<Value>>), None);
}

#[test]
fn an_entry_of_another_size_than_declared_is_refused() {
    let list = List::new(codecs::string(), Some(2));
    let target = Target::new("orders", Part::Value);
    let names = vec![Some("ab".to_owned()), Some("c".to_owned())];
    let answer = list.serialize(Some(&names), &target).now().unwrap();
    assert_eq!(kind(answer), ErrorKind::Schema);
}

#[test]
fn counts_and_lengths_that_lie_are_errors_before_anything_is_allocated() {
    let int = |n: i32| n.to_be_bytes();
    let constant = |nulls: i32, indexes: &[i32], entries: i32, body: &[u8]| {
        let mut bytes = vec![0];
        bytes.extend(int(nulls));
        bytes.extend(indexes.iter().flat_map(|index| int(*index)));
        bytes.extend(int(entries));
        bytes.extend(body);
        bytes
    };
    let variable = |entries: i32, length: i32| [&[1][..], &int(entries), &int(length)].concat();
    let hostile = [
        constant(i32::MAX, &[], 0, &[]),
        constant(i32::MIN, &[], 0, &[]),
        constant(-1, &[], 0, &[]),
        constant(2, &[0], 1, &[]),
        constant(0, &[], i32::MAX, &[]),
        constant(0, &[], -1, &[]),
        constant(0, &[], 2, &[0; 15]),
        constant(1, &[0], i32::MAX, &[0; 16]),
        constant(3, &[0, 0, 0], 2, &[]),
        constant(3, &[-1, 5, i32::MAX], 1, &[]),
        variable(i32::MAX, 0),
        variable(-1, 0),
        variable(2, 0),
        variable(1, i32::MAX),
        variable(1, -2),
        variable(1, i32::MIN),
        vec![],
        vec![2, 0, 0, 0, 0],
        vec![0, 0, 0, 0],
        vec![1, 0, 0, 0],
    ];
    let list = codecs::list(codecs::long());
    for bytes in hostile {
        let shared = read(&list, Payload::Shared(bytes.clone().into()));
        assert_eq!(kind(shared), ErrorKind::Malformed, "{bytes:?}");
        assert_eq!(
            kind(read_bytes(&list, &bytes)),
            ErrorKind::Malformed,
            "{bytes:?}"
        );
    }
    let outside = constant(4, &[-1, 0, 0, 9], 2, &[0, 0, 0, 0, 0, 0, 0, 7, 99]);
    assert_eq!(
        read_bytes(&list, &outside).unwrap(),
        Some(vec![None, Some(7)])
    );
    let unordered = constant(2, &[2, 0], 3, &7_i64.to_be_bytes());
    assert_eq!(
        read_bytes(&list, &unordered).unwrap(),
        Some(vec![None, Some(7), None])
    );
}

#[test]
fn a_uuid_in_utf_16_has_no_constant_size_in_a_list() {
    let uuids = vec![Some(uuid::Uuid::from_u128(7))];
    let list = codecs::list(UuidCodec::with_encoding("UTF-16BE").unwrap().stage());
    let bytes = write(&list, Some(&uuids)).unwrap();
    assert_eq!(bytes.first(), Some(&1));
    assert_eq!(read_bytes(&list, &bytes).unwrap(), Some(uuids.clone()));
    let plain = write(&codecs::list(codecs::uuid()), Some(&uuids)).unwrap();
    assert_eq!((plain.first(), plain.len()), (Some(&0), 9 + 36));
}

fn round_trip<C, T>(codec: &Stage<C>, value: Option<T>)
where
    C: Serializer<Input = T> + Deserializer<Output = Option<T>>,
    T: PartialEq + std::fmt::Debug + Sync + 'static,
    T: for<'a> kafka_chain::Give<Given<'a> = Option<&'a T>>,
{
    let bytes = write(codec, value.as_ref());
    assert_eq!(bytes.is_none(), value.is_none());
    assert_eq!(read(codec, bytes.clone().into()).unwrap(), value);
    assert_eq!(read(codec, bytes.as_deref().into()).unwrap(), value);
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(
        short: Option<i16>,
        integer: Option<i32>,
        long: Option<i64>,
        boolean: Option<bool>,
        uuid: Option<u128>,
        string: Option<String>,
        longs: Option<Vec<Option<i64>>>,
        strings: Option<Vec<Option<String>>>,
        nested: Option<Vec<Option<Vec<Option<i16>>>>>,
    ) {
        round_trip(&codecs::short(), short);
        round_trip(&codecs::integer(), integer);
        round_trip(&codecs::long(), long);
        round_trip(&codecs::boolean(), boolean);
        round_trip(&codecs::uuid(), uuid.map(uuid::Uuid::from_u128));
        for encoding in ["UTF-8", "UTF-16BE", "UTF-16LE"] {
            let codec = StringCodec::with_encoding(encoding).unwrap().stage();
            round_trip(&codec, string.clone());
        }
        round_trip(&codecs::list(codecs::long()), longs);
        round_trip(&codecs::list(codecs::string()), strings);
        round_trip(&codecs::list(codecs::list(codecs::short())), nested);
    }

    #[test]
    fn floats_keep_their_bits(float: u32, double: u64) {
        let number = f32::from_bits(float);
        let bytes = write(&codecs::float(), Some(&number)).unwrap();
        prop_assert_eq!(bytes.as_ref(), float.to_be_bytes());
        let back = read_bytes(&codecs::float(), &bytes).unwrap().unwrap();
        prop_assert_eq!(back.to_bits(), float);
        let back = read_bytes(&codecs::double(), &double.to_be_bytes()).unwrap().unwrap();
        prop_assert_eq!(back.to_bits(), double);
    }

    #[test]
    fn no_bytes_make_a_decoder_panic(
        bytes in prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..64),
            // Bytes that look like the head of a list.
            proptest::collection::vec(prop_oneof![Just(0_u8), Just(1), Just(2), Just(255)], 0..48),
        ],
    ) {
        let _ = read_bytes(&codecs::bytes(), &bytes);
        let _ = read_bytes(&codecs::short(), &bytes);
        let _ = read_bytes(&codecs::float(), &bytes);
        let _ = read_bytes(&codecs::double(), &bytes);
        let _ = read_bytes(&codecs::boolean(), &bytes);
        let _ = read_bytes(&codecs::void(), &bytes);
        for encoding in ["UTF-8", "UTF-16", "UTF-16LE", "US-ASCII", "ISO-8859-1", "KOI8-U"] {
            let _ = read_bytes(&StringCodec::with_encoding(encoding).unwrap(), &bytes);
            let _ = read_bytes(&UuidCodec::with_encoding(encoding).unwrap(), &bytes);
        }
        let _ = read_bytes(&codecs::list(codecs::short()), &bytes);
        let _ = read_bytes(&codecs::list(codecs::list(codecs::list(codecs::integer()))), &bytes);
        let list = codecs::list(codecs::string());
        let borrowed = read_bytes(&list, &bytes).map_err(|error| error.to_string());
        let shared = read(&list, Payload::Shared(bytes.clone().into()));
        prop_assert_eq!(&borrowed, &shared.map_err(|error| error.to_string()));
        if let Ok(Some(entries)) = borrowed {
            prop_assert!(entries.len() <= bytes.len() / 4);
        }
    }
}
