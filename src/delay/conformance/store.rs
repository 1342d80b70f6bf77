//! Rules for a [`DelayStore`] with its [`DelayAdmin`].

use super::store_admin as admin;
use super::store_claims as claims;
use super::{Checked, Outcome, accepted, after, ensure_eq, record};
use crate::answer::BoxFuture;
use crate::delay::{
    Claim, Claimed, DelayAdmin, DelayId, DelayStore, Delayed, Due, Limits, OnDuplicate, Stats,
};
use crate::error::Result;
use std::sync::Arc;
use std::time::Duration;

/// A store that can be looked at and changed.
pub trait Store: DelayStore + DelayAdmin {}

impl<S: DelayStore + DelayAdmin + ?Sized> Store for S {}

/// Makes stores to check.
pub trait StoreRig: Send + Sync {
    /// An empty store with these limits, that nobody else works on.
    fn fresh(&self, limits: Limits) -> BoxFuture<'_, Result<Arc<dyn Store>>>;
}

/// Runs every rule.
pub async fn check(rig: &dyn StoreRig) -> Vec<Checked> {
    vec![
        Checked::new(
            "a claim is bounded, in order and never early",
            claims::bounded(rig).await,
        ),
        Checked::new(
            "a claim tells when the next makes sense",
            claims::next(rig).await,
        ),
        Checked::new("8 workers get each record once", claims::atomic(rig).await),
        Checked::new(
            "20,000 that fall due together all come",
            claims::mass(rig).await,
        ),
        Checked::new("equal records are each kept", claims::equal(rig).await),
        Checked::new(
            "a lease that ends gives the record out again",
            claims::lease(rig).await,
        ),
        Checked::new(
            "a former holder changes nothing",
            claims::fencing(rig).await,
        ),
        Checked::new("an extended lease runs on", claims::extend(rig).await),
        Checked::new(
            "what is given back waits, its attempts counted",
            claims::release(rig).await,
        ),
        Checked::new(
            "a record has so many attempts, then it is dead",
            claims::dead(rig).await,
        ),
        Checked::new(
            "a retry under the same id survives",
            claims::retry(rig).await,
        ),
        Checked::new("a claim out of range is refused", claims::range(rig).await),
        Checked::new(
            "an id that is taken follows its policy",
            admin::duplicates(rig).await,
        ),
        Checked::new("what is cancelled is gone", admin::cancel(rig).await),
        Checked::new(
            "what is rescheduled has its new time",
            admin::reschedule(rig).await,
        ),
        Checked::new("lists go by time, in pages", admin::list(rig).await),
        Checked::new("counts are right", admin::stats(rig).await),
        Checked::new(
            "a full or too small store refuses",
            admin::bounds(rig).await,
        ),
    ]
}

pub(super) const LEASE: Duration = Duration::from_millis(400);

pub(super) async fn fresh(rig: &dyn StoreRig) -> Outcome<Arc<dyn Store>> {
    Ok(rig.fresh(Limits::default()).await?)
}

pub(super) async fn claim(store: &dyn Store, max: usize) -> Outcome<Due> {
    let claim = Claim { max, lease: LEASE };
    let due = store.due(claim).await?;
    ensure_eq(due.items.len() <= max, true, "claims within the bound")?;
    let early = due.items.iter().find(|item| item.deliver_at > due.now);
    ensure_eq(early, None, "a record given out early")?;
    Ok(due)
}

/// Claims one that is due.
pub(super) async fn claim_one(store: &dyn Store) -> Outcome<Claimed> {
    super::only(claim(store, 256).await?.items, "of a claim")
}

pub(super) async fn no_claim(store: &dyn Store, what: &str) -> Outcome {
    ensure_eq(claim(store, 256).await?.items.len(), 0, what)
}

pub(super) fn id(text: &str) -> Outcome<DelayId> {
    Ok(DelayId::new(text)?)
}

pub(super) fn named(name: &str, millis: u64, policy: OnDuplicate) -> Outcome<Delayed> {
    Ok(after(millis, record("topic", name)).with_id(id(name)?, policy))
}

/// Schedules one record of this id and value, and answers when it is due.
pub(super) async fn put(store: &dyn Store, name: &str, millis: u64) -> Outcome<i64> {
    let batch = vec![named(name, millis, OnDuplicate::Refuse)?];
    let receipts = accepted(store.schedule(batch).await, 1)?;
    Ok(super::only(receipts, "of schedule")?.deliver_at)
}

/// Waiting, in flight, dead.
pub(super) async fn ensure_held(store: &dyn Store, expected: [u64; 3], what: &str) -> Outcome {
    let Stats {
        waiting,
        in_flight,
        dead,
        early,
        ..
    } = store.stats().await?;
    ensure_eq([waiting, in_flight, dead], expected, what)?;
    ensure_eq(early, 0, "records given out early")
}

pub(super) async fn pass(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}
