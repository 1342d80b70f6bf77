//! Calls of codecs, which answer at once.
use bytes::Bytes;
use kafka_chain::{
    Deserializer, ErrorKind, Give, Input, Part, Payload, Record, Result, Serializer, Status, Target,
};

pub(crate) fn read<D: Deserializer>(codec: &D, payload: Payload<'_>) -> Result<D::Output> {
    let record = Record::of_value(None);
    let context = record.context(Part::Value);
    codec
        .deserialize(Input {
            payload,
            context: &context,
        })
        .now()
        .unwrap()
}

pub(crate) fn read_bytes<D: Deserializer>(codec: &D, bytes: &[u8]) -> Result<D::Output> {
    read(codec, Payload::Borrowed(bytes))
}

pub(crate) fn write<S, T>(codec: &S, value: Option<&T>) -> Option<Bytes>
where
    S: Serializer<Input = T>,
    T: Sync + 'static + for<'a> Give<Given<'a> = Option<&'a T>>,
{
    let target = Target::new("orders", Part::Value);
    codec
        .serialize(value, &target)
        .now()
        .unwrap()
        .unwrap()
        .payload
}

pub(crate) fn kind<T: std::fmt::Debug>(result: Result<T>) -> ErrorKind {
    let error = result.unwrap_err();
    assert_eq!(error.status(), Status::Permanent);
    error.kind()
}
