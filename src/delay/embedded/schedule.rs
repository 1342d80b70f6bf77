//! Taking records in.

use super::disk::Fault;
use super::rows::Rows;
use super::state::{Delays, Place};
use crate::delay::item::{full, taken};
use crate::delay::{DelayId, OnDuplicate, Receipt, Scheduled};
use crate::error::Result;
use bytes::Bytes;
use redb::WriteTransaction;

/// A record that is ready to be written.
pub(super) struct Prepared {
    pub(super) id: DelayId,
    /// The store made the id, so it cannot be taken.
    pub(super) fresh: bool,
    pub(super) at: i64,
    pub(super) record: Bytes,
    pub(super) on_duplicate: OnDuplicate,
}

impl Delays {
    /// One answer for each, and whether one of them is due before all others.
    pub(super) fn schedule(
        &mut self,
        transaction: &WriteTransaction,
        items: Vec<Prepared>,
        capacity: u64,
    ) -> Result<(Vec<Result<Receipt>>, bool), Fault> {
        let rows = &mut Rows::open(transaction)?;
        let (mut answers, mut nearest) = (Vec::with_capacity(items.len()), false);
        for item in items {
            let (answer, nearer) = self.schedule_one(rows, item, capacity)?;
            nearest |= nearer;
            answers.push(answer);
        }
        Ok((answers, nearest))
    }

    fn schedule_one(
        &mut self,
        rows: &mut Rows<'_>,
        item: Prepared,
        capacity: u64,
    ) -> Result<(Result<Receipt>, bool), Fault> {
        let place = match item.fresh {
            true => None,
            false => self.find(rows, &item.id)?,
        };
        let receipt = |deliver_at, scheduled| {
            Ok(Receipt {
                id: item.id.clone(),
                deliver_at,
                scheduled,
            })
        };
        let mut scheduled = Scheduled::New;
        if let Some(place) = place {
            let due = Self::due_of(rows, &item.id, place)?;
            let earlier = match place {
                Place::Waiting(_) => item.at < due,
                Place::InFlight(_) => false,
                Place::Dead(_) => true,
            };
            match item.on_duplicate {
                OnDuplicate::Refuse => return Ok((Err(taken()), false)),
                OnDuplicate::Earliest if earlier => {}
                OnDuplicate::Replace => {}
                _ => return Ok((receipt(due, Scheduled::Kept), false)),
            }
            self.take(rows, &item.id, place)?;
            scheduled = Scheduled::Replaced;
        } else if self.held() >= capacity {
            return Ok((Err(full()), false));
        }
        self.change().scheduled += 1;
        let nearer = self.wait(rows, (item.at, &item.id), &item.record)?;
        Ok((receipt(item.at, scheduled), nearer))
    }
}
