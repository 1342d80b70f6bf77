//! What becomes of a record after its attempt: marked, written elsewhere, or held.

use super::contain::panicked;
use super::observe::{Count, TARGET};
use super::source::{Destination, Effects, Event, Failed, Origin, PartitionSource, Sent, Written};
use super::staging::bytes_of;
use super::verdict::{Verdict, judge};
use super::work::{Attempted, Job, Work};
use super::worker::Worker;
use crate::dead_letter::Retried;
use crate::error::Error;
use crate::record::OutgoingRecord;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use tracing::{Instrument, debug_span};

/// A record that is neither finished nor under way, while its partition pauses.
pub(super) enum Held<R> {
    /// To be handled again; it keeps its lane.
    Handle(Job<R>),
    /// To be written again.
    Write(Write<R>),
}

/// What is to be written before a record is finished.
pub(super) struct Write<R> {
    what: What<R>,
    size: usize,
}

enum What<R> {
    /// The record itself, elsewhere.
    Failed { failed: Failed, verdict: Verdict },
    /// What its handler made of it, and the record itself, should that never be written.
    Outputs(Arc<[OutgoingRecord]>, Box<Job<R>>),
}

impl<R> What<R> {
    /// What it keeps in memory besides the record.
    fn bytes(&self) -> usize {
        match self {
            What::Outputs(outputs, _) => bytes_of(outputs),
            What::Failed { .. } => 0,
        }
    }

    fn to(&self) -> Destination {
        match self {
            What::Outputs(..) => Destination::Output,
            What::Failed {
                verdict: Verdict::Delay(_),
                ..
            } => Destination::Delayed,
            What::Failed { .. } => Destination::DeadLetter,
        }
    }
}

impl<S, W, E> Worker<S, W, E>
where
    S: PartitionSource,
    W: Work<S::Record>,
    E: Effects,
{
    /// Does with a record what its attempt says.
    pub(super) fn settle(&mut self, mut job: Job<S::Record>) {
        let offset = job.offset;
        if self.probing == Some(offset) {
            self.probing = None;
        }
        let (origin, error) = match std::mem::replace(&mut job.outcome, Attempted::Open) {
            Attempted::Done(outputs) => {
                self.state.succeeded(offset);
                self.effects.event(Event::Handled { offset });
                self.queue.free(job.lane.take());
                let size = job.size;
                if outputs.is_empty() {
                    self.gauge.count(Count::Handled, 1);
                    self.finish(offset, size);
                } else {
                    let what = What::Outputs(outputs.into(), Box::new(job));
                    self.output_bytes = self.output_bytes.saturating_add(what.bytes());
                    self.write(offset, Write { what, size });
                }
                return;
            }
            Attempted::Failed(origin, error) => (origin, error),
            // Only an ending worker gives up between attempts: the record stays unmarked.
            Attempted::Abandoned | Attempted::Open => return,
        };
        self.fail(job, origin, error);
    }

    /// Does with a record that failed what it is judged to.
    fn fail(&mut self, mut job: Job<S::Record>, origin: Origin, error: Error) {
        let offset = job.offset;
        // Only a policy that delays asks how often the record was delivered.
        let deliveries = match self.settings.policy.delay {
            Some(_) => Retried::of(&job.record()).map_or(1, |retried| retried.attempt),
            None => job.attempts,
        };
        let policy = &self.settings.policy;
        let judging = AssertUnwindSafe(|| judge(&error, deliveries, policy));
        let judged = match catch_unwind(judging) {
            Ok(judged) => judged,
            Err(panic) => {
                drop(panicked(panic));
                return self.stop(Error::config(
                    "the matcher of ignore or the backoff of retries panicked",
                ));
            }
        };
        let verdict = self.state.failed(offset, judged, error.status());
        let failed = Failed {
            record: job.copied(),
            origin,
            error: Arc::new(error),
            attempts: job.attempts,
        };
        self.effects.event(Event::Judged {
            failed: &failed,
            verdict,
        });
        match verdict {
            Verdict::Done => {
                self.gauge.count(Count::Ignored, 1);
                self.finish(offset, job.size);
                self.queue.free(job.lane);
            }
            Verdict::DeadLetter | Verdict::Delay(_) => {
                self.queue.free(job.lane);
                let size = job.size;
                drop(job);
                let what = What::Failed { failed, verdict };
                self.write(offset, Write { what, size });
            }
            Verdict::Pause if self.is_ending() => {}
            Verdict::Pause => {
                self.held.insert(offset, Held::Handle(job));
            }
            Verdict::Stop => {
                let Failed { record, error, .. } = failed;
                drop(record);
                let error = Arc::try_unwrap(error).unwrap_or_else(|error| {
                    Error::new(error.kind(), error.status(), error.message().to_owned())
                });
                self.stop(error);
            }
        }
    }

    /// Starts a write, whose outputs are counted already. Its first poll is here, so that writes begin in the order of the verdicts.
    fn write(&mut self, offset: i64, write: Write<S::Record>) {
        let effects = &self.effects;
        let to = write.what.to().as_str();
        let span = debug_span!(target: TARGET, "write", offset, to);
        let entered = span.enter();
        let started = catch_unwind(AssertUnwindSafe(|| {
            let mut future = match &write.what {
                What::Outputs(outputs, job) => effects.outputs(&Sent {
                    record: &job.record(),
                    attempts: job.attempts,
                    outputs,
                }),
                What::Failed {
                    failed,
                    verdict: Verdict::Delay(wait),
                } => effects.delay(failed, *wait),
                What::Failed { failed, .. } => effects.dead_letter(failed),
            };
            match future
                .as_mut()
                .poll(&mut Context::from_waker(Waker::noop()))
            {
                Poll::Ready(written) => Ok(written),
                Poll::Pending => Err(future),
            }
        }));
        drop(entered);
        self.letters += usize::from(matches!(write.what, What::Failed { .. }));
        self.writes.insert(offset, write);
        match started {
            Ok(Ok(written)) => self.wrote(offset, written),
            Ok(Err(future)) => {
                let written = async move {
                    let contained = super::contain::contained(async { Ok(future.await) });
                    (offset, contained.await.unwrap_or_else(Written::Held))
                };
                self.writing.spawn(written.instrument(span));
            }
            Err(panic) => self.wrote(offset, Written::Held(panicked(panic))),
        }
    }

    /// A write is over.
    pub(super) fn wrote(&mut self, offset: i64, written: Written) {
        if self.probing == Some(offset) {
            self.probing = None;
        }
        let Some(Write { what, size }) = self.writes.remove(&offset) else {
            return;
        };
        self.output_bytes = self.output_bytes.saturating_sub(what.bytes());
        if let What::Failed { .. } = what {
            self.letters = self.letters.saturating_sub(1);
        }
        match (written, what) {
            (Written::Acknowledged, what) => {
                self.tell_written(offset, &what);
                self.state.written(offset);
                self.finish(offset, size);
            }
            (Written::Failed(error), What::Outputs(_, job)) => {
                self.fail(*job, Origin::Handler, error.at("output"));
            }
            (
                Written::Failed(error),
                What::Failed {
                    failed,
                    verdict: Verdict::Delay(_),
                },
            ) => {
                self.tell_unwritten(offset, Destination::Delayed, &error);
                let verdict = Verdict::DeadLetter;
                let what = What::Failed { failed, verdict };
                self.write(offset, Write { what, size });
            }
            (Written::Partly(left, error), What::Outputs(_, job)) => {
                self.hold(offset, What::Outputs(left, job), size, &error);
            }
            (Written::Held(error) | Written::Failed(error) | Written::Partly(_, error), what) => {
                self.hold(offset, what, size, &error)
            }
            (Written::Refused(error), _) => self.stop(error),
        }
    }

    fn hold(&mut self, offset: i64, what: What<S::Record>, size: usize, error: &Error) {
        self.tell_unwritten(offset, what.to(), error);
        self.state.unwritten(offset);
        if !self.is_ending() {
            self.output_bytes = self.output_bytes.saturating_add(what.bytes());
            self.held.insert(offset, Held::Write(Write { what, size }));
        }
    }

    fn tell_unwritten(&self, offset: i64, to: Destination, error: &Error) {
        self.effects.event(Event::Unwritten { offset, to, error });
    }

    fn tell_written(&self, offset: i64, what: &What<S::Record>) {
        let to = what.to();
        let count = match to {
            Destination::Output | Destination::Transaction => Count::Handled,
            Destination::Delayed => Count::Delayed,
            Destination::DeadLetter => Count::DeadLetters,
        };
        self.gauge.count(count, 1);
        let failed = match what {
            What::Failed { failed, .. } => Some(failed),
            What::Outputs(..) => None,
        };
        self.effects.event(Event::Written { offset, to, failed });
    }

    fn finish(&mut self, offset: i64, size: usize) {
        self.offsets.finish(offset);
        self.bytes = self.bytes.saturating_sub(size);
        self.raise_mark();
    }

    pub(super) fn raise_mark(&mut self) {
        if let Some(mark) = self.offsets.mark() {
            self.mark.raise(mark);
        }
        self.mark.set_oldest(self.offsets.oldest());
    }

    /// Tells of pauses, and lets go of what is held once there is none.
    pub(super) fn reconcile(&mut self) {
        if self.state.paused().is_none() && !self.held.is_empty() {
            let mut jobs = Vec::new();
            for (offset, held) in std::mem::take(&mut self.held) {
                match held {
                    Held::Handle(job) => jobs.push(job),
                    Held::Write(write) => self.write(offset, write),
                }
            }
            self.queue.put_back(jobs);
        }
        let paused = self.state.paused();
        if paused == self.told {
            return;
        }
        match (paused, self.state.probe()) {
            (Some(reason), Some(probe)) => self.effects.event(Event::Paused {
                offset: probe.offset,
                reason,
            }),
            _ => self.effects.event(Event::Resumed { by_user: false }),
        }
        self.told = paused;
    }

    /// A user says to go on.
    pub(super) fn resume(&mut self) {
        if self.state.resume() {
            self.told = None;
            self.effects.event(Event::Resumed { by_user: true });
        }
    }

    /// Takes the probe's next try: a write is started here, a job is the caller's to run.
    pub(super) fn start_probe(&mut self) -> Option<Job<S::Record>> {
        let offset = self.state.probe()?.offset;
        match self.held.remove(&offset)? {
            Held::Handle(job) => {
                self.probing = Some(offset);
                Some(job)
            }
            Held::Write(write) => {
                self.probing = Some(offset);
                self.write(offset, write);
                None
            }
        }
    }
}
