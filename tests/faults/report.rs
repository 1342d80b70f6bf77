//! What a fault test found: a line of numbers, and where it fell short.

use crate::tally::Totals;
use std::fmt::Display;
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(crate) struct Report {
    began: Instant,
    totals: Totals,
    bound: u64,
    early: Option<u64>,
    more: Vec<(String, String)>,
    shortcomings: Vec<String>,
}

impl Report {
    pub(crate) fn new() -> Self {
        Report {
            began: Instant::now(),
            totals: Totals::default(),
            bound: 0,
            early: None,
            more: Vec::new(),
            shortcomings: Vec::new(),
        }
    }

    /// Adds what became of the records of one part of the test, and how many may come twice there.
    pub(crate) fn add(&mut self, part: &str, totals: Totals, bound: u64) {
        println!("{part}: {totals} bound={bound}");
        self.must(totals.lost == 0, format!("{part}: {} lost", totals.lost));
        let twice = totals.duplicates;
        self.must(
            twice <= bound,
            format!("{part}: {twice} duplicates, but at most {bound} may be"),
        );
        let broken = totals.disorders;
        self.must(
            broken == 0,
            format!("{part}: {broken} records before an earlier one of their key"),
        );
        self.totals += totals;
        self.bound += bound;
    }

    /// How many records were delivered before their time, where they have one.
    pub(crate) fn early(&mut self, early: u64) {
        *self.early.get_or_insert_default() += early;
        self.must(early == 0, format!("{early} early"));
    }

    /// One more number of the last line.
    pub(crate) fn say(&mut self, name: &str, value: impl Display) {
        self.more.push((name.to_owned(), value.to_string()));
    }

    /// One more duration of the last line, in seconds.
    pub(crate) fn seconds(&mut self, name: &str, value: Duration) {
        self.say(name, format!("{:.1}", value.as_secs_f64()));
    }

    pub(crate) fn must(&mut self, is_so: bool, otherwise: impl Into<String>) {
        if !is_so {
            let text = otherwise.into();
            println!("short: {text}");
            self.shortcomings.push(text);
        }
    }

    /// Prints the last line; whether nothing fell short.
    pub(crate) fn end(self, name: &str) -> bool {
        let early = self.early.map(|early| format!(" early={early}"));
        let early = early.unwrap_or_default();
        print!("{name} {}{early} bound={}", self.totals, self.bound);
        for (name, value) in &self.more {
            print!(" {name}={value}");
        }
        println!(
            " seconds={:.0} {}",
            self.began.elapsed().as_secs_f64(),
            match self.shortcomings.is_empty() {
                true => "met",
                false => "short",
            }
        );
        self.shortcomings.is_empty()
    }
}
