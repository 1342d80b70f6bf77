//! Where an error arose, as the stage path says it, and what a chain may be used for.

use crate::support::{Leaf, PERMANENT, Step, TEMPORARY, Waits, read};
use bytes::Bytes;
use kafka_chain::codecs::json::json;
use kafka_chain::decorators::{ChainExt, ExceptionHandling};
use kafka_chain::{
    Answer, BoxDeserializer, BoxSerializer, Component, Deserializer, Error, Failure, Input, Part,
    Payload, Record, Serializer, Target, Value, deserialize, deserialize_with,
};

#[tokio::test(start_paused = true)]
async fn a_path_names_each_decorator_and_half_down_to_the_leaf() {
    let leaf = |step: &Step| Leaf::new([step.clone()]).named("aes-gcm");
    for step in [PERMANENT, TEMPORARY, PERMANENT.later(crate::support::ms(1))] {
        let waits = Waits([10]);
        let from = leaf(&step)
            .pipe(json::<u32>())
            .retry(waits)
            .handle_exceptions();
        let path = "exception-handling > retry > pipe.from > aes-gcm";
        let failure = read(&from, b"x").await.unwrap().unwrap_err();
        assert_eq!(failure.error.stage_path(), path);
        assert!(failure.to_string().contains(path));

        let to = leaf(&Step::Echo)
            .pipe(leaf(&step).retry(waits))
            .handle_exceptions();
        let failure = read(&to, b"x").await.unwrap().unwrap_err();
        let path = "exception-handling > pipe.to > retry > aes-gcm";
        assert_eq!(failure.error.stage_path(), path);
    }
}

#[tokio::test(start_paused = true)]
async fn labels_stand_in_for_names_and_print_beside_them() {
    let chain = Leaf::new([TEMPORARY])
        .named("vault")
        .retry(Waits([10]))
        .labelled("kms")
        .pipe(json::<u32>())
        .labelled("open")
        .handle_exceptions()
        .labelled("orders");
    let failure = read(&chain, b"x").await.unwrap().unwrap_err();
    assert_eq!(
        failure.error.stage_path(),
        "orders > open.from > kms > vault"
    );
    let stages: Vec<_> = failure.error.stages().collect();
    assert_eq!(stages, ["orders", "open.from", "kms", "vault"]);
    let tree = "exception-handling#orders(pipe#open(retry#kms(<vault>), json))";
    assert_eq!(chain.describe().to_string(), tree);
}

/// The wrong order: the handling turns errors into values, so the retry around it sees none.
#[tokio::test(start_paused = true)]
async fn a_retry_around_a_handling_never_tries_again() {
    let leaf = Leaf::new([TEMPORARY]);
    let handling = leaf
        .named("leaf")
        .handle_exceptions()
        .matcher(kafka_chain::matcher::all());
    let failure = read(&handling.retry(Waits([10; 5])), b"x")
        .await
        .unwrap()
        .unwrap_err();
    assert_eq!((leaf.calls(), failure.error.attempts()), (1, 1));
    assert_eq!(failure.error.stage_path(), "exception-handling > leaf");
}

fn is_send<T: Send>(value: T) -> T {
    value
}

fn is_shared<T: Send + Sync + 'static>(value: T) -> T {
    value
}

/// Compiling is the proof.
#[tokio::test]
async fn answers_are_send_and_chains_can_be_shared() {
    is_send::<Option<Answer<'_, Value>>>(None);
    is_shared::<Option<(Error, Box<Failure>, Value)>>(None);

    let leaf = || Leaf::new([Step::Echo]).named("leaf");
    let chain = is_shared(leaf().pipe(leaf()).retry(Waits([10])).handle_exceptions());
    let record = Record::of_value(Some(b"x"));
    is_send(deserialize(&chain, &record, Part::Value))
        .await
        .unwrap()
        .unwrap();
    let context = record.context(Part::Value);
    is_send(is_send(chain.deserialize(Input::of(&context))).into_future())
        .await
        .unwrap()
        .unwrap();
    is_send(is_send(chain.close()).into_future()).await.unwrap();

    let boxed: BoxDeserializer<_> = is_shared(chain.boxed());
    is_send(deserialize(&boxed, &record, Part::Value))
        .await
        .unwrap()
        .unwrap();

    let erased = deserialize_with(|input| Ok(Value::from(input.payload.into_bytes())));
    let erased = is_shared(ExceptionHandling::erased(erased.retry(Waits([10]))).boxed());
    is_send(deserialize(&erased, &record, Part::Value))
        .await
        .unwrap();

    let writer: BoxSerializer<[u8]> = leaf().pipe(leaf()).retry(Waits([10])).boxed_serializer();
    let (writer, target) = (is_shared(writer), Target::new("orders", Part::Value));
    let answer = is_send(writer.serialize(Payload::from(Bytes::from_static(b"x")), &target));
    is_send(answer.into_future()).await.unwrap();

    // A chain is shared by tasks of its own.
    let shared = std::sync::Arc::new(boxed);
    let tasks = (0..4_u8).map(|n| {
        let shared = shared.clone();
        tokio::spawn(async move {
            let bytes = [n];
            let record = Record::of_value(Some(&bytes));
            deserialize(&shared, &record, Part::Value)
                .await
                .unwrap()
                .unwrap()
        })
    });
    for (n, task) in tasks.collect::<Vec<_>>().into_iter().enumerate() {
        assert_eq!(task.await.unwrap().as_deref(), Some(&[n as u8][..]));
    }
}
