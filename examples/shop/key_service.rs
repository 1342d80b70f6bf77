//! A key service as they are: down when the consumer starts, and flaky after.

use crate::orders::KEY;
use kafka_chain::codecs::encryption::{Key, KeyId, KeyProvider};
use kafka_chain::{Answer, Error};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// How many calls find the service down at first.
const DOWN_FOR: usize = 3;

/// After that, one call in so many fails.
const FLAKY_EVERY: usize = 997;

/// Looks keys up by id. In a real system each call crosses the network; here one in a hundred
/// takes a moment, and some fail.
#[derive(Clone)]
pub struct KeyService {
    key: Key,
    calls: Arc<AtomicUsize>,
}

impl KeyService {
    pub fn new() -> kafka_chain::Result<Self> {
        Ok(KeyService {
            key: Key::new(&KEY.1)?,
            calls: Arc::default(),
        })
    }

    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }
}

impl KeyProvider for KeyService {
    fn decryption_key(&self, id: &str) -> Answer<'_, Option<Key>> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        if call < DOWN_FOR || call.is_multiple_of(FLAKY_EVERY) {
            return Answer::err(Error::unavailable("the key service does not answer"));
        }
        let key = (id == KEY.0).then(|| self.key.clone());
        if call.is_multiple_of(100) {
            return Answer::pending(async move {
                tokio::time::sleep(Duration::from_millis(1)).await;
                Ok(key)
            });
        }
        Answer::ok(key)
    }

    fn encryption_key(&self) -> Answer<'_, (KeyId, Key)> {
        Answer::Ready(KeyId::new(KEY.0).map(|id| (id, self.key.clone())))
    }
}
