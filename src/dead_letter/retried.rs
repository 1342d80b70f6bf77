//! Records that come again: where they came from, and for the how-manieth time.

use bytes::Bytes;

use crate::error::{Error, Result};
use crate::headers::{HeaderView, Headers};
use crate::record::{Record, Timestamp};

use super::router::check_topic;
use super::text::{SHORT_LIMIT, line};

/// The last part of the name of a topic of retries: `${topic}.${group}.retry`.
const RETRY: &str = "retry";

const TOPIC: &str = "kafka-chain-retry-topic";
const PARTITION: &str = "kafka-chain-retry-partition";
const OFFSET: &str = "kafka-chain-retry-offset";
const TIMESTAMP: &str = "kafka-chain-retry-timestamp";
const FIRST_FAILED: &str = "kafka-chain-retry-first-failed";
const ATTEMPT: &str = "kafka-chain-retry-attempt";

/// One for each delivery that failed, oldest first: which delivery, when, and why.
const FAILURE: &str = "kafka-chain-retry-failure";

/// The names of the headers of a retry, all of them ours.
pub const RETRY_HEADERS: [&str; 7] = [
    TOPIC,
    PARTITION,
    OFFSET,
    TIMESTAMP,
    FIRST_FAILED,
    ATTEMPT,
    FAILURE,
];

/// How many deliveries that failed a record tells of: the latest ones.
const MAX_FAILURES: usize = 16;

/// Spring's headers of a retry topic: the delivery as a big-endian `int`, instants as Java's
/// `BigInteger` bytes (`RetryTopicHeaders`).
const SPRING_ATTEMPTS: &str = "retry_topic-attempts";
const SPRING_ORIGINAL: &str = "retry_topic-original-timestamp";
const SPRING_DUE: &str = "retry_topic-backoff-timestamp";

/// The names of Spring's headers of a retry.
pub const SPRING_RETRY_HEADERS: [&str; 3] = [SPRING_ATTEMPTS, SPRING_ORIGINAL, SPRING_DUE];

/// More deliveries than any policy makes; a header that says more is not believed.
const MAX_ATTEMPT: u32 = 1_000_000;

/// The topic through which the retries of `topic`'s records come back to `group`, and to no other.
///
/// # Errors
/// Kind Config when Kafka takes no topic of that name.
pub fn retry_topic(topic: &str, group: &str) -> Result<String> {
    let name = format!("{topic}.{group}.{RETRY}");
    check_topic(&name).map_err(|why| {
        Error::config(format!(
            "the retries of `{topic}` have no topic: `{name}` {why}"
        ))
    })?;
    Ok(name)
}

/// Whether `name` is that of a topic of retries, of whatever topic and group, perhaps with a delay at its
/// end: `orders.shop.retry`, `orders.shop.retry.5s`.
pub fn is_retry_topic(name: &str) -> bool {
    let name = match name.rsplit_once('.') {
        Some((rest, delay)) if is_delay(delay) => rest,
        _ => name,
    };
    name.rsplit('.').next() == Some(RETRY) && name.split('.').count() > 2
}

fn is_delay(text: &str) -> bool {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    unit.len() < text.len() && ["ms", "s", "m", "h", "d"].contains(&unit)
}

/// Where a record that comes again was consumed first, and how often it was delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retried {
    /// The topic it was consumed from first.
    pub topic: String,
    /// Its partition there.
    pub partition: i32,
    /// Its offset there.
    pub offset: i64,
    /// Its timestamp there, in milliseconds since the Unix epoch.
    pub timestamp: Option<i64>,
    /// When it failed first, in milliseconds since the Unix epoch.
    pub first_failed: Option<i64>,
    /// Which delivery this is; the first one is 1, the first retry 2.
    pub attempt: u32,
}

impl Retried {
    /// What the headers of a record of a retry topic say; `None` of any other record, for headers
    /// are anybody's. The topic must be one whose retries come through the record's own topic, and
    /// each number is in range, or the record counts as one that was never retried.
    pub fn of(record: &Record<'_>) -> Option<Self> {
        if !is_retry_topic(record.topic) {
            return None;
        }
        let headers = record.headers;
        let topic = text(headers, TOPIC)?;
        let is_its = |rest: &str| rest.starts_with('.') && is_retry_topic(record.topic);
        record.topic.strip_prefix(topic).filter(|r| is_its(r))?;
        let number = |name| text(headers, name).and_then(|text| text.parse::<i64>().ok());
        let instant = |name| number(name).filter(|millis| *millis >= 0);
        let spring = || {
            let bytes = headers.get_last(SPRING_ATTEMPTS)??;
            Some(u32::from_be_bytes(bytes.try_into().ok()?))
        };
        let attempt = number(ATTEMPT).and_then(|attempt| u32::try_from(attempt).ok());
        Some(Retried {
            topic: topic.to_owned(),
            partition: number(PARTITION).and_then(|n| n.try_into().ok())?,
            offset: number(OFFSET)?,
            timestamp: instant(TIMESTAMP),
            first_failed: instant(FIRST_FAILED),
            attempt: attempt
                .or_else(spring)
                .filter(|attempt| (2..=MAX_ATTEMPT).contains(attempt))?,
        })
        .filter(|retried| retried.partition >= 0 && retried.offset >= 0)
    }

    /// Of a record that is delivered for the first time and fails at `now`.
    pub fn first(record: &Record<'_>, now: i64) -> Self {
        Retried {
            topic: record.topic.to_owned(),
            partition: record.partition,
            offset: record.offset,
            timestamp: record.timestamp.millis().filter(|millis| *millis >= 0),
            first_failed: Some(now),
            attempt: 1,
        }
    }

    /// [`of`](Self::of) the record, or its first delivery.
    pub fn delivery(record: &Record<'_>, now: i64) -> Self {
        Self::of(record).unwrap_or_else(|| Self::first(record, now))
    }

    /// The headers of the next delivery, due at `due`, after this one has failed, when and why:
    /// `headers` without older ones of a retry, then ours, with up to 16 of the deliveries that failed,
    /// then Spring's if asked for.
    pub fn next(
        &self,
        headers: HeaderView<'_>,
        failure: Option<(i64, &Error)>,
        due: i64,
        spring: bool,
    ) -> Headers {
        let is_old = |name: &[u8]| {
            let names = RETRY_HEADERS.iter().chain(&SPRING_RETRY_HEADERS);
            names.into_iter().any(|old| old.as_bytes() == name)
        };
        // What says so on a first delivery is somebody else's.
        let before = headers
            .iter()
            .filter(|(name, _)| self.attempt > 1 && *name == FAILURE.as_bytes());
        let before: Vec<_> = before.filter_map(|(_, value)| value).collect();
        let kept = before.len().min(MAX_FAILURES - 1);
        let before = before.into_iter().rev().take(kept).rev();
        let mut next = Headers::with_capacity(headers.len() + kept + 10);
        for (name, value) in headers.iter().filter(|(name, _)| !is_old(name)) {
            next.push(
                Bytes::copy_from_slice(name),
                value.map(Bytes::copy_from_slice),
            );
        }
        let attempt = self.attempt.saturating_add(1).min(MAX_ATTEMPT);
        let mut put = |name: &'static str, text: String| next.push(name, Some(Bytes::from(text)));
        put(TOPIC, self.topic.clone());
        put(PARTITION, self.partition.to_string());
        put(OFFSET, self.offset.to_string());
        if let Some(timestamp) = self.timestamp {
            put(TIMESTAMP, timestamp.to_string());
        }
        if let Some(first) = self.first_failed {
            put(FIRST_FAILED, first.to_string());
        }
        put(ATTEMPT, attempt.to_string());
        for failure in before {
            let failure = failure.get(..SHORT_LIMIT).unwrap_or(failure);
            next.push(FAILURE, Some(Bytes::copy_from_slice(failure)));
        }
        if let Some((at, error)) = failure {
            let failure = line(format_args!("{} {at} {error}", self.attempt), SHORT_LIMIT);
            next.push(FAILURE, Some(Bytes::from(failure)));
        }
        if spring {
            let mut put = |name: &'static str, bytes: &[u8]| {
                next.push(name, Some(Bytes::copy_from_slice(bytes)));
            };
            put(SPRING_ATTEMPTS, &attempt.to_be_bytes());
            if let Some(timestamp) = self.timestamp {
                put(SPRING_ORIGINAL, &big_integer(timestamp));
            }
            put(SPRING_DUE, &big_integer(due));
        }
        next
    }

    /// The timestamp it had where it was consumed first.
    pub fn first_timestamp(&self) -> Timestamp {
        self.timestamp
            .map_or(Timestamp::NotAvailable, Timestamp::CreateTime)
    }
}

/// As `BigInteger.toByteArray` writes it: big-endian, as few bytes as keep the sign.
fn big_integer(number: i64) -> Vec<u8> {
    let bytes = number.to_be_bytes();
    let spare = bytes.windows(2).take_while(|pair| match pair {
        [0, next] => *next < 0x80,
        [0xff, next] => *next >= 0x80,
        _ => false,
    });
    let skip = spare.count();
    bytes.into_iter().skip(skip).collect()
}

fn text<'a>(headers: HeaderView<'a>, name: &str) -> Option<&'a str> {
    std::str::from_utf8(headers.get_last(name)??).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(topic: &'static str) -> Record<'static> {
        Record {
            topic,
            partition: 3,
            offset: 42,
            timestamp: Timestamp::CreateTime(1_700_000_000_000),
            ..Record::of_value(Some(b"x"))
        }
    }

    fn again(headers: &Headers) -> Record<'_> {
        Record {
            topic: "orders.shop.retry",
            partition: 0,
            offset: 7,
            headers: headers.view(),
            ..Record::of_value(Some(b"x"))
        }
    }

    #[test]
    fn a_topic_of_retries_is_named_by_topic_and_group() {
        assert_eq!(retry_topic("orders", "shop").unwrap(), "orders.shop.retry");
        assert!(retry_topic("orders", "a shop").is_err());
        assert!(is_retry_topic("orders.shop.retry"));
        assert!(is_retry_topic("orders.eu.my.shop.retry"));
        assert!(!is_retry_topic("orders.retry"));
        assert!(is_retry_topic("orders.shop.retry.5s"));
        assert!(is_retry_topic("orders.shop.retry.500ms"));
        assert!(!is_retry_topic("orders.shop.retry.soon"));
        assert!(!is_retry_topic("orders.retry.5s"));
    }

    #[test]
    fn each_delivery_knows_the_first_one() {
        let own: Headers = [(&b"trace"[..], Some(&b"\xff"[..]))].into_iter().collect();
        let mut first = record("orders");
        first.headers = own.view();
        let delivery = Retried::delivery(&first, 5_000);
        assert_eq!(delivery.attempt, 1);
        let away = Error::unavailable("the courier\nis away");
        let headers = delivery.next(first.headers, Some((5_000, &away)), 9_000, true);
        let second = Retried::of(&again(&headers)).unwrap();
        let expected = Retried {
            topic: "orders".into(),
            partition: 3,
            offset: 42,
            timestamp: Some(1_700_000_000_000),
            first_failed: Some(5_000),
            attempt: 2,
        };
        assert_eq!(second, expected);
        let headers = second.next(headers.view(), Some((9_100, &away)), 20_000, true);
        let third = Retried::of(&again(&headers)).unwrap();
        assert_eq!((third.attempt, third.first_failed), (3, Some(5_000)));
        assert_eq!(headers.view().len(), 12);
        let failures = [
            "1 5000 temporary unavailable: the courier is away",
            "2 9100 temporary unavailable: the courier is away",
        ];
        assert_eq!(told(&headers), failures);
        let spring = headers.view().get_last("retry_topic-attempts").unwrap();
        assert_eq!(spring, Some(&[0, 0, 0, 3][..]));
        let due = headers.view().get_last("retry_topic-backoff-timestamp");
        assert_eq!(due.unwrap(), Some(&[0x4e, 0x20][..]));
        assert_eq!(headers.view().get_last("trace"), Some(Some(&b"\xff"[..])));
    }

    fn told(headers: &Headers) -> Vec<String> {
        let failures = headers.iter().filter(|(name, _)| *name == FAILURE);
        let text = |value: Option<&Bytes>| String::from_utf8_lossy(value.unwrap()).into_owned();
        failures.map(|(_, value)| text(value)).collect()
    }

    #[test]
    fn the_latest_failures_are_told_within_bounds_and_none_from_outside() {
        let foreign: Headers = [(FAILURE.as_bytes(), Some(&b"9 of somebody"[..]))]
            .into_iter()
            .collect();
        let mut delivery = Retried::first(&record("orders"), 1);
        let long = Error::unavailable("x".repeat(10_000));
        let mut headers = delivery.next(foreign.view(), Some((1, &long)), 2, false);
        for attempt in 2..=40 {
            delivery.attempt = attempt;
            headers = delivery.next(headers.view(), Some((1, &long)), 2, false);
        }
        let told = told(&headers);
        assert_eq!(told.len(), 16);
        assert!(told[0].starts_with("25 1 temporary"), "{}", told[0]);
        assert!(told[15].starts_with("40 1 temporary"), "{}", told[15]);
        assert!(told.iter().all(|failure| failure.len() <= SHORT_LIMIT));
    }

    #[test]
    fn headers_from_outside_are_not_believed_elsewhere_or_out_of_range() {
        let first = Retried::first(&record("orders"), 1);
        let headers = first.next(HeaderView::empty(), None, 2, false);
        let mut elsewhere = again(&headers);
        elsewhere.topic = "orders";
        assert_eq!(Retried::of(&elsewhere), None);
        elsewhere.topic = "bills.shop.retry";
        assert_eq!(Retried::of(&elsewhere), None);
        let wrong = [
            (ATTEMPT, "1"),
            (ATTEMPT, "0"),
            (ATTEMPT, "-2"),
            (ATTEMPT, "99999999999999999999"),
            (ATTEMPT, "2000000"),
            (PARTITION, "-1"),
            (OFFSET, "x"),
            (TOPIC, ""),
        ];
        for (name, value) in wrong {
            let mut changed = headers.clone();
            changed.push(name, Some(value.as_bytes()));
            assert_eq!(Retried::of(&again(&changed)), None, "{name}={value}");
        }
    }

    #[test]
    fn instants_are_javas_big_integers() {
        assert_eq!(big_integer(0), [0]);
        assert_eq!(big_integer(127), [127]);
        assert_eq!(big_integer(128), [0, 128]);
        assert_eq!(big_integer(-1), [0xff]);
        assert_eq!(big_integer(-129), [0xff, 0x7f]);
        assert_eq!(big_integer(i64::MAX).len(), 8);
    }
}
