//! The clients of one kind, of which the newest is used for what is new.

use super::client::{Client, Start};
use crate::error::{Error, Result};
use crate::transport::Settings;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// The least time between two starts of clients.
pub(super) const BETWEEN_STARTS: Duration = Duration::from_secs(1);

/// A client, and how many were started before it and it.
#[derive(Clone)]
pub(super) struct Started {
    pub(super) client: Arc<dyn Client>,
    pub(super) generation: u64,
}

/// Starts clients with the same settings, one after the other. What still uses an older one keeps it
/// alive.
pub(super) struct Fleet {
    start: Arc<Start>,
    settings: Settings,
    state: Mutex<State>,
    /// Clients up to this generation write nothing any more.
    dead: AtomicU64,
}

#[derive(Default)]
struct State {
    newest: Option<Started>,
    generation: u64,
    tried: Option<Instant>,
    closed: bool,
}

impl Fleet {
    pub(super) fn new(start: Arc<Start>, settings: Settings) -> Self {
        Fleet {
            start,
            settings,
            state: Mutex::default(),
            dead: AtomicU64::new(0),
        }
    }

    /// A client that was started after the `broken` one. `None` when there is none, and one was started
    /// less than [`BETWEEN_STARTS`] ago.
    ///
    /// # Errors
    /// When it is closed, or the client does not start.
    pub(super) fn newer_than(&self, broken: u64) -> Result<Option<Started>> {
        let broken = broken.max(self.dead());
        let mut state = self.lock();
        if state.closed {
            return Err(Error::unavailable("the producer is closed"));
        }
        let newer = |started: &&Started| started.generation > broken;
        if let Some(newest) = state.newest.as_ref().filter(newer) {
            return Ok(Some(newest.clone()));
        }
        let now = Instant::now();
        let early = |tried: Instant| now.duration_since(tried) < BETWEEN_STARTS;
        if state.tried.is_some_and(early) {
            return Ok(None);
        }
        state.tried = Some(now);
        let client = (self.start)(&self.settings)?;
        state.generation += 1;
        let started = Started {
            client,
            generation: state.generation,
        };
        state.newest = Some(started.clone());
        Ok(Some(started))
    }

    pub(super) fn dead(&self) -> u64 {
        self.dead.load(Ordering::Acquire)
    }

    /// Has nobody use clients up to this generation any more.
    pub(super) fn give_up(&self, generation: u64) {
        self.dead.fetch_max(generation, Ordering::AcqRel);
    }

    pub(super) fn newest(&self) -> Option<Started> {
        self.lock().newest.clone()
    }

    /// Starts no more clients and lets go of the newest.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.newest = None;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
