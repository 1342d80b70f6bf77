//! A client's settings: names and values, one spelling a name, secrets never printed.

use crate::properties::redacted;
use std::collections::BTreeMap;
use std::fmt;

/// Settings of a Kafka client, by librdkafka's names.
///
/// Of two names that librdkafka takes for the same property (`sasl.mechanisms`,
/// `sasl.mechanism`) one is kept, the one the Java client has too, so that of two spellings the
/// later wins and not one by chance. `Debug` and `Display` print [`REDACTED`](crate::properties::REDACTED) for the value of
/// each [secret](crate::properties::is_secret_key).
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Settings(BTreeMap<String, String>);

impl Settings {
    /// No settings.
    pub const fn new() -> Self {
        Settings(BTreeMap::new())
    }

    /// Sets `name`; the later value wins.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<String>) -> &mut Self {
        let name = name.into();
        let name = match one_spelling(&name) {
            Some(spelling) => spelling.to_owned(),
            None => name,
        };
        self.0.insert(name, value.into());
        self
    }

    /// Sets `name` unless it is set already.
    pub fn set_default(&mut self, name: &str, value: &str) -> &mut Self {
        if self.get(name).is_none() {
            self.set(name, value);
        }
        self
    }

    /// The value of `name`, under either of its spellings.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0
            .get(one_spelling(name).unwrap_or(name))
            .map(String::as_str)
    }

    /// Removes `name`.
    pub fn remove(&mut self, name: &str) -> Option<String> {
        self.0.remove(one_spelling(name).unwrap_or(name))
    }

    /// Names and values, in the order of names. The values include secrets.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(n, v)| (n.as_str(), v.as_str()))
    }
}

impl<N: Into<String>, V: Into<String>> Extend<(N, V)> for Settings {
    fn extend<I: IntoIterator<Item = (N, V)>>(&mut self, settings: I) {
        for (name, value) in settings {
            self.set(name, value);
        }
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Settings {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(settings: I) -> Self {
        let mut all = Settings::new();
        all.extend(settings);
        all
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(
                self.iter()
                    .map(|(name, value)| (name, redacted(name, value))),
            )
            .finish()
    }
}

impl fmt::Display for Settings {
    /// One `name=value` a line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in self.iter() {
            writeln!(f, "{name}={}", redacted(name, value))?;
        }
        Ok(())
    }
}

/// The spelling to keep of a name that has two.
fn one_spelling(name: &str) -> Option<&'static str> {
    Some(match name {
        "metadata.broker.list" => "bootstrap.servers",
        "max.in.flight" => "max.in.flight.requests.per.connection",
        "sasl.mechanisms" => "sasl.mechanism",
        "sasl.oauthbearer.client.credentials.client.id" => "sasl.oauthbearer.client.id",
        "sasl.oauthbearer.client.credentials.client.secret" => "sasl.oauthbearer.client.secret",
        "fetch.message.max.bytes" => "max.partition.fetch.bytes",
        "queue.buffering.max.ms" => "linger.ms",
        "message.send.max.retries" => "retries",
        "compression.codec" => "compression.type",
        "request.required.acks" => "acks",
        "message.timeout.ms" => "delivery.timeout.ms",
        _ => return None,
    })
}

/// The settings of a producer beside a consumer: how to reach the same cluster comes from
/// `consumer` (servers, security protocol, sasl and ssl), everything else from `overrides`, which
/// win.
pub fn producer_settings(consumer: &Settings, overrides: &Settings) -> Settings {
    consumer
        .iter()
        .filter(|(name, _)| is_inherited(name))
        .chain(overrides.iter())
        .collect()
}

fn is_inherited(name: &str) -> bool {
    const NAMES: [&str; 8] = [
        "bootstrap.servers",
        "security.protocol",
        "enable.ssl.certificate.verification",
        "enable.sasl.oauthbearer.unsecure.jwt",
        "https.ca.location",
        "https.ca.pem",
        "client.dns.lookup",
        "broker.address.family",
    ];
    NAMES.contains(&name) || name.starts_with("sasl.") || name.starts_with("ssl.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_print_neither_in_debug_nor_in_display() {
        let secrets = [
            "sasl.password",
            "sasl.jaas.config",
            "ssl.key.password",
            "ssl.keystore.password",
            "ssl.truststore.password",
            "ssl.key.pem",
            "ssl.certificate.pem",
            "ssl.keystore.key",
            "sasl.oauthbearer.config",
            "sasl.oauthbearer.client.secret",
            "sasl.oauthbearer.client.credentials.client.secret",
            "sasl.oauthbearer.assertion.private.key.passphrase",
        ];
        let mut settings: Settings = secrets.iter().map(|name| (*name, "hunter2")).collect();
        settings.set("group.id", "orders");
        for text in [format!("{settings:?}"), settings.to_string()] {
            assert!(!text.contains("hunter2"), "{text}");
            assert!(text.contains("orders"), "{text}");
        }
    }

    #[test]
    fn of_two_spellings_of_a_name_the_later_wins() {
        let settings: Settings = [("sasl.mechanisms", "PLAIN"), ("sasl.mechanism", "GSSAPI")]
            .into_iter()
            .collect();
        assert_eq!(settings.iter().count(), 1);
        assert_eq!(settings.get("sasl.mechanisms"), Some("GSSAPI"));
    }

    #[test]
    fn a_producer_inherits_how_to_reach_the_cluster_and_nothing_else() {
        let consumer: Settings = [
            ("metadata.broker.list", "a:1"),
            ("security.protocol", "sasl_ssl"),
            ("sasl.mechanism", "PLAIN"),
            ("sasl.username", "u"),
            ("ssl.ca.location", "/ca"),
            ("group.id", "g"),
            ("client.id", "c"),
            ("auto.offset.reset", "latest"),
            ("isolation.level", "read_committed"),
            ("fetch.min.bytes", "7"),
        ]
        .into_iter()
        .collect();
        let overrides: Settings = [("linger.ms", "5"), ("sasl.mechanisms", "GSSAPI")]
            .into_iter()
            .collect();
        let producer = producer_settings(&consumer, &overrides);
        let all: Vec<_> = producer.iter().collect();
        assert_eq!(
            all,
            [
                ("bootstrap.servers", "a:1"),
                ("linger.ms", "5"),
                ("sasl.mechanism", "GSSAPI"),
                ("sasl.username", "u"),
                ("security.protocol", "sasl_ssl"),
                ("ssl.ca.location", "/ca"),
            ]
        );
    }
}
