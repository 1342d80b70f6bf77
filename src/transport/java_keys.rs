//! The Java client's keys, for those who bring its property files: what librdkafka calls them, or
//! why they cannot be taken.

/// What becomes of a key of the Java client (`ConsumerConfig`, `ProducerConfig` and what both
/// share, of Apache Kafka 4.0).
#[derive(Clone, Copy, Debug)]
pub enum JavaKey {
    /// librdkafka has the key, with the same meaning and values.
    Same,
    /// librdkafka has it under this name, with the same values.
    Renamed(&'static str),
    /// It goes to librdkafka under this name, with what the function makes of the value. The
    /// function's error says why a value cannot be taken; it never quotes a secret.
    Converted(&'static str, fn(&str) -> Result<String, String>),
    /// It cannot be taken: without it the client would not do what the file says. Why, and what to
    /// write instead.
    Refused(&'static str),
    /// It is left out with a warning: nothing that counts is lost. Why.
    Dropped(&'static str),
}

/// What becomes of the Java client's key `name`; `None` for a key that client does not have.
pub fn java_key(name: &str) -> Option<JavaKey> {
    JAVA_KEYS
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, key)| *key)
}

use super::java_values::{
    assignors, buffer_bytes, bytes_to_kbytes, ciphers, endpoint_identification, keystore,
    lower_case, offset_reset, partitioner,
};
use JavaKey::{Converted, Dropped, Refused, Renamed, Same};

/// All keys of the Java client, in groups.
pub const JAVA_KEYS: &[(&str, JavaKey)] = &[
    // Both.
    ("bootstrap.servers", Same),
    ("client.dns.lookup", Same),
    ("client.id", Same),
    ("client.rack", Same),
    ("connections.max.idle.ms", Same),
    ("enable.metrics.push", Same),
    ("metadata.max.age.ms", Same),
    ("metadata.recovery.strategy", Same),
    ("metadata.recovery.rebootstrap.trigger.ms", Same),
    ("reconnect.backoff.ms", Same),
    ("reconnect.backoff.max.ms", Same),
    ("retry.backoff.ms", Same),
    ("retry.backoff.max.ms", Same),
    ("security.protocol", Same),
    ("socket.connection.setup.timeout.ms", Same),
    (
        "send.buffer.bytes",
        Converted("socket.send.buffer.bytes", buffer_bytes),
    ),
    (
        "receive.buffer.bytes",
        Converted("socket.receive.buffer.bytes", buffer_bytes),
    ),
    ("request.timeout.ms", Renamed("socket.timeout.ms")),
    (
        "socket.connection.setup.timeout.max.ms",
        Dropped(ONE_TIMEOUT),
    ),
    (
        "default.api.timeout.ms",
        Dropped("each call that waits has its own documented limit"),
    ),
    ("auto.include.jmx.reporter", Dropped(NO_METRICS)),
    ("metric.reporters", Dropped(NO_METRICS)),
    ("metrics.num.samples", Dropped(NO_METRICS)),
    ("metrics.recording.level", Dropped(NO_METRICS)),
    ("metrics.sample.window.ms", Dropped(NO_METRICS)),
    (
        "interceptor.classes",
        Refused("a Java class cannot run here; put a stage into the chain"),
    ),
    (
        "config.providers",
        Dropped(
            "${env:NAME} and ${file:PATH:KEY} are resolved without it; other providers are not",
        ),
    ),
    (
        "bootstrap.controllers",
        Refused("it is for administration; use bootstrap.servers"),
    ),
    // Consumer.
    ("allow.auto.create.topics", Same),
    ("auto.commit.interval.ms", Same),
    (
        "auto.offset.reset",
        Converted("auto.offset.reset", offset_reset),
    ),
    ("check.crcs", Same),
    ("enable.auto.commit", Same),
    ("fetch.max.bytes", Same),
    ("fetch.max.wait.ms", Renamed("fetch.wait.max.ms")),
    ("fetch.min.bytes", Same),
    ("group.id", Same),
    ("group.instance.id", Same),
    ("group.protocol", Converted("group.protocol", lower_case)),
    ("group.remote.assignor", Same),
    ("heartbeat.interval.ms", Same),
    ("isolation.level", Same),
    ("max.partition.fetch.bytes", Same),
    ("max.poll.interval.ms", Same),
    (
        "partition.assignment.strategy",
        Converted("partition.assignment.strategy", assignors),
    ),
    ("session.timeout.ms", Same),
    (
        "max.poll.records",
        Refused(
            "librdkafka hands out one record at a time and has no such limit; \
         queued.min.messages limits what it fetches ahead",
        ),
    ),
    (
        "exclude.internal.topics",
        Refused("librdkafka has topic.blacklist instead, a list of patterns"),
    ),
    (
        "internal.leave.group.on.close",
        Refused("librdkafka always leaves; use group.instance.id"),
    ),
    (
        "share.acknowledgement.mode",
        Refused("share groups are not supported by librdkafka"),
    ),
    ("key.deserializer", Refused(CHAIN)),
    ("value.deserializer", Refused(CHAIN)),
    // Producer.
    ("acks", Same),
    ("batch.size", Same),
    ("compression.type", Same),
    ("delivery.timeout.ms", Same),
    ("enable.idempotence", Same),
    ("linger.ms", Same),
    ("max.in.flight.requests.per.connection", Same),
    ("retries", Same),
    ("transaction.timeout.ms", Same),
    ("transactional.id", Same),
    (
        "buffer.memory",
        Converted("queue.buffering.max.kbytes", bytes_to_kbytes),
    ),
    ("max.request.size", Renamed("message.max.bytes")),
    ("compression.gzip.level", Renamed("compression.level")),
    ("compression.lz4.level", Renamed("compression.level")),
    ("compression.zstd.level", Renamed("compression.level")),
    ("partitioner.class", Converted("partitioner", partitioner)),
    (
        "max.block.ms",
        Refused(
            "a send never blocks; for a place in a full queue it waits for delivery.timeout.ms",
        ),
    ),
    ("partitioner.ignore.keys", Refused("use partitioner=random")),
    (
        "partitioner.adaptive.partitioning.enable",
        Dropped(PARTITIONING),
    ),
    ("partitioner.availability.timeout.ms", Dropped(PARTITIONING)),
    (
        "metadata.max.idle.ms",
        Dropped("librdkafka keeps the metadata of all topics it wrote to"),
    ),
    (
        "transaction.two.phase.commit.enable",
        Refused("librdkafka does not have it"),
    ),
    ("key.serializer", Refused(CHAIN)),
    ("value.serializer", Refused(CHAIN)),
    // SSL.
    ("ssl.key.password", Same),
    ("ssl.keystore.password", Same),
    ("ssl.cipher.suites", Converted("ssl.cipher.suites", ciphers)),
    (
        "ssl.endpoint.identification.algorithm",
        Converted(
            "ssl.endpoint.identification.algorithm",
            endpoint_identification,
        ),
    ),
    (
        "ssl.keystore.location",
        Converted("ssl.keystore.location", keystore),
    ),
    (
        "ssl.keystore.certificate.chain",
        Renamed("ssl.certificate.pem"),
    ),
    ("ssl.keystore.key", Renamed("ssl.key.pem")),
    ("ssl.truststore.certificates", Renamed("ssl.ca.pem")),
    (
        "ssl.keystore.type",
        Refused(
            "librdkafka's ssl.keystore.location is always PKCS#12 (leave the type out); for PEM files \
         use ssl.certificate.location and ssl.key.location",
        ),
    ),
    (
        "ssl.truststore.location",
        Refused("use ssl.ca.location with a PEM file"),
    ),
    (
        "ssl.truststore.password",
        Refused("use ssl.ca.location with a PEM file, which needs none"),
    ),
    (
        "ssl.truststore.type",
        Refused("use ssl.ca.location with a PEM file"),
    ),
    ("ssl.enabled.protocols", Refused(SSL_VERSION)),
    ("ssl.protocol", Refused(SSL_VERSION)),
    (
        "ssl.provider",
        Refused("it names a Java provider; librdkafka uses OpenSSL"),
    ),
    (
        "ssl.engine.factory.class",
        Refused("a Java class cannot run here"),
    ),
    (
        "ssl.keymanager.algorithm",
        Dropped("it is about Java; librdkafka uses OpenSSL"),
    ),
    (
        "ssl.trustmanager.algorithm",
        Dropped("it is about Java; librdkafka uses OpenSSL"),
    ),
    (
        "ssl.secure.random.implementation",
        Dropped("it is about Java; librdkafka uses OpenSSL"),
    ),
    (
        "security.providers",
        Refused("it names Java classes; librdkafka uses OpenSSL"),
    ),
    // SASL.
    ("sasl.mechanism", Same),
    ("sasl.kerberos.kinit.cmd", Same),
    ("sasl.kerberos.min.time.before.relogin", Same),
    ("sasl.kerberos.service.name", Same),
    ("sasl.oauthbearer.client.credentials.client.id", Same),
    ("sasl.oauthbearer.client.credentials.client.secret", Same),
    ("sasl.oauthbearer.scope", Same),
    ("sasl.oauthbearer.token.endpoint.url", Same),
    (
        "sasl.jaas.config",
        Refused(
            "it names a Java class; use sasl.username and sasl.password, sasl.kerberos.keytab and \
         sasl.kerberos.principal, or sasl.oauthbearer.*",
        ),
    ),
    ("sasl.client.callback.handler.class", Refused(SASL_CLASS)),
    ("sasl.login.callback.handler.class", Refused(SASL_CLASS)),
    ("sasl.login.class", Refused(SASL_CLASS)),
    ("sasl.oauthbearer.jwt.retriever.class", Refused(SASL_CLASS)),
    ("sasl.oauthbearer.jwt.validator.class", Refused(SASL_CLASS)),
    ("sasl.kerberos.ticket.renew.jitter", Dropped(KERBEROS)),
    (
        "sasl.kerberos.ticket.renew.window.factor",
        Dropped(KERBEROS),
    ),
    ("sasl.login.connect.timeout.ms", Dropped(SASL_LOGIN)),
    ("sasl.login.read.timeout.ms", Dropped(SASL_LOGIN)),
    ("sasl.login.refresh.buffer.seconds", Dropped(SASL_LOGIN)),
    ("sasl.login.refresh.min.period.seconds", Dropped(SASL_LOGIN)),
    ("sasl.login.refresh.window.factor", Dropped(SASL_LOGIN)),
    ("sasl.login.refresh.window.jitter", Dropped(SASL_LOGIN)),
    ("sasl.login.retry.backoff.ms", Dropped(SASL_LOGIN)),
    ("sasl.login.retry.backoff.max.ms", Dropped(SASL_LOGIN)),
    ("sasl.oauthbearer.clock.skew.seconds", Dropped(SASL_BROKER)),
    ("sasl.oauthbearer.expected.audience", Dropped(SASL_BROKER)),
    ("sasl.oauthbearer.expected.issuer", Dropped(SASL_BROKER)),
    (
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        Dropped(SASL_BROKER),
    ),
    (
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        Dropped(SASL_BROKER),
    ),
    (
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        Dropped(SASL_BROKER),
    ),
    ("sasl.oauthbearer.jwks.endpoint.url", Dropped(SASL_BROKER)),
    (
        "sasl.oauthbearer.scope.claim.name",
        Refused("librdkafka reads the scope from `scope` only"),
    ),
    (
        "sasl.oauthbearer.sub.claim.name",
        Refused("librdkafka reads the subject from `sub` only"),
    ),
];

const CHAIN: &str = "it names a chain, which is not the client's: the client gives and takes bytes";
const NO_METRICS: &str = "it is about Java's own metrics";
const ONE_TIMEOUT: &str = "librdkafka has one limit, socket.connection.setup.timeout.ms";
const PARTITIONING: &str = "librdkafka does not weigh partitions by their brokers' load";
const SSL_VERSION: &str = "librdkafka leaves the protocol version to OpenSSL's configuration";
const SASL_CLASS: &str = "a Java class cannot run here; use sasl.username and sasl.password, \
                          sasl.kerberos.*, or sasl.oauthbearer.method=oidc";
const SASL_LOGIN: &str = "librdkafka renews its login by rules of its own";
const SASL_BROKER: &str = "it is about checking tokens, which a broker does";
const KERBEROS: &str = "librdkafka renews tickets by sasl.kerberos.min.time.before.relogin";

#[cfg(test)]
mod tests {
    use super::*;

    fn converted(name: &str, value: &str) -> (String, Result<String, String>) {
        match java_key(name) {
            Some(Converted(to, convert)) => (to.to_owned(), convert(value)),
            other => panic!("{name}: {other:?}"),
        }
    }

    /// FC-104.
    #[test]
    fn keys_of_a_java_file_are_translated_or_refused_with_reason_and_alternative() {
        for (name, alternative) in [
            ("max.poll.records", "queued.min.messages"),
            ("sasl.jaas.config", "sasl.username"),
            ("ssl.truststore.location", "ssl.ca.location"),
            ("value.deserializer", "chain"),
        ] {
            let Some(Refused(reason)) = java_key(name) else {
                panic!("{name}");
            };
            assert!(reason.contains(alternative), "{name}: {reason}");
        }
        assert!(matches!(java_key("delivery.timeout.ms"), Some(Same)));
        let (name, value) = converted("auto.offset.reset", "none");
        assert_eq!(
            (name.as_str(), value.as_deref()),
            ("auto.offset.reset", Ok("error"))
        );
        assert!(matches!(
            java_key("fetch.max.wait.ms"),
            Some(Renamed("fetch.wait.max.ms"))
        ));
        assert!(java_key("fetch.wait.max.ms").is_none());
    }

    #[test]
    fn each_key_is_listed_once() {
        let mut names: Vec<_> = JAVA_KEYS.iter().map(|(name, _)| *name).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    /// FC-104: nothing reaches librdkafka that it does not know.
    #[cfg(feature = "kafka")]
    #[test]
    fn librdkafka_knows_every_name_that_a_key_becomes() {
        for (name, key) in JAVA_KEYS {
            let to = match key {
                Same => name,
                Renamed(to) | Converted(to, _) => to,
                Refused(_) | Dropped(_) => continue,
            };
            assert!(crate::transport::kafka::is_known(to), "{name} -> {to}");
        }
    }
}
