//! Which topics a pipeline needs, and what of them.

use super::check::Severity;
use super::subscription::{retried, retry_topics};
use crate::dead_letter::destination;
use crate::transport::kafka::{TopicDetails, TopicFound};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// What a new topic of dead letters is kept for, if its source is not kept for longer: people look at
/// it, not programs.
const LETTERS_KEPT: Duration = Duration::from_secs(14 * 86_400);

/// What the brokers keep a topic for unless told otherwise.
const USUALLY_KEPT: Duration = Duration::from_secs(7 * 86_400);

/// What the headers of one dialect may add to a record, in bytes.
const HEADERS: u64 = 10 * 1_024;

/// What a topic is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum TopicUse {
    /// It is read.
    Source,
    /// It gets the dead letters of this topic.
    DeadLetters(String),
    /// Through it retries of this topic's records come back.
    Retries(String),
    /// In it records wait for so long.
    Delay(Duration),
}

impl fmt::Display for TopicUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TopicUse::Source => f.write_str("to be consumed"),
            TopicUse::DeadLetters(of) => write!(f, "for dead letters of {of}"),
            TopicUse::Retries(of) => write!(f, "for retries of {of}"),
            TopicUse::Delay(delay) => write!(f, "for records that wait {delay:?}"),
        }
    }
}

/// The least that fits, and how bad less is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtLeast<T> {
    /// The least.
    pub value: T,
    /// Of less.
    pub severity: Severity,
}

impl<T: Ord> AtLeast<T> {
    /// Less is a warning.
    pub const fn advised(value: T) -> Self {
        AtLeast {
            value,
            severity: Severity::Warning,
        }
    }

    /// Less is an error.
    pub const fn required(value: T) -> Self {
        AtLeast {
            value,
            severity: Severity::Error,
        }
    }

    /// What fits both: the larger value, the worse severity.
    fn and(self, other: Self) -> Self {
        AtLeast {
            value: self.value.max(other.value),
            severity: self.severity.max(other.severity),
        }
    }
}

/// A topic that is needed, and what of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TopicNeed {
    /// Its name.
    pub name: String,
    /// What for; several topics may have their dead letters in one.
    pub uses: Vec<TopicUse>,
    /// How bad it is that the topic is not there.
    pub missing: Severity,
    /// How many partitions; where nobody knows, none is created.
    pub partitions: Option<AtLeast<i32>>,
    /// How many copies.
    pub replication: Option<AtLeast<i32>>,
    /// How long records are kept (`retention.ms`).
    pub retention: Option<AtLeast<Duration>>,
    /// How large a batch is taken (`max.message.bytes`).
    pub max_message_bytes: Option<AtLeast<u64>>,
    /// How bad it is that the topic is compacted: of records with one key all but the last go, and
    /// those without a key are refused.
    pub compacted: Option<Severity>,
    /// How bad it is that records carry other timestamps than the broker's
    /// (`message.timestamp.type=LogAppendTime`): retention counts from them.
    pub own_timestamps: Option<Severity>,
    /// The settings to create it with.
    pub config: BTreeMap<String, String>,
}

impl TopicNeed {
    /// A topic of which nothing is needed but that it is there.
    pub fn new(name: impl Into<String>, purpose: TopicUse, missing: Severity) -> Self {
        TopicNeed {
            name: name.into(),
            uses: vec![purpose],
            missing,
            partitions: None,
            replication: None,
            retention: None,
            max_message_bytes: None,
            compacted: None,
            own_timestamps: None,
            config: BTreeMap::new(),
        }
    }

    /// A topic in which records wait for `delay`: kept for longer than that, or they are gone before
    /// they are due.
    pub fn delay(name: impl Into<String>, delay: Duration) -> Self {
        let kept = delay.saturating_add(USUALLY_KEPT);
        let config = [
            ("cleanup.policy", "delete".to_owned()),
            ("message.timestamp.type", "LogAppendTime".to_owned()),
            ("retention.ms", kept.as_millis().to_string()),
        ];
        TopicNeed {
            partitions: Some(AtLeast::advised(1)),
            retention: Some(AtLeast::required(
                delay.saturating_add(Duration::from_secs(1)),
            )),
            compacted: Some(Severity::Error),
            own_timestamps: Some(Severity::Warning),
            config: config.map(|(name, value)| (name.to_owned(), value)).into(),
            ..Self::new(name, TopicUse::Delay(delay), Severity::Error)
        }
    }

    /// What is needed of a topic that serves both.
    fn and(&mut self, other: TopicNeed) {
        fn both<T>(one: Option<T>, other: Option<T>, and: impl FnOnce(T, T) -> T) -> Option<T> {
            match (one, other) {
                (Some(one), Some(other)) => Some(and(one, other)),
                (one, other) => one.or(other),
            }
        }
        self.uses.extend(other.uses);
        self.missing = self.missing.max(other.missing);
        self.partitions = both(self.partitions, other.partitions, AtLeast::and);
        self.replication = both(self.replication, other.replication, AtLeast::and);
        self.retention = both(self.retention, other.retention, AtLeast::and);
        let bytes = both(
            self.max_message_bytes,
            other.max_message_bytes,
            AtLeast::and,
        );
        self.max_message_bytes = bytes;
        self.compacted = self.compacted.max(other.compacted);
        self.own_timestamps = self.own_timestamps.max(other.own_timestamps);
        for (name, value) in other.config {
            let number = |text: &str| {
                text.parse::<i64>()
                    .ok()
                    .map(|n| if n < 0 { i64::MAX } else { n })
            };
            let larger = self
                .config
                .get(&name)
                .is_none_or(|mine| number(mine) < number(&value));
            if larger {
                self.config.insert(name, value);
            }
        }
    }
}

/// What a pipeline writes beside its outputs.
#[derive(Clone, Debug)]
pub struct LetterNeeds<'a> {
    /// The template of the topics of dead letters.
    pub template: &'a str,
    /// The group.
    pub group: &'a str,
    /// In how many dialects the headers of a dead letter are.
    pub dialects: usize,
    /// Whether a function of the application's names topics, so that those of the template may never
    /// be used.
    pub routed: bool,
    /// Whether dead letters have the timestamps of their records.
    pub source_timestamps: bool,
    /// Whether records come again through topics of the group, and in which they wait for how long;
    /// none where they wait elsewhere.
    pub retries: Option<Vec<(String, Duration)>>,
}

impl LetterNeeds<'_> {
    /// Whether retries of this pipeline's group come back through `topic`.
    pub(super) fn is_retries(&self, topic: &str) -> bool {
        self.delays()
            .is_some_and(|delays| retried(topic, self.group, &delays).is_some())
    }

    /// The delays of the topics of retries, as their names end.
    pub(super) fn delays(&self) -> Option<Vec<String>> {
        let retries = self.retries.as_ref()?;
        Some(retries.iter().map(|(delay, _)| delay.clone()).collect())
    }
}

/// The topics needed by a pipeline that reads `sources`, one need a topic, by name.
pub fn needs(sources: &[TopicFound], letters: &LetterNeeds<'_>) -> Vec<TopicNeed> {
    let group = letters.group;
    let mut all: BTreeMap<String, TopicNeed> = BTreeMap::new();
    let mut add = |need: TopicNeed| match all.get_mut(&need.name) {
        Some(known) => known.and(need),
        None => drop(all.insert(need.name.clone(), need)),
    };
    // A topic of retries is needed for what it is, whether it was found or not.
    for source in sources
        .iter()
        .filter(|source| !letters.is_retries(&source.name))
    {
        let (name, details) = (&source.name, source.details());
        if let Ok(to) = destination(letters.template, name, Some(group)) {
            // Of a source that is not there yet nothing can fail.
            let missing = match details.is_none() || letters.routed {
                true => Severity::Warning,
                false => Severity::Error,
            };
            let mut need = TopicNeed::new(to, TopicUse::DeadLetters(name.clone()), missing);
            if let Some(details) = details {
                like(&mut need, details, letters.dialects);
            }
            let kept = need
                .retention
                .map_or(LETTERS_KEPT, |kept| kept.value.max(LETTERS_KEPT));
            set_retention(&mut need, kept, details);
            if letters.source_timestamps {
                need.own_timestamps = Some(Severity::Warning);
                set(&mut need, "message.timestamp.type", "LogAppendTime");
            }
            add(need);
        }
        let waits = letters.retries.as_deref().unwrap_or_default();
        let again = letters
            .delays()
            .map(|delays| retry_topics(name, group, &delays));
        for (index, again) in again.and_then(Result::ok).into_iter().flatten().enumerate() {
            let mut need = TopicNeed::new(again, TopicUse::Retries(name.clone()), Severity::Error);
            if let Some(details) = details {
                like(&mut need, details, letters.dialects);
            }
            let wait = waits.get(index).map_or(Duration::ZERO, |(_, wait)| *wait);
            let kept = need.retention.map_or(USUALLY_KEPT, |kept| kept.value);
            let kept = kept.saturating_add(wait);
            if !wait.is_zero() {
                // Kept for less, it would be gone before it is due.
                let least = wait.saturating_add(Duration::from_secs(1));
                need.retention = Some(AtLeast::required(least));
            }
            set_retention(&mut need, kept, details);
            add(need);
        }
    }
    all.into_values().collect()
}

/// As its source is, and never compacted.
fn like(need: &mut TopicNeed, source: &TopicDetails, dialects: usize) {
    need.compacted = Some(Severity::Error);
    need.partitions = Some(AtLeast::advised(source.partitions));
    need.replication = Some(AtLeast::advised(source.replication));
    let compacted = source.config("cleanup.policy").is_some_and(is_compacted);
    need.retention = match source.config("retention.ms").map(str::parse::<u64>) {
        Some(Ok(millis)) if !compacted => Some(AtLeast::advised(Duration::from_millis(millis))),
        _ => None,
    };
    let bytes = source.config("max.message.bytes").map(str::parse::<u64>);
    if let Some(Ok(bytes)) = bytes {
        need.max_message_bytes = Some(AtLeast::advised(bytes));
        let headers = HEADERS.saturating_mul(u64::try_from(dialects).unwrap_or(u64::MAX));
        // The broker holds it in 32 bits.
        let with_headers = bytes
            .saturating_add(headers)
            .min(i32::MAX.unsigned_abs().into());
        set(need, "max.message.bytes", &with_headers.to_string());
    }
}

fn set_retention(need: &mut TopicNeed, kept: Duration, source: Option<&TopicDetails>) {
    need.compacted = Some(Severity::Error);
    set(need, "cleanup.policy", "delete");
    let for_ever = source.and_then(|source| source.config("retention.ms")) == Some("-1");
    let kept = match for_ever {
        true => "-1".to_owned(),
        false => kept.as_millis().to_string(),
    };
    set(need, "retention.ms", &kept);
}

fn set(need: &mut TopicNeed, name: &str, value: &str) {
    need.config.insert(name.to_owned(), value.to_owned());
}

/// Whether a `cleanup.policy` removes records that a later one of the same key replaces.
pub(super) fn is_compacted(policy: &str) -> bool {
    policy.split(',').any(|part| part.trim() == "compact")
}
