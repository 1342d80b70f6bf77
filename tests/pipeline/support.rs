//! A partition in memory, a desk that takes dead letters, and a handler that follows a script.

use bytes::Bytes;
use kafka_chain::backoff::{Fixed, SharedBackoff};
use kafka_chain::pipeline::observe::PartitionGauge;
use kafka_chain::pipeline::{
    Attempts, Effects, Ended, Event, Failed, Handler, HandlerContext, Ledger, MarkCell,
    PartitionSource, ReadWith, Room, Sent, Single, Taken, TopicPartition, Work, WorkerControl,
    WorkerParts, WorkerSettings, Written, read_with, worker,
};
use kafka_chain::{BoxFuture, Error, OwnedRecord, Record, Result};
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::Instant;

pub(crate) fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) fn record(offset: i64, key: Option<&str>, value: &str) -> OwnedRecord {
    OwnedRecord {
        topic: "orders".to_owned(),
        offset,
        key: key.map(|key| Bytes::copy_from_slice(key.as_bytes())),
        value: Some(Bytes::copy_from_slice(value.as_bytes())),
        ..OwnedRecord::default()
    }
}

/// The records of a partition, which outlive every ownership of it.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<LogState>>);

#[derive(Default)]
struct LogState {
    records: Vec<OwnedRecord>,
    over: bool,
    waker: Option<Waker>,
    handed_out: usize,
}

impl Log {
    pub(crate) fn of(offsets: impl IntoIterator<Item = i64>) -> Self {
        let log = Log::default();
        for offset in offsets {
            log.append(record(offset, None, "{}"));
        }
        log
    }

    pub(crate) fn append(&self, record: OwnedRecord) {
        let mut state = self.0.lock().unwrap();
        state.records.push(record);
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }

    /// Nothing comes after what is there.
    pub(crate) fn end(self) -> Self {
        self.0.lock().unwrap().over = true;
        self
    }

    pub(crate) fn handed_out(&self) -> usize {
        self.0.lock().unwrap().handed_out
    }

    pub(crate) fn source(&self, from: i64) -> LogSource {
        LogSource {
            log: self.clone(),
            next: from,
            rewind: None,
        }
    }
}

pub(crate) struct LogSource {
    log: Log,
    next: i64,
    /// Having handed out the first, it hands out all from the second on again.
    pub(crate) rewind: Option<(i64, i64)>,
}

impl PartitionSource for LogSource {
    type Record = OwnedRecord;

    fn poll_take(
        &mut self,
        cx: &mut Context<'_>,
        room: Room,
        into: &mut Vec<OwnedRecord>,
    ) -> Poll<Taken> {
        assert!(room.records > 0 && room.bytes > 0, "{room:?}");
        let mut state = self.log.0.lock().unwrap();
        let (mut count, mut bytes) = (0, 0);
        for record in state.records.iter().filter(|r| r.offset >= self.next) {
            if count == room.records || bytes >= room.bytes {
                break;
            }
            count += 1;
            bytes += record.value.as_ref().map_or(0, Bytes::len);
            into.push(record.clone());
        }
        if let Some(last) = into.last() {
            self.next = last.offset + 1;
            if let Some((_, to)) = self.rewind.take_if(|(at, _)| *at < self.next) {
                self.next = to;
            }
            state.handed_out += count;
            return Poll::Ready(Taken::Records);
        }
        if state.over {
            return Poll::Ready(Taken::Over);
        }
        state.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

type Answering = dyn Fn(&Failed) -> BoxFuture<'static, Written> + Send + Sync;

/// Takes dead letters, and notes what it is told.
pub(crate) struct Desk {
    answer: Box<Answering>,
    /// One permit for each record of which outputs are written.
    pub(crate) outputs: Arc<Semaphore>,
    hook: Duration,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    dead_letters: Vec<Failed>,
    events: Vec<String>,
}

impl Default for Desk {
    fn default() -> Self {
        Desk::answering(|_| Box::pin(async { Written::Acknowledged }))
    }
}

impl Desk {
    pub(crate) fn answering(
        answer: impl Fn(&Failed) -> BoxFuture<'static, Written> + Send + Sync + 'static,
    ) -> Self {
        Desk {
            answer: Box::new(answer),
            outputs: Arc::new(Semaphore::new(0)),
            hook: Duration::ZERO,
            seen: Mutex::default(),
        }
    }

    pub(crate) fn with_hook(self, hook: Duration) -> Self {
        Desk { hook, ..self }
    }

    /// What was handed to the desk, acknowledged or not.
    pub(crate) fn dead_letters(&self) -> Vec<Failed> {
        self.seen.lock().unwrap().dead_letters.clone()
    }

    pub(crate) fn dead_offsets(&self) -> Vec<i64> {
        let letters = self.dead_letters();
        letters.iter().map(|failed| failed.record.offset).collect()
    }

    pub(crate) fn events(&self) -> Vec<String> {
        self.seen.lock().unwrap().events.clone()
    }

    pub(crate) fn told(&self, event: &str) -> usize {
        self.events().iter().filter(|told| *told == event).count()
    }
}

impl Effects for Desk {
    fn dead_letter(&self, failed: &Failed) -> BoxFuture<'static, Written> {
        self.seen.lock().unwrap().dead_letters.push(failed.clone());
        (self.answer)(failed)
    }

    fn outputs(&self, _: &Sent<'_>) -> BoxFuture<'static, Written> {
        let permits = Arc::clone(&self.outputs);
        Box::pin(async move {
            permits.acquire().await.unwrap().forget();
            Written::Acknowledged
        })
    }

    fn assigned(&self) -> BoxFuture<'static, Result<()>> {
        let hook = self.hook;
        Box::pin(async move {
            tokio::time::sleep(hook).await;
            Ok(())
        })
    }

    fn event(&self, event: Event<'_>) {
        let told = match event {
            Event::Paused { offset, reason } => format!("paused {} at {offset}", reason.as_str()),
            Event::Resumed { by_user } => format!("resumed {by_user}"),
            Event::Repeated { offset } => format!("repeated {offset}"),
            Event::Unwritten { offset, .. } => format!("unwritten {offset}"),
            _ => return,
        };
        self.seen.lock().unwrap().events.push(told);
    }
}

/// One call of the handler: which offset, which attempt, and how long after the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) offset: i64,
    pub(crate) attempt: u32,
    pub(crate) at: Duration,
}

type Acting = dyn Fn(i64, u32) -> BoxFuture<'static, Result<()>> + Send + Sync;

/// A handler that follows a script and notes its calls.
#[derive(Clone)]
pub(crate) struct Script {
    act: Arc<Acting>,
    started: Instant,
    calls: Arc<Mutex<Vec<Call>>>,
}

impl Script {
    pub(crate) fn new<F>(act: impl Fn(i64, u32) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        Script {
            act: Arc::new(move |offset, attempt| Box::pin(act(offset, attempt))),
            started: Instant::now(),
            calls: Arc::default(),
        }
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap().clone()
    }

    pub(crate) fn offsets(&self) -> Vec<i64> {
        self.calls().iter().map(|call| call.offset).collect()
    }

    pub(crate) fn count(&self, offset: i64) -> usize {
        self.offsets().iter().filter(|o| **o == offset).count()
    }
}

impl<T: Send + 'static> Handler<T> for Script {
    type Error = Error;

    async fn handle(&self, _: T, context: &HandlerContext<'_>) -> Result<()> {
        let (offset, attempt) = (context.record().offset, context.attempt());
        self.calls.lock().unwrap().push(Call {
            offset,
            attempt,
            at: self.started.elapsed(),
        });
        (self.act)(offset, attempt).await
    }
}

/// Reads a value as JSON.
pub(crate) fn json() -> ReadWith<impl Fn(&Record<'_>) -> Result<serde_json::Value>> {
    read_with(|record| {
        serde_json::from_slice(record.value.unwrap_or_default())
            .map_err(|_| Error::malformed("not JSON"))
    })
}

pub(crate) fn attempts(limit: u32, wait: Duration) -> Attempts {
    Attempts::new(Some(limit), SharedBackoff::new(Fixed::new(wait, 1_000)))
}

pub(crate) fn settings() -> WorkerSettings {
    WorkerSettings {
        attempts: attempts(3, secs(1)),
        ..WorkerSettings::default()
    }
}

/// A worker at work.
pub(crate) struct Rig {
    pub(crate) ledger: Ledger,
    pub(crate) mark: MarkCell,
    pub(crate) gauge: PartitionGauge,
    pub(crate) control: WorkerControl,
    pub(crate) desk: Arc<Desk>,
    pub(crate) task: JoinHandle<Ended>,
}

pub(crate) fn orders() -> TopicPartition {
    TopicPartition::new("orders", 0)
}

impl Rig {
    pub(crate) fn start(log: &Log, script: &Script, settings: WorkerSettings) -> Self {
        Rig::with(
            log.source(0),
            Single::new(json(), script.clone()),
            settings,
            Desk::default(),
        )
    }

    pub(crate) fn with(
        source: LogSource,
        work: impl Work<OwnedRecord>,
        settings: WorkerSettings,
        desk: Desk,
    ) -> Self {
        let (mut ledger, desk) = (Ledger::new(), Arc::new(desk));
        let mark = ledger.assign(orders());
        let gauge = PartitionGauge::new(orders(), mark.clone());
        let parts = WorkerParts {
            source,
            committed: None,
            work: Arc::new(work),
            effects: Arc::clone(&desk),
            settings: Arc::new(settings),
            mark: mark.clone(),
            gauge: gauge.clone(),
        };
        let (worker, control) = worker(parts).unwrap();
        Rig {
            ledger,
            mark,
            gauge,
            control,
            desk,
            task: tokio::spawn(worker.run()),
        }
    }

    /// Waits for the end of a worker whose source ends.
    pub(crate) async fn over(self) -> Done {
        let ended = tokio::time::timeout(secs(100_000), self.task).await;
        Done {
            ended: ended.expect("the worker came to its end").unwrap(),
            mark: self.mark.get(),
            desk: self.desk,
            ledger: self.ledger,
        }
    }
}

pub(crate) struct Done {
    pub(crate) ended: Ended,
    pub(crate) mark: Option<i64>,
    pub(crate) desk: Arc<Desk>,
    pub(crate) ledger: Ledger,
}

impl Done {
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.ended, Ended::Over)
    }
}
