//! What a metric is called and means, and the handles of it.

use metrics::{Counter, Gauge, Histogram, Key, Label, Level, Metadata, Unit, with_recorder};
use std::fmt;

/// How a metric moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MetricKind {
    /// It only rises.
    Counter,
    /// It says how things are.
    Gauge,
    /// Each value is recorded.
    Histogram,
}

impl fmt::Display for MetricKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        })
    }
}

/// A metric of ours: a name that stays, what it counts, and what it is divided by. The values of
/// labels are few: no key, offset, message or fingerprint is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MetricSpec {
    /// Its name.
    pub name: &'static str,
    /// How it moves.
    pub kind: MetricKind,
    /// What it counts: `records`, `bytes`, `seconds`, …
    pub unit: &'static str,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// What it means, in a sentence.
    pub doc: &'static str,
}

const METADATA: Metadata<'static> = Metadata::new("kafka_chain", Level::INFO, None);

impl MetricSpec {
    /// A counter.
    pub const fn counter(name: &'static str, unit: &'static str, doc: &'static str) -> Self {
        MetricSpec::new(name, MetricKind::Counter, unit, doc)
    }

    /// A gauge.
    pub const fn gauge(name: &'static str, unit: &'static str, doc: &'static str) -> Self {
        MetricSpec::new(name, MetricKind::Gauge, unit, doc)
    }

    /// A histogram.
    pub const fn histogram(name: &'static str, unit: &'static str, doc: &'static str) -> Self {
        MetricSpec::new(name, MetricKind::Histogram, unit, doc)
    }

    const fn new(
        name: &'static str,
        kind: MetricKind,
        unit: &'static str,
        doc: &'static str,
    ) -> Self {
        MetricSpec {
            name,
            kind,
            unit,
            labels: &[],
            doc,
        }
    }

    /// The same, divided by these labels.
    #[must_use]
    pub const fn by(mut self, labels: &'static [&'static str]) -> Self {
        self.labels = labels;
        self
    }

    /// Tells the installed recorder what it means.
    pub fn describe(&self) {
        let unit = match self.unit {
            "seconds" => Unit::Seconds,
            "bytes" => Unit::Bytes,
            _ => Unit::Count,
        };
        let (name, unit, doc) = (self.name.into(), Some(unit), self.doc.into());
        with_recorder(|recorder| match self.kind {
            MetricKind::Counter => recorder.describe_counter(name, unit, doc),
            MetricKind::Gauge => recorder.describe_gauge(name, unit, doc),
            MetricKind::Histogram => recorder.describe_histogram(name, unit, doc),
        });
    }

    /// Its handle in the recorder that is installed now, for these values of its labels, in their
    /// order. Getting one is a look-up, using it is not; without a recorder it does nothing.
    pub fn as_counter(&self, values: &[&str]) -> Counter {
        let key = self.key(MetricKind::Counter, values);
        with_recorder(|recorder| recorder.register_counter(&key, &METADATA))
    }

    /// As [`as_counter`](Self::as_counter).
    pub fn as_gauge(&self, values: &[&str]) -> Gauge {
        let key = self.key(MetricKind::Gauge, values);
        with_recorder(|recorder| recorder.register_gauge(&key, &METADATA))
    }

    /// As [`as_counter`](Self::as_counter).
    pub fn as_histogram(&self, values: &[&str]) -> Histogram {
        let key = self.key(MetricKind::Histogram, values);
        with_recorder(|recorder| recorder.register_histogram(&key, &METADATA))
    }

    fn key(&self, kind: MetricKind, values: &[&str]) -> Key {
        debug_assert_eq!((self.kind, self.labels.len()), (kind, values.len()));
        let labels = self.labels.iter().zip(values);
        let labels = labels.map(|(name, value)| Label::new(*name, (*value).to_owned()));
        Key::from_parts(self.name, labels.collect::<Vec<_>>())
    }
}
