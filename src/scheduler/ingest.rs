//! Taking records in: refused ones to the dead letters, the others to the changelog, then to the
//! index; after that they count as done.

use super::changelog::{failure, stopped, stopping};
use super::options::SchedulerCounts;
use super::partition::{Partition, Session};
use super::plan::{Covered, Plan, plan};
use super::run::{RUN_RECORDS, Run, Stored};
use crate::delay::embedded::runs::Change;
use crate::error::Result;
use crate::transport::kafka::{KafkaRecord, PartitionReader};
use std::sync::atomic::Ordering;
use tokio::time::sleep;

/// The most records that are taken in at once.
const BATCH: usize = 1_000;

/// Records on their way in. They outlive a failure of the disk.
pub(super) struct Ingest {
    reader: PartitionReader,
    pending: Vec<KafkaRecord>,
    over: bool,
}

impl Ingest {
    pub(super) fn new(reader: PartitionReader) -> Self {
        Ingest {
            reader,
            pending: Vec::new(),
            over: false,
        }
    }

    /// Adds what is there, waiting only with empty hands; whether more may be there at once.
    async fn fill(&mut self) -> bool {
        let more = match self.pending.is_empty() {
            true => self.reader.next_batch(BATCH).await,
            false => tokio::select! {
                biased;
                more = self.reader.next_batch(BATCH) => more,
                () = std::future::ready(()) => Some(Vec::new()),
            },
        };
        let Some(more) = more else {
            self.over = true;
            return false;
        };
        let full = more.len() == BATCH;
        self.pending.extend(more);
        full
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
            let more = tokio::select! {
                biased;
                () = stopping(&mut stop) => return Ok(()),
                more = async {
                    self.room(session).await;
                    ingest.fill().await
                } => more,
            };
            if ingest.pending.is_empty() && ingest.over {
                return Ok(());
            }
            let max = self.shared.options.limits.max_record_bytes;
            let records = ingest.pending.iter();
            let records = records.map(|record| (record.record(), record.has_readable_headers()));
            let now = self.shared.clock.now_rounded_up();
            let rules = &self.shared.options.rules;
            let mut plan = plan(records, &mut covered, rules, max, now);
            let taken = ingest.pending.len() - held_back(&mut plan, &ingest.pending, more);
            let Some(batch) = ingest.pending.get(..taken) else {
                return Ok(());
            };
            if !self.take(session, batch, plan).await? {
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
            return Ok(!stopped(&self.stop));
        };
        let next = last.record().offset.saturating_add(1);
        let changes = (runs.iter())
            .map(|run| Change::Put(run.key, Stored::new(run).row()))
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

/// Takes the last run out of the plan if more of it may come at once, and answers how many records
/// that are.
fn held_back(plan: &mut Plan, pending: &[KafkaRecord], more: bool) -> usize {
    let last = pending.last().map(|record| record.record().offset);
    let goes_on =
        |run: &mut Run| more && Some(run.key.last) == last && run.records.len() < RUN_RECORDS;
    match plan.runs.len() > 1 {
        true => plan.runs.pop_if(goes_on).map_or(0, |run| run.records.len()),
        false => 0,
    }
}
