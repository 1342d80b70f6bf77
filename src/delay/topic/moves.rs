//! What becomes of a record in a delay topic: pure.

use super::DelayTiers;
use crate::delay::deliver::{
    After, Deliver, DeliverRules, DeliverTo, Delivery, Envelope, addressed, base,
};
use crate::delay::item::MAX_INSTANT;
use crate::error::Result;
use crate::record::{OutgoingRecord, Record};

/// Decides for the records of delay topics.
///
/// A record's target is in its header `deliver-to`; without one it is the default of the rules, and
/// where there is none its value is an [`Envelope`]. Its time is in its headers, or the delay of
/// its topic after its timestamp.
#[derive(Clone, Debug)]
pub struct Moves {
    tiers: DelayTiers,
    rules: DeliverRules,
}

/// A record that leaves a delay topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    /// What is to be written.
    pub record: OutgoingRecord,
    /// When it is to be delivered, in milliseconds since the epoch.
    pub due: i64,
    /// Whether it goes to the next delay topic, not to its target.
    pub onward: bool,
}

struct Times {
    due: i64,
    to: Option<DeliverTo>,
    /// Whether another reading would find the same time.
    is_lasting: bool,
}

impl Moves {
    /// Decides by these topics and rules; the topics are no targets.
    pub fn new(tiers: DelayTiers, rules: DeliverRules) -> Self {
        let rules = rules.reading(tiers.tiers().iter().map(|tier| tier.topic.as_str()));
        Moves { tiers, rules }
    }

    /// The topics.
    pub fn tiers(&self) -> &DelayTiers {
        &self.tiers
    }

    /// Until when `record` waits where it is, in milliseconds since the epoch; `None` when it is to
    /// be moved, or refused, at once.
    pub fn wait(&self, record: &Record<'_>, now: i64) -> Option<i64> {
        let times = self.times(record, now).ok()?;
        if times.due <= now || !times.is_lasting || self.target(record, times.to).is_err() {
            return None;
        }
        let tier = self.tiers.of_topic(record.topic)?;
        // A producer whose clock is ahead does not make it wait longer here.
        let since = base(record.timestamp, now).min(now);
        let until = self.tiers.wait(tier, since, times.due);
        (until > now).then_some(until)
    }

    /// What becomes of `record` now that it waits no longer: to its target when it is due, else to
    /// the topic for what is left.
    ///
    /// # Errors
    /// Permanent, with the reason: no target or one that is not allowed, a broken header or
    /// envelope, a time beyond the maximum.
    pub fn moved(&self, record: &Record<'_>, now: i64) -> Result<Moved> {
        let Times { due, to, .. } = self.times(record, now)?;
        let out = self.target(record, to)?;
        if due <= now {
            return Ok(Moved {
                record: out,
                due,
                onward: false,
            });
        }
        let tier = self.tiers.place(due.saturating_sub(now));
        Ok(Moved {
            record: addressed(out, &tier.topic, due),
            due,
            onward: true,
        })
    }

    fn times(&self, record: &Record<'_>, now: i64) -> Result<Times> {
        let asked = Deliver::read(record.headers)?;
        let is_lasting = record.timestamp.millis().is_some_and(|millis| millis >= 0)
            || matches!(asked.after, After::At(_));
        let due = asked.at(record.timestamp, now).unwrap_or_else(|| {
            let delay = self.tiers.of_topic(record.topic).map_or(0, |t| t.delay);
            let due = base(record.timestamp, now).saturating_add(delay);
            due.min(MAX_INSTANT)
        });
        self.rules.check_at(due, now)?;
        Ok(Times {
            due,
            to: asked.to,
            is_lasting,
        })
    }

    /// The record for its target.
    fn target(&self, record: &Record<'_>, to: Option<DeliverTo>) -> Result<OutgoingRecord> {
        if to.is_some() || self.rules.default_target().is_some() {
            let to = self.rules.target(to)?;
            return Ok(Delivery { at: None, to }.outgoing(record));
        }
        let envelope = Envelope::read(record.value)?;
        let to = self.rules.target(Some(envelope.to))?;
        let empty = Record {
            key: None,
            value: None,
            ..*record
        };
        Ok(OutgoingRecord {
            key: envelope.key,
            value: envelope.value,
            ..Delivery { at: None, to }.outgoing(&empty)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delay::deliver::{DELIVER_AFTER, DELIVER_AFTER_DELAY, DELIVER_TO};
    use crate::headers::Headers;
    use crate::record::Timestamp;
    use std::time::Duration;

    const NOW: i64 = 1_800_000_000_000;

    fn moves() -> Moves {
        let tiers = DelayTiers::new("orders", [1, 10, 60].map(Duration::from_secs)).unwrap();
        Moves::new(tiers, DeliverRules::parse("orders,paid").unwrap())
    }

    fn headers(pairs: &[(&'static str, &str)]) -> Headers {
        let owned = |(name, value): &(&'static str, &str)| (*name, Some(value.to_string()));
        pairs.iter().map(owned).collect()
    }

    fn record<'a>(topic: &'a str, headers: &'a Headers) -> Record<'a> {
        Record {
            topic,
            timestamp: Timestamp::CreateTime(NOW),
            key: Some(b"k"),
            headers: headers.view(),
            ..Record::of_value(Some(b"v"))
        }
    }

    #[test]
    fn a_record_waits_for_its_topics_delay_and_goes_to_its_target() {
        let headers = headers(&[(DELIVER_TO, "orders"), ("trace", "t")]);
        let record = record("orders.delay.1m", &headers);
        let moves = moves();
        let due = NOW + 60_000;
        assert_eq!(moves.wait(&record, NOW + 10), Some(due));
        assert_eq!(moves.wait(&record, due - 1), Some(due));
        assert_eq!(moves.wait(&record, due), None);
        let moved = moves.moved(&record, due).unwrap();
        assert!(!moved.onward);
        assert_eq!(moved.record.topic, "orders");
        assert_eq!(moved.record.key.as_deref(), Some(&b"k"[..]));
        assert_eq!(moved.record.value.as_deref(), Some(&b"v"[..]));
        assert_eq!(moved.record.headers.iter().count(), 1);
    }

    /// FC-086: what is left is counted from the record's own time, at each hop.
    #[test]
    fn a_record_that_is_not_due_goes_to_the_topic_for_what_is_left() {
        let due = NOW + 72_500;
        let text = due.to_string();
        let list = headers(&[(DELIVER_TO, "orders:2"), (DELIVER_AFTER, &text)]);
        let moves = moves();
        let first = record("orders.delay.1m", &list);
        assert_eq!(moves.wait(&first, NOW), Some(NOW + 60_000));
        let moved = moves.moved(&first, NOW + 60_005).unwrap();
        assert!(moved.onward);
        assert_eq!(
            (moved.record.topic.as_str(), moved.due),
            ("orders.delay.10s", due)
        );
        assert_eq!(moved.record.timestamp, None);

        let next = moved.record.headers.clone();
        let second = Record {
            timestamp: Timestamp::CreateTime(NOW + 60_006),
            ..record("orders.delay.10s", &next)
        };
        let until = NOW + 70_006;
        assert_eq!(moves.wait(&second, NOW + 60_010), Some(until));
        let moved = moves.moved(&second, until).unwrap();
        assert_eq!(moved.record.topic, "orders.delay.1s");

        let last = moved.record.headers.clone();
        let third = Record {
            timestamp: Timestamp::CreateTime(NOW + 70_008),
            ..record("orders.delay.1s", &last)
        };
        let until = moves.wait(&third, NOW + 70_010).unwrap();
        assert_eq!(until, NOW + 71_008);
        let moved = moves.moved(&third, until).unwrap();
        let out = moves.moved(&third, due).unwrap();
        assert!(moved.onward && !out.onward);
        assert_eq!(
            (out.record.topic.as_str(), out.record.partition),
            ("orders", Some(2))
        );
        assert!(out.record.headers.iter().next().is_none());
    }

    #[test]
    fn a_clock_that_is_ahead_or_no_timestamp_makes_nothing_wait_for_ever() {
        let moves = moves();
        let to = headers(&[(DELIVER_TO, "orders")]);
        let ahead = Record {
            timestamp: Timestamp::CreateTime(NOW + 3_600_000),
            ..record("orders.delay.10s", &to)
        };
        let until = moves.wait(&ahead, NOW).unwrap();
        assert_eq!(until, NOW + 10_000);
        let moved = moves.moved(&ahead, until).unwrap();
        assert!(moved.onward);
        assert_eq!(moved.due, NOW + 3_610_000, "as the record says");

        let delay = headers(&[(DELIVER_TO, "orders"), (DELIVER_AFTER_DELAY, "5000")]);
        for headers in [&to, &delay] {
            let unstamped = Record {
                timestamp: Timestamp::NotAvailable,
                ..record("orders.delay.10s", headers)
            };
            assert_eq!(moves.wait(&unstamped, NOW), None);
            let moved = moves.moved(&unstamped, NOW).unwrap();
            assert!(moved.onward, "its time is written down");
            let lasting = moved.record.headers.clone();
            let again = Record {
                timestamp: Timestamp::NotAvailable,
                ..record("orders.delay.10s", &lasting)
            };
            let left = NOW + 500;
            assert!(
                moves
                    .wait(&again, left)
                    .is_some_and(|until| until <= moved.due)
            );
        }
    }

    #[test]
    fn the_articles_envelope_is_read_where_nothing_else_names_a_target() {
        let none = Headers::new();
        let moves = moves();
        let value = br#"{"topic":"paid","key":"k1","value":"v1"}"#;
        let enveloped = Record {
            value: Some(value),
            ..record("orders.delay.1m", &none)
        };
        assert_eq!(moves.wait(&enveloped, NOW), Some(NOW + 60_000));
        let out = moves.moved(&enveloped, NOW + 60_000).unwrap().record;
        assert_eq!(
            (out.topic.as_str(), out.key.as_deref()),
            ("paid", Some(&b"k1"[..]))
        );
        assert_eq!(out.value.as_deref(), Some(&b"v1"[..]));
        let to = headers(&[(DELIVER_TO, "orders")]);
        let raw = Record {
            value: Some(value),
            ..record("orders.delay.1m", &to)
        };
        let out = moves.moved(&raw, NOW + 60_000).unwrap().record;
        assert_eq!(
            (out.topic.as_str(), out.value.as_deref()),
            ("orders", Some(&value[..]))
        );
    }

    #[test]
    fn what_may_not_be_delivered_is_refused_at_once() {
        let moves = moves();
        for (list, why) in [
            (headers(&[(DELIVER_TO, "others")]), "deliver.allow"),
            (headers(&[(DELIVER_TO, "orders.delay.1s")]), "cycle"),
            (
                headers(&[(DELIVER_TO, "orders"), (DELIVER_AFTER, "x")]),
                "deliver-after",
            ),
            (headers(&[]), "envelope"),
        ] {
            let record = record("orders.delay.1m", &list);
            assert_eq!(moves.wait(&record, NOW), None);
            let error = moves.moved(&record, NOW).unwrap_err();
            assert!(error.message().contains(why), "{error}");
        }
    }
}
