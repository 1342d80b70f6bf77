//! The end: a last commit, and leaving the group, within a limit.

use super::commit::{Commit, CommitResults};
use super::member::Member;
use super::not_owned;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// How long one poll waits while the group is left.
const POLL: Duration = Duration::from_millis(20);

/// The least time for leaving, after a commit that took all of it.
const LEAST: Duration = Duration::from_millis(500);

/// That the group is to be left.
pub(super) struct Leave {
    pub(super) until: Instant,
    pub(super) limit: Duration,
    pub(super) farewell: Option<Farewell>,
}

/// What is to be committed first, and who waits.
pub(super) struct Farewell {
    pub(super) last: Vec<Commit>,
    pub(super) results: oneshot::Sender<CommitResults>,
}

impl Member {
    pub(super) fn leave(mut self, leave: Leave) {
        for period in self.shared.table.all() {
            period.end();
        }
        self.rebalancing.hurry();
        let until_committed = leave.until.checked_sub(leave.limit / 3);
        let (last, results) = match leave.farewell {
            Some(farewell) => (farewell.last, Some(farewell.results)),
            None => (Vec::new(), None),
        };
        let committed = self.commit_last(last, until_committed.unwrap_or(leave.until));
        self.depart(leave.until.max(Instant::now() + LEAST));
        if let Some(results) = results {
            // Whoever closed may have gone.
            let _ = results.send(committed);
        }
    }

    /// Commits, and tries again what may succeed later, until the limit.
    fn commit_last(&mut self, last: Vec<Commit>, until: Instant) -> CommitResults {
        let mut committed = not_owned(last.clone());
        loop {
            let (reply, mut answer) = oneshot::channel();
            self.committer.add(last.clone(), reply);
            loop {
                if self.cycle().is_err() || Instant::now() >= until {
                    return committed;
                }
                match answer.try_recv() {
                    Ok(results) => {
                        committed = results;
                        break;
                    }
                    Err(oneshot::error::TryRecvError::Closed) => return committed,
                    Err(oneshot::error::TryRecvError::Empty) => self.rest(Some(until)),
                }
            }
            let again = |result: &Result<(), super::CommitError>| {
                result
                    .as_ref()
                    .is_err_and(|error| error.failure.try_again())
            };
            if !committed.iter().any(again) {
                return committed;
            }
        }
    }

    /// Leaves the group, serving the events of that. The consumer goes with its last holder.
    fn depart(mut self, until: Instant) {
        self.answer_all();
        let Some(consumer) = self.consumer.get() else {
            return;
        };
        // Refused after a fatal error; destroying cleans up then.
        let closing = consumer.close_queue().is_ok();
        while closing && !consumer.closed() && Instant::now() < until {
            drop(self.consumer.poll(POLL));
            self.shared.polled();
        }
    }
}
