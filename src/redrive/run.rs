//! The redrive itself: read, restore, write, commit, batch by batch.

use super::batch::{Batch, Item, Waiting};
use super::builder::Redrive;
use super::job::{self, Span, Spans};
use super::letter::{Letter, REDRIVES};
use super::origins::Origins;
use super::pace::Pace;
use super::problem::Problem;
use super::restore::{elsewhere, redrives, restored};
use super::route::Topics;
use super::summary::{Row, Summary};
use crate::clock::{Clock, SystemClock};
use crate::dead_letter::partition;
use crate::error::{Error, Result};
use crate::record::OutgoingRecord;
use crate::status::{ErrorKind, Status};
use crate::transport::TransactionError;
use crate::transport::kafka::{KafkaRecord, OffsetReader, Transaction, TransactionalSink};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};

/// The most records of one read.
const READ: usize = 500;

/// How long a batch that has something waits for more.
const LINGER: Duration = Duration::from_millis(100);

/// How often a transaction is tried again that was aborted for no record's fault.
const TRIES: u32 = 6;

/// The wait before the first of those; each next one is twice as long.
const WAIT: Duration = Duration::from_millis(100);

impl Redrive {
    /// Redrives what the job has not come to yet, up to where the dead-letter topic ends now.
    ///
    /// Dropping the future stops between two batches; a transaction under way may still be
    /// committed, and what was committed is not repeated.
    ///
    /// # Errors
    /// Kind Config: no such topic, another filter under the job's name, a missing right, a record to
    /// be parked and no parking topic. Any other when the cluster does not do its part. Whatever it
    /// is, running the job again goes on behind what was committed.
    pub async fn run(&self) -> Result<Summary> {
        let reader = OffsetReader::start(&self.reading())?;
        // A mistake does not end the run of this job that is under way elsewhere.
        self.spans(&reader).await?;
        let sink = TransactionalSink::start(&self.writing(), &self.group())?;
        // What an earlier run of this job had begun is over then, and it can begin nothing more.
        let begun = sink.transact(Transaction::default()).await;
        begun.map_err(|error| self.failed(error))?;
        self.go(reader, Some(sink)).await
    }

    /// What [`run`](Self::run) would do now. Reads, and writes and commits nothing.
    ///
    /// # Errors
    /// As those of [`run`](Self::run); but a parking topic need not exist.
    pub async fn dry_run(&self) -> Result<Summary> {
        self.go(OffsetReader::start(&self.reading())?, None).await
    }

    /// What is there, and how far the job is.
    async fn spans(&self, reader: &OffsetReader) -> Result<Spans> {
        let topic = &self.topic;
        let Some(count) = reader.partitions(topic).await? else {
            return Err(Error::config(format!("topic `{topic}` does not exist")));
        };
        let numbers: Vec<i32> = (0..count).collect();
        let committed = reader.committed(topic, count).await?;
        let bounds = reader.bounds(topic, &numbers).await?;
        job::spans(&self.job, &self.filter, &committed, &bounds)
    }

    async fn go(
        &self,
        mut reader: OffsetReader,
        sink: Option<TransactionalSink>,
    ) -> Result<Summary> {
        let spans = self.spans(&reader).await?;
        let open = |(partition, span): (&i32, &Span)| {
            (span.next < span.end).then_some((*partition, span.next))
        };
        let positions: Vec<(i32, i64)> = spans.of.iter().filter_map(open).collect();
        reader.assign(&self.topic, &positions)?;
        let mut work = Work {
            redrive: self,
            kept: self.filter.kept(),
            reader,
            origins: None,
            topics: Topics::default(),
            sink,
            pending: VecDeque::new(),
            pace: Pace::new(self.rate, Instant::now()),
            summary: Summary {
                expired: spans.expired,
                ..Summary::default()
            },
            spans: spans.of,
        };
        if spans.new {
            // Before anything is written, the name of the job stands for this filter.
            let positions = work.spans.iter().map(|(number, span)| (*number, span.next));
            let positions = positions.collect();
            work.write(Vec::new(), positions).await?;
        }
        while work.spans.values().any(|span| span.next < span.end) {
            let batch = work.gather().await?;
            work.finish(batch).await?;
        }
        Ok(work.summary)
    }

    fn failed(&self, error: TransactionError) -> Error {
        let cause = error.into_error();
        let text = format!(
            "job `{}` stopped, and goes on behind what was committed when it is run again: {cause}",
            self.job
        );
        Error::new(cause.kind(), cause.status(), text).with_source(cause)
    }
}

enum Next {
    Record(KafkaRecord),
    End(i32, i64),
}

struct Work<'a> {
    redrive: &'a Redrive,
    kept: String,
    reader: OffsetReader,
    origins: Option<Origins>,
    topics: Topics,
    /// None in a dry run.
    sink: Option<TransactionalSink>,
    spans: BTreeMap<i32, Span>,
    pending: VecDeque<Next>,
    pace: Pace,
    summary: Summary,
}

impl Work<'_> {
    async fn gather(&mut self) -> Result<Batch> {
        let most = self.pace.most(self.redrive.batch);
        let mut batch = Batch::default();
        let mut last = Instant::now();
        while batch.has_room(most) {
            match self.pending.pop_front() {
                Some(Next::Record(record)) => self.take(&record, &mut batch).await?,
                Some(Next::End(partition, offset)) => self.end(partition, offset, &mut batch),
                None if self.spans.values().all(|span| span.next >= span.end) => break,
                None => {
                    let limit = match batch.is_empty() {
                        true => self.redrive.patience,
                        false => LINGER,
                    };
                    let read = self.reader.read(READ, limit).await?;
                    if !read.records.is_empty() || !read.ends.is_empty() {
                        last = Instant::now();
                    } else if !batch.is_empty() {
                        break;
                    } else if last.elapsed() >= self.redrive.patience {
                        let text = format!("topic {} gave no record in time", self.redrive.topic);
                        let warning = self.reader.take_warning();
                        return Err(warning.unwrap_or_else(|| Error::timeout(text)));
                    }
                    let records = read.records.into_iter().map(Next::Record);
                    self.pending.extend(records);
                    let ends = read.ends.into_iter();
                    self.pending
                        .extend(ends.map(|(number, end)| Next::End(number, end)));
                }
            }
        }
        Ok(batch)
    }

    /// Nothing below `offset` comes any more.
    fn end(&mut self, partition: i32, offset: i64, batch: &mut Batch) {
        let Some(span) = self.spans.get_mut(&partition) else {
            return;
        };
        if offset >= span.end && span.next < span.end {
            span.next = span.end;
            batch.positions.insert(partition, span.end);
            self.reader.stop(partition);
        }
    }

    async fn take(&mut self, record: &KafkaRecord, batch: &mut Batch) -> Result<()> {
        let readable = record.has_readable_headers();
        let record = record.record();
        let at = (record.partition, record.offset);
        let Some(span) = self.spans.get_mut(&at.0) else {
            return Ok(());
        };
        // What came after the start is of another run.
        if at.1 >= span.end {
            self.end(at.0, at.1, batch);
            return Ok(());
        }
        span.next = at.1.saturating_add(1);
        batch.positions.insert(at.0, span.next);
        if span.next >= span.end {
            self.reader.stop(at.0);
        }
        batch.done.read += 1;
        let letter = Letter::of(&record);
        if !self.redrive.filter.takes(&letter) {
            batch.done.skipped += 1;
            return Ok(());
        }
        let mut row = Row {
            kind: letter.kind().to_owned(),
            stage: letter.stage().to_owned(),
            target: String::new(),
        };
        if !readable {
            batch.stays(row, at, Problem::Unreadable);
            return Ok(());
        }
        let target = match self.redrive.route.candidates(&letter) {
            Ok(candidates) => self.topics.first(&self.reader, candidates).await?,
            Err(problem) => Err(problem),
        };
        let target = match target {
            Ok(target) => target,
            Err(problem) => {
                batch.stays(row, at, problem);
                return Ok(());
            }
        };
        row.target.clone_from(&target.topic);
        let before = redrives(record.headers);
        if before >= self.redrive.most_redrives {
            let parked = self
                .parked(OutgoingRecord::from(record.to_owned()), at)
                .await?;
            batch.push(Item {
                record: parked,
                row,
                parked: true,
                at,
            });
            return Ok(());
        }
        let Some(original) = &letter.original else {
            batch.stays(row, at, Problem::NoOrigin);
            return Ok(());
        };
        match elsewhere(original) {
            Some(Err(problem)) => batch.stays(row, at, problem),
            Some(Ok(place)) => batch.wait_for(Waiting {
                dead: record.to_owned(),
                letter,
                target,
                place,
                row,
            }),
            None => {
                let mut whole = record.to_owned();
                whole.headers = original.headers.clone();
                let count = before.saturating_add(1);
                let (keep, now) = (self.redrive.keep_timestamps, SystemClock.now());
                let record = restored(&letter, whole, &target, count, keep, now);
                let parked = false;
                batch.push(Item {
                    record,
                    row,
                    parked,
                    at,
                });
            }
        }
        Ok(())
    }

    /// The dead letter as it is, for the parking topic.
    async fn parked(&mut self, mut dead: OutgoingRecord, at: (i32, i64)) -> Result<OutgoingRecord> {
        let parking = &self.redrive.parking;
        let count = self.topics.partitions(&self.reader, parking).await?;
        if count.is_none() && self.sink.is_some() {
            return Err(Error::config(format!(
                "topic `{parking}` does not exist, and the dead letter at {} [{}] @{} is to be parked \
                 there, for by its header {REDRIVES} it was redriven {} times: create the topic",
                self.redrive.topic,
                at.0,
                at.1,
                redrives(dead.headers.view()),
            )));
        }
        dead.topic.clone_from(parking);
        dead.partition = partition(at.0, count);
        dead.timestamp = None;
        Ok(dead)
    }

    /// Makes a batch come true.
    async fn finish(&mut self, mut batch: Batch) -> Result<()> {
        let places = batch.places();
        let found = match (&mut self.origins, places.is_empty()) {
            (_, true) => BTreeMap::new(),
            (Some(origins), false) => origins.fetch(places).await?,
            (none, false) => {
                let origins = Origins::start(&self.redrive.reading(), self.redrive.patience)?;
                none.insert(origins).fetch(places).await?
            }
        };
        let mut items = batch.items(&found, self.redrive.keep_timestamps, SystemClock.now());
        drop(found);
        if self.sink.is_some() {
            let at = self.pace.book(items.len(), Instant::now());
            sleep_until(at).await;
        }
        let positions: Vec<(i32, i64)> = batch.positions.iter().map(|(p, o)| (*p, *o)).collect();
        loop {
            let records = items.iter().map(|item| item.record.clone()).collect();
            let Some((index, why)) = self.write(records, positions.clone()).await? else {
                break;
            };
            // That one will never be written there; the others can.
            if index >= items.len() {
                return Err(why);
            }
            let item = items.remove(index);
            let problem = Problem::Rejected(why.message().to_owned());
            batch.stays(item.row, item.at, problem);
        }
        for item in items {
            match item.parked {
                true => batch.done.parked(item.row),
                false => batch.done.redrove(item.row),
            }
        }
        self.summary.add(batch.done);
        if let Some(progress) = &self.redrive.progress {
            progress(&self.summary);
        }
        Ok(())
    }

    /// One transaction; the record that will never be written, if there is one, and why.
    async fn write(
        &self,
        records: Vec<OutgoingRecord>,
        positions: Vec<(i32, i64)>,
    ) -> Result<Option<(usize, Error)>> {
        let Some(sink) = &self.sink else {
            return Ok(None);
        };
        let work = Transaction {
            records,
            offsets: job::commits(&self.redrive.topic, positions.into_iter(), &self.kept),
            group: Some(self.reader.group_metadata()),
        };
        let mut wait = WAIT;
        for _ in 1..TRIES {
            match sink.transact(work.clone()).await {
                Ok(()) => return Ok(None),
                Err(TransactionError::Aborted { error, record }) => match record {
                    Some(index) if is_its_own(&error) => return Ok(Some((index, error))),
                    // A missing right stays missing.
                    _ if error.status() == Status::Permanent => {
                        let record = None;
                        let aborted = TransactionError::Aborted { error, record };
                        return Err(self.redrive.failed(aborted));
                    }
                    _ => {}
                },
                Err(error) => return Err(self.redrive.failed(error)),
            }
            sleep(wait).await;
            wait = wait.saturating_mul(2);
        }
        let last = sink.transact(work).await;
        last.map_err(|error| self.redrive.failed(error))?;
        Ok(None)
    }
}

/// Whether no later try would write the record, and others may be written all the same.
fn is_its_own(error: &Error) -> bool {
    error.status() == Status::Permanent && error.kind() != ErrorKind::Config
}
