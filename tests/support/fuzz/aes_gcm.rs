//! Envelopes of AES-GCM, and key files.

use super::{MARKER, quotes_nothing, read, read_both};
use kafka_chain::codecs::encryption::{AesGcm, KeyProvider, StaticKeys};
use kafka_chain::{ErrorKind, Part, Payload, Serializer, Target};
use std::sync::LazyLock;

/// Two keys of different sizes. The corpus has envelopes of both.
static CODEC: LazyLock<AesGcm<StaticKeys>> = LazyLock::new(|| {
    let keys = StaticKeys::single("k1", [7; 16]).and_then(|keys| keys.with("k2", [9; 32]));
    AesGcm::new(keys.unwrap())
});

/// An envelope's bytes that are no plaintext: version, length of the id, id, nonce, tag.
const OVERHEAD: usize = 30;

pub(super) fn envelope(input: &[u8]) {
    if let Some(text) = read_any(input) {
        let id = usize::from(input[1]);
        assert_eq!(text.len(), input.len() - OVERHEAD - id);
    }
    let Some((&[place_high, place_low, change, cut], text)) = input.split_first_chunk() else {
        return;
    };
    let target = Target::new("orders", Part::Value);
    let sealed = CODEC
        .serialize(Payload::Borrowed(text), &target)
        .now()
        .unwrap();
    let mut sealed = sealed.unwrap().payload.unwrap().to_vec();
    assert_eq!(sealed.len(), text.len() + OVERHEAD + 2);
    assert_eq!(read_both(&*CODEC, &sealed).unwrap(), text);

    // Whatever is changed, the whole does not open.
    let place = usize::from(u16::from_be_bytes([place_high, place_low])) % sealed.len();
    if change > 0 {
        sealed[place] ^= change;
        closed(&sealed, text);
        sealed[place] ^= change;
    }
    let shorter = sealed.len() - 1 - usize::from(cut) % sealed.len();
    closed(&sealed[..shorter], text);
    sealed.push(cut);
    closed(&sealed, text);
}

fn read_any(bytes: &[u8]) -> Option<bytes::Bytes> {
    assert!(
        read(&*CODEC, Payload::Null).unwrap().is_none(),
        "a null is no value"
    );
    match read(&*CODEC, Payload::Borrowed(bytes)) {
        Ok(text) => Some(text.unwrap()),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Decrypt);
            // An error names the key's id, which is not secret.
            let head = bytes.get(1).map_or(0, |length| 2 + usize::from(*length));
            let rest = bytes.get(head..).unwrap_or_default();
            let text = error.to_string();
            if !bytes[..head.min(bytes.len())]
                .windows(MARKER.len())
                .any(|part| part == MARKER.as_bytes())
            {
                quotes_nothing(&error, rest);
            }
            assert!(text.len() < 4 * 255 + 100, "a message is short");
            None
        }
    }
}

fn closed(bytes: &[u8], text: &[u8]) {
    let error = read(&*CODEC, Payload::Borrowed(bytes)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Decrypt);
    quotes_nothing(&error, text);
}

/// What is written in a key file is never shown, and each key of a good one opens what it sealed.
pub(super) fn key_file(input: &[u8]) {
    match StaticKeys::parse("the file", input) {
        Ok(keys) => {
            let (id, _) = keys.encryption_key().now().unwrap().unwrap();
            assert!(
                keys.decryption_key(id.as_str())
                    .now()
                    .unwrap()
                    .unwrap()
                    .is_some()
            );
            let codec = AesGcm::new(keys);
            assert!(!format!("{codec:?}").contains(MARKER));
            let target = Target::new("orders", Part::Value);
            let sealed = codec
                .serialize(Payload::Borrowed(b"text"), &target)
                .now()
                .unwrap();
            let sealed = sealed.unwrap().payload.unwrap();
            assert_eq!(
                read(&codec, Payload::Borrowed(&sealed)).unwrap().unwrap(),
                b"text"[..]
            );
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Config);
            quotes_nothing(&error, input);
        }
    }
}
