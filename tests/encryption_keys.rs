//! The `aes-gcm` codec with keys that come later.
#![cfg(feature = "encryption")]
use bytes::Bytes;
use kafka_chain::codecs::encryption::{
    AesGcm, CachedKeys, Key, KeyId, KeyProvider, StaticKeys, aes_gcm,
};
use kafka_chain::{
    Answer, Component, Deserializer, Encoded, Error, ErrorKind, Input, Part, Payload, Record,
    Serializer, Status, Target,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

const RAW: [u8; 32] = [7; 32];

fn keys() -> StaticKeys {
    StaticKeys::single("k1", RAW).unwrap()
}

/// `text` as a stage with keys at hand encrypts it.
async fn sealed() -> Bytes {
    let target = Target::new("orders", Part::Value);
    let stage = aes_gcm(keys());
    let encoded = stage.serialize(Payload::from(&b"text"[..]), &target).await;
    encoded.unwrap().payload.unwrap()
}

/// FC-009: an outage of the key service stays temporary in both directions and passes.
#[tokio::test]
async fn an_outage_of_the_key_service_is_temporary() {
    let sealed = sealed().await;
    let stage = aes_gcm(Service::new(2));
    for _ in 0..2 {
        let error = decrypt_later(&stage, &sealed).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.status()),
            (ErrorKind::Unavailable, Status::Temporary)
        );
        assert_eq!(error.stage_path(), "aes-gcm");
    }
    assert_eq!(
        decrypt_later(&stage, &sealed).await.unwrap().unwrap(),
        "text"
    );

    let stage = aes_gcm(Service::new(1));
    let target = Target::new("orders", Part::Value);
    let error = stage
        .serialize(Payload::from(&b"text"[..]), &target)
        .await
        .unwrap_err();
    assert_eq!(error.status(), Status::Temporary);
    let Encoded { payload, .. } = stage
        .serialize(Payload::from(&b"text"[..]), &target)
        .await
        .unwrap();
    assert_eq!(
        decrypt_later(&aes_gcm(keys()), &payload.unwrap())
            .await
            .unwrap()
            .unwrap(),
        "text"
    );
}

/// FC-009, FC-011 for keys that come later, and for bytes that another stage made.
#[tokio::test]
async fn a_key_that_comes_later_opens_no_more_than_one_at_hand() {
    let sealed = sealed().await;
    let stage = aes_gcm(Service::new(0));
    let mut altered = sealed.to_vec();
    altered[20] ^= 1;
    let error = decrypt_later(&stage, &altered).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.status()),
        (ErrorKind::Decrypt, Status::Permanent)
    );
    let unknown = [b"\x01\x02k9".as_slice(), &sealed[4..]].concat();
    let error = decrypt_later(&stage, &unknown).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "aes-gcm: permanent decrypt: key `k9` is unknown"
    );

    let record = Record::of_value(None);
    let context = record.context(Part::Value);
    let input = Input {
        payload: Payload::from(sealed),
        context: &context,
    };
    assert_eq!(stage.deserialize(input).await.unwrap().unwrap(), "text");
}

#[tokio::test]
async fn providers_known_at_run_time_only_work_and_are_closed() {
    let service = Arc::new(Service::new(0));
    let boxed: AesGcm<Box<dyn KeyProvider>> = AesGcm::new(Box::new(service.clone()));
    let stage = boxed.stage();
    let sealed = sealed().await;
    assert_eq!(
        decrypt_later(&stage, &sealed).await.unwrap().unwrap(),
        "text"
    );
    stage.close().await.unwrap();
    assert!(service.closed.load(Ordering::SeqCst));
    let shared: Arc<dyn KeyProvider> = Arc::new(keys());
    assert_eq!(
        decrypt_later(&aes_gcm(shared), &sealed)
            .await
            .unwrap()
            .unwrap(),
        "text"
    );
}

#[tokio::test(start_paused = true)]
async fn cached_keys_are_asked_for_again_when_they_are_old() {
    let service = Arc::new(Service::new(0));
    let minute = Duration::from_secs(60);
    let cached = CachedKeys::new(service.clone(), 2, minute);
    let calls = || service.calls.load(Ordering::SeqCst);
    let fetch = async |id: &str| cached.decryption_key(id).await.unwrap().is_some();

    assert!(fetch("k1").await);
    assert!(cached.decryption_key("k1").now().is_ok(), "answers at once");
    assert_eq!(calls(), 1);
    tokio::time::advance(minute).await;
    assert!(fetch("k1").await);
    assert_eq!(calls(), 2);

    assert!(!fetch("k9").await);
    assert!(!fetch("k9").await);
    assert_eq!(calls(), 4, "an unknown id is not remembered");

    cached.encryption_key().await.unwrap();
    assert_eq!(
        cached.encryption_key().now().unwrap().unwrap().0.as_str(),
        "k1"
    );
    assert_eq!(calls(), 5);
    tokio::time::advance(minute).await;
    cached.encryption_key().await.unwrap();
    assert_eq!(calls(), 6);
}

#[tokio::test(start_paused = true)]
async fn a_full_cache_forgets_the_key_it_fetched_first() {
    let service = Arc::new(Service::new(0));
    let cached = CachedKeys::new(service.clone(), 2, Duration::from_secs(60));
    for id in ["k1", "k2", "k3"] {
        cached.decryption_key(id).await.unwrap().unwrap();
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    assert!(cached.decryption_key("k2").now().is_ok());
    assert!(cached.decryption_key("k3").now().is_ok());
    assert!(
        cached.decryption_key("k1").now().is_err(),
        "has to be fetched"
    );
    cached.close().await.unwrap();
    assert!(service.closed.load(Ordering::SeqCst));
    assert!(cached.decryption_key("k3").now().is_err(), "was forgotten");
}

#[tokio::test]
async fn a_cache_remembers_no_error() {
    let cached = CachedKeys::new(Service::new(2), 2, Duration::from_secs(60));
    assert_eq!(
        cached.decryption_key("k1").await.unwrap_err().status(),
        Status::Temporary
    );
    assert_eq!(
        cached.encryption_key().await.unwrap_err().status(),
        Status::Temporary
    );
    assert!(cached.decryption_key("k1").await.unwrap().is_some());
    assert!(cached.encryption_key().await.is_ok());
}

async fn decrypt_later(
    stage: &impl Deserializer<Output = Option<Bytes>>,
    payload: &[u8],
) -> Result<Option<Bytes>, Error> {
    let record = Record::of_value(Some(payload));
    let context = record.context(Part::Value);
    stage.deserialize(Input::of(&context)).await
}

/// A key service that answers later, after its first `outages` calls failed: it has `k1` to `k3`.
struct Service {
    outages: u32,
    calls: AtomicU32,
    closed: AtomicBool,
}

impl Service {
    fn new(outages: u32) -> Self {
        Service {
            outages,
            calls: AtomicU32::new(0),
            closed: AtomicBool::new(false),
        }
    }

    fn answer<T: Send + 'static>(&self, value: T) -> Answer<'_, T> {
        Answer::pending(async move {
            tokio::task::yield_now().await;
            if self.calls.fetch_add(1, Ordering::SeqCst) < self.outages {
                return Err(Error::unavailable("the key service answered 503"));
            }
            Ok(value)
        })
    }
}

impl KeyProvider for Service {
    fn decryption_key(&self, id: &str) -> Answer<'_, Option<Key>> {
        let known = matches!(id, "k1" | "k2" | "k3");
        self.answer(known.then(|| Key::new(&RAW).unwrap()))
    }

    fn encryption_key(&self) -> Answer<'_, (KeyId, Key)> {
        self.answer((KeyId::new("k1").unwrap(), Key::new(&RAW).unwrap()))
    }

    fn close(&self) -> Answer<'_, ()> {
        self.closed.store(true, Ordering::SeqCst);
        Answer::ok(())
    }
}
