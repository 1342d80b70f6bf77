//! What every backoff promises: it never falls before its maximum, never passes it, never panics.

use kafka_chain::backoff::{
    Backoff, Exponential, Fibonacci, Fixed, Jitter, Kafka, List, NoRetries, worst_case,
};
use kafka_chain::{ErrorKind, Result};
use proptest::prelude::*;
use std::time::Duration;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn waits(backoff: &dyn Backoff) -> Vec<Duration> {
    (1..100)
        .map_while(|retry| backoff.wait(retry, 1.0))
        .collect()
}

fn assert_grows_to_its_maximum(backoff: &dyn Backoff, max: Duration, last_retry: u32) {
    let mut before = Duration::ZERO;
    for retry in (1..=10_001).chain([1_000_000, last_retry]) {
        let wait = backoff.wait(retry, 1.0).unwrap();
        assert!(!wait.is_zero(), "retry {retry}");
        assert!(
            wait >= before && wait <= max,
            "retry {retry}: {wait:?} after {before:?}"
        );
        before = wait;
        if retry > 100 {
            assert_eq!(wait, max, "retry {retry}");
        }
    }
}

/// FC-042
#[test]
fn a_wait_never_falls_and_stays_at_its_maximum_to_the_last_retry() {
    for rate in [2.0, 1.5] {
        let backoff = Exponential::new()
            .interval(ms(100))
            .and_then(|b| b.backoff_rate(rate))
            .and_then(|b| b.max_delay(ms(30_000)))
            .and_then(|b| b.max_attempts(99_999_999))
            .unwrap();
        assert_grows_to_its_maximum(&backoff, ms(30_000), 99_999_999);
        assert_eq!(backoff.wait(u32::MAX, 1.0), None);
    }
    let kafka = Kafka::exponential(100, 2, 30_000, 0.0).unwrap();
    assert_grows_to_its_maximum(&kafka, ms(30_000), u32::MAX);
    let fibonacci = Fibonacci::new()
        .interval_seconds(0.1)
        .and_then(|b| b.max_delay_seconds(30.0))
        .unwrap()
        .max_attempts(u32::MAX);
    assert_grows_to_its_maximum(&fibonacci, ms(30_000), u32::MAX);
    let fixed = Fixed::new(ms(30_000), u32::MAX);
    assert_grows_to_its_maximum(&fixed, ms(30_000), u32::MAX);
}

/// FC-043
#[test]
fn jitter_never_lifts_a_wait_above_its_maximum() {
    for (jitter, never_zero) in [(0.5, true), (1.0, false)] {
        let kafka = Kafka::exponential(100, 2, 500, jitter).unwrap();
        for sample in 0..100_000_u32 {
            let chance = f64::from(sample % 4_761) / 4_760.0;
            let wait = kafka.wait(1 + sample / 4_761, chance).unwrap();
            assert!(wait <= ms(500), "{wait:?}");
            assert!(!never_zero || !wait.is_zero());
        }
    }
    let exact = Kafka::exponential(100, 2, 500, 0.0).unwrap().max_retries(5);
    for chance in [0.0, 0.3, 1.0] {
        let waits: Vec<_> = (1..=6).map(|retry| exact.wait(retry, chance)).collect();
        let expected = [100, 200, 400, 500, 500].map(|wait| Some(ms(wait)));
        assert_eq!(waits[..5], expected);
        assert_eq!(waits[5], None);
    }
}

/// FC-045, the backoff's half: the first wait is the interval itself, and `maxAttempts` counts the
/// retries, not the first call.
#[test]
fn the_first_wait_is_the_interval_and_the_count_is_of_retries() {
    let backoff = Exponential::new()
        .interval(ms(100))
        .and_then(|b| b.max_delay_seconds(10.0))
        .and_then(|b| b.max_attempts(4))
        .unwrap();
    assert_eq!(waits(&backoff), [100, 200, 400, 800].map(ms));
    assert_eq!(backoff.retries(), Some(4));
    let never = backoff.max_attempts(0).unwrap();
    assert_eq!(waits(&never), []);
    assert_eq!(waits(&NoRetries), []);
    assert_eq!(NoRetries.retries(), Some(0));
}

#[test]
fn each_strategy_has_its_series() {
    assert_eq!(waits(&Exponential::new()), [1000, 2000, 4000].map(ms));
    assert_eq!(waits(&Fixed::default()), [1000; 3].map(ms));
    let fibonacci = Fibonacci::new().max_attempts(8);
    assert_eq!(
        waits(&fibonacci),
        [1, 1, 2, 3, 5, 8, 13, 21].map(Duration::from_secs)
    );
    let list = List::of_seconds([0.0, 0.25, 3.0]).unwrap();
    assert_eq!(waits(&list), [0, 250, 3000].map(ms));
    assert_eq!(list.retries(), Some(3));
    let kafka = Kafka::new().jitter(0.0).unwrap().max_retries(6);
    assert_eq!(waits(&kafka), [100, 200, 400, 800, 1000, 1000].map(ms));
    assert_eq!(worst_case(&kafka), Some(ms(3500)));
    assert_eq!(worst_case(&Kafka::new()), None);
}

#[test]
fn full_jitter_is_any_part_of_the_capped_wait() {
    let backoff = Exponential::new()
        .interval_seconds(3.0)
        .and_then(|b| b.max_delay_seconds(5.0))
        .unwrap()
        .jitter(Jitter::Full);
    assert_eq!(backoff.wait(2, 0.0), Some(Duration::ZERO));
    assert_eq!(backoff.wait(2, 0.5), Some(ms(2500)));
    assert_eq!(backoff.wait(2, 1.0), Some(ms(5000)));
    for odd in [2.0, f64::INFINITY, f64::NAN] {
        assert_eq!(backoff.wait(2, odd), Some(ms(5000)));
    }
    assert_eq!(backoff.wait(2, -1.0), Some(Duration::ZERO));
    assert_eq!(backoff.wait(0, 1.0), backoff.wait(1, 1.0));
}

#[test]
fn an_uncapped_wait_is_the_longest_duration_at_last() {
    let endless = Exponential::new().max_attempts(99_999_999).unwrap();
    assert_eq!(endless.wait(99_999_999, 1.0), Some(Duration::MAX));
    assert_eq!(
        endless.jitter(Jitter::Full).wait(99_999_999, 1.0),
        Some(Duration::MAX)
    );
    assert_eq!(
        endless.jitter(Jitter::Full).wait(99_999_999, 0.0),
        Some(Duration::ZERO)
    );
    let fibonacci = Fibonacci::new()
        .interval_seconds(99_999_999.0)
        .unwrap()
        .max_attempts(u32::MAX);
    assert_eq!(fibonacci.wait(u32::MAX, 1.0), Some(Duration::MAX));
}

fn refusal<T: std::fmt::Debug>(result: Result<T>) -> String {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    error.message().to_owned()
}

#[test]
fn what_is_out_of_range_is_refused_by_name() {
    for odd in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-12, 100_000_000.0] {
        let message = refusal(Exponential::new().interval_seconds(odd));
        assert!(
            message.starts_with("intervalSeconds is above 0 and at most 99999999"),
            "{message}"
        );
        let message = refusal(Exponential::new().max_delay_seconds(odd));
        assert!(
            message.starts_with("maxDelaySeconds is above 0 and at most 31622400"),
            "{message}"
        );
        assert!(refusal(Fibonacci::new().interval_seconds(odd)).starts_with("intervalSeconds"));
        assert!(refusal(Fibonacci::new().max_delay_seconds(odd)).starts_with("maxDelaySeconds"));
    }
    for odd in [0.999, -2.0, f64::NAN, f64::INFINITY] {
        let message = refusal(Exponential::new().backoff_rate(odd));
        assert!(
            message.starts_with("backoffRate is a finite number of at least 1.0"),
            "{message}"
        );
    }
    assert_eq!(
        refusal(Exponential::new().max_attempts(100_000_000)),
        "maxAttempts is from 0 to 99999999, not 100000000"
    );
    assert_eq!(
        refusal("full".parse::<Jitter>()),
        "jitterStrategy is NONE or FULL, not `full`"
    );
    for odd in [-0.1, f64::NAN, f64::INFINITY, 100_000_000.0] {
        assert!(refusal(Fixed::default().interval_seconds(odd)).starts_with("intervalSeconds"));
        assert!(refusal(List::of_seconds([1.0, odd])).starts_with("a wait in seconds"));
    }
    assert_eq!(refusal(List::new([])), "the list of waits is empty");
    assert!(refusal(List::new(std::iter::repeat(ms(1)))).contains("at most 10000"));
    for odd in [-0.1, 1.1, f64::NAN] {
        assert!(refusal(Kafka::new().jitter(odd)).starts_with("the jitter is from 0 to 1"));
    }
    assert!(refusal(Kafka::exponential(1, 0, 10, 0.0)).starts_with("the multiplier"));
    assert!(refusal(Kafka::exponential(u64::MAX, 2, 10, 0.0)).starts_with("the initial wait"));
    assert!(refusal(Kafka::exponential(1, 2, u64::MAX, 0.0)).starts_with("the maximum wait"));
    let message = refusal(Kafka::from_config(Some(-1), None));
    assert_eq!(message, "retry.backoff.ms is at least 0 ms, not -1");
    let message = refusal(Kafka::from_config(None, Some(-1)));
    assert_eq!(message, "retry.backoff.max.ms is at least 0 ms, not -1");
}

#[test]
fn a_fixed_retry_backoff_stays_fixed_unless_its_maximum_says_otherwise() {
    let of = |backoff, max| Kafka::from_config(backoff, max).unwrap();
    let series = |kafka: Kafka| waits(&kafka.jitter(0.0).unwrap().max_retries(4));
    assert_eq!(series(of(Some(50), None)), [50; 4].map(ms));
    assert_eq!(series(of(Some(2000), None)), [2000; 4].map(ms));
    assert_eq!(series(of(Some(0), None)), [0; 4].map(ms));
    assert_eq!(series(of(Some(50), Some(150))), [50, 100, 150, 150].map(ms));
    assert_eq!(series(of(None, Some(300))), [100, 200, 300, 300].map(ms));
    assert_eq!(series(of(Some(300), Some(100))), [100; 4].map(ms));
}

#[test]
fn each_prints_its_name_and_shows_its_parameters() {
    let exponential = Exponential::new()
        .max_delay_seconds(60.5)
        .unwrap()
        .jitter(Jitter::Full);
    assert_eq!(
        exponential.to_string(),
        "exponential: 1 s at first, rate 2, 3 retries, at most 60.5 s, jitter FULL"
    );
    assert_eq!(
        Kafka::new().to_string(),
        "kafka: 100 ms at first, times 2, at most 1000 ms, jitter 0.2, no end"
    );
    assert_eq!(Fixed::default().to_string(), "fixed: 1 s, 3 retries");
    assert_eq!(
        Fibonacci::new().to_string(),
        "fibonacci: 1 s at first, 3 retries, no maximum"
    );
    let list = List::new((1..=9).map(Duration::from_secs)).unwrap();
    assert_eq!(
        list.to_string(),
        "list: 1 s, 2 s, 3 s, 4 s, 5 s, 6 s, 7 s, 8 s and 1 more"
    );
    assert_eq!(NoRetries.to_string(), "none: no retries");
    let all: [(&str, &dyn Backoff); 6] = [
        ("exponential", &exponential),
        ("kafka", &Kafka::new()),
        ("fixed", &Fixed::default()),
        ("fibonacci", &Fibonacci::new()),
        ("list", &list),
        ("none", &NoRetries),
    ];
    for (name, backoff) in all {
        assert_eq!(backoff.describe().to_string(), name);
    }
}

fn never_falls(backoff: &dyn Backoff, retries: u32, chance: f64, max: Duration) {
    let mut before = Duration::ZERO;
    for retry in (1..=300).chain([1 << 20, u32::MAX - 1, u32::MAX]) {
        match backoff.wait(retry, chance) {
            Some(wait) => {
                assert!(retry <= retries);
                assert!(
                    wait >= before && wait <= max,
                    "retry {retry}: {before:?}, {wait:?}"
                );
                before = wait;
            }
            None => assert!(retry > retries),
        }
    }
}

proptest! {
    /// FC-042, FC-043
    #[test]
    fn any_exponential_grows_and_keeps_to_its_maximum(
        interval in prop_oneof![1e-9..1.0, 1.0..99_999_999.0],
        rate in prop_oneof![1.0..1.001, 1.0..4.0, 1.0..f64::MAX],
        max in proptest::option::of(1e-9..31_622_400.0),
        attempts in 0_u32..=99_999_999,
        chance in 0.0..=1.0,
        full: bool,
    ) {
        let mut backoff = Exponential::new()
            .interval_seconds(interval)?
            .backoff_rate(rate)?
            .max_attempts(attempts)?
            .jitter(if full { Jitter::Full } else { Jitter::None });
        let mut longest = Duration::MAX;
        if let Some(max) = max {
            backoff = backoff.max_delay_seconds(max)?;
            longest = Duration::from_secs_f64(max);
        }
        never_falls(&backoff, attempts, chance, longest);
    }

    /// FC-042, FC-043
    #[test]
    fn any_kafka_backoff_grows_and_keeps_to_its_maximum(
        initial in prop_oneof![0_u64..2000, 0..=i64::MAX.unsigned_abs()],
        multiplier in prop_oneof![1_u32..5, 1..=i32::MAX.unsigned_abs()],
        max in prop_oneof![0_u64..5000, 0..=i64::MAX.unsigned_abs()],
        jitter in 0.0..=1.0,
        chance in 0.0..=1.0,
        retries in proptest::option::of(any::<u32>()),
    ) {
        let mut kafka = Kafka::exponential(initial, multiplier, max, jitter)?;
        if let Some(retries) = retries {
            kafka = kafka.max_retries(retries);
        }
        prop_assert_eq!(kafka.retries(), retries);
        never_falls(&kafka, retries.unwrap_or(u32::MAX), chance, ms(max));
    }

    #[test]
    fn any_fibonacci_grows_and_keeps_to_its_maximum(
        interval in 1e-9..99_999_999.0,
        max in 1e-9..31_622_400.0,
        attempts: u32,
    ) {
        let backoff = Fibonacci::new()
            .interval_seconds(interval)?
            .max_delay_seconds(max)?
            .max_attempts(attempts);
        never_falls(&backoff, attempts, 1.0, Duration::from_secs_f64(max));
    }

    #[test]
    fn no_number_makes_a_constructor_panic(value in any::<f64>(), attempts: u32) {
        let _ = Exponential::new().interval_seconds(value);
        let _ = Exponential::new().max_delay_seconds(value);
        let _ = Exponential::new().backoff_rate(value);
        let _ = Exponential::new().max_attempts(attempts);
        let _ = Fixed::default().interval_seconds(value);
        let _ = Fibonacci::new().interval_seconds(value);
        let _ = Kafka::new().jitter(value);
        let _ = List::of_seconds([value]);
    }
}
