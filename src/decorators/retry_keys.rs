//! What properties say of a retry, and what is likely wrong about it.

use super::retry::Retry;
use crate::backoff::{Backoff, RetryObserver, SharedBackoff, worst_case};
use crate::config::{BuiltWriter, Direction, KeySpec, LintView, Node, NodeInfo, TypeSpec, Writer};
use crate::matcher::SharedMatcher;
use std::sync::Arc;
use std::time::Duration;

const KEYS: &[KeySpec] = &[
    KeySpec::part("delegate", "What it wraps."),
    KeySpec::new(
        "matcher",
        "matcher",
        "Which errors are tried again; without it Temporary ones.",
    ),
    KeySpec::new(
        "backoff",
        KeySpec::BACKOFF,
        "How long to wait before each retry.",
    )
    .or("exponential"),
    KeySpec::new(
        "attempt.timeout.ms",
        "milliseconds",
        "Ends an attempt that takes longer.",
    ),
    KeySpec::new(
        "time.limit.ms",
        "milliseconds",
        "Starts no attempt later than this after the first failure.",
    ),
    KeySpec::new("seed", "whole number", "Makes the jitter repeatable."),
];

/// What `max.poll.interval.ms` is when nobody sets it.
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(300);

/// The type as properties name it.
pub(crate) fn spec() -> TypeSpec {
    TypeSpec::new("retry")
        .doc("Calls its delegate again after each wait of a backoff, while an error may pass.")
        .class_stem("org.apache.kafka.common.serialization.Retry")
        .keys(KEYS)
        .reads(|node| {
            let (settings, delegate) = (Settings::read(node), node.delegate("delegate"));
            let (settings, delegate) = (settings?, delegate?);
            let retry = settings.around(delegate.stage);
            Some(node.built_value(Box::new(retry), delegate.yields))
        })
        .writes(|node| {
            let (settings, delegate) = (Settings::read(node), node.delegate_writer("delegate"));
            let (settings, delegate) = (settings?, delegate?);
            let stage = match delegate.stage {
                Writer::Value(stage) => Writer::Value(Box::new(settings.around(stage))),
                Writer::Bytes(stage) => Writer::Bytes(Box::new(settings.around(stage))),
            };
            Some(BuiltWriter { stage })
        })
        .lints(lint)
}

/// What the keys of a retry say.
struct Settings {
    matcher: Option<SharedMatcher>,
    backoff: SharedBackoff,
    attempt_timeout: Option<Duration>,
    time_limit: Option<Duration>,
    seed: Option<u64>,
    observer: Option<Arc<dyn RetryObserver>>,
    label: Option<String>,
}

impl Settings {
    fn read(node: &mut Node<'_, '_>) -> Option<Self> {
        let (matcher, backoff) = (node.matcher("matcher"), node.backoff("backoff"));
        let attempt_timeout = node.millis("attempt.timeout.ms");
        let time_limit = node.millis("time.limit.ms");
        let seed = node.parse::<u64>("seed", "a whole number", |_| true);
        let (matcher, backoff) = (matcher?, backoff??);
        let (attempt_timeout, time_limit, seed) = (attempt_timeout?, time_limit?, seed?);
        let waits = worst_case(&backoff);
        let longest = match (waits, time_limit) {
            (Some(waits), Some(limit)) => waits.min(limit),
            (Some(longest), None) | (None, Some(longest)) => longest,
            (None, None) if backoff.retries().is_some() => Duration::MAX,
            (None, None) => {
                let message = format!(
                    "the backoff `{}` never ends by itself: give it a number of retries, or the \
                     retry a time.limit.ms",
                    backoff.describe()
                );
                node.problem("backoff", message);
                return None;
            }
        };
        let attempts = backoff.retries().map(|retries| retries.saturating_add(1));
        let in_attempts = match (attempt_timeout, attempts) {
            (Some(timeout), Some(attempts)) => timeout.saturating_mul(attempts),
            (Some(timeout), None) => timeout,
            (None, _) => Duration::ZERO,
        };
        node.longest_wait(Some(longest.saturating_add(in_attempts)));
        Some(Settings {
            matcher,
            backoff,
            attempt_timeout,
            time_limit,
            seed,
            observer: node.retry_observer(),
            label: node.label().map(str::to_owned),
        })
    }

    fn around<D>(self, delegate: D) -> Retry<D> {
        let mut retry = Retry::new(delegate, self.backoff);
        retry.policy.matcher = self.matcher;
        retry.policy.attempt_timeout = self.attempt_timeout;
        retry.policy.time_limit = self.time_limit;
        retry.policy.observer = self.observer;
        if let Some(seed) = self.seed {
            retry = retry.seed(seed);
        }
        match self.label {
            Some(label) => retry.labelled(label),
            None => retry,
        }
    }
}

fn lint(retry: &NodeInfo, view: &LintView<'_>) -> Vec<String> {
    let mut found = Vec::new();
    if retry
        .delegates
        .iter()
        .any(|delegate| delegate.is("exception-handling"))
    {
        found.push(
            "it wraps exception-handling, which turns errors into values: this retry never sees \
             one. Swap the two: exception-handling(retry(…))"
                .to_owned(),
        );
    }
    let max_poll = view
        .properties
        .value("max.poll.interval.ms")
        .and_then(|text| text.trim().parse().ok())
        .map_or(MAX_POLL_INTERVAL, Duration::from_millis);
    if view.direction == Direction::Deserializer
        && let Some(longest) = retry.longest_wait
        && longest > max_poll
    {
        found.push(format!(
            "it may wait {} in all, longer than max.poll.interval.ms ({max_poll:?}): a consumer \
             that decodes between two polls is thrown out of its group meanwhile",
            if longest == Duration::MAX {
                "for ever".to_owned()
            } else {
                format!("{longest:?}")
            },
        ));
    }
    found
}
