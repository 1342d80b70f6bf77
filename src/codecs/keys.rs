//! Keys, and who provides them.

use super::key_file;
use crate::answer::Answer;
use crate::error::{Error, Result};
use aes_gcm::aead::{AeadInOut, KeyInit};
use aes_gcm::{Aes128Gcm, Aes256Gcm, Nonce, Tag};
use std::borrow::Borrow;
use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// The length of a nonce in bytes: the 96 bits that NIST SP 800-38D, section 5.2.1.1, recommends.
pub(super) const NONCE_LEN: usize = 12;

/// The length of an authentication tag in bytes: the full 128 bits.
pub(super) const TAG_LEN: usize = 16;

/// An AES key, ready for use.
///
/// Preparing a key costs more than a small message does, so keep it and clone it: a clone counts a
/// reference. The bytes it was made from are not kept. `Debug` prints `Key(***)`.
#[derive(Clone)]
pub struct Key(Arc<Cipher>);

enum Cipher {
    Aes128(Aes128Gcm),
    Aes256(Aes256Gcm),
}

impl Key {
    /// A key of 16 bytes (AES-128) or 32 bytes (AES-256). The caller wipes `bytes`.
    ///
    /// # Errors
    /// Any other length is a [`Config`](crate::ErrorKind::Config) error, which names the length.
    pub fn new(bytes: &[u8]) -> Result<Self> {
        let cipher = match bytes.len() {
            16 => Aes128Gcm::new_from_slice(bytes).map(Cipher::Aes128),
            32 => Aes256Gcm::new_from_slice(bytes).map(Cipher::Aes256),
            _ => return Err(wrong_length(bytes.len())),
        };
        match cipher {
            Ok(cipher) => Ok(Key(Arc::new(cipher))),
            Err(_) => Err(wrong_length(bytes.len())),
        }
    }

    /// Encrypts `text` in place; `None` when it is longer than GCM allows (64 GiB).
    pub(super) fn seal(
        &self,
        nonce: &[u8; NONCE_LEN],
        associated: &[u8],
        text: &mut [u8],
    ) -> Option<[u8; TAG_LEN]> {
        let nonce = Nonce::from(*nonce);
        match &*self.0 {
            Cipher::Aes128(c) => c.encrypt_inout_detached(&nonce, associated, text.into()),
            Cipher::Aes256(c) => c.encrypt_inout_detached(&nonce, associated, text.into()),
        }
        .ok()
        .map(Into::into)
    }

    /// Decrypts `text` in place if the tag matches, else leaves it as it is and says `false`.
    pub(super) fn open(
        &self,
        nonce: &[u8; NONCE_LEN],
        associated: &[u8],
        text: &mut [u8],
        tag: &[u8; TAG_LEN],
    ) -> bool {
        let (nonce, tag) = (Nonce::from(*nonce), Tag::from(*tag));
        match &*self.0 {
            Cipher::Aes128(c) => c.decrypt_inout_detached(&nonce, associated, text.into(), &tag),
            Cipher::Aes256(c) => c.decrypt_inout_detached(&nonce, associated, text.into(), &tag),
        }
        .is_ok()
    }
}

#[cold]
fn wrong_length(len: usize) -> Error {
    Error::config(format!("an AES key has 16 or 32 bytes, this one has {len}"))
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(***)")
    }
}

/// The name of a key, 1 to 255 bytes of UTF-8. It travels in the clear with each message.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyId(Arc<str>);

impl KeyId {
    /// Checks the length of `id`.
    ///
    /// # Errors
    /// [`Config`](crate::ErrorKind::Config) when it is empty or longer than 255 bytes.
    pub fn new(id: impl AsRef<str>) -> Result<Self> {
        match id.as_ref() {
            id if (1..=usize::from(u8::MAX)).contains(&id.len()) => Ok(KeyId(id.into())),
            id => Err(Error::config(format!(
                "a key id has 1 to 255 bytes, this one has {}",
                id.len()
            ))),
        }
    }

    /// The id.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for KeyId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Printable(&self.0).fmt(f)
    }
}

/// Prints an id that may come from outside: what could break a line, a terminal or the reading
/// direction is shown as U+FFFD.
pub(super) struct Printable<'a>(pub(super) &'a str);

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| {
            let plain = c.is_ascii_graphic() || c == ' ' || c.is_alphanumeric();
            fmt::Write::write_char(
                f,
                if plain {
                    c
                } else {
                    char::REPLACEMENT_CHARACTER
                },
            )
        })
    }
}

/// Who knows the keys: a file, or a key service of your own.
///
/// Keys are found by id, so that what was encrypted before a rotation can still be read. A provider
/// is asked for every message: put a slow one into [`CachedKeys`](super::encryption::CachedKeys).
///
/// An error reaches the chain with the status the provider gave it; a key service that does not
/// answer is [`Temporary`](crate::Status::Temporary). Errors hold no key bytes.
pub trait KeyProvider: Send + Sync {
    /// The key with this id, or `None` when there is none, which fails the message permanently.
    ///
    /// The id comes from the message, so from outside: at most 255 bytes, and nothing else is sure.
    /// An answer that comes later takes a copy of it along.
    fn decryption_key(&self, id: &str) -> Answer<'_, Option<Key>>;

    /// The key to encrypt the next message with, and its id.
    ///
    /// Nonces are random, so one key serves at most 2^32 messages (NIST SP 800-38D, section 8.3).
    fn encryption_key(&self) -> Answer<'_, (KeyId, Key)>;

    /// Lets go of what the provider holds, as [`Component::close`](crate::Component::close).
    fn close(&self) -> Answer<'_, ()> {
        Answer::ok(())
    }
}

macro_rules! forward {
    ($($pointer:ty),*) => {$(
        #[deny(clippy::missing_trait_methods)]
        impl<P: KeyProvider + ?Sized> KeyProvider for $pointer {
            #[inline]
            fn decryption_key(&self, id: &str) -> Answer<'_, Option<Key>> {
                (**self).decryption_key(id)
            }

            #[inline]
            fn encryption_key(&self) -> Answer<'_, (KeyId, Key)> {
                (**self).encryption_key()
            }

            fn close(&self) -> Answer<'_, ()> {
                (**self).close()
            }
        }
    )*};
}

forward!(Box<P>, Arc<P>, &P);

/// Keys that are at hand. They answer at once; one of them, the active one, encrypts.
#[derive(Clone, Debug)]
pub struct StaticKeys {
    keys: HashMap<KeyId, Key>,
    active: (KeyId, Key),
}

impl StaticKeys {
    /// One key, which is active.
    ///
    /// # Errors
    /// Those of [`KeyId::new`] and [`Key::new`].
    pub fn single(id: impl AsRef<str>, bytes: impl AsRef<[u8]>) -> Result<Self> {
        let active = (KeyId::new(id)?, Key::new(bytes.as_ref())?);
        Ok(StaticKeys {
            keys: HashMap::from([active.clone()]),
            active,
        })
    }

    /// The same keys and one more, which only decrypts until [`StaticKeys::active`] names it.
    ///
    /// # Errors
    /// Those of [`KeyId::new`] and [`Key::new`]; an id that is taken.
    pub fn with(mut self, id: impl AsRef<str>, bytes: impl AsRef<[u8]>) -> Result<Self> {
        let (id, key) = (KeyId::new(id)?, Key::new(bytes.as_ref())?);
        if self.keys.contains_key(&id) {
            return Err(Error::config(format!("there are two keys `{id}`")));
        }
        self.keys.insert(id, key);
        Ok(self)
    }

    /// The same keys, encrypting with the one with this id.
    ///
    /// # Errors
    /// [`Config`](crate::ErrorKind::Config) when there is none with this id.
    pub fn active(mut self, id: impl AsRef<str>) -> Result<Self> {
        let id = id.as_ref();
        match self.keys.get_key_value(id) {
            Some((id, key)) => self.active = (id.clone(), key.clone()),
            None => {
                let id = Printable(id);
                return Err(Error::config(format!("the active key `{id}` is unknown")));
            }
        }
        Ok(self)
    }

    /// The keys in a file, which has one of three forms:
    ///
    /// - Lines `id = key`, where the key is in hexadecimal digits or in base64 (standard or URL-safe
    ///   alphabet, padded or not). The first key is active, unless a line `active = id` names
    ///   another. Lines that are blank or start with `#` are skipped.
    /// - One key alone, in hexadecimal digits or base64: its id is `default`.
    /// - 16 or 32 raw bytes that are not text: one key with the id `default`.
    ///
    /// The file is read once and may have 64 KiB. What was read is wiped from memory.
    ///
    /// # Errors
    /// [`Config`](crate::ErrorKind::Config), naming the file and the line, and nothing that is
    /// written there.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self> {
        key_file::load(path.as_ref())
    }

    /// The keys in the content of such a file, which errors call `origin`.
    ///
    /// # Errors
    /// Those of [`StaticKeys::from_file`].
    pub fn parse(origin: &str, content: &[u8]) -> Result<Self> {
        key_file::parse(origin, content)
    }
}

#[deny(clippy::missing_trait_methods)]
impl KeyProvider for StaticKeys {
    #[inline]
    fn decryption_key(&self, id: &str) -> Answer<'_, Option<Key>> {
        let (active, key) = &self.active;
        Answer::ok(if active.as_str() == id {
            Some(key.clone())
        } else {
            self.keys.get(id).cloned()
        })
    }

    #[inline]
    fn encryption_key(&self) -> Answer<'_, (KeyId, Key)> {
        Answer::ok(self.active.clone())
    }

    fn close(&self) -> Answer<'_, ()> {
        Answer::ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        (0..text.len() / 2)
            .map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap())
            .collect()
    }

    const PLAINTEXT: &str = "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72\
        1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39";
    const ASSOCIATED: &str = "feedfacedeadbeeffeedfacedeadbeefabaddad2";
    const NONCE: &str = "cafebabefacedbaddecaf888";

    /// Test cases 4 (AES-128) and 16 (AES-256) of "The Galois/Counter Mode of Operation", which
    /// NIST SP 800-38D refers to.
    #[test]
    fn the_published_test_cases_give_their_ciphertext_and_tag() {
        let key = "feffe9928665731c6d6a8f9467308308";
        for (key, ciphertext, tag) in [
            (
                hex(key),
                "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e\
                 21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091",
                "5bc94fbc3221a5db94fae95ae7121a47",
            ),
            (
                hex(&key.repeat(2)),
                "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa\
                 8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662",
                "76fc6ece0f4e1768cddf8853bb2d551b",
            ),
        ] {
            let key = Key::new(&key).unwrap();
            let nonce = hex(NONCE).try_into().unwrap();
            let mut text = hex(PLAINTEXT);
            let sealed = key.seal(&nonce, &hex(ASSOCIATED), &mut text).unwrap();
            assert_eq!(text, hex(ciphertext));
            assert_eq!(sealed.as_slice(), hex(tag));
            assert!(key.open(&nonce, &hex(ASSOCIATED), &mut text, &sealed));
            assert_eq!(text, hex(PLAINTEXT));
        }
    }

    #[test]
    fn a_tag_that_does_not_match_leaves_the_ciphertext_closed() {
        let key = Key::new(&[7; 32]).unwrap();
        let mut text = *b"hunter2";
        let tag = key.seal(&[0; NONCE_LEN], b"a", &mut text).unwrap();
        let sealed = text;
        assert!(!key.open(&[0; NONCE_LEN], b"b", &mut text, &tag));
        assert_eq!(text, sealed);
    }

    #[test]
    fn ids_are_printable_when_shown() {
        let id = KeyId::new("k1\n\u{1b}[31m\u{202e}\u{200b} clé`").unwrap();
        assert_eq!(
            id.to_string(),
            "k1\u{fffd}\u{fffd}[31m\u{fffd}\u{fffd} clé`"
        );
        assert_eq!(KeyId::new("x".repeat(255)).unwrap().as_str().len(), 255);
        assert!(KeyId::new("x".repeat(256)).is_err());
        assert!(KeyId::new("").is_err());
    }
}
