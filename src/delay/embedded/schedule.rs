//! Taking records in.

use super::disk::Fault;
use super::rows::{RecordRow, Rows};
use super::state::{Delays, Place};
use crate::delay::item::{full, taken};
use crate::delay::{DelayId, OnDuplicate, Receipt, Scheduled};
use crate::error::Result;
use bytes::Bytes;
use redb::WriteTransaction;

/// A record that is ready to be written.
pub(super) struct Prepared {
    /// `None` makes a fresh one.
    pub(super) id: Option<DelayId>,
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
        let mut scheduled = Scheduled::New;
        let place = match &item.id {
            Some(id) => self.find(rows, id)?.map(|place| (id, place)),
            None => None,
        };
        if let Some((id, place)) = place {
            let due = Self::due_of(rows, id, place)?;
            let earlier = match place {
                Place::Waiting(..) => item.at < due,
                Place::InFlight(..) => false,
                Place::Dead(_) => true,
            };
            match item.on_duplicate {
                OnDuplicate::Refuse => return Ok((Err(taken()), false)),
                OnDuplicate::Earliest if earlier => {}
                OnDuplicate::Replace => {}
                _ => return Ok((receipt(id.clone(), due, Scheduled::Kept), false)),
            }
            self.take(rows, id, place)?;
            scheduled = Scheduled::Replaced;
        } else if self.held() >= capacity {
            return Ok((Err(full()), false));
        }
        self.change().scheduled += 1;
        let number = self.next_number();
        let row = RecordRow {
            at: item.at,
            given: item.id,
            record: item.record,
        };
        let nearer = self.wait(rows, number, &row)?;
        let id = row.given.unwrap_or_else(|| self.ids.of(number));
        Ok((receipt(id, row.at, scheduled), nearer))
    }
}

fn receipt(id: DelayId, deliver_at: i64, scheduled: Scheduled) -> Result<Receipt> {
    Ok(Receipt {
        id,
        deliver_at,
        scheduled,
    })
}
