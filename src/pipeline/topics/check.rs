//! Do the topics fit? Pure: what is needed beside what was found.

use super::need::{AtLeast, TopicNeed, TopicUse, is_compacted};
use crate::transport::kafka::{NewTopic, TopicConfigs, TopicDetails, TopicFound, TopicState};
use std::fmt;
use std::time::Duration;

/// How bad a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It works, but not as meant, or not always.
    Warning,
    /// What needs the topic does not work, or loses records.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Warning => "warning",
            Severity::Error => "error",
        })
    }
}

/// What mends a problem; [`Commands`](super::Commands) says it as a command.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remedy {
    /// Creating the topic.
    Create(NewTopic),
    /// More partitions.
    Partitions {
        /// Whose.
        topic: String,
        /// How many.
        partitions: i32,
    },
    /// A setting of the topic.
    Config {
        /// Whose.
        topic: String,
        /// The broker's name of it.
        name: &'static str,
        /// The value.
        value: String,
    },
    /// A right on the topic.
    Right {
        /// On which.
        topic: String,
        /// The operation, as ACLs name it.
        operation: &'static str,
    },
}

/// Something about a topic that does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TopicProblem {
    /// The topic.
    pub topic: String,
    /// How bad it is.
    pub severity: Severity,
    /// What is, and what should be.
    pub message: String,
    /// What mends it, where a command does.
    pub remedy: Option<Remedy>,
}

impl TopicProblem {
    /// A problem that no command mends.
    pub(super) fn new(topic: &str, severity: Severity, message: impl Into<String>) -> Self {
        TopicProblem {
            topic: topic.to_owned(),
            severity,
            message: message.into(),
            remedy: None,
        }
    }

    /// A right that is missing; never more than a warning, for who may not ask may be allowed to write.
    pub(super) fn right(topic: &str, operation: &'static str, why: &str) -> Self {
        let message = format!("the right `{operation} on Topic:{topic}` is missing: {why}");
        TopicProblem {
            remedy: Some(Remedy::Right {
                topic: topic.to_owned(),
                operation,
            }),
            ..Self::new(topic, Severity::Warning, message)
        }
    }
}

impl fmt::Display for TopicProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: topic {}: {}",
            self.severity, self.topic, self.message
        )
    }
}

/// What is wrong with the topics that are needed, in the order of `needs`. Of one that is not among
/// `found` nothing is said.
pub fn check(needs: &[TopicNeed], found: &[TopicFound]) -> Vec<TopicProblem> {
    let mut problems = Vec::new();
    for need in needs {
        let Some(found) = found.iter().find(|found| found.name == need.name) else {
            continue;
        };
        match &found.state {
            TopicState::Exists(details) => {
                Checking {
                    need,
                    problems: &mut problems,
                }
                .details(details);
            }
            TopicState::Missing => problems.push(missing(need)),
            TopicState::Denied => {
                let why = format!(
                    "whether it exists is not known; it is needed {}",
                    uses(need)
                );
                problems.push(TopicProblem::right(&need.name, "Describe", &why));
            }
            TopicState::Unknown(error) => {
                let message = format!("could not be checked: {}", error.message());
                problems.push(TopicProblem::new(&need.name, Severity::Warning, message));
            }
            #[allow(unreachable_patterns)]
            _ => {}
        }
    }
    problems
}

/// The topic as it should be created, if that is known.
pub(super) fn new_topic(need: &TopicNeed) -> Option<NewTopic> {
    let mut topic = NewTopic::new(&need.name, need.partitions?.value.max(1));
    topic.replication = match need.replication {
        Some(copies) if copies.value > 0 => copies.value,
        _ => topic.replication,
    };
    topic.config = need.config.clone();
    Some(topic)
}

fn missing(need: &TopicNeed) -> TopicProblem {
    let message = format!("it does not exist, but is needed {}", uses(need));
    TopicProblem {
        remedy: new_topic(need).map(Remedy::Create),
        ..TopicProblem::new(&need.name, need.missing, message)
    }
}

fn uses(need: &TopicNeed) -> String {
    /// So many are named; one topic may have the dead letters of all others.
    const NAMED: usize = 3;
    let named = need.uses.iter().take(NAMED).map(TopicUse::to_string);
    let text = named.collect::<Vec<_>>().join(", ");
    match need.uses.len().saturating_sub(NAMED) {
        0 => text,
        more => format!("{text} and {more} more"),
    }
}

struct Checking<'a> {
    need: &'a TopicNeed,
    problems: &'a mut Vec<TopicProblem>,
}

impl Checking<'_> {
    fn details(&mut self, details: &TopicDetails) {
        self.partitions(details);
        self.replication(details);
        match &details.configs {
            TopicConfigs::Known(_) => {
                self.cleanup(details);
                self.retention(details);
                self.size(details);
                self.timestamps(details);
            }
            TopicConfigs::Denied => {
                let why = "whether its settings fit is not known";
                let problem = TopicProblem::right(&self.need.name, "DescribeConfigs", why);
                self.problems.push(problem);
            }
            // The brokers tell nobody: there is nothing to be done.
            _ => {}
        }
    }

    fn tell(&mut self, severity: Severity, message: String, remedy: Option<Remedy>) {
        self.problems.push(TopicProblem {
            remedy,
            ..TopicProblem::new(&self.need.name, severity, message)
        });
    }

    fn config(&self, name: &'static str, value: impl fmt::Display) -> Option<Remedy> {
        Some(Remedy::Config {
            topic: self.need.name.clone(),
            name,
            value: value.to_string(),
        })
    }

    fn partitions(&mut self, details: &TopicDetails) {
        let Some(AtLeast { value, severity }) = self.need.partitions else {
            return;
        };
        if details.partitions < value {
            let message = format!(
                "it has {} partitions, but should have {value} ({}): records of the others go where \
                 their keys say, and their order is lost",
                details.partitions,
                uses(self.need)
            );
            let remedy = Remedy::Partitions {
                topic: self.need.name.clone(),
                partitions: value,
            };
            self.tell(severity, message, Some(remedy));
        }
    }

    fn replication(&mut self, details: &TopicDetails) {
        let Some(AtLeast { value, severity }) = self.need.replication else {
            return;
        };
        if details.replication < value {
            let message = format!(
                "it has {} copies, but should have {value} ({}): it can be lost where they are not \
                 (kafka-reassign-partitions.sh adds copies)",
                details.replication,
                uses(self.need)
            );
            self.tell(severity, message, None);
        }
    }

    fn cleanup(&mut self, details: &TopicDetails) {
        let (Some(severity), Some(policy)) =
            (self.need.compacted, details.config("cleanup.policy"))
        else {
            return;
        };
        if is_compacted(policy) {
            let message = format!(
                "cleanup.policy={policy}, but should be delete ({}): of records with one key all but \
                 the last are lost, and those without a key are refused",
                uses(self.need)
            );
            let remedy = self.config("cleanup.policy", "delete");
            self.tell(severity, message, remedy);
        }
    }

    fn retention(&mut self, details: &TopicDetails) {
        let Some(AtLeast { value, severity }) = self.need.retention else {
            return;
        };
        let deletes = details
            .config("cleanup.policy")
            .is_none_or(|policy| policy.contains("delete"));
        let kept = details.config("retention.ms").map(str::parse::<u64>);
        // -1, for ever, is no u64.
        if let Some(Ok(kept)) = kept
            && deletes
            && Duration::from_millis(kept) < value
        {
            let millis = value.as_millis();
            let message = format!(
                "it is kept for {kept} ms (retention.ms), but should be for {millis} ({})",
                uses(self.need)
            );
            let wanted = self.need.config.get("retention.ms").cloned();
            let remedy = self.config("retention.ms", wanted.unwrap_or(millis.to_string()));
            self.tell(severity, message, remedy);
        }
    }

    fn size(&mut self, details: &TopicDetails) {
        let Some(AtLeast { value, severity }) = self.need.max_message_bytes else {
            return;
        };
        let taken = details.config("max.message.bytes").map(str::parse::<u64>);
        if let Some(Ok(taken)) = taken
            && taken < value
        {
            let message = format!(
                "it takes {taken} bytes (max.message.bytes), but should take {value} ({}): a large \
                 record does not fit",
                uses(self.need)
            );
            let wanted = self.need.config.get("max.message.bytes").cloned();
            let remedy = self.config("max.message.bytes", wanted.unwrap_or(value.to_string()));
            self.tell(severity, message, remedy);
        }
    }

    fn timestamps(&mut self, details: &TopicDetails) {
        let kind = details.config("message.timestamp.type");
        let (Some(severity), Some(kind)) = (self.need.own_timestamps, kind) else {
            return;
        };
        if kind != "LogAppendTime" {
            let message = format!(
                "message.timestamp.type={kind}, but should be LogAppendTime ({}): retention counts from \
                 the records' own timestamps, so old ones are deleted at once",
                uses(self.need)
            );
            let remedy = self.config("message.timestamp.type", "LogAppendTime");
            self.tell(severity, message, remedy);
        }
    }
}
