//! RFC 3339 times: an instant to the nanosecond, from text that is kept as it was sent.

use chrono::{DateTime, Datelike, FixedOffset, NaiveDate, SecondsFormat, Timelike, Utc};

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
    let east = offset_seconds(rest)?;
    // chrono's way to say a leap second: the 59th, with a fraction beyond one second.
    let leap = second == 60;
    let (second, nanos) = if leap {
        (59, nanos + 1_000_000_000)
    } else {
        (second, nanos)
    };
    let local = NaiveDate::from_ymd_opt(i32::try_from(year).ok()?, month, day)?
        .and_hms_nano_opt(hour, minute, second, nanos)?;
    let utc = match east {
        0 => local,
        _ => local.checked_sub_offset(FixedOffset::east_opt(east)?)?,
    };
    (!leap || (utc.hour() == 23 && utc.minute() == 59)).then(|| utc.and_utc())
}

/// The largest offset of RFC 3339, 23:59, in seconds.
const FARTHEST: i32 = (23 * 60 + 59) * 60;

/// An instant as RFC 3339 text: seconds always, `Z`, and as many digits of a fraction as it needs.
///
/// A year has four digits there. An instant that is beyond them in UTC but was read with an offset
/// is written with an offset too.
pub(super) fn format(time: &DateTime<Utc>) -> String {
    let east = match time.year() {
        ..0 => FARTHEST,
        0..=9999 => 0,
        _ => -FARTHEST,
    };
    match FixedOffset::east_opt(east).filter(|_| east != 0) {
        Some(offset) => time
            .with_timezone(&offset)
            .to_rfc3339_opts(SecondsFormat::AutoSi, false),
        None => time.to_rfc3339_opts(SecondsFormat::AutoSi, true),
    }
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

/// Seconds east of UTC.
fn offset_seconds(bytes: &[u8]) -> Option<i32> {
    let (sign, rest) = match bytes.split_first()? {
        (b'Z' | b'z', []) => return Some(0),
        (b'+', rest) => (1, rest),
        (b'-', rest) => (-1, rest),
        _ => return None,
    };
    let (hours, rest) = digits::<2>(rest)?;
    let (minutes, rest) = digits::<2>(after(rest, b":")?)?;
    if hours > 23 || minutes > 59 || !rest.is_empty() {
        return None;
    }
    i32::try_from(hours * 3600 + minutes * 60)
        .ok()
        .map(|seconds| sign * seconds)
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

    /// An instant that was read is written so that it reads as the same instant again.
    #[test]
    fn an_instant_beyond_four_digit_years_in_utc_is_written_with_an_offset() {
        for (text, written) in [
            (
                "9999-12-31T23:59:59.5-14:00",
                "9999-12-31T14:00:59.500-23:59",
            ),
            ("0000-01-01T00:00:00+00:01", "0000-01-01T23:58:00+23:59"),
            ("0000-01-01T23:58:60+23:59", "0000-01-01T23:58:60+23:59"),
        ] {
            assert_eq!(shown(text).as_deref(), Some(written), "{text}");
            assert_eq!(parse(text), parse(written), "{text}");
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
