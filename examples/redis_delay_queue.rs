//! Notes are published by a service that is sometimes down. A note that could not be published is posted
//! to a delay queue in Redis and tried again three minutes later (three seconds here), while the notes
//! behind it go on.
//!
//! `cargo run --example redis_delay_queue --features redis` uses the Redis at `REDIS_URL`, or else at
//! `redis://127.0.0.1:6379`, and an embedded Kafka broker. The queue is its own.

use bytes::Bytes;
use kafka_chain::config::Registry;
use kafka_chain::delay::redis::{RedisOptions, RedisStore};
use kafka_chain::delay::worker::{Worker, WorkerOptions};
use kafka_chain::delay::{DelayAdmin, DelaySink};
use kafka_chain::pipeline::{Handler, HandlerContext, Pipeline};
use kafka_chain::properties::Properties;
use kafka_chain::transport::Settings;
use kafka_chain::transport::kafka::{EmbeddedBroker, KafkaSink};
use kafka_chain::{Error, OutgoingRecord, Result};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

const NOTES: usize = 8;

/// Three minutes, as seconds.
const AGAIN_AFTER: &str = "3";

const PROPERTIES: &str = "\
group.id=publisher
topics=notes
value.deserializer=string
retry.delay=fixed
retry.delay.fixed.maxAttempts=2
retry.order=relaxed
";

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Publishes notes; each third one finds the service down at its first try.
#[derive(Clone)]
struct Publisher {
    began: Instant,
    published: Arc<AtomicUsize>,
    all_done: Arc<Notify>,
}

impl Publisher {
    fn say(&self, what: &str) {
        println!("{:>5.1} s  {what}", self.began.elapsed().as_secs_f32());
    }
}

impl Handler<String> for Publisher {
    type Error = Error;

    async fn handle(&self, note: String, context: &HandlerContext<'_>) -> Result<()> {
        let retried = context.retried();
        if retried.is_none() && note.ends_with(['3', '6']) {
            self.say(&format!(
                "{note}: the service does not answer, again in {AGAIN_AFTER} s"
            ));
            return Err(Error::unavailable("the publishing service does not answer"));
        }
        match retried {
            Some(retried) => self.say(&format!(
                "{note}: published at the {}nd try (it lies at {}-{}@{})",
                retried.attempt, retried.topic, retried.partition, retried.offset
            )),
            None => self.say(&format!("{note}: published")),
        }
        if self.published.fetch_add(1, Ordering::Relaxed) + 1 == NOTES {
            self.all_done.notify_one();
        }
        Ok(())
    }
}

async fn run() -> Result<bool> {
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".to_owned());
    let queue = format!("notes-{}", std::process::id());
    let store = match RedisStore::connect(RedisOptions::new(url, queue)).await {
        Ok(store) => Arc::new(store),
        Err(error) => {
            eprintln!("{error:#}");
            eprintln!(
                "This example needs a Redis 6 or newer: set REDIS_URL, or let `scripts/rig with cargo \
                 run --example redis_delay_queue --features redis` start one."
            );
            return Ok(false);
        }
    };
    println!("queue    {}", store.durability());

    let broker = EmbeddedBroker::start(1)?;
    for topic in ["notes", "notes.publisher.retry", "notes.dead-letter"] {
        broker.create_topic(topic, 2)?;
    }
    let settings: Settings = [("bootstrap.servers", broker.bootstrap_servers())]
        .into_iter()
        .collect();
    let sink = KafkaSink::start(&settings)?;

    // What is due in Redis goes to the topic that the pipeline consumes as well.
    let worker = Worker::new(Arc::clone(&store), sink.clone(), WorkerOptions::default());
    let counts = worker.counts();
    let (stop_worker, stopped) = tokio::sync::oneshot::channel::<()>();
    let delivering = tokio::spawn(async move {
        worker
            .run(async move {
                let _ = stopped.await;
            })
            .await
    });

    let mut properties: Properties = PROPERTIES.parse().map_err(Error::permanent)?;
    properties.set("retry.delay.fixed.intervalSeconds", AGAIN_AFTER);
    let configuration = Registry::builtin()
        .configure(&properties)
        .map_err(Error::permanent)?;
    let publisher = Publisher {
        began: Instant::now(),
        published: Arc::default(),
        all_done: Arc::default(),
    };
    let pipeline = Pipeline::builder(&configuration)
        .and_then(|builder| builder.values::<String>())
        .map_err(Error::permanent)?
        .client("bootstrap.servers", broker.bootstrap_servers())
        .retry_sink(Arc::clone(&store))
        .stop_on_signals()
        .handler(publisher.clone())?;
    let handle = pipeline.handle();
    let running = tokio::spawn(pipeline.run());

    for number in 1..=NOTES {
        let note = OutgoingRecord {
            topic: "notes".to_owned(),
            value: Some(Bytes::from(format!("note {number}"))),
            ..OutgoingRecord::default()
        };
        sink.send(note).await?;
    }
    let in_time =
        tokio::time::timeout(Duration::from_secs(30), publisher.all_done.notified()).await;
    handle.stop();
    let ended = |_| Error::permanent("a task is gone");
    running.await.map_err(ended)??;
    // Its receiver may have gone with an error, which the next line tells.
    let _ = stop_worker.send(());
    delivering.await.map_err(ended)??;

    let stats = store.stats().await?;
    let early = counts.early.load(Ordering::Relaxed);
    println!();
    println!(
        "published {} of {NOTES}, through the delay queue {}, early {}, left there {}",
        publisher.published.load(Ordering::Relaxed),
        counts.delivered.load(Ordering::Relaxed),
        early,
        stats.waiting + stats.in_flight + stats.dead,
    );
    Ok(in_time.is_ok() && early == 0)
}
