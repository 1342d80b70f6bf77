use super::store::{
    Store, StoreRig, claim, claim_one, ensure_held, fresh, id, named, no_claim, pass, put,
};
use super::{Outcome, accepted, after, ensure, ensure_eq, only, record};
use crate::delay::{
    Attempt, Cancelled, Cursor, Delayed, Finished, Limits, Listed, Listing, OnDuplicate, Receipt,
    Release, Rescheduled, Scheduled, When,
};
use crate::status::Status;
use bytes::Bytes;
use std::time::Duration;

async fn again(
    store: &dyn Store,
    name: &str,
    millis: u64,
    policy: OnDuplicate,
) -> Outcome<Receipt> {
    let answers = store.schedule(vec![named(name, millis, policy)?]).await;
    only(accepted(answers, 1)?, "of schedule")
}

pub(super) async fn duplicates(rig: &dyn StoreRig) -> Outcome {
    let store = &*fresh(rig).await?;
    let at = put(store, "a", 60_000).await?;
    let kept = again(store, "a", 10, OnDuplicate::Keep).await?;
    ensure_eq(
        (kept.scheduled, kept.deliver_at),
        (Scheduled::Kept, at),
        "keep",
    )?;
    let refused = store
        .schedule(vec![named("a", 10, OnDuplicate::Refuse)?])
        .await;
    match only(refused, "of schedule")? {
        Ok(_) => return ensure(false, || "a taken id was accepted".to_owned()),
        Err(error) => ensure_eq(error.status(), Status::Permanent, "status of refuse")?,
    }
    let later = again(store, "a", 90_000, OnDuplicate::Earliest).await?;
    ensure_eq(
        (later.scheduled, later.deliver_at),
        (Scheduled::Kept, at),
        "a later one",
    )?;
    let earlier = again(store, "a", 30_000, OnDuplicate::Earliest).await?;
    ensure_eq(earlier.scheduled, Scheduled::Replaced, "an earlier one")?;
    ensure(earlier.deliver_at < at, || "not earlier".to_owned())?;
    let replaced = again(store, "a", 0, OnDuplicate::Replace).await?;
    ensure_eq(replaced.scheduled, Scheduled::Replaced, "replace")?;
    ensure_held(store, [1, 0, 0], "held").await?;
    pass(2).await;
    let item = claim_one(store).await?;
    ensure_eq(item.deliver_at, replaced.deliver_at, "due")?;
    for policy in [OnDuplicate::Keep, OnDuplicate::Earliest] {
        let kept = again(store, "a", 0, policy).await?;
        ensure_eq(kept.scheduled, Scheduled::Kept, "while in flight")?;
    }
    let done = store.complete(vec![item.lease]).await?;
    ensure_eq(done, vec![Finished::Done], "complete")?;
    let new = again(store, "a", 0, OnDuplicate::Keep).await?;
    ensure_eq(new.scheduled, Scheduled::New, "after completion")?;
    // Twice in one batch: the second meets the first.
    let twice = vec![
        named("b", 60_000, OnDuplicate::Keep)?,
        named("b", 60_000, OnDuplicate::Keep)?,
    ];
    let receipts = accepted(store.schedule(twice).await, 2)?;
    let found: Vec<_> = receipts.iter().map(|r| r.scheduled).collect();
    ensure_eq(
        found,
        vec![Scheduled::New, Scheduled::Kept],
        "twice in one batch",
    )
}

async fn bury(store: &dyn Store, name: &str) -> Outcome {
    put(store, name, 0).await?;
    pass(2).await;
    let release = Release {
        lease: claim_one(store).await?.lease,
        delay: Duration::ZERO,
        attempt: Attempt::Last,
        reason: "buried".into(),
    };
    store.release(vec![release]).await?;
    Ok(())
}

pub(super) async fn cancel(rig: &dyn StoreRig) -> Outcome {
    let store = &*fresh(rig).await?;
    bury(store, "dead").await?;
    put(store, "flying", 0).await?;
    pass(2).await;
    let flying = claim_one(store).await?;
    put(store, "waiting", 50).await?;
    ensure_held(store, [1, 1, 1], "held").await?;
    let ids = ["waiting", "flying", "dead", "unknown", "waiting"];
    let ids = ids.into_iter().map(id).collect::<Outcome<Vec<_>>>()?;
    let expected = vec![
        Cancelled::Removed,
        Cancelled::InFlight,
        Cancelled::Removed,
        Cancelled::Unknown,
        Cancelled::Unknown,
    ];
    ensure_eq(store.cancel(ids).await?, expected, "cancel")?;
    ensure_held(store, [0, 0, 0], "held after cancel").await?;
    let done = store.complete(vec![flying.lease]).await?;
    ensure_eq(done, vec![Finished::Stale], "complete of a cancelled one")?;
    pass(450).await;
    no_claim(store, "cancelled records").await
}

pub(super) async fn reschedule(rig: &dyn StoreRig) -> Outcome {
    let store = &*fresh(rig).await?;
    put(store, "a", 60_000).await?;
    let soon = When::After(Duration::from_millis(100));
    let Rescheduled::At(at) = store.reschedule(id("a")?, soon).await? else {
        return ensure(false, || "a waiting record was not rescheduled".to_owned());
    };
    no_claim(store, "records before the new time").await?;
    pass(120).await;
    let item = claim_one(store).await?;
    ensure_eq(item.deliver_at, at, "due")?;
    let flying = store.reschedule(id("a")?, soon).await?;
    ensure_eq(flying, Rescheduled::InFlight, "in flight")?;
    store.complete(vec![item.lease]).await?;
    let gone = store.reschedule(id("a")?, soon).await?;
    ensure_eq(gone, Rescheduled::Unknown, "completed")?;
    bury(store, "dead").await?;
    let back = store.reschedule(id("dead")?, When::At(0)).await?;
    ensure_eq(back, Rescheduled::At(0), "a dead one")?;
    ensure_eq(
        claim_one(store).await?.attempt,
        1,
        "attempt of one that was dead",
    )?;
    put(store, "far", 60_000).await?;
    let far = store.reschedule(id("far")?, When::At(i64::MAX)).await;
    ensure(far.is_err(), || {
        "a time too far away was accepted".to_owned()
    })?;
    ensure_held(store, [1, 1, 0], "held").await
}

async fn pages(store: &dyn Store, listed: Listed, limit: usize) -> Outcome<Vec<Cursor>> {
    let (mut found, mut after) = (Vec::new(), None);
    for _ in 0..100 {
        let listing = Listing {
            listed,
            after,
            limit,
        };
        let page = store.list(listing).await?;
        ensure(page.items.len() <= limit, || {
            "a page is too long".to_owned()
        })?;
        found.extend(page.items.into_iter().map(|(cursor, _)| cursor));
        after = page.next;
        if after.is_none() {
            return Ok(found);
        }
    }
    ensure(false, || "the pages do not end".to_owned()).map(|()| found)
}

pub(super) async fn list(rig: &dyn StoreRig) -> Outcome {
    let store = &*fresh(rig).await?;
    ensure_eq(
        pages(store, Listed::Waiting, 10).await?,
        Vec::new(),
        "empty",
    )?;
    let now = claim(store, 1).await?.now;
    // Many at one time, to make pages end among them.
    let batch = (0..50_i64).map(|n| {
        let at = When::At(now + 60_000 + if n < 30 { 0 } else { n });
        Delayed::new(at, record("topic", &n.to_string()))
    });
    let receipts = accepted(store.schedule(batch.collect()).await, 50)?;
    let mut expected: Vec<Cursor> = (receipts.into_iter())
        .map(|receipt| Cursor {
            at: receipt.deliver_at,
            id: receipt.id,
        })
        .collect();
    expected.sort();
    for limit in [1, 7, 50, 1_000] {
        let found = pages(store, Listed::Waiting, limit).await?;
        ensure(found == expected, || {
            format!("pages of {limit} are not the list")
        })?;
    }
    // The record at which a page ended is gone when the next is asked for.
    let first = Listing {
        listed: Listed::Waiting,
        after: None,
        limit: 10,
    };
    let page = store.list(first.clone()).await?;
    let gone = page.next.clone().map(|cursor| cursor.id);
    store.cancel(gone.into_iter().collect()).await?;
    let rest = store
        .list(Listing {
            after: page.next,
            limit: 1_000,
            ..first
        })
        .await?;
    let rest: Vec<_> = rest.items.into_iter().map(|(cursor, _)| cursor).collect();
    ensure(Some(&*rest) == expected.get(10..), || {
        "the page after a gone record".to_owned()
    })?;
    put(store, "flying", 0).await?;
    pass(2).await;
    claim_one(store).await?;
    ensure_eq(
        pages(store, Listed::InFlight, 10).await?.len(),
        1,
        "in flight",
    )?;
    ensure_eq(pages(store, Listed::Dead, 10).await?.len(), 0, "dead")
}

pub(super) async fn stats(rig: &dyn StoreRig) -> Outcome {
    let store = &*fresh(rig).await?;
    ensure_eq(
        store.stats().await?,
        crate::delay::Stats::default(),
        "of an empty store",
    )?;
    let first = put(store, "a", 5_000).await?;
    put(store, "b", 60_000).await?;
    put(store, "c", 0).await?;
    pass(2).await;
    let item = claim_one(store).await?;
    store.complete(vec![item.lease.clone()]).await?;
    store.complete(vec![item.lease]).await?;
    put(store, "d", 0).await?;
    pass(2).await;
    claim_one(store).await?;
    pass(420).await;
    claim_one(store).await?;
    let stats = store.stats().await?;
    let found = [stats.waiting, stats.in_flight, stats.dead, stats.scheduled];
    ensure_eq(found, [2, 1, 0, 4], "waiting, in flight, dead, scheduled")?;
    let found = [stats.completed, stats.expired, stats.stale, stats.early];
    ensure_eq(found, [1, 1, 1, 0], "completed, expired, stale, early")?;
    let next = stats.next_due.unwrap_or(i64::MAX);
    ensure(next <= first && next > 0, || {
        format!("next is {next}, due at {first}")
    })
}

pub(super) async fn bounds(rig: &dyn StoreRig) -> Outcome {
    let limits = Limits {
        capacity: 3,
        max_record_bytes: 200,
        ..Limits::default()
    };
    let store = &*rig.fresh(limits).await?;
    let large = crate::record::OutgoingRecord {
        value: Some(Bytes::from(vec![0; 300])),
        ..record("topic", "")
    };
    let mut batch: Vec<_> = (0..4)
        .map(|n| after(60_000, record("topic", &n.to_string())))
        .collect();
    batch.insert(1, after(60_000, large));
    let answers = store.schedule(batch).await;
    let found: Vec<_> = (answers.iter())
        .map(|answer| {
            answer
                .as_ref()
                .map_err(|error| error.status())
                .map(|r| r.scheduled)
        })
        .collect();
    let new = Ok(Scheduled::New);
    let expected = vec![
        new,
        Err(Status::Permanent),
        new,
        new,
        Err(Status::Temporary),
    ];
    ensure_eq(found, expected, "answers")?;
    ensure_held(store, [3, 0, 0], "held").await?;
    // Room is made by what goes.
    let first = answers.into_iter().next();
    let Some(Ok(receipt)) = first else {
        return ensure(false, || "no receipt".to_owned());
    };
    store.cancel(vec![receipt.id]).await?;
    put(store, "again", 0).await.map(drop)
}
