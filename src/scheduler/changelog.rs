//! Writing what waits, what is delivered and what is dead.

use super::options::{SchedulerCounts, SchedulerOptions};
use super::run::{Run, key_text};
use crate::answer::BoxFuture;
use crate::clock::Clock;
use crate::dead_letter::DeadLetters;
use crate::delay::embedded::runs::{RunIndex, RunKey};
use crate::error::{Error, Result};
use crate::outcome::Failure;
use crate::record::{OutgoingRecord, Part, Record};
use crate::status::{ErrorKind, Status};
use crate::transport::Delivered;
use crate::transport::kafka::KafkaSink;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::sleep;

/// First and longest wait before what failed is tried again.
const WAITS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

/// What all partitions share.
pub(super) struct Shared {
    pub(super) options: SchedulerOptions,
    /// `None` when what waits is kept in the folder alone.
    pub(super) changelog: Option<String>,
    pub(super) index: RunIndex,
    pub(super) sink: KafkaSink,
    pub(super) letters: DeadLetters,
    pub(super) counts: Arc<SchedulerCounts>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) warning: Mutex<Option<Error>>,
}

/// The time to stop, for one partition.
pub(super) type Stop = watch::Receiver<bool>;

pub(super) fn stopped(stop: &Stop) -> bool {
    *stop.borrow()
}

/// Done when it is time to stop, or when nobody could say so any more.
pub(super) async fn stopping(stop: &mut Stop) {
    let _ = stop.wait_for(|stop| *stop).await;
}

/// The n-th wait of something that goes on failing.
pub(super) fn wait(failures: u32) -> Duration {
    let (first, longest) = WAITS;
    let doubled = 2_u32.saturating_pow(failures.saturating_sub(1).min(16));
    first.saturating_mul(doubled).min(longest)
}

/// Whether trying again helps.
pub(super) fn passes(error: &Error) -> bool {
    error.status() == Status::Temporary && error.kind() != ErrorKind::Config
}

/// How writes to the changelog came out.
#[derive(Debug, Default)]
pub(super) struct Logged {
    /// The offsets of those that were acknowledged.
    pub(super) offsets: Vec<i64>,
    /// What the topic refuses for good, and why.
    pub(super) refused: Vec<(Run, Error)>,
    /// It was time to stop before all were acknowledged.
    pub(super) stopped: bool,
}

impl Shared {
    pub(super) fn now(&self) -> i64 {
        self.clock.now()
    }

    /// Keeps an error that is expected to pass.
    pub(super) fn warn(&self, warning: Error) {
        *self.warning.lock().unwrap_or_else(PoisonError::into_inner) = Some(warning);
    }

    /// Sends all at once, in order, and waits for every answer.
    pub(super) async fn send_all(&self, records: Vec<OutgoingRecord>) -> Vec<Result<Delivered>> {
        let sends = records.into_iter().map(|record| {
            let send: BoxFuture<'_, _> = Box::pin(self.sink.send(record));
            send
        });
        all(sends.collect()).await
    }

    /// Writes runs to the changelog until all are acknowledged or it is time to stop; one that is too
    /// large is cut.
    pub(super) async fn log_runs(
        &self,
        partition: i32,
        runs: &mut Vec<Run>,
        stop: &Stop,
    ) -> Result<Logged> {
        let mut logged = Logged::default();
        let Some(topic) = &self.changelog else {
            return Ok(logged);
        };
        let entry = |run: &Run| OutgoingRecord {
            value: Some(run.value()),
            ..self.tombstone(topic, partition, run.key)
        };
        let mut left = std::mem::take(runs);
        let mut failures = 0;
        while !left.is_empty() {
            let entries = left.iter().map(entry).collect();
            let answers = self.send_all(entries).await;
            let mut again = Vec::new();
            let mut failed = false;
            for (run, answer) in left.into_iter().zip(answers) {
                match answer {
                    Ok(delivered) => {
                        logged.offsets.push(delivered.offset);
                        runs.push(run);
                    }
                    Err(error) if error.kind() == ErrorKind::Config => return Err(error),
                    Err(error) if passes(&error) => {
                        failed = true;
                        again.push(run);
                    }
                    Err(error) => match run.clone().halves() {
                        Some((first, second)) => again.extend([first, second]),
                        None => logged.refused.push((run, error)),
                    },
                }
            }
            left = again;
            if failed {
                failures += 1;
                if !self.pause(failures, stop).await {
                    logged.stopped = true;
                    return Ok(logged);
                }
            }
        }
        Ok(logged)
    }

    /// Takes runs back in the changelog; the offsets of what was acknowledged, and whether all was.
    pub(super) async fn take_back(
        &self,
        partition: i32,
        keys: Vec<RunKey>,
        stop: &Stop,
    ) -> Result<(Vec<i64>, bool)> {
        let (mut left, mut offsets, mut failures) = (keys, Vec::new(), 0);
        let Some(topic) = &self.changelog else {
            return Ok((offsets, true));
        };
        while !left.is_empty() {
            let tombstones = left
                .iter()
                .map(|key| self.tombstone(topic, partition, *key));
            let answers = self.send_all(tombstones.collect()).await;
            let mut again = Vec::new();
            for (key, answer) in left.into_iter().zip(answers) {
                match answer {
                    Ok(delivered) => offsets.push(delivered.offset),
                    Err(error) if passes(&error) => again.push(key),
                    Err(error) => return Err(error),
                }
            }
            left = again;
            if !left.is_empty() {
                failures += 1;
                if !self.pause(failures, stop).await {
                    return Ok((offsets, false));
                }
            }
        }
        Ok((offsets, true))
    }

    fn tombstone(&self, topic: &str, partition: i32, key: RunKey) -> OutgoingRecord {
        OutgoingRecord {
            topic: topic.to_owned(),
            partition: Some(partition),
            key: Some(key_text(key).into()),
            ..OutgoingRecord::default()
        }
    }

    /// Writes dead letters until all are acknowledged; false when it was time to stop before.
    pub(super) async fn bury(&self, dead: &[Failure], stop: &Stop) -> Result<bool> {
        let mut left: Vec<(&Failure, u8)> = dead.iter().map(|failure| (failure, 0)).collect();
        let mut failures = 0;
        while !left.is_empty() {
            let now = self.now();
            let letter = |(failure, size): &(&Failure, u8)| match size {
                0 => self.letters.full(failure, now),
                1 => self.letters.shortened(failure, now),
                _ => self.letters.without_value(failure, now),
            };
            let letters = left.iter().map(letter).collect::<Result<Vec<_>>>()?;
            let answers = self.send_all(letters).await;
            let (mut again, mut failed) = (Vec::new(), false);
            for ((failure, size), answer) in left.into_iter().zip(answers) {
                match answer {
                    Ok(_) => SchedulerCounts::add(&self.counts.dead_lettered, 1),
                    Err(error) if passes(&error) => {
                        failed = true;
                        again.push((failure, size));
                    }
                    Err(error) if size >= 2 || error.kind() == ErrorKind::Config => {
                        return Err(error);
                    }
                    Err(_) => again.push((failure, size + 1)),
                }
            }
            left = again;
            if failed {
                failures += 1;
                if !self.pause(failures, stop).await {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Waits before the next try; false when it is time to stop.
    pub(super) async fn pause(&self, failures: u32, stop: &Stop) -> bool {
        let mut stop = stop.clone();
        tokio::select! {
            () = stopping(&mut stop) => false,
            () = sleep(wait(failures)) => true,
        }
    }
}

/// What is told of a record that is given up.
pub(super) fn failure(error: Error, record: &Record<'_>) -> Failure {
    *Failure::new(error, &record.context(Part::Value))
}

/// All answers, in order. Each future is started before any is waited for.
async fn all<T>(mut futures: Vec<BoxFuture<'_, T>>) -> Vec<T> {
    let mut answers: Vec<Option<T>> = Vec::with_capacity(futures.len());
    std::future::poll_fn(|cx| {
        for future in &mut futures {
            answers.push(match future.as_mut().poll(cx) {
                Poll::Ready(answer) => Some(answer),
                Poll::Pending => None,
            });
        }
        Poll::Ready(())
    })
    .await;
    let mut all = Vec::with_capacity(futures.len());
    for (future, answer) in futures.into_iter().zip(answers) {
        all.push(match answer {
            Some(answer) => answer,
            None => future.await,
        });
    }
    all
}
