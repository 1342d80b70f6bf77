//! Rules for a [`DelaySink`] and whatever delivers what it takes.

use super::{Broken, Checked, Outcome, accepted, after, ensure, ensure_eq, record};
use crate::answer::BoxFuture;
use crate::delay::{DelaySink, Delayed, When};
use crate::headers::Headers;
use crate::record::OutgoingRecord;
use crate::status::Status;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A record that came out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The record; headers that begin with `deliver-` are ignored.
    pub record: OutgoingRecord,
    /// When it was there, by the clock of [`SinkRig::now`].
    pub at: i64,
}

/// A sink, what delivers, and where the records come out.
pub trait SinkRig: Send + Sync {
    /// The sink; another after a restart.
    fn sink(&self) -> Arc<dyn DelaySink>;

    /// A topic that records may be delivered to. Nothing else is delivered there.
    fn topic(&self) -> String;

    /// The time in milliseconds since the epoch, by the clock that decides what is due.
    fn now(&self) -> i64;

    /// The furthest that a record may be delayed: at least an hour.
    fn max_delay(&self) -> Duration;

    /// How late a record may come.
    fn tolerance(&self) -> Duration;

    /// What has come out since the last call: waits until there are `count`, but no longer than
    /// `limit`.
    fn arrivals(&self, count: usize, limit: Duration) -> BoxFuture<'_, Vec<Arrival>>;

    /// Ends everything that holds no record durably, unannounced where it can, and starts it anew.
    fn restart(&self) -> BoxFuture<'_, ()>;
}

/// Runs every rule.
pub async fn check(rig: &dyn SinkRig) -> Vec<Checked> {
    vec![
        Checked::new("never early, and not too late", never_early(rig).await),
        Checked::new(
            "what is past is due now and holds nothing up",
            past(rig).await,
        ),
        Checked::new("what is too far away is refused", too_far(rig).await),
        Checked::new("equal records are each delivered", equal(rig).await),
        Checked::new("key, value and headers come as they went", exact(rig).await),
        Checked::new("a nearer record overtakes", nearer(rig).await),
        Checked::new("a batch of any size is taken", large(rig).await),
        Checked::new("a restart loses nothing", restart(rig).await),
    ]
}

fn text(record: &OutgoingRecord) -> String {
    let value = record.value.as_deref().unwrap_or_default();
    String::from_utf8_lossy(value).into_owned()
}

/// Each expected text once (or more often, where `again` is allowed), none before its time or too
/// late, and nothing else.
async fn arrive(
    rig: &dyn SinkRig,
    expected: &BTreeMap<String, i64>,
    again: bool,
) -> Outcome<Vec<Arrival>> {
    let last = expected.values().copied().max().unwrap_or(0);
    let wait = u64::try_from(last.saturating_sub(rig.now())).unwrap_or(0);
    let limit = Duration::from_millis(wait) + rig.tolerance();
    let until = Instant::now() + limit;
    let mut arrivals = rig.arrivals(expected.len(), limit).await;
    // What comes again does not stand for what is still to come.
    while again && Instant::now() < until {
        let came: BTreeSet<String> = arrivals.iter().map(|a| text(&a.record)).collect();
        let missing = expected.keys().filter(|text| !came.contains(*text)).count();
        if missing == 0 {
            break;
        }
        let left = until.saturating_duration_since(Instant::now());
        arrivals.extend(rig.arrivals(missing, left).await);
    }
    let tolerance = i64::try_from(rig.tolerance().as_millis()).unwrap_or(i64::MAX);
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for arrival in &arrivals {
        let text = text(&arrival.record);
        let Some(due) = expected.get(&text) else {
            return Err(Broken(format!("`{text}` was delivered again or unasked")));
        };
        let late = arrival.at - due;
        ensure(late >= 0, || format!("`{text}` came {} ms early", -late))?;
        ensure(again || late <= tolerance, || {
            format!("`{text}` came {late} ms late")
        })?;
        *counts.entry(text).or_default() += 1;
    }
    for text in expected.keys() {
        let count = counts.get(text).copied().unwrap_or(0);
        ensure(count == 1 || (again && count > 1), || {
            format!("`{text}` was delivered {count} times")
        })?;
    }
    Ok(arrivals)
}

async fn schedule(rig: &dyn SinkRig, items: Vec<(String, When)>) -> Outcome<BTreeMap<String, i64>> {
    let topic = rig.topic();
    let before = rig.now();
    let batch = (items.iter())
        .map(|(text, when)| Delayed::new(*when, record(&topic, text)))
        .collect();
    let receipts = accepted(rig.sink().schedule(batch).await, items.len())?;
    let after = rig.now();
    let mut dues = BTreeMap::new();
    for ((text, when), receipt) in items.into_iter().zip(receipts) {
        let (least, most) = match when {
            When::At(at) => (at.max(0), at.max(0)),
            When::After(delay) => {
                let delay = i64::try_from(delay.as_millis()).unwrap_or(i64::MAX);
                (
                    before.saturating_add(delay),
                    after.saturating_add(delay + 1),
                )
            }
        };
        let at = receipt.deliver_at;
        ensure((least..=most).contains(&at), || {
            format!("`{text}` is due at {at}, not in {least}..={most}")
        })?;
        // What was due before it was handed over counts from then.
        dues.insert(text, at.max(before));
    }
    Ok(dues)
}

/// FC-082, and 100 delays that look like chance.
async fn never_early(rig: &dyn SinkRig) -> Outcome {
    let millis = |millis| When::After(Duration::from_millis(millis));
    let mut items: Vec<_> = [1, 300, 999, 1_500]
        .map(|delay| (format!("early-{delay}"), millis(delay)))
        .into();
    items.extend((0..100_u64).map(|n| (format!("early-n{n}"), millis(n * 7_919 % 1_700))));
    let micros = When::After(Duration::from_micros(250_001));
    items.push(("early-micros".to_owned(), micros));
    items.push(("early-at".to_owned(), When::At(rig.now() + 700)));
    let dues = schedule(rig, items).await?;
    arrive(rig, &dues, false).await.map(drop)
}

/// FC-080.
async fn past(rig: &dyn SinkRig) -> Outcome {
    let now = rig.now();
    let pasts = [
        When::At(0),
        When::At(i64::MIN),
        When::At(now - 2_515_194_000),
        When::At(now),
        When::After(Duration::ZERO),
    ];
    let mut items = Vec::new();
    for (n, when) in pasts.into_iter().enumerate() {
        items.push((format!("past-{n}"), when));
        items.push((
            format!("past-{n}-next"),
            When::After(Duration::from_secs(1)),
        ));
    }
    let dues = schedule(rig, items).await?;
    arrive(rig, &dues, false).await.map(drop)
}

/// FC-081.
async fn too_far(rig: &dyn SinkRig) -> Outcome {
    let max = rig.max_delay();
    let far = [
        When::After(max + Duration::from_secs(60)),
        When::After(Duration::from_millis(i64::MAX as u64)),
        When::After(Duration::from_millis(u64::MAX)),
        When::After(Duration::MAX),
        When::At(i64::MAX),
        When::At(i64::MAX - 1_000),
    ];
    let topic = rig.topic();
    let batch: Vec<_> = (far.into_iter())
        .map(|when| Delayed::new(when, record(&topic, "too-far")))
        .chain([after(3_600_000, record(&topic, "in-an-hour"))])
        .collect();
    let mut answers = rig.sink().schedule(batch).await;
    let hour = answers.pop();
    ensure(matches!(hour, Some(Ok(_))), || {
        "an hour is refused".to_owned()
    })?;
    ensure_eq(answers.len(), far.len(), "answers of schedule")?;
    for (when, answer) in far.iter().zip(answers) {
        match answer {
            Ok(receipt) => {
                let at = receipt.deliver_at;
                return Err(Broken(format!("{when:?} was accepted for {at}")));
            }
            Err(error) => ensure_eq(error.status(), Status::Permanent, "status of too far")?,
        }
    }
    let arrived = rig.arrivals(1, Duration::from_millis(300)).await;
    ensure(arrived.is_empty(), || {
        "a refused record was delivered".to_owned()
    })
}

/// FC-090.
async fn equal(rig: &dyn SinkRig) -> Outcome {
    let same = record(&rig.topic(), "equal");
    let at = rig.now() + 800;
    let mut batch = vec![after(300, same.clone()), after(900, same.clone())];
    batch.extend((0..1_000).map(|_| Delayed::new(When::At(at), same.clone())));
    let count = batch.len();
    let receipts = accepted(rig.sink().schedule(batch).await, count)?;
    let mut dues: Vec<i64> = receipts.iter().map(|receipt| receipt.deliver_at).collect();
    let mut ids: Vec<_> = receipts.iter().map(|receipt| &receipt.id).collect();
    ids.sort_unstable();
    ids.dedup();
    ensure_eq(ids.len(), count, "different ids")?;
    let limit = Duration::from_millis(900) + rig.tolerance();
    let mut times: Vec<i64> = (rig.arrivals(count + 1, limit).await.iter())
        .map(|arrival| arrival.at)
        .collect();
    ensure_eq(times.len(), count, "deliveries of equal records")?;
    dues.sort_unstable();
    times.sort_unstable();
    let early = dues.iter().zip(&times).find(|(due, time)| time < due);
    ensure(early.is_none(), || format!("one came early: {early:?}"))
}

async fn exact(rig: &dyn SinkRig) -> Outcome {
    let bytes = |bytes: &'static [u8]| Some(Bytes::from_static(bytes));
    let all: Vec<u8> = (0..=255).collect();
    let headers: Headers = [
        (&b"trace"[..], bytes(b"a")),
        (b"trace", bytes(b"b")),
        (b"empty", bytes(b"")),
        (b"null", None),
        (b"binary", Some(Bytes::from(all.clone()))),
    ]
    .into_iter()
    .collect();
    let base = OutgoingRecord {
        topic: rig.topic(),
        ..OutgoingRecord::default()
    };
    let records = [
        OutgoingRecord {
            key: bytes(b"k"),
            value: Some(Bytes::from(all)),
            headers,
            ..base.clone()
        },
        OutgoingRecord {
            key: bytes(b""),
            value: bytes(b""),
            ..base.clone()
        },
        OutgoingRecord {
            key: bytes(b"tombstone"),
            ..base.clone()
        },
        OutgoingRecord {
            value: bytes(b"no key"),
            ..base
        },
    ];
    let batch = records.iter().map(|record| after(200, record.clone()));
    accepted(rig.sink().schedule(batch.collect()).await, records.len())?;
    let limit = Duration::from_millis(200) + rig.tolerance();
    let arrivals = rig.arrivals(records.len(), limit).await;
    ensure_eq(arrivals.len(), records.len(), "deliveries")?;
    let plain = |record: &OutgoingRecord| {
        let kept = |name: &[u8]| !name.starts_with(b"deliver-");
        let headers = record.headers.iter().filter(|(name, _)| kept(name));
        let headers: Vec<_> = headers.map(|(n, v)| (n.clone(), v.cloned())).collect();
        (
            record.topic.clone(),
            record.key.clone(),
            record.value.clone(),
            headers,
        )
    };
    for (n, record) in records.iter().enumerate() {
        let found = arrivals.iter().any(|a| plain(&a.record) == plain(record));
        ensure(found, || format!("record {n} did not come as it went"))?;
    }
    Ok(())
}

async fn nearer(rig: &dyn SinkRig) -> Outcome {
    let far = When::After(Duration::from_millis(2_000));
    let mut dues = schedule(rig, vec![("far".to_owned(), far)]).await?;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let near = When::After(Duration::from_millis(300));
    dues.append(&mut schedule(rig, vec![("near".to_owned(), near)]).await?);
    let arrivals = arrive(rig, &dues, false).await?;
    let order: Vec<String> = arrivals.iter().map(|a| text(&a.record)).collect();
    ensure_eq(order.join(" ").as_str(), "near far", "order")
}

async fn large(rig: &dyn SinkRig) -> Outcome {
    ensure_eq(rig.sink().schedule(Vec::new()).await.len(), 0, "answers")?;
    let at = When::At(rig.now() + 500);
    let items = (0..2_500).map(|n| (format!("large-{n}"), at)).collect();
    let dues = schedule(rig, items).await?;
    arrive(rig, &dues, false).await.map(drop)
}

/// FC-100, its second part: what fell due while nothing ran is delivered without new traffic.
async fn restart(rig: &dyn SinkRig) -> Outcome {
    let millis = |millis| When::After(Duration::from_millis(millis));
    let items = (0..50).map(|n| (format!("restart-{n}"), millis(n * 30)));
    let dues = schedule(rig, items.collect()).await?;
    rig.restart().await;
    arrive(rig, &dues, true).await.map(drop)
}
