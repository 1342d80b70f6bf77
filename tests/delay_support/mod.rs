//! A sink that collects, and a rig of store, worker and such a sink.
#![allow(dead_code, unreachable_pub, reason = "each test takes what it needs")]

use kafka_chain::clock::Clock;
use kafka_chain::delay::DelaySink;
use kafka_chain::delay::conformance::sink::{Arrival, SinkRig};
use kafka_chain::delay::conformance::store::Store;
use kafka_chain::delay::worker::{Worker, WorkerCounts, WorkerOptions};
use kafka_chain::transport::{Delivered, Sink};
use kafka_chain::{BoxFuture, Error, OutgoingRecord, Result};
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// What a [`Collector`] does with the next record.
pub type Script = Box<dyn FnMut(&OutgoingRecord) -> Result<()> + Send>;

/// Keeps what it is sent, with the time.
pub struct Collector {
    clock: Arc<dyn Clock>,
    arrivals: Mutex<VecDeque<Arrival>>,
    arrived: Notify,
    pub script: Mutex<Option<Script>>,
    pub takes: Mutex<Duration>,
}

impl Collector {
    pub fn new(clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Collector {
            clock,
            arrivals: Mutex::default(),
            arrived: Notify::new(),
            script: Mutex::default(),
            takes: Mutex::default(),
        })
    }

    pub fn fails_with(&self, script: impl FnMut(&OutgoingRecord) -> Result<()> + Send + 'static) {
        *self.script.lock().unwrap() = Some(Box::new(script));
    }

    pub fn recovers(&self) {
        *self.script.lock().unwrap() = None;
    }

    pub async fn wait(&self, count: usize, limit: Duration) -> Vec<Arrival> {
        let enough = async {
            loop {
                let arrived = self.arrived.notified();
                if self.arrivals.lock().unwrap().len() >= count {
                    return;
                }
                arrived.await;
            }
        };
        let _ = tokio::time::timeout(limit, enough).await;
        self.arrivals.lock().unwrap().drain(..).collect()
    }

    pub async fn values(&self, count: usize, limit: Duration) -> Vec<String> {
        let arrivals = self.wait(count, limit).await;
        arrivals.iter().map(|a| value(&a.record)).collect()
    }
}

pub fn value(record: &OutgoingRecord) -> String {
    String::from_utf8(record.value.clone().unwrap_or_default().to_vec()).unwrap()
}

impl Sink for Collector {
    fn send(&self, record: OutgoingRecord) -> BoxFuture<'_, Result<Delivered>> {
        Box::pin(async move {
            let takes = *self.takes.lock().unwrap();
            if takes > Duration::ZERO {
                tokio::time::sleep(takes).await;
            }
            if let Some(script) = self.script.lock().unwrap().as_mut() {
                script(&record)?;
            }
            let at = self.clock.now();
            let mut arrivals = self.arrivals.lock().unwrap();
            arrivals.push_back(Arrival { record, at });
            self.arrived.notify_one();
            Ok(Delivered {
                partition: 0,
                offset: 0,
            })
        })
    }
}

/// A store, a number of workers on it, and where they deliver.
pub struct WorkerRig {
    pub store: Arc<dyn Store>,
    pub clock: Arc<dyn Clock>,
    pub collector: Arc<Collector>,
    pub options: WorkerOptions,
    pub tolerance: Duration,
    workers: Mutex<Vec<JoinHandle<()>>>,
    counts: Mutex<Vec<Arc<WorkerCounts>>>,
    number: usize,
}

impl WorkerRig {
    pub fn start(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        options: WorkerOptions,
        tolerance: Duration,
        number: usize,
    ) -> Self {
        let rig = WorkerRig {
            store,
            collector: Collector::new(Arc::clone(&clock)),
            clock,
            options,
            tolerance,
            workers: Mutex::default(),
            counts: Mutex::default(),
            number,
        };
        rig.spawn();
        rig
    }

    pub fn spawn(&self) {
        for _ in 0..self.number {
            let worker = Worker::new(
                Arc::clone(&self.store),
                Arc::clone(&self.collector),
                self.options.clone(),
            );
            self.counts.lock().unwrap().push(worker.counts());
            let run = async move { worker.run(std::future::pending()).await.unwrap() };
            self.workers.lock().unwrap().push(tokio::spawn(run));
        }
    }

    /// As SIGKILL does it: in the middle of whatever they do.
    pub fn kill(&self) {
        for worker in self.workers.lock().unwrap().drain(..) {
            worker.abort();
        }
    }

    pub fn early(&self) -> u64 {
        let counts = self.counts.lock().unwrap();
        counts.iter().map(|c| c.early.load(Ordering::Relaxed)).sum()
    }

    pub fn wakes(&self) -> u64 {
        let counts = self.counts.lock().unwrap();
        counts.iter().map(|c| c.wakes.load(Ordering::Relaxed)).sum()
    }
}

impl Drop for WorkerRig {
    fn drop(&mut self) {
        self.kill();
    }
}

impl SinkRig for WorkerRig {
    fn sink(&self) -> Arc<dyn DelaySink> {
        Arc::new(Arc::clone(&self.store))
    }

    fn topic(&self) -> String {
        "conformance".to_owned()
    }

    fn now(&self) -> i64 {
        self.clock.now()
    }

    fn max_delay(&self) -> Duration {
        kafka_chain::delay::Limits::default().max_delay
    }

    fn tolerance(&self) -> Duration {
        self.tolerance
    }

    fn arrivals(&self, count: usize, limit: Duration) -> BoxFuture<'_, Vec<Arrival>> {
        Box::pin(self.collector.wait(count, limit))
    }

    fn restart(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.kill();
            tokio::time::sleep(Duration::from_millis(800)).await;
            self.spawn();
        })
    }
}

/// An error as a broker that is away gives it.
pub fn away() -> Error {
    Error::unavailable("the broker is away")
}
