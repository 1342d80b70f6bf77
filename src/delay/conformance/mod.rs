//! What every delayed delivery must do, as suites that anyone can run over their own.
//!
//! [`sink`] sees a [`DelaySink`](super::DelaySink) as a black box: records go in, and come out at the
//! other end of whatever lies between. [`store`] calls a [`DelayStore`](super::DelayStore) with its
//! [`DelayAdmin`](super::DelayAdmin). Every rule runs on its own and answers with what was broken; none panics. They
//! wait on tokio's clock, so that in a paused test a store on a
//! [`FakeClock`](crate::clock::FakeClock) is checked at once.

pub mod sink;
pub mod store;

mod store_admin;
mod store_claims;

use super::{Delayed, Receipt, When};
use crate::error::Result;
use crate::record::OutgoingRecord;
use bytes::Bytes;
use std::fmt;
use std::time::Duration;

/// What one rule came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// The rule, in words.
    pub rule: &'static str,
    /// Nothing, or what was broken.
    pub broken: Option<String>,
}

impl Checked {
    fn new(rule: &'static str, outcome: Outcome) -> Self {
        let broken = outcome.err().map(|broken| broken.0);
        Checked { rule, broken }
    }
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.broken {
            None => write!(f, "ok      {}", self.rule),
            Some(broken) => write!(f, "BROKEN  {}: {broken}", self.rule),
        }
    }
}

/// The rules that were broken, one a line; `Ok` when there are none.
///
/// # Errors
/// The lines.
pub fn all_kept(checked: &[Checked]) -> std::result::Result<(), String> {
    let broken = checked.iter().filter(|checked| checked.broken.is_some());
    let lines: Vec<String> = broken.map(Checked::to_string).collect();
    match lines.is_empty() {
        true => Ok(()),
        false => Err(lines.join("\n")),
    }
}

/// What was broken. Any error of the thing that is checked is one, too.
#[derive(Debug)]
struct Broken(String);

type Outcome<T = ()> = std::result::Result<T, Broken>;

impl From<crate::error::Error> for Broken {
    fn from(error: crate::error::Error) -> Self {
        Broken(format!("an error: {error:#}"))
    }
}

fn ensure(kept: bool, what: impl FnOnce() -> String) -> Outcome {
    if kept { Ok(()) } else { Err(Broken(what())) }
}

fn ensure_eq<T: PartialEq + fmt::Debug>(found: T, expected: T, what: &str) -> Outcome {
    ensure(found == expected, || {
        format!("{what}: {found:?} instead of {expected:?}")
    })
}

fn only<T>(mut items: Vec<T>, what: &str) -> Outcome<T> {
    match (items.pop(), items.is_empty()) {
        (Some(item), true) => Ok(item),
        _ => Err(Broken(format!("not exactly one answer: {what}"))),
    }
}

/// A record for `topic` whose value says `text`.
fn record(topic: &str, text: &str) -> OutgoingRecord {
    OutgoingRecord {
        topic: topic.to_owned(),
        key: Some(Bytes::from_static(b"key")),
        value: Some(Bytes::copy_from_slice(text.as_bytes())),
        ..OutgoingRecord::default()
    }
}

fn after(millis: u64, record: OutgoingRecord) -> Delayed {
    Delayed::new(When::After(Duration::from_millis(millis)), record)
}

fn accepted(answers: Vec<Result<Receipt>>, count: usize) -> Outcome<Vec<Receipt>> {
    ensure_eq(answers.len(), count, "answers of schedule")?;
    Ok(answers.into_iter().collect::<Result<_>>()?)
}
