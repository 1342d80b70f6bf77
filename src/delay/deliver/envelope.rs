use super::DeliverTo;
use crate::error::{Error, Result};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::fmt;

/// A record whose target is in its value: `{"topic":"orders","key":"k","value":"v"}`.
///
/// Text is taken as its own bytes; any other JSON (a number, an object) as it is written; null, and
/// a member that is not there, as null. Members of other names are ignored.
#[derive(Clone, PartialEq, Eq)]
pub struct Envelope {
    /// The topic it is for.
    pub to: DeliverTo,
    /// The key it is to have.
    pub key: Option<Bytes>,
    /// The value it is to have.
    pub value: Option<Bytes>,
}

#[derive(Deserialize)]
struct Members<'a> {
    topic: Option<String>,
    #[serde(borrow)]
    key: Option<&'a RawValue>,
    #[serde(borrow)]
    value: Option<&'a RawValue>,
}

impl Envelope {
    /// Reads an envelope from the value of a record.
    ///
    /// # Errors
    /// Permanent, quoting nothing: it is null or no such JSON object, or names no topic.
    pub fn read(value: Option<&[u8]>) -> Result<Self> {
        let broken = |why: &str| Error::malformed(format!("the value is no envelope: {why}"));
        let value = value.ok_or_else(|| broken("it is null"))?;
        // An array would be taken for the members in their order.
        let start = value.iter().find(|byte| !byte.is_ascii_whitespace());
        if start != Some(&b'{') {
            return Err(broken("it is no JSON object"));
        }
        let members: Members<'_> = serde_json::from_slice(value).map_err(|error| {
            broken(&format!(
                "line {} column {} is not as it should be",
                error.line(),
                error.column()
            ))
        })?;
        let topic = members.topic.ok_or_else(|| broken("it names no topic"))?;
        let to = DeliverTo::parse(topic.as_bytes()).map_err(|e| broken(e.message()))?;
        let part = |part: Option<&RawValue>| part.map(bytes).transpose();
        Ok(Envelope {
            to,
            key: part(members.key).map_err(|_| broken("its key is broken"))?,
            value: part(members.value).map_err(|_| broken("its value is broken"))?,
        })
    }
}

fn bytes(raw: &RawValue) -> serde_json::Result<Bytes> {
    let text = raw.get();
    if text.starts_with('"') {
        return serde_json::from_str::<String>(text).map(Bytes::from);
    }
    Ok(Bytes::copy_from_slice(text.as_bytes()))
}

impl fmt::Debug for Envelope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Envelope")
            .field("to", &self.to)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Envelope> {
        Envelope::read(Some(json.as_bytes()))
    }

    fn parts(json: &str) -> (Option<Bytes>, Option<Bytes>) {
        let envelope = read(json).unwrap();
        assert_eq!(envelope.to, DeliverTo::topic("orders"));
        (envelope.key, envelope.value)
    }

    fn some(text: &str) -> Option<Bytes> {
        Some(Bytes::copy_from_slice(text.as_bytes()))
    }

    #[test]
    fn the_key_is_the_key_and_not_the_whole() {
        let json = r#" {"topic":"orders","key":"k1","value":"v\n1","other":[1]}"#;
        assert_eq!(parts(json), (some("k1"), some("v\n1")));
    }

    #[test]
    fn null_and_absent_are_null_and_empty_is_empty() {
        assert_eq!(parts(r#"{"topic":"orders"}"#), (None, None));
        let json = r#"{"topic":"orders","key":null,"value":""}"#;
        assert_eq!(parts(json), (None, some("")));
    }

    #[test]
    fn other_json_comes_as_it_is_written() {
        let json = r#"{"value":{"b": 1.10,"a":null},"key":7,"topic":"orders"}"#;
        assert_eq!(parts(json), (some("7"), some(r#"{"b": 1.10,"a":null}"#)));
        let envelope = read(r#"{"topic":"orders:2"}"#).unwrap();
        assert_eq!(envelope.to.partition, Some(2));
    }

    #[test]
    fn a_broken_envelope_is_refused_without_being_quoted() {
        for json in [
            "",
            "null",
            "secret",
            r#"["orders","k","v"]"#,
            r#"{"topic":null,"key":"secret"}"#,
            r#"{"key":"secret"}"#,
            r#"{"topic":7}"#,
            r#"{"topic":""}"#,
            r#"{"topic":"secret topic"}"#,
            r#"{"topic":"a","topic":"secret"}"#,
            r#"{"topic":"orders","value":"secret"#,
            r#"{"topic":"orders","value":"\ud800"}"#,
            r#"{"topic":"orders"} secret"#,
        ] {
            let error = read(json).unwrap_err();
            assert!(!format!("{error:#}").contains("secret"), "{error:#}");
        }
        assert!(Envelope::read(None).is_err());
        assert!(Envelope::read(Some(&[b'{', 0xFF, b'}'])).is_err());
        let deep = format!(r#"{{"topic":"orders","value":{}"#, "[".repeat(100_000));
        assert!(read(&deep).is_err());
    }
}
