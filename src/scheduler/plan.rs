//! What becomes of a batch of consumed records: runs, refusals, and what is known already.

use super::run::Run;
use crate::delay::deliver::DeliverRules;
use crate::delay::embedded::runs::RunKey;
use crate::delay::wire;
use crate::error::{Error, Result};
use crate::record::Record;
use bytes::Bytes;
use std::collections::BTreeMap;

/// What a former owner has taken in beyond the committed offset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Covered {
    /// Everything below was taken in.
    below: i64,
    /// First → last and time.
    runs: BTreeMap<i64, (i64, i64)>,
}

impl Covered {
    /// Everything below this offset is.
    pub(super) fn below(below: i64) -> Self {
        Covered {
            below,
            runs: BTreeMap::new(),
        }
    }

    /// A run of the changelog, whether it was taken back or not. Of runs that overlap the longest
    /// at one first offset counts: forgetting one means to deliver twice at the worst.
    pub(super) fn add(&mut self, key: RunKey) {
        if key.last < self.below {
            return;
        }
        let run = self.runs.entry(key.first).or_insert((key.last, key.at));
        if key.last > run.0 {
            *run = (key.last, key.at);
        }
    }

    /// Whether the record that is due at `at` was taken in. One of the same offset that is due at
    /// another time is another record: the topic was made anew.
    fn has(&mut self, offset: i64, at: i64) -> bool {
        if offset < self.below {
            return true;
        }
        // What lies below is never asked for again.
        let passed = |(_, (last, _)): &(&i64, &(i64, i64))| *last < offset;
        while self.runs.first_key_value().as_ref().is_some_and(passed) {
            self.runs.pop_first();
        }
        let run = self.runs.range(..=offset).next_back();
        run.is_some_and(|(_, (last, due))| offset <= *last && *due == at)
    }
}

/// What becomes of a batch.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) runs: Vec<Run>,
    /// Places in the batch, and why.
    pub(super) refused: Vec<(usize, Error)>,
    /// How many were taken in before.
    pub(super) known: u64,
}

/// Plans a batch, records in the order of offsets. `readable` tells whether a record's headers could
/// be read; `ingested` is the time, rounded up. A record that does not say when is due at once.
pub(super) fn plan<'r>(
    records: impl IntoIterator<Item = (Record<'r>, bool)>,
    covered: &mut Covered,
    rules: &DeliverRules,
    max_record_bytes: usize,
    ingested: i64,
) -> Plan {
    let mut plan = Plan::default();
    for (place, (record, readable)) in records.into_iter().enumerate() {
        match taken(&record, readable, rules, max_record_bytes, ingested) {
            Err(_) if record.offset < covered.below => plan.known += 1,
            Err(error) => plan.refused.push((place, error)),
            Ok((at, _)) if covered.has(record.offset, at) => plan.known += 1,
            Ok((at, bytes)) => match plan.runs.last_mut() {
                Some(run) if run.takes(at, record.offset, bytes.len()) => run.push(bytes),
                _ => plan.runs.push(Run::one(at, record.offset, bytes)),
            },
        }
    }
    plan
}

fn taken(
    record: &Record<'_>,
    readable: bool,
    rules: &DeliverRules,
    max_record_bytes: usize,
    ingested: i64,
) -> Result<(i64, Bytes)> {
    if !readable {
        return Err(Error::malformed("the headers cannot be read"));
    }
    let delivery = rules.delivery(record, ingested)?;
    let bytes = wire::encode(&delivery.outgoing(record), max_record_bytes)?;
    Ok((delivery.at.unwrap_or(0), bytes))
}

#[cfg(test)]
mod tests;
