//! How dead letters are written, as far as a user says.

use crate::dead_letter::{
    DEFAULT_DESTINATION, DeadLetters, Dialect, Originals, TimestampPolicy, destination,
};
use crate::error::Result;
use crate::pipeline::too_large::TooLarge;
use crate::transport::{Settings, producer_settings};

/// How dead letters are written.
#[derive(Clone, Debug)]
pub struct DeadLetterSettings {
    /// The topic's template (`dead.letter.topic`); see [`destination`].
    pub template: String,
    /// The dialects of the headers, in this order (`dead.letter.dialects`; [`Dialect::list`]).
    pub dialects: Vec<Dialect>,
    /// The consumer group that gives records up.
    pub group: Option<String>,
    /// What becomes of a dead letter's older origin headers.
    pub originals: Originals,
    /// The timestamp (`dead.letter.timestamp`); unless said, it follows from the dialects. A source's
    /// timestamp that the broker refuses gives way to the time of writing.
    pub timestamp: Option<TimestampPolicy>,
    /// What becomes of a record that fits in no way (`dead.letter.too.large`).
    pub too_large: TooLarge,
    /// The settings of the producer; see [`letter_producer_settings`].
    pub producer: Settings,
}

impl DeadLetterSettings {
    /// The defaults, through a producer with these settings.
    pub fn new(producer: Settings) -> Self {
        DeadLetterSettings {
            template: DEFAULT_DESTINATION.to_owned(),
            dialects: vec![Dialect::default()],
            group: None,
            originals: Originals::default(),
            timestamp: None,
            too_large: TooLarge::default(),
            producer,
        }
    }

    /// The defaults beside this consumer: to its cluster, of its group. `overrides` are the producer's
    /// own settings (`dead.letter.producer.*`).
    pub fn beside(consumer: &Settings, overrides: &Settings) -> Self {
        DeadLetterSettings {
            group: consumer.get("group.id").map(str::to_owned),
            ..Self::new(producer_settings(consumer, overrides))
        }
    }

    /// How a failure becomes a dead letter.
    ///
    /// # Errors
    /// Of kind Config, when the template gives no topic; see [`destination`].
    pub fn letters(&self) -> Result<DeadLetters> {
        destination(&self.template, "topic-of-the-record", self.group.as_deref())?;
        let mut letters = DeadLetters::new()
            .dialects(self.dialects.iter().copied())
            .to(self.template.as_str())
            .originals(self.originals);
        if let Some(group) = &self.group {
            letters = letters.group(group.as_str());
        }
        if let Some(policy) = self.timestamp {
            letters = letters.timestamp(policy);
        }
        Ok(letters)
    }
}

/// The settings of a producer of dead letters and of what handlers produce, where `own` says nothing:
/// `delivery.timeout.ms=30000`, so that a broker which does not answer is told of in half a minute
/// rather than in five, and `message.max.bytes=100000000`: what a topic takes is for its broker to
/// say, and batches are held below 1 MB by `batch.size` all the same. See also
/// [`KafkaSink`](crate::transport::kafka::KafkaSink).
pub fn letter_producer_settings(own: &Settings) -> Settings {
    let mut settings = own.clone();
    settings
        .set_default("delivery.timeout.ms", "30000")
        .set_default("message.max.bytes", "100000000");
    settings
}

/// The same for a producer that puts each record into a batch of its own.
pub(super) fn alone(own: &Settings) -> Settings {
    let mut settings = letter_producer_settings(own);
    settings
        .set("batch.num.messages", "1")
        .set("linger.ms", "0");
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_user_says_wins_but_alone_is_alone() {
        let consumer: Settings = [("bootstrap.servers", "a:1"), ("group.id", "shop")]
            .into_iter()
            .collect();
        let overrides: Settings = [("message.max.bytes", "5000"), ("batch.num.messages", "7")]
            .into_iter()
            .collect();
        let settings = DeadLetterSettings::beside(&consumer, &overrides);
        assert_eq!(settings.group.as_deref(), Some("shop"));
        let batched = letter_producer_settings(&settings.producer);
        assert_eq!(batched.get("bootstrap.servers"), Some("a:1"));
        assert_eq!(batched.get("group.id"), None);
        assert_eq!(batched.get("message.max.bytes"), Some("5000"));
        assert_eq!(batched.get("batch.num.messages"), Some("7"));
        assert_eq!(batched.get("delivery.timeout.ms"), Some("30000"));
        let alone = alone(&settings.producer);
        assert_eq!(alone.get("batch.num.messages"), Some("1"));
        assert_eq!(alone.get("message.max.bytes"), Some("5000"));
    }

    #[test]
    fn a_template_that_gives_no_topic_is_refused_at_once() {
        let mut settings = DeadLetterSettings::new(Settings::new());
        assert!(settings.letters().is_ok());
        for template in ["${topic}", "${group}.dead", "a b", "", "${else}"] {
            settings.template = template.to_owned();
            assert!(settings.letters().is_err(), "{template}");
        }
        settings.group = Some("shop".to_owned());
        settings.template = "${group}.${topic}.dead".to_owned();
        let letters = settings.letters().unwrap();
        assert_eq!(letters.topic_of("orders").unwrap(), "shop.orders.dead");
    }
}
