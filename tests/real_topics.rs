//! Topics on real Apache Kafka: what it tells of them, what mends them, and patterns that follow them.
#![cfg(feature = "kafka")]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod kafka_support;
#[path = "support/real.rs"]
mod real;
#[path = "support/rig_tool.rs"]
mod rig_tool;

use kafka_chain::config::Registry;
use kafka_chain::pipeline::topics::{Commands, LetterNeeds, TopicProblem, check, needs};
use kafka_chain::pipeline::{HandlerContext, Pipeline, PipelineEvent, handle_with};
use kafka_chain::transport::Settings;
use kafka_chain::transport::kafka::{
    KafkaSink, NewTopic, TopicAdmin, TopicConfigs, TopicCreation, TopicState, create_topics,
};
use kafka_chain::{Error, Status};
use kafka_support::{PATIENCE, settings, value};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::{sleep, timeout};

struct Rig {
    servers: String,
    /// What the names of its topics begin with.
    name: String,
}

impl Rig {
    fn new(name: &str) -> Option<Self> {
        Some(Rig {
            servers: real::kafka()?,
            name: format!("topics-{name}-{}", std::process::id()),
        })
    }

    fn settings(&self) -> Settings {
        settings(&self.servers, &[])
    }

    fn topic(&self, name: &str) -> String {
        format!("{}-{name}", self.name)
    }

    async fn create(&self, name: &str, partitions: i32, config: &[(&str, &str)]) -> String {
        let name = self.topic(name);
        let mut topic = NewTopic::new(&name, partitions);
        let config = config.iter();
        topic.config = config.map(|(n, v)| ((*n).into(), (*v).into())).collect();
        create_topics(&self.settings(), vec![topic], PATIENCE)
            .await
            .unwrap();
        name
    }

    async fn admin(&self) -> TopicAdmin {
        TopicAdmin::start(&self.settings(), PATIENCE).await.unwrap()
    }

    /// What is wrong with what a pipeline needs that reads `topic`.
    async fn problems(&self, admin: &TopicAdmin, topic: &str) -> Vec<TopicProblem> {
        let letters = LetterNeeds {
            template: "${topic}.dead-letter",
            group: "shop",
            dialects: 1,
            routed: false,
            source_timestamps: false,
            retries: None,
        };
        let sources = admin.describe(&[topic.to_owned()]).await.unwrap();
        assert!(sources[0].details().is_some(), "{sources:?}");
        let needs = needs(&sources, &letters);
        let names: Vec<String> = needs.iter().map(|need| need.name.clone()).collect();
        check(&needs, &admin.describe(&names).await.unwrap())
    }
}

#[tokio::test]
async fn topics_are_described_as_they_are() {
    let Some(rig) = Rig::new("described") else {
        return;
    };
    let config = [
        ("cleanup.policy", "compact,delete"),
        ("retention.ms", "777000"),
        ("message.timestamp.type", "LogAppendTime"),
    ];
    let one = rig.create("one", 3, &config).await;
    let never = rig.topic("never");
    let admin = rig.admin().await;
    let found = admin.describe(&[one.clone(), never.clone()]).await.unwrap();
    let details = found[0].details().unwrap();
    assert_eq!((details.partitions, details.replication), (3, 1));
    for (name, value) in config {
        assert_eq!(details.config(name), Some(value));
    }
    // A default of the brokers is told too.
    assert_eq!(details.config("max.message.bytes"), Some("1048588"));
    assert!(matches!(details.configs, TopicConfigs::Known(_)));
    assert!(matches!(found[1].state, TopicState::Missing), "{found:?}");
    let all = admin.list().await.unwrap();
    assert!(all.contains(&one) && !all.contains(&never));

    let results = admin
        .create(&[
            NewTopic::new(&one, 1),
            NewTopic::new(&never, 2),
            NewTopic::new("not a name", 1),
        ])
        .await
        .unwrap();
    assert!(matches!(results[0], TopicCreation::Existed), "{results:?}");
    assert!(matches!(results[1], TopicCreation::Created), "{results:?}");
    let TopicCreation::Failed(error) = &results[2] else {
        panic!("{results:?}");
    };
    assert_eq!(error.status(), Status::Permanent);
}

/// Every command that is told is run as it is, with Kafka's own tools.
#[tokio::test]
async fn the_commands_that_are_told_mend_what_is_wrong() {
    let Some(rig) = Rig::new("mended") else {
        return;
    };
    let kept = [
        ("retention.ms", "2592000000"),
        ("max.message.bytes", "2000000"),
    ];
    let absent = rig.create("absent", 3, &kept).await;
    let wrong = rig.create("wrong", 3, &kept).await;
    let config = [
        ("cleanup.policy", "compact,delete"),
        ("retention.ms", "60000"),
        ("max.message.bytes", "1000"),
    ];
    rig.create("wrong.dead-letter", 1, &config).await;
    let admin = rig.admin().await;
    let commands = Commands::of(&rig.settings());
    for (topic, wrong) in [(absent, 1), (wrong, 4)] {
        let problems = rig.problems(&admin, &topic).await;
        assert_eq!(problems.len(), wrong, "{problems:?}");
        for problem in &problems {
            let command = commands.command(problem).unwrap();
            println!("{}", commands.tell(problem));
            let told = tokio::task::spawn_blocking(move || rig_tool::run(&command));
            if !told.await.unwrap() {
                return;
            }
        }
        // The broker applies it a moment later.
        let mended = async {
            while !rig.problems(&admin, &topic).await.is_empty() {
                sleep(Duration::from_millis(100)).await;
            }
        };
        let mended = timeout(PATIENCE, mended).await;
        let problems = rig.problems(&admin, &topic).await;
        assert!(mended.is_ok(), "{problems:?}");
    }
}

/// What a pipeline told and handled.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<String>>>);

impl Told {
    fn push(&self, line: String) {
        self.0.lock().unwrap().push(line);
    }

    fn count(&self, line: &str) -> usize {
        let lines = self.0.lock().unwrap();
        lines.iter().filter(|told| told.as_str() == line).count()
    }

    async fn wait_for(&self, line: &str) {
        let wait = async {
            while self.count(line) == 0 {
                sleep(Duration::from_millis(20)).await;
            }
        };
        let waited = timeout(PATIENCE, wait).await;
        assert!(
            waited.is_ok(),
            "no `{line}` in {:#?}",
            self.0.lock().unwrap()
        );
    }
}

/// A pattern's topic that comes while the pipeline runs is read from its first record, its dead-letter
/// topic is there before that, and neither that nor another group's retries are read.
async fn follows(name: &str, protocol: &str) {
    let Some(rig) = Rig::new(name) else {
        return;
    };
    let first = rig.create("first", 2, &[]).await;
    for ours in ["first.other.retry", "first.schedule", "first.delay.5s"] {
        let ours = rig.create(ours, 1, &[]).await;
        produce(&rig, &ours).await;
    }
    produce(&rig, &first).await;
    let properties = format!(
        "bootstrap.servers={}\ngroup.id={}\ntopics=^{}-.*\ntopics.create=missing\n\
         topic.metadata.refresh.interval.ms=500\nvalue.deserializer=string\n{protocol}",
        rig.servers, rig.name, rig.name
    );
    let configuration = Registry::builtin()
        .configure(&properties.parse().unwrap())
        .unwrap();
    let told = Told::default();
    let (events, handled) = (told.clone(), told.clone());
    let pipeline = Pipeline::builder(&configuration)
        .unwrap()
        .observer(move |event: &PipelineEvent<'_>| match event {
            PipelineEvent::TopicCreated(topic) => {
                events.push(format!("created {} {}", topic.name, topic.partitions));
            }
            PipelineEvent::TopicLeftOut { topic, .. } => events.push(format!("left {topic}")),
            PipelineEvent::TopicProblem { problem, .. } => events.push(format!("wrong {problem}")),
            _ => {}
        })
        .values::<String>()
        .unwrap()
        .handler(handle_with(
            move |value: String, context: &HandlerContext<'_>| {
                let record = context.record();
                handled.push(format!("handled {} {value}", record.topic));
                async { Err::<(), _>(Error::schema("nobody wants it")) }
            },
        ))
        .unwrap();
    let handle = pipeline.handle();
    let run = tokio::spawn(pipeline.run());
    told.wait_for(&format!("handled {first} {first}")).await;
    told.wait_for(&format!("created {first}.dead-letter 2"))
        .await;
    told.wait_for(&format!("left {first}.schedule")).await;

    let second = rig.create("second", 3, &[]).await;
    produce(&rig, &second).await;
    told.wait_for(&format!("handled {second} {second}")).await;
    told.wait_for(&format!("created {second}.dead-letter 3"))
        .await;
    produce(&rig, &first).await;
    let again = async {
        while told.count(&format!("handled {first} {first}")) < 2 {
            sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(
        timeout(PATIENCE, again).await.is_ok(),
        "{name}: the first topic goes on"
    );
    handle.stop();
    run.await.unwrap().unwrap();
    let lines = told.0.lock().unwrap().clone();
    let read = |line: &&String| line.starts_with("handled");
    let of_ours = |line: &&String| line.contains("first.") || line.contains("second.");
    assert_eq!(lines.iter().filter(read).find(of_ours), None, "{lines:#?}");
    let wrong = |line: &&String| line.starts_with("wrong");
    assert_eq!(lines.iter().find(wrong), None, "{lines:#?}");
}

async fn produce(rig: &Rig, topic: &str) {
    let sink = KafkaSink::start(&rig.settings()).unwrap();
    let written = async {
        // A producer may hear of a new topic late.
        while sink.send(value(topic, topic)).await.is_err() {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(PATIENCE, written).await.unwrap();
}

#[tokio::test]
async fn a_pattern_is_followed_by_an_eager_group() {
    follows("eager", "session.timeout.ms=6000").await;
}

#[tokio::test]
async fn a_pattern_is_followed_by_a_cooperative_group() {
    follows("coop", "partition.assignment.strategy=cooperative-sticky").await;
}

#[tokio::test]
async fn a_pattern_is_followed_by_a_kip_848_group() {
    follows("kip848", "group.protocol=consumer").await;
}
