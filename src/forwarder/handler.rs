use super::targets::Targets;
use crate::answer::Answer;
use crate::delay::alarm::Alarm;
use crate::delay::topic::{Moved, Moves};
use crate::error::Error;
use crate::outcome::Outcome;
use crate::pipeline::{Halves, Handler, HandlerContext, Reader};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a forwarder has done so far.
#[derive(Debug)]
pub struct ForwarderCounts {
    /// Records handed over for their target.
    pub forwarded: AtomicU64,
    /// Records handed over for the next delay topic.
    pub onward: AtomicU64,
    /// Records handed over for their target before they were due, by the clock at that moment.
    /// Anything but 0 is a bug.
    pub early: AtomicU64,
    /// By how many milliseconds the latest of them was late.
    pub latest: AtomicU64,
    alarm: Alarm,
}

impl ForwarderCounts {
    pub(super) fn new(alarm: Alarm) -> Self {
        ForwarderCounts {
            forwarded: AtomicU64::new(0),
            onward: AtomicU64::new(0),
            early: AtomicU64::new(0),
            latest: AtomicU64::new(0),
            alarm,
        }
    }

    /// How often it woke to compare the wall clock with the monotonic one: at most once a second.
    pub fn looks(&self) -> u64 {
        self.alarm.looks()
    }

    fn count(&self, moved: &Moved) {
        if moved.onward {
            self.onward.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.forwarded.fetch_add(1, Ordering::Relaxed);
        let late = self.alarm.clock().now().saturating_sub(moved.due);
        match u64::try_from(late) {
            Ok(late) => self.latest.fetch_max(late, Ordering::Relaxed),
            Err(_) => self.early.fetch_add(1, Ordering::Relaxed),
        };
    }
}

/// Reads what becomes of a record.
pub(super) struct ForwardReader {
    moves: Arc<Moves>,
    alarm: Alarm,
}

impl ForwardReader {
    pub(super) fn new(moves: Arc<Moves>, alarm: Alarm) -> Self {
        ForwardReader { moves, alarm }
    }
}

impl Reader for ForwardReader {
    type Value = Moved;

    fn read<'a>(&'a self, halves: &'a Halves<'a>) -> Answer<'a, Outcome<Moved>> {
        let now = self.alarm.clock().now();
        let moved = self.moves.moved(halves.record(), now);
        Answer::Ready(moved.map(Ok).map_err(|error: Error| error.at("forward")))
    }
}

impl fmt::Debug for ForwardReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ForwardReader")
    }
}

/// Hands over what was moved.
#[derive(Debug)]
pub(super) struct ForwardHandler {
    counts: Arc<ForwarderCounts>,
    targets: Targets,
}

impl ForwardHandler {
    pub(super) fn new(counts: Arc<ForwarderCounts>, targets: Targets) -> Self {
        ForwardHandler { counts, targets }
    }
}

impl Handler<Moved> for ForwardHandler {
    type Error = Error;

    async fn handle(&self, moved: Moved, context: &HandlerContext<'_>) -> Result<(), Error> {
        let record = &moved.record;
        self.targets.check(&record.topic, record.partition).await?;
        self.counts.count(&moved);
        context.send(moved.record);
        Ok(())
    }
}
