//! Which topics may be written to.

use crate::dead_letter::DEFAULT_DESTINATION;
use crate::error::{Error, Result};

/// Patterns of topics, of which a target must match one: headers are anybody's, and whoever can write
/// to a dead-letter topic may not be one who can write everywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Allow(Vec<String>);

impl Allow {
    /// Permits nothing.
    pub(super) const fn none() -> Self {
        Allow(Vec::new())
    }

    /// The patterns; where there are none, the topic whose dead letters go to `topic` by default, and
    /// its topics of retries.
    pub(super) fn new(patterns: Vec<String>, topic: &str) -> Result<Self> {
        if patterns.iter().any(String::is_empty) {
            return Err(Error::config("redrive.allow has an empty pattern"));
        }
        if !patterns.is_empty() {
            return Ok(Allow(patterns));
        }
        let suffix = DEFAULT_DESTINATION.trim_start_matches("${topic}");
        match topic.strip_suffix(suffix) {
            Some(source) if !source.is_empty() => {
                Ok(Allow(vec![source.to_owned(), format!("{source}.*.retry")]))
            }
            _ => Err(Error::config(format!(
                "redrive.allow is missing: `{topic}` does not tell whose dead letters it holds, so \
                 name the topics that may be written to"
            ))),
        }
    }

    pub(super) fn permits(&self, topic: &str) -> bool {
        self.0
            .iter()
            .any(|pattern| fits(pattern.as_bytes(), topic.as_bytes()))
    }

    pub(super) fn patterns(&self) -> &[String] {
        &self.0
    }
}

/// Whether `text` fits a pattern in which `*` stands for anything, nothing too.
fn fits(pattern: &[u8], text: &[u8]) -> bool {
    let mut parts = pattern.split(|byte| *byte == b'*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let mut parts: Vec<&[u8]> = parts.collect();
    let Some(last) = parts.pop() else {
        return rest.is_empty();
    };
    // The earliest place of each part leaves most for those behind it.
    for part in parts {
        let found =
            (0..=rest.len()).find(|at| rest.get(*at..).is_some_and(|r| r.starts_with(part)));
        match found.and_then(|at| rest.get(at + part.len()..)) {
            Some(behind) => rest = behind,
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The definition, letter by letter.
    fn by_definition(pattern: &[u8], text: &[u8]) -> bool {
        match pattern.split_first() {
            None => text.is_empty(),
            Some((b'*', rest)) => (0..=text.len()).any(|at| by_definition(rest, &text[at..])),
            Some((one, rest)) => text
                .split_first()
                .is_some_and(|(found, behind)| found == one && by_definition(rest, behind)),
        }
    }

    proptest! {
        #[test]
        fn a_star_stands_for_anything(pattern in "[ab*]{0,8}", text in "[ab]{0,8}") {
            let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
            prop_assert_eq!(fits(pattern, text), by_definition(pattern, text));
        }
    }

    #[test]
    fn by_default_only_the_topic_that_the_dead_letters_are_of() {
        let allow = Allow::new(Vec::new(), "orders.dead-letter").unwrap();
        for topic in ["orders", "orders.shop.retry"] {
            assert!(allow.permits(topic), "{topic}");
        }
        for topic in [
            "payments",
            "orders2",
            "orders.retry",
            "orders.dead-letter",
            "",
        ] {
            assert!(!allow.permits(topic), "{topic}");
        }
        assert!(Allow::new(Vec::new(), "letters").is_err());
        assert!(Allow::new(Vec::new(), ".dead-letter").is_err());
        assert!(Allow::new(vec![String::new()], "orders.dead-letter").is_err());
        let own = Allow::new(vec!["pay*".into()], "orders.dead-letter").unwrap();
        assert!(own.permits("payments") && !own.permits("orders"));
    }
}
