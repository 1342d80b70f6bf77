//! RFC 3339 times: an instant to the nanosecond, from text that is kept as it was sent.

use chrono::{DateTime, NaiveDate, NaiveDateTime, TimeDelta, Timelike, Utc};

/// The instant of an RFC 3339 `date-time` (section 5.6), with lower-case `t` and `z` allowed.
///
/// More than nine digits of a second's fraction are cut. A second of 60 is read only where a leap
/// second can be, in the last minute of a UTC day (section 5.7). `None` for anything else.
pub(super) fn parse(text: &str) -> Option<DateTime<Utc>> {
    let (year, rest) = digits::<4>(text.as_bytes())?;
    let (month, rest) = digits::<2>(after(rest, b"-")?)?;
    let (day, rest) = digits::<2>(after(rest, b"-")?)?;
    let (hour, rest) = digits::<2>(after(rest, b"Tt")?)?;
    let (minute, rest) = digits::<2>(after(rest, b":")?)?;
    let (second, rest) = digits::<2>(after(rest, b":")?)?;
    let (nanos, rest) = match rest.strip_prefix(b".") {
        Some(rest) => fraction(rest)?,
        None => (0, rest),
    };
    let east = offset_minutes(rest)?;
    let minutes = NaiveDate::from_ymd_opt(i32::try_from(year).ok()?, month, day)?
        .and_hms_opt(hour, minute, 0)?
        .checked_sub_signed(TimeDelta::minutes(east))?;
    with_second(minutes, second, nanos).map(|utc| utc.and_utc())
}

/// An instant as RFC 3339 text: seconds always, `Z`, and as many digits of a fraction as it needs.
pub(super) fn format(time: &DateTime<Utc>) -> String {
    time.to_rfc3339_opts(chrono::SecondsFormat::AutoSi, true)
}

fn with_second(minute: NaiveDateTime, second: u32, nanos: u32) -> Option<NaiveDateTime> {
    if second < 60 {
        return minute.with_second(second)?.with_nanosecond(nanos);
    }
    let leap = second == 60 && minute.hour() == 23 && minute.minute() == 59;
    // chrono's way to say a leap second: the 59th, with a fraction beyond one second.
    leap.then_some(minute)?
        .with_second(59)?
        .with_nanosecond(1_000_000_000 + nanos)
}

fn after<'a>(bytes: &'a [u8], one_of: &[u8]) -> Option<&'a [u8]> {
    let (first, rest) = bytes.split_first()?;
    one_of.contains(first).then_some(rest)
}

fn digits<const N: usize>(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (head, rest) = bytes.split_at_checked(N)?;
    let mut value = 0;
    for b in head {
        value = value * 10 + digit(*b)?;
    }
    Some((value, rest))
}

fn digit(b: u8) -> Option<u32> {
    b.is_ascii_digit().then(|| u32::from(b - b'0'))
}

fn fraction(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let end = bytes
        .iter()
        .position(|b| !b.is_ascii_digit())
        .unwrap_or(bytes.len());
    let (head, rest) = bytes.split_at(end);
    if head.is_empty() {
        return None;
    }
    let mut nanos = 0;
    for place in 0..9 {
        nanos = nanos * 10 + head.get(place).and_then(|b| digit(*b)).unwrap_or(0);
    }
    Some((nanos, rest))
}

/// Minutes east of UTC.
fn offset_minutes(bytes: &[u8]) -> Option<i64> {
    let (sign, rest) = match bytes.split_first()? {
        (b'Z' | b'z', []) => return Some(0),
        (b'+', rest) => (1, rest),
        (b'-', rest) => (-1, rest),
        _ => return None,
    };
    let (hours, rest) = digits::<2>(rest)?;
    let (minutes, rest) = digits::<2>(after(rest, b":")?)?;
    let fits = hours <= 23 && minutes <= 59 && rest.is_empty();
    fits.then(|| sign * (i64::from(hours) * 60 + i64::from(minutes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Option<String> {
        parse(text).map(|t| format(&t))
    }

    /// FC-116, the reading half.
    #[test]
    fn instant_and_nanoseconds_are_kept() {
        for (text, utc) in [
            (
                "2018-04-26T14:48:09.123456789+02:00",
                "2018-04-26T12:48:09.123456789Z",
            ),
            ("2018-04-26T14:48:00Z", "2018-04-26T14:48:00Z"),
            ("2018-04-26t14:48:00z", "2018-04-26T14:48:00Z"),
            ("0000-01-01T00:00:00-00:30", "0000-01-01T00:30:00Z"),
            (
                "9999-12-31T23:59:59.9999999999Z",
                "9999-12-31T23:59:59.999999999Z",
            ),
            ("1990-12-31T15:59:60-08:00", "1990-12-31T23:59:60Z"),
        ] {
            assert_eq!(shown(text).as_deref(), Some(utc), "{text}");
        }
    }

    #[test]
    fn other_text_is_no_time() {
        for text in [
            "",
            "2018-04-26",
            "2023-01-25T19:07:06.370582GMT",
            "2018-04-26 14:48:00Z",
            "2018-04-26T14:48Z",
            "2018-04-26T14:48:00",
            "2018-04-26T24:00:00Z",
            "2018-04-26T14:48:60Z",
            "2018-04-26T23:59:61Z",
            "2018-04-26T14:48:00.Z",
            "2018-04-26T14:48:00+0200",
            "2018-04-26T14:48:00+24:00",
            "2018-04-26T14:48:00Z ",
            "+018-04-26T14:48:00Z",
            "２018-04-26T14:48:00Z",
        ] {
            assert_eq!(shown(text), None, "{text}");
        }
    }
}
