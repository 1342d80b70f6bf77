//! Dead letters of a pipeline: missing topics, large records, and what properties say of them.

use super::support::{PARTITIONS, Rig, Seen, Started, builder, record, until, values};
use bytes::Bytes;
use kafka_chain::config::{Configuration, Registry};
use kafka_chain::dead_letter::{Dialect, read, read_as};
use kafka_chain::pipeline::{Event, HandlerContext, Pipeline, PipelineEvent, Work, handle_with};
use kafka_chain::properties::Properties;
use kafka_chain::transport::kafka::KafkaRecord;
use kafka_chain::{Error, OutgoingRecord};

/// Handles what does not begin with `bad`, and notes what could not be written.
fn choosy(
    configuration: &Configuration,
    seen: &Seen,
    unwritten: &Seen,
) -> Pipeline<impl Work<KafkaRecord> + use<>> {
    let (seen, unwritten) = (seen.clone(), unwritten.clone());
    builder(configuration)
        .values::<String>()
        .unwrap()
        .observer(move |event: &PipelineEvent<'_>| {
            if let PipelineEvent::Record {
                event: Event::Unwritten { error, .. },
                ..
            } = event
            {
                unwritten.push(error.to_string());
            }
        })
        .handler(handle_with(move |order: String, _: &HandlerContext<'_>| {
            let bad = order.starts_with("bad");
            if !bad {
                seen.push(order);
            }
            async move {
                match bad {
                    true => Err(Error::schema("it is bad")),
                    false => Ok(()),
                }
            }
        }))
        .unwrap()
}

/// FC-024: the partition holds, is not committed, and says why; others go on; no restart.
#[tokio::test]
async fn a_missing_topic_holds_one_partition_until_it_exists() {
    let rig = Rig::new(&["orders"]);
    for n in 0..4 {
        rig.produce("orders", &values(n * 3..n * 3 + 3)).await;
    }
    rig.sink.send(record("orders", 1, "bad")).await.unwrap();
    rig.produce("orders", &values(12..90)).await;
    let configuration = rig.configuration("");
    let (seen, unwritten) = (Seen::default(), Seen::default());
    let started = Started::of(choosy(&configuration, &seen, &unwritten));
    // What was taken behind the bad one may be handled, but is not committed.
    until("it is tried again", || unwritten.all().len() >= 3).await;
    let others = || {
        let mut others = values(0..90);
        others.retain(|order| order[6..].parse::<i32>().unwrap() % PARTITIONS != 1);
        others.iter().all(|order| seen.set().contains(order))
    };
    until("the other partitions go on", others).await;
    let told = unwritten.all();
    let names = |text: &String| text.contains("topic orders.dead-letter does not exist");
    assert!(told.iter().all(names), "{told:?}");
    let summary = started.stop().await;
    assert_eq!(summary.uncommitted, 0);

    // The next run begins at the bad one.
    let started = Started::of(choosy(&configuration, &seen, &unwritten));
    let before = unwritten.all().len();
    until("it is held again", || unwritten.all().len() > before).await;
    rig.create("orders.dead-letter");
    let letters = rig.read("orders.dead-letter", 1).await;
    seen.wait_for(90).await;
    started.stop().await;
    let (_, info) = read(letters[0].headers.view()).unwrap();
    assert_eq!((info.partition(), info.offset()), (Some(1), Some(4)));
}

/// FC-034.
#[tokio::test]
async fn the_last_record_of_a_partition_is_dead_lettered_once_in_three_runs() {
    let rig = Rig::new(&["orders", "orders.dead-letter"]);
    rig.produce("orders", &values(0..3)).await;
    rig.sink.send(record("orders", 0, "bad")).await.unwrap();
    let configuration = rig.configuration("");
    let unwritten = Seen::default();
    for run in 0..3 {
        let seen = Seen::default();
        let started = Started::of(choosy(&configuration, &seen, &unwritten));
        if run == 0 {
            seen.wait_for(3).await;
            rig.read("orders.dead-letter", 1).await;
        } else {
            // In another partition: nothing follows the bad one.
            let again = format!("again-{run}");
            rig.sink.send(record("orders", 1, &again)).await.unwrap();
            seen.wait_for(1).await;
        }
        let summary = started.stop().await;
        assert_eq!((summary.abandoned, summary.uncommitted), (0, 0));
    }
    let end = record("orders.dead-letter", 0, "end");
    rig.sink.send(end).await.unwrap();
    let letters = rig.read("orders.dead-letter", 2).await;
    let values: Vec<_> = letters.into_iter().map(|letter| letter.value).collect();
    assert_eq!(values, [Some("bad".into()), Some("end".into())]);
}

#[tokio::test]
async fn properties_choose_dialects_and_the_producers_limits() {
    let rig = Rig::new(&["orders", "orders.shop.dead"]);
    let large = format!("bad{}", "x".repeat(5_000));
    for value in ["bad", &large] {
        let mut bad = record("orders", 2, value);
        bad.key = None;
        rig.sink.send(bad).await.unwrap();
    }
    let configuration = rig.configuration(
        "dead.letter.topic=${topic}.${group}.dead\n\
         dead.letter.dialects=connect, streams\n\
         dead.letter.producer.message.max.bytes=3000",
    );
    let (seen, unwritten) = (Seen::default(), Seen::default());
    let started = Started::of(choosy(&configuration, &seen, &unwritten));
    let letters = rig.read("orders.shop.dead", 2).await;
    started.stop().await;
    for letter in &letters {
        assert_eq!(letter.partition, 2);
        for dialect in [Dialect::Connect, Dialect::Streams] {
            let info = read_as(dialect, letter.headers.view()).unwrap();
            assert_eq!(info.topic(), Some("orders"));
        }
        assert_eq!(read_as(Dialect::KafkaChain, letter.headers.view()), None);
        let stage = letter.headers.view().get_last("__connect.errors.stage");
        assert_eq!(stage.flatten(), Some(&b"TASK_PUT"[..]));
    }
    assert_eq!(letters[0].value.as_deref(), Some(&b"bad"[..]));
    let left_out = |n: usize| {
        let info = read_as(Dialect::Connect, letters[n].headers.view());
        info.unwrap().value_left_out()
    };
    assert_eq!((left_out(0), left_out(1)), (None, Some(5_003)));
    assert_eq!(unwritten.all().len(), 0);
}

#[tokio::test]
async fn what_fits_in_no_way_stops_the_pipeline_where_that_was_asked_for() {
    let rig = Rig::new(&["orders", "orders.dead-letter"]);
    rig.produce("orders", &values(0..3)).await;
    let mut bad: OutgoingRecord = record("orders", 0, "bad");
    bad.headers.push("mine", Some("h".repeat(5_000)));
    rig.sink.send(bad).await.unwrap();
    let configuration = rig
        .configuration("dead.letter.too.large=stop\ndead.letter.producer.message.max.bytes=3000");
    let (seen, unwritten) = (Seen::default(), Seen::default());
    let started = Started::of(choosy(&configuration, &seen, &unwritten));
    let text = started.ended().await.unwrap_err().to_string();
    for told in ["orders-0@1", "orders.dead-letter", "too large"] {
        assert!(text.contains(told), "{text}");
    }
}

#[test]
fn mistakes_of_dead_letters_are_found_before_the_first_record() {
    let text = "bootstrap.servers=a:1\ngroup.id=shop\ntopics=orders\nvalue.deserializer=string\n\
                dead.letter.dialects=spring,sprung\ndead.letter.timestamp=never\n\
                dead.letter.too.large=drop";
    let properties: Properties = text.parse().unwrap();
    let report = Registry::builtin().configure(&properties).unwrap_err();
    let report = report.to_string();
    for told in [
        "no dialect is called `sprung`",
        "never",
        "`pause` or `stop`",
    ] {
        assert!(report.contains(told), "{report}");
    }
}

/// librdkafka reads 100,000 headers at most; with none of them the record would be another one.
#[tokio::test]
async fn a_record_whose_headers_cannot_be_read_is_dead_lettered_unhandled() {
    let rig = Rig::new(&["orders", "orders.dead-letter"]);
    let mut crowded = record("orders", 1, "crowded");
    for _ in 0..100_001 {
        crowded.headers.push("h", None::<Bytes>);
    }
    rig.sink.send(crowded).await.unwrap();
    rig.sink.send(record("orders", 1, "good")).await.unwrap();
    let configuration = rig.configuration("");
    let (seen, unwritten) = (Seen::default(), Seen::default());
    let started = Started::of(choosy(&configuration, &seen, &unwritten));
    let letters = rig.read("orders.dead-letter", 1).await;
    seen.wait_for(1).await;
    started.stop().await;
    assert_eq!(seen.all(), ["good"]);
    assert_eq!(letters[0].value.as_deref(), Some(&b"crowded"[..]));
    let (_, info) = read(letters[0].headers.view()).unwrap();
    let text = info.message().unwrap();
    assert!(text.contains("headers cannot be read"), "{text}");
}
