//! Delayed records in Redis: a sorted set of what waits, one of what is in flight, a hash of records.
//!
//! Every change is one Lua script, so it is atomic and several workers may share a queue. The time is
//! the server's (`TIME`), in milliseconds; clocks of clients do not matter. A script handles at most
//! 256 claims or 500 other items, so that other clients of the Redis are not kept waiting. Scripts
//! are loaded anew when the Redis does not know them (after a restart or a failover).
//!
//! All keys of a queue begin with `{namespace:queue}` and are thus in one slot of a Redis Cluster. No
//! key expires. Redis 6.0 or newer is needed.
//!
//! A lease is measured by the server's clock: when that leaps forward, leases end early and records
//! may be delivered twice; the fencing token keeps the rest in order.

mod checks;

use super::claim::{LEASES_ENDED, cut_reason};
use super::item::{millis, too_far};
use super::{
    Attempt, Cancelled, Claim, Claimed, Cursor, DelayAdmin, DelayId, DelaySink, DelayStore,
    Delayed, Due, Durability, Finished, IdSource, Lease, Limits, Listed, Listing, MAX_SCHEDULE,
    OnDuplicate, Page, Receipt, Release, Released, Rescheduled, Scheduled, Stats, When,
    check_claim, wire,
};
use crate::answer::BoxFuture;
use crate::clock::{Clock, SystemClock};
use crate::error::{Error, Result};
use ::redis::aio::{ConnectionLike, ConnectionManager, ConnectionManagerConfig};
use ::redis::{Client, IntoConnectionInfo, ProtocolVersion, RedisError, Script, cmd};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// The largest sum of records in one call, in bytes.
const CALL_BYTES: usize = 1 << 20;

/// How to reach a queue.
#[derive(Clone)]
pub struct RedisOptions {
    /// `redis://[user:password@]host:port[/database]`. It is never shown.
    pub url: String,
    /// The queue: with the namespace the hash tag of its keys, 1 to 200 bytes without braces.
    pub queue: String,
    /// What the names of keys begin with; `kafka-chain` unless set.
    pub namespace: String,
    /// The bounds of the queue. All that use it should set the same.
    pub limits: Limits,
    /// How long a call may take; 5 s unless set.
    pub timeout: Duration,
}

impl RedisOptions {
    /// The queue of this name on the Redis at `url`.
    pub fn new(url: impl Into<String>, queue: impl Into<String>) -> Self {
        RedisOptions {
            url: url.into(),
            queue: queue.into(),
            namespace: "kafka-chain".to_owned(),
            limits: Limits::default(),
            timeout: Duration::from_secs(5),
        }
    }
}

impl std::fmt::Debug for RedisOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisOptions")
            .field("queue", &self.queue)
            .field("namespace", &self.namespace)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// A queue of delayed records in Redis. Cheap to clone; a clone shares the connection.
///
/// `C` is the connection: by default one that reconnects by itself. What schedules or works on a Redis
/// Cluster gives a cluster connection to [`RedisStore::with_connection`].
#[derive(Clone)]
pub struct RedisStore<C = ConnectionManager> {
    connection: C,
    shared: Arc<Shared>,
}

struct Shared {
    keys: Vec<String>,
    channel: String,
    limits: Limits,
    durability: Durability,
    ids: IdSource,
    nearer: Arc<Notify>,
    scripts: Scripts,
}

macro_rules! scripts {
    ($($name:ident)*) => {
        struct Scripts { $($name: Script),* }

        impl Scripts {
            fn new() -> Self {
                Scripts { $($name: Script::new(concat!(
                    include_str!("redis/common.lua"),
                    include_str!(concat!("redis/", stringify!($name), ".lua"))
                ))),* }
            }
        }
    };
}

scripts! { schedule claim complete extend release cancel reschedule list stats }

impl RedisStore<ConnectionManager> {
    /// Connects, and looks whether this Redis can keep records. The connection comes back by itself
    /// whenever it is lost.
    ///
    /// # Errors
    /// Kind [`Config`](crate::ErrorKind::Config) when the options make no sense, or this Redis is older
    /// than 6.0 or evicts keys (`maxmemory-policy` other than `noeviction`); Temporary when it does
    /// not answer.
    pub async fn connect(options: RedisOptions) -> Result<Self> {
        let wrong = |_| Error::config("the URL of the Redis is not one");
        let info = options.url.as_str().into_connection_info().map_err(wrong)?;
        let settings = info.redis_settings().clone();
        let info = info.set_redis_settings(settings.set_protocol(ProtocolVersion::RESP3));
        let client = Client::open(info).map_err(wrong)?;
        let nearer = Arc::new(Notify::new());
        let told = Arc::clone(&nearer);
        let config = ConnectionManagerConfig::new()
            .set_connection_timeout(Some(options.timeout))
            .set_response_timeout(Some(options.timeout))
            .set_max_delay(Duration::from_secs(1))
            .set_automatic_resubscription()
            .set_push_sender(move |_| {
                told.notify_waiters();
                Ok::<(), ()>(())
            });
        let mut connection = ConnectionManager::new_with_config(client, config)
            .await
            .map_err(failed)?;
        let store = Self::checked(connection.clone(), &options, nearer).await?;
        // Refused to a user who may not subscribe: then workers find out by polling.
        let _ = connection.subscribe(&store.shared.channel).await;
        Ok(store)
    }
}

impl<C: ConnectionLike + Clone + Send + Sync + 'static> RedisStore<C> {
    /// The queue over a connection of your own, such as one to a cluster. The URL and the timeout in
    /// `options` are not used. Workers learn of what other processes schedule by polling.
    ///
    /// # Errors
    /// As for [`connect`](RedisStore::connect).
    pub async fn with_connection(connection: C, options: RedisOptions) -> Result<Self> {
        Self::checked(connection, &options, Arc::new(Notify::new())).await
    }

    async fn checked(
        mut connection: C,
        options: &RedisOptions,
        nearer: Arc<Notify>,
    ) -> Result<Self> {
        options.limits.check()?;
        let tag = format!("{}:{}", options.namespace, options.queue);
        let bad = |text: &str| {
            text.is_empty() || text.len() > 200 || text.contains(['{', '}']) || !text.is_ascii()
        };
        if bad(&options.queue) || bad(&options.namespace) {
            return Err(Error::config(
                "the name of a queue and its namespace are 1 to 200 ASCII characters without braces",
            ));
        }
        let text: String = cmd("INFO")
            .query_async(&mut connection)
            .await
            .map_err(failed)?;
        let mut said = checks::info(&text);
        for name in ["maxmemory-policy", "appendonly", "appendfsync", "save"] {
            // A managed Redis may not allow it: then nothing is known.
            let told = cmd("CONFIG")
                .arg("GET")
                .arg(name)
                .query_async(&mut connection)
                .await;
            let told: checks::Said = told.unwrap_or_default();
            said.extend(told);
        }
        checks::version(&said)?;
        checks::policy(&said)?;
        let keys = [
            "waiting", "flying", "records", "states", "dead", "reasons", "counts",
        ];
        Ok(RedisStore {
            connection,
            shared: Arc::new(Shared {
                keys: keys.map(|key| format!("{{{tag}}}:{key}")).into(),
                channel: format!("{{{tag}}}:nearer"),
                limits: options.limits.clone(),
                durability: checks::durability(&said),
                ids: IdSource::random(),
                nearer,
                scripts: Scripts::new(),
            }),
        })
    }

    /// The names of the keys that the queue uses.
    pub fn keys(&self) -> &[String] {
        &self.shared.keys
    }

    /// Calls a script. What it answers with is a text, or a list of texts.
    async fn call<T: ::redis::FromRedisValue>(
        &self,
        script: &Script,
        arguments: impl IntoIterator<Item = Vec<u8>>,
    ) -> Result<T> {
        let mut call = script.prepare_invoke();
        for key in &self.shared.keys {
            call.key(key);
        }
        call.arg(&self.shared.channel);
        for argument in arguments {
            call.arg(argument);
        }
        let mut connection = self.connection.clone();
        call.invoke_async(&mut connection).await.map_err(failed)
    }

    async fn schedule_all(&self, batch: Vec<Delayed>) -> Vec<Result<Receipt>> {
        let mut answers: Vec<Option<Result<Receipt>>> = Vec::with_capacity(batch.len());
        let mut chunk = Vec::new();
        let (mut bytes, mut down) = (0, false);
        for item in batch {
            let prepared = match down {
                true => Err(Error::unavailable(
                    "Redis did not take the records before this one",
                )),
                false => self.prepare(item),
            };
            let item = match prepared {
                Ok(item) => item,
                Err(error) => {
                    answers.push(Some(Err(error)));
                    continue;
                }
            };
            if chunk.len() >= MAX_SCHEDULE || (bytes > 0 && bytes + item.record.len() > CALL_BYTES)
            {
                down = self.send(std::mem::take(&mut chunk), &mut answers).await;
                bytes = 0;
            }
            bytes += item.record.len();
            chunk.push((answers.len(), item));
            answers.push(None);
        }
        if !chunk.is_empty() && !down {
            self.send(std::mem::take(&mut chunk), &mut answers).await;
        }
        let unsent = || Err(Error::unavailable("Redis did not take the record"));
        answers
            .into_iter()
            .map(|answer| answer.unwrap_or_else(unsent))
            .collect()
    }

    fn prepare(&self, item: Delayed) -> Result<Prepared> {
        let max = millis(self.shared.limits.max_delay);
        let (kind, millis) = match item.when {
            When::At(at) => ("a", at.max(0)),
            When::After(delay) => ("d", millis(delay)),
        };
        let record = wire::encode(&item.record, self.shared.limits.max_record_bytes)?;
        if kind == "d" && millis > max {
            return Err(too_far(max));
        }
        let now = SystemClock.now();
        let fresh = item.id.is_none();
        Ok(Prepared {
            id: item.id.unwrap_or_else(|| self.shared.ids.next(now)),
            fresh,
            kind,
            millis,
            on_duplicate: item.on_duplicate,
            record,
        })
    }

    /// Sends one chunk and fills in its answers; whether Redis is down.
    async fn send(
        &self,
        chunk: Vec<(usize, Prepared)>,
        answers: &mut [Option<Result<Receipt>>],
    ) -> bool {
        let limits = &self.shared.limits;
        let mut arguments = vec![
            number(millis(limits.max_delay)),
            number(limits.capacity as i64),
        ];
        for (_, item) in &chunk {
            arguments.extend(item.arguments());
        }
        let script = &self.shared.scripts.schedule;
        let mut said: Result<Vec<String>> = self.call(script, arguments.clone()).await;
        // A call that was cut off may have been done: under the same ids a second does no harm.
        let harmless =
            (chunk.iter()).all(|(_, item)| item.fresh || item.on_duplicate != OnDuplicate::Refuse);
        if said.is_err() && harmless {
            said = self.call(script, arguments).await;
        }
        let down = said.is_err();
        let mut words = said.unwrap_or_default().into_iter();
        let mut scheduled = false;
        for (place, item) in chunk {
            let answer = match (words.next(), words.next()) {
                (Some(word), Some(at)) => item.answer(&word, &at, limits),
                _ => Err(Error::unavailable("Redis did not take the record")),
            };
            scheduled |= answer.is_ok();
            if let Some(slot) = answers.get_mut(place) {
                *slot = Some(answer);
            }
        }
        if scheduled {
            self.shared.nearer.notify_waiters();
        }
        down
    }

    async fn claim(&self, claim: Claim) -> Result<Due> {
        check_claim(claim)?;
        let arguments = [
            number(claim.max as i64),
            number(millis(claim.lease)),
            number(self.shared.limits.max_attempts.into()),
            number(4 * CALL_BYTES as i64),
            LEASES_ENDED.into(),
        ];
        let said: Vec<Vec<u8>> = self.call(&self.shared.scripts.claim, arguments).await?;
        let mut said = said.into_iter();
        let now = read(&said.next())?;
        let next = match said.next() {
            Some(next) if next.is_empty() => None,
            next => Some(read(&next)?),
        };
        let token = u64::try_from(read(&said.next())?).map_err(|_| strange())?;
        let (mut items, mut broken) = (Vec::new(), Vec::new());
        while let Some(id) = said.next() {
            let lease = Lease {
                id: text(id).and_then(DelayId::new)?,
                token,
            };
            let (deliver_at, attempt) = (read(&said.next())?, read(&said.next())?);
            match wire::decode(Bytes::from(said.next().ok_or_else(strange)?)) {
                Ok(record) => items.push(Claimed {
                    lease,
                    deliver_at,
                    attempt: u32::try_from(attempt).map_err(|_| strange())?,
                    record,
                }),
                Err(error) => broken.push(Release {
                    lease,
                    delay: Duration::ZERO,
                    attempt: Attempt::Last,
                    reason: error.message().to_owned().into(),
                }),
            }
        }
        if !broken.is_empty() {
            self.release_all(broken).await?;
        }
        Ok(Due { items, now, next })
    }

    async fn finish(
        &self,
        script: &Script,
        first: Option<Vec<u8>>,
        leases: Vec<Lease>,
    ) -> Result<Vec<Finished>> {
        let mut finished = Vec::with_capacity(leases.len());
        for chunk in leases.chunks(MAX_SCHEDULE) {
            let leases = (chunk.iter())
                .flat_map(|lease| [lease.id.as_str().into(), lease.token.to_string().into()]);
            let said: Vec<u8> = self
                .call(script, first.clone().into_iter().chain(leases))
                .await?;
            if said.len() != chunk.len() {
                return Err(strange());
            }
            finished.extend(said.iter().map(|done| match done {
                b'1' => Finished::Done,
                _ => Finished::Stale,
            }));
        }
        Ok(finished)
    }

    async fn release_all(&self, releases: Vec<Release>) -> Result<Vec<Released>> {
        let limits = &self.shared.limits;
        let mut answers = Vec::with_capacity(releases.len());
        for chunk in releases.chunks(MAX_SCHEDULE) {
            let mut arguments = vec![number(limits.max_attempts.into())];
            for release in chunk {
                let mode = match release.attempt {
                    Attempt::Free => "f",
                    Attempt::Counted => "c",
                    Attempt::Last => "l",
                };
                arguments.extend([
                    release.lease.id.as_str().into(),
                    release.lease.token.to_string().into(),
                    number(millis(release.delay.min(limits.max_delay))),
                    mode.into(),
                    cut_reason(release.reason.clone()).into_owned().into_bytes(),
                ]);
            }
            let said: Vec<String> = self.call(&self.shared.scripts.release, arguments).await?;
            if said.len() != chunk.len() {
                return Err(strange());
            }
            for word in said {
                answers.push(match word.as_str() {
                    "stale" => Released::Stale,
                    "dead" => Released::Dead,
                    at => Released::Waiting(at.parse().map_err(|_| strange())?),
                });
            }
        }
        self.shared.nearer.notify_waiters();
        Ok(answers)
    }

    async fn cancel_all(&self, ids: Vec<DelayId>) -> Result<Vec<Cancelled>> {
        let mut answers = Vec::with_capacity(ids.len());
        for chunk in ids.chunks(MAX_SCHEDULE) {
            let ids = chunk.iter().map(|id| id.as_str().into());
            let said: Vec<u8> = self.call(&self.shared.scripts.cancel, ids).await?;
            if said.len() != chunk.len() {
                return Err(strange());
            }
            answers.extend(said.iter().map(|answer| match answer {
                b'r' => Cancelled::Removed,
                b'f' => Cancelled::InFlight,
                _ => Cancelled::Unknown,
            }));
        }
        Ok(answers)
    }

    async fn reschedule_one(&self, id: DelayId, when: When) -> Result<Rescheduled> {
        let max = millis(self.shared.limits.max_delay);
        let (kind, millis) = match when {
            When::At(at) => ("a", at.max(0)),
            When::After(delay) => ("d", millis(delay)),
        };
        let arguments = [number(max), id.as_str().into(), kind.into(), number(millis)];
        let said: String = self
            .call(&self.shared.scripts.reschedule, arguments)
            .await?;
        self.shared.nearer.notify_waiters();
        match said.as_str() {
            "far" => Err(too_far(max)),
            "flying" => Ok(Rescheduled::InFlight),
            "unknown" => Ok(Rescheduled::Unknown),
            at => Ok(Rescheduled::At(at.parse().map_err(|_| strange())?)),
        }
    }

    async fn page(&self, listing: Listing) -> Result<Page> {
        let key = match listing.listed {
            Listed::Waiting => "w",
            Listed::InFlight => "f",
            Listed::Dead => "d",
        };
        let mut arguments = vec![key.into(), number(listing.limit() as i64)];
        if let Some(Cursor { at, id }) = &listing.after {
            arguments.extend([number(*at), id.as_str().into()]);
        }
        let said: Vec<String> = self.call(&self.shared.scripts.list, arguments).await?;
        let mut said = said.into_iter();
        let more = said.next().as_deref() == Some("1");
        let mut items = Vec::new();
        while let (Some(id), Some(at), Some(reason)) = (said.next(), said.next(), said.next()) {
            let cursor = Cursor {
                at: at.parse().map_err(|_| strange())?,
                id: DelayId::new(id)?,
            };
            let dead = listing.listed == Listed::Dead;
            items.push((cursor, dead.then_some(reason.into())));
        }
        let last = items.last().map(|(cursor, _)| cursor.clone());
        Ok(Page {
            items,
            next: last.filter(|_| more),
        })
    }

    async fn count(&self) -> Result<Stats> {
        let said: Vec<String> = self.call(&self.shared.scripts.stats, []).await?;
        let mut said = said.into_iter();
        let mut number = || said.next().and_then(|number| number.parse().ok());
        let held = (number(), number(), number());
        let (Some(waiting), Some(in_flight), Some(dead)) = held else {
            return Err(strange());
        };
        let next_due = said.next().and_then(|due| due.parse().ok());
        let mut stats = Stats {
            waiting,
            in_flight,
            dead,
            next_due,
            ..Stats::default()
        };
        while let (Some(name), Some(value)) = (said.next(), said.next()) {
            let value = value.parse().map_err(|_| strange())?;
            match name.as_str() {
                "scheduled" => stats.scheduled = value,
                "completed" => stats.completed = value,
                "expired" => stats.expired = value,
                "stale" => stats.stale = value,
                "early" => stats.early = value,
                _ => {}
            }
        }
        Ok(stats)
    }
}

/// An item as the script takes it.
struct Prepared {
    id: DelayId,
    fresh: bool,
    kind: &'static str,
    millis: i64,
    on_duplicate: OnDuplicate,
    record: Bytes,
}

impl Prepared {
    fn arguments(&self) -> [Vec<u8>; 5] {
        let policy = match self.on_duplicate {
            _ if self.fresh => "k",
            OnDuplicate::Keep => "k",
            OnDuplicate::Replace => "r",
            OnDuplicate::Earliest => "e",
            OnDuplicate::Refuse => "x",
        };
        [
            self.id.as_str().into(),
            self.kind.into(),
            number(self.millis),
            policy.into(),
            self.record.to_vec(),
        ]
    }

    fn answer(self, word: &str, at: &str, limits: &Limits) -> Result<Receipt> {
        let scheduled = match word {
            "new" => Scheduled::New,
            // A fresh id is kept only when the first of two calls was done.
            "kept" if self.fresh => Scheduled::New,
            "kept" => Scheduled::Kept,
            "replaced" => Scheduled::Replaced,
            "far" => return Err(too_far(millis(limits.max_delay))),
            "taken" => return Err(super::item::taken()),
            "full" => return Err(super::item::full()),
            _ => return Err(strange()),
        };
        Ok(Receipt {
            id: self.id,
            deliver_at: at.parse().map_err(|_| strange())?,
            scheduled,
        })
    }
}

fn number(number: i64) -> Vec<u8> {
    number.to_string().into_bytes()
}

fn text(bytes: Vec<u8>) -> Result<String> {
    String::from_utf8(bytes).map_err(|_| strange())
}

fn read(said: &Option<Vec<u8>>) -> Result<i64> {
    let text = said
        .as_deref()
        .and_then(|said| std::str::from_utf8(said).ok());
    text.and_then(|text| text.parse().ok()).ok_or_else(strange)
}

/// A script answers what it was not written to answer: somebody else writes to its keys.
fn strange() -> Error {
    Error::malformed("Redis answered what the store did not write: are its keys used elsewhere?")
}

/// Without what the server says beyond its error code, which may quote arguments.
fn failed(error: RedisError) -> Error {
    use ::redis::ErrorKind;
    let code = error.code().unwrap_or_default();
    match (error.kind(), code) {
        (ErrorKind::AuthenticationFailed, _) => Error::config("Redis refused the user or password"),
        (ErrorKind::InvalidClientConfig, _) => Error::config("the options of the Redis are wrong"),
        (_, "NOAUTH" | "WRONGPASS" | "NOPERM") => {
            Error::config(format!("Redis refused the user a command ({code})"))
        }
        (_, "WRONGTYPE") => Error::config("a key of the queue holds something else (WRONGTYPE)"),
        (ErrorKind::Io, _) => Error::unavailable("Redis did not answer"),
        (_, "") => Error::unavailable("Redis did not do as asked"),
        (_, code) => Error::unavailable(format!("Redis did not do as asked ({code})")),
    }
}

#[deny(clippy::missing_trait_methods)]
impl<C: ConnectionLike + Clone + Send + Sync + 'static> DelaySink for RedisStore<C> {
    fn schedule(&self, batch: Vec<Delayed>) -> BoxFuture<'_, Vec<Result<Receipt>>> {
        Box::pin(self.schedule_all(batch))
    }

    fn durability(&self) -> Durability {
        self.shared.durability
    }
}

#[deny(clippy::missing_trait_methods)]
impl<C: ConnectionLike + Clone + Send + Sync + 'static> DelayStore for RedisStore<C> {
    fn due(&self, claim: Claim) -> BoxFuture<'_, Result<Due>> {
        Box::pin(self.claim(claim))
    }

    fn complete(&self, leases: Vec<Lease>) -> BoxFuture<'_, Result<Vec<Finished>>> {
        Box::pin(self.finish(&self.shared.scripts.complete, None, leases))
    }

    fn release(&self, releases: Vec<Release>) -> BoxFuture<'_, Result<Vec<Released>>> {
        Box::pin(self.release_all(releases))
    }

    fn extend(&self, leases: Vec<Lease>, lease: Duration) -> BoxFuture<'_, Result<Vec<Finished>>> {
        let lease = Some(number(millis(lease)));
        Box::pin(self.finish(&self.shared.scripts.extend, lease, leases))
    }

    fn changed(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.shared.nearer.notified())
    }
}

#[deny(clippy::missing_trait_methods)]
impl<C: ConnectionLike + Clone + Send + Sync + 'static> DelayAdmin for RedisStore<C> {
    fn cancel(&self, ids: Vec<DelayId>) -> BoxFuture<'_, Result<Vec<Cancelled>>> {
        Box::pin(self.cancel_all(ids))
    }

    fn reschedule(&self, id: DelayId, when: When) -> BoxFuture<'_, Result<Rescheduled>> {
        Box::pin(self.reschedule_one(id, when))
    }

    fn list(&self, listing: Listing) -> BoxFuture<'_, Result<Page>> {
        Box::pin(self.page(listing))
    }

    fn stats(&self) -> BoxFuture<'_, Result<Stats>> {
        Box::pin(self.count())
    }
}

impl<C> std::fmt::Debug for RedisStore<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisStore")
            .field("keys", &self.shared.keys)
            .field("durability", &self.shared.durability)
            .finish_non_exhaustive()
    }
}
