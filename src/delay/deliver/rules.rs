use super::{Deliver, DeliverTo, Delivery};
use crate::delay::item::{Limits, millis, too_far};
use crate::error::{Error, Result};
use crate::record::Record;
use crate::transport::check_topic_name;
use std::time::Duration;

/// Which topics records may be delivered to, and how far ahead (`deliver.allow`).
///
/// Whoever can write to a topic of delayed records could otherwise write to every topic that we can
/// write to. Internal topics are never targets: those of Kafka (`__…`), and those in which this
/// crate keeps records (`….delay.…`, `….schedule`, `….dead-letter`); a `….retry` topic is one only
/// where its whole name is in the list. Neither is a topic that the deliverer itself reads, for that
/// would be a cycle.
#[derive(Clone, Debug)]
pub struct DeliverRules {
    allow: Vec<String>,
    default: Option<DeliverTo>,
    read: Vec<String>,
    max_delay: Duration,
}

impl DeliverRules {
    /// The topics in `allow` are targets; in a name `*` stands for any characters. Records may be
    /// delayed by 366 days.
    ///
    /// # Errors
    /// Kind [`Config`](crate::ErrorKind::Config): an entry that can match no topic.
    pub fn new<T: Into<String>>(allow: impl IntoIterator<Item = T>) -> Result<Self> {
        let allow: Vec<String> = allow.into_iter().map(Into::into).collect();
        for entry in &allow {
            let name = entry.replace('*', "x");
            check_topic_name(&name)
                .map_err(|why| Error::config(format!("deliver.allow: `{entry}` {why}")))?;
            if !entry.contains('*') {
                refuse_internal(entry, true)
                    .map_err(|why| Error::config(format!("deliver.allow: `{entry}` {why}")))?;
            }
        }
        Ok(DeliverRules {
            allow,
            default: None,
            read: Vec::new(),
            max_delay: Limits::default().max_delay,
        })
    }

    /// Reads the value of `deliver.allow`: names with commas between.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn parse(text: &str) -> Result<Self> {
        let names = text.split(',').map(str::trim);
        Self::new(names.filter(|name| !name.is_empty()))
    }

    /// Records without a target go here; it needs no entry in the list.
    ///
    /// # Errors
    /// Kind [`Config`](crate::ErrorKind::Config): it can be no target.
    pub fn default_to(mut self, to: DeliverTo) -> Result<Self> {
        let refused = |why: &str| Error::config(format!("deliver.to: `{}` {why}", to.topic));
        check_topic_name(&to.topic).map_err(refused)?;
        refuse_internal(&to.topic, true).map_err(refused)?;
        self.default = Some(to);
        Ok(self)
    }

    /// The topics that the deliverer reads, which are no targets.
    #[must_use]
    pub fn reading<T: Into<String>>(mut self, topics: impl IntoIterator<Item = T>) -> Self {
        self.read.extend(topics.into_iter().map(Into::into));
        self
    }

    /// The furthest that a record may be delayed.
    #[must_use]
    pub fn max_delay(mut self, max: Duration) -> Self {
        self.max_delay = max;
        self
    }

    /// Whether no record can be delivered: nothing is allowed.
    pub fn is_empty(&self) -> bool {
        self.allow.is_empty() && self.default.is_none()
    }

    /// Where records without a target go.
    pub fn default_target(&self) -> Option<&DeliverTo> {
        self.default.as_ref()
    }

    /// The target, if it may be one.
    ///
    /// # Errors
    /// Permanent, with the reason: there is none, or it is not allowed.
    pub fn target(&self, asked: Option<DeliverTo>) -> Result<DeliverTo> {
        let Some(to) = asked.or_else(|| self.default.clone()) else {
            return Err(Error::schema(
                "the record says no topic to deliver it to, and there is no default",
            ));
        };
        let refuse = |why: &str| Error::schema(format!("`{}` {why}", to.topic));
        check_topic_name(&to.topic).map_err(|why| Error::schema(format!("the target {why}")))?;
        if self.read.contains(&to.topic) {
            return Err(refuse("is read by its own deliverer: a cycle"));
        }
        let is_default = self.default.as_ref().is_some_and(|d| d.topic == to.topic);
        let named = is_default || self.allow.contains(&to.topic);
        refuse_internal(&to.topic, named).map_err(refuse)?;
        let allowed = named || self.allow.iter().any(|entry| matches(entry, &to.topic));
        match allowed {
            true => Ok(to),
            false => Err(refuse("is no topic that deliver.allow allows")),
        }
    }

    /// Refuses an instant that is further from `now` than the maximum.
    ///
    /// # Errors
    /// Permanent.
    pub fn check_at(&self, at: i64, now: i64) -> Result<()> {
        let max = millis(self.max_delay);
        match at.saturating_sub(now) > max {
            true => Err(too_far(max)),
            false => Ok(()),
        }
    }

    /// When and where to `record` is to be delivered. `ingested` is the time at which it was taken
    /// in, rounded up.
    ///
    /// # Errors
    /// Permanent, with the reason: a broken header, a target that may be none, a time beyond the
    /// maximum.
    pub fn delivery(&self, record: &Record<'_>, ingested: i64) -> Result<Delivery> {
        let asked = Deliver::read(record.headers)?;
        let at = asked.at(record.timestamp, ingested);
        if let Some(at) = at {
            self.check_at(at, ingested)?;
        }
        Ok(Delivery {
            at,
            to: self.target(asked.to)?,
        })
    }
}

/// `named` is whether somebody wrote the whole name down.
fn refuse_internal(topic: &str, named: bool) -> Result<(), &'static str> {
    if topic.starts_with("__") {
        return Err("is an internal topic of Kafka");
    }
    let held = topic.contains(".delay.");
    if held || topic.ends_with(".schedule") || topic.ends_with(".dead-letter") {
        return Err("is a topic in which records are kept, not delivered");
    }
    if topic.ends_with(".retry") && !named {
        return Err("is a retry topic that deliver.allow does not name in full");
    }
    Ok(())
}

/// Whether `name` fits `pattern`, in which `*` stands for any characters. Time is at most the
/// product of both lengths.
fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or("");
    let Some(mut rest) = name.strip_prefix(first) else {
        return false;
    };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = rest.get(at + part.len()..).unwrap_or(""),
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::Status;

    fn asked(rules: &DeliverRules, topic: &str) -> std::result::Result<(), String> {
        let target = rules.target(Some(DeliverTo::topic(topic)));
        target.map(drop).map_err(|error| {
            assert_eq!(error.status(), Status::Permanent);
            error.message().to_owned()
        })
    }

    #[test]
    fn only_what_is_allowed_is_a_target() {
        let rules = DeliverRules::parse("orders, invoices.*,*.audit.*.v1 ,").unwrap();
        for topic in ["orders", "invoices.", "invoices.eu", "a.audit.b.v1"] {
            assert_eq!(asked(&rules, topic), Ok(()), "{topic}");
        }
        for topic in ["order", "orders2", "invoices", "a.audit.v1", "x"] {
            assert!(
                asked(&rules, topic).unwrap_err().contains("deliver.allow"),
                "{topic}"
            );
        }
        let error = rules.target(None).unwrap_err();
        assert!(error.message().contains("no default"), "{error}");
    }

    #[test]
    fn internal_topics_are_no_targets_whatever_a_pattern_says() {
        let rules = DeliverRules::parse("*,orders.shop.retry").unwrap();
        for topic in [
            "__consumer_offsets",
            "orders.delay.60s",
            "orders.schedule",
            "orders.dead-letter",
            "other.shop.retry",
        ] {
            assert!(asked(&rules, topic).is_err(), "{topic}");
        }
        for topic in ["orders.shop.retry", "orders", "delay.60s", "schedule"] {
            assert_eq!(asked(&rules, topic), Ok(()), "{topic}");
        }
        for entry in ["__consumer_offsets", "a b", "x.delay.1s", "a.dead-letter"] {
            assert!(DeliverRules::parse(entry).is_err(), "{entry}");
        }
    }

    #[test]
    fn what_the_deliverer_reads_is_a_cycle() {
        let rules = DeliverRules::parse("later,orders")
            .unwrap()
            .reading(["later"]);
        assert!(asked(&rules, "later").unwrap_err().contains("cycle"));
        assert_eq!(asked(&rules, "orders"), Ok(()));
    }

    #[test]
    fn the_default_needs_no_entry_and_is_a_target_itself() {
        let rules = DeliverRules::parse("").unwrap();
        assert!(rules.is_empty());
        let rules = rules.default_to(DeliverTo::topic("orders")).unwrap();
        assert_eq!(rules.target(None).unwrap().topic, "orders");
        assert_eq!(asked(&rules, "orders"), Ok(()));
        assert!(asked(&rules, "others").is_err());
        let rules = DeliverRules::parse("").unwrap();
        assert!(rules.default_to(DeliverTo::topic("__x")).is_err());
    }

    #[test]
    fn a_pattern_of_many_stars_takes_no_longer_than_its_length_allows() {
        let pattern = "a*".repeat(120);
        let name = "a".repeat(248) + "b";
        assert!(matches(&pattern, &name));
        assert!(!matches(&(pattern + "c"), &name));
    }
}
