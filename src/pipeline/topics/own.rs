//! Names of topics that are ours: nobody means them by a pattern.

use crate::dead_letter::{destination, is_retry_topic};
use crate::error::{Error, Result};
use crate::transport::check_topic_name;
use regex::bytes::Regex;
use std::fmt;

/// What a topic of ours holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OwnTopic {
    /// Kafka's own: a name that begins with `__`.
    Internal,
    /// Dead letters, by the template of `dead.letter.topic` or the default one, of whatever group; and
    /// those that a redrive parked.
    DeadLetters,
    /// Records that come again to a group: `${topic}.${group}.retry`, of whatever group.
    Retries,
    /// Records that wait: `….delay.60s`.
    Delayed,
    /// A scheduler's records: `….schedule`.
    Schedule,
}

impl fmt::Display for OwnTopic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OwnTopic::Internal => "a topic of Kafka's own",
            OwnTopic::DeadLetters => "a topic of dead letters",
            OwnTopic::Retries => "a topic of retries",
            OwnTopic::Delayed => "a topic of delayed records",
            OwnTopic::Schedule => "a topic of a scheduler",
        })
    }
}

/// Tells topics of ours by their names.
///
/// By the name alone, whether or not there is a topic that it could belong to: dead letters stay what
/// they are when the topic they came from is deleted.
#[derive(Clone, Debug)]
pub struct OwnTopics {
    template: String,
    group: String,
    dead_letters: Regex,
    delayed: Regex,
}

impl OwnTopics {
    /// Of a pipeline of `group`, whose dead letters go where `template` says.
    ///
    /// # Errors
    /// Kind Config, when the template gives no topic; see [`destination`].
    pub fn new(template: &str, group: &str) -> Result<Self> {
        destination(template, "topic", Some(group))?;
        let ours = shape(template);
        let usual = shape(crate::dead_letter::DEFAULT_DESTINATION);
        Ok(OwnTopics {
            template: template.to_owned(),
            group: group.to_owned(),
            dead_letters: compile(&format!(r"^(?:{ours}|{usual})(?:\.parking)?$"))?,
            delayed: compile(r"^.+\.delay\.[0-9]+(?:ms|s|m|h|d)$")?,
        })
    }

    /// What the topic of this name holds, if it is one of ours.
    pub fn kind(&self, name: &str) -> Option<OwnTopic> {
        if name.starts_with("__") {
            Some(OwnTopic::Internal)
        } else if self.dead_letters.is_match(name.as_bytes()) {
            Some(OwnTopic::DeadLetters)
        } else if is_retry_topic(name) {
            Some(OwnTopic::Retries)
        } else if self.delayed.is_match(name.as_bytes()) {
            Some(OwnTopic::Delayed)
        } else if name
            .strip_suffix(".schedule")
            .is_some_and(|of| !of.is_empty())
        {
            Some(OwnTopic::Schedule)
        } else {
            None
        }
    }

    /// The topic whose dead letters this pipeline would write to `name`, if the template names the
    /// topic.
    pub fn source_of(&self, name: &str) -> Option<String> {
        let template = self.template.replace("${group}", &self.group);
        let times = template.matches("${topic}").count();
        let fixed = template.len() - times * "${topic}".len();
        let length = name.len().checked_sub(fixed)?.checked_div(times)?;
        let begin = template.find("${topic}")?;
        let source = name.get(begin..begin.checked_add(length)?)?;
        check_topic_name(source).ok()?;
        let back = destination(&self.template, source, Some(&self.group));
        back.is_ok_and(|back| back == name)
            .then(|| source.to_owned())
    }
}

/// A pattern of the names that a template gives, of any topic and any group.
fn shape(template: &str) -> String {
    let any = template.replace("${topic}", "\0").replace("${group}", "\0");
    let parts: Vec<String> = any.split('\0').map(regex::escape).collect();
    parts.join(".+")
}

/// A pattern for names of topics, which are ASCII.
pub(super) fn compile(pattern: &str) -> Result<Regex> {
    /// Of the compiled pattern, in bytes.
    const MOST: usize = 1 << 20;
    regex::bytes::RegexBuilder::new(pattern)
        .unicode(false)
        .size_limit(MOST)
        .build()
        .map_err(|cause| Error::config(format!("`{pattern}` is no pattern: {cause}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(template: &str) -> OwnTopics {
        OwnTopics::new(template, "shop").unwrap()
    }

    #[test]
    fn names_of_ours_are_known_and_others_are_nobodys() {
        let own = own("${topic}.dead-letter");
        for (name, kind) in [
            ("orders.dead-letter", OwnTopic::DeadLetters),
            ("orders.dead-letter.parking", OwnTopic::DeadLetters),
            ("orders.shop.retry", OwnTopic::Retries),
            ("orders.eu.other.retry", OwnTopic::Retries),
            ("x.delay.60s", OwnTopic::Delayed),
            ("orders.shop.delay.500ms", OwnTopic::Delayed),
            ("orders.schedule", OwnTopic::Schedule),
            ("__consumer_offsets", OwnTopic::Internal),
        ] {
            assert_eq!(own.kind(name), Some(kind), "{name}");
        }
        for name in [
            "orders",
            "dead-letter",
            ".dead-letter",
            "orders-dead-letter",
            "orders.dead-letters",
            "orders.dead-letter.v2",
            "orders.retry",
            "schedule",
            ".schedule",
            "train.delay.report",
            "x.delay.60",
            "_private",
        ] {
            assert_eq!(own.kind(name), None, "{name}");
        }
    }

    #[test]
    fn a_template_of_the_users_gives_names_of_ours_of_any_group() {
        let own = own("dlq.${group}.${topic}");
        for name in ["dlq.shop.orders", "dlq.other.orders", "bills.dead-letter"] {
            assert_eq!(own.kind(name), Some(OwnTopic::DeadLetters), "{name}");
        }
        assert_eq!(own.kind("dlqxshop.orders"), None, "a dot is a dot");
        let fixed = OwnTopics::new("graveyard", "shop").unwrap();
        assert_eq!(fixed.kind("graveyard"), Some(OwnTopic::DeadLetters));
        assert_eq!(fixed.kind("graveyards"), None);
    }

    #[test]
    fn the_source_of_a_topic_of_dead_letters_is_found_again() {
        assert_eq!(
            own("${topic}.dead-letter").source_of("a.dead-letter"),
            Some("a".into())
        );
        assert_eq!(own("${topic}.dead-letter").source_of("a.dead"), None);
        assert_eq!(own("${topic}.dead-letter").source_of(".dead-letter"), None);
        let grouped = own("${group}.${topic}.dead");
        assert_eq!(grouped.source_of("shop.a.b.dead"), Some("a.b".into()));
        assert_eq!(
            grouped.source_of("other.a.b.dead"),
            None,
            "another's letters"
        );
        assert_eq!(
            own("${topic}-${topic}").source_of("ab-ab"),
            Some("ab".into())
        );
        assert_eq!(own("${topic}-${topic}").source_of("ab-ac"), None);
        assert_eq!(
            own("graveyard").source_of("graveyard"),
            None,
            "of any topic"
        );
    }

    #[test]
    fn a_template_that_gives_no_topic_is_refused() {
        for template in ["${topic}", "", "a b", "${else}"] {
            assert!(OwnTopics::new(template, "shop").is_err(), "{template}");
        }
    }
}
