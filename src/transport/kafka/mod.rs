//! Apache Kafka through librdkafka: the only folder that names rdkafka.
//!
//! librdkafka's blocking calls (poll, synchronous commit, metadata, close) run on threads of their
//! own or on tokio's blocking threads, never on a runtime's workers.

mod admin;
mod embedded;
mod errors;
mod ffi;
mod group;
mod keys;
mod log;
mod lookup;
mod properties;
mod pump;
mod reader;
mod sink;
mod source;
mod transaction;

pub use admin::{
    NewTopic, TopicAdmin, TopicConfigs, TopicCreation, TopicDetails, TopicFound, TopicState,
    create_topics,
};
pub use embedded::EmbeddedBroker;
pub use group::{
    AssignedPartition, Commit, CommitError, CommitFailure, CommitResults, GroupConsumer,
    GroupEvent, GroupHandle, GroupMetadata, GroupOptions, OwnedPartition, PartitionLag,
    PartitionReader, ReadTo, Revoked, group_settings, statistics_lags,
};
pub use keys::KafkaKeys;
pub use log::{LogReader, PartitionLog};
pub use lookup::{Committed, PartitionBounds};
pub use properties::{is_known, known_properties, validate_property};
pub use reader::{OffsetReader, Read};
pub use sink::KafkaSink;
pub use source::{KafkaRecord, KafkaSource};
pub use transaction::{Transaction, TransactionalSink};

use crate::error::{Error, Result};

/// Drops what blocks when dropped on a thread of its own; here, if there can be no thread.
fn drop_elsewhere<T: Send + 'static>(value: T) {
    // A failed spawn drops the closure, and the value with it, on this thread.
    let _ = std::thread::Builder::new()
        .name("kafka-close".to_owned())
        .spawn(move || drop(value));
}

/// Runs a blocking call on one of tokio's blocking threads.
async fn blocking<T: Send + 'static>(
    call: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    match tokio::task::spawn_blocking(call).await {
        Ok(result) => result,
        Err(_) => Err(Error::unavailable("the runtime is shutting down")),
    }
}
