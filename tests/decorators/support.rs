//! Leaves that do as they are told, and waits of the plainest kind.

use bytes::Bytes;
use kafka_chain::backoff::Backoff;
use kafka_chain::{
    Answer, Component, Deserializer, Encoded, Error, ErrorKind, Failure, Headers, Input, Part,
    Payload, Record, Result, Serializer, Stage, Status, Target, Value, deserialize,
};
use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::time::{Instant, sleep};

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// What a leaf does when it is called.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Yields the bytes it was given, null for null.
    Echo,
    Fail(ErrorKind, Status),
    /// Waits, then does another step.
    Later(Duration, Box<Step>),
    /// Waits for ever.
    Never,
}

pub(crate) const TEMPORARY: Step = Step::Fail(ErrorKind::Unavailable, Status::Temporary);
pub(crate) const PERMANENT: Step = Step::Fail(ErrorKind::Malformed, Status::Permanent);

impl Step {
    pub(crate) fn later(self, wait: Duration) -> Step {
        Step::Later(wait, Box::new(self))
    }

    fn result(&self, payload: Payload<'_>) -> Result<Option<Bytes>> {
        match self {
            Step::Fail(kind, status) => Err(Error::new(*kind, *status, "as told")),
            _ => Ok(payload.into_bytes()),
        }
    }
}

#[derive(Debug)]
struct Diary {
    born: Instant,
    steps: VecDeque<Step>,
    calls: Vec<Duration>,
    running: u32,
    closed: u32,
}

/// A leaf of both directions that does one step a call, the last one again and again, and keeps a
/// diary. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Leaf(Arc<Mutex<Diary>>);

impl Leaf {
    pub(crate) fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        Leaf(Arc::new(Mutex::new(Diary {
            born: Instant::now(),
            steps: steps.into_iter().collect(),
            calls: Vec::new(),
            running: 0,
            closed: 0,
        })))
    }

    pub(crate) fn named(&self, name: &'static str) -> Stage<Leaf> {
        Stage::new(name, self.clone()).named(name)
    }

    pub(crate) fn calls(&self) -> usize {
        self.0.lock().unwrap().calls.len()
    }

    /// When it was called, from its birth.
    pub(crate) fn times(&self) -> Vec<Duration> {
        self.0.lock().unwrap().calls.clone()
    }

    /// The time between two calls, for all of them.
    pub(crate) fn waits(&self) -> Vec<Duration> {
        let times = self.times();
        times.windows(2).map(|pair| pair[1] - pair[0]).collect()
    }

    /// How many of its futures are neither done nor dropped.
    pub(crate) fn running(&self) -> u32 {
        self.0.lock().unwrap().running
    }

    pub(crate) fn closed(&self) -> u32 {
        self.0.lock().unwrap().closed
    }

    fn answer<'a>(&self, payload: Payload<'a>) -> Answer<'a, Option<Bytes>> {
        let step = {
            let mut diary = self.0.lock().unwrap();
            let now = diary.born.elapsed();
            diary.calls.push(now);
            if diary.steps.len() > 1 {
                diary.steps.pop_front().unwrap()
            } else {
                diary.steps.front().cloned().unwrap()
            }
        };
        let waits = matches!(step, Step::Never | Step::Later(..)).then(|| Running::of(self));
        match step {
            Step::Later(wait, then) => Answer::pending(async move {
                let _waits = waits;
                sleep(wait).await;
                then.result(payload)
            }),
            Step::Never => Answer::pending(async move {
                let _waits = waits;
                std::future::pending().await
            }),
            now => Answer::Ready(now.result(payload)),
        }
    }
}

struct Running(Leaf);

impl Running {
    fn of(leaf: &Leaf) -> Self {
        leaf.0.lock().unwrap().running += 1;
        Running(leaf.clone())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.0.lock().unwrap().running -= 1;
    }
}

impl Component for Leaf {
    /// Does the first of its steps; counts as closed when that is done, failed or not.
    fn close(&self) -> Answer<'_, ()> {
        let step = self.0.lock().unwrap().steps.front().cloned().unwrap();
        let close = move |step: &Step| {
            self.0.lock().unwrap().closed += 1;
            step.result(Payload::Null).map(drop)
        };
        match step {
            Step::Later(wait, then) => Answer::pending(async move {
                sleep(wait).await;
                close(&then)
            }),
            now => Answer::Ready(close(&now)),
        }
    }
}

impl Deserializer for Leaf {
    type Output = Option<Bytes>;

    fn deserialize<'a>(&'a self, input: Input<'a>) -> Answer<'a, Option<Bytes>> {
        self.answer(input.payload)
    }
}

impl Serializer for Leaf {
    type Input = [u8];

    /// Adds a header that tells which call made it.
    fn serialize<'a>(&'a self, value: Payload<'a>, _: &'a Target<'a>) -> Answer<'a, Encoded> {
        let answer = self.answer(value);
        let headers = Headers::from_iter([("call", Some(self.calls().to_string()))]);
        answer.map_result(move |payload| payload.map(|payload| Encoded { payload, headers }))
    }
}

/// These waits in milliseconds, then the end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waits<const N: usize>(pub(crate) [u64; N]);

impl<const N: usize> Backoff for Waits<N> {
    fn wait(&self, retry: u32, _: f64) -> Option<Duration> {
        self.0.get(retry.max(1) as usize - 1).copied().map(ms)
    }

    fn retries(&self) -> Option<u32> {
        Some(N as u32)
    }
}

/// The same wait for ever, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Endless(pub(crate) u64);

impl Backoff for Endless {
    fn wait(&self, _: u32, _: f64) -> Option<Duration> {
        Some(ms(self.0))
    }

    fn retries(&self) -> Option<u32> {
        None
    }
}

/// Reads `value` with `chain`.
pub(crate) async fn read<D: Deserializer>(chain: &D, value: &[u8]) -> Result<D::Output> {
    deserialize(chain, &Record::of_value(Some(value)), Part::Value).await
}

/// Polls once, on no runtime in particular.
pub(crate) fn poll_once<F: Future>(future: F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// The failure that a value of an erased chain is.
pub(crate) fn failed(value: Value) -> Box<Failure> {
    value.take().unwrap()
}
