//! The format of a key file. No error of it shows what is written there.

use super::keys::{Key, StaticKeys};
use crate::error::{Error, Result};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD_PAD_INDIFFERENT, URL_SAFE_PAD_INDIFFERENT};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use zeroize::Zeroizing;

/// How large a key file may be, in bytes.
const MAX_FILE: usize = 64 * 1024;

/// The id of a key that stands alone.
const DEFAULT_ID: &str = "default";

/// Not the id of a key, but which key encrypts.
const ACTIVE: &str = "active";

pub(super) fn load(path: &Path) -> Result<StaticKeys> {
    let origin = path.display().to_string();
    // Never grows, so that no copy is left behind.
    let mut content = Zeroizing::new(Vec::with_capacity(MAX_FILE + 1));
    File::open(path)
        .and_then(|file| file.take(MAX_FILE as u64 + 1).read_to_end(&mut content))
        .map_err(|e| Error::config(format!("key file `{origin}` cannot be read: {e}")))?;
    parse(&origin, &content)
}

pub(super) fn parse(origin: &str, content: &[u8]) -> Result<StaticKeys> {
    read(content).map_err(|fault| {
        Error::config(match fault.line {
            0 => format!("key file `{origin}`: {}", fault.what),
            line => format!("key file `{origin}`, line {line}: {}", fault.what),
        })
    })
}

/// What is wrong, and in which line; 0 is the whole file.
struct Fault {
    line: usize,
    what: String,
}

fn fault(line: usize, what: impl Into<String>) -> Fault {
    Fault {
        line,
        what: what.into(),
    }
}

fn read(content: &[u8]) -> Result<StaticKeys, Fault> {
    if content.len() > MAX_FILE {
        return Err(fault(0, "larger than 64 KiB"));
    }
    let Some(text) = text(content) else {
        return add(None, DEFAULT_ID, content).map_err(|what| fault(0, what));
    };
    let lines: Vec<(usize, &str)> = text
        .lines()
        .map(str::trim)
        .enumerate()
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .map(|(index, line)| (index + 1, line))
        .collect();
    if let [(number, line)] = lines[..]
        && let Some(bytes) = decode(line)
    {
        return add(None, DEFAULT_ID, &bytes).map_err(|what| fault(number, what));
    }
    let (mut keys, mut active) = (None, None);
    for (number, line) in lines {
        let Some((id, key)) = line.split_once('=') else {
            return Err(fault(number, "neither `id = key` nor a key"));
        };
        let (id, key) = (id.trim_end(), key.trim_start());
        if id == ACTIVE {
            if active.replace((number, key)).is_some() {
                return Err(fault(number, "a second active key"));
            }
            continue;
        }
        let bytes = decode(key)
            .ok_or_else(|| fault(number, "the key is neither hexadecimal nor base64"))?;
        keys = Some(add(keys, id, &bytes).map_err(|what| fault(number, what))?);
    }
    match (keys, active) {
        (None, _) => Err(fault(0, "holds no key")),
        (Some(keys), None) => Ok(keys),
        (Some(keys), Some((number, id))) => keys
            .active(id)
            .map_err(|_| fault(number, "no key of this file has the id of the active one")),
    }
}

/// `content` as text, or `None` when it can only be raw bytes.
fn text(content: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(content).ok()?;
    let plain = |c: char| !c.is_control() || matches!(c, '\t' | '\r' | '\n');
    text.chars().all(plain).then_some(text)
}

fn add(keys: Option<StaticKeys>, id: &str, bytes: &[u8]) -> Result<StaticKeys, String> {
    // What was meant as a key may stand where an id belongs, so an id is not shown either.
    Key::new(bytes).map_err(|error| error.message().to_owned())?;
    match keys {
        None => StaticKeys::single(id, bytes),
        Some(keys) => keys.with(id, bytes),
    }
    .map_err(|_| "the id is empty, longer than 255 bytes or already taken".to_owned())
}

/// Hexadecimal or base64. A text that is both is what gives a key of a length that there is.
fn decode(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    let fits = |bytes: &Zeroizing<Vec<u8>>| matches!(bytes.len(), 16 | 32);
    match (hexadecimal(text), base64(text)) {
        (Some(bytes), other) if fits(&bytes) || !other.as_ref().is_some_and(fits) => Some(bytes),
        (_, other) => other,
    }
}

fn hexadecimal(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    let digit = |byte: u8| {
        char::from(byte)
            .to_digit(16)
            .and_then(|d| u8::try_from(d).ok())
    };
    let mut bytes = Zeroizing::new(Vec::with_capacity(text.len() / 2));
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    for [high, low] in pairs {
        bytes.push(digit(*high)? << 4 | digit(*low)?);
    }
    (rest.is_empty() && !bytes.is_empty()).then_some(bytes)
}

fn base64(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    [STANDARD_PAD_INDIFFERENT, URL_SAFE_PAD_INDIFFERENT]
        .iter()
        .find_map(|engine| engine.decode(text).ok())
        .map(Zeroizing::new)
        .filter(|bytes| !bytes.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codecs::keys::KeyProvider;

    const HEX: &str = "000102030405060708090a0b0c0d0e0f";

    fn key(content: impl AsRef<[u8]>) -> (String, Key) {
        let keys = StaticKeys::parse("orders.key", content.as_ref()).unwrap();
        let (id, key) = keys.encryption_key().now().unwrap().unwrap();
        (id.to_string(), key)
    }

    fn active(content: impl AsRef<[u8]>) -> String {
        key(content).0
    }

    fn message(content: impl AsRef<[u8]>) -> String {
        let error = StaticKeys::parse("orders.key", content.as_ref()).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::Config);
        error.message().to_owned()
    }

    /// Whether both contents give the same key: what one encrypts the other decrypts.
    fn same(one: impl AsRef<[u8]>, other: impl AsRef<[u8]>) -> bool {
        let mut text = *b"text";
        let tag = key(one).1.seal(&[0; 12], b"", &mut text).unwrap();
        key(other).1.open(&[0; 12], b"", &mut text, &tag)
    }

    #[test]
    fn a_key_alone_is_read_raw_and_as_hex_and_as_base64() {
        let raw: Vec<u8> = (0..16).collect();
        assert_eq!(active(&raw), "default");
        for text in [
            HEX.to_owned(),
            format!("# ours\n\n{}\r\n", HEX.to_uppercase()),
            "AAECAwQFBgcICQoLDA0ODw==\n".to_owned(),
            "AAECAwQFBgcICQoLDA0ODw".to_owned(),
            format!("default = {HEX}"),
        ] {
            assert_eq!(active(&text), "default");
            assert!(same(&raw, &text), "{text}");
        }
        assert!(same(
            [0xff; 32],
            "__________________________________________8="
        ));
        assert!(!same([0xff; 32], [0xfe; 32]));
    }

    #[test]
    fn the_first_key_encrypts_unless_another_is_active() {
        let lines = format!("# rotation\nk1 = {HEX}\n\nk2={HEX}{HEX}\n");
        assert_eq!(active(&lines), "k1");
        assert_eq!(active(format!("active = k2\n{lines}")), "k2");
    }

    /// FC-111: an error names the file and the line, never what is written there.
    #[test]
    fn errors_name_file_and_line_and_show_nothing_of_the_content() {
        for (content, expected) in [
            (String::new(), "key file `orders.key`: holds no key"),
            (
                format!("k1={HEX}\nhunter2"),
                "key file `orders.key`, line 2: neither `id = key` nor a key",
            ),
            (
                "k1 = hunter2!".to_owned(),
                "key file `orders.key`, line 1: the key is neither hexadecimal nor base64",
            ),
            (
                format!("{HEX}ff"),
                "key file `orders.key`, line 1: an AES key has 16 or 32 bytes, this one has 17",
            ),
            (
                format!("hunter2={HEX}\nhunter2={HEX}"),
                "key file `orders.key`, line 2: the id is empty, longer than 255 bytes or already taken",
            ),
            (
                format!("={HEX}"),
                "key file `orders.key`, line 1: the id is empty, longer than 255 bytes or already taken",
            ),
            (
                format!("active=hunter2\nk1={HEX}"),
                "key file `orders.key`, line 1: no key of this file has the id of the active one",
            ),
            (
                format!("active=k1\nk1={HEX}\nactive=k1"),
                "key file `orders.key`, line 3: a second active key",
            ),
            (
                "hunter2\0".to_owned(),
                "key file `orders.key`: an AES key has 16 or 32 bytes, this one has 8",
            ),
            (
                "#".repeat(MAX_FILE + 1),
                "key file `orders.key`: larger than 64 KiB",
            ),
        ] {
            assert_eq!(message(&content), expected);
        }
        let error = StaticKeys::from_file("no/such/file").unwrap_err();
        assert!(
            error
                .message()
                .starts_with("key file `no/such/file` cannot be read: ")
        );
    }
}
