//! A burst is given times, so that those who consume it see it smoothed.

use super::item::{Delayed, MAX_INSTANT, When, millis};
use crate::record::OutgoingRecord;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::HashMap;
use std::num::NonZeroU32;
use std::time::Duration;

/// How the records of a burst are spread over time. Pure: the same records, start and seed are given
/// the same times. Records of one key keep their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    pace: Pace,
    seed: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    Over(Duration),
    At(NonZeroU32),
}

impl Spread {
    /// Over a time, evenly: the first record at its start, none at or after its end.
    pub const fn over(window: Duration) -> Self {
        Spread {
            pace: Pace::Over(window),
            seed: None,
        }
    }

    /// At so many records a second, evenly.
    pub const fn at_rate(per_second: NonZeroU32) -> Self {
        Spread {
            pace: Pace::At(per_second),
            seed: None,
        }
    }

    /// By chance, uniformly: anywhere in the time, or at a rate anywhere in a record's own share of
    /// it.
    #[must_use]
    pub const fn randomly(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// A time for each record of a burst, in their order: not before `start`, in milliseconds since
    /// the epoch. `keys` are those of the records.
    pub fn times<'a>(
        &self,
        start: i64,
        keys: impl ExactSizeIterator<Item = Option<&'a [u8]>>,
    ) -> Vec<i64> {
        let count = keys.len() as u128;
        let mut chance = self.seed.map(StdRng::seed_from_u64);
        let window = match self.pace {
            Pace::Over(window) => millis(window).unsigned_abs().into(),
            Pace::At(rate) => (count * 1_000).div_ceil(u128::from(rate.get())),
        };
        let mut offsets: Vec<u128> = (0..count)
            .map(|n| match (self.pace, &mut chance) {
                (Pace::Over(_), None) => window * n / count.max(1),
                (Pace::Over(_), Some(chance)) => chance.random_range(0..window.max(1)),
                (Pace::At(rate), None) => n * 1_000 / u128::from(rate.get()),
                (Pace::At(rate), Some(chance)) => {
                    let rate = u128::from(rate.get());
                    let first = n * 1_000 / rate;
                    let end = ((n + 1) * 1_000 / rate).max(first + 1);
                    chance.random_range(first..end)
                }
            })
            .collect();
        if matches!(self.pace, Pace::Over(_)) && chance.is_some() {
            keep_key_order(&mut offsets, keys);
        }
        let at = |offset| {
            let offset = i64::try_from(offset).unwrap_or(MAX_INSTANT);
            start.saturating_add(offset).min(MAX_INSTANT)
        };
        offsets.into_iter().map(at).collect()
    }

    /// `records`, each with its time, not before `start`.
    pub fn records(&self, start: i64, records: Vec<OutgoingRecord>) -> Vec<Delayed> {
        let times = self.times(start, records.iter().map(|record| record.key.as_deref()));
        (times.into_iter().zip(records))
            .map(|(at, record)| Delayed::new(When::At(at), record))
            .collect()
    }
}

/// Gives the times that the records of a key drew to them in order.
fn keep_key_order<'a>(times: &mut [u128], keys: impl Iterator<Item = Option<&'a [u8]>>) {
    let mut places: HashMap<&[u8], Vec<usize>> = HashMap::new();
    for (place, key) in keys.enumerate() {
        if let Some(key) = key {
            places.entry(key).or_default().push(place);
        }
    }
    for places in places.values().filter(|places| places.len() > 1) {
        let mut drawn: Vec<u128> = (places.iter())
            .filter_map(|place| times.get(*place).copied())
            .collect();
        drawn.sort_unstable();
        for (place, time) in places.iter().zip(drawn) {
            if let Some(slot) = times.get_mut(*place) {
                *slot = time;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: i64 = 1_800_000_000_000;

    fn times(spread: Spread, keys: &[Option<u8>]) -> Vec<i64> {
        let bytes: Vec<Option<[u8; 1]>> = keys.iter().map(|key| key.map(|key| [key])).collect();
        spread.times(NOW, bytes.iter().map(|key| key.as_ref().map(|k| &k[..])))
    }

    fn rate(per_second: u32) -> Spread {
        Spread::at_rate(NonZeroU32::new(per_second).unwrap())
    }

    #[test]
    fn a_burst_is_spread_evenly_over_a_time_or_at_a_rate() {
        let over = times(Spread::over(Duration::from_secs(1)), &[None; 4]);
        assert_eq!(over, [0, 250, 500, 750].map(|offset| NOW + offset));
        let third = times(rate(3), &[None; 4]);
        assert_eq!(third, [0, 333, 666, 1_000].map(|offset| NOW + offset));
        let thousands = times(rate(2_000), &[None; 4]);
        assert_eq!(thousands, [0, 0, 1, 1].map(|offset| NOW + offset));
        assert_eq!(times(rate(1), &[]), [0_i64; 0]);
    }

    #[test]
    fn chance_spreads_uniformly_and_repeats_with_its_seed() {
        let spread = Spread::over(Duration::from_secs(10)).randomly(7);
        let all = times(spread, &[None; 10_000]);
        assert_eq!(all, times(spread, &[None; 10_000]));
        for second in 0..10 {
            let range = NOW + second * 1_000..NOW + (second + 1) * 1_000;
            let count = all.iter().filter(|time| range.contains(time)).count();
            assert!((850..1_150).contains(&count), "{second}: {count}");
        }
    }

    proptest! {
        #[test]
        fn every_time_is_in_its_window_and_keys_keep_their_order(
            keys in proptest::collection::vec(proptest::option::of(0..4_u8), 0..60),
            window in 0..100_000_u64, per_second in 1..=u32::MAX,
            seed in any::<Option<u64>>(), by_rate in any::<bool>(),
        ) {
            let spread = match by_rate {
                true => rate(per_second),
                false => Spread::over(Duration::from_millis(window)),
            };
            let spread = seed.map_or(spread, |seed| spread.randomly(seed));
            let all = times(spread, &keys);
            prop_assert_eq!(all.len(), keys.len());
            let window = match by_rate {
                true => keys.len() as i64 * 1_000 / i64::from(per_second) + 1,
                false => window as i64,
            };
            for time in &all {
                prop_assert!((NOW..=NOW + (window - 1).max(0)).contains(time));
            }
            for key in 0..4 {
                let of_key = all.iter().zip(&keys).filter(|(_, k)| **k == Some(key));
                prop_assert!(of_key.map(|(time, _)| time).is_sorted());
            }
        }

        #[test]
        fn no_time_wraps(start in any::<i64>(), window in any::<u64>(), per_second in 1..3_u32) {
            let window = Duration::from_millis(window);
            for spread in [Spread::over(window), Spread::over(window).randomly(1), rate(per_second)] {
                let times = spread.times(start, [None, None, None].into_iter());
                let least = start.min(MAX_INSTANT);
                prop_assert!(times.iter().all(|time| (least..=MAX_INSTANT).contains(time)));
            }
        }
    }
}
