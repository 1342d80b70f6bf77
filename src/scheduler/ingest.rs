//! Taking records in: refused ones to the dead letters, the others to the changelog, then to the
//! index; after that they count as done.

use super::changelog::{failure, stopping};
use super::options::SchedulerCounts;
use super::partition::{Partition, Session};
use super::plan::{Covered, Plan, plan};
use super::run::{RUN_RECORDS, Run, Stored};
use crate::delay::embedded::runs::Change;
use crate::error::Result;
use crate::transport::kafka::{KafkaRecord, PartitionReader};
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};

/// The most records that are taken in at once.
const BATCH: usize = 1_000;

/// How long the last run of a batch waits for more of it, so that a run that was written as one
/// becomes one entry however it is fetched.
const LINGER: Duration = Duration::from_millis(50);

/// How far away a run must be due, in milliseconds, to be kept waiting.
const FAR: i64 = 1_000;

/// Records on their way in. They outlive a failure of the disk.
pub(super) struct Ingest {
    reader: PartitionReader,
    pending: Vec<KafkaRecord>,
    /// When the last run began to wait for more of it.
    held: Option<Instant>,
    over: bool,
}

impl Ingest {
    pub(super) fn new(reader: PartitionReader) -> Self {
        Ingest {
            reader,
            pending: Vec::new(),
            held: None,
            over: false,
        }
    }

    /// Adds what is there, waiting for long only with empty hands.
    async fn fill(&mut self) {
        let more = match self.held {
            Some(since) if !self.pending.is_empty() => {
                let more = timeout_at(since + LINGER, self.reader.next_batch(BATCH));
                more.await.unwrap_or_else(|_| Some(Vec::new()))
            }
            _ => self.reader.next_batch(BATCH).await,
        };
        match more {
            Some(more) => self.pending.extend(more),
            None => self.over = true,
        }
    }

    /// Takes the last run out of the plan if it may wait for more of it, and answers how many records
    /// that are.
    fn hold_back(&mut self, plan: &mut Plan, now: i64) -> usize {
        let last = self.pending.last().map(|record| record.record().offset);
        let late = self.held.is_some_and(|since| since.elapsed() >= LINGER);
        let waits = |run: &mut Run| {
            Some(run.key.last) == last
                && run.records.len() < RUN_RECORDS
                && run.key.at > now.saturating_add(FAR)
        };
        let held = match late || self.over {
            true => None,
            false => plan.runs.pop_if(waits),
        };
        match &held {
            Some(_) if self.held.is_some() && plan.runs.is_empty() => {}
            Some(_) => self.held = Some(Instant::now()),
            None => self.held = None,
        }
        held.map_or(0, |run| run.records.len())
    }
}

impl Partition {
    /// Until it is time to stop, or the ownership is over.
    pub(super) async fn take_in(
        &self,
        session: &Session,
        mut covered: Covered,
        ingest: &mut Ingest,
    ) -> Result<()> {
        let mut stop = self.stop.clone();
        loop {
            tokio::select! {
                biased;
                () = stopping(&mut stop) => return Ok(()),
                () = async {
                    self.room(session).await;
                    ingest.fill().await;
                } => {}
            }
            if ingest.pending.is_empty() && ingest.over {
                return Ok(());
            }
            let max = self.shared.options.limits.max_record_bytes;
            let records = ingest.pending.iter();
            let records = records.map(|record| (record.record(), record.has_readable_headers()));
            let now = self.shared.clock.now_rounded_up();
            let rules = &self.shared.options.rules;
            let mut plan = plan(records, &mut covered, rules, max, now);
            let taken = ingest.pending.len() - ingest.hold_back(&mut plan, now);
            let Some(batch) = ingest.pending.get(..taken) else {
                return Ok(());
            };
            if !batch.is_empty() && !self.take(session, batch, plan).await? {
                return Ok(());
            }
            ingest.pending.drain(..taken);
        }
    }

    /// Waits while the index holds as much as it may.
    async fn room(&self, session: &Session) {
        let capacity = self.shared.options.limits.capacity as u64;
        while session.waiting.load(Ordering::Acquire) >= capacity {
            tokio::select! {
                () = session.room.notified() => {}
                () = sleep(self.shared.options.poll) => {}
            }
        }
    }

    /// False when it was time to stop before all was durable; then none of it is done.
    async fn take(&self, session: &Session, batch: &[KafkaRecord], plan: Plan) -> Result<bool> {
        let shared = &self.shared;
        let Plan {
            mut runs,
            refused,
            known,
        } = plan;
        let dead: Vec<_> = (refused.into_iter())
            .filter_map(|(place, error)| Some(failure(error, &batch.get(place)?.record())))
            .collect();
        let logged = shared
            .log_runs(self.owned.partition, &mut runs, &self.stop)
            .await?;
        let mut too_large = Vec::new();
        for (run, error) in logged.refused {
            let of = |record: &&KafkaRecord| record.record().offset == run.key.first;
            if let Some(record) = batch.iter().find(of) {
                too_large.push(failure(error, &record.record()));
            }
        }
        if logged.stopped
            || !shared.bury(&dead, &self.stop).await?
            || !shared.bury(&too_large, &self.stop).await?
        {
            return Ok(false);
        }
        let Some(last) = batch.last() else {
            return Ok(true);
        };
        let next = last.record().offset.saturating_add(1);
        let now = shared.now();
        let changes = (runs.iter())
            .map(|run| Change::Put(run.key, Stored::new(run, now).row()))
            .collect();
        self.apply(session, changes, &logged.offsets, Some(next))
            .await?;
        self.mark.next.store(next, Ordering::Release);
        self.marked.notify_one();
        let nearest = runs.iter().map(|run| run.key.at).min();
        if nearest.is_some_and(|at| at < session.next.load(Ordering::Acquire)) {
            session.nearer.notify_one();
        }
        let records = runs.iter().map(|run| run.records.len()).sum();
        SchedulerCounts::add(&shared.counts.ingested, records);
        SchedulerCounts::add(&shared.counts.entries, runs.len());
        (shared.counts.known).fetch_add(known, Ordering::Relaxed);
        Ok(true)
    }
}
