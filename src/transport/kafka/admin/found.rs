//! What a cluster says of a topic.

use crate::error::Error;
use std::collections::BTreeMap;

/// What a cluster says of a topic.
#[derive(Debug)]
pub struct TopicFound {
    /// Its name.
    pub name: String,
    /// What is known.
    pub state: TopicState,
}

/// How much is known of a topic.
#[derive(Debug)]
#[non_exhaustive]
pub enum TopicState {
    /// It exists.
    Exists(TopicDetails),
    /// It does not exist.
    Missing,
    /// We lack the right `Describe` on it, so nobody tells us whether it exists.
    Denied,
    /// It could not be found out.
    Unknown(Error),
}

/// A topic that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicDetails {
    /// How many partitions it has.
    pub partitions: i32,
    /// How many copies the brokers keep, of the partition that has the fewest.
    pub replication: i32,
    /// Its settings, defaults of the brokers included.
    pub configs: TopicConfigs,
}

/// A topic's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TopicConfigs {
    /// By the broker's names.
    Known(BTreeMap<String, String>),
    /// We lack the right `DescribeConfigs` on the topic.
    Denied,
    /// The brokers do not tell.
    Unknown,
}

impl TopicFound {
    /// The topic, if it is known to exist.
    pub fn details(&self) -> Option<&TopicDetails> {
        match &self.state {
            TopicState::Exists(details) => Some(details),
            _ => None,
        }
    }
}

impl TopicDetails {
    /// A setting, where settings are known.
    pub fn config(&self, name: &str) -> Option<&str> {
        match &self.configs {
            TopicConfigs::Known(configs) => configs.get(name).map(String::as_str),
            _ => None,
        }
    }
}
