//! The settings of a group's consumer.

use crate::error::{Error, Result};
use crate::transport::Settings;

/// `settings` with our defaults for a consumer that reads partitions in batches.
///
/// Always, whatever was set: `enable.auto.offset.store=false` and `enable.auto.commit=false`, for
/// only what the caller says is done is committed; `enable.partition.eof=false`, for librdkafka takes
/// news of the end for a record and skips the next one after a pause. Unless set:
/// `auto.offset.reset=earliest` (librdkafka's own default skips records),
/// `allow.auto.create.topics=false`, `reconnect.backoff.max.ms=1000` (the Java client's),
/// `statistics.interval.ms=5000` (for the lag). Session, heartbeat and assignor keys are left alone: `group.protocol=consumer` (KIP-848)
/// refuses them.
///
/// Memory: each partition has a queue of its own, and what is not taken stays there until it is
/// full; then nothing more is fetched for it. With `queued.max.messages.kbytes=4096`,
/// `queued.min.messages=10000`, `max.partition.fetch.bytes=1048576` (librdkafka's) and
/// `fetch.max.bytes=16777216` the queues hold at most
///
/// ```text
/// partitions × min(queued.max.messages.kbytes × 1024 + max.partition.fetch.bytes,
///                  (queued.min.messages + one fetch) × record size)
///   + records queued × about 500 bytes + brokers × fetch.max.bytes
/// ```
///
/// A record in hand keeps the whole response (or decompressed batch) that it came with, so N
/// records held for long keep at most N × `fetch.max.bytes`. `fetch.queue.backoff.ms=20` is how
/// late a queue that was full is filled again (librdkafka's second would starve it).
///
/// # Errors
/// Kind Config when `group.id` is missing.
pub fn group_settings(settings: &Settings) -> Result<Settings> {
    let mut settings = settings.clone();
    settings
        .set("enable.auto.offset.store", "false")
        .set("enable.auto.commit", "false")
        .set("enable.partition.eof", "false")
        .set_default("auto.offset.reset", "earliest")
        .set_default("allow.auto.create.topics", "false")
        .set_default("reconnect.backoff.max.ms", "1000")
        .set_default("statistics.interval.ms", "5000")
        .set_default("queued.max.messages.kbytes", "4096")
        .set_default("queued.min.messages", "10000")
        .set_default("fetch.queue.backoff.ms", "20")
        .set_default("fetch.max.bytes", "16777216");
    match settings.get("group.id").is_none_or(str::is_empty) {
        true => Err(Error::config("group.id is missing")),
        false => Ok(settings),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::kafka::properties::client_config;

    /// FC-054: handing out never stores and nothing commits by itself, whatever a file says.
    #[test]
    fn storing_and_committing_are_ours_alone() {
        let asked: Settings = [
            ("group.id", "g"),
            ("enable.auto.commit", "true"),
            ("enable.auto.offset.store", "true"),
            ("enable.partition.eof", "true"),
            ("auto.offset.reset", "latest"),
        ]
        .into_iter()
        .collect();
        let settings = group_settings(&asked).unwrap();
        assert_eq!(settings.get("enable.auto.commit"), Some("false"));
        assert_eq!(settings.get("enable.auto.offset.store"), Some("false"));
        assert_eq!(settings.get("enable.partition.eof"), Some("false"));
        assert_eq!(settings.get("auto.offset.reset"), Some("latest"));
        assert!(group_settings(&Settings::new()).is_err());
    }

    /// KIP-848's protocol refuses session, heartbeat and assignor keys, even at their defaults.
    #[test]
    fn the_defaults_fit_both_group_protocols() {
        for protocol in ["classic", "consumer"] {
            let asked: Settings = [("group.id", "g"), ("group.protocol", protocol)]
                .into_iter()
                .collect();
            let settings = group_settings(&asked).unwrap();
            let config = client_config(&settings).unwrap();
            let consumer: Result<rdkafka::consumer::BaseConsumer, _> = config.create();
            assert!(consumer.is_ok(), "{protocol}");
        }
    }
}
