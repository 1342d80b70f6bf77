use super::*;
use crate::status::ErrorKind;

const DAY: Duration = Duration::from_secs(86_400);

/// FC-081: neither a huge delay nor a huge maximum wraps into the past.
#[test]
fn a_delay_beyond_the_maximum_is_refused_and_never_due_at_once() {
    let now = 1_800_000_000_000;
    for max in [DAY * 30, DAY * 3650] {
        for huge in [
            When::At(i64::MAX),
            When::After(Duration::from_millis(i64::MAX as u64)),
            When::After(Duration::from_millis(u64::MAX)),
            When::After(Duration::from_secs(i64::MAX as u64)),
            When::After(Duration::MAX),
        ] {
            let error = huge.resolve(now, max).unwrap_err();
            assert!(error.message().contains(&max.as_millis().to_string()));
        }
        let hour = When::After(Duration::from_secs(3_600)).resolve(now, max);
        assert_eq!(hour.unwrap(), now + 3_600_000);
        assert_eq!(
            When::After(max).resolve(now, max).unwrap(),
            now + max.as_millis() as i64
        );
        let beyond = now + max.as_millis() as i64 + 1;
        assert!(When::At(beyond).resolve(now, max).is_err());
    }
    for text in ["18446744073709551615", "9999999999999999999999", "", "-"] {
        let error = When::parse_after(text.as_bytes()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Malformed, "{text}");
        assert!(When::parse_at(text.as_bytes()).is_err(), "{text}");
    }
    assert!(When::After(DAY).resolve(i64::MAX, DAY).is_err());
    assert!(When::At(i64::MAX).resolve(i64::MIN, Duration::MAX).is_err());
}

/// FC-080: a past instant is due now, a negative delay is refused.
#[test]
fn a_past_instant_is_kept_and_a_negative_delay_is_refused() {
    assert_eq!(When::At(0).resolve(5_000, DAY).unwrap(), 0);
    assert_eq!(When::At(i64::MIN).resolve(5_000, DAY).unwrap(), 0);
    assert_eq!(
        When::After(Duration::ZERO).resolve(5_000, DAY).unwrap(),
        5_000
    );
    let error = When::parse_after(b"-2515194000").unwrap_err();
    assert_eq!(error.message(), "a delay must not be negative");
    assert_eq!(When::parse_at(b"-5").unwrap(), When::At(-5));
}

#[test]
fn numbers_are_plain_decimal_digits() {
    assert_eq!(
        When::parse_at(b"1800000000000").unwrap(),
        When::At(1_800_000_000_000)
    );
    for text in [
        &b"+5"[..],
        b" 5",
        b"5 ",
        b"0x5",
        b"5.0",
        b"1e3",
        b"\xff",
        b"--5",
    ] {
        assert!(When::parse_at(text).is_err(), "{text:?}");
    }
}

#[test]
fn part_of_a_millisecond_is_rounded_up() {
    let delay = When::After(Duration::from_micros(1_001));
    assert_eq!(delay.resolve(10, DAY).unwrap(), 12);
}

#[test]
fn fresh_ids_sort_by_time_and_differ() {
    let source = IdSource::new(7);
    let ids = [source.next(5), source.next(5), source.next(1 << 40)];
    assert!(ids[0] < ids[1] && ids[1] < ids[2]);
    assert_eq!(ids[0].as_str().len(), 22);
    assert_ne!(IdSource::new(8).next(5), ids[0]);
    assert!(DelayId::new(ids[0].as_str()).is_ok());
}

#[test]
fn ids_are_short_printable_text() {
    assert!(DelayId::new("order-7 ü").is_ok());
    assert!(DelayId::new("x".repeat(128)).is_ok());
    for bad in [String::new(), "x".repeat(129), "a\nb".to_owned()] {
        assert!(DelayId::new(&bad).is_err());
    }
}
