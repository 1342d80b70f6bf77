//! Keys of a slow provider, remembered for a while.

use super::keys::{Key, KeyId, KeyProvider};
use crate::answer::Answer;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Remembers the keys that a slow provider gave, so that most messages need not wait.
///
/// Holds at most `capacity` keys to decrypt with; the one that was fetched first makes room for the
/// next. A key is asked for anew when it is older than the time to live, which is also how long a
/// revoked key still works and how late a rotation is noticed. Neither errors nor unknown ids are
/// remembered. Messages that miss the same key at the same time ask for it once each.
pub struct CachedKeys<P> {
    provider: P,
    capacity: usize,
    time_to_live: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    known: HashMap<Box<str>, (Instant, Key)>,
    active: Option<(Instant, (KeyId, Key))>,
}

impl<P> CachedKeys<P> {
    /// Remembers up to `capacity` keys of `provider`, each for `time_to_live`. A capacity of 0
    /// remembers only the key to encrypt with.
    pub fn new(provider: P, capacity: usize, time_to_live: Duration) -> Self {
        CachedKeys {
            provider,
            capacity,
            time_to_live,
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No panic can leave the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether what was fetched then is still good.
    fn fresh(&self, fetched: Instant) -> bool {
        fetched.elapsed() < self.time_to_live
    }

    fn remember(&self, id: Box<str>, key: &Key) {
        if self.capacity == 0 {
            return;
        }
        let mut state = self.state();
        if state.known.len() >= self.capacity && !state.known.contains_key(&id) {
            let oldest = state.known.iter().min_by_key(|(_, (fetched, _))| *fetched);
            if let Some(oldest) = oldest.map(|(id, _)| id.clone()) {
                state.known.remove(&oldest);
            }
        }
        state.known.insert(id, (Instant::now(), key.clone()));
    }
}

impl<P> fmt::Debug for CachedKeys<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CachedKeys")
            .field("capacity", &self.capacity)
            .field("time_to_live", &self.time_to_live)
            .finish_non_exhaustive()
    }
}

#[deny(clippy::missing_trait_methods)]
impl<P: KeyProvider> KeyProvider for CachedKeys<P> {
    fn decryption_key(&self, id: &str) -> Answer<'_, Option<Key>> {
        if let Some((fetched, key)) = self.state().known.get(id)
            && self.fresh(*fetched)
        {
            return Answer::ok(Some(key.clone()));
        }
        let answer = self.provider.decryption_key(id);
        let id = Box::from(id);
        answer.map_result(move |key| {
            if let Ok(Some(key)) = &key {
                self.remember(id, key);
            }
            key
        })
    }

    fn encryption_key(&self) -> Answer<'_, (KeyId, Key)> {
        if let Some((fetched, active)) = &self.state().active
            && self.fresh(*fetched)
        {
            return Answer::ok(active.clone());
        }
        self.provider.encryption_key().map_result(|active| {
            if let Ok(active) = &active {
                self.state().active = Some((Instant::now(), active.clone()));
            }
            active
        })
    }

    /// Forgets the keys and closes the provider.
    fn close(&self) -> Answer<'_, ()> {
        *self.state() = State::default();
        self.provider.close()
    }
}
