//! Where records come from and where they go.

#[cfg(feature = "kafka")]
pub mod kafka;

mod java_keys;
mod java_values;
mod partitioner;
mod settings;
mod topic_name;
mod transactions;
mod write_failure;

pub use java_keys::{JAVA_KEYS, JavaKey, java_key};
pub use partitioner::{Partitions, partition_of};
pub use settings::{Settings, producer_settings};
pub use topic_name::{MAX_TOPIC_NAME, check_topic_name};
pub use transactions::TransactionError;
pub use write_failure::WriteFailure;

use crate::answer::BoxFuture;
use crate::error::Result;
use crate::record::OutgoingRecord;

/// Where a written record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Delivered {
    /// Its partition.
    pub partition: i32,
    /// Its offset there.
    pub offset: i64,
}

/// Where records are written to.
pub trait Sink: Send + Sync {
    /// Writes `record`; the answer is there when the write is durable.
    ///
    /// # Errors
    /// Temporary when a later try may succeed, Permanent when this record never will; kind
    /// [`Config`](crate::ErrorKind::Config) when no record would. The text names the topic and
    /// quotes no payload. Its source is a [`WriteFailure`] where a caller can do something about it.
    fn send(&self, record: OutgoingRecord) -> BoxFuture<'_, Result<Delivered>>;
}

impl<S: Sink + ?Sized> Sink for std::sync::Arc<S> {
    fn send(&self, record: OutgoingRecord) -> BoxFuture<'_, Result<Delivered>> {
        (**self).send(record)
    }
}

impl<S: Sink + ?Sized> Sink for Box<S> {
    fn send(&self, record: OutgoingRecord) -> BoxFuture<'_, Result<Delivered>> {
        (**self).send(record)
    }
}
