//! What a pipeline reads: topics by name, by pattern, or both.

use super::own::{OwnTopic, OwnTopics, compile};
use crate::dead_letter::{destination, retry_topic};
use crate::error::{Error, Result};
use crate::pipeline::topic_keys::split;
use crate::transport::check_topic_name;
use regex::bytes::Regex;
use std::collections::BTreeSet;

/// What is read: topics by name, by pattern (`^orders-.*`), or both.
///
/// Patterns are ours to resolve: a subscription that the client or the broker resolves could not leave
/// out our own topics (librdkafka knows POSIX patterns on most platforms, the brokers RE2's for KIP-848
/// groups; neither can say "but not"). So all members list the topics every
/// `topic.metadata.refresh.interval.ms`, as librdkafka itself does for a pattern, and subscribe to the
/// names. A pattern is one of Rust's `regex` crate; as in librdkafka it may match the beginning of a
/// name only: end it with `$` where that counts.
///
/// A topic of [ours](OwnTopics) is read only when its name is given.
#[derive(Clone, Debug)]
pub struct Subscription {
    names: BTreeSet<String>,
    patterns: Vec<Regex>,
    /// The group whose retries are read too, and the delays of the topics in which they wait; none
    /// where they come through one topic.
    retries: Option<(String, Vec<String>)>,
}

/// What there is to read at the moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolved {
    /// The topics to subscribe to. Those given by name may not exist.
    pub topics: BTreeSet<String>,
    /// Topics that a pattern matches but that are ours, and what each is.
    pub left_out: Vec<(String, OwnTopic)>,
}

impl Subscription {
    /// Reads a list with commas between: names, and patterns, which begin with `^`.
    ///
    /// # Errors
    /// Those of [`new`](Self::new).
    pub fn parse(text: &str) -> Result<Self> {
        Self::new(split(text))
    }

    /// Of these names and patterns.
    ///
    /// # Errors
    /// Kind Config: there are none, a name is none that Kafka takes, or a pattern is none.
    pub fn new<T: AsRef<str>>(entries: impl IntoIterator<Item = T>) -> Result<Self> {
        let (mut names, mut patterns) = (BTreeSet::new(), Vec::new());
        for entry in entries {
            let entry = entry.as_ref();
            if entry.starts_with('^') {
                patterns.push(compile(entry).map_err(|error| error.at("topics"))?);
            } else {
                check_topic_name(entry)
                    .map_err(|why| Error::config(format!("topics: `{entry}` {why}")))?;
                names.insert(entry.to_owned());
            }
        }
        if names.is_empty() && patterns.is_empty() {
            return Err(Error::config("topics: there are no topics to consume"));
        }
        Ok(Subscription {
            names,
            patterns,
            retries: None,
        })
    }

    /// Reads the retries of `group` too: of each topic those in which they wait for these delays, or
    /// without delays the one through which they come back.
    ///
    /// # Errors
    /// Kind Config, when a topic's retries have no topic.
    pub fn with_retries(
        mut self,
        group: &str,
        delays: impl IntoIterator<Item = String>,
    ) -> Result<Self> {
        let delays: Vec<String> = delays.into_iter().collect();
        for name in &self.names {
            retry_topics(name, group, &delays)?;
        }
        self.retries = Some((group.to_owned(), delays));
        Ok(self)
    }

    fn again(&self, name: &str) -> Vec<String> {
        let retries = self.retries.as_ref();
        let topics = retries.map(|(group, delays)| retry_topics(name, group, delays));
        topics.and_then(Result::ok).unwrap_or_default()
    }

    /// Whether there are patterns, so that [`resolve`](Self::resolve) depends on what exists.
    pub fn has_patterns(&self) -> bool {
        !self.patterns.is_empty()
    }

    /// What there is to read where the topics `existing` exist.
    pub fn resolve<'a>(
        &self,
        existing: impl IntoIterator<Item = &'a str>,
        own: &OwnTopics,
    ) -> Resolved {
        let mut resolved = Resolved::default();
        for name in &self.names {
            resolved.topics.insert(name.clone());
            resolved.topics.extend(self.again(name));
        }
        for name in existing {
            if resolved.topics.contains(name) {
                continue;
            }
            let retried = self.retried(name);
            if retried.is_some_and(|of| self.matches(of) && own.kind(of).is_none()) {
                resolved.topics.insert(name.to_owned());
            } else if self.matches(name) {
                match own.kind(name) {
                    None => drop(resolved.topics.insert(name.to_owned())),
                    Some(kind) => resolved.left_out.push((name.to_owned(), kind)),
                }
            }
        }
        resolved
    }

    /// Refuses what would feed on itself: a topic that is read and gets the dead letters of one that
    /// is read, now or once it exists.
    ///
    /// # Errors
    /// Kind Config, naming both.
    pub fn check_dead_letters(&self, template: &str, own: &OwnTopics, group: &str) -> Result<()> {
        for name in &self.names {
            let to = destination(template, name, Some(group))?;
            if self.names.contains(&to) || self.again(name).contains(&to) {
                return Err(feeds(name, &to));
            }
        }
        if self.has_patterns() {
            let to = destination(template, "topic", Some(group))?;
            if self.again("topic").contains(&to) {
                return Err(feeds("topic", &to));
            }
        }
        for name in &self.names {
            if let Some(of) = own.source_of(name)
                && own.kind(&of).is_none()
                && self.matches(&of)
            {
                return Err(feeds(&of, name));
            }
            // Of a template without `${topic}` all letters are there.
            let all = destination(template, "topic", Some(group)).is_ok_and(|all| all == *name);
            if all && self.has_patterns() {
                return Err(feeds("a topic that the pattern matches", name));
            }
        }
        Ok(())
    }

    fn matches(&self, name: &str) -> bool {
        self.patterns
            .iter()
            .any(|one| one.is_match(name.as_bytes()))
    }

    /// The topic whose retries for our group are in `name`.
    fn retried<'n>(&self, name: &'n str) -> Option<&'n str> {
        let (group, delays) = self.retries.as_ref()?;
        retried(name, group, delays)
    }
}

/// The topics through which the retries of `topic` come back to `group`.
pub(super) fn retry_topics(topic: &str, group: &str, delays: &[String]) -> Result<Vec<String>> {
    let base = retry_topic(topic, group)?;
    if delays.is_empty() {
        return Ok(vec![base]);
    }
    let names = delays.iter().map(|delay| format!("{base}.{delay}"));
    names
        .map(|name| match check_topic_name(&name) {
            Ok(()) => Ok(name),
            Err(why) => Err(Error::config(format!(
                "the topic of retries `{name}` {why}"
            ))),
        })
        .collect()
}

/// The topic whose retries for `group` are in `name`.
pub(super) fn retried<'n>(name: &'n str, group: &str, delays: &[String]) -> Option<&'n str> {
    let base = match delays.is_empty() {
        true => name,
        false => delays
            .iter()
            .find_map(|delay| name.strip_suffix(delay.as_str())?.strip_suffix('.'))?,
    };
    let of = base.strip_suffix(".retry")?.strip_suffix(group)?;
    of.strip_suffix('.').filter(|of| !of.is_empty())
}

fn feeds(topic: &str, letters: &str) -> Error {
    Error::config(format!(
        "dead letters of `{topic}` would go to `{letters}`, which is consumed as well: they would fail \
         and be dead letters for ever; change topics or dead.letter.topic"
    ))
}
