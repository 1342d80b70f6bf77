//! How far a job is.

use super::filter::Filter;
use crate::error::{Error, Result};
use crate::transport::kafka::{Commit, Committed, OwnedPartition, PartitionBounds};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The group whose offsets are a job's progress.
pub(super) fn group(topic: &str, job: &str) -> String {
    format!("{topic}.redrive.{job}")
}

/// A partition that is read, as far as it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    /// The next offset.
    pub(super) next: i64,
    /// Where it ended when the redrive started.
    pub(super) end: i64,
}

/// Where a redrive starts and ends.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Spans {
    pub(super) of: BTreeMap<i32, Span>,
    /// Partitions for which the job has committed nothing yet.
    pub(super) new: bool,
    /// Offsets that were deleted before the job came to them.
    pub(super) expired: u64,
}

/// From what the job has committed and what is there.
///
/// # Errors
/// Of kind Config: another filter under this name, or offsets that are none of this topic's.
pub(super) fn spans(
    job: &str,
    filter: &Filter,
    committed: &[Committed],
    bounds: &[PartitionBounds],
) -> Result<Spans> {
    let mut spans = Spans {
        of: BTreeMap::new(),
        new: false,
        expired: 0,
    };
    let kept = filter.kept();
    for (partition, (committed, bounds)) in (0_i32..).zip(committed.iter().zip(bounds)) {
        let Some(offset) = committed.offset else {
            spans.new = true;
            let PartitionBounds { first, end } = *bounds;
            spans.of.insert(partition, Span { next: first, end });
            continue;
        };
        let before = committed.metadata.as_deref().unwrap_or("(unreadable)");
        if before != kept {
            return Err(Error::config(format!(
                "job `{job}` was begun with the filter `{}`, and this one is `{kept}`: take another \
                 name for the job, or the filter it was begun with",
                before.escape_debug()
            )));
        }
        if offset > bounds.end {
            return Err(Error::config(format!(
                "job `{job}` has read partition {partition} up to offset {offset}, and it ends at {}: \
                 the topic was made anew, so take another name for the job",
                bounds.end
            )));
        }
        let deleted = u64::try_from(bounds.first.saturating_sub(offset)).unwrap_or(0);
        spans.expired = spans.expired.saturating_add(deleted);
        let next = offset.max(bounds.first);
        let end = bounds.end;
        spans.of.insert(partition, Span { next, end });
    }
    Ok(spans)
}

/// The offsets, with the filter of the job.
pub(super) fn commits(
    topic: &str,
    positions: impl Iterator<Item = (i32, i64)>,
    kept: &str,
) -> Vec<Commit> {
    let topic: Arc<str> = Arc::from(topic);
    positions
        .map(|(partition, offset)| {
            let owned = OwnedPartition {
                topic: Arc::clone(&topic),
                partition,
                ownership: 0,
            };
            let mut commit = Commit::new(owned, offset);
            commit.metadata = Some(kept.to_owned());
            commit
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(offset: i64, filter: &Filter) -> Committed {
        Committed {
            offset: Some(offset),
            metadata: Some(filter.kept()),
        }
    }

    fn bounds(first: i64, end: i64) -> PartitionBounds {
        PartitionBounds { first, end }
    }

    #[test]
    fn a_job_goes_on_where_it_was_and_begins_at_the_first_record() {
        let filter = Filter::new().kind("decrypt");
        let committed = [Committed::default(), at(7, &filter), at(2, &filter)];
        let bounds = [bounds(3, 9), bounds(0, 7), bounds(5, 8)];
        let found = spans("job", &filter, &committed, &bounds).unwrap();
        let span = |next, end| Span { next, end };
        let expected = [(0, span(3, 9)), (1, span(7, 7)), (2, span(5, 8))];
        assert_eq!(found.of, BTreeMap::from(expected));
        assert!(found.new);
        assert_eq!(found.expired, 3);
    }

    #[test]
    fn another_filter_under_the_same_name_is_refused_with_both_shown() {
        let (before, now) = (Filter::new().kind("decrypt"), Filter::new().kind("schema"));
        let error = spans("june", &now, &[at(1, &before)], &[bounds(0, 2)]).unwrap_err();
        let text = error.to_string();
        for part in ["june", "kind=decrypt", "kind=schema"] {
            assert!(text.contains(part), "{text}");
        }
        // Offsets that something else committed under the group's name.
        for metadata in [None, Some(String::new())] {
            let other = Committed {
                offset: Some(1),
                metadata,
            };
            assert!(spans("june", &now, &[other], &[bounds(0, 2)]).is_err());
        }
    }

    #[test]
    fn a_topic_that_was_made_anew_is_told() {
        let filter = Filter::new();
        let error = spans("june", &filter, &[at(9, &filter)], &[bounds(0, 2)]).unwrap_err();
        assert!(error.to_string().contains("made anew"), "{error}");
    }
}
