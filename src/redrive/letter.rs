//! A dead letter as it is read.

use crate::dead_letter::{DeadLetterInfo, Field, Original, fingerprint};
use crate::record::Record;

/// The header that counts how often a record was redriven, in decimal digits.
pub const REDRIVES: &str = "kafka-chain-redrives";

/// What stands for a kind or a stage that nobody told.
const UNKNOWN: &str = "-";

/// A dead letter as it is read, without its key and value.
pub(super) struct Letter {
    /// What it was, if it is a dead letter.
    pub(super) original: Option<Original>,
    info: DeadLetterInfo,
    partition: i32,
    millis: Option<i64>,
}

impl Letter {
    pub(super) fn of(record: &Record<'_>) -> Self {
        let original = Original::of(record);
        Letter {
            info: original
                .as_ref()
                .map(|original| original.info.clone())
                .unwrap_or_default(),
            original,
            partition: record.partition,
            millis: record.timestamp.millis(),
        }
    }

    /// The kind of the error, or the class of another framework's exception.
    pub(super) fn kind(&self) -> &str {
        let class = || self.info.text(Field::ExceptionClass);
        match self.info.kind() {
            Some(kind) => kind.as_str(),
            None => class().unwrap_or(UNKNOWN),
        }
    }

    pub(super) fn is_of_kind(&self, kind: &str) -> bool {
        let own = self.kind();
        own == kind || own.rsplit(['.', '$']).next() == Some(kind)
    }

    /// The stages the error passed, or what another framework has instead.
    pub(super) fn stage(&self) -> &str {
        self.stages().next().unwrap_or(UNKNOWN)
    }

    fn stages(&self) -> impl Iterator<Item = &str> {
        [Field::StagePath, Field::ExecutingClass, Field::ConnectStage]
            .into_iter()
            .filter_map(|field| self.info.text(field))
    }

    pub(super) fn passed(&self, stage: &str) -> bool {
        self.stages()
            .any(|own| own == stage || own.split(" > ").any(|one| one == stage))
    }

    pub(super) fn fingerprint(&self) -> String {
        match self.info.fingerprint() {
            Some(fingerprint) => fingerprint.to_owned(),
            None => {
                let message = self.info.message().unwrap_or_default();
                fingerprint(self.kind(), self.stage(), message)
            }
        }
    }

    /// The partition its record was in.
    pub(super) fn partition(&self) -> i32 {
        let original = self.original.as_ref();
        original
            .and_then(|original| original.partition)
            .unwrap_or(self.partition)
    }

    /// When it was given up.
    pub(super) fn failed_at(&self) -> Option<i64> {
        self.info.failed_at().or(self.millis)
    }

    pub(super) fn group(&self) -> Option<&str> {
        self.info.group()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Filter;
    use super::*;
    use crate::dead_letter::{DeadLetters, Dialect};
    use crate::error::Error;
    use crate::headers::Headers;
    use crate::outcome::Failure;
    use crate::record::{OwnedRecord, Part, Timestamp};

    const FAILED: i64 = 1_700_000_000_000;

    fn letter(dialects: &[Dialect]) -> Letter {
        let source = OwnedRecord {
            topic: "orders".into(),
            partition: 4,
            offset: 7,
            ..OwnedRecord::default()
        };
        let error = Error::decrypt("no key 12").at("aes-gcm").at("pipe.from");
        let failure = Failure::new(error, &source.as_record().context(Part::Value));
        let letters = DeadLetters::new().dialects(dialects.iter().copied());
        let letter = letters.group("shop").full(&failure, FAILED).unwrap();
        of(letter.headers)
    }

    fn of(headers: Headers) -> Letter {
        Letter::of(
            &OwnedRecord {
                topic: "orders.dead-letter".into(),
                partition: 1,
                timestamp: Timestamp::CreateTime(FAILED),
                headers,
                ..OwnedRecord::default()
            }
            .as_record(),
        )
    }

    #[test]
    fn each_dialect_is_filtered_as_far_as_it_tells() {
        for dialect in Dialect::ALL {
            let letter = letter(&[dialect]);
            let has_kind = !matches!(dialect, Dialect::ShareGroup);
            let decrypt = Filter::new().kind("decrypt");
            assert_eq!(decrypt.takes(&letter), has_kind, "{dialect}");
            assert!(!Filter::new().kind("schema").takes(&letter), "{dialect}");
            let told = [Dialect::KafkaChain, Dialect::Connect, Dialect::CloudEvents];
            let inner = Filter::new().stage("aes-gcm");
            assert_eq!(inner.takes(&letter), told.contains(&dialect), "{dialect}");
            assert!(Filter::new().partition(4).takes(&letter), "{dialect}");
            assert!(!Filter::new().partition(1).takes(&letter), "{dialect}");
            let print = Filter::new().fingerprint(letter.fingerprint());
            assert!(print.takes(&letter), "{dialect}");
            assert!(!Filter::new().fingerprint("0").takes(&letter), "{dialect}");
            let time = Filter::new().since(FAILED).until(FAILED + 1);
            assert!(time.takes(&letter), "{dialect}");
            assert!(!Filter::new().until(FAILED).takes(&letter), "{dialect}");
            assert!(!Filter::new().since(FAILED + 1).takes(&letter), "{dialect}");
        }
    }

    #[test]
    fn conditions_hold_together_and_values_each_for_itself() {
        let letter = letter(&[Dialect::KafkaChain]);
        let both = Filter::new()
            .kind("schema")
            .kind("decrypt")
            .stage("pipe.from");
        assert!(both.takes(&letter));
        assert!(!both.stage("json").partition(5).takes(&letter));
        assert!(Filter::new().stage("pipe.from > aes-gcm").takes(&letter));
        assert!(!Filter::new().stage("aes").takes(&letter));
    }

    #[test]
    fn classes_of_java_are_kinds_with_and_without_their_package() {
        let class = "org.apache.kafka.common.errors.SerializationException";
        let letter = of([
            ("kafka_dlt-original-topic", Some("orders")),
            ("kafka_dlt-exception-fqcn", Some(class)),
        ]
        .into_iter()
        .collect());
        assert_eq!((letter.kind(), letter.stage()), (class, "-"));
        for kind in [class, "SerializationException"] {
            assert!(Filter::new().kind(kind).takes(&letter));
        }
        assert!(!Filter::new().kind("errors").takes(&letter));
    }

    #[test]
    fn what_is_no_dead_letter_fits_no_condition_about_errors() {
        let letter = of(Headers::new());
        assert!(letter.original.is_none());
        assert!(Filter::new().takes(&letter));
        assert!(Filter::new().partition(1).takes(&letter));
        assert!(!Filter::new().kind("decrypt").takes(&letter));
        assert!(!Filter::new().stage("json").takes(&letter));
    }
}
