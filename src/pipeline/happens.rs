//! The one place where a worker waits, and what it does then.

use super::observe::Count;
use super::queue::Order;
use super::source::{Effects, Event, PartitionSource, Room, SourceRecord, Taken, Written, weight};
use super::work::{Job, Work};
use super::worker::Worker;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use tokio::task::JoinError;

/// What a worker waits for.
pub(super) enum Happened<R> {
    Driven,
    Ordered,
    Ran(std::result::Result<Vec<Job<R>>, JoinError>),
    Wrote(std::result::Result<(i64, Written), JoinError>),
    Took(Taken),
    Opened,
    ProbeDue,
    Expired,
}

impl<S, W, E> Worker<S, W, E>
where
    S: PartitionSource,
    W: Work<S::Record>,
    E: Effects,
{
    fn may_take(&self) -> bool {
        let limit = match self.settings.order {
            Order::Partition => 1,
            Order::Key | Order::Unordered => self.settings.max_in_flight.max(1),
        };
        self.may_start()
            && !self.source_over
            && !self.queue.is_ready()
            && self.in_flight < limit
            && self.offsets.uncommitted() < self.settings.max_uncommitted.max(1)
            && self.bytes < self.settings.max_bytes.max(1)
    }

    /// Waits for the next thing to happen.
    pub(super) async fn happens<F: Future<Output = ()>>(
        &mut self,
        mut current: Option<Pin<&mut F>>,
    ) -> Happened<S::Record> {
        self.show();
        let room = self.may_take().then(|| Room {
            records: (self.settings.max_uncommitted.max(1) - self.offsets.uncommitted())
                .min(self.settings.batch.max(1)),
            bytes: self.settings.max_bytes.max(1) - self.bytes,
        });
        let mut ordered = pin!(self.orders.changed());
        poll_fn(|cx| {
            if let Some(current) = current.as_mut()
                && current.as_mut().poll(cx).is_ready()
            {
                return Poll::Ready(Happened::Driven);
            }
            if ordered.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Happened::Ordered);
            }
            if let Poll::Ready(Some(ran)) = self.running.poll_join_next(cx) {
                return Poll::Ready(Happened::Ran(ran));
            }
            if let Poll::Ready(Some(wrote)) = self.writing.poll_join_next(cx) {
                return Poll::Ready(Happened::Wrote(wrote));
            }
            if let Some(deadline) = &mut self.deadline
                && deadline.as_mut().poll(cx).is_ready()
            {
                return Poll::Ready(Happened::Expired);
            }
            if let Some((_, due)) = &mut self.probe
                && due.as_mut().poll(cx).is_ready()
            {
                return Poll::Ready(Happened::ProbeDue);
            }
            if self.gated.poll_opens(cx).is_ready() {
                return Poll::Ready(Happened::Opened);
            }
            if let Some(room) = room
                && let Poll::Ready(took) = self.source.poll_take(cx, room, &mut self.taken)
            {
                return Poll::Ready(Happened::Took(took));
            }
            Poll::Pending
        })
        .await
    }

    /// Does what that calls for.
    pub(super) fn on(&mut self, happened: Happened<S::Record>) {
        match happened {
            Happened::Driven | Happened::Ordered => {}
            Happened::Ran(Ok(group)) => {
                self.in_flight = self.in_flight.saturating_sub(group.len());
                for job in group {
                    self.settle(job);
                }
            }
            Happened::Wrote(Ok((offset, written))) => self.wrote(offset, written),
            // Both are contained, so this is a mistake of ours: better to stop than to go silent.
            Happened::Ran(Err(gone)) | Happened::Wrote(Err(gone)) => {
                self.expired = true;
                self.stop(super::contain::gone("a task of the worker", gone));
            }
            Happened::Took(Taken::Records) => self.queue_taken(),
            Happened::Took(Taken::Position(position)) => {
                self.offsets.reached(position);
                self.raise_mark();
            }
            Happened::Took(Taken::Over) => self.source_over = true,
            Happened::Opened => {
                while let Some(job) = self.gated.next() {
                    self.queue.push(job);
                }
            }
            Happened::ProbeDue => {
                self.probe = None;
                self.gauge.count(Count::Probes, 1);
                if let Some(job) = self.start_probe() {
                    self.spawn_probe(job);
                }
            }
            Happened::Expired => {
                self.deadline = None;
                self.expired = true;
            }
        }
    }

    fn queue_taken(&mut self) {
        let mut taken = 0;
        for held in std::mem::take(&mut self.taken) {
            let record = held.record();
            let (offset, lane) = (record.offset, self.queue.lane(record.key));
            let size = weight(&record);
            if self.offsets.take(offset) {
                taken += 1;
                self.bytes = self.bytes.saturating_add(size);
                let job = Job::new(held, offset, size, lane);
                if let Some(job) = self.gated.admit(job) {
                    self.queue.push(job);
                }
            } else {
                self.gauge.count(Count::Repeated, 1);
                self.effects.event(Event::Repeated { offset });
            }
        }
        self.gauge.count(Count::In, taken);
        self.mark.set_oldest(self.offsets.oldest());
    }
}
