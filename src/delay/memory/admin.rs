use super::{MemoryStore, Place, State};
use crate::answer::BoxFuture;
use crate::delay::{
    Cancelled, Cursor, DeadReason, DelayAdmin, DelayId, Listed, Listing, Page, Rescheduled, Stats,
    When,
};
use crate::error::Result;
use std::collections::BTreeMap;

impl MemoryStore {
    fn reschedule_one(&self, state: &mut State, id: &DelayId, when: When) -> Result<Rescheduled> {
        let now = self.clock.now_rounded_up();
        let at = when.resolve(now, self.limits.max_delay)?;
        let place = state.places.get(id).copied();
        if let Some(Place::InFlight(_)) = place {
            return Ok(Rescheduled::InFlight);
        }
        let Some(mut item) = state.take(id) else {
            return Ok(Rescheduled::Unknown);
        };
        if let Some(Place::Dead(_)) = place {
            item.attempts = 0;
        }
        (item.deliver_at, item.token) = (at, 0);
        state.wait(item);
        Ok(Rescheduled::At(at))
    }

    /// Looks at every record: a wheel knows no order beyond the next few.
    fn page(&self, listing: &Listing) -> Page {
        let state = self.state();
        let shift = self.clock.now().saturating_sub(self.monotonic());
        let limit = listing.limit();
        let mut found: BTreeMap<Cursor, Option<DeadReason>> = BTreeMap::new();
        let mut add = |at: i64, id: &DelayId, reason: Option<&DeadReason>| {
            let cursor = Cursor { at, id: id.clone() };
            if listing.after.as_ref().is_none_or(|after| cursor > *after) {
                found.insert(cursor, reason.cloned());
                if found.len() > limit + 1 {
                    found.pop_last();
                }
            }
        };
        match listing.listed {
            Listed::Waiting => {
                (state.waiting.iter()).for_each(|item| add(item.deliver_at, &item.id, None))
            }
            Listed::InFlight => (state.in_flight.iter())
                .for_each(|item| add(item.lease_end.saturating_add(shift), &item.id, None)),
            Listed::Dead => {
                (state.dead.iter()).for_each(|((at, id), (_, reason))| add(*at, id, Some(reason)))
            }
        }
        let more = found.len() > limit;
        if more {
            found.pop_last();
        }
        let items: Vec<_> = found.into_iter().collect();
        let last = items.last().map(|(cursor, _)| cursor.clone());
        Page {
            items,
            next: last.filter(|_| more),
        }
    }
}

#[deny(clippy::missing_trait_methods)]
impl DelayAdmin for MemoryStore {
    fn cancel(&self, ids: Vec<DelayId>) -> BoxFuture<'_, Result<Vec<Cancelled>>> {
        Box::pin(async move {
            let state = &mut *self.state();
            let cancel = |id: DelayId| {
                let place = state.places.get(&id).copied();
                state.take(&id);
                match place {
                    Some(Place::InFlight(_)) => Cancelled::InFlight,
                    Some(_) => Cancelled::Removed,
                    None => Cancelled::Unknown,
                }
            };
            Ok(ids.into_iter().map(cancel).collect())
        })
    }

    fn reschedule(&self, id: DelayId, when: When) -> BoxFuture<'_, Result<Rescheduled>> {
        Box::pin(async move { self.changing(|state| self.reschedule_one(state, &id, when)) })
    }

    fn list(&self, listing: Listing) -> BoxFuture<'_, Result<Page>> {
        Box::pin(async move { Ok(self.page(&listing)) })
    }

    fn stats(&self) -> BoxFuture<'_, Result<Stats>> {
        Box::pin(async move {
            let state = self.state();
            Ok(Stats {
                waiting: state.waiting.len() as u64,
                in_flight: state.in_flight.len() as u64,
                dead: state.dead.len() as u64,
                next_due: state.waiting.next(),
                ..state.stats
            })
        })
    }
}
