//! librdkafka's table of properties, asked from the library that is linked.

use super::ffi;
use crate::error::{Error, Result};
use crate::properties::{REDACTED, is_secret_key};
use crate::transport::Settings;
use rdkafka::ClientConfig;
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaConfRes;

/// Name and default value of librdkafka's properties, those of topics included; sorted by name.
///
/// Second spellings (`bootstrap.servers`) and properties that this build leaves out are not
/// listed: [`is_known`] is the truth about one name, this is what to suggest from.
pub fn known_properties() -> Vec<(String, String)> {
    let mut all = ffi::default_properties();
    all.extend(
        SECOND_SPELLINGS
            .iter()
            .map(|name| ((*name).to_owned(), String::new())),
    );
    all.sort();
    all.dedup_by(|later, earlier| later.0 == earlier.0);
    all
}

/// Spellings that librdkafka takes but does not list, as the Java client writes them.
const SECOND_SPELLINGS: [&str; 9] = [
    "acks",
    "bootstrap.servers",
    "compression.type",
    "delivery.timeout.ms",
    "linger.ms",
    "max.in.flight",
    "max.partition.fetch.bytes",
    "retries",
    "sasl.mechanism",
];

/// Whether librdkafka knows a property of this name, under any spelling, in this build or another.
pub fn is_known(name: &str) -> bool {
    // An empty value may be invalid, or reset the property; only the name's being unknown counts.
    !name.is_empty() && try_property(name, "") != Err(Refusal::Unknown)
}

/// Whether librdkafka takes this value for this property.
///
/// # Errors
/// The reason, in librdkafka's words where they do not quote the value.
pub fn validate_property(name: &str, value: &str) -> Result<(), String> {
    match try_property(name, value) {
        Ok(()) => Ok(()),
        Err(Refusal::Unknown) => Err(format!("librdkafka has no property {name}")),
        Err(Refusal::Invalid(_)) if is_secret_key(name) => Err(format!(
            "librdkafka does not take the value {REDACTED} of {name}"
        )),
        Err(Refusal::Invalid(text)) => Err(without(&text, value)),
    }
}

/// What librdkafka says without the value: whoever prints it cannot know whether it is a secret.
fn without(text: &str, value: &str) -> String {
    let text = text.trim();
    if let Some((_, range)) = text.split_once("is outside allowed range") {
        return format!("the value is outside the allowed range{}", range.trim_end());
    }
    if value.is_empty() || !text.contains(value) {
        return text.to_owned();
    }
    "librdkafka does not take the value".to_owned()
}

/// Why a property was refused.
#[derive(Debug, PartialEq, Eq)]
enum Refusal {
    Unknown,
    /// In librdkafka's words, which may quote the value.
    Invalid(String),
}

/// Sets a property on a configuration that is then thrown away.
fn try_property(name: &str, value: &str) -> Result<(), Refusal> {
    match ClientConfig::new().set(name, value).create_native_config() {
        Ok(_) => Ok(()),
        Err(KafkaError::ClientConfig(RDKafkaConfRes::RD_KAFKA_CONF_UNKNOWN, ..)) => {
            Err(Refusal::Unknown)
        }
        Err(KafkaError::ClientConfig(_, text, ..)) => Err(Refusal::Invalid(text)),
        // A NUL, in the name or in the value.
        Err(_) if name.contains('\0') => Err(Refusal::Unknown),
        Err(_) => Err(Refusal::Invalid(format!(
            "{name} cannot have a NUL in its value"
        ))),
    }
}

/// The settings as rdkafka takes them.
///
/// # Errors
/// Kind Config, with every setting that is refused.
pub(super) fn client_config(settings: &Settings) -> Result<ClientConfig> {
    let refused: Vec<String> = settings
        .iter()
        .filter_map(|(name, value)| {
            validate_property(name, value)
                .err()
                .map(|reason| format!("{name}: {reason}"))
        })
        .collect();
    if !refused.is_empty() {
        return Err(Error::config(refused.join("; ")));
    }
    let mut config = ClientConfig::new();
    for (name, value) in settings.iter() {
        config.set(name, value);
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_client_and_topic_properties_with_their_defaults() {
        let all = known_properties();
        let default = |name: &str| {
            all.iter()
                .find(|(found, _)| found == name)
                .map(|(_, value)| value.as_str())
        };
        assert_eq!(default("session.timeout.ms"), Some("45000"));
        assert_eq!(default("auto.offset.reset"), Some("largest"));
        assert_eq!(default("partitioner"), Some("consistent_random"));
        assert_eq!(default("bootstrap.servers"), Some(""));
        assert!(all.len() > 100, "{}", all.len());
        for (name, _) in &all {
            assert!(is_known(name), "{name}");
        }
    }

    #[test]
    fn a_name_is_known_under_each_spelling_and_a_java_name_is_not() {
        for name in [
            "metadata.broker.list",
            "bootstrap.servers",
            "acks",
            "ssl.ca.location",
        ] {
            assert!(is_known(name), "{name}");
        }
        for name in ["max.poll.records", "session.timeout", "", "a\0b "] {
            assert!(!is_known(name), "{name}");
        }
    }

    #[test]
    fn a_bad_value_is_refused_in_words_and_a_secret_one_without() {
        assert_eq!(validate_property("session.timeout.ms", "6000"), Ok(()));
        let reason = validate_property("session.timeout.ms", "soon").unwrap_err();
        assert!(reason.contains("session.timeout.ms"), "{reason}");
        assert!(
            validate_property("max.poll.records", "1")
                .unwrap_err()
                .contains("no property")
        );
        let reason = validate_property("sasl.password", "hun\0ter2").unwrap_err();
        assert!(
            reason.contains("sasl.password") && !reason.contains("ter2"),
            "{reason}"
        );
    }

    #[test]
    fn all_refused_settings_are_reported_together() {
        let settings: Settings = [("linger.ms", "x"), ("nonsense", "1"), ("group.id", "g")]
            .into_iter()
            .collect();
        let text = client_config(&settings).unwrap_err().to_string();
        assert!(
            text.contains("linger.ms") && text.contains("nonsense"),
            "{text}"
        );
    }

    #[test]
    fn properties_that_no_text_can_set_are_refused() {
        for name in ["opaque", "rebalance_cb", "default_topic_conf", "dr_msg_cb"] {
            assert!(
                matches!(try_property(name, "1"), Err(Refusal::Invalid(_))),
                "{name}"
            );
        }
        let long = "x".repeat(10_000);
        assert!(matches!(
            try_property("acks", &long),
            Err(Refusal::Invalid(_))
        ));
    }
}
