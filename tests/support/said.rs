//! A subscriber of tracing that remembers what was said under our target.
#![allow(dead_code, unreachable_pub, reason = "helpers of several tests")]

use std::fmt::{Debug, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

#[derive(Clone)]
pub struct Said {
    most: Level,
    lines: Arc<Mutex<Vec<String>>>,
    spans: Arc<Mutex<Vec<String>>>,
    ids: Arc<AtomicU64>,
}

impl Said {
    /// Down to `most`.
    pub fn at(most: Level) -> Self {
        Said {
            most,
            lines: Arc::default(),
            spans: Arc::default(),
            ids: Arc::default(),
        }
    }

    /// `LEVEL message field=value …`.
    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    pub fn with(&self, text: &str) -> Vec<String> {
        let mut lines = self.lines();
        lines.retain(|line| line.contains(text));
        lines
    }

    /// `name field=value …` of each span that was made.
    pub fn spans(&self) -> Vec<String> {
        self.spans.lock().unwrap().clone()
    }
}

#[derive(Default)]
struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => self.0 = format!("{value:?}{}", self.0),
            name => write!(self.0, " {name}={value:?}").unwrap(),
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        write!(self.0, " {}={value}", field.name()).unwrap();
    }
}

impl Subscriber for Said {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.most && metadata.target().starts_with("kafka_chain")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut fields = Fields::default();
        span.record(&mut fields);
        let name = span.metadata().name();
        self.spans
            .lock()
            .unwrap()
            .push(format!("{name}{}", fields.0));
        Id::from_u64(self.ids.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let line = format!("{} {}", event.metadata().level(), fields.0);
        self.lines.lock().unwrap().push(line);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
