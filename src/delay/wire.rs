//! The bytes in which a store keeps a record.
//!
//! Version 1, integers big-endian: `1`, a byte of flags (1 partition, 2 key, 4 value, 8 timestamp),
//! the topic (u16 length, UTF-8), then what the flags announce (partition i32, timestamp i64, key and
//! value with a u32 length), then a u32 count of headers, each a u16 length and name, and a u32 length
//! and value, where a length of 2³² − 1 is null.

use crate::error::{Error, Result};
use crate::headers::Headers;
use crate::record::OutgoingRecord;
use bytes::{Buf, BufMut, Bytes, BytesMut};

const VERSION: u8 = 1;
const PARTITION: u8 = 1;
const KEY: u8 = 2;
const VALUE: u8 = 4;
const TIMESTAMP: u8 = 8;
const NULL: u32 = u32::MAX;

/// How many bytes [`encode`] makes of `record`.
pub fn encoded_len(record: &OutgoingRecord) -> usize {
    let part = |part: &Option<Bytes>| part.as_ref().map_or(0, |bytes| 4 + bytes.len());
    let headers: usize = record
        .headers
        .iter()
        .map(|(name, value)| 6 + name.len() + value.map_or(0, Bytes::len))
        .sum();
    let fixed = 8
        + record.partition.map_or(0, |_| 4)
        + record.timestamp.map_or(0, |_| 8)
        + record.topic.len();
    fixed + part(&record.key) + part(&record.value) + headers
}

/// The bytes of `record`.
///
/// # Errors
/// Permanent when they would be more than `max`, or a topic or the name of a header has more than
/// 65,535 bytes.
pub fn encode(record: &OutgoingRecord, max: usize) -> Result<Bytes> {
    let len = encoded_len(record);
    if len > max.min(NULL as usize - 1) {
        return Err(too_large(len, max));
    }
    let mut out = BytesMut::with_capacity(len);
    let flag = |set: bool, flag: u8| if set { flag } else { 0 };
    out.put_u8(VERSION);
    out.put_u8(
        flag(record.partition.is_some(), PARTITION)
            | flag(record.key.is_some(), KEY)
            | flag(record.value.is_some(), VALUE)
            | flag(record.timestamp.is_some(), TIMESTAMP),
    );
    put_name(&mut out, record.topic.as_bytes())?;
    if let Some(partition) = record.partition {
        out.put_i32(partition);
    }
    if let Some(timestamp) = record.timestamp {
        out.put_i64(timestamp);
    }
    for part in [&record.key, &record.value].into_iter().flatten() {
        put_value(&mut out, part);
    }
    out.put_u32(record.headers.iter().count() as u32);
    for (name, value) in record.headers.iter() {
        put_name(&mut out, name)?;
        match value {
            Some(value) => put_value(&mut out, value),
            None => out.put_u32(NULL),
        }
    }
    Ok(out.freeze())
}

/// The error for a record of `len` bytes.
pub(crate) fn too_large(len: usize, max: usize) -> Error {
    Error::schema(format!(
        "the record has {len} bytes, the most a delayed record may have is {max}"
    ))
}

fn put_name(out: &mut BytesMut, name: &[u8]) -> Result<()> {
    let len = u16::try_from(name.len())
        .map_err(|_| Error::schema("a topic or the name of a header has more than 65,535 bytes"))?;
    out.put_u16(len);
    out.put_slice(name);
    Ok(())
}

/// `encode` has checked that the sum of all lengths is below `NULL`.
fn put_value(out: &mut BytesMut, value: &[u8]) {
    out.put_u32(value.len() as u32);
    out.put_slice(value);
}

/// The record of these bytes; its key, value and headers share them.
///
/// # Errors
/// Permanent when they are not what [`encode`] makes, or of a version this one does not know.
pub fn decode(mut bytes: Bytes) -> Result<OutgoingRecord> {
    let broken = || Error::malformed("the stored record is cut short or broken");
    let version = bytes.try_get_u8().map_err(|_| broken())?;
    if version != VERSION {
        return Err(Error::unsupported(format!(
            "the stored record is of version {version}"
        )));
    }
    let flags = bytes.try_get_u8().map_err(|_| broken())?;
    let has = |flag: u8| flags & flag != 0;
    let topic = take_name(&mut bytes).ok_or_else(broken)?;
    let topic = std::str::from_utf8(&topic)
        .map_err(|_| broken())?
        .to_owned();
    let mut record = OutgoingRecord {
        topic,
        ..OutgoingRecord::default()
    };
    if has(PARTITION) {
        record.partition = Some(bytes.try_get_i32().map_err(|_| broken())?);
    }
    if has(TIMESTAMP) {
        record.timestamp = Some(bytes.try_get_i64().map_err(|_| broken())?);
    }
    for (flag, part) in [(KEY, &mut record.key), (VALUE, &mut record.value)] {
        if has(flag) {
            *part = Some(take_value(&mut bytes).flatten().ok_or_else(broken)?);
        }
    }
    let count = bytes.try_get_u32().map_err(|_| broken())? as usize;
    // Each header takes 6 bytes at least, so the count cannot ask for more than the bytes hold.
    if count > bytes.len() / 6 {
        return Err(broken());
    }
    let mut headers = Headers::with_capacity(count);
    for _ in 0..count {
        let name = take_name(&mut bytes).ok_or_else(broken)?;
        headers.push(name, take_value(&mut bytes).ok_or_else(broken)?);
    }
    record.headers = headers;
    if !bytes.is_empty() {
        return Err(broken());
    }
    Ok(record)
}

fn take(bytes: &mut Bytes, len: usize) -> Option<Bytes> {
    (len <= bytes.len()).then(|| bytes.split_to(len))
}

fn take_name(bytes: &mut Bytes) -> Option<Bytes> {
    let len = bytes.try_get_u16().ok()?;
    take(bytes, len.into())
}

fn take_value(bytes: &mut Bytes) -> Option<Option<Bytes>> {
    match bytes.try_get_u32().ok()? {
        NULL => Some(None),
        len => take(bytes, len as usize).map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::ErrorKind;
    use proptest::prelude::*;

    fn part() -> impl Strategy<Value = Option<Bytes>> {
        proptest::option::of(proptest::collection::vec(any::<u8>(), 0..40).prop_map(Bytes::from))
    }

    fn record() -> impl Strategy<Value = OutgoingRecord> {
        let header = (
            proptest::collection::vec(any::<u8>(), 0..10).prop_map(Bytes::from),
            part(),
        );
        (
            ".{0,20}",
            any::<Option<i32>>(),
            part(),
            part(),
            proptest::collection::vec(header, 0..5),
            any::<Option<i64>>(),
        )
            .prop_map(|(topic, partition, key, value, headers, timestamp)| {
                OutgoingRecord {
                    topic,
                    partition,
                    key,
                    value,
                    headers: headers.into_iter().collect(),
                    timestamp,
                }
            })
    }

    proptest! {
        #[test]
        fn every_record_comes_back(record in record()) {
            let bytes = encode(&record, usize::MAX).unwrap();
            prop_assert_eq!(bytes.len(), encoded_len(&record));
            prop_assert_eq!(decode(bytes).unwrap(), record);
        }

        #[test]
        fn bytes_that_were_cut_are_an_error(record in record(), cut in any::<prop::sample::Index>()) {
            let bytes = encode(&record, usize::MAX).unwrap();
            let kept = cut.index(bytes.len());
            prop_assert!(decode(bytes.slice(..kept)).is_err());
        }

        #[test]
        fn any_bytes_are_a_record_or_an_error(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..200), known in any::<bool>(),
        ) {
            if let (true, Some(first)) = (known, bytes.first_mut()) {
                *first = VERSION;
            }
            let _ = decode(Bytes::from(bytes));
        }
    }

    #[test]
    fn a_record_that_is_too_large_is_refused_with_both_sizes() {
        let record = OutgoingRecord {
            value: Some(Bytes::from(vec![0; 100])),
            ..OutgoingRecord::default()
        };
        let error = encode(&record, 111).unwrap_err();
        assert!(error.message().contains("112 bytes"), "{error}");
        assert!(error.message().contains("is 111"), "{error}");
        assert!(encode(&record, 112).is_ok());
        let long = OutgoingRecord {
            topic: "t".repeat(70_000),
            ..OutgoingRecord::default()
        };
        assert!(encode(&long, usize::MAX).is_err());
    }

    #[test]
    fn a_later_version_is_named() {
        let error = decode(Bytes::from_static(&[9, 0, 0])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }
}
