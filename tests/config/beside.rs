//! Configurations that people write and get wrong: what is said of them, and what is not shown.

use crate::support::{configure, mistakes, properties, registry};
use kafka_chain::config::Registry;
use kafka_chain::{Part, Record, Value, deserialize_with};

fn of_length(length: i64) -> Registry {
    named(Registry::builtin(), "com.acme.StringDeserializer", length)
}

fn named(registry: Registry, class: &str, answer: i64) -> Registry {
    registry.with_deserializer(class, move |_| {
        Some(deserialize_with(move |input| {
            Ok(input.payload.as_bytes().map(|_| answer))
        }))
    })
}

/// A class of one's own does not take the built-in one of the same simple name away.
#[tokio::test]
async fn a_class_of_ones_own_stands_beside_the_built_in_one() {
    let text = "\
key.deserializer=org.apache.kafka.common.serialization.StringDeserializer
value.deserializer=com.acme.StringDeserializer
value.serializer=string
";
    let configuration = of_length(7)
        .configure(&properties(text))
        .unwrap_or_else(|r| panic!("{r}"));
    let record = Record {
        key: Some(b"k"),
        ..Record::of_value(Some(b"v"))
    };
    let key = configuration.deserializer::<String>(Part::Key).unwrap();
    assert_eq!(
        key.read(&record).await.unwrap().unwrap().as_deref(),
        Some("k")
    );
    let value = configuration.deserializer::<i64>(Part::Value).unwrap();
    assert_eq!(value.read(&record).await.unwrap().unwrap(), Some(7));

    let both = of_length(7).configure(&properties("value.deserializer=StringDeserializer"));
    let report = both.unwrap_err().to_string();
    assert!(report.contains("`StringDeserializer` may be "), "{report}");
}

#[tokio::test]
async fn two_classes_of_one_simple_name_are_two_types() {
    let registry = named(Registry::builtin(), "com.a.FooDeserializer", 1);
    let registry = named(registry, "com.b.FooDeserializer", 2);
    let text = "\
key.deserializer=com.a.FooDeserializer
value.deserializer=com.b.FooDeserializer
";
    let configuration = registry
        .configure(&properties(text))
        .unwrap_or_else(|r| panic!("{r}"));
    let record = Record {
        key: Some(b"k"),
        ..Record::of_value(Some(b"v"))
    };
    for (part, answer) in [(Part::Key, 1), (Part::Value, 2)] {
        let chain = configuration.deserializer::<i64>(part).unwrap();
        assert_eq!(chain.read(&record).await.unwrap().unwrap(), Some(answer));
    }
    let either = registry.configure(&properties("value.deserializer=FooDeserializer"));
    let report = either.unwrap_err().to_string();
    assert!(
        report.contains("com.a.FooDeserializer or com.b.FooDeserializer: write the full name"),
        "{report}"
    );
}

#[test]
fn two_matchers_of_one_simple_name_must_be_told_apart() {
    let never = |_: &kafka_chain::Error| false;
    let registry = registry(0)
        .0
        .with_matcher("com.a.Busy", never)
        .with_matcher("com.b.Busy", never);
    let text = |matcher: &str| {
        properties(&format!(
            "value.deserializer=retry(bytes)\nretry.deserializer.matcher={matcher}"
        ))
    };
    let report = registry.configure(&text("Busy")).unwrap_err().to_string();
    assert!(
        report.contains("`Busy` may be com.a.Busy or com.b.Busy"),
        "{report}"
    );
    assert!(registry.configure(&text("com.b.Busy")).is_ok());
}

#[test]
fn a_wrong_matcher_names_the_nearest_the_registered_ones_among_them() {
    for (wrong, right) in [
        ("MatchAllExceptoins", "MatchAllExceptions"),
        (
            "org.apache.ExceptionHandlingDeserializer.MatchAllExcpetions",
            "MatchAllExceptions",
        ),
        ("status(permanant)", "permanent"),
    ] {
        let found = mistakes(&format!(
            "value.deserializer=exception-handling(bytes)\n\
             exception.handling.deserializer.matcher={wrong}\n"
        ));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].ends_with(&format!("did you mean `{right}`?")),
            "{found:?}"
        );
    }
}

/// A part whose chain could not be built still has its keys checked.
#[test]
fn a_misspelt_key_is_found_beside_a_misspelt_type() {
    let found = mistakes(
        "value.deserializer=exception-handling(jsno)\n\
         value.deserializer.exception-handling.matchr=all\n",
    );
    assert_eq!(found.len(), 2, "{found:#?}");
    assert!(
        found[1].ends_with("did you mean value.deserializer.exception-handling.matcher?"),
        "{found:#?}"
    );
    let found = mistakes(
        "value.deserializer=retyr(json)\nvalue.deserializer.retry.backoff=none\n\
         value.retry.deserializer.seed=1\n",
    );
    assert_eq!(
        found.len(),
        1,
        "the keys of the type that was meant are no mistakes: {found:#?}"
    );
}

#[test]
fn a_role_that_could_not_be_resolved_makes_no_further_mistakes() {
    let text = "value.deserializer=${env:KAFKA_CHAIN_TEST_IS_NOT_SET}\n\
                value.deserializer.retry.backoff=none\n";
    let report = registry(0)
        .0
        .resolve_and_configure(properties(text))
        .unwrap_err();
    assert_eq!(report.len(), 1, "{report}");
}

#[test]
fn a_key_of_another_backoff_is_not_its_own_suggestion() {
    let found = mistakes(
        "value.deserializer=retry(json)\n\
         value.deserializer.retry.backoff=exponential\n\
         value.deserializer.retry.backoff.fixed.intervalSeconds=3\n",
    );
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].contains("of backoffs the one that is chosen"),
        "{found:?}"
    );
    assert!(!found[0].contains("did you mean"), "{found:?}");
}

#[test]
fn an_instance_supersedes_the_flat_keys_of_its_role_too() {
    let instance = deserialize_with(|_| Ok(Some(1_i64)));
    let registry = Registry::builtin().with_instance(Part::Value, instance);
    let text = "value.retry.deserializer.backoff=fixed\nvalue.deserializer.retry.seed=1\n";
    let configuration = registry
        .configure(&properties(text))
        .unwrap_or_else(|r| panic!("{r}"));
    assert_eq!(configuration.warnings().len(), 2);
}

#[test]
fn failures_inside_a_list_are_linted() {
    let configuration = configure("value.deserializer=list(exception-handling(long))").unwrap();
    let lints: Vec<_> = configuration
        .lints()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(lints.len(), 1);
    assert!(
        lints[0].contains("failures of its entries become entries"),
        "{lints:?}"
    );
    assert!(configuration.deserializer::<Value>(Part::Value).is_ok());
}

/// FC-111: of a value that came from a placeholder nothing is shown, whoever refuses it.
#[cfg(feature = "kafka")]
#[test]
fn what_the_client_refuses_is_not_quoted() {
    for (key, value) in [
        ("security.protocol", "hunter2"),
        ("compression.type", "hunter2"),
        ("session.timeout.ms", "987654321987"),
        ("acks", "987654321"),
    ] {
        let resolve = |name: &str| (name == "S").then(|| value.to_owned());
        let text = properties(&format!("{key}=${{env:S}}\n"));
        let resolved = text.resolve_with(&resolve).unwrap();
        let report = Registry::builtin()
            .configure(&resolved)
            .unwrap_err()
            .to_string();
        assert!(report.contains(key) && !report.contains(value), "{report}");
        assert!(!report.contains("\\n"), "{report}");
    }
    let text = properties("value.deserializer=${env:L}\nvalue.deserializer.zz.q=1\n");
    let resolved = text
        .resolve_with(&|_| Some("retry#hunter2(json)".to_owned()))
        .unwrap();
    let report = Registry::builtin()
        .configure(&resolved)
        .unwrap_err()
        .to_string();
    assert!(!report.contains("hunter2"), "{report}");
}

#[cfg(feature = "kafka")]
#[test]
fn the_clients_values_are_trimmed_and_set_once() {
    let configuration = configure(
        "group.id=shop \nenable.auto.commit=false \nfetch.max.wait.ms=100\nfetch.wait.max.ms=200\n\
         config.providers=env\nconfig.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider\n",
    );
    let configuration = configuration.unwrap_or_else(|report| panic!("{report}"));
    let client = configuration.client();
    assert_eq!(client.value("group.id"), Some("shop"));
    assert_eq!(client.value("enable.auto.commit"), Some("false"));
    let warnings: Vec<_> = configuration
        .warnings()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(warnings.len(), 3, "{warnings:#?}");
    assert!(
        warnings
            .iter()
            .any(|w| w.contains("`fetch.wait.max.ms` is set at test.properties:3"))
    );
}

#[cfg(feature = "kafka")]
#[test]
fn settings_of_the_dead_letter_producer_are_checked() {
    let found =
        mistakes("dead.letter.producer.acsk=all\ndead.letter.producer.compression.type=foo\n");
    assert_eq!(found.len(), 2, "{found:#?}");
    assert!(
        found[0].ends_with("did you mean dead.letter.producer.acks?"),
        "{found:#?}"
    );
    let good = configure("dead.letter.producer.linger.ms=7\n").unwrap();
    assert_eq!(
        good.own().value("dead.letter.producer.linger.ms"),
        Some("7")
    );
}

/// Mistakes of the syntax do not hide the others of the file.
#[test]
fn a_file_with_a_bad_escape_is_reported_whole() {
    let path = std::env::temp_dir().join(format!("kafka-chain-{}.properties", std::process::id()));
    let text =
        "shop.city=\\u12zz\nvalue.deserializer=jsno\nshop.x=${env:KAFKA_CHAIN_TEST_IS_NOT_SET}\n";
    std::fs::write(&path, text).unwrap();
    let report = registry(0).0.load(&path).unwrap_err();
    std::fs::remove_file(&path).unwrap();
    let found: Vec<_> = report.iter().map(ToString::to_string).collect();
    assert_eq!(found.len(), 3, "{found:#?}");
    assert!(
        found
            .iter()
            .any(|mistake| mistake.contains("malformed \\u escape")),
        "{found:#?}"
    );
    assert!(
        found.iter().any(|mistake| mistake.contains("`jsno`")),
        "{found:#?}"
    );
    assert!(
        found.iter().any(|mistake| mistake.contains("IS_NOT_SET")),
        "{found:#?}"
    );
}
