//! Lists (KIP-466), typed, nested and erased.

use super::{read, read_both, round_trip, write};
use kafka_chain::codecs::List;
use kafka_chain::codecs::{
    BytesCodec, EntrySize, LongCodec, StringCodec, UuidCodec, VoidCodec, list,
};
use kafka_chain::config::{Erase, EraseWriter};
use kafka_chain::{Payload, Value};

pub(super) fn lists(input: &[u8]) {
    let longs = round_trip(&list(LongCodec), input);
    let erased = List::new(Erase(LongCodec), LongCodec.entry_size());
    same_when_erased(&erased, input, longs.as_ref().map(|(list, _)| list));
    if let Some((longs, written)) = &longs {
        let values: Vec<Value> = longs.iter().map(|entry| Value::from(*entry)).collect();
        let writer = List::new(EraseWriter(LongCodec), LongCodec.entry_size());
        assert_eq!(write(&writer, Some(&values)).as_ref(), Some(written));
        // An entry that is no null takes 8 bytes, a null at least the 4 of its index.
        let nulls = longs.iter().filter(|entry| entry.is_none()).count();
        assert!(8 * (longs.len() - nulls) + 4 * nulls <= input.len());
    }

    let strings = round_trip(&list(StringCodec::default()), input);
    let erased = List::new(Erase(StringCodec::default()), None);
    same_when_erased(&erased, input, strings.as_ref().map(|(list, _)| list));
    if let Some((strings, _)) = &strings {
        assert!(4 * strings.len() + 5 <= input.len());
    }

    let nested = list(list(LongCodec));
    if let Some((lists, _)) = round_trip(&nested, input) {
        let entries: usize = lists.iter().flatten().map(Vec::len).sum();
        assert!(4 * (lists.len() + entries) <= input.len());
    }
    round_trip(&list(list(list(StringCodec::default()))), input);
    round_trip(&list(UuidCodec::default()), input);
    read_both(&list(BytesCodec), input);
    read_both(&list(VoidCodec), input);
}

/// An erased list reads the same entries and makes the same mistakes.
fn same_when_erased<D, T>(erased: &List<Erase<D>>, input: &[u8], typed: Option<&Vec<Option<T>>>)
where
    List<Erase<D>>: kafka_chain::Deserializer<Output = Option<Vec<Value>>>,
    T: Clone + PartialEq + std::fmt::Debug + 'static,
{
    let read = read(erased, Payload::Borrowed(input));
    assert_eq!(read.is_ok(), typed.is_some());
    if let (Ok(Some(values)), Some(typed)) = (read, typed) {
        let values: Vec<Option<T>> = values
            .into_iter()
            .map(|value| match value {
                Value::Null => None,
                value => Some(value.take::<T>().unwrap()),
            })
            .collect();
        assert_eq!(&values, typed);
    }
}
