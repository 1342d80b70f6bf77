//! What wakes the polling thread.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Rung by whoever has something for the polling thread; a ring is never missed.
#[derive(Debug, Default)]
pub(super) struct Bell {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Bell {
    /// Cheap, and holds no lock of anybody else's: librdkafka calls it with its queue locked.
    pub(super) fn ring(&self) {
        *self.rung.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_one();
    }

    /// Waits until it was rung since the last wait, at most this long.
    pub(super) fn wait(&self, limit: Duration) {
        let rung = self.rung.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut rung, _) = self
            .changed
            .wait_timeout_while(rung, limit, |rung| !*rung)
            .unwrap_or_else(PoisonError::into_inner);
        *rung = false;
    }
}
