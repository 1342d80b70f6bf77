//! What is never printed.

use kafka_chain::properties::{Problem, Properties, is_secret_key, redacted};

use super::{mistakes, parse};

/// FC-111
#[test]
fn keys_of_secrets_are_known() {
    for key in [
        "sasl.password",
        "ssl.key.password",
        "SSL_KEYSTORE_PASSWORD",
        "ssl.key.pem",
        "ssl.keystore.key",
        "sasl.jaas.config",
        "listener.name.a.plain.sasl.jaas.config",
        "basic.auth.user.info",
        "my.client.secret",
        "access_token",
        "api-key",
        "apiKey",
        "aes.gcm.deserializer.key",
        "value.deserializer.aes-gcm.key",
        "aes.gcm.deserializer.key.hex",
        "aes.gcm.deserializer.key.base64",
        "aes.gcm.deserializer.keys",
        "aes.gcm.deserializer.key.2024.hex",
    ] {
        assert!(is_secret_key(key), "{key}");
    }
    for key in [
        "aes.gcm.deserializer.key.file",
        "value.deserializer.aes-gcm.key.id",
        "key.deserializer",
        "key.deserializer.retry.backoff",
        "ssl.key.location",
        "ssl.keystore.location",
        "bootstrap.servers",
        "group.id",
        "sasl.username",
        "redis.url",
        "",
    ] {
        assert!(!is_secret_key(key), "{key}");
    }
}

/// FC-111
#[test]
fn values_are_printed_without_secrets() {
    for (key, value, shown) in [
        ("group.id", "orders", "orders"),
        (
            "bootstrap.servers",
            "SASL_SSL://h1:9092,h2:9092",
            "SASL_SSL://h1:9092,h2:9092",
        ),
        (
            "aes-gcm.key.file",
            "/run/secrets/orders.key",
            "/run/secrets/orders.key",
        ),
        (
            "redis.url",
            "redis://:hunter2@h:6379/0",
            "redis://***@h:6379/0",
        ),
        ("redis.url", "redis://u:hun/ter#2@h", "redis://***@h"),
        ("redis.url", "redis://u:hun@ter2@h", "redis://***@h"),
        ("redis.url", "redis://:hunter2", "redis://***"),
        ("redis.url", "redis:/:hunter2@h", "***@h"),
        ("redis.url", ":hunter2@h", "***@h"),
        (
            "some.list",
            "http://u:hunter2@a,http://u:hunter2@b",
            "http://***@b",
        ),
        ("registry.url", "http://[::1]:8081/a", "http://[::1]:8081/a"),
        ("registry.url", "http://h/?access_token=hunter2", "***"),
        ("contact", "me@example.com", "me@example.com"),
        (
            "my.login",
            "org.x.Plain required password=\"hunter2\";",
            "***",
        ),
        ("some.cert", "-----BEGIN PRIVATE KEY-----\nhunter2", "***"),
        ("my.client.secret", "hunter2", "***"),
    ] {
        assert_eq!(redacted(key, value), shown, "{key}");
        let properties = Properties::from_iter([(key, value)]);
        for text in [
            format!("{properties:?}"),
            format!("{:#?}", properties.get(key)),
        ] {
            assert!(!text.contains("hunter2"), "{text}");
        }
    }
}

/// FC-111
#[test]
fn key_material_that_became_a_key_is_not_printed() {
    let text =
        "ssl.key.pem=-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcw\\u00\n";
    let valid = text.replace("\\u00", "");
    let found = mistakes(text.as_bytes()).join("\n") + &format!("{:?}", parse(&valid));
    assert!(!found.contains("MIIE"), "{found}");
    let problem =
        Problem::new("no part reads this key").key("MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcw");
    assert_eq!(format!("{problem:?}"), "***: no part reads this key");
}
