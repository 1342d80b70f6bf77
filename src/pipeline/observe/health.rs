//! How a pipeline is, for its operator and for whoever asks whether it lives.

use super::gauge::PartitionGauge;
use crate::pipeline::state::PauseReason;
use serde::{Serialize, Serializer};
use std::fmt;
use std::time::Duration;
use tokio::time::Instant;

/// How a pipeline is. Its `Display` is a line about itself and one for each partition; as JSON its
/// times are seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Health {
    /// Whether it is worth keeping: it has not ended, and its polling thread polled within 30 s. A
    /// slow or failing handler, an outage or a stall is no reason to start it anew.
    pub live: bool,
    /// Whether it takes records when there are some: the group gave it its partitions (none at all
    /// is possible), and it is not being stopped.
    pub ready: bool,
    /// Whether it was told to stop.
    pub stopping: bool,
    /// How long ago the polling thread polled; nothing before it is started.
    #[serde(rename = "last_poll_age_seconds", serialize_with = "seconds")]
    pub last_poll_age: Option<Duration>,
    /// The partitions that are ours, in order.
    pub partitions: Vec<PartitionHealth>,
}

/// How a partition is.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PartitionHealth {
    /// The topic.
    pub topic: String,
    /// The partition's number.
    pub partition: i32,
    /// The lowest record that is taken and not finished.
    pub oldest_in_flight: Option<OldestInFlight>,
    /// Records that are being handled or written.
    pub in_flight: usize,
    /// Bytes of the records that are taken and not finished.
    pub bytes: usize,
    /// Records taken that lie at or beyond the mark.
    pub uncommitted: usize,
    /// Why it pauses, if it does.
    #[serde(serialize_with = "reason")]
    pub paused: Option<PauseReason>,
    /// Whether a user paused it.
    pub user_paused: bool,
    /// How far it is behind, by the latest statistics.
    pub lag: Option<u64>,
    /// For how long something finished has waited to be committed, if anything does.
    #[serde(rename = "commit_age_seconds", serialize_with = "seconds")]
    pub commit_age: Option<Duration>,
}

/// The lowest record of a partition that is taken and not finished.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct OldestInFlight {
    /// Its offset.
    pub offset: i64,
    /// For how long it has been seen to be the oldest, to within a second.
    #[serde(rename = "age_seconds", serialize_with = "one_in_seconds")]
    pub age: Duration,
}

impl PartitionHealth {
    /// By what its worker shows.
    pub fn of(gauge: &PartitionGauge, lag: Option<u64>, now: Instant) -> Self {
        let shown = gauge.shown();
        let oldest = gauge.oldest_in_flight(now);
        PartitionHealth {
            topic: gauge.partition().topic.to_string(),
            partition: gauge.partition().partition,
            oldest_in_flight: oldest.map(|(offset, age)| OldestInFlight { offset, age }),
            in_flight: shown.in_flight,
            bytes: shown.bytes,
            uncommitted: shown.uncommitted,
            paused: shown.paused,
            user_paused: shown.user_paused,
            lag,
            commit_age: gauge.commit_age(now),
        }
    }
}

fn seconds<S: Serializer>(age: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    age.map(|age| age.as_secs_f64()).serialize(to)
}

fn one_in_seconds<S: Serializer>(age: &Duration, to: S) -> Result<S::Ok, S::Error> {
    age.as_secs_f64().serialize(to)
}

fn reason<S: Serializer>(reason: &Option<PauseReason>, to: S) -> Result<S::Ok, S::Error> {
    reason.map(PauseReason::as_str).serialize(to)
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let choose = |is: bool, yes, no| if is { yes } else { no };
        f.write_str(choose(self.live, "live", "not live"))?;
        f.write_str(choose(self.ready, ", ready", ", not ready"))?;
        f.write_str(choose(self.stopping, ", stopping", ""))?;
        match self.last_poll_age {
            Some(age) => write!(f, "; polled {} ago", Short(age))?,
            None => f.write_str("; not started")?,
        }
        let count = self.partitions.len();
        let plural = choose(count == 1, "", "s");
        write!(f, "; {count} partition{plural}")?;
        self.partitions
            .iter()
            .try_for_each(|partition| write!(f, "\n  {partition}"))
    }
}

impl fmt::Display for PartitionHealth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}: ", self.topic, self.partition)?;
        match (self.user_paused, self.paused) {
            (false, None) => f.write_str("flowing")?,
            (true, None) => f.write_str("paused by a user")?,
            (false, Some(reason)) => write!(f, "PAUSED ({})", reason.as_str())?,
            (true, Some(reason)) => write!(f, "PAUSED ({}) and by a user", reason.as_str())?,
        }
        match self.lag {
            Some(lag) => write!(f, ", lag {lag}")?,
            None => f.write_str(", lag unknown")?,
        }
        write!(
            f,
            ", {} in flight, {} bytes, {} uncommitted",
            self.in_flight, self.bytes, self.uncommitted
        )?;
        if let Some(oldest) = &self.oldest_in_flight {
            write!(f, ", oldest {} for {}", oldest.offset, Short(oldest.age))?;
        }
        if let Some(age) = self.commit_age {
            write!(f, ", a commit due for {}", Short(age))?;
        }
        Ok(())
    }
}

/// A time as people say it: `12 ms`, `3.4 s`, `5 min`, `2.5 h`.
struct Short(Duration);

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs_f64();
        match self.0.as_secs() {
            0 => write!(f, "{} ms", self.0.as_millis()),
            1..120 => write!(f, "{seconds:.1} s"),
            120..7200 => write!(f, "{:.0} min", seconds / 60.0),
            _ => write!(f, "{:.1} h", seconds / 3600.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partition(number: i32) -> PartitionHealth {
        PartitionHealth {
            topic: "orders".to_owned(),
            partition: number,
            oldest_in_flight: None,
            in_flight: 0,
            bytes: 0,
            uncommitted: 0,
            paused: None,
            user_paused: false,
            lag: None,
            commit_age: None,
        }
    }

    fn health() -> Health {
        let age = Duration::from_millis(95_500);
        Health {
            live: true,
            ready: true,
            stopping: false,
            last_poll_age: Some(Duration::from_millis(12)),
            partitions: vec![
                PartitionHealth {
                    oldest_in_flight: Some(OldestInFlight { offset: 41, age }),
                    in_flight: 3,
                    bytes: 900,
                    uncommitted: 7,
                    paused: Some(PauseReason::Flood),
                    lag: Some(12),
                    commit_age: Some(Duration::from_secs(300)),
                    ..partition(0)
                },
                PartitionHealth {
                    user_paused: true,
                    ..partition(1)
                },
            ],
        }
    }

    #[test]
    fn an_operator_reads_what_is_the_matter() {
        let lines = "live, ready; polled 12 ms ago; 2 partitions\n  \
             orders-0: PAUSED (flood), lag 12, 3 in flight, 900 bytes, 7 uncommitted, \
             oldest 41 for 95.5 s, a commit due for 5 min\n  \
             orders-1: paused by a user, lag unknown, 0 in flight, 0 bytes, 0 uncommitted";
        assert_eq!(health().to_string(), lines);
        let none = "not live, not ready; not started; 0 partitions";
        assert_eq!(Health::default().to_string(), none);
    }

    #[test]
    fn a_probe_reads_json() {
        let json = serde_json::to_value(health()).unwrap();
        assert_eq!(json["last_poll_age_seconds"], 0.012);
        let first = &json["partitions"][0];
        assert_eq!(first["paused"], "flood");
        assert_eq!(first["oldest_in_flight"]["age_seconds"], 95.5);
        assert_eq!(first["commit_age_seconds"], 300.0);
        assert_eq!(json["partitions"][1]["paused"], serde_json::Value::Null);
    }
}
