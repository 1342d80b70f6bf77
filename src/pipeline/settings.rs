//! What properties say of a pipeline.

mod keys;
mod retries;

use super::drive::{Attempts, DEFAULT_ATTEMPTS};
use super::parts::WorkerSettings;
use super::queue::Order;
use super::too_large::TooLarge;
use super::topic_keys::{TopicCheck, TopicCreate, split};
use super::verdict::{Limits, OnExhausted, Policy, Ratio};
use crate::backoff::{Exponential, SharedBackoff};
use crate::config::{Configuration, Node, SectionSpec};
use crate::dead_letter::{Dialect, TimestampPolicy};
use crate::properties::Report;
use crate::transport::Settings;
use keys::KEYS;
use retries::{check_order, read_retries};
use std::time::Duration;

/// How often there is a transaction unless `commit.interval.ms` says otherwise.
const TRANSACTION_INTERVAL: Duration = Duration::from_millis(100);

/// What stands below it is for the producer of dead letters.
const PRODUCER: &str = "dead.letter.producer.";

/// The keys of a pipeline.
pub(crate) fn section() -> SectionSpec {
    SectionSpec::new("pipeline", KEYS, PipelineSettings::read)
}

/// Whether what a pipeline writes becomes visible together with the offsets it commits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Guarantee {
    /// Effects are durable before offsets are committed: after a crash some come twice.
    #[default]
    AtLeastOnce,
    /// Records written and offsets committed in one transaction.
    ExactlyOnce,
}

impl Guarantee {
    /// Every guarantee.
    pub const ALL: [Guarantee; 2] = [Guarantee::AtLeastOnce, Guarantee::ExactlyOnce];

    /// The value of `processing.guarantee`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Guarantee::AtLeastOnce => "at_least_once",
            Guarantee::ExactlyOnce => "exactly_once",
        }
    }

    /// The guarantee with this name, if there is one.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == name)
    }
}

/// How a pipeline works, as properties say it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PipelineSettings {
    /// The topics to consume; one that begins with `^` is a pattern.
    pub topics: Vec<String>,
    /// Whether a pipeline starts whose topics do not fit.
    pub topic_check: TopicCheck,
    /// Whether topics that are missing are created.
    pub topic_create: TopicCreate,
    /// How each partition is worked on.
    pub worker: WorkerSettings,
    /// What is committed with what.
    pub guarantee: Guarantee,
    /// Who of the group this is, for its transactional id; `group.instance.id` wins.
    pub instance: Option<String>,
    /// How often marks are committed.
    pub commit_interval: Duration,
    /// How long work in flight may take when the pipeline stops.
    pub stop_timeout: Duration,
    /// Ends a call of the handler that takes longer.
    pub handler_timeout: Option<Duration>,
    /// The template of the dead-letter topic.
    pub dead_letter_topic: String,
    /// The dialects of the headers of dead letters, in this order.
    pub dead_letter_dialects: Vec<Dialect>,
    /// The timestamp of dead letters; unless said, it follows from the dialects.
    pub dead_letter_timestamp: Option<TimestampPolicy>,
    /// What becomes of a record whose dead letter fits in no way.
    pub dead_letter_too_large: TooLarge,
    /// The delays of `retry.topics`, in turn, as they are written; none without it.
    pub retry_topics: Vec<(String, Duration)>,
    /// A record in flight for longer is told of as a stall.
    pub stall_warn: Duration,
    /// Whether the seconds of chains and handlers are measured.
    pub timing: bool,
    /// Settings of the producer of dead letters and outputs, beside those it inherits.
    pub producer: Settings,
}

impl PipelineSettings {
    /// The settings of a configuration.
    ///
    /// # Errors
    /// All mistakes in one go; none that [`Registry::configure`](crate::config::Registry::configure)
    /// did not report already.
    pub fn of(configuration: &Configuration) -> Result<Self, Report> {
        let mut settings = configuration.section(&section(), Self::read)?;
        settings.producer = configuration
            .own()
            .iter()
            .filter_map(|own| Some((own.key.strip_prefix(PRODUCER)?, own.value.clone())))
            .collect();
        Ok(settings)
    }

    /// Reads all keys before it gives up on one, so that every mistake is reported.
    fn read(node: &mut Node<'_, '_>) -> Option<Self> {
        let topics = node.text("topics").unwrap_or_default();
        let topic_check = choice(node, "topics.check", TopicCheck::from_name);
        let topic_create = choice(node, "topics.create", TopicCreate::from_name);
        let order = choice(node, "processing.order", Order::from_name);
        let guarantee = choice(node, "processing.guarantee", Guarantee::from_name);
        let on_exhausted = choice(node, "on.exhausted", OnExhausted::from_name);
        let count = "a whole number above 0";
        let max_in_flight = node.parse::<usize>("max.in.flight", count, |n| *n > 0);
        let max_uncommitted = node.parse::<usize>("max.uncommitted", count, |n| *n > 0);
        let max_bytes = node.parse::<usize>("max.in.flight.bytes", count, |n| *n > 0);
        let instance = node.text("processing.instance");
        let commit_interval = node.millis("commit.interval.ms");
        let is_default = !node.is_set("commit.interval.ms");
        let drain = node.millis("drain.timeout.ms");
        let stop_timeout = node.millis("stop.timeout.ms");
        let attempts = node.parse::<u32>("handler.attempts", count, |n| *n > 0);
        let backoff = node.backoff("handler.backoff");
        let handler_timeout = node.millis("handler.timeout.ms");
        let ignore = node.matcher("ignore");
        let dead_letter_topic = node.text("dead.letter.topic");
        let dialects = read_dialects(node);
        let timestamp = match node.is_set("dead.letter.timestamp") {
            true => choice(node, "dead.letter.timestamp", TimestampPolicy::from_name).map(Some),
            false => Some(None),
        };
        let too_large = choice(node, "dead.letter.too.large", TooLarge::from_name);
        let limit = "a whole number";
        let exhausted = node.parse::<u32>("dead.letter.limit.exhausted", limit, |_| true);
        let consecutive = node.parse::<u32>("dead.letter.limit.consecutive", limit, |_| true);
        let share = node.parse::<f64>("dead.letter.limit.ratio", "between 0 and 1", |share| {
            (0.0..=1.0).contains(share)
        });
        let window = node.parse::<u16>(
            "dead.letter.limit.ratio.window",
            "a whole number from 1 to 65535",
            |n| *n > 0,
        );
        let stall_warn = node.millis("stall.warn.ms");
        let timing = node.parse::<bool>("metrics.timing", "true or false", |_| true);
        let retries = read_retries(node);
        let (share, window) = (share?, window??);
        // What comes again later need not be held up here, unless somebody asks for that.
        let calls_once = retries.as_ref().is_some_and(Option::is_some)
            && !node.is_set("handler.backoff")
            && !node.is_set("handler.attempts");
        let checked = check_order(node, order, retries.as_ref());
        checked?;
        let policy = Policy {
            on_exhausted: on_exhausted?,
            ignore: ignore?,
            delay: retries.clone()?.map(|retries| retries.backoff),
            limits: Limits {
                exhausted: exhausted??,
                consecutive: consecutive??,
                ratio: share.map(|share| Ratio { window, share }),
            },
        };
        let worker = WorkerSettings {
            order: order?,
            max_in_flight: max_in_flight??,
            max_uncommitted: max_uncommitted??,
            max_bytes: max_bytes??,
            attempts: attempts_of(attempts??, backoff?, calls_once),
            policy,
            drain: drain??,
            ..WorkerSettings::default()
        };
        Some(PipelineSettings {
            topics: split(&topics),
            topic_check: topic_check?,
            topic_create: topic_create?,
            worker,
            guarantee: guarantee?,
            commit_interval: match guarantee? {
                Guarantee::ExactlyOnce if is_default => TRANSACTION_INTERVAL,
                _ => commit_interval??,
            },
            instance,
            stop_timeout: stop_timeout??,
            handler_timeout: handler_timeout?,
            dead_letter_topic: dead_letter_topic?,
            dead_letter_dialects: dialects?,
            dead_letter_timestamp: timestamp?,
            dead_letter_too_large: too_large?,
            retry_topics: retries?.map_or_else(Vec::new, |retries| retries.topics),
            stall_warn: stall_warn??,
            timing: timing??,
            producer: Settings::new(),
        })
    }
}

fn choice<T>(node: &mut Node<'_, '_>, key: &str, named: impl Fn(&str) -> Option<T>) -> Option<T> {
    let text = node.text(key)?;
    let found = named(&text);
    if found.is_none() {
        let kind = KEYS.iter().find(|spec| spec.name == key);
        let what = kind.map_or("", |spec| spec.kind);
        node.problem(key, format!("`{text}` is not {what}"));
    }
    found
}

fn read_dialects(node: &mut Node<'_, '_>) -> Option<Vec<Dialect>> {
    let key = "dead.letter.dialects";
    let names = node.text(key)?;
    let dialects = Dialect::list(&names);
    dialects
        .map_err(|error| node.problem(key, error.message().to_owned()))
        .ok()
}

fn attempts_of(limit: u32, backoff: Option<SharedBackoff>, calls_once: bool) -> Attempts {
    if calls_once {
        return Attempts::once().giving_up();
    }
    let backoff = backoff.unwrap_or_else(|| {
        let retries = limit.saturating_sub(1).max(DEFAULT_ATTEMPTS - 1);
        SharedBackoff::new(Exponential::new().max_attempts(retries).unwrap_or_default())
    });
    Attempts::new(Some(limit), backoff)
}
