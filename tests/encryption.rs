//! The `aes-gcm` codec as a chain sees it.
#![cfg(feature = "encryption")]
use aes_gcm::Aes256Gcm;
use aes_gcm::aead::{Aead, KeyInit, Payload as Sealed};
use bytes::Bytes;
use kafka_chain::codecs::encryption::{
    AesGcm, CachedKeys, Key, KeyId, KeyProvider, StaticKeys, aes_gcm,
};
use kafka_chain::{
    Answer, Component, Deserializer, Error, ErrorKind, Input, Part, Payload, Record, Serializer,
    Status, Target,
};
use proptest::prelude::*;
use std::time::Duration;

const RAW: [u8; 32] = *b"hunter2-hunter2-hunter2-hunter2!";
const SECRET: &str = "hunter2";

fn keys() -> StaticKeys {
    StaticKeys::single("k1", RAW).unwrap()
}

fn encrypt(stage: &impl Serializer<Input = [u8]>, text: Option<&[u8]>) -> Option<Bytes> {
    let target = Target::new("orders", Part::Value);
    let answer = stage.serialize(Payload::from(text), &target).now();
    let encoded = answer.expect("keys at hand answer at once").unwrap();
    assert_eq!(encoded.headers.iter().count(), 0);
    encoded.payload
}

fn decrypt(
    stage: &impl Deserializer<Output = Option<Bytes>>,
    payload: Option<&[u8]>,
) -> Result<Option<Bytes>, Error> {
    let record = Record::of_value(payload);
    let context = record.context(Part::Value);
    let answer = stage.deserialize(Input::of(&context)).now();
    answer.expect("keys at hand answer at once")
}

fn assert_decrypt_error(error: &Error) {
    assert_eq!(
        (error.kind(), error.status()),
        (ErrorKind::Decrypt, Status::Permanent)
    );
    assert_eq!(error.stage_path(), "aes-gcm");
    assert!(!format!("{error} {error:#?}").contains(SECRET));
}

#[test]
fn the_envelope_is_laid_out_as_documented() {
    let sealed = encrypt(&aes_gcm(keys()), Some(b"plaintext")).unwrap();
    assert_eq!(sealed.len(), 30 + 2 + 9);
    assert_eq!(sealed[..4], *b"\x01\x02k1");
    let cipher = Aes256Gcm::new_from_slice(&RAW).unwrap();
    let nonce: [u8; 12] = sealed[4..16].try_into().unwrap();
    let opened = cipher.decrypt(
        &nonce.into(),
        Sealed {
            msg: &sealed[16..],
            aad: b"\x01\x02k1",
        },
    );
    assert_eq!(opened.unwrap(), b"plaintext");
}

/// An envelope made by another implementation (OpenSSL's) as documented.
#[test]
fn an_envelope_of_another_implementation_opens() {
    for (id, raw, envelope) in [
        (
            "k1",
            (0..16).collect::<Vec<u8>>(),
            "01026b31a0a1a2a3a4a5a6a7a8a9aaabdaea59d210fd5672fe47995686c091530be42c544f2dfb4190",
        ),
        (
            "orders-2025-é",
            (0..32).collect(),
            "010e6f72646572732d323032352dc3a9a0a1a2a3a4a5a6a7a8a9aaab\
             96741d442bbf67c71614338ca2a0377c5c96e0aad930dcd775",
        ),
    ] {
        let envelope: Vec<u8> = (0..envelope.len() / 2)
            .map(|i| u8::from_str_radix(&envelope[2 * i..2 * i + 2], 16).unwrap())
            .collect();
        let stage = aes_gcm(StaticKeys::single(id, raw).unwrap());
        assert_eq!(
            decrypt(&stage, Some(&envelope)).unwrap().unwrap(),
            "plaintext"
        );
    }
}

#[test]
fn every_message_has_a_nonce_of_its_own() {
    let stage = aes_gcm(keys());
    let nonces: std::collections::HashSet<_> = (0..1000)
        .map(|_| encrypt(&stage, Some(b"")).unwrap()[4..16].to_vec())
        .collect();
    assert_eq!(nonces.len(), 1000);
}

/// FC-012, FC-013: null stays null, is never decrypted and asks for no key; an empty plaintext
/// stays empty through an envelope that is not.
#[test]
fn null_and_empty_stay_what_they_are() {
    let stage = aes_gcm(NoKeys);
    assert_eq!(decrypt(&stage, None).unwrap(), None);
    assert_eq!(encrypt(&stage, None), None);

    let stage = aes_gcm(keys());
    let sealed = encrypt(&stage, Some(b"")).unwrap();
    assert_eq!(sealed.len(), 32);
    assert_eq!(decrypt(&stage, Some(&sealed)).unwrap(), Some(Bytes::new()));
    let empty = decrypt(&stage, Some(b"")).unwrap_err();
    assert_decrypt_error(&empty);
    assert_eq!(empty.message(), "empty bytes are not an envelope");
}

/// FC-011.
#[test]
fn an_envelope_cut_short_at_any_length_does_not_open() {
    let stage = aes_gcm(keys());
    let sealed = encrypt(&stage, Some(b"hunter2 and more than a block of it")).unwrap();
    for len in 0..sealed.len() {
        assert_decrypt_error(&decrypt(&stage, Some(&sealed[..len])).unwrap_err());
    }
    let longer = [&sealed[..], b"\0"].concat();
    assert_decrypt_error(&decrypt(&stage, Some(&longer)).unwrap_err());
    assert!(decrypt(&stage, Some(&sealed)).unwrap().is_some());
}

/// FC-011: no bit of the head, the nonce, the ciphertext or the tag can change unnoticed, not even
/// when the changed id names the same key.
#[test]
fn an_envelope_with_any_bit_flipped_does_not_open() {
    let stage = aes_gcm(AnyId(Key::new(&RAW).unwrap()));
    let sealed = encrypt(&stage, Some(b"hunter2 and more than a block of it")).unwrap();
    for bit in 0..sealed.len() * 8 {
        let mut altered = sealed.to_vec();
        altered[bit / 8] ^= 1 << (bit % 8);
        assert_decrypt_error(&decrypt(&stage, Some(&altered)).unwrap_err());
    }
    assert!(decrypt(&stage, Some(&sealed)).unwrap().is_some());
}

/// FC-011.
#[test]
fn a_wrong_key_or_wrong_associated_data_does_not_open() {
    let bound = |data: &'static [u8]| AesGcm::new(keys()).associated_data(data).stage();
    let sealed = encrypt(&bound(b"value"), Some(b"text")).unwrap();
    assert_eq!(
        decrypt(&bound(b"value"), Some(&sealed)).unwrap().unwrap(),
        "text"
    );
    for error in [
        decrypt(&bound(b"key"), Some(&sealed)),
        decrypt(&bound(b""), Some(&sealed)),
        decrypt(
            &aes_gcm(StaticKeys::single("k1", [1; 32]).unwrap()),
            Some(&sealed),
        ),
        decrypt(
            &aes_gcm(StaticKeys::single("k1", [1; 16]).unwrap()),
            Some(&sealed),
        ),
    ] {
        let error = error.unwrap_err();
        assert_decrypt_error(&error);
        assert_eq!(
            error.message(),
            "the authentication tag does not match: wrong key or altered bytes"
        );
    }
}

/// FC-009: the error names the unknown key, and only in characters that harm no log.
#[test]
fn an_unknown_key_is_named() {
    let sealed = encrypt(&aes_gcm(keys()), Some(b"text")).unwrap();
    let rotated = aes_gcm(StaticKeys::single("k2", RAW).unwrap());
    let error = decrypt(&rotated, Some(&sealed)).unwrap_err();
    assert_decrypt_error(&error);
    assert_eq!(error.message(), "key `k1` is unknown");

    let hostile = [b"\x01\x04\x1b[\n\0".as_slice(), &[0; 28]].concat();
    let error = decrypt(&rotated, Some(&hostile)).unwrap_err();
    assert_eq!(error.message(), "a key with an id of 4 bytes is unknown");

    let longest = [b"\x01\xff".as_slice(), &[b'x'; 255], &[0; 28]].concat();
    let error = decrypt(&rotated, Some(&longest)).unwrap_err();
    assert_eq!(error.message(), "a key with an id of 255 bytes is unknown");

    for id in [b"\x01\x00".as_slice(), b"\x01\x02\xff\xfe"] {
        let error = decrypt(&rotated, Some(&[id, &[0; 28]].concat())).unwrap_err();
        assert_decrypt_error(&error);
        assert_eq!(error.message(), "the key id is empty or not UTF-8");
    }
}

/// FC-009.
#[test]
fn keys_rotate() {
    let before = keys();
    let after = before
        .clone()
        .with("k2", [9; 16])
        .unwrap()
        .active("k2")
        .unwrap();
    let old = encrypt(&aes_gcm(before), Some(b"old")).unwrap();
    let stage = aes_gcm(after);
    let new = encrypt(&stage, Some(b"new")).unwrap();
    assert_eq!(new[2..4], *b"k2");
    assert_eq!(decrypt(&stage, Some(&old)).unwrap().unwrap(), "old");
    assert_eq!(decrypt(&stage, Some(&new)).unwrap().unwrap(), "new");
    assert!(keys().with("k1", [9; 16]).is_err());
    assert_eq!(
        keys().active("k9").unwrap_err().message(),
        "the active key `k9` is unknown"
    );
}

/// FC-111.
#[test]
fn nothing_prints_keys_or_plaintext() {
    let sealed = encrypt(&aes_gcm(keys()), Some(SECRET.as_bytes())).unwrap();
    let stage = AesGcm::new(CachedKeys::new(keys(), 1, Duration::MAX))
        .associated_data(SECRET)
        .stage();
    let mut texts = vec![
        format!("{:?} {:#?}", Key::new(&RAW).unwrap(), keys()),
        format!("{stage:?} {:#?} {}", stage.get_ref(), stage.describe()),
        format!("{:?}", CachedKeys::new(keys(), 1, Duration::MAX)),
        format!("{:#?}", decrypt(&stage, Some(&sealed)).unwrap_err()),
        format!(
            "{:#?}",
            decrypt(&stage, Some(SECRET.as_bytes())).unwrap_err()
        ),
        format!("{:#?}", StaticKeys::single("k1", &RAW[..31]).unwrap_err()),
        format!("{:#?}", StaticKeys::parse("f", &RAW).unwrap_err()),
    ];
    for len in (0..64).filter(|len| ![16, 32].contains(len)) {
        let error = Key::new(&RAW.repeat(2)[..len]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert_eq!(
            error.message(),
            format!("an AES key has 16 or 32 bytes, this one has {len}")
        );
        texts.push(format!("{error:#?}"));
    }
    let bytes = format!("{:?}", &RAW[..4]);
    for text in texts {
        assert!(!text.contains(SECRET), "{text}");
        assert!(!text.contains(bytes.trim_matches(['[', ']'])), "{text}");
    }
    assert_eq!(format!("{:?}", Key::new(&RAW).unwrap()), "Key(***)");
    assert_eq!(stage.describe().to_string(), "aes-gcm");
}

proptest! {
    #[test]
    fn what_is_encrypted_is_decrypted(
        text in prop::collection::vec(any::<u8>(), 0..200),
        id in "\\PC{1,60}",
        raw in prop_oneof![
            prop::collection::vec(any::<u8>(), 16),
            prop::collection::vec(any::<u8>(), 32),
        ],
        data in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        let stage = AesGcm::new(StaticKeys::single(&id, &raw).unwrap()).associated_data(data).stage();
        let sealed = encrypt(&stage, Some(&text)).unwrap();
        prop_assert_eq!(sealed.len(), 30 + id.len() + text.len());
        let opened = decrypt(&stage, Some(&sealed)).unwrap();
        prop_assert_eq!(opened.as_deref(), Some(&text[..]));
    }

    #[test]
    fn arbitrary_bytes_never_open(
        mut bytes in prop::collection::vec(any::<u8>(), 0..300),
        envelope in any::<bool>(),
    ) {
        if envelope && bytes.len() > 4 {
            bytes[..4].copy_from_slice(b"\x01\x02k1");
        }
        assert_decrypt_error(&decrypt(&aes_gcm(keys()), Some(&bytes)).unwrap_err());
    }

    #[test]
    fn an_arbitrary_key_file_is_read_or_refused(
        content in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..100),
            "([a-z0-9]{0,3} ?=? ?[0-9a-fA-F=+/_-]{0,64}\n?){0,4}".prop_map(String::into_bytes),
        ],
    ) {
        if let Err(error) = StaticKeys::parse("f", &content) {
            prop_assert_eq!(error.kind(), ErrorKind::Config);
        }
    }
}

/// A provider that takes every id for the same key.
struct AnyId(Key);

impl KeyProvider for AnyId {
    fn decryption_key(&self, _: &str) -> Answer<'_, Option<Key>> {
        Answer::ok(Some(self.0.clone()))
    }

    fn encryption_key(&self) -> Answer<'_, (KeyId, Key)> {
        Answer::ok((KeyId::new("k1").unwrap(), self.0.clone()))
    }
}

/// A provider that nobody may ask.
struct NoKeys;

impl KeyProvider for NoKeys {
    fn decryption_key(&self, _: &str) -> Answer<'_, Option<Key>> {
        Answer::err(Error::config("asked for a key"))
    }

    fn encryption_key(&self) -> Answer<'_, (KeyId, Key)> {
        Answer::err(Error::config("asked for a key"))
    }
}

/// FC-111: bytes that merely look like an envelope may have anything where the id stands; only what
/// looks like an id is shown.
#[tokio::test]
async fn an_unknown_key_is_named_only_when_its_id_looks_like_one() {
    let stage = aes_gcm(StaticKeys::single("k", [1; 32]).unwrap());
    for (id, message) in [
        ("orders/2024-01", "key `orders/2024-01` is unknown"),
        (
            "my password is hunter2",
            "a key with an id of 22 bytes is unknown",
        ),
    ] {
        let mut envelope = vec![1, u8::try_from(id.len()).unwrap()];
        envelope.extend_from_slice(id.as_bytes());
        envelope.extend_from_slice(&[0; 28]);
        let record = Record::of_value(Some(&envelope));
        let error = kafka_chain::deserialize(&stage, &record, Part::Value)
            .await
            .unwrap_err();
        assert_eq!(error.message(), message);
    }
}
