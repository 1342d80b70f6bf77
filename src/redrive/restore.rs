//! The record that goes back.

use super::letter::{Letter, REDRIVES};
use super::problem::Problem;
use super::route::Target;
use crate::dead_letter::{Dialect, Original, Retried, partition};
use crate::headers::HeaderView;
use crate::record::{OutgoingRecord, OwnedRecord};

/// How often a record with these headers was redriven.
pub(super) fn redrives(headers: HeaderView<'_>) -> u32 {
    headers
        .get_last(REDRIVES)
        .flatten()
        .and_then(|value| std::str::from_utf8(value).ok())
        .and_then(|text| text.parse().ok())
        .unwrap_or(0)
}

/// Where the record of a dead letter still is, when the dead letter has not all of it.
pub(super) fn elsewhere(original: &Original) -> Option<Result<(String, i32, i64), Problem>> {
    if !original.pointer && !original.value_left_out {
        return None;
    }
    let place = || {
        Some((
            original.topic.clone()?,
            original.partition?,
            original.offset?,
        ))
    };
    Some(place().ok_or_else(|| Problem::Gone("is not told whole".to_owned())))
}

/// Whether `origin` is the record that `letter` was made of: a topic may have been made anew.
pub(super) fn check(
    original: &Original,
    letter: &OwnedRecord,
    origin: &OwnedRecord,
) -> Result<(), Problem> {
    let other = |what: &str| {
        let OwnedRecord {
            topic,
            partition,
            offset,
            ..
        } = origin;
        Err(Problem::Gone(format!(
            "{topic} [{partition}] @{offset} has another {what} by now"
        )))
    };
    if !original.pointer && letter.key != origin.key {
        return other("key");
    }
    let size = origin.value.as_ref().map_or(0, |value| value.len());
    if original.value_left_out && original.info.value_left_out() != u64::try_from(size).ok() {
        return other("size");
    }
    let copied = |dialect: &Dialect| matches!(dialect, Dialect::Connect | Dialect::Streams);
    let told = original.timestamp.millis();
    if !original.dialects.iter().all(copied)
        && told.is_some_and(|told| origin.timestamp.millis() != Some(told))
    {
        return other("timestamp");
    }
    Ok(())
}

/// The record of a dead letter, to be written to `target`.
///
/// `whole` has key, value and own headers: the dead letter with its original's headers, or the
/// record as it was fetched from its origin.
pub(super) fn restored(
    letter: &Letter,
    whole: OwnedRecord,
    target: &Target,
    count: u32,
    keep_timestamp: bool,
    now: i64,
) -> OutgoingRecord {
    let mut headers = whole.headers;
    headers.remove(REDRIVES);
    let original = letter.original.as_ref();
    let millis = original.and_then(|original| original.timestamp.millis());
    if let (true, Some(first)) = (target.retry, original.and_then(|o| first(o, letter))) {
        let spring = original.is_some_and(|o| o.dialects.contains(&Dialect::Spring));
        headers = first.next(headers.view(), None, now, spring);
    }
    headers.push(REDRIVES, Some(count.to_string()));
    let number = original.and_then(|original| original.partition);
    OutgoingRecord {
        topic: target.topic.clone(),
        partition: number
            .filter(|_| !target.retry)
            .and_then(|number| partition(number, Some(target.partitions))),
        key: whole.key,
        value: whole.value,
        headers,
        // Retries are told it by a header, and their topic keeps records from now on.
        timestamp: millis.filter(|millis| keep_timestamp && !target.retry && *millis > 0),
    }
}

/// The first delivery, for those that come through a topic of retries.
fn first(original: &Original, letter: &Letter) -> Option<Retried> {
    Some(Retried {
        topic: original.topic.clone()?,
        partition: original.partition?,
        offset: original.offset?,
        timestamp: original.timestamp.millis().filter(|millis| *millis >= 0),
        first_failed: letter.failed_at().filter(|millis| *millis >= 0),
        attempt: 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dead_letter::DeadLetters;
    use crate::error::Error;
    use crate::headers::Headers;
    use crate::outcome::Failure;
    use crate::record::{Part, Timestamp};
    use bytes::Bytes;

    const NOW: i64 = 1_700_000_000_000;

    fn source() -> OwnedRecord {
        OwnedRecord {
            topic: "orders".into(),
            partition: 4,
            offset: 7,
            timestamp: Timestamp::CreateTime(1_600_000_000_000),
            key: Some(Bytes::from_static(b"k")),
            value: Some(Bytes::from_static(b"value")),
            headers: [("trace", Some("a")), (REDRIVES, Some("2"))]
                .into_iter()
                .collect(),
        }
    }

    fn letter(of: &OwnedRecord, dialect: Dialect) -> OwnedRecord {
        let error = Error::malformed("x");
        let failure = Failure::new(error, &of.as_record().context(Part::Value));
        let letters = DeadLetters::new().dialects([dialect]).group("shop");
        let letter = letters.without_value(&failure, NOW).unwrap();
        OwnedRecord {
            topic: letter.topic,
            key: letter.key,
            value: letter.value,
            headers: letter.headers,
            ..OwnedRecord::default()
        }
    }

    fn target(retry: bool, partitions: i32) -> Target {
        Target {
            topic: "t".into(),
            partitions,
            retry,
        }
    }

    #[test]
    fn a_record_goes_back_as_it_was_and_counted() {
        let dead = letter(&source(), Dialect::KafkaChain);
        let read = Letter::of(&dead.as_record());
        let count = redrives(dead.headers.view()) + 1;
        let back = restored(&read, source(), &target(false, 6), count, true, NOW);
        let expected: Headers = [("trace", Some("a")), (REDRIVES, Some("3"))]
            .into_iter()
            .collect();
        assert_eq!(
            (back.partition, back.timestamp),
            (Some(4), Some(1_600_000_000_000))
        );
        assert_eq!((back.key, back.value), (source().key, source().value));
        assert_eq!(back.headers, expected);
        // No such partition: the key decides. And the time of now, if asked for.
        let back = restored(&read, source(), &target(false, 4), count, false, NOW);
        assert_eq!((back.partition, back.timestamp), (None, None));
    }

    #[test]
    fn a_retry_knows_where_it_was_consumed_first() {
        for dialect in [Dialect::KafkaChain, Dialect::Spring] {
            let dead = letter(&source(), dialect);
            let read = Letter::of(&dead.as_record());
            let mut retry = target(true, 6);
            retry.topic = "orders.shop.retry".into();
            let back = restored(&read, source(), &retry, 1, true, NOW);
            assert_eq!((back.partition, back.timestamp), (None, None));
            let back = OwnedRecord {
                topic: back.topic,
                headers: back.headers,
                ..OwnedRecord::default()
            };
            let first = Retried::of(&back.as_record()).unwrap();
            assert_eq!(
                (first.topic.as_str(), first.partition, first.offset),
                ("orders", 4, 7)
            );
            assert_eq!(
                (first.attempt, first.timestamp),
                (2, Some(1_600_000_000_000))
            );
            let spring = back.headers.view().get_last("retry_topic-attempts");
            assert_eq!(spring.is_some(), dialect == Dialect::Spring);
        }
    }

    #[test]
    fn an_origin_that_is_another_record_by_now_is_not_taken() {
        for dialect in Dialect::ALL {
            let dead = letter(&source(), dialect);
            let original = Original::of(&dead.as_record()).unwrap();
            let place = elsewhere(&original).unwrap().unwrap();
            assert_eq!(place, ("orders".to_owned(), 4, 7), "{dialect}");
            assert_eq!(check(&original, &dead, &source()), Ok(()), "{dialect}");
            let mut others = vec![
                OwnedRecord {
                    key: None,
                    ..source()
                },
                OwnedRecord {
                    value: None,
                    ..source()
                },
                OwnedRecord {
                    value: Some(Bytes::from_static(b"other size")),
                    ..source()
                },
            ];
            if original
                .info
                .number(crate::dead_letter::Field::Timestamp)
                .is_some()
            {
                others.push(OwnedRecord {
                    timestamp: Timestamp::CreateTime(1),
                    ..source()
                });
            }
            for other in others {
                assert!(
                    check(&original, &dead, &other).is_err(),
                    "{dialect} {other:?}"
                );
            }
        }
    }

    #[test]
    fn the_count_of_redrives_is_read_only_where_it_is_one() {
        for (value, count) in [
            (Some("2"), 2),
            (Some("-1"), 0),
            (Some("x"), 0),
            (Some("99999999999"), 0),
            (None, 0),
        ] {
            let headers: Headers = [(REDRIVES, value)].into_iter().collect();
            assert_eq!(redrives(headers.view()), count, "{value:?}");
        }
        assert_eq!(redrives(HeaderView::empty()), 0);
    }
}
