//! The article's queue as it stands, and with only its losses mended: a sorted set whose members are
//! the messages themselves, and a checker that reads all that is due once a second and removes each
//! message once it is sent.

use crate::open;
use redis::aio::MultiplexedConnection;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How many messages are posted, of how many different texts, by how many checkers read.
const POSTED: u64 = 1_000;
const TEXTS: u64 = 100;
const CHECKERS: usize = 2;
const DELAY: Duration = Duration::from_millis(2_500);

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Queue {
    /// Equal messages are one member, and instants are whole seconds.
    AsItStands,
    /// Each message has a number of its own, and instants are milliseconds.
    Mended,
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(since.expect("a time after 1970").as_millis()).expect("milliseconds")
}

impl Queue {
    fn score(self, millis: u64) -> u64 {
        match self {
            Queue::AsItStands => millis / 1_000,
            Queue::Mended => millis,
        }
    }

    async fn post(self, connection: &mut MultiplexedConnection, key: &str, number: u64) {
        let text = format!("note {}", number % TEXTS);
        let due = now() + DELAY.as_millis() as u64;
        let member = match self {
            Queue::AsItStands => text,
            Queue::Mended => format!("{number} {text}"),
        };
        let mut add = redis::cmd("ZADD");
        add.arg(key).arg("NX").arg(self.score(due)).arg(member);
        let _: () = add.query_async(connection).await.expect("added");
    }

    /// Reads all that is due, sends each message, removes each that is sent.
    async fn check(self, connection: &mut MultiplexedConnection, key: &str) -> Vec<(String, u64)> {
        let mut read = redis::cmd("ZRANGEBYSCORE");
        read.arg(key).arg(0).arg(self.score(now()));
        let due: Vec<String> = read.query_async(connection).await.expect("members");
        let mut sent = Vec::new();
        for member in due {
            sent.push((member.clone(), now()));
            let mut remove = redis::cmd("ZREM");
            remove.arg(key).arg(member);
            let _: () = remove.query_async(connection).await.expect("removed");
        }
        sent
    }

    fn name(self) -> &'static str {
        match self {
            Queue::AsItStands => "article",
            Queue::Mended => "article with its loss mended",
        }
    }
}

/// Posts one message each 2 ms, has two checkers deliver them, and counts.
pub(crate) async fn show(url: &str, queue: Queue) {
    let key = format!("bench-{}-article", std::process::id());
    let mut checkers = Vec::new();
    for _ in 0..CHECKERS {
        let (mut connection, key) = (open(url).await, key.clone());
        checkers.push(tokio::spawn(async move {
            let mut sent = Vec::new();
            for _ in 0..9 {
                tokio::time::sleep(Duration::from_secs(1)).await;
                sent.extend(queue.check(&mut connection, &key).await);
            }
            sent
        }));
    }
    let mut connection = open(url).await;
    // The latest instant at which each member is due: the first post of a text decides, as it stands.
    let mut due: BTreeMap<String, u64> = BTreeMap::new();
    for number in 0..POSTED {
        queue.post(&mut connection, &key, number).await;
        let text = format!("note {}", number % TEXTS);
        let member = match queue {
            Queue::AsItStands => text,
            Queue::Mended => format!("{number} {text}"),
        };
        let at = now() + DELAY.as_millis() as u64;
        due.entry(member).or_insert(at);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let mut sent = Vec::new();
    for checker in checkers {
        sent.extend(checker.await.expect("a checker"));
    }
    let mut times: BTreeMap<&str, u64> = BTreeMap::new();
    let (mut early, mut late) = (0, Vec::new());
    for (member, at) in &sent {
        *times.entry(member.as_str()).or_default() += 1;
        let due = due.get(member).copied().unwrap_or_default();
        early += u64::from(*at + 5 < due);
        late.push(at.saturating_sub(due));
    }
    late.sort_unstable();
    let delivered = times.len() as u64;
    let twice: u64 = times.values().map(|count| count - 1).sum();
    println!(
        "{}: posted={POSTED} delivered={delivered} lost={} twice={twice} early={early} late_p50_ms={}",
        queue.name(),
        POSTED - delivered,
        late.get(late.len() / 2).copied().unwrap_or_default(),
    );
    let mut delete = redis::cmd("DEL");
    let _: () = delete
        .arg(&key)
        .query_async(&mut connection)
        .await
        .expect("deleted");
}
