//! The names of delay topics.

use crate::error::{Error, Result};
use crate::transport::check_topic_name;
use std::time::Duration;

/// What stands between the prefix and the delay.
const BETWEEN: &str = ".delay.";

/// A topic whose records wait for a fixed time, as its name says: `orders.delay.60s`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DelayTopic {
    /// What stands before `.delay.`.
    pub prefix: String,
    /// How long its records wait.
    pub delay: Duration,
}

impl DelayTopic {
    /// Reads the name of a topic: what follows the last `.delay.` is a whole number and `ms`, `s`,
    /// `m`, `h` or `d`.
    ///
    /// # Errors
    /// Permanent: it is no such name.
    pub fn parse(topic: &str) -> Result<Self> {
        let broken = |why: &str| Error::schema(format!("`{topic}` is no delay topic: {why}"));
        check_topic_name(topic)
            .map_err(|why| Error::schema(format!("the name of a delay topic {why}")))?;
        let (prefix, delay) = topic
            .rsplit_once(BETWEEN)
            .ok_or_else(|| broken("it has no `.delay.`"))?;
        let delay = parse_delay(delay)
            .ok_or_else(|| broken("it does not end in a delay such as 500ms, 60s, 5m, 1h or 7d"))?;
        if prefix.is_empty() {
            return Err(broken("nothing is before `.delay.`"));
        }
        Ok(DelayTopic {
            prefix: prefix.to_owned(),
            delay,
        })
    }
}

/// A delay of at least a millisecond and at most a century.
fn parse_delay(text: &str) -> Option<Duration> {
    const CENTURY: u64 = 36_525 * 86_400_000;
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at_checked(digits)?;
    let unit = UNITS.iter().find(|(name, _)| *name == unit)?.1;
    let millis = number.parse::<u64>().ok()?.checked_mul(unit)?;
    (1..=CENTURY)
        .contains(&millis)
        .then(|| Duration::from_millis(millis))
}

const UNITS: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

/// A delay as names of topics have it: a whole number of the largest unit that fits, what exceeds a
/// millisecond dropped.
pub(super) fn delay_text(delay: Duration) -> String {
    let millis = delay.as_millis();
    let fits = |unit: &&(&str, u64)| millis > 0 && millis.is_multiple_of(unit.1.into());
    match UNITS.iter().find(fits) {
        Some((name, unit)) => format!("{}{name}", millis / u128::from(*unit)),
        None => format!("{millis}ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_name_says_its_delay() {
        for (topic, prefix, millis) in [
            ("orders.delay.60s", "orders", 60_000),
            ("orders.delay.1m", "orders", 60_000),
            ("a.delay.b.delay.250ms", "a.delay.b", 250),
            ("a.delay.7d", "a", 604_800_000),
            ("a.delay.010h", "a", 36_000_000),
        ] {
            let found = DelayTopic::parse(topic).unwrap();
            assert_eq!(found.prefix, prefix);
            assert_eq!(found.delay, Duration::from_millis(millis), "{topic}");
        }
        for topic in [
            "orders",
            "orders.delay.",
            "orders.delay.s",
            "orders.delay.60",
            "orders.delay.60S",
            "orders.delay.-1s",
            "orders.delay.1.5s",
            "orders.delay.0s",
            "orders.delay.99999999999999999999s",
            "orders.delay.36526d",
            ".delay.1s",
            "delay.1s",
            "",
        ] {
            assert!(DelayTopic::parse(topic).is_err(), "{topic}");
        }
    }

    proptest! {
        #[test]
        fn every_delay_comes_back(millis in 1..3_155_760_000_000_u64) {
            let delay = Duration::from_millis(millis);
            let topic = format!("a.delay.{}", delay_text(delay));
            prop_assert_eq!(DelayTopic::parse(&topic).unwrap().delay, delay);
        }

        #[test]
        fn any_text_is_a_name_or_an_error(text in ".{0,40}", delay in "[0-9]{0,30}.{0,3}") {
            let _ = DelayTopic::parse(&text);
            let _ = DelayTopic::parse(&format!("a.delay.{delay}"));
        }
    }
}
