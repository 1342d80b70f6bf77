//! Records fetched from where they were consumed.

use super::problem::Problem;
use crate::error::{Error, Result};
use crate::record::OwnedRecord;
use crate::status::{ErrorKind, Status};
use crate::transport::Settings;
use crate::transport::kafka::{OffsetReader, PartitionBounds};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// How many records are read over on the way to the next wanted one, rather than sought past.
const OVER: i64 = 500;

/// The most records of one read.
const READ: usize = 500;

/// Topic, partition and offset.
pub(super) type Place = (String, i32, i64);

/// What was found at a place.
pub(super) type Found = Result<OwnedRecord, Problem>;

/// A consumer of single records.
pub(super) struct Origins {
    reader: OffsetReader,
    patience: Duration,
}

impl Origins {
    /// Reads what was consumed, by whatever isolation.
    pub(super) fn start(settings: &Settings, patience: Duration) -> Result<Self> {
        let mut settings = settings.clone();
        settings.set("isolation.level", "read_uncommitted");
        Ok(Origins {
            reader: OffsetReader::start(&settings)?,
            patience,
        })
    }

    /// The records at these places.
    ///
    /// # Errors
    /// When the cluster does not answer: what is there is not known then.
    pub(super) async fn fetch(&mut self, places: Vec<Place>) -> Result<BTreeMap<Place, Found>> {
        let mut by_partition: BTreeMap<(String, i32), Vec<i64>> = BTreeMap::new();
        for (topic, partition, offset) in places {
            let offsets = by_partition.entry((topic, partition)).or_default();
            offsets.push(offset);
        }
        let mut all = BTreeMap::new();
        for ((topic, partition), mut offsets) in by_partition {
            offsets.sort_unstable();
            offsets.dedup();
            let found = self.fetch_of(&topic, partition, &offsets).await?;
            for (offset, found) in found {
                let found = found.ok_or_else(|| {
                    Problem::Gone(format!("{topic} [{partition}] @{offset} is not there"))
                });
                all.insert((topic.clone(), partition, offset), found);
            }
        }
        Ok(all)
    }

    async fn fetch_of(
        &mut self,
        topic: &str,
        partition: i32,
        offsets: &[i64],
    ) -> Result<BTreeMap<i64, Option<OwnedRecord>>> {
        let mut found: BTreeMap<i64, Option<OwnedRecord>> =
            offsets.iter().map(|offset| (*offset, None)).collect();
        let count = self.reader.partitions(topic).await?.unwrap_or(0);
        if !(0..count).contains(&partition) {
            return Ok(found);
        }
        let bounds = self.reader.bounds(topic, &[partition]).await?;
        let Some(PartitionBounds { first, end }) = bounds.first().copied() else {
            return Ok(found);
        };
        let mut wanted = offsets
            .iter()
            .copied()
            .filter(|offset| (first..end).contains(offset))
            .peekable();
        while let Some(from) = wanted.peek().copied() {
            self.reader.assign(topic, &[(partition, from)])?;
            let mut at = from;
            let mut last = Instant::now();
            // Until there is nothing left, or the next one lies too far ahead to read on.
            while wanted.peek().is_some_and(|next| next - at <= OVER) {
                let read = match self.reader.read(READ, self.patience).await {
                    Ok(read) => read,
                    // Deleted since its bounds were looked up.
                    Err(error) if is_gone(&error) => {
                        wanted.next();
                        break;
                    }
                    Err(error) => return Err(error),
                };
                let over = |next: &i64, offset: i64| *next < offset;
                for record in &read.records {
                    let offset = record.record().offset;
                    at = offset;
                    while wanted.next_if(|next| over(next, offset)).is_some() {}
                    if wanted.next_if_eq(&offset).is_some() && record.has_readable_headers() {
                        found.insert(offset, Some(record.record().to_owned()));
                    }
                }
                for (_, end) in &read.ends {
                    while wanted.next_if(|next| over(next, *end)).is_some() {}
                }
                if !read.records.is_empty() || !read.ends.is_empty() {
                    last = Instant::now();
                } else if last.elapsed() >= self.patience {
                    let text = format!("{topic} [{partition}] gave no record in time");
                    let warning = self.reader.take_warning();
                    return Err(warning.unwrap_or_else(|| Error::timeout(text)));
                }
            }
        }
        self.reader.assign(topic, &[])?;
        Ok(found)
    }
}

/// Only an offset out of range is permanent without being a matter of rights or settings.
fn is_gone(error: &Error) -> bool {
    error.status() == Status::Permanent && error.kind() == ErrorKind::Other
}
