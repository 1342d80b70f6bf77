//! What a producer's client does, so that one can be replaced by another.

use crate::answer::BoxFuture;
use crate::error::Result;
use crate::record::OutgoingRecord;
use crate::transport::kafka::KafkaSink;
use crate::transport::{Delivered, Settings};
use std::sync::Arc;
use std::time::Duration;

/// A started producer. Its futures keep it alive.
pub(super) trait Client: Send + Sync + 'static {
    /// Writes `record`; its first poll puts it into the queue, or into the line before it.
    fn send(&self, record: OutgoingRecord) -> BoxFuture<'static, Result<Delivered>>;

    /// How many partitions `topic` has; `None` when there is no such topic.
    fn partitions(&self, topic: &str) -> BoxFuture<'static, Result<Option<i32>>>;

    /// Waits until what was queued is acknowledged or given up.
    fn flush(&self, limit: Duration) -> BoxFuture<'static, Result<()>>;
}

/// Starts a client.
pub(super) type Start = Box<dyn Fn(&Settings) -> Result<Arc<dyn Client>> + Send + Sync>;

/// Starts clients of Kafka.
pub(super) fn kafka() -> Start {
    Box::new(|settings| Ok(Arc::new(KafkaSink::start(settings)?)))
}

impl Client for KafkaSink {
    fn send(&self, record: OutgoingRecord) -> BoxFuture<'static, Result<Delivered>> {
        let sink = self.clone();
        Box::pin(async move { sink.send(record).await })
    }

    fn partitions(&self, topic: &str) -> BoxFuture<'static, Result<Option<i32>>> {
        let (sink, topic) = (self.clone(), topic.to_owned());
        Box::pin(async move { sink.topic_partitions(&topic).await })
    }

    fn flush(&self, limit: Duration) -> BoxFuture<'static, Result<()>> {
        let sink = self.clone();
        Box::pin(async move { sink.flush_within(limit).await })
    }
}
