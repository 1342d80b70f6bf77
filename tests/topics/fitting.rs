//! Do topics fit? What is wrong, how bad it is, and what mends it.

use kafka_chain::Error;
use kafka_chain::pipeline::topics::{
    AtLeast, Commands, LetterNeeds, Severity, TopicNeed, TopicProblem, TopicUse, check, needs,
};
use kafka_chain::transport::Settings;
use kafka_chain::transport::kafka::{TopicConfigs, TopicDetails, TopicFound, TopicState};
use std::time::Duration;

const DAY: u64 = 86_400_000;

fn topic(name: &str, partitions: i32, configs: &[(&str, &str)]) -> TopicFound {
    let configs = configs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    TopicFound {
        name: name.to_owned(),
        state: TopicState::Exists(TopicDetails {
            partitions,
            replication: 3,
            configs: TopicConfigs::Known(configs.collect()),
        }),
    }
}

fn usual(name: &str, partitions: i32) -> TopicFound {
    topic(
        name,
        partitions,
        &[
            ("cleanup.policy", "delete"),
            ("retention.ms", "604800000"),
            ("max.message.bytes", "1048588"),
            ("message.timestamp.type", "CreateTime"),
        ],
    )
}

fn state(name: &str, state: TopicState) -> TopicFound {
    TopicFound {
        name: name.to_owned(),
        state,
    }
}

fn letters() -> LetterNeeds<'static> {
    LetterNeeds {
        template: "${topic}.dead-letter",
        group: "shop",
        dialects: 1,
        routed: false,
        source_timestamps: false,
        retries: None,
    }
}

fn commands() -> Commands {
    let settings: Settings = [("bootstrap.servers", "a:1,b:2")].into_iter().collect();
    Commands::of(&settings)
}

fn only(problems: &[TopicProblem]) -> (&TopicProblem, String) {
    let [problem] = problems else {
        panic!("{problems:?}");
    };
    (problem, commands().command(problem).unwrap_or_default())
}

#[test]
fn topics_as_brokers_make_them_fit() {
    let needs = needs(&[usual("orders", 6)], &letters());
    assert_eq!(needs.len(), 1);
    assert_eq!(check(&needs, &[usual("orders.dead-letter", 6)]), []);
    assert_eq!(check(&needs, &[usual("orders.dead-letter", 12)]), []);
    assert_eq!(check(&needs, &[]), [], "nobody looked");
}

#[test]
fn a_topic_that_is_missing_is_created_like_its_source() {
    let needs = needs(&[usual("orders", 6)], &letters());
    let problems = check(&needs, &[state("orders.dead-letter", TopicState::Missing)]);
    let (problem, command) = only(&problems);
    assert_eq!(problem.severity, Severity::Error);
    assert!(
        problem.to_string().contains("dead letters of orders"),
        "{problem}"
    );
    assert_eq!(
        command,
        "kafka-topics.sh --bootstrap-server a:1,b:2 --create --topic orders.dead-letter \
         --partitions 6 --replication-factor 3 --config cleanup.policy=delete \
         --config max.message.bytes=1058828 --config retention.ms=1209600000"
    );
}

#[test]
fn a_source_that_is_not_there_yet_is_a_warning_and_so_is_what_it_will_need() {
    let sources = [state("orders", TopicState::Missing)];
    let needs = needs(&sources, &letters());
    let problems = check(&needs, &[state("orders.dead-letter", TopicState::Missing)]);
    let (problem, command) = only(&problems);
    assert_eq!(problem.severity, Severity::Warning);
    assert_eq!(command, "", "nobody knows how many partitions");
    let read = TopicNeed::new("orders", TopicUse::Source, Severity::Warning);
    let problems = check(&[read], &sources);
    assert_eq!(only(&problems).0.severity, Severity::Warning);
}

#[test]
fn fewer_partitions_or_copies_are_a_warning() {
    let needs = needs(&[usual("orders", 6)], &letters());
    let problems = check(&needs, &[usual("orders.dead-letter", 2)]);
    let (problem, command) = only(&problems);
    assert_eq!(problem.severity, Severity::Warning);
    assert_eq!(
        command,
        "kafka-topics.sh --bootstrap-server a:1,b:2 --alter --topic orders.dead-letter --partitions 6"
    );
    let mut single = usual("orders.dead-letter", 6);
    if let TopicState::Exists(details) = &mut single.state {
        details.replication = 1;
    }
    let problems = check(&needs, &[single]);
    let (problem, command) = only(&problems);
    assert_eq!(
        (problem.severity, command.as_str()),
        (Severity::Warning, "")
    );
}

#[test]
fn a_compacted_topic_would_lose_letters() {
    let needs = needs(&[usual("orders", 1)], &letters());
    for policy in ["compact", "compact,delete", "delete, compact"] {
        let problems = check(
            &needs,
            &[topic(
                "orders.dead-letter",
                1,
                &[("cleanup.policy", policy)],
            )],
        );
        let (problem, command) = only(&problems);
        assert_eq!(problem.severity, Severity::Error, "{policy}");
        assert!(command.ends_with(
            "--alter --entity-type topics --entity-name orders.dead-letter \
             --add-config cleanup.policy=delete"
        ));
    }
    // What comes from a compacted topic is not kept that way.
    let source = topic(
        "orders",
        1,
        &[("cleanup.policy", "compact"), ("retention.ms", "1000")],
    );
    let needs = kafka_chain::pipeline::topics::needs(&[source], &letters());
    assert_eq!(check(&needs, &[usual("orders.dead-letter", 1)]), []);
}

#[test]
fn letters_are_kept_as_long_as_their_source() {
    let source = |kept: &str| topic("orders", 1, &[("retention.ms", kept)]);
    let needed = needs(&[source("2592000000")], &letters());
    let problems = check(&needed, &[usual("orders.dead-letter", 1)]);
    let (problem, command) = only(&problems);
    assert_eq!(problem.severity, Severity::Warning);
    assert!(problem.message.contains("604800000") && problem.message.contains("2592000000"));
    assert!(
        command.ends_with("--add-config retention.ms=2592000000"),
        "{command}"
    );
    let for_ever = topic("orders.dead-letter", 1, &[("retention.ms", "-1")]);
    assert_eq!(check(&needed, &[for_ever]), []);
    // A source that is kept for ever needs no letters that are; a new topic gets as much.
    let needed = needs(&[source("-1")], &letters());
    assert_eq!(check(&needed, &[usual("orders.dead-letter", 1)]), []);
    assert_eq!(needed[0].config["retention.ms"], "-1");
    assert_eq!(
        needs(&[source("1000")], &letters())[0].config["retention.ms"],
        "1209600000"
    );
}

#[test]
fn a_topic_that_takes_less_than_its_source_is_a_warning() {
    let needed = needs(
        &[topic("orders", 1, &[("max.message.bytes", "5000000")])],
        &letters(),
    );
    let problems = check(&needed, &[usual("orders.dead-letter", 1)]);
    let (problem, command) = only(&problems);
    assert_eq!(problem.severity, Severity::Warning);
    // With room for the headers.
    assert!(
        command.ends_with("--add-config max.message.bytes=5010240"),
        "{command}"
    );
    let needed = needs(
        &[topic("orders", 1, &[("max.message.bytes", "2147483647")])],
        &letters(),
    );
    assert_eq!(
        needed[0].config["max.message.bytes"], "2147483647",
        "the broker holds no more"
    );
}

/// A letter with an old record's timestamp is older than the retention when it is written.
#[test]
fn letters_with_the_timestamps_of_their_records_want_the_brokers() {
    let asked = LetterNeeds {
        source_timestamps: true,
        ..letters()
    };
    let needed = needs(&[usual("orders", 1)], &asked);
    let problems = check(&needed, &[usual("orders.dead-letter", 1)]);
    assert!(
        only(&problems)
            .1
            .ends_with("--add-config message.timestamp.type=LogAppendTime")
    );
}

#[test]
fn letters_of_several_topics_in_one_want_the_most_of_all() {
    let asked = LetterNeeds {
        template: "${group}.graveyard",
        ..letters()
    };
    let sources = [
        topic(
            "a",
            2,
            &[("retention.ms", "100"), ("max.message.bytes", "2000000")],
        ),
        topic(
            "b",
            9,
            &[
                ("retention.ms", "5000000000"),
                ("max.message.bytes", "1000"),
            ],
        ),
        usual("c", 1),
        usual("d", 1),
    ];
    let needed = needs(&sources, &asked);
    assert_eq!(needed.len(), 1);
    let need = &needed[0];
    assert_eq!(need.name, "shop.graveyard");
    assert_eq!(need.partitions, Some(AtLeast::advised(9)));
    assert_eq!(need.max_message_bytes, Some(AtLeast::advised(2_000_000)));
    let kept = Duration::from_millis(5_000_000_000);
    assert_eq!(need.retention, Some(AtLeast::advised(kept)));
    assert_eq!(need.config["retention.ms"], "5000000000");
    let problems = check(&needed, &[state("shop.graveyard", TopicState::Missing)]);
    let text = only(&problems).0.to_string();
    assert!(
        text.contains("dead letters of a") && text.contains("and 1 more"),
        "{text}"
    );
}

#[test]
fn retries_need_their_topic_too() {
    let asked = LetterNeeds {
        retries: Some(Vec::new()),
        ..letters()
    };
    // What comes back has its dead letters where its source has.
    let sources = [
        usual("orders", 3),
        usual("orders.shop.retry", 3),
        usual("orders.other.retry", 1),
    ];
    let needed = needs(&sources, &asked);
    let names: Vec<_> = needed.iter().map(|need| need.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "orders.dead-letter",
            "orders.other.retry.dead-letter",
            "orders.other.retry.shop.retry",
            "orders.shop.retry",
        ]
    );
    let problems = check(&needed, &[state("orders.shop.retry", TopicState::Missing)]);
    let (problem, command) = only(&problems);
    assert_eq!(problem.severity, Severity::Error);
    assert!(command.contains("--partitions 3") && command.contains("retention.ms=604800000"));
}

#[test]
fn a_delay_topic_is_kept_for_longer_than_its_records_wait() {
    let need = TopicNeed::delay("x.delay.7d", Duration::from_millis(7 * DAY));
    let kept = |millis: u64| {
        let kept = millis.to_string();
        let settings = [
            ("retention.ms", kept.as_str()),
            ("message.timestamp.type", "LogAppendTime"),
        ];
        check(
            std::slice::from_ref(&need),
            &[topic("x.delay.7d", 1, &settings)],
        )
    };
    assert_eq!(kept(14 * DAY), []);
    let problems = kept(7 * DAY);
    let (problem, command) = only(&problems);
    assert_eq!(problem.severity, Severity::Error);
    assert!(command.ends_with("retention.ms=1209600000"), "{command}");
    let far = TopicNeed::delay("far", Duration::MAX);
    let problems = check(&[far], &[usual("far", 1)]);
    assert_eq!(problems[0].severity, Severity::Error);
}

#[test]
fn rights_that_are_missing_are_warnings_that_name_them() {
    let needed = needs(&[usual("orders", 1)], &letters());
    let problems = check(&needed, &[state("orders.dead-letter", TopicState::Denied)]);
    let (problem, command) = only(&problems);
    assert_eq!(problem.severity, Severity::Warning);
    assert!(
        problem
            .message
            .contains("`Describe on Topic:orders.dead-letter`"),
        "{problem}"
    );
    assert_eq!(
        command,
        "kafka-acls.sh --bootstrap-server a:1,b:2 --add --allow-principal User:NAME \
         --operation Describe --topic orders.dead-letter"
    );
    let mut denied = usual("orders.dead-letter", 1);
    if let TopicState::Exists(details) = &mut denied.state {
        details.configs = TopicConfigs::Denied;
    }
    let problems = check(&needed, &[denied]);
    let (problem, _) = only(&problems);
    assert_eq!(problem.severity, Severity::Warning);
    assert!(
        problem.message.contains("`DescribeConfigs on Topic:"),
        "{problem}"
    );
    let unknown = TopicState::Unknown(Error::unavailable("no leader"));
    let problems = check(&needed, &[state("orders.dead-letter", unknown)]);
    assert!(only(&problems).0.message.contains("no leader"));
}

/// Of a broker without an admin API partitions are all that is known.
#[test]
fn configs_that_nobody_tells_are_no_problem() {
    let needed = needs(&[usual("orders", 3)], &letters());
    let mut unknown = usual("orders.dead-letter", 3);
    if let TopicState::Exists(details) = &mut unknown.state {
        details.configs = TopicConfigs::Unknown;
    }
    assert_eq!(check(&needed, &[unknown]), []);
}

#[test]
fn a_secured_cluster_and_odd_addresses_are_safe_to_paste() {
    let settings: Settings = [
        ("bootstrap.servers", "a:1; rm -rf 'x'"),
        ("security.protocol", "SASL_SSL"),
        ("sasl.password", "hunter2"),
    ]
    .into_iter()
    .collect();
    let needed = needs(&[usual("orders", 1)], &letters());
    let problems = check(&needed, &[state("orders.dead-letter", TopicState::Missing)]);
    let told = Commands::of(&settings).tell(&problems[0]);
    let expected =
        r"--bootstrap-server 'a:1; rm -rf '\''x'\''' --command-config client.properties --create";
    assert!(told.contains(expected), "{told}");
    assert!(!told.contains("hunter2"));
}
