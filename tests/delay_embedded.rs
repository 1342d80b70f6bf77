//! Delayed records in a file of this process, on the machine's clock.
#![cfg(feature = "embedded")]

mod delay_support;
#[path = "support/folder.rs"]
mod folder;

use delay_support::{Collector, value};
use folder::Folder;
use kafka_chain::clock::{Clock, SystemClock};
use kafka_chain::delay::conformance::sink::{Arrival, SinkRig};
use kafka_chain::delay::conformance::store::{Store, StoreRig};
use kafka_chain::delay::conformance::{all_kept, sink, store};
use kafka_chain::delay::embedded::{EmbeddedOptions, EmbeddedStore};
use kafka_chain::delay::worker::{Worker, WorkerOptions};
use kafka_chain::delay::{
    Attempt, Claim, DelayAdmin, DelayId, DelaySink, DelayStore, Delayed, Due, Durability, Finished,
    Limits, Listed, Listing, OnDuplicate, Release, Scheduled, Stats, When,
};
use kafka_chain::{BoxFuture, ErrorKind, OutgoingRecord, Result, Status};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinHandle;

fn record(text: &str) -> OutgoingRecord {
    OutgoingRecord {
        topic: "topic".to_owned(),
        value: Some(text.to_owned().into()),
        ..OutgoingRecord::default()
    }
}

fn after(millis: u64, text: &str) -> Delayed {
    Delayed::new(When::After(Duration::from_millis(millis)), record(text))
}

fn named(millis: u64, text: &str) -> Delayed {
    after(millis, text).with_id(DelayId::new(text).unwrap(), OnDuplicate::Keep)
}

async fn open(folder: &Path) -> EmbeddedStore {
    EmbeddedStore::open(EmbeddedOptions::new(folder))
        .await
        .unwrap()
}

async fn claim(store: &EmbeddedStore) -> Due {
    let lease = Duration::from_secs(60);
    store.due(Claim { max: 256, lease }).await.unwrap()
}

struct Stores(Folder, AtomicUsize);

impl StoreRig for Stores {
    fn fresh(&self, limits: Limits) -> BoxFuture<'_, Result<Arc<dyn Store>>> {
        let number = self.1.fetch_add(1, Ordering::Relaxed);
        let options = EmbeddedOptions {
            limits,
            ..EmbeddedOptions::new(self.0.path().join(number.to_string()))
        };
        Box::pin(async move {
            let store = EmbeddedStore::open(options).await?;
            Ok(Arc::new(store) as Arc<dyn Store>)
        })
    }
}

/// FC-090, FC-091, FC-092 and FC-098 as a store sees them.
#[tokio::test]
async fn the_embedded_store_keeps_the_rules_of_stores() {
    let stores = Stores(Folder::new("store-rules"), AtomicUsize::new(0));
    let checked = store::check(&stores).await;
    assert_eq!(checked.len(), 18);
    all_kept(&checked).unwrap();
}

/// Workers on a store that is closed, and opened again, at a restart.
struct Reopened {
    folder: Folder,
    collector: Arc<Collector>,
    running: Mutex<Option<Running>>,
}

struct Running {
    store: Arc<EmbeddedStore>,
    workers: Vec<JoinHandle<()>>,
}

impl Reopened {
    async fn start() -> Self {
        let rig = Reopened {
            folder: Folder::new("sink-rules"),
            collector: Collector::new(Arc::new(SystemClock)),
            running: Mutex::default(),
        };
        rig.run().await;
        rig
    }

    async fn run(&self) {
        let store = Arc::new(open(self.folder.path()).await);
        let worker = || {
            let options = WorkerOptions::default();
            let worker = Worker::new(Arc::clone(&store), Arc::clone(&self.collector), options);
            tokio::spawn(async move { worker.run(std::future::pending()).await.unwrap() })
        };
        let workers = (0..2).map(|_| worker()).collect();
        *self.running.lock().unwrap() = Some(Running { store, workers });
    }
}

impl SinkRig for Reopened {
    fn sink(&self) -> Arc<dyn DelaySink> {
        self.running.lock().unwrap().as_ref().unwrap().store.clone()
    }

    fn topic(&self) -> String {
        "conformance".to_owned()
    }

    fn now(&self) -> i64 {
        SystemClock.now()
    }

    fn max_delay(&self) -> Duration {
        Limits::default().max_delay
    }

    fn tolerance(&self) -> Duration {
        Duration::from_millis(500)
    }

    fn arrivals(&self, count: usize, limit: Duration) -> BoxFuture<'_, Vec<Arrival>> {
        Box::pin(self.collector.wait(count, limit))
    }

    fn restart(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let running = self.running.lock().unwrap().take().unwrap();
            for worker in running.workers {
                worker.abort();
                let _ = worker.await;
            }
            let store = Arc::into_inner(running.store).unwrap();
            store.close().await;
            tokio::time::sleep(Duration::from_millis(800)).await;
            self.run().await;
        })
    }
}

/// FC-080, FC-081, FC-082, FC-090 and FC-100 from end to end.
#[tokio::test]
async fn store_and_worker_keep_the_rules_of_sinks() {
    let checked = sink::check(&Reopened::start().await).await;
    assert_eq!(checked.len(), 8);
    all_kept(&checked).unwrap();
}

#[tokio::test]
async fn everything_is_there_after_closing() {
    let folder = Folder::new("closing");
    let store = open(folder.path()).await;
    assert_eq!(store.durability(), Durability::Synced);
    let batch = vec![
        after(0, "plain"),
        named(0, "named"),
        named(60_000, "far"),
        named(0, "dead"),
        named(0, "done"),
        named(0, "flying"),
    ];
    for answer in store.schedule(batch).await {
        answer.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(2)).await;
    let due = claim(&store).await;
    assert_eq!(due.items.len(), 5);
    let lease = |text: &str| {
        let item = due.items.iter().find(|item| value(&item.record) == text);
        item.unwrap().lease.clone()
    };
    let release = |text: &str, attempt: Attempt| Release {
        lease: lease(text),
        delay: Duration::ZERO,
        attempt,
        reason: "why".into(),
    };
    store
        .release(vec![
            release("dead", Attempt::Last),
            release("named", Attempt::Counted),
        ])
        .await
        .unwrap();
    let done = store.complete(vec![lease("done")]).await.unwrap();
    assert_eq!(done, [Finished::Done]);
    let before = store.stats().await.unwrap();
    store.close().await;

    let store = open(folder.path()).await;
    let stats = store.stats().await.unwrap();
    let expected = Stats {
        waiting: 4,
        in_flight: 0,
        next_due: stats.next_due,
        ..before
    };
    assert_eq!(stats, expected, "leases end with the process");
    assert_eq!((stats.dead, stats.scheduled, stats.completed), (1, 6, 1));
    let listing = Listing {
        listed: Listed::Dead,
        after: None,
        limit: 10,
    };
    let dead = store.list(listing).await.unwrap().items;
    assert_eq!(dead[0].1.as_deref(), Some("why"));
    // What held a lease before holds none now, even though the numbers of claims began anew.
    let stale = store.complete(vec![lease("plain"), lease("flying")]).await;
    assert_eq!(stale.unwrap(), [Finished::Stale, Finished::Stale]);
    let again = claim(&store).await;
    let mut attempts: Vec<_> = (again.items.iter())
        .map(|item| (value(&item.record), item.attempt))
        .collect();
    attempts.sort();
    let expected = [("flying", 2), ("named", 2), ("plain", 2)];
    assert_eq!(attempts, expected.map(|(text, n)| (text.to_owned(), n)));
    assert!(again.items[0].lease.token > due.items[0].lease.token);
    // An id is still taken, and one that the store made can still be cancelled.
    let kept = store.schedule(vec![named(0, "far")]).await.remove(0);
    assert_eq!(kept.unwrap().scheduled, Scheduled::Kept);
}

/// The ids that the store makes lead to their records without a row of their own, moved ones too.
#[tokio::test]
async fn a_record_is_found_by_the_id_that_the_store_made() {
    let folder = Folder::new("ids");
    let store = open(folder.path()).await;
    let receipt = |answers: Vec<Result<_>>| answers.into_iter().next().unwrap().unwrap();
    let first: kafka_chain::delay::Receipt =
        receipt(store.schedule(vec![after(60_000, "a")]).await);
    let later = When::At(first.deliver_at + 5_000);
    let moved = store.reschedule(first.id.clone(), later).await.unwrap();
    let at = first.deliver_at + 5_000;
    assert_eq!(moved, kafka_chain::delay::Rescheduled::At(at));
    store.close().await;
    let store = open(folder.path()).await;
    let again = after(0, "again").with_id(first.id.clone(), OnDuplicate::Keep);
    let kept = receipt(store.schedule(vec![again]).await);
    assert_eq!((kept.scheduled, kept.deliver_at), (Scheduled::Kept, at));
    // Back to the time that its id says.
    let back = When::At(first.deliver_at);
    store.reschedule(first.id.clone(), back).await.unwrap();
    let cancelled = store
        .cancel(vec![first.id.clone(), first.id])
        .await
        .unwrap();
    let expected = [
        kafka_chain::delay::Cancelled::Removed,
        kafka_chain::delay::Cancelled::Unknown,
    ];
    assert_eq!(cancelled, expected);
    assert_eq!(store.stats().await.unwrap().waiting, 0);
}

#[tokio::test]
async fn a_folder_has_one_owner() {
    let folder = Folder::new("owner");
    let first = open(folder.path()).await;
    let error = EmbeddedStore::open(EmbeddedOptions::new(folder.path()))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.message().contains("another process"), "{error}");
    assert!(error.message().contains("delays.redb"), "{error}");
    first.close().await;
    open(folder.path()).await;
}

#[tokio::test]
async fn a_damaged_file_is_told_from_a_busy_one() {
    let folder = Folder::new("damaged");
    let file = folder.path().join("delays.redb");
    for bytes in [b"no such file".repeat(1_000), vec![0; 40_000], vec![7; 3]] {
        std::fs::write(&file, &bytes).unwrap();
        let opened = EmbeddedStore::open(EmbeddedOptions::new(folder.path())).await;
        let error = opened.unwrap_err();
        assert_eq!(error.status(), Status::Permanent, "{error}");
        assert!(error.message().contains("delays.redb"), "{error}");
        assert!(error.message().contains("damaged"), "{error}");
    }
    // A file whose pages were overwritten, anywhere.
    std::fs::remove_file(&file).unwrap();
    let store = open(folder.path()).await;
    let batch = (0..5_000).map(|n| after(60_000, &n.to_string())).collect();
    store.schedule(batch).await;
    store.close().await;
    let whole = std::fs::read(&file).unwrap();
    for at in (0..whole.len() - 4_096).step_by(whole.len() / 40) {
        let mut broken = whole.clone();
        broken[at..at + 4_096].fill(0xa5);
        std::fs::write(&file, &broken).unwrap();
        // Pages that nothing uses do no harm, all others are an error, and nothing ends the process.
        match EmbeddedStore::open(EmbeddedOptions::new(folder.path())).await {
            Ok(store) => {
                let listing = Listing {
                    listed: Listed::Waiting,
                    after: None,
                    limit: 1_000,
                };
                match store.list(listing).await {
                    Ok(page) => assert_eq!(page.items.len(), 1_000),
                    Err(error) => assert!(error.message().contains("delays.redb"), "{error}"),
                }
                store.close().await;
            }
            Err(error) => assert_eq!(error.status(), Status::Permanent, "{error}"),
        }
    }
}

#[tokio::test]
async fn a_store_of_another_format_is_refused() {
    let folder = Folder::new("format");
    open(folder.path()).await.close().await;
    let database = redb::Database::create(folder.path().join("delays.redb")).unwrap();
    let transaction = database.begin_write().unwrap();
    let format = redb::TableDefinition::<&str, u64>::new("format");
    let mut table = transaction.open_table(format).unwrap();
    assert_eq!(table.insert("format", 9).unwrap().unwrap().value(), 1);
    drop(table);
    transaction.commit().unwrap();
    drop(database);
    let opened = EmbeddedStore::open(EmbeddedOptions::new(folder.path())).await;
    let error = opened.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.message().contains("of format 9"), "{error}");
}

#[tokio::test]
async fn a_store_that_makes_no_sense_is_refused() {
    let folder = Folder::new("sense");
    let options = EmbeddedOptions {
        limits: Limits {
            capacity: 0,
            ..Limits::default()
        },
        ..EmbeddedOptions::new(folder.path())
    };
    let error = EmbeddedStore::open(options).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    let file = folder.path().join("file");
    std::fs::write(&file, "in the way").unwrap();
    let error = EmbeddedStore::open(EmbeddedOptions::new(&file)).await;
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Config);
}

#[tokio::test]
async fn a_store_shows_no_payload() {
    let folder = Folder::new("debug");
    let store = open(folder.path()).await;
    store.schedule(vec![after(5, "secret")]).await;
    assert!(!format!("{store:?}").contains("secret"));
}
