//! A recorder of metrics that remembers the last value of each series.
#![allow(dead_code, unreachable_pub, reason = "helpers of several tests")]

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

#[derive(Clone, Default)]
pub struct Recorded(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    values: BTreeMap<String, f64>,
    counts: BTreeMap<String, u64>,
    described: BTreeSet<String>,
    registered: usize,
}

struct Series(Recorded, String);

impl Series {
    fn change(&self, change: impl FnOnce(&mut f64)) {
        let mut state = self.0.0.lock().unwrap();
        change(state.values.entry(self.1.clone()).or_default());
    }
}

impl CounterFn for Series {
    fn increment(&self, by: u64) {
        self.change(|value| *value += by as f64);
    }

    fn absolute(&self, value: u64) {
        self.change(|known| *known = value as f64);
    }
}

impl GaugeFn for Series {
    fn increment(&self, by: f64) {
        self.change(|value| *value += by);
    }

    fn decrement(&self, by: f64) {
        self.change(|value| *value -= by);
    }

    fn set(&self, to: f64) {
        self.change(|value| *value = to);
    }
}

impl HistogramFn for Series {
    fn record(&self, value: f64) {
        assert!(value >= 0.0);
        let mut state = self.0.0.lock().unwrap();
        *state.counts.entry(self.1.clone()).or_default() += 1;
    }
}

impl Recorded {
    /// `name{label=value,…}`.
    fn series(&self, key: &Key) -> Arc<Series> {
        let labels: Vec<String> = key
            .labels()
            .map(|label| format!("{}={}", label.key(), label.value()))
            .collect();
        let name = match labels.is_empty() {
            true => key.name().to_owned(),
            false => format!("{}{{{}}}", key.name(), labels.join(",")),
        };
        self.0.lock().unwrap().registered += 1;
        Arc::new(Series(self.clone(), name))
    }

    pub fn get(&self, series: &str) -> Option<f64> {
        self.0.lock().unwrap().values.get(series).copied()
    }

    /// How many values a histogram recorded.
    pub fn count(&self, series: &str) -> u64 {
        let state = self.0.lock().unwrap();
        state.counts.get(series).copied().unwrap_or_default()
    }

    pub fn sum(&self, name: &str) -> f64 {
        let state = self.0.lock().unwrap();
        let of = |series: &str| series.split('{').next() == Some(name);
        let values = state.values.iter();
        values
            .filter(|(series, _)| of(series))
            .map(|(_, v)| v)
            .sum()
    }

    pub fn names(&self) -> Vec<String> {
        let state = self.0.lock().unwrap();
        state
            .values
            .keys()
            .chain(state.counts.keys())
            .cloned()
            .collect()
    }

    pub fn described(&self) -> BTreeSet<String> {
        self.0.lock().unwrap().described.clone()
    }

    /// How often a handle was asked for.
    pub fn registered(&self) -> usize {
        self.0.lock().unwrap().registered
    }

    fn describe(&self, name: &KeyName) {
        let name = name.as_str().to_owned();
        self.0.lock().unwrap().described.insert(name);
    }
}

impl Recorder for Recorded {
    fn describe_counter(&self, name: KeyName, _: Option<Unit>, _: SharedString) {
        self.describe(&name);
    }

    fn describe_gauge(&self, name: KeyName, _: Option<Unit>, _: SharedString) {
        self.describe(&name);
    }

    fn describe_histogram(&self, name: KeyName, _: Option<Unit>, _: SharedString) {
        self.describe(&name);
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.series(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.series(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.series(key))
    }
}
