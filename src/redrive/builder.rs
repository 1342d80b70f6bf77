//! What a redrive is to do.

use super::allow::Allow;
use super::filter::Filter;
use super::job;
use super::route::{Route, To};
use super::summary::Summary;
use crate::error::{Error, Result};
use crate::transport::{Settings, check_topic_name, producer_settings};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The longest name of a job, in bytes.
const LONGEST_JOB: usize = 100;

/// The most records of a batch.
const LARGEST_BATCH: usize = 10_000;

/// What is told how far it is.
pub(super) type Progress = Arc<dyn Fn(&Summary) + Send + Sync>;

/// A redrive, ready to be run. See [the module](super).
#[derive(Clone)]
pub struct Redrive {
    /// How to reach the cluster.
    pub(super) settings: Settings,
    pub(super) producer: Settings,
    pub(super) topic: String,
    pub(super) job: String,
    pub(super) filter: Filter,
    pub(super) route: Route,
    pub(super) rate: Option<u32>,
    pub(super) most_redrives: u32,
    pub(super) parking: String,
    pub(super) batch: usize,
    pub(super) keep_timestamps: bool,
    pub(super) patience: Duration,
    pub(super) progress: Option<Progress>,
}

impl Redrive {
    /// A redrive of the dead letters in `topic`, as the job of this name.
    ///
    /// Of `settings`, which may be a consumer's, only what says how to reach the cluster is taken:
    /// servers, security protocol, sasl and ssl.
    pub fn builder(
        settings: &Settings,
        topic: impl Into<String>,
        job: impl Into<String>,
    ) -> RedriveBuilder {
        let topic = topic.into();
        RedriveBuilder {
            redrive: Redrive {
                settings: producer_settings(settings, &Settings::new()),
                producer: Settings::new(),
                parking: format!("{topic}.parking"),
                route: Route {
                    to: To::Auto,
                    group: None,
                    allow: Allow::none(),
                    never: [topic.clone(), String::new()],
                },
                topic,
                job: job.into(),
                filter: Filter::new(),
                rate: None,
                most_redrives: 3,
                batch: 500,
                keep_timestamps: true,
                patience: Duration::from_secs(60),
                progress: None,
            },
            allow: Vec::new(),
        }
    }

    /// The consumer group whose offsets are the job's progress, and the transactional id of its
    /// producer: of two runs at the same time the later goes on, and the earlier ends with an error.
    pub fn group(&self) -> String {
        job::group(&self.topic, &self.job)
    }

    /// The patterns that targets must match.
    pub fn allowed(&self) -> &[String] {
        self.route.allow.patterns()
    }

    /// The topic of those that were redriven too often.
    pub fn parking(&self) -> &str {
        &self.parking
    }

    /// The settings of a consumer.
    pub(super) fn reading(&self) -> Settings {
        let mut settings = self.settings.clone();
        settings.set("group.id", self.group());
        settings
    }

    /// The settings of a producer.
    pub(super) fn writing(&self) -> Settings {
        let mut settings = producer_settings(&self.settings, &self.producer);
        // Which records are too large is the topics' to say.
        settings.set_default("message.max.bytes", "104857600");
        settings
    }
}

impl fmt::Debug for Redrive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redrive")
            .field("topic", &self.topic)
            .field("job", &self.job)
            .field("filter", &self.filter)
            .field("to", &self.route.to)
            .field("allow", &self.allowed())
            .finish_non_exhaustive()
    }
}

/// Says what a redrive is to do.
#[derive(Clone, Debug)]
#[must_use]
pub struct RedriveBuilder {
    redrive: Redrive,
    allow: Vec<String>,
}

impl RedriveBuilder {
    /// Which dead letters; all, unless set.
    pub fn filter(mut self, filter: Filter) -> Self {
        self.redrive.filter = filter;
        self
    }

    /// Where to.
    pub fn to(mut self, to: To) -> Self {
        self.redrive.route.to = to;
        self
    }

    /// The group whose topics of retries are meant, whatever headers say.
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.redrive.route.group = Some(group.into());
        self
    }

    /// `redrive.allow`: a topic that may be written to, or a pattern in which `*` stands for
    /// anything; to be called once for each. Unless called, for a topic `X.dead-letter` these are `X`
    /// and `X.*.retry`, and for any other there is no default.
    pub fn allow(mut self, pattern: impl Into<String>) -> Self {
        self.allow.push(pattern.into());
        self
    }

    /// At most so many records a second; as many as go, unless set.
    pub fn rate(mut self, records: u32) -> Self {
        self.redrive.rate = Some(records);
        self
    }

    /// How often a record may be redriven at all, by whatever job; 3 unless set. One that comes back
    /// once more is parked.
    pub fn most_redrives(mut self, times: u32) -> Self {
        self.redrive.most_redrives = times;
        self
    }

    /// The topic of those that were redriven too often; the dead-letter topic's name and `.parking`
    /// unless set. It need only exist when one comes.
    pub fn parking(mut self, topic: impl Into<String>) -> Self {
        self.redrive.parking = topic.into();
        self
    }

    /// The most records of one transaction; 500 unless set, 10,000 at the most.
    pub fn batch(mut self, records: usize) -> Self {
        self.redrive.batch = records.clamp(1, LARGEST_BATCH);
        self
    }

    /// Gives redriven records the time at which they are written and not that of their originals. A
    /// record whose time is past the retention of its topic may be deleted before anybody reads it.
    pub fn new_timestamps(mut self) -> Self {
        self.redrive.keep_timestamps = false;
        self
    }

    /// Settings of the producer, beside those that say how to reach the cluster.
    pub fn producer(mut self, settings: &Settings) -> Self {
        self.redrive.producer = settings.clone();
        self
    }

    /// How long the brokers may give nothing, where there is something, before the redrive ends with
    /// an error; 60 s unless set.
    pub fn patience(mut self, limit: Duration) -> Self {
        self.redrive.patience = limit;
        self
    }

    /// Is called after each batch with what was done so far.
    pub fn on_progress(mut self, progress: impl Fn(&Summary) + Send + Sync + 'static) -> Self {
        self.redrive.progress = Some(Arc::new(progress));
        self
    }

    /// The redrive.
    ///
    /// # Errors
    /// Kind Config: a name that cannot be, a rate of 0, no `redrive.allow` where it has no default.
    pub fn build(self) -> Result<Redrive> {
        let RedriveBuilder { mut redrive, allow } = self;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let job = &redrive.job;
        if job.is_empty() || job.len() > LONGEST_JOB || !job.bytes().all(is_plain) {
            return Err(Error::config(format!(
                "the name of a job is 1 to {LONGEST_JOB} letters, digits, `.`, `_` and `-`, not `{}`",
                job.escape_debug()
            )));
        }
        for topic in [&redrive.topic, &redrive.parking] {
            check_topic_name(topic).map_err(|why| {
                Error::config(format!(
                    "the name of topic `{}` {why}",
                    topic.escape_debug()
                ))
            })?;
        }
        if redrive.parking == redrive.topic {
            return Err(Error::config(
                "the parking topic is the dead-letter topic itself",
            ));
        }
        if redrive.rate == Some(0) {
            return Err(Error::config(
                "a rate of 0 records a second redrives nothing",
            ));
        }
        redrive.route.allow = Allow::new(allow, &redrive.topic)?;
        redrive.route.never = [redrive.topic.clone(), redrive.parking.clone()];
        Ok(redrive)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn builder(topic: &str, job: &str) -> RedriveBuilder {
        Redrive::builder(&Settings::new(), topic, job)
    }

    #[test]
    fn names_that_cannot_be_are_refused() {
        assert!(builder("orders.dead-letter", "june").build().is_ok());
        for (topic, job) in [
            ("orders.dead-letter", ""),
            ("orders.dead-letter", "a b"),
            ("", "june"),
            ("a b.dead-letter", "june"),
            ("letters", "june"),
        ] {
            let error = builder(topic, job).build().unwrap_err();
            assert_eq!(
                error.kind(),
                crate::status::ErrorKind::Config,
                "{topic} {job}"
            );
        }
        let same = builder("orders.dead-letter", "june").parking("orders.dead-letter");
        assert!(same.build().is_err());
        assert!(
            builder("orders.dead-letter", "june")
                .rate(0)
                .build()
                .is_err()
        );
        assert!(builder("letters", "june").allow("orders").build().is_ok());
    }

    #[test]
    fn a_consumers_own_settings_are_not_taken() {
        let settings: Settings = [
            ("bootstrap.servers", "a:1"),
            ("group.id", "shop"),
            ("auto.offset.reset", "latest"),
            ("sasl.password", "hunter2"),
        ]
        .into_iter()
        .collect();
        let redrive = Redrive::builder(&settings, "orders.dead-letter", "june");
        let redrive = redrive.build().unwrap();
        let reading = redrive.reading();
        assert_eq!(
            reading.get("group.id"),
            Some("orders.dead-letter.redrive.june")
        );
        assert_eq!(reading.get("auto.offset.reset"), None);
        assert_eq!(redrive.writing().get("sasl.password"), Some("hunter2"));
        assert!(!format!("{redrive:?}").contains("hunter2"));
    }
}
