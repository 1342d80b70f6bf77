//! Delivering what is due: to its target, then out of the changelog, then out of the index.

use super::changelog::{failure, passes, stopped, stopping, wait};
use super::options::SchedulerCounts;
use super::partition::{Partition, Session};
use super::run::{Run, Stored};
use crate::delay::deliver::addressed;
use crate::delay::embedded::runs::{Change, Look, RunKey};
use crate::error::{Error, Result};
use crate::outcome::Failure;
use crate::record::{OutgoingRecord, OwnedRecord};
use crate::status::ErrorKind;
use bytes::Bytes;
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::sleep;

/// About the most bytes that are delivered at once.
const BATCH_BYTES: usize = 4 << 20;

/// A run that is due.
struct DueRun {
    /// Where the index has it.
    row: RunKey,
    stored: Stored,
    run: Run,
    records: Vec<OutgoingRecord>,
}

/// What is to be done about a batch once it was sent.
#[derive(Default)]
struct Outcome {
    delivered: usize,
    retried: usize,
    /// Rows to be removed.
    rows: Vec<RunKey>,
    /// Runs to be taken back: nothing of them waits any more, or what does is in `left`.
    finished: Vec<RunKey>,
    /// What is left of runs that were delivered in part, and how often it has failed.
    left: Vec<(Run, u32)>,
    /// Runs that are tried again as they are, and when.
    moved: Vec<(RunKey, Stored)>,
    dead: Vec<Failure>,
}

impl Partition {
    /// Until it is time to stop.
    pub(super) async fn deliver(&self, session: &Session) -> Result<()> {
        let mut stop = self.stop.clone();
        let mut outages = 0;
        loop {
            self.shared.counts.wakes.fetch_add(1, Ordering::Relaxed);
            // From here on whatever is taken in rings.
            session.next.store(i64::MAX, Ordering::Release);
            let now = self.shared.now();
            let look = Look {
                now,
                records: i64::try_from(self.shared.options.batch).unwrap_or(i64::MAX),
                bytes: BATCH_BYTES,
            };
            let due = self
                .shared
                .index
                .due(session.opening, self.number, look)
                .await?;
            if stopped(&self.stop) {
                return Ok(());
            }
            if due.runs.is_empty() {
                let next = due.next.unwrap_or(i64::MAX);
                session.next.store(next, Ordering::Release);
                let until = u64::try_from(next.saturating_sub(now)).unwrap_or(0);
                let until = Duration::from_millis(until.max(1)).min(self.shared.options.poll);
                tokio::select! {
                    () = stopping(&mut stop) => return Ok(()),
                    () = session.nearer.notified() => {}
                    () = sleep(until) => {}
                }
                continue;
            }
            let outage = !self.deliver_batch(session, due.runs, now).await?;
            outages = if outage { outages + 1 } else { 0 };
            if stopped(&self.stop) || (outage && !self.shared.pause(outages, &self.stop).await) {
                return Ok(());
            }
        }
    }

    /// False when nothing of it could be delivered, for reasons that pass.
    async fn deliver_batch(
        &self,
        session: &Session,
        runs: Vec<(RunKey, Bytes)>,
        now: i64,
    ) -> Result<bool> {
        let mut due = Vec::with_capacity(runs.len());
        for (row, bytes) in runs {
            let run = self.read(row, bytes)?;
            if run.stored.at > now {
                SchedulerCounts::add(&self.shared.counts.early, run.records.len());
                continue;
            }
            self.note_lateness(&run, now);
            due.push(run);
        }
        let records = due.iter().flat_map(|run| run.records.iter().cloned());
        let answers = self.shared.send_all(records.collect()).await;
        let mut answers = answers.into_iter();
        let (mut missing, mut outcome) = (HashMap::new(), Outcome::default());
        for run in due {
            let count = run.records.len();
            let mut failed = Vec::new();
            for (place, answer) in answers.by_ref().take(count).enumerate() {
                match answer {
                    Ok(_) => outcome.delivered += 1,
                    Err(error) => failed.push((place, error)),
                }
            }
            self.judge(run, failed, now, &mut missing, &mut outcome)
                .await?;
        }
        let progress = outcome.delivered > 0 || outcome.retried == 0;
        self.settle(session, outcome, now).await?;
        Ok(progress)
    }

    fn read(&self, row: RunKey, bytes: Bytes) -> Result<DueRun> {
        let broken = || {
            let RunKey { first, last, .. } = row;
            let what = format!("the index holds a broken run of offsets {first} to {last}");
            self.doing(Error::malformed(what))
        };
        let stored = Stored::read(bytes).ok_or_else(broken)?;
        let key = RunKey {
            at: stored.at,
            ..row
        };
        let run = Run::read(key, stored.value.clone()).map_err(|_| broken())?;
        let records = run.outgoing().map_err(|_| broken())?;
        Ok(DueRun {
            row,
            stored,
            run,
            records,
        })
    }

    fn note_lateness(&self, run: &DueRun, now: i64) {
        // What its target has refused is no fault of ours.
        if run.stored.attempts == 0 {
            let late = now.saturating_sub(run.stored.since);
            self.shared.counts.latest.fetch_max(late, Ordering::Relaxed);
        }
    }

    async fn judge(
        &self,
        due: DueRun,
        failed: Vec<(usize, Error)>,
        now: i64,
        missing: &mut HashMap<String, bool>,
        outcome: &mut Outcome,
    ) -> Result<()> {
        let DueRun {
            row,
            stored,
            run,
            records,
        } = due;
        let attempts = stored.attempts.saturating_add(1);
        let mut again = Vec::new();
        for (place, error) in failed {
            if error.kind() == ErrorKind::Config {
                return Err(error);
            }
            let Some(record) = records.get(place) else {
                continue;
            };
            let spent = attempts >= self.shared.options.limits.max_attempts;
            if passes(&error) && !(spent && self.is_missing(&record.topic, missing).await) {
                again.push(place);
            } else {
                let place = i64::try_from(place).unwrap_or(0);
                let offset = run.key.first.saturating_add(place);
                outcome
                    .dead
                    .push(self.dead(record, run.key.at, offset, error));
            }
        }
        outcome.retried += again.len();
        outcome.rows.push(row);
        if again.len() == run.records.len() {
            let at = later(now, attempts);
            let stored = Stored { attempts, ..stored };
            outcome.moved.push((RunKey { at, ..row }, stored));
        } else {
            outcome.finished.push(run.key);
            outcome.left.extend(parts(&run, &again, attempts));
        }
        Ok(())
    }

    /// Whether there is no such topic, as far as the brokers say.
    async fn is_missing(&self, topic: &str, known: &mut HashMap<String, bool>) -> bool {
        if let Some(missing) = known.get(topic) {
            return *missing;
        }
        let missing = matches!(self.shared.sink.topic_partitions(topic).await, Ok(None));
        known.insert(topic.to_owned(), missing);
        missing
    }

    fn dead(&self, record: &OutgoingRecord, at: i64, offset: i64, error: Error) -> Failure {
        let source = &self.shared.options.topic;
        // As it was consumed, with what it was asked for in the headers again.
        let held = addressed(record.clone(), source, at);
        let record = OwnedRecord {
            topic: held.topic,
            partition: self.owned.partition,
            offset,
            key: held.key,
            value: held.value,
            headers: held.headers,
            ..OwnedRecord::default()
        };
        failure(error, &record.as_record())
    }

    async fn settle(&self, session: &Session, outcome: Outcome, now: i64) -> Result<()> {
        let Outcome {
            delivered,
            retried,
            rows,
            finished,
            left,
            moved,
            dead,
        } = outcome;
        let shared = &self.shared;
        SchedulerCounts::add(&shared.counts.delivered, delivered);
        SchedulerCounts::add(&shared.counts.retried, retried);
        if !shared.bury(&dead, &self.stop).await? {
            return Ok(());
        }
        let mut changes: Vec<Change> = rows.into_iter().map(Change::Remove).collect();
        let put = |key: RunKey, stored: Stored| Change::Put(key, stored.row());
        changes.extend(moved.into_iter().map(|(key, stored)| put(key, stored)));
        for (run, attempts) in &left {
            let at = later(now, *attempts);
            let stored = Stored {
                attempts: *attempts,
                ..Stored::new(run, now)
            };
            changes.push(put(RunKey { at, ..run.key }, stored));
        }
        let mut runs: Vec<Run> = left.into_iter().map(|(run, _)| run).collect();
        let partition = self.owned.partition;
        let logged = shared.log_runs(partition, &mut runs, &self.stop).await?;
        if let Some((_, error)) = logged.refused.into_iter().next() {
            // Parts of what the topic has taken as a whole.
            return Err(self.doing(error));
        }
        let (offsets, all) = shared.take_back(partition, finished, &self.stop).await?;
        if logged.stopped || !all {
            return Ok(());
        }
        let offsets = [logged.offsets, offsets].concat();
        self.apply(session, changes, &offsets, None).await?;
        session.room.notify_one();
        Ok(())
    }
}

/// When something that has failed so often is looked at again.
fn later(now: i64, attempts: u32) -> i64 {
    let wait = i64::try_from(wait(attempts).as_millis()).unwrap_or(0);
    now.saturating_add(wait)
}

/// The records at these places, in runs.
fn parts(run: &Run, places: &[usize], attempts: u32) -> Vec<(Run, u32)> {
    let mut parts: Vec<Run> = Vec::new();
    for &place in places {
        let (Some(record), Ok(ahead)) = (run.records.get(place), i64::try_from(place)) else {
            continue;
        };
        let (at, offset) = (run.key.at, run.key.first.saturating_add(ahead));
        match parts.last_mut() {
            Some(part) if part.takes(at, offset, record.len()) => part.push(record.clone()),
            _ => parts.push(Run::one(at, offset, record.clone())),
        }
    }
    parts.into_iter().map(|run| (run, attempts)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_a_run_is_runs() {
        let mut run = Run::one(7, 10, Bytes::from_static(b"0"));
        for text in ["1", "2", "3", "4"] {
            run.push(Bytes::from_static(text.as_bytes()));
        }
        let parts = parts(&run, &[0, 2, 3], 5);
        let found: Vec<_> = (parts.iter())
            .map(|(run, attempts)| (run.key.first, run.key.last, run.records.len(), *attempts))
            .collect();
        assert_eq!(found, [(10, 10, 1, 5), (12, 13, 2, 5)]);
        assert_eq!(parts[1].0.records[1], "3");
    }
}
