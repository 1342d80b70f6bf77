//! The transactional producer, on a thread of its own: librdkafka's transaction calls block.

mod attempt;
mod producer;

use super::group::{Commit, GroupMetadata};
use crate::error::{Error, Result};
use crate::record::OutgoingRecord;
use crate::transport::{Settings, TransactionError};
use producer::TransactionalProducer;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// How long one try to initialize takes at most, so that the thread hears when it is to end.
const SLICE: Duration = Duration::from_secs(1);

/// What becomes visible together, or not at all.
#[derive(Clone, Debug, Default)]
pub struct Transaction {
    /// Written in this order.
    pub records: Vec<OutgoingRecord>,
    /// Committed with them.
    pub offsets: Vec<Commit>,
    /// The group whose offsets they are; needed where there are any.
    pub group: Option<GroupMetadata>,
}

/// A transactional producer.
///
/// Its defaults are those of [`KafkaSink`](super::KafkaSink), and `transaction.timeout.ms=10000`:
/// how long a transaction may take, and how long the records of a producer that died keep
/// `read_committed` readers waiting. With more than one start of a transactional id the latest
/// counts, and what the earlier ones do is fatal to them.
///
/// Dropping it ends its thread in the background; a transaction under way is aborted.
pub struct TransactionalSink {
    jobs: Sender<Job>,
    /// At most one job is anywhere between its caller and the end of its work.
    turn: Arc<Semaphore>,
    stop: Arc<AtomicBool>,
    transactional_id: Arc<str>,
}

struct Job {
    work: Transaction,
    reply: oneshot::Sender<Result<(), TransactionError>>,
    _turn: OwnedSemaphorePermit,
}

impl TransactionalSink {
    /// Starts a producer. Its transactional id is taken over in the background, from whoever has it:
    /// an unfinished transaction of a producer before is ended by that.
    ///
    /// # Errors
    /// Kind Config when settings are missing or refused (all of them are named).
    pub fn start(settings: &Settings, transactional_id: &str) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let producer = TransactionalProducer::new(settings, transactional_id, Arc::clone(&stop))?;
        let (jobs, take_jobs) = channel();
        thread::Builder::new()
            .name("kafka-transact".to_owned())
            .spawn(move || run(producer, &take_jobs))
            .map_err(|cause| {
                Error::unavailable("could not start the thread of transactions").with_source(cause)
            })?;
        Ok(TransactionalSink {
            jobs,
            turn: Arc::new(Semaphore::new(1)),
            stop,
            transactional_id: transactional_id.into(),
        })
    }

    /// Writes the records and commits the offsets, all or nothing. Calls take turns. An empty
    /// transaction waits until the producer is ready: whatever one of the same id before it had
    /// begun is over then.
    ///
    /// Takes `transaction.timeout.ms` at most, and as long again for ending it. Dropping the future
    /// does not take the transaction back.
    ///
    /// # Errors
    /// Says whether it may have been committed, and what helps.
    pub async fn transact(&self, work: Transaction) -> Result<(), TransactionError> {
        let turn = Arc::clone(&self.turn).acquire_owned().await;
        let Ok(turn) = turn else {
            return Err(gone());
        };
        let (reply, result) = oneshot::channel();
        let job = Job {
            work,
            reply,
            _turn: turn,
        };
        self.jobs.send(job).map_err(|_| gone())?;
        // A thread that ends before it answers was stopped between two transactions.
        result.await.unwrap_or_else(|_| Err(gone()))
    }

    /// The id it was started with.
    pub fn transactional_id(&self) -> &str {
        &self.transactional_id
    }
}

fn gone() -> TransactionError {
    TransactionError::Fatal(Error::unavailable("the transactional producer is closed"))
}

fn run(mut producer: TransactionalProducer, jobs: &Receiver<Job>) {
    loop {
        // Before there is anything to do, so that the first transaction need not wait.
        let ready = producer.is_ready() || producer.prepare(SLICE).is_ok();
        let job = match ready {
            true => jobs.recv().map_err(|_| RecvTimeoutError::Disconnected),
            false => jobs.recv_timeout(Duration::from_millis(100)),
        };
        match job {
            Ok(Job { work, reply, _turn }) => {
                let result = producer.transact(&work);
                // Whoever asked may have gone.
                let _ = reply.send(result);
            }
            Err(RecvTimeoutError::Timeout) if !producer.is_stopped() => {}
            Err(_) => return,
        }
    }
}

impl Drop for TransactionalSink {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
    }
}

impl fmt::Debug for TransactionalSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TransactionalSink")
            .field(&self.transactional_id)
            .finish()
    }
}

#[cfg(test)]
mod tests;
