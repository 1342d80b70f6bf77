//! What properties say of a pipeline.

use super::drive::{Attempts, DEFAULT_ATTEMPTS};
use super::parts::WorkerSettings;
use super::queue::Order;
use super::too_large::TooLarge;
use super::verdict::{Limits, OnExhausted, Policy, Ratio};
use crate::backoff::{Exponential, List, SharedBackoff};
use crate::config::{Configuration, KeySpec, MAX_MILLIS, Node, SectionSpec};
use crate::dead_letter::{DEFAULT_DESTINATION, Dialect, TimestampPolicy};
use crate::properties::Report;
use crate::transport::Settings;
use std::time::Duration;

/// How often there is a transaction unless `commit.interval.ms` says otherwise.
const TRANSACTION_INTERVAL: Duration = Duration::from_millis(100);

/// What stands below it is for the producer of dead letters.
const PRODUCER: &str = "dead.letter.producer.";

const KEYS: &[KeySpec] = &[
    KeySpec::new(
        "topics",
        "names",
        "The topics to consume, separated by commas; one that begins with `^` is a pattern.",
    ),
    KeySpec::new(
        "processing.order",
        "`partition`, `key` or `unordered`",
        "Which records wait for one another.",
    )
    .or("partition"),
    KeySpec::new(
        "processing.guarantee",
        "`at_least_once` or `exactly_once`",
        "Whether what is written becomes visible together with the offsets, by transactions.",
    )
    .or("at_least_once"),
    KeySpec::new(
        "processing.instance",
        "name",
        "Who of the group this is, for the transactional id of exactly_once, unless `group.instance.id` \
         says it; without either chance does. No two that run may have the same.",
    ),
    KeySpec::new(
        "max.in.flight",
        "whole number",
        "How many records of a partition are handled at once; 1 in the order of the partition.",
    )
    .or("100"),
    KeySpec::new(
        "max.uncommitted",
        "whole number",
        "How many records of a partition may be taken and lie at or beyond the mark.",
    )
    .or("10000"),
    KeySpec::new(
        "max.in.flight.bytes",
        "bytes",
        "How many bytes of a partition may be taken and unfinished.",
    )
    .or("16777216"),
    KeySpec::new(
        "commit.interval.ms",
        "milliseconds",
        "How often marks are committed; 100 unless set with exactly_once.",
    )
    .or("1000"),
    KeySpec::new(
        "drain.timeout.ms",
        "milliseconds",
        "How long work in flight may take when partitions are given back.",
    )
    .or("5000"),
    KeySpec::new(
        "stop.timeout.ms",
        "milliseconds",
        "How long work in flight may take when the pipeline stops.",
    )
    .or("30000"),
    KeySpec::new(
        "handler.attempts",
        "whole number",
        "How often the handler is called for one record, at most.",
    )
    .or("5"),
    KeySpec::new(
        "handler.backoff",
        KeySpec::BACKOFF,
        "The waits between two calls; one that ends ends the attempts. Without it 1, 2, 4 … seconds.",
    ),
    KeySpec::new(
        "handler.timeout.ms",
        "milliseconds",
        "Ends a call of the handler that takes longer.",
    ),
    KeySpec::new(
        "on.exhausted",
        "`dead-letter`, `pause` or `stop`",
        "What becomes of a record whose retries gave up.",
    )
    .or("dead-letter"),
    KeySpec::new(
        "ignore",
        "matcher",
        "Errors whose records count as finished: they are dropped.",
    ),
    KeySpec::new(
        "dead.letter.topic",
        "template",
        "Where records go that failed; `${topic}` and `${group}` stand for their names.",
    )
    .or(DEFAULT_DESTINATION),
    KeySpec::new(
        "dead.letter.dialects",
        "names",
        "Which headers tell what happened, separated by commas: `kafka-chain`, `spring`, `connect`, \
         `streams`, `smallrye`, `share-group`, `cloudevents`.",
    )
    .or("kafka-chain"),
    KeySpec::new(
        "dead.letter.timestamp",
        "`publish` or `source`",
        "The timestamp of a dead letter: when it is written, or the record's own. Without it \
         `publish`, but `source` where all dialects are `connect` and `streams`.",
    ),
    KeySpec::new(
        "dead.letter.too.large",
        "`pause` or `stop`",
        "What becomes of a record whose dead letter is too large for its topic even without its value.",
    )
    .or("pause"),
    KeySpec::new(
        "dead.letter.limit.exhausted",
        "whole number",
        "How many Exhausted records of a partition in a row are dead-lettered before it pauses; 0 is no limit.",
    )
    .or("3"),
    KeySpec::new(
        "dead.letter.limit.consecutive",
        "whole number",
        "How many records of a partition in a row are dead-lettered before it pauses; 0 is no limit.",
    )
    .or("1000"),
    KeySpec::new(
        "dead.letter.limit.ratio",
        "share between 0 and 1",
        "Which share of the latest records of a partition may be dead-lettered before it pauses.",
    ),
    KeySpec::new(
        "dead.letter.limit.ratio.window",
        "whole number",
        "How many records the latest are, for the ratio.",
    )
    .or("100"),
    KeySpec::new(
        "retry.topics",
        "delays",
        "Puts a record that its handler could not handle aside, in a topic for each of these delays in \
         turn, such as `5s,1m,10m`: `${topic}.${group}.retry.5s`. The pipeline consumes them itself, \
         and handles each record when it is due.",
    ),
    KeySpec::new(
        "retry.delay",
        KeySpec::BACKOFF,
        "The same with the waits of a backoff and a delay sink of the application's; it comes back through \
         `${topic}.${group}.retry`.",
    ),
    KeySpec::new(
        "retry.order",
        "`strict` or `relaxed`",
        "A record that is put aside comes after later ones: with the order of the partition or of \
         keys that must be admitted by `relaxed`.",
    )
    .or("strict"),
    KeySpec::new(
        "stall.warn.ms",
        "milliseconds",
        "A record in flight for longer is told of as a stall.",
    )
    .or("60000"),
];

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

/// What the keys of retries say.
#[derive(Clone)]
struct RetryKeys {
    backoff: SharedBackoff,
    topics: Vec<(String, Duration)>,
}

fn read_retries(node: &mut Node<'_, '_>) -> Option<Option<RetryKeys>> {
    let backoff = node.backoff("retry.delay");
    let Some(text) = node.text("retry.topics") else {
        let none = Vec::new();
        return Some(backoff?.map(|backoff| RetryKeys {
            backoff,
            topics: none,
        }));
    };
    if backoff?.is_some() {
        node.problem("retry.delay", "retry.topics says the delays already");
        return None;
    }
    let mut delays = Vec::new();
    for part in text.split(',') {
        match delay(part.trim()) {
            Some(delay) => delays.push((part.trim().to_owned(), delay)),
            None => {
                let message = format!(
                    "`{}` is no delay such as 500ms, 5s, 1m, 2h or 1d",
                    part.trim()
                );
                node.problem("retry.topics", message);
                return None;
            }
        }
    }
    match List::new(delays.iter().map(|(_, delay)| *delay)) {
        Ok(list) => Some(Some(RetryKeys {
            backoff: SharedBackoff::new(list),
            topics: delays,
        })),
        Err(error) => {
            node.problem("retry.topics", error.to_string());
            None
        }
    }
}

/// A whole number and a unit, above zero and below a hundred years.
fn delay(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    let millis = number.parse::<u64>().ok()?.checked_mul(factor)?;
    (1..=MAX_MILLIS)
        .contains(&millis)
        .then(|| Duration::from_millis(millis))
}

fn check_order(
    node: &mut Node<'_, '_>,
    order: Option<Order>,
    retries: Option<&Option<RetryKeys>>,
) -> Option<()> {
    let relaxed = choice(node, "retry.order", |name| match name {
        "strict" => Some(false),
        "relaxed" => Some(true),
        _ => None,
    })?;
    let keeps = matches!(order, Some(Order::Partition | Order::Key));
    if keeps && !relaxed && retries.is_some_and(Option::is_some) {
        let message = "a record that is put aside comes after later ones of its partition and key: \
                       admit that with retry.order=relaxed, or set processing.order=unordered";
        node.problem("retry.order", message);
        return None;
    }
    Some(())
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

fn split(topics: &str) -> Vec<String> {
    let names = topics.split(',').map(str::trim);
    names
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}
