use super::store::{
    LEASE, Store, StoreRig, claim, claim_one, ensure_held, fresh, named, no_claim, pass, put,
};
use super::{Outcome, accepted, after, ensure, ensure_eq, only, record};
use crate::delay::{
    Attempt, Claim, Claimed, Delayed, Finished, Lease, Limits, Listed, Listing, OnDuplicate,
    Release, Released, Scheduled, When,
};
use crate::status::{ErrorKind, Status};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

fn leases(items: &[Claimed]) -> Vec<Lease> {
    items.iter().map(|item| item.lease.clone()).collect()
}

async fn complete(store: &dyn Store, item: &Claimed) -> Outcome<Finished> {
    only(
        store.complete(vec![item.lease.clone()]).await?,
        "of complete",
    )
}

async fn release_one(
    store: &dyn Store,
    item: &Claimed,
    delay: u64,
    attempt: Attempt,
) -> Outcome<Released> {
    let release = Release {
        lease: item.lease.clone(),
        delay: Duration::from_millis(delay),
        attempt,
        reason: "the sink said no".into(),
    };
    only(store.release(vec![release]).await?, "of release")
}

pub(super) async fn bounded(rig: &dyn StoreRig) -> Outcome {
    let store = &*fresh(rig).await?;
    let now = store
        .due(Claim {
            max: 1,
            lease: LEASE,
        })
        .await?
        .now;
    // Handed over latest first.
    let batch = (0..600_i64)
        .rev()
        .map(|n| Delayed::new(When::At(now - n), record("topic", &n.to_string())));
    accepted(store.schedule(batch.collect()).await, 600)?;
    put(store, "later", 60_000).await?;
    let mut dues = Vec::new();
    for expected in [256, 256, 88, 0] {
        let due = claim(store, 256).await?;
        ensure_eq(due.items.len(), expected, "records of a claim")?;
        dues.extend(due.items.iter().map(|item| item.deliver_at));
        let finished = store.complete(leases(&due.items)).await?;
        ensure_eq(finished, vec![Finished::Done; expected], "complete")?;
    }
    let sorted = (0..600_i64).rev().map(|n| now - n).collect::<Vec<_>>();
    ensure_eq(dues == sorted, true, "claims in the order of time")?;
    ensure_held(store, [1, 0, 0], "held").await
}

pub(super) async fn next(rig: &dyn StoreRig) -> Outcome {
    let store = &*fresh(rig).await?;
    let due = claim(store, 1).await?;
    ensure_eq(due.next, None, "next of an empty store")?;
    let at = put(store, "next", 300).await?;
    // Following what the store says reaches the record at its time, in few turns.
    let mut found = None;
    for _ in 0..12 {
        let due = claim(store, 1).await?;
        if let Some(item) = due.items.first() {
            found = Some((item.clone(), due.now, due.next));
            break;
        }
        let next = due.next.unwrap_or(i64::MAX);
        ensure(next <= at, || format!("next is {} ms too late", next - at))?;
        pass(u64::try_from(next - due.now).unwrap_or(0).max(1)).await;
    }
    let Some((_, now, next)) = found else {
        return ensure(false, || "the record was not found in 12 turns".to_owned());
    };
    let end = i64::try_from(LEASE.as_millis()).unwrap_or(0);
    let next = next.unwrap_or(i64::MAX);
    ensure(next <= now + end + 1, || {
        format!("a lease ends {} ms before next", next - now - end)
    })
}

/// FC-091.
pub(super) async fn atomic(rig: &dyn StoreRig) -> Outcome {
    for round in 0..20 {
        let store = fresh(rig).await?;
        let batch = (0..1_000).map(|n| after(0, record("topic", &n.to_string())));
        accepted(store.schedule(batch.collect()).await, 1_000)?;
        pass(2).await;
        let workers = (0..8).map(|_| tokio::spawn(take_all(Arc::clone(&store))));
        let mut taken = Vec::new();
        for worker in workers.collect::<Vec<_>>() {
            match worker.await {
                Ok(outcome) => taken.append(&mut outcome?),
                Err(_) => return ensure(false, || "a worker panicked".to_owned()),
            }
        }
        let distinct: BTreeSet<_> = taken.iter().collect();
        let counts = (taken.len(), distinct.len());
        ensure_eq(
            counts,
            (1_000, 1_000),
            &format!("deliveries in round {round}"),
        )?;
        ensure_held(&*store, [0, 0, 0], "held").await?;
    }
    Ok(())
}

async fn take_all(store: Arc<dyn Store>) -> Outcome<Vec<String>> {
    let mut taken = Vec::new();
    loop {
        let lease = Duration::from_secs(60);
        let due = store.due(Claim { max: 32, lease }).await?;
        if due.items.is_empty() {
            return Ok(taken);
        }
        tokio::task::yield_now().await;
        let finished = store.complete(leases(&due.items)).await?;
        ensure(finished.iter().all(|f| *f == Finished::Done), || {
            "a stale claim".to_owned()
        })?;
        taken.extend(due.items.iter().map(|item| item.lease.id.to_string()));
    }
}

/// FC-098, its first part.
pub(super) async fn mass(rig: &dyn StoreRig) -> Outcome {
    let store = &*fresh(rig).await?;
    let at = When::At(claim(store, 1).await?.now);
    for part in 0..40 {
        let batch = (0..500).map(|n| Delayed::new(at, record("topic", &format!("{part}-{n}"))));
        accepted(store.schedule(batch.collect()).await, 500)?;
    }
    let mut taken = BTreeSet::new();
    // One claim more than it takes.
    for _ in 0..=20_000_usize.div_ceil(256) {
        let lease = Duration::from_secs(60);
        let due = store.due(Claim { max: 256, lease }).await?;
        let values = due
            .items
            .iter()
            .filter_map(|item| item.record.value.clone());
        taken.extend(values);
        store.complete(leases(&due.items)).await?;
    }
    ensure_eq(taken.len(), 20_000, "records")?;
    ensure_held(store, [0, 0, 0], "held").await
}

/// FC-090.
pub(super) async fn equal(rig: &dyn StoreRig) -> Outcome {
    let store = &*fresh(rig).await?;
    let same = record("topic", "same");
    let at = When::At(claim(store, 1).await?.now);
    let mut batch = vec![Delayed::new(at, same.clone()); 1_000];
    batch.push(after(1_500, same));
    let receipts = accepted(store.schedule(batch).await, 1_001)?;
    let new = receipts.iter().all(|r| r.scheduled == Scheduled::New);
    ensure(new, || "an equal record is not new".to_owned())?;
    let mut count = 0;
    for _ in 0..4 {
        let lease = Duration::from_secs(60);
        count += store.due(Claim { max: 256, lease }).await?.items.len();
    }
    ensure_eq(count, 1_000, "records due now")?;
    pass(1_550).await;
    claim_one(store).await.map(drop)
}

/// FC-092: a worker that dies after its claim loses nothing.
pub(super) async fn lease(rig: &dyn StoreRig) -> Outcome {
    let store = &*fresh(rig).await?;
    put(store, "a", 0).await?;
    pass(2).await;
    let first = claim_one(store).await?;
    ensure_eq(first.attempt, 1, "first attempt")?;
    no_claim(store, "records while the lease runs").await?;
    ensure_held(store, [0, 1, 0], "held in flight").await?;
    pass(420).await;
    let second = claim_one(store).await?;
    ensure_eq(second.attempt, 2, "second attempt")?;
    ensure_eq(&second.record, &first.record, "record")?;
    ensure_eq(second.deliver_at, first.deliver_at, "due")?;
    ensure(second.lease.token > first.lease.token, || {
        "the token did not grow".to_owned()
    })?;
    // Done after the lease has ended, before anybody else has claimed it.
    pass(420).await;
    ensure_eq(
        complete(store, &second).await?,
        Finished::Done,
        "late complete",
    )?;
    ensure_eq(
        complete(store, &second).await?,
        Finished::Stale,
        "second complete",
    )?;
    no_claim(store, "records after complete").await?;
    ensure_held(store, [0, 0, 0], "held at the end").await
}

pub(super) async fn fencing(rig: &dyn StoreRig) -> Outcome {
    let store = &*fresh(rig).await?;
    put(store, "a", 0).await?;
    pass(2).await;
    let first = claim_one(store).await?;
    pass(420).await;
    let second = claim_one(store).await?;
    ensure_eq(complete(store, &first).await?, Finished::Stale, "complete")?;
    let released = release_one(store, &first, 0, Attempt::Last).await?;
    ensure_eq(released, Released::Stale, "release")?;
    let extended = store.extend(vec![first.lease.clone()], LEASE).await?;
    ensure_eq(extended, vec![Finished::Stale], "extend")?;
    ensure_held(store, [0, 1, 0], "held").await?;
    ensure_eq(
        complete(store, &second).await?,
        Finished::Done,
        "complete of the holder",
    )?;
    ensure_eq(
        store.complete(Vec::new()).await?,
        Vec::new(),
        "complete of nothing",
    )?;
    ensure_held(store, [0, 0, 0], "held at the end").await
}

pub(super) async fn extend(rig: &dyn StoreRig) -> Outcome {
    let store = &*fresh(rig).await?;
    put(store, "a", 0).await?;
    pass(2).await;
    let item = claim_one(store).await?;
    for _ in 0..3 {
        pass(250).await;
        let extended = store.extend(vec![item.lease.clone()], LEASE).await?;
        ensure_eq(extended, vec![Finished::Done], "extend")?;
        no_claim(store, "records under an extended lease").await?;
    }
    pass(420).await;
    ensure_eq(
        claim_one(store).await?.attempt,
        2,
        "attempt after the lease",
    )
}

pub(super) async fn release(rig: &dyn StoreRig) -> Outcome {
    let store = &*fresh(rig).await?;
    put(store, "a", 0).await?;
    pass(2).await;
    let due = claim(store, 256).await?;
    let item = only(due.items, "of a claim")?;
    match release_one(store, &item, 200, Attempt::Free).await? {
        Released::Waiting(at) => ensure(at >= due.now + 200, || "waits too short".to_owned())?,
        other => return ensure(false, || format!("free: {other:?}")),
    }
    ensure_eq(
        complete(store, &item).await?,
        Finished::Stale,
        "complete after release",
    )?;
    no_claim(store, "records before the delay").await?;
    pass(220).await;
    let again = claim_one(store).await?;
    ensure_eq(again.attempt, 1, "attempt after a free one")?;
    let counted = release_one(store, &again, 0, Attempt::Counted).await?;
    ensure(matches!(counted, Released::Waiting(_)), || {
        format!("counted: {counted:?}")
    })?;
    pass(2).await;
    ensure_eq(
        claim_one(store).await?.attempt,
        2,
        "attempt after a counted one",
    )
}

pub(super) async fn dead(rig: &dyn StoreRig) -> Outcome {
    let limits = Limits {
        max_attempts: 2,
        ..Limits::default()
    };
    let store = &*rig.fresh(limits).await?;
    put(store, "counted", 0).await?;
    pass(2).await;
    let first = claim_one(store).await?;
    release_one(store, &first, 0, Attempt::Counted).await?;
    pass(2).await;
    let second = claim_one(store).await?;
    let released = release_one(store, &second, 0, Attempt::Counted).await?;
    ensure_eq(released, Released::Dead, "last attempt")?;
    put(store, "last", 0).await?;
    pass(2).await;
    let last = claim_one(store).await?;
    let released = release_one(store, &last, 0, Attempt::Last).await?;
    ensure_eq(released, Released::Dead, "declared the last")?;
    put(store, "ended", 0).await?;
    pass(2).await;
    claim_one(store).await?;
    pass(420).await;
    ensure_eq(claim_one(store).await?.attempt, 2, "attempt")?;
    pass(420).await;
    no_claim(store, "records after the last attempt").await?;
    ensure_held(store, [0, 0, 3], "held").await?;
    let listing = Listing {
        listed: Listed::Dead,
        after: None,
        limit: 10,
    };
    let page = store.list(listing).await?;
    let reasons: Vec<_> = (page.items.iter())
        .map(|(cursor, reason)| format!("{} {}", cursor.id, reason.as_deref().unwrap_or("-")))
        .collect();
    let mut sorted = reasons.clone();
    sorted.sort();
    let expected = [
        "counted the sink said no",
        "ended its leases ended unfinished",
        "last the sink said no",
    ];
    ensure_eq(sorted, expected.map(str::to_owned).into(), "the dead")
}

/// The race of a consumer that schedules its retry before the worker has finished the record.
pub(super) async fn retry(rig: &dyn StoreRig) -> Outcome {
    let store = &*fresh(rig).await?;
    put(store, "job", 0).await?;
    pass(2).await;
    let first = claim_one(store).await?;
    let again = store
        .schedule(vec![named("job", 200, OnDuplicate::Replace)?])
        .await;
    let again = only(accepted(again, 1)?, "of schedule")?;
    ensure_eq(again.scheduled, Scheduled::Replaced, "retry")?;
    ensure_eq(complete(store, &first).await?, Finished::Stale, "complete")?;
    no_claim(store, "records before the retry").await?;
    pass(220).await;
    let second = claim_one(store).await?;
    ensure_eq(second.deliver_at, again.deliver_at, "due")?;
    ensure_eq(second.attempt, 1, "attempt of a replaced record")?;
    ensure_eq(
        complete(store, &second).await?,
        Finished::Done,
        "complete of the retry",
    )
}

pub(super) async fn range(rig: &dyn StoreRig) -> Outcome {
    let store = &*fresh(rig).await?;
    for (max, lease) in [(0, LEASE), (257, LEASE), (1, Duration::ZERO)] {
        match store.due(Claim { max, lease }).await {
            Ok(_) => return ensure(false, || format!("{max} and {lease:?} were accepted")),
            Err(error) => {
                let found = (error.kind(), error.status());
                ensure_eq(found, (ErrorKind::Config, Status::Permanent), "error")?;
            }
        }
    }
    Ok(())
}
