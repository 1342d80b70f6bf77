//! What may be printed of a configuration.

use std::borrow::Cow;

/// What is printed in place of a secret.
pub const REDACTED: &str = "***";

/// A key with one of these in it has a secret value.
const SECRET_WORDS: [&str; 6] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "credential",
];

/// A key with one of these at its end has a secret value. `key` is a part of its own or the end of
/// one (`aes.gcm.deserializer.key`, `ssl.keystore.key`, `apiKey`); files and ids of keys end otherwise.
const SECRET_ENDINGS: [&str; 7] = [
    "key",
    ".keys",
    ".pem",
    "jaas.config",
    "oauthbearer.config",
    "user.info",
    "userinfo",
];

/// Text with one of these in it is secret whatever its key.
const SECRET_TEXTS: [&str; 7] = [
    "password",
    "passwd",
    "passphrase",
    "secret=",
    "token=",
    "key=",
    "private key-----",
];

/// A key with one of these in it has addresses as its value.
const ADDRESS_WORDS: [&str; 7] = [
    "url",
    "uri",
    "address",
    "server",
    "endpoint",
    "connection",
    "redis",
];

/// From this length on, in bytes, a key without dot and underscore is taken for a line of key
/// material that lost its continuation backslash.
const KEY_MATERIAL_BYTES: usize = 32;

/// Whether the value of this key must never be printed: passwords, secrets, tokens, PEM, JAAS and
/// user-info entries, and key material (`*.key`, `*.key.hex`, `*.key.base64`, but not `*.key.file`,
/// `key.deserializer` or ids of keys). Case does not matter; `-` and `_` count as dots.
pub fn is_secret_key(key: &str) -> bool {
    let key = key.to_lowercase().replace(['-', '_'], ".");
    let has_part = |wanted: &[&str]| key.split('.').any(|part| wanted.contains(&part));
    SECRET_WORDS.iter().any(|word| key.contains(word))
        || SECRET_ENDINGS.iter().any(|ending| key.ends_with(ending))
        || (has_part(&["key", "keys"]) && has_part(&["hex", "base64", "pem"]))
}

/// What may be printed of a value: [`REDACTED`] in place of a secret, and in place of the user
/// information of an address (`redis://***@host`). Where it is not clear how far that reaches, more
/// is hidden rather than less.
pub fn redacted<'a>(key: &str, value: &'a str) -> Cow<'a, str> {
    let lower = value.to_lowercase();
    if is_secret_key(key) || SECRET_TEXTS.iter().any(|text| lower.contains(text)) {
        return Cow::Borrowed(REDACTED);
    }
    let scheme = value.find("://").map(|end| value.split_at(end + 3).0);
    // A password may hold any character, unescaped by mistake: only what follows the last @ is
    // surely not part of it.
    if let Some((user_side, host)) = value.rsplit_once('@') {
        return match scheme {
            Some(scheme) if user_side.starts_with(scheme) && is_scheme(scheme) => {
                Cow::Owned(format!("{scheme}{REDACTED}@{host}"))
            }
            None if !is_address_key(key) => Cow::Borrowed(value),
            _ => Cow::Owned(format!("{REDACTED}@{host}")),
        };
    }
    // `redis://:password` without a host, or `redis://user:password`.
    if let Some(rest) = scheme.and_then(|scheme| value.strip_prefix(scheme)) {
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let port = authority.rsplit_once(':').map_or("", |(_, port)| port);
        if !port.ends_with(']') && !port.bytes().all(|b| b.is_ascii_digit()) {
            return Cow::Owned(format!("{}{REDACTED}", scheme.unwrap_or_default()));
        }
    }
    Cow::Borrowed(value)
}

/// The key as it may be printed: a key that can only be key material is not.
pub(super) fn shown_key(key: &str) -> &str {
    let material = key.len() >= KEY_MATERIAL_BYTES && !key.contains(['.', '_']);
    if material || key.contains("-----") {
        REDACTED
    } else {
        key
    }
}

fn is_scheme(scheme: &str) -> bool {
    scheme
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b"+-._:/".contains(&b))
}

fn is_address_key(key: &str) -> bool {
    let key = key.to_lowercase();
    ADDRESS_WORDS.iter().any(|word| key.contains(word))
}
