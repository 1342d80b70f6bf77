//! One Redis of a test's own, to be killed, with a queue in it.

use crate::load::ID;
use crate::rig::{Options, rig, say, signal, value_in};
use crate::timed::{DUE, TOO_SOON_MS, Writer, now};
use kafka_chain::delay::redis::{RedisOptions, RedisStore};
use kafka_chain::delay::{DelayAdmin, DelayId, DelaySink, Delayed, OnDuplicate, Stats, When};
use kafka_chain::{Headers, OutgoingRecord};
use rand::RngExt;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::runtime::Runtime;

pub(crate) struct Redis {
    folder: PathBuf,
    pub(crate) url: String,
    pid: String,
    on_disk: bool,
}

impl Redis {
    /// With each change on disk before it is answered, or with none.
    pub(crate) fn start(options: &Options, on_disk: bool) -> Self {
        let mut redis = Redis {
            folder: options.folder.join("redis"),
            url: String::new(),
            pid: String::new(),
            on_disk,
        };
        redis.launch();
        say(format!("Redis is at {}", redis.url));
        redis
    }

    /// Starts it, again with what it has on disk, and without scripts; there when it answers.
    pub(crate) fn launch(&mut self) {
        let words = ["redis-start", self.folder(), "--appendonly"];
        let line = rig(&words[..if self.on_disk { 3 } else { 2 }]);
        self.url = value_in(&line, "url");
        self.pid = value_in(&line, "pid");
    }

    fn folder(&self) -> &str {
        self.folder.to_str().expect("the folder's name is text")
    }

    /// SIGKILL.
    pub(crate) fn kill(&self) {
        rig(&["redis-kill", self.folder()]);
    }

    /// SIGSTOP.
    pub(crate) fn freeze(&self) {
        signal("STOP", &self.pid);
    }

    /// SIGCONT.
    pub(crate) fn thaw(&self) {
        signal("CONT", &self.pid);
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        rig(&["redis-kill", self.folder()]);
    }
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime can be made")
}

fn connect(runtime: &Runtime, url: &str, queue: &str) -> RedisStore {
    let connecting = RedisStore::connect(RedisOptions::new(url, queue));
    let connected = runtime.block_on(connecting);
    connected.unwrap_or_else(|error| panic!("{error:#}"))
}

/// What a queue holds.
pub(crate) fn stats(url: &str, queue: &str) -> Stats {
    let runtime = runtime();
    let store = connect(&runtime, url, queue);
    let stats = runtime.block_on(store.stats());
    stats.unwrap_or_else(|error| panic!("{error:#}"))
}

/// Schedules records in a queue. Their ids make it harmless to do so again after an error.
pub(crate) struct Schedule {
    runtime: Runtime,
    store: RedisStore,
    outputs: String,
    /// In milliseconds.
    longest: i64,
    too_soon: i64,
    repeated: Arc<AtomicU64>,
}

impl Schedule {
    pub(crate) fn new(
        options: &Options,
        url: &str,
        queue: &str,
        outputs: &str,
        longest: i64,
    ) -> Self {
        let runtime = runtime();
        Schedule {
            store: connect(&runtime, url, queue),
            runtime,
            outputs: outputs.to_owned(),
            longest,
            too_soon: if options.too_soon { TOO_SOON_MS } else { 0 },
            repeated: Arc::default(),
        }
    }

    /// How many calls were repeated; it counts on.
    pub(crate) fn repeated(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.repeated)
    }

    fn delayed(&self, id: u64) -> Delayed {
        let due = now() + rand::rng().random_range(0..self.longest);
        let number = id.to_string();
        let mut headers = Headers::new();
        headers.push(ID, Some(number.clone()));
        headers.push(DUE, Some(due.to_string()));
        let record = OutgoingRecord {
            topic: self.outputs.clone(),
            key: Some(number.clone().into()),
            value: Some("value".into()),
            headers,
            ..OutgoingRecord::default()
        };
        let id = DelayId::new(number).expect("a number is an id");
        Delayed::new(When::At(due - self.too_soon), record).with_id(id, OnDuplicate::Keep)
    }
}

impl Writer for Schedule {
    fn write(&mut self, ids: Range<u64>) {
        let mut batch: Vec<Delayed> = ids.map(|id| self.delayed(id)).collect();
        while !batch.is_empty() {
            let answers = self.runtime.block_on(self.store.schedule(batch.clone()));
            let failed = batch.into_iter().zip(answers);
            batch = failed
                .filter(|(_, answer)| answer.is_err())
                .map(|(item, _)| item)
                .collect();
            if !batch.is_empty() {
                self.repeated.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    }

    fn flush(&mut self) {}
}
