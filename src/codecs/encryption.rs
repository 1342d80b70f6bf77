//! AES in Galois/Counter Mode (NIST SP 800-38D), bytes to bytes.
//!
//! # Envelope
//! What is encrypted travels in an envelope. With `n` for the length of the key id and `m` for that
//! of the plaintext:
//!
//! | offset | length | content |
//! |---|---|---|
//! | 0 | 1 | version: `0x01` |
//! | 1 | 1 | `n`, 1 to 255 |
//! | 2 | `n` | key id, UTF-8 |
//! | 2 + `n` | 12 | nonce, random for each message |
//! | 14 + `n` | `m` | ciphertext |
//! | 14 + `n` + `m` | 16 | authentication tag |
//!
//! The key's length, 16 or 32 bytes, makes it AES-128 or AES-256. The associated data is the head of
//! the envelope (bytes 0 to 1 + `n`), followed by those a user set with
//! [`AesGcm::associated_data`]. By default nothing of the record is bound: a ciphertext is moved as
//! it is to dead-letter, retry and delay topics, and has to open when it comes back.
//!
//! An envelope is 30 + `n` bytes longer than its plaintext. Nonces of 96 random bits allow 2^32
//! messages for one key (section 8.3 there); rotate keys before.

pub use super::key_cache::CachedKeys;
pub use super::keys::{Key, KeyId, KeyProvider, StaticKeys};

use super::keys::{NONCE_LEN, TAG_LEN};
use crate::answer::Answer;
use crate::component::Component;
use crate::config::{KeySpec, Node, TypeSpec};
use crate::deserializer::{Deserializer, Input};
use crate::error::{Error, Result};
use crate::payload::Payload;
use crate::serializer::{Encoded, Serializer, Target};
use crate::stage::Stage;
use crate::status::{ErrorKind, Status};
use crate::tree::Tree;
use bytes::Bytes;
use rand::Rng;
use std::borrow::Cow;
use std::fmt;

/// The first byte of an envelope.
const VERSION: u8 = 1;

/// The longest id of a key that an error shows.
const MAX_SHOWN_ID: usize = 64;

/// Decrypts on the way in, encrypts on the way out; see [`aes_gcm()`].
///
/// Null stays null in both directions, and no key is asked for. An empty plaintext makes an envelope
/// that is not empty; empty bytes are no envelope.
///
/// # Errors
/// The provider's own, with the status it gave them. Else permanent ones of kind
/// [`Decrypt`](ErrorKind::Decrypt): the bytes are no envelope or one that is cut short, the key is
/// unknown, or the tag does not match. A message opens as a whole or not at all.
pub struct AesGcm<P> {
    provider: P,
    associated: Bytes,
}

/// A stage named `aes-gcm` that decrypts or encrypts with the keys of `provider`.
pub fn aes_gcm<P: KeyProvider>(provider: P) -> Stage<AesGcm<P>> {
    AesGcm::new(provider).stage()
}

impl<P> AesGcm<P> {
    /// The codec itself, neither named nor contained as [`aes_gcm()`] is.
    pub fn new(provider: P) -> Self {
        AesGcm {
            provider,
            associated: Bytes::new(),
        }
    }

    /// The same codec, binding each message to `data` too: it opens only where the same data is set,
    /// such as the name of the application or `value`.
    ///
    /// Data that names a topic keeps a message from opening in any other.
    #[must_use]
    pub fn associated_data(self, data: impl Into<Bytes>) -> Self {
        AesGcm {
            associated: data.into(),
            ..self
        }
    }

    /// The stage named `aes-gcm` of this codec.
    pub fn stage(self) -> Stage<Self> {
        Stage::new("aes-gcm", self)
    }

    /// All that is authenticated and not encrypted. The head tells its own length, so what follows
    /// it cannot be mistaken for a part of it.
    fn associated<'a>(&self, head: &'a [u8]) -> Cow<'a, [u8]> {
        if self.associated.is_empty() {
            Cow::Borrowed(head)
        } else {
            Cow::Owned([head, &self.associated].concat())
        }
    }

    fn open(&self, envelope: &Envelope<'_>, key: Option<Key>) -> Result<Bytes> {
        let Some(key) = key else {
            return Err(unknown_key(envelope.key_id()?));
        };
        let mut text = envelope.ciphertext.to_vec();
        let associated = self.associated(envelope.head);
        if !key.open(envelope.nonce, &associated, &mut text, envelope.tag) {
            return Err(Error::decrypt(
                "the authentication tag does not match: wrong key or altered bytes",
            ));
        }
        Ok(text.into())
    }

    fn seal(&self, (id, key): &(KeyId, Key), text: &[u8]) -> Result<Bytes> {
        let mut nonce = [0; NONCE_LEN];
        // A ChaCha generator seeded by the operating system and reseeded as it runs. Two halves of a
        // forked process would go on with the same numbers: a process must not fork to encrypt.
        rand::rng().fill_bytes(&mut nonce);
        self.seal_with(nonce, id.as_str(), key, text)
    }

    fn seal_with(&self, nonce: [u8; NONCE_LEN], id: &str, key: &Key, text: &[u8]) -> Result<Bytes> {
        let too_long = || {
            let what = "the key id or the plaintext is too long to encrypt";
            Error::new(ErrorKind::Other, Status::Permanent, what)
        };
        let id_len = u8::try_from(id.len()).map_err(|_| too_long())?;
        let head_len = 2 + id.len();
        let body = head_len + NONCE_LEN;
        let mut envelope = Vec::with_capacity(body + text.len() + TAG_LEN);
        envelope.extend_from_slice(&[VERSION, id_len]);
        envelope.extend_from_slice(id.as_bytes());
        envelope.extend_from_slice(&nonce);
        envelope.extend_from_slice(text);
        let tag = envelope
            .split_at_mut_checked(head_len)
            .and_then(|(head, rest)| {
                let text = rest.get_mut(NONCE_LEN..)?;
                key.seal(&nonce, &self.associated(head), text)
            })
            .ok_or_else(too_long)?;
        envelope.extend_from_slice(&tag);
        Ok(envelope.into())
    }
}

impl<P> fmt::Debug for AesGcm<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AesGcm")
    }
}

#[deny(clippy::missing_trait_methods)]
impl<P: KeyProvider> Component for AesGcm<P> {
    fn close(&self) -> Answer<'_, ()> {
        self.provider.close()
    }

    fn describe(&self) -> Tree {
        Tree::leaf("aes-gcm")
    }
}

impl<P: KeyProvider> Deserializer for AesGcm<P> {
    type Output = Option<Bytes>;

    fn deserialize<'a>(&'a self, input: Input<'a>) -> Answer<'a, Option<Bytes>> {
        let Some(bytes) = input.payload.as_bytes() else {
            return Answer::ok(None);
        };
        let parsed = Envelope::parse(bytes).and_then(|it| it.key_id().map(|id| (it, id)));
        let (envelope, key_id) = match parsed {
            Ok(parsed) => parsed,
            Err(error) => return Answer::err(error),
        };
        match self.provider.decryption_key(key_id) {
            Answer::Ready(key) => {
                Answer::Ready(key.and_then(|key| self.open(&envelope, key)).map(Some))
            }
            Answer::Pending(key) => {
                // The envelope borrows from the payload that moves into the future.
                let payload = input.payload;
                Answer::pending(async move {
                    let key = key.await?;
                    let envelope = Envelope::parse(payload.as_bytes().unwrap_or_default())?;
                    self.open(&envelope, key).map(Some)
                })
            }
        }
    }
}

impl<P: KeyProvider> Serializer for AesGcm<P> {
    type Input = [u8];

    fn serialize<'a>(&'a self, value: Payload<'a>, _: &'a Target<'a>) -> Answer<'a, Encoded> {
        if value.is_null() {
            return Answer::ok(Encoded::default());
        }
        self.provider.encryption_key().map_result(move |key| {
            let sealed = self.seal(&key?, value.as_bytes().unwrap_or_default())?;
            Ok(Encoded::from(sealed))
        })
    }
}

#[cold]
fn unknown_key(id: &str) -> Error {
    // Bytes that are no envelope may look like one, and then anything stands where the id does.
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-:/".contains(&byte);
    Error::decrypt(if id.len() <= MAX_SHOWN_ID && id.bytes().all(plain) {
        format!("key `{id}` is unknown")
    } else {
        format!("a key with an id of {} bytes is unknown", id.len())
    })
}

/// An envelope taken apart; nothing in it is verified yet.
struct Envelope<'a> {
    head: &'a [u8],
    nonce: &'a [u8; NONCE_LEN],
    ciphertext: &'a [u8],
    tag: &'a [u8; TAG_LEN],
}

impl<'a> Envelope<'a> {
    fn parse(bytes: &'a [u8]) -> Result<Self> {
        match bytes.first() {
            Some(&VERSION) => {}
            Some(_) => return Err(Error::decrypt("not an envelope of a version that is known")),
            None => return Err(Error::decrypt("empty bytes are not an envelope")),
        }
        Self::take(bytes).ok_or_else(|| {
            let len = bytes.len();
            Error::decrypt(format!("an envelope of {len} bytes is cut short"))
        })
    }

    fn take(bytes: &'a [u8]) -> Option<Self> {
        let id_len = usize::from(*bytes.get(1)?);
        let (head, rest) = bytes.split_at_checked(2 + id_len)?;
        let (nonce, rest) = rest.split_first_chunk()?;
        let (ciphertext, tag) = rest.split_last_chunk()?;
        Some(Envelope {
            head,
            nonce,
            ciphertext,
            tag,
        })
    }

    fn key_id(&self) -> Result<&'a str> {
        let id = self
            .head
            .get(2..)
            .and_then(|id| std::str::from_utf8(id).ok());
        id.filter(|id| !id.is_empty())
            .ok_or_else(|| Error::decrypt("the key id is empty or not UTF-8"))
    }
}

const KEYS: &[KeySpec] = &[
    KeySpec::new(
        "key.file",
        "path",
        "The file of keys: one key alone (raw, hex or base64), or a line `id = key` each.",
    ),
    KeySpec::new(
        "key",
        "secret",
        "One key, hex or base64, instead of a file; its id is `default`.",
    ),
    KeySpec::new(
        "associated.data",
        "text",
        "Binds each message to this text too.",
    ),
];

/// The type as properties name it, with keys from a file or from a placeholder.
pub(crate) fn spec() -> TypeSpec {
    TypeSpec::new("aes-gcm")
        .doc("Decrypts or encrypts with AES-GCM: bytes to bytes.")
        .keys(KEYS)
        .reads(|node| {
            let leaf = configured(node)?;
            Some(node.built(leaf))
        })
        .writes(|node| {
            let leaf = configured(node)?;
            Some(node.built_bytes_writer(leaf))
        })
}

fn configured(node: &mut Node<'_, '_>) -> Option<AesGcm<StaticKeys>> {
    let (file, key) = (node.text("key.file"), node.text("key"));
    let data = node.text("associated.data").unwrap_or_default();
    let (name, keys) = match (file, key) {
        (Some(file), None) => ("key.file", StaticKeys::from_file(file)),
        (None, Some(key)) => ("key", StaticKeys::parse("the key", key.as_bytes())),
        (Some(_), Some(_)) => {
            node.problem("key", "there is a key.file already: give one of the two");
            return None;
        }
        (None, None) => {
            node.problem(
                "key.file",
                "`aes-gcm` needs its keys: give key.file, or key",
            );
            return None;
        }
    };
    match keys {
        Ok(keys) => Some(AesGcm::new(keys).associated_data(data)),
        Err(_) if name == "key" => {
            node.problem(
                name,
                "the key must be 16 or 32 bytes in hexadecimal digits or base64",
            );
            None
        }
        Err(error) => {
            node.problem(name, error.message().to_owned());
            None
        }
    }
}
