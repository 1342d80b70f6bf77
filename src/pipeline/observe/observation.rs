//! Looks after a running pipeline: tells users, logs and metrics what happens.

use super::gauge::PartitionGauge;
use super::logs::Logs;
use super::metrics::PipelineMetrics;
use super::stall::StallWatch;
use super::watch::Watch;
use crate::pipeline::ledger::{MarkCell, Ownership, TopicPartition};
use crate::pipeline::observer::{Observers, PipelineEvent, PipelineObserver};
use crate::pipeline::source::Event;
use crate::transport::kafka::{GroupHandle, OwnedPartition};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How often everything is looked at, at the least and at the most: once a second, and more often
/// where a shorter stall is to be noticed.
const LOOK: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// Tells of what happens: the logs, the metrics, and then users.
struct Teller {
    logs: Logs,
    metrics: PipelineMetrics,
    users: Observers,
}

impl PipelineObserver for Teller {
    fn event(&self, event: &PipelineEvent<'_>) {
        // By far the most; it is counted by its worker.
        let is_good = matches!(
            event,
            PipelineEvent::Record {
                event: Event::Handled { .. },
                ..
            }
        );
        if !is_good {
            self.logs.event(event);
            self.metrics.event(event);
        }
        self.users.event(event);
    }
}

/// What is to be seen of a running pipeline, and who looks at it now and then.
pub(in crate::pipeline) struct Observation {
    watch: Arc<Watch>,
    teller: Arc<Teller>,
    stalls: StallWatch,
}

impl Observation {
    /// Counts in the recorder that is installed now.
    pub(in crate::pipeline) fn new(
        watch: Arc<Watch>,
        users: Observers,
        stall_warn: Duration,
    ) -> Self {
        let teller = Teller {
            logs: Logs::default(),
            metrics: PipelineMetrics::new(),
            users,
        };
        Observation {
            watch,
            teller: Arc::new(teller),
            stalls: StallWatch::new(stall_warn),
        }
    }

    /// The group is joined.
    pub(in crate::pipeline) fn started(&self, group: GroupHandle) {
        self.watch.started(group);
    }

    /// Whom to tell.
    pub(in crate::pipeline) fn observer(&self) -> Arc<dyn PipelineObserver> {
        Arc::clone(&self.teller) as Arc<dyn PipelineObserver>
    }

    pub(in crate::pipeline) fn joined(&self) {
        self.watch.joined();
    }

    /// A partition became ours.
    pub(in crate::pipeline) fn begin(
        &self,
        partition: &TopicPartition,
        mark: &MarkCell,
    ) -> PartitionGauge {
        let gauge = PartitionGauge::new(partition.clone(), mark.clone());
        self.watch.add(gauge.clone());
        gauge
    }

    /// It is ours no longer.
    pub(in crate::pipeline) fn gone(&self, partition: &TopicPartition, ownership: Ownership) {
        self.watch.remove(partition, ownership);
    }

    /// Its worker has ended.
    pub(in crate::pipeline) fn ended(&self, gauge: &PartitionGauge) {
        self.teller.metrics.take(gauge);
    }

    /// How often to look.
    pub(in crate::pipeline) fn interval(&self) -> Duration {
        let (least, most) = LOOK;
        self.stalls.limit().clamp(least, most)
    }

    /// Looks at everything; of `due` something waits to be committed.
    pub(in crate::pipeline) fn look(&mut self, due: &HashSet<TopicPartition>, stopping: bool) {
        let now = Instant::now();
        let gauges = self.watch.gauges();
        for gauge in &gauges {
            gauge.due(due.contains(gauge.partition()), now);
            self.teller.metrics.take(gauge);
        }
        self.teller.metrics.show(&self.watch.health(stopping, now));
        self.teller.logs.tick(now);
        for stall in self.stalls.check(now, &gauges) {
            let partition = OwnedPartition {
                topic: stall.partition.topic,
                partition: stall.partition.partition,
                ownership: stall.ownership.number(),
            };
            let (partition, offset, age) = (&partition, stall.offset, stall.age);
            self.teller.event(&match stall.is_over {
                true => PipelineEvent::StallEnded {
                    partition,
                    offset,
                    age,
                },
                false => PipelineEvent::Stalled {
                    partition,
                    offset,
                    age,
                },
            });
        }
    }
}

/// However it ended.
impl Drop for Observation {
    fn drop(&mut self) {
        for gauge in self.watch.gauges() {
            self.teller.metrics.take(&gauge);
        }
        self.watch.over();
        let now = Instant::now();
        self.teller.metrics.show(&self.watch.health(true, now));
    }
}
