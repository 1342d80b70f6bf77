//! Where a dead letter's record goes.

use super::allow::Allow;
use super::letter::Letter;
use super::problem::Problem;
use crate::dead_letter::retry_topic;
use crate::error::Result;
use crate::transport::kafka::OffsetReader;
use std::collections::HashMap;

/// The most topics whose number of partitions is kept: their names are anybody's.
const TOPICS: usize = 1_000;

/// Where redriven records go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum To {
    /// To the topic of retries of the group that gave it up, where that exists and is allowed; else
    /// as [`Source`](To::Source).
    #[default]
    Auto,
    /// To the topic the record came from, where every group consumes it again, and to the partition
    /// of the same number, if there is one; else the key decides.
    Source,
    /// To `${topic}.${group}.retry`, through which only the group that gave it up gets it.
    Retry,
}

/// A topic that exists and may be written to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) topic: String,
    pub(super) partitions: i32,
    pub(super) retry: bool,
}

/// Which topics a record may go to, the best first.
#[derive(Clone, Debug)]
pub(super) struct Route {
    pub(super) to: To,
    /// The group whose retries they are, whatever headers say.
    pub(super) group: Option<String>,
    pub(super) allow: Allow,
    /// Topics of the redrive itself, in which a record would go round in circles.
    pub(super) never: [String; 2],
}

impl Route {
    /// Each with whether it is a topic of retries; at least one.
    pub(super) fn candidates(&self, letter: &Letter) -> Result<Vec<(String, bool)>, Problem> {
        let original = letter.original.as_ref().ok_or(Problem::NoOrigin)?;
        let source = original.topic.clone().ok_or(Problem::NoOrigin)?;
        let group = self.group.as_deref().or_else(|| letter.group());
        // A group whose name is none of a topic's has no topic of retries.
        let retry = group.and_then(|group| retry_topic(&source, group).ok());
        let candidates = match (self.to, retry) {
            (To::Source, _) | (To::Auto, None) => vec![(source, false)],
            (To::Retry, None) => return Err(Problem::NoGroup),
            (To::Retry, Some(retry)) => vec![(retry, true)],
            (To::Auto, Some(retry)) => vec![(retry, true), (source, false)],
        };
        let permitted: Vec<_> = candidates
            .iter()
            .filter(|(topic, _)| self.allow.permits(topic) && !self.never.contains(topic))
            .cloned()
            .collect();
        match (permitted.is_empty(), candidates.last()) {
            (true, Some((topic, _))) => Err(Problem::NotAllowed(topic.clone())),
            _ => Ok(permitted),
        }
    }
}

/// How many partitions topics have; looked up once a run.
#[derive(Debug, Default)]
pub(super) struct Topics(HashMap<String, Option<i32>>);

impl Topics {
    pub(super) async fn partitions(
        &mut self,
        reader: &OffsetReader,
        topic: &str,
    ) -> Result<Option<i32>> {
        if let Some(known) = self.0.get(topic) {
            return Ok(*known);
        }
        let found = reader.partitions(topic).await?;
        if self.0.len() >= TOPICS {
            self.0.clear();
        }
        self.0.insert(topic.to_owned(), found);
        Ok(found)
    }

    /// The first of the candidates that exists.
    pub(super) async fn first(
        &mut self,
        reader: &OffsetReader,
        candidates: Vec<(String, bool)>,
    ) -> Result<Result<Target, Problem>> {
        let mut missing = String::new();
        for (topic, retry) in candidates {
            if let Some(partitions) = self.partitions(reader, &topic).await? {
                return Ok(Ok(Target {
                    topic,
                    partitions,
                    retry,
                }));
            }
            missing = topic;
        }
        Ok(Err(Problem::NoTopic(missing)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::OwnedRecord;

    fn route(to: To, allow: &[&str]) -> Route {
        let allow = allow.iter().map(|one| (*one).to_owned()).collect();
        Route {
            to,
            group: None,
            allow: Allow::new(allow, "orders.dead-letter").unwrap(),
            never: ["orders.dead-letter", "orders.dead-letter.parking"].map(str::to_owned),
        }
    }

    fn letter(topic: Option<&str>, group: Option<&str>) -> Letter {
        let headers = [
            ("kafka-chain-origin-topic", topic.map(str::to_owned)),
            ("kafka-chain-group", group.map(str::to_owned)),
            ("kafka-chain-kind", Some("decrypt".to_owned())),
        ];
        Letter::of(
            &OwnedRecord {
                headers: headers.into_iter().collect(),
                ..OwnedRecord::default()
            }
            .as_record(),
        )
    }

    fn topics(route: &Route, letter: &Letter) -> Result<Vec<String>, Problem> {
        let candidates = route.candidates(letter)?;
        Ok(candidates.into_iter().map(|(topic, _)| topic).collect())
    }

    #[test]
    fn retries_of_the_group_come_first_where_nothing_else_is_said() {
        let one = letter(Some("orders"), Some("shop"));
        let of = |to| topics(&route(to, &[]), &one).unwrap();
        assert_eq!(of(To::Auto), ["orders.shop.retry", "orders"]);
        assert_eq!(of(To::Source), ["orders"]);
        assert_eq!(of(To::Retry), ["orders.shop.retry"]);
        let mut own = route(To::Retry, &[]);
        own.group = Some("mail".into());
        assert_eq!(topics(&own, &one).unwrap(), ["orders.mail.retry"]);
        let nobody = letter(Some("orders"), None);
        assert_eq!(topics(&route(To::Auto, &[]), &nobody).unwrap(), ["orders"]);
        let refused = topics(&route(To::Retry, &[]), &nobody);
        assert_eq!(refused, Err(Problem::NoGroup));
        let nowhere = topics(&route(To::Auto, &[]), &letter(None, None));
        assert_eq!(nowhere, Err(Problem::NoOrigin));
    }

    #[test]
    fn headers_lead_nowhere_that_is_not_allowed() {
        let forged = letter(Some("payments"), Some("shop"));
        for to in [To::Auto, To::Source, To::Retry] {
            let refused = topics(&route(to, &[]), &forged);
            assert!(matches!(refused, Err(Problem::NotAllowed(_))), "{to:?}");
        }
        let one = letter(Some("orders"), Some("shop"));
        let source = route(To::Auto, &["orders"]);
        assert_eq!(topics(&source, &one).unwrap(), ["orders"]);
        for own in ["orders.dead-letter", "orders.dead-letter.parking"] {
            let circle = topics(&route(To::Source, &["*"]), &letter(Some(own), None));
            assert_eq!(circle, Err(Problem::NotAllowed(own.into())));
        }
    }
}
