//! The scheduler on real Apache Kafka.
#![cfg(all(feature = "kafka", feature = "embedded"))]

#[path = "support/folder.rs"]
mod folder;
#[path = "support/real.rs"]
mod real;
#[path = "support/scheduler.rs"]
mod scheduler;
#[path = "support/schedules.rs"]
mod schedules;

use folder::Folder;
use kafka_chain::BoxFuture;
use kafka_chain::delay::conformance::sink::{Arrival, SinkRig};
use kafka_chain::delay::conformance::{all_kept, sink};
use kafka_chain::delay::producer::{DelayedProducer, ProducerOptions};
use kafka_chain::delay::{DelaySink, Delayed, Limits, When};
use kafka_chain::scheduler::SchedulerOptions;
use scheduler::{Rig, Running, now};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::Duration;

async fn rig(name: &str, partitions: i32) -> Option<Rig> {
    Some(Rig::real(real::kafka()?, name, partitions).await)
}

#[tokio::test]
async fn records_come_at_their_times() {
    let Some(rig) = rig("times", 3).await else {
        return;
    };
    schedules::delivers(&rig, &Folder::new("real-times")).await;
}

#[tokio::test]
async fn what_cannot_be_delivered_is_a_dead_letter() {
    let Some(rig) = rig("dead", 1).await else {
        return;
    };
    schedules::refuses(&rig, &Folder::new("real-dead")).await;
}

#[tokio::test]
async fn a_run_is_one_entry() {
    let Some(rig) = rig("runs", 1).await else {
        return;
    };
    schedules::batches_are_entries(&rig, &Folder::new("real-runs")).await;
}

#[tokio::test]
async fn a_restart_loses_nothing() {
    let Some(rig) = rig("again", 2).await else {
        return;
    };
    let folder = Folder::new("real-again");
    schedules::restarts(&rig, [&folder, &folder], 0).await;
}

#[tokio::test]
async fn a_restart_without_the_folder_loses_nothing() {
    let Some(rig) = rig("without", 2).await else {
        return;
    };
    let folders = [Folder::new("real-with"), Folder::new("real-without")];
    schedules::restarts(&rig, [&folders[0], &folders[1]], 2).await;
}

#[tokio::test]
async fn an_orderly_rebalance_delivers_each_once() {
    let Some(rig) = rig("moves", 4).await else {
        return;
    };
    let folders = [Folder::new("real-first"), Folder::new("real-second")];
    schedules::rebalances(&rig, [&folders[0], &folders[1]]).await;
}

#[tokio::test]
async fn local_durability_is_for_one_static_member() {
    let Some(rig) = rig("local", 2).await else {
        return;
    };
    let folders = [Folder::new("real-local"), Folder::new("real-other")];
    schedules::local(&rig, [&folders[0], &folders[1]]).await;
}

#[tokio::test]
async fn a_target_that_is_not_there_holds_nothing_up() {
    let Some(rig) = rig("missing", 1).await else {
        return;
    };
    schedules::missing_target(&rig, &Folder::new("real-missing")).await;
}

/// FC-088.
#[tokio::test]
async fn a_changelog_that_would_forget_is_refused() {
    let Some(rig) = rig("refused", 1).await else {
        return;
    };
    schedules::refuses_topics(&rig, &Folder::new("real-refused")).await;
}

/// What the producer writes as a batch is one entry.
#[tokio::test]
async fn entries_are_the_batches_of_the_producer() {
    let Some(rig) = rig("batches", 3).await else {
        return;
    };
    let folder = Folder::new("real-batches");
    let producer = DelayedProducer::new(rig.sink.clone(), &rig.topic, ProducerOptions::default());
    let start = now() + 3_600_000;
    let batch = (0..3_000_i64).map(|n| {
        let mut record = rig.delayed(0, &n.to_string(), 0);
        record.headers = Default::default();
        (record.topic, record.partition) = (rig.target(), None);
        record.key = Some(n.to_string().into());
        // Ten times, an hour apart, each within the slack.
        Delayed::new(When::At(start + (n % 10) * 3_600_000 + n % 7), record)
    });
    for answer in producer.schedule(batch.collect()).await {
        answer.unwrap();
    }
    let running = rig.start(rig.options(folder.path())).await;
    running.ingested(3_000).await;
    let counts = running.stop().await;
    assert_eq!(counts.entries.load(Relaxed), 30, "ten in each partition");
    assert_eq!(rig.waiting().await.len(), 30);
}

/// A producer of delayed records, and the scheduler that delivers them.
struct Scheduled {
    rig: Rig,
    folder: Folder,
    running: Mutex<Option<Running>>,
}

impl Scheduled {
    fn options(&self) -> SchedulerOptions {
        self.rig.options(self.folder.path())
    }
}

impl SinkRig for Scheduled {
    fn sink(&self) -> Arc<dyn DelaySink> {
        let options = ProducerOptions::default();
        let sink = self.rig.sink.clone();
        Arc::new(DelayedProducer::new(sink, &self.rig.topic, options))
    }

    fn topic(&self) -> String {
        self.rig.target()
    }

    fn now(&self) -> i64 {
        now()
    }

    fn max_delay(&self) -> Duration {
        Limits::default().max_delay
    }

    fn tolerance(&self) -> Duration {
        Duration::from_secs(5)
    }

    fn arrivals(&self, count: usize, limit: Duration) -> BoxFuture<'_, Vec<Arrival>> {
        Box::pin(self.rig.arrivals(count, limit))
    }

    fn restart(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let running = self.running.lock().unwrap().take().unwrap();
            running.stop().await;
            let running = self.rig.start(self.options()).await;
            *self.running.lock().unwrap() = Some(running);
        })
    }
}

/// FC-080, FC-081, FC-082, FC-090 and FC-100 through a topic and its scheduler.
#[tokio::test]
async fn producer_and_scheduler_keep_the_rules_of_sinks() {
    let Some(rig) = rig("rules", 2).await else {
        return;
    };
    let scheduled = Scheduled {
        rig,
        folder: Folder::new("real-rules"),
        running: Mutex::default(),
    };
    let running = scheduled.rig.start(scheduled.options()).await;
    *scheduled.running.lock().unwrap() = Some(running);
    let checked = sink::check(&scheduled).await;
    assert_eq!(checked.len(), 8);
    all_kept(&checked).unwrap();
    let running = scheduled.running.lock().unwrap().take().unwrap();
    let counts = running.stop().await;
    assert_eq!(counts.early.load(Relaxed), 0);
}
