//! A registry with a decryption of the kind that KIP-873 names, and short cuts.

use bytes::Bytes;
use kafka_chain::config::{Configuration, Registry};
use kafka_chain::properties::{Charset, Properties, Report};
use kafka_chain::{Error, deserialize_with};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// "Decrypts" by taking one off each byte; a payload that starts with `!` is refused for good, and
/// the first `failures` calls fail temporarily.
pub(crate) fn registry(failures: u32) -> (Registry, Arc<AtomicU32>) {
    let calls = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&calls);
    let registry = Registry::builtin()
        .with_deserializer("com.example.DecryptionDeserializer", move |_| {
            let calls = Arc::clone(&counted);
            Some(deserialize_with(move |input| {
                if calls.fetch_add(1, Ordering::Relaxed) < failures {
                    return Err(Error::unavailable("the key service is down"));
                }
                match input.payload.as_bytes() {
                    Some([b'!', ..]) => Err(Error::decrypt("wrong key")),
                    bytes => Ok(bytes.map(|b| b.iter().map(|b| b - 1).collect::<Bytes>())),
                }
            }))
        })
        .with_application_prefix("shop.");
    (registry, calls)
}

/// The payload that "decrypts" to `text`.
pub(crate) fn encrypted(text: &str) -> Vec<u8> {
    text.bytes().map(|byte| byte + 1).collect()
}

pub(crate) fn properties(text: &str) -> Properties {
    Properties::parse(text.as_bytes(), Charset::Utf8, "test.properties").unwrap()
}

pub(crate) fn configure(text: &str) -> Result<Configuration, Report> {
    registry(0).0.configure(&properties(text))
}

/// The mistakes of `text`, a line each.
pub(crate) fn mistakes(text: &str) -> Vec<String> {
    match configure(text) {
        Ok(configuration) => panic!("no mistake was found:\n{}", configuration.explain()),
        Err(report) => report.iter().map(ToString::to_string).collect(),
    }
}
