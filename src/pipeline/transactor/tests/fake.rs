//! A broker that does with transactions as it is told.

use super::super::*;
use crate::status::{ErrorKind, Status};
use crate::transport::WriteFailure;
use std::collections::VecDeque;
use tokio::time::sleep;

/// A partition and the number of its ownership.
pub(super) type Owned = (u8, u32);

/// What a transaction comes to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fate {
    Commit,
    Abort,
    Refuse,
    Fatal,
    /// In doubt, and whether it was committed.
    Doubt(bool),
}

/// What readers of committed records see, and how transactions go.
#[derive(Default)]
pub(super) struct Broker {
    pub(super) output: Vec<String>,
    pub(super) offsets: BTreeMap<Owned, i64>,
    pub(super) fates: VecDeque<Fate>,
    /// Records that hold this text are refused for that reason.
    pub(super) bad: Option<(&'static str, WriteFailure)>,
    /// A transaction with this text in it is refused, and nobody is to blame.
    pub(super) denied: Option<&'static str>,
    pub(super) renewed: usize,
    pub(super) unwritten: usize,
    pub(super) transactions: usize,
    pub(super) dead: bool,
}

#[derive(Clone, Default)]
pub(super) struct Fake(Arc<Mutex<Broker>>);

impl Fake {
    pub(super) fn broker(&self) -> MutexGuard<'_, Broker> {
        self.0.lock().unwrap()
    }
}

fn text(record: &OutgoingRecord) -> String {
    String::from_utf8(record.value.clone().unwrap().to_vec()).unwrap()
}

impl Transactions for Fake {
    type Partition = Owned;

    async fn transact(
        &self,
        records: Vec<OutgoingRecord>,
        offsets: Vec<(Owned, i64)>,
    ) -> Result<(), TransactionError> {
        sleep(Duration::from_millis(3)).await;
        let mut broker = self.broker();
        assert!(!broker.dead, "a producer that is over is not used");
        broker.transactions += 1;
        let texts: Vec<String> = records.iter().map(text).collect();
        let refused = |kind, failure: Option<WriteFailure>, record| {
            let error = Error::new(kind, Status::Permanent, "refused");
            let error = match failure {
                Some(failure) => error.with_source(failure),
                None => error,
            };
            Err(TransactionError::Aborted { error, record })
        };
        if let Some((bad, failure)) = broker.bad
            && let Some(index) = texts.iter().position(|text| text.contains(bad))
        {
            return refused(ErrorKind::Other, Some(failure), Some(index));
        }
        if broker
            .denied
            .is_some_and(|bad| texts.iter().any(|text| text.contains(bad)))
        {
            return refused(ErrorKind::Config, None, None);
        }
        let error = Error::unavailable("told to");
        let fate = broker.fates.pop_front().unwrap_or(Fate::Commit);
        if matches!(fate, Fate::Commit | Fate::Doubt(true)) {
            broker.output.extend(texts);
            for (partition, offset) in offsets {
                let before = broker.offsets.insert(partition, offset);
                assert!(
                    before < Some(offset),
                    "{partition:?}: {before:?} and {offset}"
                );
            }
        }
        match fate {
            Fate::Commit => Ok(()),
            Fate::Abort => Err(TransactionError::Aborted {
                error,
                record: None,
            }),
            Fate::Refuse => refused(ErrorKind::Other, None, None),
            Fate::Fatal => {
                broker.dead = true;
                Err(TransactionError::Fatal(error))
            }
            Fate::Doubt(_) => {
                broker.dead = true;
                Err(TransactionError::InDoubt(error))
            }
        }
    }

    async fn renew(&self) -> Result<()> {
        let mut broker = self.broker();
        broker.renewed += 1;
        broker.dead = false;
        match broker.renewed % 3 {
            0 => Err(Error::unavailable("not yet")),
            _ => Ok(()),
        }
    }

    async fn committed(&self, partitions: &[Owned]) -> Result<Vec<Option<i64>>> {
        let broker = self.broker();
        Ok(partitions
            .iter()
            .map(|p| broker.offsets.get(p).copied())
            .collect())
    }

    fn tell(&self, event: TransactorEvent<'_, Owned>) {
        if let TransactorEvent::Unwritten { .. } = event {
            self.broker().unwritten += 1;
        }
    }
}
