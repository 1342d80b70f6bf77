use super::*;
use crate::clock::FakeClock;
use crate::delay::When;
use crate::delay::deliver::{Deliver, deliver_after_record};
use crate::status::Status;
use bytes::Bytes;
use proptest::prelude::*;
use std::sync::Mutex as StdMutex;

const NOW: i64 = 1_800_000_000_000;

/// A topic of so many partitions that keeps what it is sent.
struct Topic {
    partitions: Option<i32>,
    records: StdMutex<Vec<OutgoingRecord>>,
}

impl Topic {
    fn of(partitions: Option<i32>) -> Arc<Self> {
        Arc::new(Topic {
            partitions,
            records: StdMutex::default(),
        })
    }

    fn take(&self) -> Vec<OutgoingRecord> {
        std::mem::take(&mut *self.records.lock().unwrap())
    }
}

impl Sink for Topic {
    fn send(&self, record: OutgoingRecord) -> BoxFuture<'_, Result<Delivered>> {
        Box::pin(async move {
            if record.value.as_deref() == Some(b"bad") {
                return Err(Error::schema("no"));
            }
            let mut records = self.records.lock().unwrap();
            records.push(record);
            let (partition, offset) = (0, records.len() as i64);
            Ok(Delivered { partition, offset })
        })
    }
}

impl Partitions for Topic {
    fn partitions<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Option<i32>>> {
        Box::pin(std::future::ready(Ok(self.partitions)))
    }
}

fn producer(topic: &Arc<Topic>, options: ProducerOptions) -> DelayedProducer<Arc<Topic>> {
    DelayedProducer::new(Arc::clone(topic), "later", options).clock(Arc::new(FakeClock::at(NOW)))
}

fn item(key: Option<&str>, at: i64) -> Delayed {
    let record = OutgoingRecord {
        topic: "orders".to_owned(),
        partition: Some(9),
        key: key.map(|key| Bytes::copy_from_slice(key.as_bytes())),
        value: Some(Bytes::from_static(b"v")),
        ..OutgoingRecord::default()
    };
    Delayed::new(When::At(at), record)
}

#[tokio::test(start_paused = true)]
async fn a_batch_shares_its_time_and_each_record_keeps_its_own() {
    let topic = Topic::of(Some(4));
    let minute = NOW + 60_000;
    let batch = vec![
        item(Some("a"), minute + 300),
        item(Some("a"), minute),
        item(Some("a"), minute + 5_000),
        item(None, minute),
    ];
    let receipts = producer(&topic, ProducerOptions::default())
        .schedule(batch)
        .await;
    let own: Vec<i64> = receipts
        .into_iter()
        .map(|r| r.unwrap().deliver_at)
        .collect();
    assert_eq!(own, [minute + 300, minute, minute + 5_000, minute]);
    let records = topic.take();
    let of_a = partition_of(b"a", 4);
    let mut seen = Vec::new();
    for record in records.iter().filter(|record| record.key.is_some()) {
        let asked = Deliver::read(record.headers.view()).unwrap();
        assert_eq!(
            (record.topic.as_str(), record.partition),
            ("later", Some(of_a))
        );
        assert_eq!(asked.to.unwrap().to_string(), "orders:9");
        assert!(record.headers.view().get_last(ID_HEADER).is_some());
        let at = asked.after;
        seen.push((at, deliver_after_record(record.headers.view()).unwrap()));
    }
    use crate::delay::deliver::After::At;
    assert_eq!(
        seen,
        [
            (At(minute + 300), minute),
            (At(minute + 300), minute + 300),
            (At(minute + 5_000), minute + 5_000),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn each_record_has_its_own_answer() {
    let topic = Topic::of(Some(1));
    let mut bad = item(None, NOW + 5);
    bad.record.value = Some(Bytes::from_static(b"bad"));
    let batch = vec![item(None, i64::MAX), bad, item(None, i64::MIN)];
    let answers = producer(&topic, ProducerOptions::default())
        .schedule(batch)
        .await;
    let [Err(far), Err(bad), Ok(past)] = &answers[..] else {
        panic!("{answers:?}");
    };
    assert!(far.message().contains("maximum delay"), "{far}");
    assert_eq!(bad.message(), "no");
    assert_eq!(past.deliver_at, 0);
    assert_eq!(topic.take().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_topic_that_is_not_there_is_named() {
    let topic = Topic::of(None);
    let producer = producer(&topic, ProducerOptions::default());
    let answers = producer.schedule(vec![item(None, NOW)]).await;
    let error = answers[0].as_ref().unwrap_err();
    assert_eq!(error.status(), Status::Temporary);
    assert!(error.message().contains("later"), "{error}");
}

proptest! {
    /// What an index of the topic sees: entries are batches, and nobody is early or too late.
    #[test]
    fn runs_of_equal_time_follow_one_another(
        batch in proptest::collection::vec((proptest::option::of("[a-f]"), 0..20_000_i64), 0..60),
        partitions in 1..5_i32, slack in 0..2_000_u64,
    ) {
        // Paused: on a busy machine the clock would go on, and what is past is due now.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let topic = Topic::of(Some(partitions));
        let options = ProducerOptions {
            slack: Slack::Fixed(Duration::from_millis(slack)),
            ..ProducerOptions::default()
        };
        let items = batch.iter().map(|(key, offset)| item(key.as_deref(), NOW + offset));
        let sink = DelayedProducer::new(Arc::clone(&topic), "later", options);
        let sink = runtime.block_on(async {
            sink.clock(Arc::new(FakeClock::at(NOW))).schedule(items.collect()).await
        });
        prop_assert!(sink.iter().all(Result::is_ok));
        let records = topic.take();
        prop_assert_eq!(records.len(), batch.len());
        for partition in 0..partitions {
            let of = records.iter().filter(|record| record.partition == Some(partition));
            let mut times = Vec::new();
            for record in of {
                let asked = Deliver::read(record.headers.view()).unwrap();
                let at = asked.at(crate::record::Timestamp::NotAvailable, 0).unwrap();
                let own = deliver_after_record(record.headers.view()).unwrap();
                prop_assert!(own <= at && at <= own + slack as i64);
                times.push((at, own));
            }
            prop_assert!(times.is_sorted(), "each time once, and what is first due first");
            let mut entries: Vec<i64> = times.iter().map(|(at, _)| *at).collect();
            entries.dedup();
            let own: Vec<Timed> = times
                .iter()
                .enumerate()
                .map(|(place, (_, own))| Timed { place, at: *own })
                .collect();
            let expected: Vec<i64> = runs(own, NOW, options.slack).iter().map(|r| r.at).collect();
            prop_assert_eq!(entries, expected);
        }
    }
}
