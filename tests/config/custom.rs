//! Names of one's own: types, matchers, backoffs; and chains made at random.

use crate::support::properties;
use kafka_chain::backoff::{Backoff, SharedBackoff};
use kafka_chain::codecs::json::json;
use kafka_chain::config::{BackoffSpec, KeySpec, Registry};
use kafka_chain::{Error, Part, Record, Status, Tree, Value, deserialize_with};
use proptest::prelude::*;
use std::time::Duration;

/// The n-th wait is n steps.
struct Linear(Duration, u32);

impl Backoff for Linear {
    fn wait(&self, retry: u32, _: f64) -> Option<Duration> {
        (retry <= self.1).then(|| self.0 * retry)
    }

    fn retries(&self) -> Option<u32> {
        Some(self.1)
    }
}

fn registry() -> Registry {
    const KEYS: &[KeySpec] = &[KeySpec::new("step.ms", "milliseconds", "A step.").or("10")];
    Registry::builtin()
        .with_backoff(
            BackoffSpec::new("linear", |scope| {
                let step =
                    scope.parse::<u64>("step.ms", "a number of milliseconds", |_| true)??;
                Some(SharedBackoff::new(Linear(Duration::from_millis(step), 3)))
            })
            .class("com.example.LinearBackoff")
            .keys(KEYS),
        )
        .with_matcher("com.example.Busy", |error: &Error| {
            error.message() == "busy"
        })
        .with_deserializer("com.example.VaultDeserializer", |_| {
            Some(deserialize_with(|input| match input.payload.as_bytes() {
                Some(b"busy") => Err(Error::schema("busy")),
                bytes => Ok(bytes.map(bytes::Bytes::copy_from_slice)),
            }))
        })
        .with_json::<Order>("com.example.OrderDeserializer")
}

#[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
struct Order {
    item: String,
}

#[tokio::test(start_paused = true)]
async fn a_backoff_and_a_matcher_of_ones_own_go_by_name_and_by_class() {
    for (backoff, matcher) in [
        ("linear", "Busy"),
        ("com.example.LinearBackoff", "com.example.Busy"),
    ] {
        let text = format!(
            "value.deserializer=retry(com.example.VaultDeserializer)\n\
             retry.deserializer.backoff={backoff}\n\
             retry.deserializer.backoff.linear.step.ms=20\n\
             retry.deserializer.matcher={matcher}\n"
        );
        let configuration = registry()
            .configure(&properties(&text))
            .unwrap_or_else(|report| panic!("{report}"));
        let chain = configuration.deserializer::<Value>(Part::Value).unwrap();
        assert_eq!(chain.to_string(), "retry(vault)");
        let started = tokio::time::Instant::now();
        let error = chain
            .read(&Record::of_value(Some(b"busy")))
            .await
            .unwrap_err();
        assert_eq!((error.attempts(), error.status()), (4, Status::Permanent));
        assert_eq!(started.elapsed(), Duration::from_millis(20 + 40 + 60));
    }
}

#[tokio::test]
async fn a_type_of_ones_own_comes_out_of_the_chain_as_itself_and_goes_in() {
    let text = "value.deserializer=com.example.OrderDeserializer\n\
                value.serializer=com.example.OrderSerializer\n";
    let configuration = registry()
        .configure(&properties(text))
        .unwrap_or_else(|report| panic!("{report}"));
    let chain = configuration.deserializer::<Order>(Part::Value).unwrap();
    let read = chain
        .read(&Record::of_value(Some(br#"{"item":"cup"}"#)))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(read, Some(Order { item: "cup".into() }));

    let writer = configuration.serializer(Part::Value).unwrap();
    let written = writer
        .write("t", &Value::of(Order { item: "cup".into() }))
        .await
        .unwrap();
    assert_eq!(written.payload.as_deref(), Some(&br#"{"item":"cup"}"#[..]));
    let refused = writer.write("t", &Value::Long(1)).await.unwrap_err();
    assert!(
        refused.message().ends_with("but was given long"),
        "{refused}"
    );
    let _ = json::<Order>();
}

/// A chain of decorators and leaves, each with a label of its own.
fn chains() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![
        Just("bytes"),
        Just("string"),
        Just("long"),
        Just("json"),
        Just("uuid"),
        Just("double")
    ]
    .prop_map(Tree::leaf);
    let chain = leaf.prop_recursive(8, 40, 2, |inner| {
        prop_oneof![
            inner.clone().prop_map(|tree| Tree::of("retry", [tree])),
            inner
                .clone()
                .prop_map(|tree| Tree::of("exception-handling", [tree])),
            inner.clone().prop_map(|tree| Tree::of("list", [tree])),
            inner.prop_map(|tree| Tree::of("pipe", [Tree::leaf("bytes"), tree])),
        ]
    });
    chain.prop_map(|mut tree| {
        fn label(tree: &mut Tree, next: &mut usize) {
            *next += 1;
            tree.label = Some(format!("n{next}"));
            tree.delegates.iter_mut().for_each(|tree| label(tree, next));
        }
        label(&mut tree, &mut 0);
        tree
    })
}

proptest! {
    #[test]
    fn what_a_chain_prints_builds_a_chain_that_prints_the_same(tree in chains()) {
        let print = |text: &str| {
            let configuration = registry()
                .configure(&properties(&format!("value.deserializer={text}")))
                .unwrap_or_else(|report| panic!("{report}"));
            configuration.deserializer::<Value>(Part::Value).unwrap().to_string()
        };
        let first = print(&tree.to_string());
        prop_assert_eq!(&first, &tree.to_string());
        prop_assert_eq!(print(&first), first);
    }
}
