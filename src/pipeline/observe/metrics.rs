//! What a pipeline counts, in whatever recorder is installed when it starts.

use super::gauge::{Count, PartitionGauge};
use super::health::{Health, PartitionHealth};
use super::names;
use crate::metric::MetricSpec;
use crate::pipeline::observer::PipelineEvent;
use crate::pipeline::source::{Destination, Event, Failed};
use crate::pipeline::state::PauseReason;
use metrics::{Counter, Gauge};
use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How many series one metric has at the most, so that no label value grows without an end.
const SERIES: usize = 64;

/// What stands for the values that found no room.
const REST: &str = "other";

/// A counter and its series.
struct Family {
    spec: MetricSpec,
    known: Mutex<HashMap<Vec<String>, Counter>>,
}

impl Family {
    fn new(spec: MetricSpec) -> Self {
        Family {
            spec,
            known: Mutex::default(),
        }
    }

    fn add(&self, values: &[&str], by: u64) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let owned = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect();
        let mut key: Vec<String> = owned(values);
        let rest = vec![REST; values.len()];
        let is_full = known.len() >= SERIES && !known.contains_key(&key);
        if is_full {
            key = owned(&rest);
        }
        let spec = &self.spec;
        let values = if is_full { &rest[..] } else { values };
        let counter = known.entry(key).or_insert_with(|| spec.as_counter(values));
        counter.increment(by);
    }
}

/// The gauges of one partition.
struct PartitionMetrics {
    lag: Gauge,
    in_flight: Gauge,
    bytes: Gauge,
    uncommitted: Gauge,
    oldest_age: Gauge,
    commit_age: Gauge,
    paused: Vec<(PauseReason, Gauge)>,
    user_paused: Gauge,
}

impl PartitionMetrics {
    fn new(topic: &str, partition: i32) -> Self {
        let partition = partition.to_string();
        let of = |spec: MetricSpec| spec.as_gauge(&[topic, &partition]);
        let paused = |reason: &str| names::PAUSED.as_gauge(&[topic, &partition, reason]);
        PartitionMetrics {
            lag: of(names::LAG),
            in_flight: of(names::IN_FLIGHT),
            bytes: of(names::IN_FLIGHT_BYTES),
            uncommitted: of(names::UNCOMMITTED),
            oldest_age: of(names::OLDEST_AGE),
            commit_age: of(names::COMMIT_AGE),
            paused: PauseReason::ALL
                .map(|reason| (reason, paused(reason.as_str())))
                .to_vec(),
            user_paused: paused("user"),
        }
    }

    fn show(&self, health: &PartitionHealth) {
        let age = |age: Option<Duration>| age.map_or(0.0, |age| age.as_secs_f64());
        // What is not known stays what it was.
        if let Some(lag) = health.lag {
            self.lag.set(float(lag));
        }
        self.in_flight.set(float(health.in_flight));
        self.bytes.set(float(health.bytes));
        self.uncommitted.set(float(health.uncommitted));
        self.oldest_age
            .set(age(health.oldest_in_flight.map(|oldest| oldest.age)));
        self.commit_age.set(age(health.commit_age));
        for (reason, gauge) in &self.paused {
            gauge.set(f64::from(u8::from(health.paused == Some(*reason))));
        }
        self.user_paused
            .set(f64::from(u8::from(health.user_paused)));
    }

    /// Another's from here on: the facade takes no series away, but it can say nothing.
    fn clear(&self) {
        for gauge in [
            &self.lag,
            &self.in_flight,
            &self.bytes,
            &self.uncommitted,
            &self.oldest_age,
            &self.commit_age,
            &self.user_paused,
        ] {
            gauge.set(0.0);
        }
        self.paused.iter().for_each(|(_, gauge)| gauge.set(0.0));
    }
}

#[allow(
    clippy::cast_precision_loss,
    reason = "a gauge is a float, exact to 2^53"
)]
fn float(value: impl TryInto<u64>) -> f64 {
    value.try_into().map_or(f64::MAX, |value| value as f64)
}

/// The metrics of one pipeline. Nothing is looked up for a record.
pub(in crate::pipeline) struct PipelineMetrics {
    counts: [Counter; Count::ALL.len()],
    abandoned: Counter,
    stalls: Counter,
    offset_resets: Counter,
    failures: Family,
    dead_letters: Family,
    write_failures: Family,
    commits: Family,
    pauses: Family,
    rebalanced: Family,
    owned: Gauge,
    last_poll_age: Gauge,
    partitions: Mutex<HashMap<(String, i32), PartitionMetrics>>,
}

impl PipelineMetrics {
    pub(super) fn new() -> Self {
        names::METRICS.iter().for_each(MetricSpec::describe);
        let counter = |count: Count| match count {
            Count::In => names::RECORDS_IN.as_counter(&[]),
            Count::Handled => names::RECORDS_OUT.as_counter(&["handled"]),
            Count::Ignored => names::RECORDS_OUT.as_counter(&["ignored"]),
            Count::DeadLetters => names::RECORDS_OUT.as_counter(&["dead-letter"]),
            Count::Delayed => names::RECORDS_OUT.as_counter(&["delayed"]),
            Count::Repeated => names::RECORDS_REPEATED.as_counter(&[]),
            Count::Retries => names::RETRIES.as_counter(&[]),
            Count::Probes => names::PROBES.as_counter(&[]),
        };
        PipelineMetrics {
            counts: Count::ALL.map(counter),
            abandoned: names::RECORDS_ABANDONED.as_counter(&[]),
            stalls: names::STALLS.as_counter(&[]),
            offset_resets: names::OFFSET_RESETS.as_counter(&[]),
            failures: Family::new(names::FAILURES),
            dead_letters: Family::new(names::DEAD_LETTERS),
            write_failures: Family::new(names::WRITE_FAILURES),
            commits: Family::new(names::COMMITS),
            pauses: Family::new(names::PAUSES),
            rebalanced: Family::new(names::REBALANCED),
            owned: names::PARTITIONS.as_gauge(&[]),
            last_poll_age: names::LAST_POLL_AGE.as_gauge(&[]),
            partitions: Mutex::default(),
        }
    }

    /// Counts what a partition's worker counted since.
    pub(super) fn take(&self, gauge: &PartitionGauge) {
        for (counter, news) in self.counts.iter().zip(gauge.take_counts()) {
            if news > 0 {
                counter.increment(news);
            }
        }
    }

    /// Shows how things are; what is not ours any more is cleared.
    pub(super) fn show(&self, health: &Health) {
        let mut partitions = self
            .partitions
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        self.owned.set(float(health.partitions.len()));
        if let Some(age) = health.last_poll_age {
            self.last_poll_age.set(age.as_secs_f64());
        }
        let place = |health: &PartitionHealth| (health.topic.clone(), health.partition);
        let ours: HashSet<(String, i32)> = health.partitions.iter().map(place).collect();
        partitions.retain(|known, metrics| {
            let is_ours = ours.contains(known);
            if !is_ours {
                metrics.clear();
            }
            is_ours
        });
        for health in &health.partitions {
            partitions
                .entry(place(health))
                .or_insert_with(|| PartitionMetrics::new(&health.topic, health.partition))
                .show(health);
        }
    }

    pub(super) fn event(&self, event: &PipelineEvent<'_>) {
        let many = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        match event {
            PipelineEvent::Record { event, .. } => self.record(event),
            PipelineEvent::Assigned(all) => self.rebalanced.add(&["assigned"], many(all.len())),
            PipelineEvent::Revoked(all) => self.rebalanced.add(&["revoked"], many(all.len())),
            PipelineEvent::Lost(all) => self.rebalanced.add(&["lost"], many(all.len())),
            PipelineEvent::OffsetReset(_) => self.offset_resets.increment(1),
            PipelineEvent::Committed { partitions } => self.commits.add(&["ok"], many(*partitions)),
            PipelineEvent::CommitFailed(error) => {
                self.commits.add(&[error.failure.as_str()], 1);
            }
            PipelineEvent::Abandoned { records, .. } => self.abandoned.increment(many(*records)),
            PipelineEvent::Stalled { .. } => self.stalls.increment(1),
            _ => {}
        }
    }

    fn record(&self, event: &Event<'_>) {
        match event {
            Event::Judged { failed, verdict } => {
                let origin = failed.origin.to_string();
                self.failures.add(&[&origin, verdict.as_str()], 1);
            }
            Event::Written {
                to: Destination::DeadLetter,
                failed: Some(failed),
                ..
            } => {
                let kind = failed.error.kind();
                self.dead_letters.add(&[kind.as_str(), stage(failed)], 1);
            }
            Event::Unwritten { to, .. } => self.write_failures.add(&[to.as_str()], 1),
            Event::Paused { reason, .. } => self.pauses.add(&[reason.as_str()], 1),
            _ => {}
        }
    }
}

/// The innermost stage that an error names; a handler's is `handler`.
pub(super) fn stage(failed: &Failed) -> &str {
    failed.error.stages().next_back().unwrap_or("none")
}
