//! What of a partition was given, and whether what comes below that is of the same log.

/// The lowest offset that was not given yet.
///
/// What comes below it was given before: after any pause and resume, librdkafka's own at each
/// rebalance included, it may hand out again what it handed out before. Unless the log is another:
/// a topic created anew, or a log that was cut and written on.
#[derive(Debug)]
pub(super) struct NextOffset {
    next: i64,
    /// The leader epoch of the last record given; negative when it is not known.
    epoch: i32,
    /// Where the position was lost and replaced, until something is given from there on: meanwhile
    /// what comes below `next` may be of the old log or of the new one.
    lost: Option<i64>,
}

impl NextOffset {
    pub(super) fn new(lost: Option<i64>) -> Self {
        NextOffset {
            next: 0,
            epoch: -1,
            lost,
        }
    }

    pub(super) fn get(&self) -> i64 {
        self.next
    }

    /// Whether the record of this offset is to be given, now that it has come.
    pub(super) fn accepts(&mut self, offset: i64) -> bool {
        let new = offset >= self.next;
        if new {
            self.next = offset.saturating_add(1);
            self.lost = self.lost.filter(|lost| offset < *lost);
        }
        new
    }

    /// Gives nothing below `offset` any more; whether that is news.
    pub(super) fn skip_to(&mut self, offset: i64) -> bool {
        let new = offset > self.next;
        self.next = self.next.max(offset);
        new
    }

    /// The last record that was accepted is of this leader epoch.
    pub(super) fn was_of(&mut self, epoch: i32) {
        self.epoch = epoch;
    }

    /// The position was replaced, which had been this.
    pub(super) fn lose(&mut self, position: i64) {
        self.lost = self.lost.max(Some(position));
    }

    pub(super) fn lost(&self) -> Option<i64> {
        self.lost
    }

    /// Whether a record that is not accepted may be of another log: epochs never fall within one.
    pub(super) fn is_another_log(&self, epoch: i32) -> bool {
        self.lost.is_some() || (self.epoch >= 0 && epoch > self.epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_given_before_are_not_given_again_and_gaps_are_no_matter() {
        let mut next = NextOffset::new(None);
        let given: Vec<i64> = [3, 4, 7, 4, 3, 7, 8, 2, 12, i64::MAX]
            .into_iter()
            .filter(|offset| next.accepts(*offset))
            .collect();
        assert_eq!(given, [3, 4, 7, 8, 12, i64::MAX]);
    }

    #[test]
    fn what_was_passed_is_news_once_and_only_forwards() {
        let mut next = NextOffset::new(None);
        assert!(next.accepts(3));
        let news: Vec<i64> = [4, 3, 6, 6, 5, 9]
            .into_iter()
            .filter(|offset| next.skip_to(*offset))
            .collect();
        assert_eq!(news, [6, 9]);
        assert!(!next.accepts(8));
        assert!(next.accepts(9));
    }

    #[test]
    fn a_lost_position_counts_until_it_is_passed() {
        let mut next = NextOffset::new(None);
        assert!(next.accepts(7));
        assert!(!next.is_another_log(0));
        next.lose(10);
        next.lose(8);
        assert!(next.is_another_log(0));
        assert!(next.accepts(9));
        assert_eq!(next.lost(), Some(10));
        assert!(next.accepts(10));
        assert!(!next.is_another_log(0));
    }

    #[test]
    fn a_higher_epoch_at_a_lower_offset_is_of_another_log() {
        let mut next = NextOffset::new(None);
        assert!(next.accepts(7));
        assert!(!next.is_another_log(3), "nothing is known of the last");
        next.was_of(2);
        let others: Vec<i32> = (-1..5)
            .filter(|epoch| next.is_another_log(*epoch))
            .collect();
        assert_eq!(others, [3, 4]);
    }
}
