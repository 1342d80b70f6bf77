//! The pipeline, with handlers and records of several kinds.

use crate::common::{Order, Span, servers};
use kafka_chain::Error;
use kafka_chain::config::{Configuration, Registry};
use kafka_chain::pipeline::{
    Destination, Event, HandlerContext, Pipeline, PipelineEvent, Work, handle_with,
};
use kafka_chain::properties::Properties;
use kafka_chain::transport::kafka::KafkaRecord;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub(crate) fn configuration(topic: &str, group: &str, more: &str) -> Configuration {
    let text = format!(
        "bootstrap.servers={}\ngroup.id={group}\ntopics={topic}\n\
         value.deserializer=exception-handling(com.example.OrderDeserializer)\n{more}",
        servers()
    );
    let properties: Properties = text.parse().expect("properties");
    Registry::builtin()
        .with_json::<Order>("com.example.OrderDeserializer")
        .configure(&properties)
        .unwrap_or_else(|report| panic!("{report}"))
}

/// Counts records, marks the first, and stops at the last.
pub(crate) struct Count {
    seen: AtomicU64,
    records: u64,
    span: std::sync::OnceLock<Span>,
    tells: bool,
    done: tokio::sync::Notify,
}

impl Count {
    pub(crate) fn new(records: u64) -> Arc<Self> {
        Arc::new(Count {
            seen: AtomicU64::new(0),
            records,
            span: std::sync::OnceLock::new(),
            tells: true,
            done: tokio::sync::Notify::new(),
        })
    }

    /// One that prints nothing at the end.
    pub(crate) fn quiet(records: u64) -> Arc<Self> {
        Arc::new(Count {
            seen: AtomicU64::new(0),
            records,
            span: std::sync::OnceLock::new(),
            tells: false,
            done: tokio::sync::Notify::new(),
        })
    }

    pub(crate) fn one(&self) {
        self.span.get_or_init(Span::begin);
        if self.seen.fetch_add(1, Ordering::Relaxed) + 1 == self.records {
            if self.tells {
                self.span.get().expect("a span").print(self.records);
            }
            self.done.notify_one();
        }
    }
}

pub(crate) async fn pipeline(topic: &str, group: &str, records: u64) {
    let configuration = configuration(topic, group, "");
    let count = Count::new(records);
    let counting = Arc::clone(&count);
    let pipeline = Pipeline::builder(&configuration)
        .and_then(|builder| builder.values::<Order>())
        .expect("a builder")
        .handler(handle_with(move |order: Order, _: &HandlerContext<'_>| {
            black_box(order);
            counting.one();
            std::future::ready(Ok::<(), Error>(()))
        }))
        .expect("a pipeline");
    run(pipeline, &count).await;
}

/// 1 ms of work for each record, in the order of the partition or of keys.
pub(crate) async fn waiting(topic: &str, group: &str, records: u64, order: &str) {
    let more = format!("processing.order={order}\nmax.in.flight=1000");
    let configuration = configuration(topic, group, &more);
    let count = Count::new(records);
    let counting = Arc::clone(&count);
    let pipeline = Pipeline::builder(&configuration)
        .and_then(|builder| builder.values::<Order>())
        .expect("a builder")
        .handler(handle_with(move |order: Order, _: &HandlerContext<'_>| {
            let counting = Arc::clone(&counting);
            async move {
                tokio::time::sleep(Duration::from_millis(1)).await;
                black_box(order);
                counting.one();
                Ok::<(), Error>(())
            }
        }))
        .expect("a pipeline");
    run(pipeline, &count).await;
}

/// Reads all of a topic where a share of the records is no order, to its end and the dead letters'.
pub(crate) async fn poisoned(topic: &str, group: &str, records: u64) {
    let more = "dead.letter.limit.consecutive=0\ndead.letter.producer.linger.ms=5";
    let configuration = configuration(topic, group, more);
    let count = Count::new(records);
    let (counting, letters) = (Arc::clone(&count), Arc::clone(&count));
    let pipeline = Pipeline::builder(&configuration)
        .and_then(|builder| builder.values::<Order>())
        .expect("a builder")
        .observer(move |event: &PipelineEvent<'_>| {
            if let PipelineEvent::Record {
                event: Event::Written { .. },
                ..
            } = event
            {
                letters.one();
            }
        })
        .handler(handle_with(move |order: Order, _: &HandlerContext<'_>| {
            black_box(order);
            counting.one();
            std::future::ready(Ok::<(), Error>(()))
        }))
        .expect("a pipeline");
    run(pipeline, &count).await;
}

/// Until all records are counted.
pub(crate) async fn run<W: Work<KafkaRecord>>(pipeline: Pipeline<W>, count: &Count) {
    let handle = pipeline.handle();
    let stopping = async {
        count.done.notified().await;
        handle.stop();
    };
    let (ran, ()) = tokio::join!(pipeline.run(), stopping);
    ran.expect("a clean end");
}

/// Every hundredth order fails at its first delivery, and waits a second in a topic of retries. An
/// order counts when it is handled or put aside, not again when it comes back.
pub(crate) async fn retrying(topic: &str, group: &str, records: u64, fails: bool) {
    let more = "retry.topics=1s\nretry.order=relaxed\ntopics.create=missing\n\
                dead.letter.producer.linger.ms=5";
    let configuration = configuration(topic, group, more);
    let count = Count::new(records);
    let (counting, aside) = (Arc::clone(&count), Arc::clone(&count));
    let pipeline = Pipeline::builder(&configuration)
        .and_then(|builder| builder.values::<Order>())
        .expect("a builder")
        .observer(move |event: &PipelineEvent<'_>| {
            if let PipelineEvent::Record {
                event:
                    Event::Written {
                        to: Destination::Delayed,
                        ..
                    },
                ..
            } = event
            {
                aside.one();
            }
        })
        .handler(handle_with(
            move |order: Order, context: &HandlerContext<'_>| {
                let comes_back = fails && context.retried().is_some();
                let failed = fails && order.id.is_multiple_of(100) && !comes_back;
                black_box(order);
                if !failed && !comes_back {
                    counting.one();
                }
                std::future::ready(match failed {
                    true => Err(Error::unavailable("the courier is away")),
                    false => Ok(()),
                })
            },
        ))
        .expect("a pipeline");
    run(pipeline, &count).await;
}
