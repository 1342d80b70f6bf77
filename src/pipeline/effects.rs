//! What the workers of a pipeline have written, and whom they tell.

use super::observer::{PipelineEvent, PipelineObserver};
use super::source::{Effects, Event, Failed, Sent, Written};
use crate::answer::BoxFuture;
use crate::transport::kafka::OwnedPartition;
use std::sync::Arc;
use std::time::Duration;

/// Where a pipeline writes. The futures may be polled long after the partition is given up.
pub(super) trait Desk: Send + Sync + 'static {
    fn dead_letter(
        &self,
        partition: &OwnedPartition,
        failed: &Failed,
    ) -> BoxFuture<'static, Written>;

    fn outputs(&self, partition: &OwnedPartition, sent: &Sent<'_>) -> BoxFuture<'static, Written>;

    fn delay(
        &self,
        partition: &OwnedPartition,
        failed: &Failed,
        wait: Duration,
    ) -> BoxFuture<'static, Written>;
}

/// The effects of one partition in one ownership.
pub(super) struct PartitionEffects {
    pub(super) partition: OwnedPartition,
    pub(super) desk: Arc<dyn Desk>,
    pub(super) observer: Arc<dyn PipelineObserver>,
}

impl Effects for PartitionEffects {
    fn dead_letter(&self, failed: &Failed) -> BoxFuture<'static, Written> {
        self.desk.dead_letter(&self.partition, failed)
    }

    fn outputs(&self, sent: &Sent<'_>) -> BoxFuture<'static, Written> {
        self.desk.outputs(&self.partition, sent)
    }

    fn delay(&self, failed: &Failed, wait: Duration) -> BoxFuture<'static, Written> {
        self.desk.delay(&self.partition, failed, wait)
    }

    fn event(&self, event: Event<'_>) {
        self.observer.event(&PipelineEvent::Record {
            partition: &self.partition,
            event,
        });
    }
}
