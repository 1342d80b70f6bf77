//! What the linked librdkafka says of a key, with the Java client's names translated.

use super::properties::{is_known, known_properties, validate_property};
use crate::config::{ClientKey, ClientKeys};
use crate::transport::{JAVA_KEYS, JavaKey, java_key};

/// The keys of librdkafka and of the Java client.
#[derive(Clone, Copy, Debug, Default)]
pub struct KafkaKeys;

impl ClientKeys for KafkaKeys {
    fn check(&self, key: &str, value: &str) -> ClientKey {
        match java_key(key) {
            Some(JavaKey::Same) => known(key, value),
            Some(JavaKey::Renamed(name)) => translated(name, value.to_owned()),
            Some(JavaKey::Converted(name, convert)) => match convert(value) {
                Ok(value) => translated(name, value),
                Err(reason) => ClientKey::Refused(reason),
            },
            Some(JavaKey::Refused(reason)) => ClientKey::Refused(reason.to_owned()),
            Some(JavaKey::Dropped(reason)) => ClientKey::Dropped(reason.to_owned()),
            None if key.starts_with("config.providers.") => {
                let reason = "placeholders need no provider to be configured";
                ClientKey::Dropped(reason.to_owned())
            }
            None if is_known(key) => known(key, value),
            None => ClientKey::Unknown,
        }
    }

    fn names(&self) -> Vec<String> {
        let java = JAVA_KEYS.iter().map(|(name, _)| (*name).to_owned());
        java.chain(known_properties().into_iter().map(|(name, _)| name))
            .collect()
    }
}

fn known(key: &str, value: &str) -> ClientKey {
    match validate_property(key, value) {
        Ok(()) => ClientKey::Known,
        Err(reason) => ClientKey::Refused(reason),
    }
}

fn translated(name: &str, value: String) -> ClientKey {
    match validate_property(name, &value) {
        Ok(()) => ClientKey::Translated {
            key: name.to_owned(),
            value,
        },
        Err(reason) => ClientKey::Refused(reason),
    }
}
