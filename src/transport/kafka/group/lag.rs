//! How far behind a consumer is, by librdkafka's statistics.

use serde::Deserialize;
use std::collections::BTreeMap;

/// How far one partition is behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionLag {
    /// The topic.
    pub topic: String,
    /// The partition's number.
    pub partition: i32,
    /// How many offsets lie between what was taken and the end of what can be read; transaction
    /// markers count until they are passed.
    pub lag: u64,
}

#[derive(Deserialize)]
struct Statistics {
    #[serde(default)]
    topics: BTreeMap<String, Topic>,
}

#[derive(Deserialize)]
struct Topic {
    #[serde(default)]
    partitions: BTreeMap<String, Partition>,
}

/// librdkafka's sentinels are negative: unknown, invalid, beginning, end.
const UNKNOWN: i64 = -1001;

fn unknown() -> i64 {
    UNKNOWN
}

#[derive(Deserialize)]
struct Partition {
    partition: i32,
    #[serde(default)]
    desired: Option<bool>,
    #[serde(default)]
    fetch_state: String,
    #[serde(default = "unknown")]
    app_offset: i64,
    #[serde(default = "unknown")]
    lo_offset: i64,
    #[serde(default = "unknown")]
    hi_offset: i64,
    #[serde(default = "unknown")]
    ls_offset: i64,
    #[serde(default = "unknown")]
    consumer_lag: i64,
}

impl Partition {
    /// Only of a partition that is fetched: the figures of one given away stay what they were.
    fn lag(&self) -> Option<u64> {
        let fetched = self.desired != Some(false) && self.fetch_state == "active";
        if self.partition < 0 || !fetched {
            return None;
        }
        let known = |offset: i64| u64::try_from(offset).ok();
        // The last stable offset is the end for a reader of committed records, and never beyond
        // the high watermark.
        let end = known(self.ls_offset).or_else(|| known(self.hi_offset));
        let lag = match (known(self.app_offset), end) {
            (Some(taken), Some(end)) => end.saturating_sub(taken),
            _ => known(self.consumer_lag)?,
        };
        // No more than there is.
        let there = known(self.lo_offset)
            .zip(end)
            .map(|(low, end)| end.saturating_sub(low));
        Some(there.map_or(lag, |there| lag.min(there)))
    }
}

/// The lag of each partition that is fetched; partitions given away are not in it. What the
/// statistics say about an unknown position is left out, never computed with.
///
/// # Errors
/// When it is no statistics JSON; line and column, for the text itself is not repeated.
pub fn statistics_lags(statistics: &[u8]) -> Result<Vec<PartitionLag>, serde_json::Error> {
    let statistics: Statistics = serde_json::from_slice(statistics)?;
    let mut all = Vec::new();
    for (topic, partitions) in &statistics.topics {
        for partition in partitions.partitions.values() {
            if let Some(lag) = partition.lag() {
                all.push(PartitionLag {
                    topic: topic.clone(),
                    partition: partition.partition,
                    lag,
                });
            }
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(partitions: &str) -> Vec<(i32, u64)> {
        let json =
            format!(r#"{{"name":"c","topics":{{"orders":{{"partitions":{{{partitions}}}}}}}}}"#);
        statistics_lags(json.as_bytes())
            .unwrap()
            .into_iter()
            .inspect(|lag| assert_eq!(lag.topic, "orders"))
            .map(|lag| (lag.partition, lag.lag))
            .collect()
    }

    /// FC-061.
    #[test]
    fn only_fetched_partitions_have_a_lag_and_sentinels_are_not_computed_with() {
        let all = of(r#"
            "0":{"partition":0,"fetch_state":"active","desired":true,"consumer_lag":12},
            "1":{"partition":1,"fetch_state":"none","desired":false,"consumer_lag":38487},
            "2":{"partition":2,"fetch_state":"active","desired":true,"stored_offset":-1001,
                 "lo_offset":29,"hi_offset":29,"consumer_lag":1030,"brand_new":{"x":[1]}},
            "3":{"partition":3,"fetch_state":"active","desired":true,"consumer_lag":-1},
            "-1":{"partition":-1,"fetch_state":"active","consumer_lag":5}"#);
        assert_eq!(all, [(0, 12), (2, 0)]);
    }

    /// Committed up to the last record, with only a transaction's marker behind it.
    #[test]
    fn the_lag_is_counted_from_what_was_taken() {
        let all = of(r#"
            "0":{"partition":0,"fetch_state":"active","desired":true,"app_offset":101,
                 "committed_offset":100,"lo_offset":0,"hi_offset":101,"ls_offset":101,
                 "consumer_lag":1},
            "1":{"partition":1,"fetch_state":"active","desired":true,"app_offset":40,
                 "lo_offset":0,"hi_offset":90,"ls_offset":50,"consumer_lag":50}"#);
        assert_eq!(all, [(0, 0), (1, 10)]);
    }

    /// FC-061.
    #[test]
    fn broken_statistics_are_an_error_and_no_panic() {
        for broken in [
            &b"{"[..],
            b"",
            b"null",
            br#"{"topics":7}"#,
            br#"{"topics":{"t":{"partitions":{"0":{"partition":"x"}}}}}"#,
            &[0xFF, 0xFE],
        ] {
            assert!(statistics_lags(broken).is_err());
        }
        assert_eq!(statistics_lags(b"{}").unwrap(), []);
    }
}
