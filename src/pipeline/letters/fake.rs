//! A cluster that misbehaves on demand, and its clients, which remember as librdkafka's do.

use super::client::{Client, Start};
use super::producer::PipelineProducer;
use crate::answer::BoxFuture;
use crate::error::{Error, Result};
use crate::record::OutgoingRecord;
use crate::transport::{Delivered, Settings, WriteFailure};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::sleep;

/// How long a client gathers a batch.
pub(super) const LINGER: Duration = Duration::from_millis(10);

/// How long a client waits for a cluster that does not answer.
pub(super) const UNANSWERED: Duration = Duration::from_secs(10);

#[derive(Clone)]
pub(super) struct Topic {
    pub(super) partitions: i32,
    /// The largest batch in bytes of values and headers.
    pub(super) largest: usize,
    pub(super) granted: bool,
    pub(super) oldest: i64,
}

impl Topic {
    pub(super) fn of(partitions: i32) -> Self {
        Topic {
            partitions,
            largest: usize::MAX,
            granted: true,
            oldest: i64::MIN,
        }
    }
}

#[derive(Default)]
pub(super) struct State {
    pub(super) topics: HashMap<String, Topic>,
    pub(super) down: bool,
    /// The next write ends like this.
    pub(super) next: Option<Error>,
    /// The settings of each client that was started.
    pub(super) started: Vec<Settings>,
    pub(super) refuses_to_start: bool,
    pub(super) looks: usize,
    /// What was queued, with the number of its client.
    pub(super) queued: Vec<(usize, OutgoingRecord)>,
    pub(super) written: Vec<OutgoingRecord>,
}

#[derive(Clone, Default)]
pub(super) struct Cluster(Arc<Mutex<State>>);

impl Cluster {
    pub(super) fn with(topics: &[(&str, Topic)]) -> Self {
        let cluster = Cluster::default();
        for (name, topic) in topics {
            cluster.set(name, topic.clone());
        }
        cluster
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    pub(super) fn set(&self, name: &str, topic: Topic) {
        self.state().topics.insert(name.to_owned(), topic);
    }

    pub(super) fn producer(&self) -> PipelineProducer {
        PipelineProducer::with(self.start(), &Settings::new()).unwrap()
    }

    pub(super) fn written(&self) -> Vec<OutgoingRecord> {
        self.state().written.clone()
    }

    pub(super) fn starts(&self) -> usize {
        self.state().started.len()
    }

    pub(super) fn start(&self) -> Start {
        let cluster = self.clone();
        Box::new(move |settings| {
            let mut state = cluster.state();
            if state.refuses_to_start {
                return Err(Error::config("could not start a producer: no certificate"));
            }
            state.started.push(settings.clone());
            Ok(Arc::new(FakeClient {
                number: state.started.len(),
                alone: settings.get("batch.num.messages") == Some("1"),
                cluster: cluster.clone(),
                memory: Arc::default(),
            }))
        })
    }
}

struct FakeClient {
    number: usize,
    alone: bool,
    cluster: Cluster,
    memory: Arc<Mutex<Memory>>,
}

/// What a client keeps to itself.
#[derive(Default)]
struct Memory {
    denied: HashSet<String>,
    fatal: bool,
    batch: Vec<(OutgoingRecord, oneshot::Sender<Result<Delivered>>)>,
}

fn refused(topic: &str, failure: WriteFailure) -> Error {
    Error::unavailable(format!("could not write to topic {topic}: {failure}")).with_source(failure)
}

fn size(record: &OutgoingRecord) -> usize {
    let headers = record.headers.iter();
    let headers: usize = headers
        .map(|(n, v)| n.len() + v.map_or(0, |v| v.len()))
        .sum();
    headers + record.value.as_ref().map_or(0, |value| value.len())
}

impl Client for FakeClient {
    fn send(&self, record: OutgoingRecord) -> BoxFuture<'static, Result<Delivered>> {
        let (cluster, memory) = (self.cluster.clone(), Arc::clone(&self.memory));
        let (number, alone) = (self.number, self.alone);
        Box::pin(async move {
            cluster.state().queued.push((number, record.clone()));
            let (report, done) = oneshot::channel();
            let first = {
                let mut memory = memory.lock().unwrap();
                memory.batch.push((record, report));
                memory.batch.len() == 1
            };
            if first || alone {
                let memory = Arc::clone(&memory);
                tokio::spawn(async move {
                    sleep(LINGER).await;
                    deliver(&cluster, &memory, alone).await;
                });
            }
            done.await.unwrap()
        })
    }

    fn partitions(&self, topic: &str) -> BoxFuture<'static, Result<Option<i32>>> {
        let (cluster, topic) = (self.cluster.clone(), topic.to_owned());
        Box::pin(async move {
            cluster.state().looks += 1;
            sleep(LINGER).await;
            if cluster.state().down {
                sleep(UNANSWERED).await;
                return Err(Error::timeout(format!("could not look up topic {topic}")));
            }
            let state = cluster.state();
            Ok(state.topics.get(&topic).map(|topic| topic.partitions))
        })
    }

    fn flush(&self, limit: Duration) -> BoxFuture<'static, Result<()>> {
        let memory = Arc::clone(&self.memory);
        Box::pin(async move {
            let deadline = tokio::time::Instant::now() + limit;
            while !memory.lock().unwrap().batch.is_empty() {
                sleep(LINGER).await;
                if tokio::time::Instant::now() > deadline {
                    return Err(Error::timeout("not flushed"));
                }
            }
            Ok(())
        })
    }
}

/// Writes a batch, or refuses it as one.
async fn deliver(cluster: &Cluster, memory: &Mutex<Memory>, alone: bool) {
    if cluster.state().down {
        sleep(UNANSWERED).await;
    }
    let batch: Vec<_> = {
        let mut memory = memory.lock().unwrap();
        let count = if alone { 1 } else { memory.batch.len() };
        memory.batch.drain(..count).collect()
    };
    let (mut cluster, mut memory) = (cluster.state(), memory.lock().unwrap());
    let total: usize = batch.iter().map(|(record, _)| size(record)).sum();
    for (record, report) in batch {
        let failure = match cluster.topics.get(&record.topic) {
            _ if memory.fatal => Some(WriteFailure::Fatal),
            _ if memory.denied.contains(&record.topic) => Some(WriteFailure::Unauthorized),
            None => Some(WriteFailure::UnknownTopic),
            Some(topic) if !topic.granted => Some(WriteFailure::Unauthorized),
            Some(topic) if record.partition.is_some_and(|p| p >= topic.partitions) => {
                Some(WriteFailure::UnknownPartition)
            }
            Some(topic) if total > topic.largest => Some(WriteFailure::TooLarge),
            Some(topic) if record.timestamp.is_some_and(|at| at < topic.oldest) => {
                Some(WriteFailure::InvalidTimestamp)
            }
            Some(_) => None,
        };
        let mut error = failure.map(|failure| refused(&record.topic, failure));
        if cluster.down {
            error = Some(Error::timeout(format!(
                "could not write to topic {}: no answer",
                record.topic
            )));
        }
        if let Some(next) = cluster.next.take() {
            memory.fatal = WriteFailure::of(&next) == Some(WriteFailure::Fatal);
            error = Some(next);
        }
        if failure == Some(WriteFailure::Unauthorized) {
            memory.denied.insert(record.topic.clone());
        }
        // Nobody may be waiting any more.
        let _ = report.send(match error {
            Some(error) => Err(error),
            None => {
                let offset = i64::try_from(cluster.written.len()).unwrap();
                let partition = record.partition.unwrap_or(0);
                cluster.written.push(record);
                Ok(Delivered { partition, offset })
            }
        });
    }
}
