//! Which records share a time.

use std::time::Duration;

/// How far apart the times of one batch may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Slack {
    /// 1 % of the shortest delay in the batch, 10 ms to 1 s.
    #[default]
    Relative,
    /// This much; what exceeds a whole millisecond is dropped.
    Fixed(Duration),
}

impl Slack {
    /// In milliseconds, for a batch whose shortest delay is so many.
    pub fn millis(self, shortest_delay: i64) -> i64 {
        match self {
            Slack::Relative => (shortest_delay / 100).clamp(10, 1_000),
            Slack::Fixed(slack) => i64::try_from(slack.as_millis()).unwrap_or(i64::MAX),
        }
    }
}

/// A record that asks for a time, of which the place in its batch is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timed {
    /// Where it stands.
    pub place: usize,
    /// Its time.
    pub at: i64,
}

/// Records with one time, which is that of the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The time of all.
    pub at: i64,
    /// Where its records stand, by their own time, those of equal time as they came.
    pub places: Vec<usize>,
}

/// Groups the records of one partition: by time, a new run wherever the slack is exceeded, which are
/// as few as can be. What is past by `now` counts as of now.
pub fn runs(mut records: Vec<Timed>, now: i64, slack: Slack) -> Vec<Run> {
    records.sort_by_key(|record| record.at);
    let mut runs: Vec<Run> = Vec::new();
    let mut first = i64::MIN;
    for Timed { place, at } in records {
        let at = at.max(now);
        let within = slack.millis(first.saturating_sub(now));
        match runs.last_mut() {
            Some(run) if at.saturating_sub(first) <= within => {
                run.at = at;
                run.places.push(place);
            }
            _ => {
                first = at;
                runs.push(Run {
                    at,
                    places: vec![place],
                });
            }
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: i64 = 1_800_000_000_000;

    fn timed(times: &[i64]) -> Vec<Timed> {
        (times.iter().enumerate())
            .map(|(place, at)| Timed { place, at: *at })
            .collect()
    }

    #[test]
    fn a_batch_has_the_latest_of_its_times_and_splits_when_they_are_too_far_apart() {
        let minute = NOW + 60_000;
        let times = [
            minute + 600,
            minute,
            minute + 601,
            minute + 300,
            minute + 5_000,
        ];
        let found = runs(timed(&times), NOW, Slack::Relative);
        let found: Vec<_> = found.iter().map(|run| (run.at, &run.places[..])).collect();
        assert_eq!(
            found,
            [
                (minute + 600, &[1, 3, 0][..]),
                (minute + 601, &[2]),
                (minute + 5_000, &[4]),
            ]
        );
    }

    #[test]
    fn what_is_past_is_one_batch_of_now() {
        let found = runs(
            timed(&[0, i64::MIN, NOW - 5_000, NOW]),
            NOW,
            Slack::Relative,
        );
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].at, found[0].places.len()), (NOW, 4));
    }

    #[test]
    fn the_slack_is_a_hundredth_within_its_bounds() {
        for (delay, slack) in [
            (-5, 10),
            (0, 10),
            (1_500, 15),
            (60_000, 600),
            (3_600_000, 1_000),
        ] {
            assert_eq!(Slack::Relative.millis(delay), slack);
        }
        assert_eq!(Slack::Fixed(Duration::MAX).millis(0), i64::MAX);
    }

    proptest! {
        #[test]
        fn none_is_early_and_none_later_than_its_slack(
            offsets in proptest::collection::vec(-100_000..10_000_000_i64, 0..80),
            near in proptest::collection::vec(0..3_000_i64, 0..80),
            fixed in proptest::option::of(0..5_000_u64),
        ) {
            let times: Vec<i64> = offsets.iter().chain(&near).map(|offset| NOW + offset).collect();
            let slack = fixed.map_or(Slack::Relative, |f| Slack::Fixed(Duration::from_millis(f)));
            let found = runs(timed(&times), NOW, slack);
            let mut seen = vec![false; times.len()];
            for run in &found {
                let own = |place: &usize| times[*place].max(NOW);
                let shortest = run.places.iter().map(own).min().unwrap() - NOW;
                for place in &run.places {
                    prop_assert!(!std::mem::replace(&mut seen[*place], true));
                    prop_assert!(run.at >= own(place), "early");
                    prop_assert!(run.at - own(place) <= slack.millis(shortest), "late");
                }
                prop_assert!(run.places.is_sorted_by_key(own));
            }
            prop_assert!(seen.iter().all(|seen| *seen), "each record is in a run");
            prop_assert!(found.iter().map(|run| run.at).is_sorted());
            for pair in found.windows(2) {
                let first = pair[0].places.iter().map(|p| times[*p].max(NOW)).min().unwrap();
                let next = pair[1].places.iter().map(|p| times[*p].max(NOW)).min().unwrap();
                prop_assert!(next - first > slack.millis(first - NOW), "no run too many");
            }
        }

        #[test]
        fn no_time_wraps(times in proptest::collection::vec(any::<i64>(), 0..20), now in any::<i64>()) {
            let count: usize = runs(timed(&times), now, Slack::Relative)
                .iter()
                .map(|run| run.places.len())
                .sum();
            prop_assert_eq!(count, times.len());
        }
    }
}
