//! What is to be seen of a running pipeline: metrics, logs, health.

#[path = "../support/recorder.rs"]
mod recorder;
#[path = "../support/said.rs"]
mod said;

use super::support::{Rig, Seen, Started, builder, record, until, values};
use kafka_chain::pipeline::observe::names;
use kafka_chain::pipeline::{HandlerContext, Pipeline, PipelineEvent, Work, handle_with};
use kafka_chain::transport::kafka::KafkaRecord;
use kafka_chain::{Error, config::Configuration};
use recorder::Recorded;
use said::Said;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Notify;
use tracing::Level;

const SECRET: &str = "card-4111";

/// What a handler does with a value that begins with a certain word.
async fn act(order: &str, go: &Notify, is_out: &AtomicBool) -> Result<(), Error> {
    match order.split('-').next() {
        Some("bad") => Err(Error::schema("it is bad")),
        Some("stuck") => {
            go.notified().await;
            Ok(())
        }
        Some("out") if is_out.load(Ordering::SeqCst) => Err(Error::unavailable("it is out")),
        _ => Ok(()),
    }
}

struct Bench {
    seen: Seen,
    go: Arc<Notify>,
    is_out: Arc<AtomicBool>,
}

impl Bench {
    fn new() -> Self {
        Bench {
            seen: Seen::default(),
            go: Arc::new(Notify::new()),
            is_out: Arc::new(AtomicBool::new(true)),
        }
    }

    fn pipeline(&self, configuration: &Configuration) -> Pipeline<impl Work<KafkaRecord> + use<>> {
        let (seen, go) = (self.seen.clone(), Arc::clone(&self.go));
        let is_out = Arc::clone(&self.is_out);
        builder(configuration)
            .values::<String>()
            .unwrap()
            .handler(handle_with(move |order: String, _: &HandlerContext<'_>| {
                seen.push(order.clone());
                let (go, is_out) = (Arc::clone(&go), Arc::clone(&is_out));
                async move { act(&order, &go, &is_out).await }
            }))
            .unwrap()
    }
}

const FAST: &str = "handler.backoff=fixed\nhandler.backoff.fixed.intervalSeconds=0.01\n\
     handler.attempts=3\nstall.warn.ms=300\nstatistics.interval.ms=100\n\
     metrics.timing=true\n";

/// FC-061: the lag is 0 at the end, and nothing of a partition that is not ours any more keeps its
/// value.
#[tokio::test]
async fn metrics_count_what_goes_in_and_how_it_comes_out() {
    let recorded = Recorded::default();
    let _guard = metrics::set_default_local_recorder(&recorded);
    let rig = Rig::new(&["orders", "orders.dead-letter"]);
    rig.produce("orders", &values(0..30)).await;
    for value in [format!("bad-{SECRET}"), "bad-2".to_owned()] {
        rig.sink.send(record("orders", 0, &value)).await.unwrap();
    }
    let bench = Bench::new();
    let configuration = rig.configuration(FAST);
    let started = Started::of(bench.pipeline(&configuration));
    let out = |outcome: &str| {
        let series = format!("kafka_chain_records_out_total{{outcome={outcome}}}");
        recorded.get(&series).unwrap_or_default()
    };
    until("all are counted", || {
        out("handled") == 30.0 && out("dead-letter") == 2.0
    })
    .await;
    assert_eq!(recorded.get("kafka_chain_records_in_total"), Some(32.0));
    let letters = "kafka_chain_dead_letters_total{kind=schema,stage=handler}";
    assert_eq!(recorded.get(letters), Some(2.0));
    let failures = "kafka_chain_failures_total{origin=handler,verdict=dead-letter}";
    assert_eq!(recorded.get(failures), Some(2.0));
    assert_eq!(recorded.count("kafka_chain_chain_seconds"), 32);
    assert_eq!(recorded.count("kafka_chain_handler_seconds"), 32);
    let settled = || {
        let of = |name: &str| recorded.get(&format!("{name}{{topic=orders,partition=0}}"));
        of("kafka_chain_lag") == Some(0.0)
            && of("kafka_chain_commit_age_seconds") == Some(0.0)
            && of("kafka_chain_uncommitted") == Some(0.0)
            && of("kafka_chain_in_flight_bytes") == Some(0.0)
    };
    until("nothing is left", settled).await;
    assert!(recorded.sum("kafka_chain_commits_total") >= 3.0);
    assert_eq!(recorded.get("kafka_chain_partitions"), Some(3.0));
    let assigned = "kafka_chain_rebalanced_total{change=assigned}";
    assert_eq!(recorded.get(assigned), Some(3.0));

    // A hundred more records ask for no more handles.
    let handles = recorded.registered();
    rig.produce("orders", &values(0..100)).await;
    until("all are counted", || out("handled") == 130.0).await;
    assert_eq!(recorded.registered(), handles);

    started.stop().await;
    assert_eq!(recorded.get("kafka_chain_partitions"), Some(0.0));
    assert_eq!(recorded.sum("kafka_chain_lag"), 0.0);
    let known = names::METRICS.iter().map(|metric| metric.name.to_owned());
    assert_eq!(recorded.described(), known.collect());
    for series in recorded.names() {
        let name = series.split('{').next().unwrap();
        assert!(recorded.described().contains(name), "{series}");
        assert!(
            !series.contains("4111") && !series.contains("order-"),
            "{series}"
        );
    }
}

#[tokio::test]
async fn retries_pauses_and_probes_are_counted_and_told() {
    let recorded = Recorded::default();
    let _guard = metrics::set_default_local_recorder(&recorded);
    let said = Said::at(Level::DEBUG);
    let _said = tracing::subscriber::set_default(said.clone());
    let rig = Rig::new(&["orders"]);
    rig.sink.send(record("orders", 1, "out-1")).await.unwrap();
    let bench = Bench::new();
    let more = format!("{FAST}on.exhausted=pause\n");
    let configuration = rig.configuration(&more);
    let started = Started::of(bench.pipeline(&configuration));
    let paused = "kafka_chain_paused{topic=orders,partition=1,reason=exhausted}";
    until("it pauses", || recorded.get(paused) == Some(1.0)).await;
    until("it probes", || {
        recorded.get("kafka_chain_probes_total") >= Some(2.0)
    })
    .await;
    let health = started.handle.health();
    assert_eq!(
        health.partitions[1].paused.map(|reason| reason.as_str()),
        Some("exhausted")
    );
    assert!(health.to_string().contains("orders-1: PAUSED (exhausted)"));
    assert_eq!(recorded.get("kafka_chain_retries_total"), Some(2.0));
    bench.is_out.store(false, Ordering::SeqCst);
    until("it goes on", || recorded.get(paused) == Some(0.0)).await;
    let pauses = "kafka_chain_pauses_total{reason=exhausted}";
    assert_eq!(recorded.get(pauses), Some(1.0));
    started.stop().await;

    let [told] = &said.with("paused until this record succeeds")[..] else {
        panic!("{:?}", said.lines());
    };
    assert!(told.starts_with("WARN ") && told.contains("reason=exhausted"));
    assert_eq!(said.with("WARN resumed").len(), 1, "{:?}", said.lines());
    let spans = said.spans();
    let made = |name: &str| spans.iter().filter(|span| span.starts_with(name)).count();
    assert_eq!(made("partition topic=orders"), 3, "{spans:?}");
    assert_eq!(made("retry attempt="), 2, "{spans:?}");
    assert!(made("probe offset=0") >= 2, "{spans:?}");
}

/// At most one warning a second by kind and stage; the others are counted, none is lost, and no
/// payload is told.
#[tokio::test]
async fn a_flood_of_failures_is_told_once_a_second() {
    let said = Said::at(Level::INFO);
    let _said = tracing::subscriber::set_default(said.clone());
    let rig = Rig::new(&["orders", "orders.dead-letter"]);
    let bad: Vec<String> = (0..200).map(|n| format!("bad-{SECRET}-{n}")).collect();
    rig.produce("orders", &bad).await;
    let bench = Bench::new();
    let configuration = rig.configuration(FAST);
    let began = std::time::Instant::now();
    let started = Started::of(bench.pipeline(&configuration));
    rig.read("orders.dead-letter", 200).await;
    let suppressed = || -> u64 {
        let number = |line: &String| {
            let (_, rest) = line.split_once("suppressed=")?;
            rest.split(' ').next()?.parse::<u64>().ok()
        };
        let schema = said.with("kind=schema");
        schema.iter().filter_map(number).sum()
    };
    let told = || said.with("a record failed").len() as u64;
    until("all are told or counted", || told() + suppressed() == 200).await;
    let seconds = began.elapsed().as_secs();
    assert!(told() <= seconds + 1, "{} in {seconds} s", told());
    started.stop().await;
    assert!(said.with("4111").is_empty(), "{:?}", said.with("4111"));
    assert_eq!(said.spans().len(), 3, "{:?}", said.spans());
}

#[tokio::test]
async fn a_stuck_handler_is_told_of_and_healthy() {
    let recorded = Recorded::default();
    let _guard = metrics::set_default_local_recorder(&recorded);
    let said = Said::at(Level::INFO);
    let _said = tracing::subscriber::set_default(said.clone());
    let rig = Rig::new(&["orders"]);
    let bench = Bench::new();
    let configuration = rig.configuration(FAST);
    let pipeline = bench.pipeline(&configuration);
    let before = pipeline.health();
    assert!(before.live && !before.ready, "{before}");
    assert_eq!(before.last_poll_age, None);
    let started = Started::of(pipeline);
    let handle = started.handle.clone();
    until("it is ready", || handle.health().ready).await;
    rig.sink.send(record("orders", 2, "stuck")).await.unwrap();
    until("it is told", || !said.with("partition stalled").is_empty()).await;
    let health = handle.health();
    assert!(health.live && health.ready, "{health}");
    assert!(health.last_poll_age.is_some());
    let stuck = &health.partitions[2];
    let oldest = stuck.oldest_in_flight.unwrap();
    assert_eq!((stuck.in_flight, oldest.offset), (1, 0));
    assert!(oldest.age.as_millis() >= 300);
    assert_eq!(health.partitions[0].oldest_in_flight, None);
    bench.go.notify_one();
    until("it goes on", || !said.with("no longer stalled").is_empty()).await;
    assert_eq!(said.with("partition stalled").len(), 1);
    assert_eq!(recorded.get("kafka_chain_stalls_total"), Some(1.0));
    started.stop().await;
    let after = handle.health();
    assert!(!after.live && !after.ready && after.stopping, "{after}");
}

/// What a missing topic does is loud, and names the topic.
#[tokio::test]
async fn a_missing_dead_letter_topic_is_loud() {
    let recorded = Recorded::default();
    let _guard = metrics::set_default_local_recorder(&recorded);
    let said = Said::at(Level::INFO);
    let _said = tracing::subscriber::set_default(said.clone());
    let rig = Rig::new(&["orders"]);
    rig.sink.send(record("orders", 0, "bad-1")).await.unwrap();
    let bench = Bench::new();
    let configuration = rig.configuration(FAST);
    let started = Started::of(bench.pipeline(&configuration));
    until("it is told", || {
        !said.with("could not be written").is_empty()
    })
    .await;
    let failures = "kafka_chain_write_failures_total{to=dead-letter}";
    until("it is counted", || recorded.get(failures) >= Some(1.0)).await;
    let told = said.with("could not be written").remove(0);
    assert!(
        told.starts_with("ERROR ") && told.contains("orders.dead-letter"),
        "{told}"
    );
    started.stop().await;
}

/// Users are told of stalls as of everything else.
#[tokio::test]
async fn observers_learn_of_stalls() {
    let rig = Rig::new(&["orders"]);
    rig.sink.send(record("orders", 0, "slow")).await.unwrap();
    let events = Seen::default();
    let told = events.clone();
    let configuration = rig.configuration(FAST);
    let go = Arc::new(Notify::new());
    let waits = Arc::clone(&go);
    let pipeline = builder(&configuration)
        .values::<String>()
        .unwrap()
        .observer(move |event: &PipelineEvent<'_>| match event {
            PipelineEvent::Stalled { partition, .. } => told.push(format!("{partition} stalls")),
            PipelineEvent::StallEnded { .. } => told.push("over"),
            _ => {}
        })
        .handler(handle_with(move |_: String, _: &HandlerContext<'_>| {
            let waits = Arc::clone(&waits);
            async move {
                waits.notified().await;
                Ok::<(), Error>(())
            }
        }))
        .unwrap();
    let started = Started::of(pipeline);
    until("it stalls", || !events.all().is_empty()).await;
    assert!(
        events.all()[0].starts_with("orders-0#"),
        "{:?}",
        events.all()
    );
    go.notify_one();
    until("it is over", || events.all().len() == 2).await;
    started.stop().await;
}

#[tokio::test]
async fn an_observer_that_panics_ends_nothing() {
    let rig = Rig::new(&["orders", "orders.dead-letter"]);
    rig.produce("orders", &values(0..30)).await;
    let configuration = rig.configuration("");
    let (seen, told) = (Seen::default(), Seen::default());
    let (by_handler, by_other) = (seen.clone(), told.clone());
    let pipeline = builder(&configuration)
        .values::<String>()
        .unwrap()
        .observer(|_: &PipelineEvent<'_>| panic!("{SECRET}"))
        .observer(move |event: &PipelineEvent<'_>| {
            if let PipelineEvent::Assigned(_) = event {
                by_other.push("assigned");
            }
        })
        .handler(handle_with(move |order: String, _: &HandlerContext<'_>| {
            by_handler.push(order);
            async { Ok::<(), Error>(()) }
        }))
        .unwrap();
    let started = Started::of(pipeline);
    seen.wait_for(30).await;
    let summary = started.stop().await;
    assert_eq!((summary.abandoned, summary.uncommitted), (0, 0));
    assert_eq!(told.all(), ["assigned"]);
}
