//! One attempt: read what records hold and have it handled.

use super::contain::{contained, within};
use super::handler::{BatchHandler, Handler, HandlerContext, HandlerError, Outputs};
use super::observe::Timing;
use super::reader::{Halves, Reader};
use super::source::{Origin, SourceRecord};
use crate::error::{Error, Result};
use crate::outcome::{Failure, Outcome};
use crate::record::{OutgoingRecord, OwnedRecord, Part, Record};
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// A record between being taken and being finished.
pub struct Job<R> {
    pub(super) offset: i64,
    pub(super) size: usize,
    /// The lane whose order it keeps, in key order.
    pub(super) lane: Option<u64>,
    pub(super) attempts: u32,
    /// Its headers cannot be read.
    damaged: bool,
    body: Body<R>,
    pub(super) outcome: Attempted,
}

impl<R> fmt::Debug for Job<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job")
            .field("offset", &self.offset)
            .field("attempts", &self.attempts)
            .finish_non_exhaustive()
    }
}

enum Body<R> {
    Held(R),
    Copied(Arc<OwnedRecord>),
}

/// What became of a job's latest attempt.
pub(super) enum Attempted {
    /// There was none yet, or there is to be another.
    Open,
    /// It was handled, and this is to be written.
    Done(Vec<OutgoingRecord>),
    Failed(Origin, Error),
    /// It was given up between two attempts, for its partition is given up.
    Abandoned,
}

impl<R: SourceRecord> Job<R> {
    pub(super) fn new(record: R, offset: i64, size: usize, lane: Option<u64>) -> Self {
        Job {
            offset,
            size,
            lane,
            attempts: 0,
            damaged: !record.has_readable_headers(),
            body: Body::Held(record),
            outcome: Attempted::Open,
        }
    }

    pub(super) fn record(&self) -> Record<'_> {
        match &self.body {
            Body::Held(record) => record.record(),
            Body::Copied(record) => record.as_record(),
        }
    }

    /// The record as its own copy; lets go of the transport's.
    pub(super) fn copied(&mut self) -> Arc<OwnedRecord> {
        let copy = match &self.body {
            Body::Copied(record) => return Arc::clone(record),
            Body::Held(record) => Arc::new(record.record().to_owned()),
        };
        self.body = Body::Copied(Arc::clone(&copy));
        copy
    }

    /// A record with other headers than it was written with is nothing to hand to anybody.
    fn readable(&self) -> std::result::Result<(), Unfinished> {
        match self.damaged {
            true => Err(Unfinished::Declined(Error::malformed(
                "the headers cannot be read: they are damaged, or too many",
            ))),
            false => Ok(()),
        }
    }

    fn close(&mut self, attempted: Handled) {
        self.attempts = self.attempts.saturating_add(1);
        let (origin, error) = match attempted {
            Ok(outputs) => {
                self.outcome = Attempted::Done(outputs);
                return;
            }
            Err(Unfinished::Unread(failure)) => {
                let Failure {
                    error,
                    part,
                    record,
                } = *failure;
                if matches!(self.body, Body::Held(_)) {
                    self.body = Body::Copied(Arc::new(record));
                }
                (Origin::Chain(part), error)
            }
            Err(Unfinished::Declined(error)) => (Origin::Chain(Part::Value), error),
            Err(Unfinished::Unhandled(error)) => (Origin::Handler, error.at("handler")),
        };
        self.copied();
        self.outcome = Attempted::Failed(origin, error);
    }
}

enum Unfinished {
    Unread(Box<Failure>),
    Declined(Error),
    Unhandled(Error),
}

/// What one attempt came to.
type Handled = std::result::Result<Vec<OutgoingRecord>, Unfinished>;

/// How records are handled: one by one, or many in one call.
pub trait Work<R: SourceRecord>: Send + Sync + 'static {
    /// The most records of one call.
    fn group(&self) -> usize;

    /// Makes one attempt on every job that is open, and closes it. Contains all panics.
    fn attempt(&self, jobs: &mut [Job<R>]) -> impl Future<Output = ()> + Send;
}

/// Handles records one by one.
#[derive(Debug)]
pub struct Single<D, H> {
    reader: D,
    handler: H,
    timeout: Option<Duration>,
    timing: Timing,
}

impl<D, H> Single<D, H> {
    /// Has `handler` handle what `reader` reads.
    pub fn new(reader: D, handler: H) -> Self {
        Single {
            reader,
            handler,
            timeout: None,
            timing: Timing::off(),
        }
    }

    /// Has chain and handler measured.
    #[must_use]
    pub fn timing(mut self, timing: Timing) -> Self {
        self.timing = timing;
        self
    }

    /// Ends a call of the handler that takes longer, with a Temporary error of kind Timeout. The chain
    /// is not in that time: its retries have limits of their own.
    #[must_use]
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }
}

fn unread<T>(read: Result<Outcome<T>>) -> std::result::Result<T, Unfinished> {
    match read {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(failure)) => Err(Unfinished::Unread(failure)),
        Err(error) => Err(Unfinished::Declined(error)),
    }
}

impl<D: Reader, H: Handler<D::Value>> Single<D, H> {
    async fn once(&self, record: &Record<'_>, attempt: u32) -> Handled {
        let halves = Halves::of(record);
        let since = self.timing.start();
        let read = self.reader.read(&halves).await;
        let since = self.timing.chain(since);
        let value = unread(read)?;
        let outputs = Outputs::new();
        let context = HandlerContext::new(record, attempt, &outputs);
        let limit = self.timeout.filter(|_| self.handler.is_cancellable());
        let handled = within(limit, self.handler.handle(value, &context)).await;
        self.timing.handler(since);
        match handled {
            Ok(Ok(())) => Ok(outputs.into_records()),
            Ok(Err(error)) => Err(Unfinished::Unhandled(error.into_error())),
            Err(late) => Err(Unfinished::Unhandled(late)),
        }
    }
}

impl<R, D, H> Work<R> for Single<D, H>
where
    R: SourceRecord,
    D: Reader,
    H: Handler<D::Value>,
{
    fn group(&self) -> usize {
        1
    }

    async fn attempt(&self, jobs: &mut [Job<R>]) {
        for job in jobs {
            if !matches!(job.outcome, Attempted::Open) {
                continue;
            }
            let attempted = match job.readable() {
                Err(damaged) => Ok(Err(damaged)),
                Ok(()) => {
                    let record = job.record();
                    let once = self.once(&record, job.attempts.saturating_add(1));
                    contained(async { Ok(once.await) }).await
                }
            };
            job.close(attempted.unwrap_or_else(|panic| Err(Unfinished::Unhandled(panic))));
        }
    }
}

/// Handles records in batches, of what is there: it never waits for a batch to fill.
#[derive(Debug)]
pub struct Batch<D, H> {
    reader: D,
    handler: H,
    size: usize,
    timeout: Option<Duration>,
    timing: Timing,
}

impl<D, H> Batch<D, H> {
    /// Has `handler` handle up to `size` (at least one) values that `reader` reads.
    pub fn new(reader: D, handler: H, size: usize) -> Self {
        Batch {
            reader,
            handler,
            size: size.max(1),
            timeout: None,
            timing: Timing::off(),
        }
    }

    /// Has chains and handler measured: each record's chain, each call of the handler.
    #[must_use]
    pub fn timing(mut self, timing: Timing) -> Self {
        self.timing = timing;
        self
    }

    /// Ends a call of the handler that takes longer; all its items failed then.
    #[must_use]
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }
}

impl<R, D, H> Work<R> for Batch<D, H>
where
    R: SourceRecord,
    D: Reader,
    H: BatchHandler<D::Value>,
{
    fn group(&self) -> usize {
        self.size
    }

    async fn attempt(&self, jobs: &mut [Job<R>]) {
        let mut closing = Vec::with_capacity(jobs.len());
        for job in &mut *jobs {
            if let (Attempted::Open, Err(damaged)) = (&job.outcome, job.readable()) {
                job.close(Err(damaged));
            }
        }
        {
            let open: Vec<(usize, u32, Record<'_>)> = jobs
                .iter()
                .enumerate()
                .filter(|(_, job)| matches!(job.outcome, Attempted::Open))
                .map(|(index, job)| (index, job.attempts.saturating_add(1), job.record()))
                .collect();
            let (mut values, mut given) = (Vec::new(), Vec::new());
            for (index, attempt, record) in &open {
                let halves = Halves::of(record);
                let since = self.timing.start();
                let read = contained(async { Ok(unread(self.reader.read(&halves).await)) }).await;
                self.timing.chain(since);
                match read.unwrap_or_else(|panic| Err(Unfinished::Unhandled(panic))) {
                    Ok(value) => {
                        values.push(value);
                        given.push((*index, *attempt, record));
                    }
                    Err(unfinished) => closing.push((*index, Err(unfinished))),
                }
            }
            if !given.is_empty() {
                let outputs: Vec<Outputs> = given.iter().map(|_| Outputs::new()).collect();
                let contexts: Vec<HandlerContext<'_>> = given
                    .iter()
                    .zip(&outputs)
                    .map(|((_, attempt, record), outputs)| {
                        HandlerContext::new(record, *attempt, outputs)
                    })
                    .collect();
                let since = self.timing.start();
                let results = contained(async {
                    let handle = self.handler.handle(values, &contexts);
                    let results = within(self.timeout, handle).await?.into_iter();
                    Ok(results
                        .map(|result| result.map_err(HandlerError::into_error))
                        .collect())
                });
                let results: Result<Vec<Result<()>>> = results.await;
                self.timing.handler(since);
                let results = per_item(results, given.len()).into_iter().zip(outputs);
                closing.extend(given.iter().zip(results).map(
                    |((index, ..), (result, outputs))| {
                        (*index, result.map(|()| outputs.into_records()))
                    },
                ));
            }
        }
        for (index, attempted) in closing {
            if let Some(job) = jobs.get_mut(index) {
                job.close(attempted);
            }
        }
    }
}

/// One result an item, whatever the handler answered.
fn per_item(
    results: Result<Vec<Result<()>>>,
    count: usize,
) -> Vec<std::result::Result<(), Unfinished>> {
    let all = |error: &dyn Fn() -> Error| {
        let fail = |_| Err(Unfinished::Unhandled(error()));
        (0..count).map(fail).collect()
    };
    match results {
        Ok(results) if results.len() == count => results
            .into_iter()
            .map(|result| result.map_err(Unfinished::Unhandled))
            .collect(),
        Ok(results) => all(&|| {
            Error::config(format!(
                "the batch handler answered {} results for {count} items",
                results.len()
            ))
        }),
        Err(error) => all(&|| Error::new(error.kind(), error.status(), error.message().to_owned())),
    }
}
