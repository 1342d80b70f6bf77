//! Which topic a delay takes: pure arithmetic.

use super::name::{DelayTopic, delay_text};
use crate::delay::item::{MAX_INSTANT, millis};
use crate::delay::producer::Slack;
use crate::error::{Error, Result};
use std::time::Duration;

/// The most tiers there may be.
const MAX_TIERS: usize = 100;

/// One of the topics in which records wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tier {
    /// Its topic, such as `orders.delay.1m`.
    pub topic: String,
    /// How long a record waits in it, in milliseconds.
    pub delay: i64,
}

/// Topics of fixed delays that make up any delay together: a record waits in the longest that fits
/// what is left, then in the longest that fits what is left after that, until less is left than the
/// shortest.
///
/// What is left is computed anew at each hop from the record's `deliver-after`, so that hops do not
/// add up their lateness. Less than the shortest delay is never a hop of its own: the record is held
/// in the last topic until its time, in memory, which is also how a delay that just misses a longer
/// tier takes it all the same (by 1 %, 10 ms to 1 s).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DelayTiers {
    /// By delay, the shortest first; never empty.
    tiers: Vec<Tier>,
}

/// The delays of [`DelayTiers::standard`], in seconds.
const STANDARD: [u64; 18] = [
    1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1_200, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400,
    259_200,
];

impl DelayTiers {
    /// Topics `<prefix>.delay.<delay>` of these delays.
    ///
    /// # Errors
    /// Kind [`Config`](crate::ErrorKind::Config): no delay, more than 100, one that is less than a
    /// millisecond, or a name that Kafka does not take.
    pub fn new(prefix: &str, delays: impl IntoIterator<Item = Duration>) -> Result<Self> {
        let topics = delays
            .into_iter()
            .map(|delay| format!("{prefix}.delay.{}", delay_text(delay)));
        Self::of_topics(topics)
    }

    /// Topics for delays of up to some weeks: `1s`, `2s`, `5s`, `10s`, `20s`, `30s`, the same in
    /// minutes, `1h`, `2h`, `6h`, `12h`, `1d` and `3d`.
    ///
    /// # Errors
    /// Kind [`Config`](crate::ErrorKind::Config): a name that Kafka does not take.
    pub fn standard(prefix: &str) -> Result<Self> {
        Self::new(prefix, STANDARD.map(Duration::from_secs))
    }

    /// These topics, each of whose names says its delay. Their prefixes may differ.
    ///
    /// # Errors
    /// Kind [`Config`](crate::ErrorKind::Config): none, more than 100, two of one delay, or a name
    /// that says no delay.
    pub fn of_topics<T: Into<String>>(topics: impl IntoIterator<Item = T>) -> Result<Self> {
        let mut tiers = Vec::new();
        for topic in topics {
            let topic = topic.into();
            let delay = DelayTopic::parse(&topic)
                .map_err(|error| Error::config(error.message().to_owned()))?
                .delay;
            tiers.push(Tier {
                topic,
                delay: millis(delay),
            });
        }
        tiers.sort_by_key(|tier| tier.delay);
        let twice = tiers.windows(2).find_map(|pair| match pair {
            [one, other] if one.delay == other.delay => Some((&one.topic, &other.topic)),
            _ => None,
        });
        if let Some((one, other)) = twice {
            return Err(Error::config(format!(
                "topics {one} and {other} have the same delay"
            )));
        }
        match tiers.len() {
            0 => Err(Error::config("there are no delay topics")),
            1..=MAX_TIERS => Ok(DelayTiers { tiers }),
            _ => Err(Error::config("there are more than 100 delay topics")),
        }
    }

    /// The tiers, the shortest first.
    pub fn tiers(&self) -> &[Tier] {
        &self.tiers
    }

    /// The tier of this topic.
    pub fn of_topic(&self, topic: &str) -> Option<&Tier> {
        self.tiers.iter().find(|tier| tier.topic == topic)
    }

    /// The topic for a record that is due in so many milliseconds.
    pub fn place(&self, left: i64) -> &Tier {
        let fits = |tier: &&Tier| {
            tier.delay
                .saturating_sub(Slack::Relative.millis(tier.delay))
                <= left
        };
        let longest = self.tiers.iter().rev().find(fits);
        longest.or(self.tiers.first()).unwrap_or(&NOWHERE)
    }

    /// Until when a record waits in `tier` that has been there `since` and is to be delivered at
    /// `due`: then it is delivered, or goes to the [place](Self::place) for what is left.
    pub fn wait(&self, tier: &Tier, since: i64, due: i64) -> i64 {
        let over = since.saturating_add(tier.delay).min(MAX_INSTANT);
        let shortest = self.tiers.first().map_or(0, |tier| tier.delay);
        match due.saturating_sub(over) < shortest {
            true => due,
            false => over,
        }
    }

    /// In how many topics a record with this delay waits one after the other. Each is one more
    /// write, beside the one to its target.
    pub fn hops(&self, delay: Duration) -> u32 {
        let (due, mut now, mut hops) = (millis(delay), 0, 0);
        while now < due || hops == 0 {
            let tier = self.place(due - now);
            now = self.wait(tier, now, due);
            hops += 1;
        }
        hops
    }
}

/// There always is a tier; this stands for one where the type cannot say so.
static NOWHERE: Tier = Tier {
    topic: String::new(),
    delay: 1,
};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn standard() -> DelayTiers {
        DelayTiers::standard("orders").unwrap()
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_delay_takes_the_longest_tier_that_fits() {
        let tiers = standard();
        let topic = |left| tiers.place(left).topic.clone();
        for (left, expected) in [
            (i64::MIN, "orders.delay.1s"),
            (0, "orders.delay.1s"),
            (1_999, "orders.delay.2s"),
            (1_900, "orders.delay.1s"),
            (60_000, "orders.delay.1m"),
            (59_400, "orders.delay.1m"),
            (59_399, "orders.delay.30s"),
            (i64::MAX, "orders.delay.3d"),
        ] {
            assert_eq!(topic(left), expected, "{left}");
        }
    }

    #[test]
    fn what_is_left_below_the_shortest_tier_is_held_in_the_last() {
        let tiers = standard();
        let minute = tiers.of_topic("orders.delay.1m").unwrap();
        assert_eq!(tiers.wait(minute, 1_000, 61_000), 61_000);
        assert_eq!(tiers.wait(minute, 1_000, 61_999), 61_999);
        assert_eq!(tiers.wait(minute, 1_000, 62_000), 61_000);
        assert_eq!(tiers.wait(minute, 1_000, 5), 5);
        assert_eq!(tiers.wait(minute, i64::MAX, i64::MAX), MAX_INSTANT);
    }

    /// The figures of docs/delay.md.
    #[test]
    fn the_standard_tiers_have_the_hops_that_are_documented() {
        let tiers = standard();
        assert_eq!(tiers.tiers().len(), 18);
        for (seconds_, hops) in [
            (1, 1),
            (30, 1),
            (90, 2),
            (300, 1),
            (900, 2),
            (3_600, 1),
            (86_400, 1),
            (604_800, 3),
        ] {
            assert_eq!(tiers.hops(seconds(seconds_)), hops, "{seconds_} s");
        }
        for (upto, worst, mean) in [(900, 8, 4.7), (86_400, 14, 8.0), (604_800, 17, 9.7)] {
            let step = (upto / 20_000).max(1) | 1;
            let all: Vec<u32> = (1..=upto)
                .step_by(usize::try_from(step).unwrap())
                .map(|s| tiers.hops(seconds(s)))
                .collect();
            let found = all.iter().copied().max().unwrap();
            let average = f64::from(all.iter().sum::<u32>()) / all.len() as f64;
            assert_eq!(found, worst, "{upto} s");
            assert!((average - mean).abs() < 0.1, "{upto} s: {average} hops");
        }
    }

    #[test]
    fn tiers_that_cannot_be_are_refused() {
        for topics in [
            vec![],
            vec!["orders"],
            vec!["orders.delay."],
            vec!["orders.delay.0s"],
            vec!["orders.delay.60s", "orders.delay.1m"],
        ] {
            let error = DelayTiers::of_topics(topics.clone()).unwrap_err();
            assert_eq!(error.kind(), crate::status::ErrorKind::Config, "{topics:?}");
        }
        assert!(DelayTiers::new("a b", [seconds(1)]).is_err());
        assert!(DelayTiers::new("a", [Duration::from_nanos(1)]).is_err());
        assert!(DelayTiers::new("a", (1..=101).map(seconds)).is_err());
    }

    proptest! {
        /// FC-086: each hop waits for the tier it is in, and the last ends when the record is due.
        #[test]
        fn hops_end_and_none_is_early_or_late(
            delay in 0..10_000_000_000_i64,
            tiers in proptest::collection::btree_set(1..100_000_000_u64, 1..8),
            lateness in 0..50_i64,
        ) {
            let tiers = DelayTiers::new("t", tiers.into_iter().map(Duration::from_millis)).unwrap();
            let longest = tiers.tiers().last().unwrap().delay;
            prop_assume!(delay / longest < 1_000);
            let (mut now, mut hops) = (0, 0);
            while now < delay || hops == 0 {
                let tier = tiers.place(delay - now);
                let until = tiers.wait(tier, now, delay);
                prop_assert!(until <= delay || hops == 0, "late by design");
                prop_assert!(until > now || delay == now, "no hop stands still");
                let slack = Slack::Relative.millis(tier.delay);
                let shortest = tiers.tiers()[0].delay;
                prop_assert!(until <= now + tier.delay + shortest + slack, "held too long");
                now = until + lateness.min(1);
                hops += 1;
                prop_assert!(hops < 5_000);
            }
        }
    }
}
