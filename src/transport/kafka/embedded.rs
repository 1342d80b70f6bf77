//! A Kafka broker inside the process, for demos and tests.

use super::errors;
use super::ffi::MockCluster;
use crate::error::Result;
use std::fmt;
use std::time::Duration;

/// librdkafka's mock cluster as a broker in this process: nothing to install, ready in
/// milliseconds, listening on 127.0.0.1 only, gone when dropped.
///
/// It speaks Kafka's protocol for producing (idempotent too), consuming, and consumer groups of
/// both protocols; a group's first assignment comes at once. It is no Kafka:
/// - it keeps at most 5 MiB or 100,000 batches a partition; older records vanish silently;
/// - it has no admin API: create topics with [`create_topic`](Self::create_topic);
/// - transactions answer Ok but isolate and commit nothing;
/// - it finds no offset by time, compacts nothing, and nothing outlives it;
/// - a later rebalance of a classic group takes `session.timeout.ms` less 1 s: set it low (but
///   above 1 s) where a second member joins.
pub struct EmbeddedBroker {
    cluster: MockCluster,
}

impl EmbeddedBroker {
    /// Starts a cluster of this many brokers (at least one; ids from 1).
    ///
    /// # Errors
    /// When librdkafka cannot open its listening sockets.
    pub fn start(brokers: u8) -> Result<Self> {
        MockCluster::new(i32::from(brokers.max(1)))
            .map(|cluster| EmbeddedBroker { cluster })
            .map_err(|cause| errors::from_kafka("could not start the embedded broker", &cause))
    }

    /// The value of `bootstrap.servers` to reach it.
    pub fn bootstrap_servers(&self) -> String {
        self.cluster.bootstrap_servers()
    }

    /// Creates a topic; a topic of this name must not exist.
    ///
    /// # Errors
    /// When the name or the number of partitions is refused.
    pub fn create_topic(&self, name: &str, partitions: i32) -> Result<()> {
        self.cluster
            .create_topic(name, partitions)
            .map_err(|code| errors::error(&format!("could not create topic {name}"), code))
    }

    /// Makes the broker of this id unreachable; its clients are disconnected.
    ///
    /// # Errors
    /// When there is no such broker.
    pub fn take_down(&self, broker: i32) -> Result<()> {
        self.set(broker, false)
    }

    /// Makes the broker of this id reachable again.
    ///
    /// # Errors
    /// When there is no such broker.
    pub fn bring_up(&self, broker: i32) -> Result<()> {
        self.set(broker, true)
    }

    /// Makes the broker of this id answer each request this much later (whole milliseconds).
    ///
    /// # Errors
    /// When there is no such broker.
    pub fn slow_down(&self, broker: i32, round_trip: Duration) -> Result<()> {
        let millis = i32::try_from(round_trip.as_millis()).unwrap_or(i32::MAX);
        self.cluster
            .set_round_trip(broker, millis)
            .map_err(|code| errors::error(&format!("could not slow broker {broker} down"), code))
    }

    fn set(&self, broker: i32, up: bool) -> Result<()> {
        self.cluster
            .set_broker(broker, up)
            .map_err(|code| errors::error(&format!("could not switch broker {broker}"), code))
    }
}

impl fmt::Debug for EmbeddedBroker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedBroker")
            .field("bootstrap_servers", &self.bootstrap_servers())
            .finish()
    }
}
