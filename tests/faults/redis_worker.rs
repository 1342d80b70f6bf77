//! A worker process between a queue in Redis and Kafka, which tells what it has claimed and finished. It
//! ends with its driver and by SIGTERM.

use crate::process::{end_with_driver, tell};
use kafka_chain::delay::redis::{RedisOptions, RedisStore};
use kafka_chain::delay::worker::{DeliveryObserver, Worker, WorkerOptions};
use kafka_chain::delay::{
    Claim, DelaySink, DelayStore, Delayed, Due, Durability, Finished, Lease, Receipt, Release,
    Released,
};
use kafka_chain::transport::Settings;
use kafka_chain::transport::kafka::KafkaSink;
use kafka_chain::{BoxFuture, Error, Result};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// How many records a worker claims at once.
pub(crate) const BATCH: usize = 64;

/// How long they are its own.
pub(crate) const LEASE: Duration = Duration::from_secs(2);

pub(crate) fn main(url: &str, queue: &str, servers: &str, words: &[&str]) -> ExitCode {
    end_with_driver();
    let ended = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime can be made")
        .block_on(work(url, queue, servers, words == ["careless"]));
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn work(url: &str, queue: &str, servers: &str, careless: bool) -> Result<()> {
    let store = RedisStore::connect(RedisOptions::new(url, queue)).await?;
    eprintln!("{}", store.durability());
    // A batch is on its way for a while, so that faults find one there.
    let settings: Settings = [("bootstrap.servers", servers), ("linger.ms", "20")]
        .into_iter()
        .collect();
    let options = WorkerOptions {
        batch: BATCH,
        lease: LEASE,
        ..WorkerOptions::default()
    };
    let store = Telling { store, careless };
    let worker = Worker::new(store, KafkaSink::start(&settings)?, options);
    let worker = worker.observed_by(Arc::new(Failures));
    let counts = worker.counts();
    let telling = tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_millis(20)).await;
            let (delivered, early) = (counts.delivered.load(Relaxed), counts.early.load(Relaxed));
            tell(format_args!("delivered {delivered} {early}"));
        }
    });
    let mut terminate = signal(SignalKind::terminate()).expect("signals can be listened for");
    let stop = async {
        terminate.recv().await;
    };
    let ended = worker.run(stop).await;
    telling.abort();
    ended
}

struct Failures;

impl DeliveryObserver for Failures {
    fn failed(&self, _: &kafka_chain::delay::Claimed, error: &Error, released: Released) {
        eprintln!("{released:?}: {error:#}");
    }

    fn store_failed(&self, error: &Error) {
        eprintln!("{error:#}");
    }
}

/// A store that tells what is claimed and finished.
struct Telling {
    store: RedisStore,
    /// What is claimed is removed at once, as if it were delivered.
    careless: bool,
}

impl DelaySink for Telling {
    fn schedule(&self, batch: Vec<Delayed>) -> BoxFuture<'_, Vec<Result<Receipt>>> {
        self.store.schedule(batch)
    }

    fn durability(&self) -> Durability {
        self.store.durability()
    }
}

impl DelayStore for Telling {
    fn due(&self, claim: Claim) -> BoxFuture<'_, Result<Due>> {
        Box::pin(async move {
            let due = self.store.due(claim).await?;
            tell(format_args!("claimed {}", due.items.len()));
            if self.careless {
                let leases = due.items.iter().map(|item| item.lease.clone());
                self.store.complete(leases.collect()).await?;
            }
            Ok(due)
        })
    }

    fn complete(&self, leases: Vec<Lease>) -> BoxFuture<'_, Result<Vec<Finished>>> {
        Box::pin(async move {
            let finished = self.store.complete(leases).await?;
            tell(format_args!("finished {}", finished.len()));
            Ok(finished)
        })
    }

    fn release(&self, releases: Vec<Release>) -> BoxFuture<'_, Result<Vec<Released>>> {
        Box::pin(async move {
            let released = self.store.release(releases).await?;
            tell(format_args!("finished {}", released.len()));
            Ok(released)
        })
    }

    fn extend(&self, leases: Vec<Lease>, lease: Duration) -> BoxFuture<'_, Result<Vec<Finished>>> {
        self.store.extend(leases, lease)
    }

    fn changed(&self) -> BoxFuture<'_, ()> {
        self.store.changed()
    }
}
