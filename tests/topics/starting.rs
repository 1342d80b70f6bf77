//! A pipeline looks at its topics before it starts, and follows its pattern while it runs.

use kafka_chain::config::{Configuration, Registry};
use kafka_chain::pipeline::{
    HandlerContext, Pipeline, PipelineBuilder, PipelineEvent, PipelineHandle, Summary, handle_with,
};
use kafka_chain::transport::Settings;
use kafka_chain::transport::kafka::{EmbeddedBroker, KafkaSink};
use kafka_chain::{ErrorKind, Headers, OutgoingRecord, Result};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(40);

struct Rig {
    broker: EmbeddedBroker,
    sink: KafkaSink,
}

impl Rig {
    fn new(topics: &[(&str, i32)]) -> Self {
        let broker = EmbeddedBroker::start(1).unwrap();
        for (topic, partitions) in topics {
            broker.create_topic(topic, *partitions).unwrap();
        }
        let settings: Settings = [("bootstrap.servers", broker.bootstrap_servers())]
            .into_iter()
            .collect();
        Rig {
            sink: KafkaSink::start(&settings).unwrap(),
            broker,
        }
    }

    fn configuration(&self, more: &str) -> Configuration {
        configuration(&self.broker.bootstrap_servers(), more)
    }

    async fn produce(&self, topic: &str) {
        let record = OutgoingRecord {
            topic: topic.to_owned(),
            partition: Some(0),
            key: None,
            value: Some(topic.to_owned().into()),
            headers: Headers::new(),
            timestamp: None,
        };
        self.sink.send(record).await.unwrap();
    }
}

fn configuration(servers: &str, more: &str) -> Configuration {
    let text = format!(
        "bootstrap.servers={servers}\ngroup.id=shop\nvalue.deserializer=string\n\
         session.timeout.ms=6000\nheartbeat.interval.ms=1000\n{more}"
    );
    Registry::builtin()
        .configure(&text.parse().unwrap())
        .unwrap()
}

/// What a pipeline told, and from which topics it handled.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<String>>>);

impl Told {
    fn push(&self, line: String) {
        self.0.lock().unwrap().push(line);
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    async fn wait_for(&self, line: &str) {
        let wait = async {
            while !self.all().iter().any(|told| told.contains(line)) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let waited = timeout(PATIENCE, wait).await;
        assert!(waited.is_ok(), "{line} was not told: {:#?}", self.all());
    }
}

fn observed<'c>(builder: PipelineBuilder<'c>, told: &Told) -> PipelineBuilder<'c> {
    let told = told.clone();
    builder.observer(move |event: &PipelineEvent<'_>| match event {
        PipelineEvent::TopicProblem { problem, .. } => told.push(problem.to_string()),
        PipelineEvent::TopicLeftOut { topic, kind } => {
            told.push(format!("left out {topic}: {kind}"))
        }
        PipelineEvent::Subscribed(topics) => told.push(format!("subscribed {}", topics.join(","))),
        PipelineEvent::Warning(warning) => told.push(format!("warned {warning}")),
        _ => {}
    })
}

fn pipeline(configuration: &Configuration, told: &Told) -> Result<(PipelineHandle, Run)> {
    let handled = told.clone();
    let builder = observed(Pipeline::builder(configuration).unwrap(), told);
    let pipeline = builder.values::<String>().unwrap().handler(handle_with(
        move |value: String, _: &HandlerContext<'_>| {
            handled.push(format!("handled {value}"));
            async { Ok::<(), kafka_chain::Error>(()) }
        },
    ))?;
    Ok((pipeline.handle(), tokio::spawn(pipeline.run())))
}

type Run = JoinHandle<Result<Summary>>;

async fn ended(run: Run) -> Result<Summary> {
    timeout(PATIENCE, run)
        .await
        .expect("it did not end")
        .unwrap()
}

#[tokio::test]
async fn a_dead_letter_topic_that_is_missing_is_an_error_with_its_command() {
    let rig = Rig::new(&[("orders", 3)]);
    let told = Told::default();
    let properties = "topics=orders\ntopics.check=refuse";
    let (_, run) = pipeline(&rig.configuration(properties), &told).unwrap();
    let error = ended(run).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    let text = error.message();
    assert!(
        text.contains("error: topic orders.dead-letter: it does not exist"),
        "{text}"
    );
    let command = format!(
        "kafka-topics.sh --bootstrap-server {} --create --topic orders.dead-letter --partitions 3",
        rig.broker.bootstrap_servers()
    );
    assert!(text.contains(&command), "{text}");
    assert!(told.all()[0].starts_with("error: topic orders.dead-letter"));
}

#[tokio::test]
async fn who_only_wants_to_be_warned_starts_and_who_wants_nothing_is_told_nothing() {
    for (check, problems) in [("warn", 1), ("off", 0)] {
        let rig = Rig::new(&[("orders", 3)]);
        let told = Told::default();
        let more = format!("topics=orders\ntopics.check={check}");
        let (handle, run) = pipeline(&rig.configuration(&more), &told).unwrap();
        rig.produce("orders").await;
        told.wait_for("handled orders").await;
        handle.stop();
        ended(run).await.unwrap();
        let of_topics = told
            .all()
            .iter()
            .filter(|line| line.contains("topic orders"))
            .count();
        assert_eq!(of_topics, problems, "{check}: {:?}", told.all());
    }
}

#[tokio::test]
async fn fewer_partitions_are_a_warning_and_no_reason_not_to_start() {
    let rig = Rig::new(&[("orders", 3), ("orders.dead-letter", 1)]);
    let told = Told::default();
    let (handle, run) = pipeline(&rig.configuration("topics=orders"), &told).unwrap();
    rig.produce("orders").await;
    told.wait_for("handled orders").await;
    handle.stop();
    ended(run).await.unwrap();
    assert!(
        told.all()[0].contains("it has 1 partitions, but should have 3"),
        "{:?}",
        told.all()
    );
}

#[tokio::test]
async fn a_topic_that_is_read_and_gets_the_dead_letters_is_refused_before_anything_starts() {
    let configuration = configuration("127.0.0.1:1", "topics=orders,orders.dead-letter");
    let error = pipeline(&configuration, &Told::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.message().contains("`orders.dead-letter`"), "{error}");
}

/// FC-066: a pattern takes what comes, and neither its dead letters nor another group's retries.
#[tokio::test]
async fn a_pattern_takes_new_topics_and_none_of_ours() {
    let rig = Rig::new(&[
        ("orders-eu", 2),
        ("orders-eu.dead-letter", 2),
        ("orders-eu.other.retry", 1),
        ("bills", 1),
    ]);
    for protocol in ["classic", "consumer"] {
        let told = Told::default();
        let mut more = format!(
            "topics=^orders-.*\ntopic.metadata.refresh.interval.ms=300\ngroup.id={protocol}\n"
        );
        if protocol == "consumer" {
            more = format!("{more}group.protocol=consumer\n");
        }
        let configuration = match protocol {
            "consumer" => {
                let text = format!(
                    "bootstrap.servers={}\nvalue.deserializer=string\n{more}",
                    rig.broker.bootstrap_servers()
                );
                Registry::builtin()
                    .configure(&text.parse().unwrap())
                    .unwrap()
            }
            _ => rig.configuration(&more),
        };
        let (handle, run) = pipeline(&configuration, &told).unwrap();
        for topic in [
            "orders-eu",
            "orders-eu.dead-letter",
            "orders-eu.other.retry",
            "bills",
        ] {
            rig.produce(topic).await;
        }
        told.wait_for("handled orders-eu").await;
        let new = format!("orders-{protocol}");
        rig.broker
            .create_topic(&format!("{new}.dead-letter"), 1)
            .unwrap();
        rig.broker.create_topic(&new, 1).unwrap();
        rig.produce(&new).await;
        told.wait_for(&format!("handled {new}")).await;
        handle.stop();
        ended(run).await.unwrap();
        let all = told.all();
        let foreign =
            |line: &&String| line.starts_with("handled") && !line.starts_with("handled orders-");
        assert_eq!(all.iter().find(foreign), None);
        let ours = |line: &&String| line.starts_with("handled") && line.contains("eu.");
        assert_eq!(all.iter().find(ours), None, "{all:#?}");
        let left = all
            .iter()
            .filter(|line| line.starts_with("left out orders-eu.dead-letter"));
        assert_eq!(left.count(), 1, "told once");
    }
}

#[tokio::test]
async fn a_pattern_that_matches_nothing_waits_and_stops() {
    let rig = Rig::new(&[("bills", 1)]);
    let told = Told::default();
    let (handle, run) = pipeline(&rig.configuration("topics=^orders"), &told).unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!run.is_finished());
    handle.stop();
    ended(run).await.unwrap();
}

/// Brokers that do not answer hold nobody up who wants to stop.
#[tokio::test]
async fn a_stop_does_not_wait_for_brokers_that_do_not_answer() {
    let configuration = configuration("127.0.0.1:1", "topics=orders");
    let (handle, run) = pipeline(&configuration, &Told::default()).unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let began = Instant::now();
    handle.stop();
    ended(run).await.unwrap();
    println!("stopped after {:?}", began.elapsed());
}
