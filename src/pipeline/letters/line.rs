//! The way to one topic: who is next, which client, how many partitions.

use super::fleet::{Fleet, Started};
use crate::answer::BoxFuture;
use crate::error::{Error, Result};
use crate::record::OutgoingRecord;
use crate::transport::{Delivered, WriteFailure};
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;
use tokio::task::unconstrained;
use tokio::time::Instant;

/// How long the number of a topic's partitions is believed.
const KNOWN_FOR: Duration = Duration::from_secs(60);

/// The clients of a producer.
pub(super) struct Fleets {
    /// They put what goes to a partition together into batches.
    pub(super) batched: Fleet,
    /// Each record is a batch of its own: what one of a batch is refused for is no fault of the others.
    pub(super) alone: Fleet,
}

/// Which of the fleets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    Batched,
    Alone,
}

/// The way to one topic. Its client is the producer's newest when it is first used, and stays the
/// same until this topic needs another: what a right that is missing here costs is no other topic's.
pub(super) struct Line {
    topic: String,
    fleets: Arc<Fleets>,
    /// Taken in the order in which it is asked for; held until a record is in the client's queue.
    turn: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    batched: Seat,
    alone: Seat,
    known: Option<Known>,
    /// The last look that found nothing: those who waited for it share what it found.
    missed: Option<(Instant, Option<Error>)>,
}

#[derive(Default)]
struct Seat {
    started: Option<Started>,
    /// Clients up to this generation no longer serve this topic.
    broken: u64,
}

#[derive(Clone, Copy)]
struct Known {
    partitions: i32,
    until: Instant,
}

impl Line {
    pub(super) fn new(topic: &str, fleets: Arc<Fleets>) -> Self {
        Line {
            topic: topic.to_owned(),
            fleets,
            turn: tokio::sync::Mutex::new(()),
            state: Mutex::default(),
        }
    }

    /// Waits its turn and starts to write what `make` gives for the number of the topic's partitions.
    /// The first poll takes the place in the line.
    ///
    /// # Errors
    /// When that number cannot be had, or there is no such topic; those of the write are inside.
    pub(super) async fn start(
        self: &Arc<Self>,
        make: impl FnOnce(i32) -> OutgoingRecord,
    ) -> Result<Sending> {
        let began = Instant::now();
        let fresh = self.known().filter(|known| began < known.until);
        // Unconstrained: a task that has used up its budget would have to wait though it is its turn.
        let turn = unconstrained(self.turn.lock()).await;
        let partitions = match fresh {
            Some(known) => Some(known.partitions),
            None => self.look(began).await?,
        };
        let Some(partitions) = partitions else {
            return Err(self.missing());
        };
        let mut sending = Arc::clone(self).send(How::Batched, make(partitions));
        let first = poll_fn(|cx| Poll::Ready(sending.as_mut().poll(cx))).await;
        drop(turn);
        Ok(match first {
            Poll::Ready(sent) => Sending::Over(sent),
            Poll::Pending => Sending::On(sending),
        })
    }

    /// Writes `record`; its first poll puts it into the client's queue, or into the line before it.
    pub(super) fn send(
        self: Arc<Self>,
        how: How,
        record: OutgoingRecord,
    ) -> BoxFuture<'static, Result<Delivered>> {
        Box::pin(async move {
            let started = self.client(how)?;
            let sent = started.client.send(record).await;
            if let Err(error) = &sent {
                self.failed(how, started.generation, WriteFailure::of(error));
            }
            sent
        })
    }

    /// How many partitions the topic has; `None` when there is no such topic.
    pub(super) async fn partitions(&self) -> Result<Option<i32>> {
        let began = Instant::now();
        if let Some(known) = self.known().filter(|known| began < known.until) {
            return Ok(Some(known.partitions));
        }
        let _turn = unconstrained(self.turn.lock()).await;
        self.look(began).await
    }

    /// The error of a topic that does not exist.
    pub(super) fn missing(&self) -> Error {
        let topic = &self.topic;
        Error::unavailable(format!("topic {topic} does not exist"))
            .with_source(WriteFailure::UnknownTopic)
    }

    /// Looks how many partitions there are, for one who waits since `began`; while the turn is held.
    async fn look(&self, began: Instant) -> Result<Option<i32>> {
        {
            let state = self.lock();
            if let Some(known) = state.known.filter(|known| Instant::now() < known.until) {
                return Ok(Some(known.partitions));
            }
            if let Some((at, error)) = &state.missed
                && *at > began
            {
                return error.as_ref().map_or(Ok(None), |error| Err(again(error)));
            }
        }
        let started = self.client(How::Batched)?;
        let found = started.client.partitions(&self.topic).await;
        if let Err(error) = &found
            && let Some(failure) = WriteFailure::of(error)
        {
            self.failed(How::Batched, started.generation, Some(failure));
        }
        let now = Instant::now();
        let mut state = self.lock();
        match found {
            Ok(Some(partitions)) => {
                let until = now + KNOWN_FOR;
                state.known = Some(Known { partitions, until });
                Ok(Some(partitions))
            }
            Ok(None) => {
                state.known = None;
                state.missed = Some((now, None));
                Ok(None)
            }
            Err(error) => match (state.known, WriteFailure::of(&error)) {
                // Nobody answered: what was known may still be so, and the write will tell.
                (Some(known), None) => Ok(Some(known.partitions)),
                _ => {
                    state.missed = Some((now, Some(again(&error))));
                    Err(error)
                }
            },
        }
    }

    fn client(&self, how: How) -> Result<Started> {
        let fleet = self.fleet(how);
        let mut state = self.lock();
        let seat = state.seat(how);
        let broken = seat.broken.max(fleet.dead());
        let serves = |started: &&Started| started.generation > broken;
        if let Some(started) = seat.started.as_ref().filter(serves) {
            return Ok(started.clone());
        }
        if let Some(newer) = fleet.newer_than(broken)? {
            seat.started = Some(newer);
        }
        seat.started.clone().ok_or_else(|| {
            Error::unavailable(format!(
                "could not write to topic {}: the producer did not start a moment ago",
                self.topic
            ))
        })
    }

    fn failed(&self, how: How, generation: u64, failure: Option<WriteFailure>) {
        let mut state = self.lock();
        match failure {
            Some(
                WriteFailure::TooLarge
                | WriteFailure::BatchRefused
                | WriteFailure::InvalidTimestamp,
            ) => return,
            Some(WriteFailure::Unauthorized | WriteFailure::UnknownTopic) => {
                let seat = state.seat(how);
                seat.broken = seat.broken.max(generation);
            }
            Some(WriteFailure::Fatal) => self.fleet(how).give_up(generation),
            Some(WriteFailure::UnknownPartition) => state.known = None,
            None => {}
        }
        // The next one looks again.
        if let Some(known) = &mut state.known {
            known.until = Instant::now();
        }
    }

    /// The clients that this topic uses.
    pub(super) fn clients(&self) -> Vec<Started> {
        let state = self.lock();
        let seats = [&state.batched, &state.alone];
        let started = seats.into_iter().filter_map(|seat| seat.started.clone());
        started.collect()
    }

    /// Lets go of the clients.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.batched.started = None;
        state.alone.started = None;
    }

    fn known(&self) -> Option<Known> {
        self.lock().known
    }

    fn fleet(&self, how: How) -> &Fleet {
        match how {
            How::Batched => &self.fleets.batched,
            How::Alone => &self.fleets.alone,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn seat(&mut self, how: How) -> &mut Seat {
        match how {
            How::Batched => &mut self.batched,
            How::Alone => &mut self.alone,
        }
    }
}

/// A write that has been started.
pub(super) enum Sending {
    Over(Result<Delivered>),
    On(BoxFuture<'static, Result<Delivered>>),
}

impl Sending {
    pub(super) async fn done(self) -> Result<Delivered> {
        match self {
            Sending::Over(sent) => sent,
            Sending::On(sending) => sending.await,
        }
    }
}

/// The same error for somebody else.
fn again(error: &Error) -> Error {
    let same = Error::new(error.kind(), error.status(), error.message().to_owned());
    match WriteFailure::of(error) {
        Some(failure) => same.with_source(failure),
        None => same,
    }
}
