//! The way back from a dead-letter topic, on real Apache Kafka: the embedded broker only pretends
//! transactions.
#![cfg(feature = "kafka")]

#[path = "support/real.rs"]
mod real;
#[path = "support/redrive.rs"]
mod support;

use bytes::Bytes;
use kafka_chain::dead_letter::{Dialect, Retried};
use kafka_chain::redrive::{Filter, Problem, REDRIVES, Redrive, RedriveBuilder, Summary, To};
use kafka_chain::transport::Settings;
use kafka_chain::transport::kafka::{NewTopic, OffsetReader, create_topics};
use kafka_chain::{Error, ErrorKind, OutgoingRecord, OwnedRecord};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use support::{PATIENCE, Rig, Size, letter, letter_of, text};
use tokio::time::timeout;

const DIALECTS: [Dialect; 3] = [Dialect::KafkaChain, Dialect::Spring, Dialect::Connect];

async fn rig(name: &str, topics: &[(&str, i32)]) -> Option<Rig> {
    Some(Rig::new(real::kafka()?, name, topics).await)
}

impl Rig {
    /// A redrive that may write to all topics of the rig.
    fn redrive(&self, job: &str) -> RedriveBuilder {
        let letters = self.topic("letters");
        Redrive::builder(&self.settings, letters, job).allow(self.topic("*"))
    }

    /// Dead letters of the first `count` records of a topic, in three dialects.
    async fn fill(&self, suffix: &str, count: i64) {
        let topic = self.topic("letters");
        let letters = (0..count).map(|index| {
            let dialect = DIALECTS[usize::try_from(index).unwrap() % DIALECTS.len()];
            letter(&self.source(suffix, index), &topic, dialect, Size::Full)
        });
        self.send_all(letters.collect()).await;
    }

    async fn committed(&self, redrive: &Redrive) -> Vec<Option<i64>> {
        let mut settings = self.settings.clone();
        settings.set("group.id", redrive.group());
        let reader = OffsetReader::start(&settings).unwrap();
        let letters = self.topic("letters");
        let count = reader.partitions(&letters).await.unwrap().unwrap();
        let committed = reader.committed(&letters, count).await.unwrap();
        committed.into_iter().map(|one| one.offset).collect()
    }
}

async fn run(redrive: &Redrive) -> Summary {
    timeout(PATIENCE, redrive.run()).await.unwrap().unwrap()
}

async fn refused(redrive: &Redrive) -> Error {
    timeout(PATIENCE, redrive.run()).await.unwrap().unwrap_err()
}

fn problems(summary: &Summary) -> Vec<String> {
    let stayed = summary.stayed.iter();
    stayed.map(|stayed| stayed.problem.to_string()).collect()
}

/// `record` is `source` as it was consumed, but for its count of redrives.
fn assert_back(record: &OwnedRecord, source: &OwnedRecord, redrives: &str) {
    let mut headers = record.headers.clone();
    assert_eq!(text(record, REDRIVES).as_deref(), Some(redrives));
    headers.remove(REDRIVES);
    let mut own = source.headers.clone();
    own.remove(REDRIVES);
    assert_eq!(headers, own);
    let place = |record: &OwnedRecord| (record.topic.clone(), record.partition);
    assert_eq!(place(record), place(source));
    assert_eq!((&record.key, &record.value), (&source.key, &source.value));
    assert_eq!(record.timestamp.millis(), source.timestamp.millis());
}

#[tokio::test(flavor = "multi_thread")]
async fn mixed_dead_letters_return_each_to_its_topic_once_however_often_it_is_run() {
    let suffixes = ["orders", "bills", "mails"];
    let topics = [("orders", 3), ("bills", 3), ("mails", 3), ("letters", 6)];
    let Some(rig) = rig("mixed", &topics).await else {
        return;
    };
    let mut sources: BTreeMap<String, OwnedRecord> = BTreeMap::new();
    for suffix in suffixes {
        let count = if suffix == "orders" { 3_400 } else { 3_300 };
        rig.fill(suffix, count).await;
        sources.extend(
            (0..count).map(|index| (format!("{suffix}-{index}"), rig.source(suffix, index))),
        );
    }
    assert_eq!(sources.len(), 10_000);

    let redrive = rig.redrive("all").build().unwrap();
    let began = std::time::Instant::now();
    let summary = run(&redrive).await;
    println!("{summary}\n{:?}", began.elapsed());
    assert_eq!((summary.read, summary.redriven), (10_000, 10_000));
    let again = run(&redrive).await;
    assert_eq!(again, Summary::default());

    let dead = rig.read(&rig.topic("letters")).await;
    for suffix in suffixes {
        let back = rig.read(&rig.topic(suffix)).await;
        let prefix = format!("{suffix}-");
        let ids = |records: &[OwnedRecord], partition| -> Vec<String> {
            let records = records.iter().filter(|one| one.partition == partition);
            let ids = records.filter_map(|one| text(one, "id"));
            ids.filter(|id| id.starts_with(&prefix)).collect()
        };
        for partition in 0..3 {
            assert_eq!(ids(&back, partition), ids(&dead, partition), "in order");
        }
        for record in back {
            let id = text(&record, "id").unwrap();
            let source = sources.remove(&id).expect("each comes once");
            assert_back(&record, &source, "1");
        }
    }
    assert!(sources.is_empty(), "{} are missing", sources.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_was_killed_goes_on_and_repeats_nothing() {
    let Some(rig) = rig("killed", &[("orders", 3), ("letters", 3)]).await else {
        return;
    };
    rig.fill("orders", 3_000).await;
    let done = Arc::new(AtomicU64::new(0));
    let mut kills = 0;
    loop {
        let (tell, told) = (Arc::clone(&done), Arc::new(tokio::sync::Notify::new()));
        let wake = Arc::clone(&told);
        let redrive = rig.redrive("all").batch(100).on_progress(move |summary| {
            tell.fetch_add(1, Ordering::SeqCst);
            if summary.redriven >= 300 {
                wake.notify_one();
            }
        });
        let redrive = redrive.build().unwrap();
        let running = tokio::spawn(async move { redrive.run().await });
        // In the middle of some transaction, with the old run's thread still at it.
        tokio::select! {
            () = told.notified() => {}
            () = tokio::time::sleep(PATIENCE) => panic!("no progress"),
        }
        running.abort();
        let ended = running.await;
        kills += 1;
        if kills == 4 || ended.is_ok() {
            break;
        }
    }
    let last = run(&rig.redrive("all").build().unwrap()).await;
    println!("{kills} kills, then {} records", last.redriven);
    assert!(last.redriven > 0 && last.redriven <= 3_000 - 3 * 300);
    let records = rig.read(&rig.topic("orders")).await;
    let ids: BTreeSet<_> = records.iter().map(|record| text(record, "id")).collect();
    assert_eq!((records.len(), ids.len()), (3_000, 3_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_chooses_and_another_one_under_the_same_name_is_refused() {
    let Some(rig) = rig("filter", &[("orders", 3), ("letters", 3)]).await else {
        return;
    };
    let topic = rig.topic("letters");
    rig.fill("orders", 30).await;
    let schema = |index| {
        let error = Error::schema("no id").at("json");
        letter_of(
            error,
            &rig.source("orders", index),
            &topic,
            Dialect::KafkaChain,
            Size::Full,
        )
    };
    rig.send_all((30..40).map(schema).collect()).await;

    let chosen = rig.redrive("june").filter(Filter::new().kind("schema"));
    let summary = run(&chosen.clone().build().unwrap()).await;
    assert_eq!(
        (summary.read, summary.skipped, summary.redriven),
        (40, 30, 10)
    );
    let other = rig.redrive("june").filter(Filter::new().kind("decrypt"));
    let other = other.build().unwrap();
    for error in [refused(&other).await, other.dry_run().await.unwrap_err()] {
        let text = error.to_string();
        assert!(
            text.contains("kind=schema") && text.contains("kind=decrypt"),
            "{text}"
        );
        assert_eq!(error.kind(), ErrorKind::Config);
    }
    assert_eq!(rig.read(&rig.topic("orders")).await.len(), 10);
    // What comes later is the same job's too.
    rig.send_all((40..45).map(schema).collect()).await;
    let summary = run(&chosen.build().unwrap()).await;
    assert_eq!((summary.read, summary.redriven), (5, 5));
    // And another job has its own progress.
    let rest = rig
        .redrive("july")
        .filter(Filter::new().kind("decrypt").partition(1));
    let summary = run(&rest.build().unwrap()).await;
    assert_eq!((summary.read, summary.redriven), (45, 10));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_tells_the_same_and_changes_nothing() {
    let Some(rig) = rig("dry", &[("orders", 3), ("letters", 3)]).await else {
        return;
    };
    rig.fill("orders", 300).await;
    let redrive = rig.redrive("all").build().unwrap();
    let dry = timeout(PATIENCE, redrive.dry_run()).await.unwrap().unwrap();
    println!("{dry}");
    assert_eq!(dry.redriven, 300);
    assert_eq!(rig.ends(&rig.topic("orders")).await, [0, 0, 0]);
    assert_eq!(rig.committed(&redrive).await, [None, None, None]);
    assert_eq!(run(&redrive).await, dry);
    assert_eq!(rig.read(&rig.topic("orders")).await.len(), 300);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_was_redriven_too_often_is_parked_as_the_dead_letter_it_is() {
    let Some(rig) = rig("loop", &[("orders", 3), ("letters", 3)]).await else {
        return;
    };
    let letters = rig.topic("letters");
    // It fails each time it comes back.
    let mut record = rig.source("orders", 1);
    for turn in 1..=2 {
        let dead = letter(&record, &letters, Dialect::KafkaChain, Size::Full);
        rig.send_all(vec![dead]).await;
        let redrive = rig.redrive("loop").most_redrives(2).build().unwrap();
        assert_eq!(run(&redrive).await.redriven, 1);
        record = rig.read(&rig.topic("orders")).await.pop().unwrap();
        assert_back(&record, &rig.source("orders", 1), &turn.to_string());
    }
    let dead = letter(&record, &letters, Dialect::KafkaChain, Size::Full);
    rig.send_all(vec![dead.clone()]).await;
    let redrive = rig.redrive("loop").most_redrives(2).build().unwrap();
    let error = refused(&redrive).await;
    assert!(
        error
            .to_string()
            .contains("letters.parking` does not exist"),
        "{error}"
    );
    rig.create(&[("letters.parking", 3)]).await;
    let summary = run(&redrive).await;
    assert_eq!((summary.parked, summary.redriven), (1, 0));
    assert_eq!(rig.read(&rig.topic("orders")).await.len(), 2);
    let parked = rig.read(redrive.parking()).await;
    assert_eq!(parked.len(), 1);
    assert_eq!(parked[0].headers, dead.headers);
    assert_eq!((&parked[0].key, &parked[0].value), (&dead.key, &dead.value));
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_lead_to_no_topic_that_is_not_allowed() {
    let topics = [("orders", 3), ("secrets", 3), ("letters", 3)];
    let Some(rig) = rig("allow", &topics).await else {
        return;
    };
    rig.fill("orders", 10).await;
    rig.fill("secrets", 10).await;
    rig.fill("missing", 1).await;
    let plain = OutgoingRecord {
        topic: rig.topic("letters"),
        value: Some(Bytes::from_static(b"no dead letter")),
        ..OutgoingRecord::default()
    };
    rig.send_all(vec![plain]).await;
    let redrive = Redrive::builder(&rig.settings, rig.topic("letters"), "allow");
    let redrive = redrive.allow(rig.topic("orders")).allow(rig.topic("miss*"));
    let summary = run(&redrive.build().unwrap()).await;
    println!("{summary}");
    assert_eq!(
        (summary.redriven, summary.refused, summary.unresolvable),
        (10, 10, 2)
    );
    let problem = Problem::NotAllowed(rig.topic("secrets"));
    assert!(
        summary
            .stayed
            .iter()
            .any(|stayed| stayed.problem == problem)
    );
    let found = problems(&summary);
    for text in ["does not exist", "where it came from"] {
        assert!(
            found.iter().any(|problem| problem.contains(text)),
            "{found:?}"
        );
    }
    assert_eq!(rig.ends(&rig.topic("secrets")).await, [0, 0, 0]);
}

/// Values that were left out, and a share group's pointers.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_in_the_dead_letter_is_fetched_from_its_origin_or_reported() {
    let Some(rig) = rig("fetch", &[("orders", 3), ("letters", 3)]).await else {
        return;
    };
    let (orders, letters) = (rig.topic("orders"), rig.topic("letters"));
    let send = |index| {
        let source = rig.source("orders", index);
        let partition = Some(source.partition);
        OutgoingRecord {
            partition,
            ..OutgoingRecord::from(source)
        }
    };
    rig.send_all((0..600).map(send).collect()).await;
    let originals = rig.read(&orders).await;
    // Far apart, side by side, null among them; in two dialects.
    let chosen: Vec<&OwnedRecord> = originals.iter().filter(|one| one.offset % 60 < 2).collect();
    let mut dead = Vec::new();
    for (index, record) in chosen.iter().enumerate() {
        let full = |dialect| letter(record, &letters, dialect, Size::WithoutValue);
        dead.push(match index % 3 {
            0 => full(Dialect::KafkaChain),
            1 => full(Dialect::SmallRye),
            _ => {
                let mut pointer = full(Dialect::ShareGroup);
                let names: Vec<_> = record
                    .headers
                    .iter()
                    .map(|(name, _)| name.clone())
                    .collect();
                names.iter().for_each(|name| pointer.headers.remove(name));
                pointer.headers.remove("kafka-chain-value-left-out");
                (pointer.key, pointer.value) = (None, None);
                pointer
            }
        });
    }
    // Never there, by its offset or by its partition, and another record by now.
    for (partition, offset) in [(0, 900), (77, 0)] {
        let mut gone = rig.source("orders", 1);
        gone.offset = offset;
        gone.partition = partition;
        let mut gone = letter(&gone, &letters, Dialect::KafkaChain, Size::WithoutValue);
        gone.partition = Some(0);
        dead.push(gone);
    }
    let mut other = chosen[1].clone();
    other.key = Some(Bytes::from_static(b"another"));
    other.value = Some(Bytes::from_static(b"x"));
    dead.push(letter(
        &other,
        &letters,
        Dialect::KafkaChain,
        Size::WithoutValue,
    ));
    rig.send_all(dead).await;

    let summary = run(&rig.redrive("fetch").build().unwrap()).await;
    println!("{summary}");
    let count = u64::try_from(chosen.len()).unwrap();
    assert_eq!(
        (summary.redriven, summary.unresolvable),
        (count, 3),
        "{:?}",
        summary.stayed
    );
    let found = problems(&summary);
    for text in [
        "@900 is not there",
        "[77] @0 is not there",
        "has another key by now",
    ] {
        assert!(
            found.iter().any(|problem| problem.contains(text)),
            "{found:?}"
        );
    }
    let back: Vec<_> = rig.read(&orders).await;
    let back: Vec<_> = back
        .iter()
        .filter(|one| text(one, REDRIVES).is_some())
        .collect();
    assert_eq!(back.len(), chosen.len());
    for record in back {
        let id = text(record, "id");
        let source = chosen
            .iter()
            .find(|source| text(source, "id") == id)
            .unwrap();
        let mut source = (*source).clone();
        // SmallRye does not tell the time of a record, and the share group neither.
        source.timestamp = match record.timestamp == source.timestamp {
            true => source.timestamp,
            false => record.timestamp,
        };
        assert_back(record, &source, "1");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn retries_of_the_group_come_first_and_know_where_they_are_from() {
    let Some(rig) = rig(
        "retry",
        &[("orders", 3), ("orders.shop.retry", 2), ("letters", 3)],
    )
    .await
    else {
        return;
    };
    rig.fill("orders", 30).await;
    let summary = run(&rig.redrive("auto").build().unwrap()).await;
    let (orders, retry) = (rig.topic("orders"), rig.topic("orders.shop.retry"));
    // Connect tells no group; its connector is one.
    assert_eq!(
        summary.targets,
        BTreeMap::from([(retry.clone(), 20), (orders.clone(), 10)])
    );
    for record in rig.read(&retry).await {
        let first = Retried::of(&record.as_record()).unwrap();
        assert_eq!((first.topic, first.attempt), (orders.clone(), 2));
    }
    let source = rig.redrive("source").to(To::Source).build().unwrap();
    assert_eq!(
        run(&source).await.targets,
        BTreeMap::from([(orders.clone(), 30)])
    );
    let own = rig
        .redrive("own")
        .to(To::Retry)
        .group("mail")
        .build()
        .unwrap();
    let summary = run(&own).await;
    assert_eq!((summary.redriven, summary.unresolvable), (0, 30));
}

/// One that the target does not take does not keep the others.
#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_is_too_large_stays_and_the_others_go() {
    let Some(rig) = rig("large", &[("letters", 3)]).await else {
        return;
    };
    let mut small = NewTopic::new(rig.topic("orders"), 3);
    small.config = BTreeMap::from([("max.message.bytes".to_owned(), "2000".to_owned())]);
    let own: Settings = rig.settings.clone();
    create_topics(&own, vec![small], PATIENCE).await.unwrap();
    let letters = rig.topic("letters");
    let dead = (0..9).map(|index| {
        let mut source = rig.source("orders", index);
        if index % 4 == 1 {
            source.value = Some(Bytes::from(vec![b'x'; 5_000]));
        }
        letter(&source, &letters, Dialect::KafkaChain, Size::Full)
    });
    rig.send_all(dead.collect()).await;
    let summary = run(&rig.redrive("large").build().unwrap()).await;
    println!("{summary} {:?}", problems(&summary));
    assert_eq!((summary.redriven, summary.unresolvable), (7, 2));
    let records = rig.read(&rig.topic("orders")).await;
    let ids: BTreeSet<_> = records.iter().map(|record| text(record, "id")).collect();
    assert_eq!((records.len(), ids.len()), (7, 7));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rate_and_a_small_batch_change_nothing_but_the_time() {
    let Some(rig) = rig("rate", &[("orders", 3), ("letters", 3)]).await else {
        return;
    };
    rig.fill("orders", 60).await;
    let batches = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&batches);
    let redrive = rig.redrive("rate").rate(40).on_progress(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
    });
    assert_eq!(run(&redrive.build().unwrap()).await.redriven, 60);
    assert!(batches.load(Ordering::SeqCst) >= 2);
    assert_eq!(rig.read(&rig.topic("orders")).await.len(), 60);
}
