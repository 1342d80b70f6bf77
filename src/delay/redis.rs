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
mod queue;
mod schedule;

use super::item::millis;
use super::{
    Cancelled, Claim, DelayAdmin, DelayId, DelaySink, DelayStore, Delayed, Due, Durability,
    Finished, IdSource, Lease, Limits, Listing, Page, Receipt, Release, Released, Rescheduled,
    Stats, When,
};
use crate::answer::BoxFuture;
use crate::error::{Error, Result};
use ::redis::aio::{ConnectionLike, ConnectionManager, ConnectionManagerConfig};
use ::redis::{Client, IntoConnectionInfo, ProtocolVersion, RedisError, Script, cmd};
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
