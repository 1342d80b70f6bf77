//! What a worker is made of, how it works, and how it ends.

use super::drive::Attempts;
use super::gate::SharedGate;
use super::ledger::MarkCell;
use super::observe::PartitionGauge;
use super::queue::Order;
use super::verdict::Policy;
use crate::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// How a worker works.
#[derive(Clone, Debug)]
pub struct WorkerSettings {
    /// Which records wait for one another.
    pub order: Order,
    /// How many records are handled at once (`max.in.flight`); 1 in the order of the partition.
    pub max_in_flight: usize,
    /// How many records may lie at or beyond the mark (`max.uncommitted`): what comes again after a
    /// crash is no more.
    pub max_uncommitted: usize,
    /// How many bytes of keys, values and headers may be taken and unfinished; the record that reaches it is
    /// the last that is taken. As many of what handlers sent may be unwritten: nothing more is handled
    /// then.
    pub max_bytes: usize,
    /// The most records taken from the source at once.
    pub batch: usize,
    /// How often the handler is called, and the waits between.
    pub attempts: Attempts,
    /// How failures are judged.
    pub policy: Policy,
    /// Which records wait for their time; none unless set.
    pub gate: Option<SharedGate>,
    /// How long work in flight may go on when a verdict stops the pipeline.
    pub drain: Duration,
}

impl Default for WorkerSettings {
    fn default() -> Self {
        WorkerSettings {
            order: Order::Partition,
            max_in_flight: 100,
            max_uncommitted: 10_000,
            max_bytes: 16 * 1024 * 1024,
            batch: 256,
            attempts: Attempts::default(),
            policy: Policy::default(),
            gate: None,
            drain: Duration::from_secs(5),
        }
    }
}

/// What a worker is made of.
pub struct WorkerParts<S, W, E> {
    /// Where its records come from.
    pub source: S,
    /// What is committed of it, if that is known: the offset at which it begins.
    pub committed: Option<i64>,
    /// How they are handled; shared by all partitions.
    pub work: Arc<W>,
    /// What else is done with them.
    pub effects: Arc<E>,
    /// How it works.
    pub settings: Arc<WorkerSettings>,
    /// Where it writes its mark.
    pub mark: MarkCell,
    /// Where it shows what it does.
    pub gauge: PartitionGauge,
}

impl<S, W, E> fmt::Debug for WorkerParts<S, W, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerParts")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

/// How a worker ended. Its mark is in its cell.
#[derive(Debug)]
pub enum Ended {
    /// It was told to, and everything that was started is finished or given up in order.
    Drained,
    /// It was told to, and this many records and writes were still under way at the limit.
    Abandoned(usize),
    /// The partition was lost.
    Lost,
    /// The source was over, and everything taken is finished.
    Over,
    /// A verdict, or something that is no record's fault, stops the pipeline.
    Stopped(Error),
}
