//! What a Redis must be like to keep records, judged from what it says about itself.

use crate::delay::Durability;
use crate::error::{Error, Result};
use std::collections::BTreeMap;
use std::time::Duration;

/// What a Redis says: settings by name. A setting that it would not tell is absent.
pub(super) type Said = BTreeMap<String, String>;

/// Reads `INFO`: lines of `name:value`.
pub(super) fn info(text: &str) -> Said {
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    lines
        .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
        .collect()
}

/// Refuses a Redis that is too old. The scripts write after reading the time (Redis 5), and what is
/// scheduled elsewhere wakes a worker through RESP3 (Redis 6).
///
/// # Errors
/// Kind [`Config`](crate::ErrorKind::Config).
pub(super) fn version(info: &Said) -> Result<()> {
    let Some(version) = info.get("redis_version") else {
        return Ok(());
    };
    let major = version
        .split('.')
        .next()
        .and_then(|major| major.parse::<u32>().ok());
    match major {
        Some(major) if major < 6 => Err(Error::config(format!(
            "Redis {version} is too old to keep delayed records: 6.0 or newer is needed"
        ))),
        _ => Ok(()),
    }
}

/// Refuses a Redis that would evict records.
///
/// # Errors
/// Kind [`Config`](crate::ErrorKind::Config) when the policy is known and is not `noeviction`.
pub(super) fn policy(said: &Said) -> Result<()> {
    let policy = said
        .get("maxmemory-policy")
        .or_else(|| said.get("maxmemory_policy"));
    match policy.map(String::as_str) {
        None | Some("noeviction") => Ok(()),
        Some(policy) => Err(Error::config(format!(
            "this Redis may evict delayed records: its maxmemory-policy is {policy}, it must be \
             noeviction"
        ))),
    }
}

/// What a crash loses, as the Redis documentation on persistence has it.
pub(super) fn durability(said: &Said) -> Durability {
    let get = |name: &str| said.get(name).map(String::as_str);
    match (get("appendonly"), get("appendfsync")) {
        (Some("yes"), Some("always")) => Durability::Synced,
        // Synced once a second, and a second later when the disk is busy.
        (Some("yes"), Some("everysec")) => Durability::Window(Duration::from_secs(2)),
        // Left to the kernel: 30 s on Linux.
        (Some("yes"), Some("no")) => Durability::Window(Duration::from_secs(30)),
        (Some("no"), _) => match get("save") {
            Some(save) => snapshots(save),
            None => Durability::Unknown,
        },
        _ => Durability::Unknown,
    }
}

/// `save` is pairs of seconds and changes: a snapshot is taken when so many changes are so old. A few
/// changes wait for the longest of them.
fn snapshots(save: &str) -> Durability {
    let seconds = save.split_whitespace().step_by(2);
    match seconds.filter_map(|seconds| seconds.parse().ok()).max() {
        Some(longest) => Durability::Window(Duration::from_secs(longest)),
        None => Durability::StoreProcess,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(pairs: &[(&str, &str)]) -> Said {
        let owned = pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        owned.collect()
    }

    #[test]
    fn any_policy_that_evicts_is_refused_by_name() {
        policy(&said(&[("maxmemory-policy", "noeviction")])).unwrap();
        policy(&said(&[])).unwrap();
        for evicts in ["allkeys-lru", "volatile-ttl", "allkeys-random"] {
            for name in ["maxmemory-policy", "maxmemory_policy"] {
                let error = policy(&said(&[(name, evicts)])).unwrap_err();
                assert!(error.message().contains(evicts));
                assert_eq!(error.kind(), crate::ErrorKind::Config);
            }
        }
    }

    #[test]
    fn the_loss_window_is_that_of_the_settings() {
        let of = |pairs: &[(&str, &str)]| durability(&said(pairs));
        let aof = |fsync| {
            of(&[
                ("appendonly", "yes"),
                ("appendfsync", fsync),
                ("save", "3600 1"),
            ])
        };
        assert_eq!(aof("always"), Durability::Synced);
        assert_eq!(aof("everysec"), Durability::Window(Duration::from_secs(2)));
        assert_eq!(aof("no"), Durability::Window(Duration::from_secs(30)));
        let rdb = |save| {
            of(&[
                ("appendonly", "no"),
                ("appendfsync", "everysec"),
                ("save", save),
            ])
        };
        assert_eq!(
            rdb("3600 1 300 100 60 10000"),
            Durability::Window(Duration::from_secs(3600))
        );
        assert_eq!(rdb(""), Durability::StoreProcess);
        assert_eq!(of(&[]), Durability::Unknown);
    }

    #[test]
    fn an_old_redis_is_refused() {
        let of = |version: &str| {
            super::version(&info(&format!("# Server\r\nredis_version:{version}\r\n")))
        };
        assert!(of("5.0.14").is_err());
        assert!(of("6.0.0").is_ok() && of("7.0.15").is_ok() && of("255.255.255").is_ok());
        assert!(super::version(&info("")).is_ok());
    }
}
