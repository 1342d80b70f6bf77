//! Which dead letters are redriven.

use super::letter::Letter;
use std::collections::BTreeSet;
use std::fmt::{self, Write as _};

/// The longest filter that is kept with the offsets as it is, in bytes: well below the 4,096 that a
/// coordinator takes by default.
const KEPT: usize = 1_000;

/// How much of a longer one is kept beside its hash.
const SHOWN: usize = 900;

/// Which dead letters are redriven: those that fit each condition that is given, and of a condition's
/// values one. Without conditions: all.
///
/// `Display` is its one canonical text: two filters that choose by the same have the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    kinds: BTreeSet<String>,
    stages: BTreeSet<String>,
    fingerprints: BTreeSet<String>,
    partitions: BTreeSet<i32>,
    since: Option<i64>,
    until: Option<i64>,
}

impl Filter {
    /// All dead letters.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whose error is of this kind: the name of an [`ErrorKind`](crate::ErrorKind), or the class of
    /// another framework's exception, whole or without its package.
    #[must_use]
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        self.kinds.insert(kind.into());
        self
    }

    /// Whose error passed this stage: its name, the whole stage path, or what another framework has
    /// instead (Connect's stage or executing class).
    #[must_use]
    pub fn stage(mut self, stage: impl Into<String>) -> Self {
        self.stages.insert(stage.into());
        self
    }

    /// Whose error has this [fingerprint](crate::dead_letter::fingerprint). Where a dialect has
    /// none, it is that of its kind or class, its stage and its message.
    #[must_use]
    pub fn fingerprint(mut self, fingerprint: impl Into<String>) -> Self {
        self.fingerprints.insert(fingerprint.into());
        self
    }

    /// Whose record was in this partition of its topic; the dead letter's own partition, where its
    /// headers do not tell.
    #[must_use]
    pub fn partition(mut self, partition: i32) -> Self {
        self.partitions.insert(partition);
        self
    }

    /// Given up at this instant or later, in milliseconds since the Unix epoch; where headers do not
    /// tell when, the dead letter's own timestamp counts.
    #[must_use]
    pub fn since(mut self, millis: i64) -> Self {
        self.since = Some(millis);
        self
    }

    /// Given up before this instant, in milliseconds since the Unix epoch.
    #[must_use]
    pub fn until(mut self, millis: i64) -> Self {
        self.until = Some(millis);
        self
    }

    pub(super) fn takes(&self, letter: &Letter) -> bool {
        fn one<T: Ord>(of: &BTreeSet<T>, fits: impl Fn(&T) -> bool) -> bool {
            of.is_empty() || of.iter().any(fits)
        }
        let time = |limit: Option<i64>, fits: fn(&i64, &i64) -> bool| match limit {
            None => true,
            Some(limit) => letter.failed_at().is_some_and(|time| fits(&time, &limit)),
        };
        one(&self.kinds, |kind| letter.is_of_kind(kind))
            && one(&self.stages, |stage| letter.passed(stage))
            && (self.fingerprints.is_empty() || self.fingerprints.contains(&letter.fingerprint()))
            && (self.partitions.is_empty() || self.partitions.contains(&letter.partition()))
            && time(self.since, i64::ge)
            && time(self.until, i64::lt)
    }

    /// What is kept with the offsets of a job.
    pub(super) fn kept(&self) -> String {
        let text = self.to_string();
        if text.len() <= KEPT {
            return text;
        }
        let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        // The text is ASCII, so it can be cut anywhere.
        let shown = text.get(..SHOWN).unwrap_or_default();
        format!("{shown}... ({} bytes, hash {hash:016x})", text.len())
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut conditions: Vec<String> = Vec::new();
        for (name, values) in [
            ("kind", &self.kinds),
            ("stage", &self.stages),
            ("fingerprint", &self.fingerprints),
        ] {
            if !values.is_empty() {
                let values: Vec<String> = values.iter().map(|value| plain(value)).collect();
                conditions.push(format!("{name}={}", values.join(",")));
            }
        }
        if !self.partitions.is_empty() {
            let numbers: Vec<String> = self.partitions.iter().map(i32::to_string).collect();
            conditions.push(format!("partition={}", numbers.join(",")));
        }
        for (name, millis) in [("since", self.since), ("until", self.until)] {
            conditions.extend(millis.map(|millis| format!("{name}={millis}")));
        }
        match conditions.is_empty() {
            true => f.write_str("all"),
            false => f.write_str(&conditions.join(" ")),
        }
    }
}

/// `text` in printable ASCII without what separates values: other bytes as `%XX`.
fn plain(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'%' | b',' | b'=' | 0..=b' ' | 0x7f.. => {
                // Writing to a String does not fail.
                let _ = write!(out, "%{byte:02X}");
            }
            byte => out.push(char::from(byte)),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn texts() -> impl Strategy<Value = Vec<String>> {
        proptest::collection::vec("[a,=% é]{0,3}", 0..3)
    }

    fn filter() -> impl Strategy<Value = Filter> {
        let numbers = (
            proptest::collection::vec(0..3_i32, 0..3),
            proptest::option::of(0..3_i64),
            proptest::option::of(0..3_i64),
        );
        (texts(), texts(), texts(), numbers).prop_map(|(kinds, stages, prints, numbers)| Filter {
            kinds: kinds.into_iter().collect(),
            stages: stages.into_iter().collect(),
            fingerprints: prints.into_iter().collect(),
            partitions: numbers.0.into_iter().collect(),
            since: numbers.1,
            until: numbers.2,
        })
    }

    proptest! {
        #[test]
        fn two_filters_have_one_text_only_if_they_are_one(a in filter(), b in filter()) {
            prop_assert_eq!(a.to_string() == b.to_string(), a == b);
            prop_assert!(a.to_string().is_ascii());
        }
    }

    #[test]
    fn the_text_does_not_depend_on_the_order_of_conditions() {
        let one = Filter::new()
            .kind("schema")
            .stage("json")
            .kind("decrypt")
            .partition(3);
        let other = Filter::new()
            .partition(3)
            .kind("decrypt")
            .kind("schema")
            .stage("json");
        assert_eq!(
            one.to_string(),
            "kind=decrypt,schema stage=json partition=3"
        );
        assert_eq!(one.kept(), other.kept());
        assert_eq!(Filter::new().to_string(), "all");
        assert_eq!(
            Filter::new().since(1).until(9).to_string(),
            "since=1 until=9"
        );
    }

    #[test]
    fn a_long_filter_is_kept_short_and_still_told_from_others() {
        let long = |last: i32| {
            (0..1_000)
                .chain([last])
                .fold(Filter::new(), Filter::partition)
        };
        let (one, other) = (long(5_000).kept(), long(5_001).kept());
        assert!(one.len() < 1_000, "{}", one.len());
        assert_ne!(one, other);
        assert_eq!(one, long(5_000).kept());
    }
}
