//! Delayed delivery: hand a record over now, have it delivered not before its time.
//!
//! | contract | who needs it |
//! |---|---|
//! | [`DelaySink`] | whoever hands records over for later |
//! | [`DelayStore`] | the [worker](worker::Worker) that claims due records, publishes them and finishes them |
//! | [`DelayAdmin`] | an operator who looks and changes |
//!
//! Instants are whole milliseconds since the Unix epoch (`i64`). The wall clock of the store decides
//! whether an instant has come; waits run on the monotonic clock and are short, so that a step of
//! the wall clock is noticed within one of them. No record is delivered early: an instant is
//! compared with the time rounded down, a delay is counted from the time rounded up. A record whose
//! instant has passed is due now; one beyond [`Limits::max_delay`] is refused.

pub mod alarm;
pub mod conformance;
pub mod deliver;
pub mod memory;
pub mod producer;
pub mod spread;
pub mod topic;
pub mod wheel;
pub mod wire;
pub mod worker;

#[cfg(feature = "embedded")]
pub mod embedded;
#[cfg(feature = "redis")]
pub mod redis;

mod admin;
mod claim;
mod item;
mod together;

pub use admin::{Cancelled, Cursor, DeadReason, Listed, Listing, Page, Rescheduled, Stats};
pub use claim::{
    Attempt, Claim, Claimed, Due, Finished, Lease, MAX_CLAIM, Release, Released, check_claim,
};
pub use item::{
    DelayId, Delayed, Durability, IdSource, Limits, MAX_INSTANT, MAX_SCHEDULE, OnDuplicate,
    Receipt, Scheduled, When,
};

use crate::answer::BoxFuture;
use crate::error::Result;
use std::sync::Arc;

/// Takes records to be delivered later.
pub trait DelaySink: Send + Sync {
    /// Hands `batch` over. The answer has one result for each item, in order; an item that was
    /// accepted is as durable as [`durability`](DelaySink::durability) says once the answer is
    /// there. An item with an error is not scheduled, except that after a Temporary error a store
    /// may have it all the same: scheduling it again under the same id does no harm.
    ///
    /// # Errors
    /// For an item: Permanent when its time is beyond [`Limits::max_delay`], when it is too large,
    /// or when its id is taken and its policy is [`OnDuplicate::Refuse`]; Temporary when the store
    /// is full or does not answer.
    fn schedule(&self, batch: Vec<Delayed>) -> BoxFuture<'_, Vec<Result<Receipt>>>;

    /// What an accepted record survives.
    fn durability(&self) -> Durability;
}

/// Keeps delayed records and gives out the due ones under a lease.
///
/// Waiting, in flight and dead are three states. A claim moves due records from waiting to in
/// flight in one atomic step, so that no two workers have the same record; a lease that ends
/// unfinished makes its record due again, at once. Every claim gets a fencing token: once a record
/// was claimed again or replaced, what the former holder says about it is [stale](Finished::Stale)
/// and changes nothing.
pub trait DelayStore: DelaySink {
    /// Claims due records, at most [`Claim::max`], earliest first.
    ///
    /// A record whose lease has ended as often as [`Limits::max_attempts`] allows is moved to the
    /// dead ones instead.
    ///
    /// # Errors
    /// Temporary when the store does not answer; what was claimed by a lost answer is due again
    /// when its lease ends. Kind [`Config`](crate::ErrorKind::Config) when `claim` is out of range.
    fn due(&self, claim: Claim) -> BoxFuture<'_, Result<Due>>;

    /// Removes records that were delivered, one result for each lease in order. A lease that has
    /// ended but whose record nobody has claimed since still counts.
    ///
    /// # Errors
    /// Temporary when the store does not answer; completing again does no harm.
    fn complete(&self, leases: Vec<Lease>) -> BoxFuture<'_, Result<Vec<Finished>>>;

    /// Gives claimed records back, one result for each in order: they wait again, or are dead.
    ///
    /// # Errors
    /// Temporary when the store does not answer.
    fn release(&self, releases: Vec<Release>) -> BoxFuture<'_, Result<Vec<Released>>>;

    /// Makes leases end `lease` from now, one result for each in order.
    ///
    /// # Errors
    /// Temporary when the store does not answer.
    fn extend(
        &self,
        leases: Vec<Lease>,
        lease: std::time::Duration,
    ) -> BoxFuture<'_, Result<Vec<Finished>>>;

    /// Done when, since this call, a record may have come to wait that is due before all others. A
    /// hint that saves latency: it may come for nothing, it may be missed, and a store that never
    /// gives it is correct.
    fn changed(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }
}

/// Looks at and changes what a store holds.
pub trait DelayAdmin: Send + Sync {
    /// Removes records by id, one answer for each in order.
    ///
    /// # Errors
    /// Temporary when the store does not answer.
    fn cancel(&self, ids: Vec<DelayId>) -> BoxFuture<'_, Result<Vec<Cancelled>>>;

    /// Gives a waiting record another time, or makes a dead one wait again with its attempts
    /// forgotten.
    ///
    /// # Errors
    /// As for [`DelaySink::schedule`].
    fn reschedule(&self, id: DelayId, when: When) -> BoxFuture<'_, Result<Rescheduled>>;

    /// One page of records by time, then id. Paging on finds every record that stays where it is,
    /// once.
    ///
    /// # Errors
    /// Temporary when the store does not answer.
    fn list(&self, listing: Listing) -> BoxFuture<'_, Result<Page>>;

    /// Counts, at a cost that does not grow with them.
    ///
    /// # Errors
    /// Temporary when the store does not answer.
    fn stats(&self) -> BoxFuture<'_, Result<Stats>>;
}

#[deny(clippy::missing_trait_methods)]
impl<S: DelaySink + ?Sized> DelaySink for Arc<S> {
    fn schedule(&self, batch: Vec<Delayed>) -> BoxFuture<'_, Vec<Result<Receipt>>> {
        (**self).schedule(batch)
    }

    fn durability(&self) -> Durability {
        (**self).durability()
    }
}

#[deny(clippy::missing_trait_methods)]
impl<S: DelayStore + ?Sized> DelayStore for Arc<S> {
    fn due(&self, claim: Claim) -> BoxFuture<'_, Result<Due>> {
        (**self).due(claim)
    }

    fn complete(&self, leases: Vec<Lease>) -> BoxFuture<'_, Result<Vec<Finished>>> {
        (**self).complete(leases)
    }

    fn release(&self, releases: Vec<Release>) -> BoxFuture<'_, Result<Vec<Released>>> {
        (**self).release(releases)
    }

    fn extend(
        &self,
        leases: Vec<Lease>,
        lease: std::time::Duration,
    ) -> BoxFuture<'_, Result<Vec<Finished>>> {
        (**self).extend(leases, lease)
    }

    fn changed(&self) -> BoxFuture<'_, ()> {
        (**self).changed()
    }
}

#[deny(clippy::missing_trait_methods)]
impl<S: DelayAdmin + ?Sized> DelayAdmin for Arc<S> {
    fn cancel(&self, ids: Vec<DelayId>) -> BoxFuture<'_, Result<Vec<Cancelled>>> {
        (**self).cancel(ids)
    }

    fn reschedule(&self, id: DelayId, when: When) -> BoxFuture<'_, Result<Rescheduled>> {
        (**self).reschedule(id, when)
    }

    fn list(&self, listing: Listing) -> BoxFuture<'_, Result<Page>> {
        (**self).list(listing)
    }

    fn stats(&self) -> BoxFuture<'_, Result<Stats>> {
        (**self).stats()
    }
}
