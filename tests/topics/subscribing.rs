//! Topics by name and by pattern.

use kafka_chain::ErrorKind;
use kafka_chain::pipeline::topics::{OwnTopic, OwnTopics, Subscription};
use proptest::prelude::*;

const TEMPLATE: &str = "${topic}.dead-letter";

fn own() -> OwnTopics {
    OwnTopics::new(TEMPLATE, "shop").unwrap()
}

fn read(subscription: &str, existing: &[&str]) -> Vec<String> {
    let subscription = Subscription::parse(subscription).unwrap();
    let resolved = subscription.resolve(existing.iter().copied(), &own());
    resolved.topics.into_iter().collect()
}

#[test]
fn names_are_read_whether_or_not_they_exist() {
    assert_eq!(
        read("orders, payments", &["orders", "bills"]),
        ["orders", "payments"]
    );
    assert!(!Subscription::parse("orders").unwrap().has_patterns());
}

#[test]
fn a_pattern_reads_what_exists_and_matches_from_the_beginning() {
    let existing = ["orders", "orders-eu", "orders-us", "old-orders", "bills"];
    assert_eq!(read("^orders-.*", &existing), ["orders-eu", "orders-us"]);
    assert_eq!(
        read("^orders", &existing),
        ["orders", "orders-eu", "orders-us"]
    );
    assert_eq!(read("^orders$, ^b", &existing), ["bills", "orders"]);
    assert_eq!(
        read("^[a-z]{5}$,payments", &existing),
        ["bills", "payments"]
    );
    assert!(read("^nothing", &existing).is_empty());
}

#[test]
fn a_pattern_never_reads_topics_of_ours_and_tells_which() {
    let existing = [
        "__consumer_offsets",
        "orders",
        "orders.dead-letter",
        "orders.dead-letter.parking",
        "orders.delay.60s",
        "orders.schedule",
        "orders.shop.retry",
        "orders.other.retry",
    ];
    let subscription = Subscription::parse("^.*").unwrap();
    let resolved = subscription.resolve(existing, &own());
    assert_eq!(resolved.topics.into_iter().collect::<Vec<_>>(), ["orders"]);
    let left: Vec<_> = resolved.left_out.iter().map(|(_, kind)| *kind).collect();
    assert_eq!(
        left,
        [
            OwnTopic::Internal,
            OwnTopic::DeadLetters,
            OwnTopic::DeadLetters,
            OwnTopic::Delayed,
            OwnTopic::Schedule,
            OwnTopic::Retries,
            OwnTopic::Retries,
        ]
    );
    // Whose name is given is meant.
    let named = Subscription::parse("^orders,train.schedule,orders.schedule").unwrap();
    let topics = named.resolve(existing, &own()).topics;
    assert_eq!(
        topics.into_iter().collect::<Vec<_>>(),
        ["orders", "orders.schedule", "train.schedule"]
    );
}

/// A second group never sees the retries of the first.
#[test]
fn retries_of_this_group_are_read_and_of_no_other() {
    let existing = [
        "bills",
        "orders-eu",
        "orders-eu.shop.retry",
        "orders-eu.other.retry",
        "orders-gone.shop.retry",
        "orders-eu.dead-letter.shop.retry",
        "bills.shop.retry",
    ];
    let subscription = Subscription::parse("^orders-.*, payments").unwrap();
    let subscription = subscription.with_retries("shop", []).unwrap();
    let topics = subscription.resolve(existing, &own()).topics;
    assert_eq!(
        topics.into_iter().collect::<Vec<_>>(),
        [
            "orders-eu",
            "orders-eu.shop.retry",
            // Its source is gone, its records are not.
            "orders-gone.shop.retry",
            "payments",
            "payments.shop.retry",
        ]
    );
}

#[test]
fn what_is_no_subscription_is_refused() {
    for text in ["", " , ", "a b", "orders,^(", "^a(?!b)", "..", "^(?=x)y"] {
        let error = Subscription::parse(text).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{text}");
        assert!(error.to_string().contains("topics"), "{error}");
    }
    let long = "x".repeat(250);
    assert!(Subscription::parse(&long).is_err());
    assert!(Subscription::parse(&long[..249]).is_ok());
    // It would take too much memory.
    assert!(Subscription::parse("^((a{1,500}){1,500}){1,500}").is_err());
}

#[test]
fn what_would_feed_on_itself_is_refused() {
    let check = |topics: &str, template: &str, retries: bool| {
        let own = OwnTopics::new(template, "shop").unwrap();
        let mut subscription = Subscription::parse(topics).unwrap();
        if retries {
            subscription = subscription.with_retries("shop", []).unwrap();
        }
        subscription.check_dead_letters(template, &own, "shop")
    };
    for (topics, template) in [
        ("orders,orders.dead-letter", TEMPLATE),
        ("^ord, orders.dead-letter", TEMPLATE),
        ("^.*,graveyard", "graveyard"),
        ("graveyard,orders", "graveyard"),
        ("orders,shop.orders", "${group}.${topic}"),
    ] {
        let error = check(topics, template, false).unwrap_err();
        assert!(
            error.message().contains("for ever") || error.message().contains("itself"),
            "{error}"
        );
    }
    assert!(check("orders", "${topic}.${group}.retry", true).is_err());
    assert!(check("^orders", "${topic}.${group}.retry", true).is_err());
    for (topics, template) in [
        ("orders,payments", TEMPLATE),
        ("^ord", TEMPLATE),
        // Dead letters of others, read by name; their own go further.
        ("orders.dead-letter", TEMPLATE),
        ("^bills, orders.dead-letter", TEMPLATE),
        ("orders,other.orders", "${group}.${topic}"),
        ("^.*", "graveyard"),
        ("orders", "${topic}.${group}.retry"),
    ] {
        check(topics, template, false).unwrap();
    }
}

fn name() -> impl Strategy<Value = String> {
    "[a-z][a-z0-9._-]{0,20}"
}

proptest! {
    /// Whatever the template: a pattern reads neither the dead letters of what it reads nor those of
    /// another group, nor retries.
    #[test]
    fn no_pattern_reads_what_a_pipeline_writes(
        topic in name(),
        group in "[a-z][a-z0-9-]{0,10}",
        template in prop_oneof![
            Just("${topic}.dead-letter".to_owned()),
            "[a-z-]{0,4}\\$\\{topic\\}[a-z.-]{1,5}",
            "[a-z-]{1,4}\\$\\{group\\}[a-z.]{1,3}\\$\\{topic\\}",
            "[a-z]{3,9}",
        ],
    ) {
        let own = OwnTopics::new(&template, "shop").unwrap();
        let all = Subscription::parse("^.*").unwrap();
        let letters: Vec<String> = ["shop", &group]
            .iter()
            .filter_map(|group| {
                kafka_chain::dead_letter::destination(&template, &topic, Some(group)).ok()
            })
            .collect();
        let retries = kafka_chain::dead_letter::retry_topic(&topic, &group).unwrap();
        let mut existing: Vec<&str> = letters.iter().map(String::as_str).collect();
        existing.push(&retries);
        let resolved = all.resolve(existing.iter().copied(), &own);
        prop_assert!(resolved.topics.is_empty(), "{resolved:?}");
        if let Some(letters) = letters.first() && template.contains("${topic}") {
            prop_assert_eq!(own.source_of(letters), Some(topic));
        }
    }
}

#[test]
fn retries_that_wait_in_topics_are_read_from_each_of_them() {
    let own = OwnTopics::new(TEMPLATE, "shop").unwrap();
    let delays = ["5s".to_owned(), "1m".to_owned()];
    let subscription = Subscription::parse("orders,^pay").unwrap();
    let subscription = subscription.with_retries("shop", delays).unwrap();
    let existing = [
        "payments",
        "payments.shop.retry.1m",
        "payments.shop.retry.7m",
        "payments.shop.retry",
        "payments.other.retry.1m",
    ];
    let resolved = subscription.resolve(existing, &own);
    let read: Vec<&str> = resolved.topics.iter().map(String::as_str).collect();
    assert_eq!(
        read,
        [
            "orders",
            "orders.shop.retry.1m",
            "orders.shop.retry.5s",
            "payments",
            "payments.shop.retry.1m"
        ]
    );
}
