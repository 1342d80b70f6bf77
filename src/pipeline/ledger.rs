//! Who owns which partition now, and what of it is to be committed.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// A partition of a topic.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicPartition {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition's number.
    pub partition: i32,
}

impl TopicPartition {
    /// Partition `partition` of `topic`.
    pub fn new(topic: impl Into<Arc<str>>, partition: i32) -> Self {
        TopicPartition {
            topic: topic.into(),
            partition,
        }
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

impl fmt::Debug for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// One period in which a partition was ours. The broker checks a group's generation, not which of
/// its periods a commit means, so each assignment gets a number of our own, never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ownership(u64);

impl Ownership {
    /// The period of this number, of whoever numbers them.
    pub const fn of(number: u64) -> Self {
        Ownership(number)
    }

    /// Its number.
    pub const fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Ownership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// An offset below which everything is finished, in one ownership.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The partition.
    pub partition: TopicPartition,
    /// The period it was marked in; a mark of an earlier one is ignored.
    pub ownership: Ownership,
    /// The offset to commit: the next one to be delivered after a restart.
    pub offset: i64,
}

/// Where a worker writes its mark and the committer reads it: no queue, the latest counts.
#[derive(Clone, Debug)]
pub struct MarkCell {
    ownership: Ownership,
    shown: Arc<Shown>,
}

#[derive(Debug)]
struct Shown {
    mark: AtomicI64,
    oldest: AtomicI64,
}

/// No offset of Kafka's is negative.
const UNMARKED: i64 = -1;

impl MarkCell {
    /// The ownership whose mark this is.
    pub fn ownership(&self) -> Ownership {
        self.ownership
    }

    fn new(ownership: Ownership) -> Self {
        MarkCell {
            ownership,
            shown: Arc::new(Shown {
                mark: AtomicI64::new(UNMARKED),
                oldest: AtomicI64::new(UNMARKED),
            }),
        }
    }

    /// Raises the mark; a lower one changes nothing.
    pub fn raise(&self, offset: i64) {
        self.shown.mark.fetch_max(offset, Ordering::AcqRel);
    }

    /// The mark, if there is one yet.
    pub fn get(&self) -> Option<i64> {
        let offset = self.shown.mark.load(Ordering::Acquire);
        (offset != UNMARKED).then_some(offset)
    }

    /// Says which record is the lowest that is taken and unfinished.
    pub(super) fn set_oldest(&self, offset: Option<i64>) {
        let offset = offset.unwrap_or(UNMARKED);
        self.shown.oldest.store(offset, Ordering::Release);
    }

    /// The lowest record that is taken and unfinished.
    pub(super) fn oldest(&self) -> Option<i64> {
        let oldest = self.shown.oldest.load(Ordering::Acquire);
        (oldest != UNMARKED).then_some(oldest)
    }

    /// Whether nothing below `offset` is unfinished: the mark waits for this record.
    pub fn waits_for(&self, offset: i64) -> bool {
        self.oldest().is_some_and(|oldest| offset <= oldest)
    }
}

/// The partitions we own, their marks, and what was committed of them.
///
/// A partition revoked gives its last mark to be committed; a partition lost is forgotten, and
/// nothing of it is committed any more. Whatever its old worker still writes goes to a cell that
/// nobody reads.
#[derive(Debug, Default)]
pub struct Ledger {
    owned: HashMap<TopicPartition, Owned>,
    given: u64,
}

#[derive(Debug)]
struct Owned {
    cell: MarkCell,
    committed: Option<i64>,
}

impl Owned {
    fn due(&self, partition: &TopicPartition) -> Option<Mark> {
        let offset = self.cell.get()?;
        self.committed
            .is_none_or(|committed| committed < offset)
            .then(|| Mark {
                partition: partition.clone(),
                ownership: self.cell.ownership,
                offset,
            })
    }
}

impl Ledger {
    /// No partitions.
    pub fn new() -> Self {
        Ledger::default()
    }

    /// A partition became ours. An ownership of it that had not ended is taken as lost.
    pub fn assign(&mut self, partition: TopicPartition) -> MarkCell {
        let next = Ownership(self.given.saturating_add(1));
        self.assign_as(partition, next)
    }

    /// The same in a period that somebody else numbered, by numbers that rise.
    pub fn assign_as(&mut self, partition: TopicPartition, ownership: Ownership) -> MarkCell {
        self.given = self.given.max(ownership.0);
        let cell = MarkCell::new(ownership);
        let owned = Owned {
            cell: cell.clone(),
            committed: None,
        };
        self.owned.insert(partition, owned);
        cell
    }

    /// The partition is given back in order: its last mark, if it is not committed yet. Call it after
    /// its worker has ended.
    pub fn revoke(&mut self, partition: &TopicPartition) -> Option<Mark> {
        let owned = self.owned.remove(partition)?;
        owned.due(partition)
    }

    /// The partition is another's already: forgotten without a commit. False if it was not ours.
    pub fn lose(&mut self, partition: &TopicPartition) -> bool {
        self.owned.remove(partition).is_some()
    }

    /// What is marked and not committed.
    pub fn due(&self) -> Vec<Mark> {
        self.owned
            .iter()
            .filter_map(|(partition, owned)| owned.due(partition))
            .collect()
    }

    /// A commit succeeded. False, without effect, when the mark is of an ownership that ended.
    pub fn committed(&mut self, mark: &Mark) -> bool {
        match self.owned.get_mut(&mark.partition) {
            Some(owned) if owned.cell.ownership == mark.ownership => {
                owned.committed = owned.committed.max(Some(mark.offset));
                true
            }
            _ => false,
        }
    }

    /// Whether `ownership` is the present one of `partition`.
    pub fn owns(&self, partition: &TopicPartition, ownership: Ownership) -> bool {
        self.owned
            .get(partition)
            .is_some_and(|owned| owned.cell.ownership == ownership)
    }

    /// The partitions that are ours.
    pub fn partitions(&self) -> impl Iterator<Item = &TopicPartition> {
        self.owned.keys()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn orders(partition: i32) -> TopicPartition {
        TopicPartition::new("orders", partition)
    }

    #[test]
    fn a_mark_is_due_until_it_is_committed() {
        let mut ledger = Ledger::new();
        let cell = ledger.assign(orders(0));
        assert_eq!(ledger.due(), []);
        cell.raise(5);
        cell.raise(4);
        let due = ledger.due();
        assert_eq!(due.iter().map(|mark| mark.offset).collect::<Vec<_>>(), [5]);
        assert!(due.iter().all(|mark| ledger.committed(mark)));
        assert_eq!(ledger.due(), []);
        cell.raise(6);
        assert_eq!(ledger.due().len(), 1);
    }

    /// FC-077: what was finished since the last commit is committed when the partition is revoked.
    #[test]
    fn a_revoked_partition_gives_its_last_mark() {
        let mut ledger = Ledger::new();
        ledger.assign(orders(0)).raise(5);
        let last = ledger.revoke(&orders(0)).unwrap();
        assert_eq!((last.partition, last.offset), (orders(0), 5));
        assert_eq!(ledger.due(), []);
        assert_eq!(ledger.revoke(&orders(0)), None);
    }

    /// FC-069: nothing of a lost partition is committed, and what its old worker marks later is not
    /// taken for a mark of the next ownership.
    #[test]
    fn a_lost_partition_is_never_committed() {
        let mut ledger = Ledger::new();
        let old = ledger.assign(orders(0));
        old.raise(10);
        let in_flight = ledger.due().remove(0);
        assert!(ledger.lose(&orders(0)));
        old.raise(11);
        assert_eq!(ledger.due(), []);

        let new = ledger.assign(orders(0));
        assert_ne!(old.ownership(), new.ownership());
        old.raise(12);
        assert_eq!(ledger.due(), []);
        assert!(!ledger.committed(&in_flight));
        assert!(!ledger.owns(&orders(0), old.ownership()));
        new.raise(3);
        assert_eq!(ledger.due().remove(0).offset, 3);
    }

    #[test]
    fn only_the_partition_named_is_given_back() {
        let mut ledger = Ledger::new();
        for partition in 0..4 {
            ledger.assign(orders(partition)).raise(1);
        }
        assert!(ledger.revoke(&orders(2)).is_some());
        assert!(!ledger.lose(&orders(9)));
        let mut left: Vec<_> = ledger.partitions().map(|p| p.partition).collect();
        left.sort_unstable();
        assert_eq!(left, [0, 1, 3]);
    }
}
