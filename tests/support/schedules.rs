//! What holds of a scheduler on any broker.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "steps of several tests"
)]

use crate::folder::Folder;
use crate::scheduler::{PATIENCE, Rig, now, text};
use kafka_chain::ErrorKind;
use kafka_chain::delay::Limits;
use kafka_chain::delay::deliver::DeliverRules;
use kafka_chain::scheduler::{ScheduleDurability, Scheduler, SchedulerOptions};
use kafka_chain::transport::Settings;
use kafka_chain::transport::kafka::{NewTopic, create_topics};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::time::sleep;

/// Each at its time, in any order, byte for byte; nothing is left.
pub async fn delivers(rig: &Rig, folder: &Folder) {
    let running = rig.start(rig.options(folder.path())).await;
    let start = now();
    let delays = [900, 300, 0, -5_000, 1_500, 301];
    let mut dues = BTreeMap::new();
    let mut records = Vec::new();
    for n in 0..60 {
        let at = start + delays[n % delays.len()];
        let partition = i32::try_from(n).unwrap() % rig.partitions;
        records.push(rig.delayed(partition, &n.to_string(), at));
        dues.insert(n.to_string(), at);
    }
    rig.put(records).await;
    let arrivals = rig.arrivals(60, PATIENCE).await;
    assert_eq!(arrivals.len(), 60);
    for arrival in &arrivals {
        let text = text(&arrival.record);
        let due = dues.remove(&text).expect("once");
        assert!(arrival.at >= due, "{text} is early");
        assert_eq!(arrival.record.topic, rig.target());
        assert_eq!(arrival.record.key.as_deref(), Some(&b"key"[..]));
        let headers: Vec<_> = arrival.record.headers.iter().collect();
        assert_eq!(headers.len(), 1, "ours are gone: {headers:?}");
        assert_eq!(headers[0].1.unwrap(), text.as_bytes());
    }
    let counts = running.stop().await;
    assert_eq!(counts.early.load(Relaxed), 0);
    assert_eq!(counts.delivered.load(Relaxed), 60);
    println!("latest: {} ms", counts.latest.load(Relaxed));
    assert_eq!(rig.waiting().await, BTreeMap::new());
}

/// What cannot be delivered is a dead letter that says why; the rest goes on.
pub async fn refuses(rig: &Rig, folder: &Folder) {
    let options = SchedulerOptions {
        limits: Limits {
            max_delay: Duration::from_secs(3_600),
            ..Limits::default()
        },
        ..rig.options(folder.path())
    };
    let running = rig.start(options).await;
    let with = |text: &str, headers: &[(&'static str, String)]| {
        let mut record = rig.delayed(0, text, 0);
        record.headers = Default::default();
        for (name, value) in headers {
            record.headers.push(*name, Some(value.clone()));
        }
        record
    };
    let (after, to) = ("deliver-after", "deliver-to");
    let far = (now() + 4_000_000).to_string();
    let records = vec![
        with("no target", &[(after, "0".into())]),
        with("unknown", &[(after, "0".into()), (to, "elsewhere".into())]),
        with("cycle", &[(after, "0".into()), (to, rig.topic.clone())]),
        with("broken", &[(after, "soon".into()), (to, rig.target())]),
        with("far", &[(after, far), (to, rig.target())]),
        with("at once", &[(to, rig.target())]),
        rig.delayed(0, "good", now() + 200),
    ];
    rig.put(records).await;
    let mut arrived = BTreeMap::new();
    for arrival in rig.arrivals(7, PATIENCE).await {
        let headers = &arrival.record.headers;
        let reason = headers
            .iter()
            .find(|(name, _)| &name[..] == b"kafka-chain-message");
        let reason = reason.and_then(|(_, value)| value);
        let reason = reason.map(|value| String::from_utf8_lossy(value).into_owned());
        let dead = arrival.record.topic.ends_with(".dead-letter");
        arrived.insert(text(&arrival.record), (dead, reason.unwrap_or_default()));
    }
    let counts = running.stop().await;
    assert_eq!(counts.dead_lettered.load(Relaxed), 5);
    for (text, reason) in [
        ("no target", "no topic"),
        ("unknown", "deliver.allow"),
        ("cycle", "cycle"),
        ("broken", "deliver-after"),
        ("far", "maximum"),
    ] {
        let (dead, found) = &arrived[text];
        assert!(*dead && found.contains(reason), "{text}: {arrived:?}");
    }
    assert!(!arrived["good"].0 && !arrived["at once"].0, "{arrived:?}");
}

/// A run of records that are due at one time is one entry.
pub async fn batches_are_entries(rig: &Rig, folder: &Folder) {
    let far = now() + 3_600_000;
    for batch in 0..10 {
        let records = (0..50).map(|n| rig.delayed(0, &n.to_string(), far + batch));
        rig.put(records.collect()).await;
    }
    let running = rig.start(rig.options(folder.path())).await;
    running.ingested(500).await;
    let counts = running.stop().await;
    assert_eq!(counts.entries.load(Relaxed), 10);
    assert_eq!(rig.waiting().await.len(), 10);
}

/// Started again with its folder, or with an empty one: all of it is delivered, once.
pub async fn restarts(rig: &Rig, folders: [&Folder; 2], cold: u64) {
    let first = rig.start(rig.options(folders[0].path())).await;
    let at = now() + 4_000;
    let text = |n: i32| format!("restart {n}");
    let records = (0..40).map(|n| rig.delayed(n % rig.partitions, &text(n), at + i64::from(n)));
    rig.put(records.collect()).await;
    first.ingested(40).await;
    first.stop().await;
    assert!(now() < at, "the machine is too slow for this test");
    let second = rig.start(rig.options(folders[1].path())).await;
    let texts = rig.texts(40).await;
    let expected: BTreeMap<_, _> = (0..40).map(|n| (text(n), 1)).collect();
    assert_eq!(texts, expected);
    let counts = second.stop().await;
    assert_eq!(counts.ingested.load(Relaxed), 0, "nothing was read again");
    assert_eq!(counts.cold.load(Relaxed), cold);
    assert_eq!(counts.early.load(Relaxed), 0);
    assert_eq!(rig.waiting().await, BTreeMap::new());
}

/// Another owner has delivered all; the first comes back with what it knew.
pub async fn comes_back(rig: &Rig, folders: [&Folder; 2], max_index_age: Duration, cold: u64) {
    let first = rig.start(rig.options(folders[0].path())).await;
    let at = now() + 3_000;
    let records = (0..30).map(|n| rig.delayed(n % rig.partitions, &format!("back {n}"), at));
    rig.put(records.collect()).await;
    first.ingested(30).await;
    first.stop().await;
    let second = rig.start(rig.options(folders[1].path())).await;
    assert_eq!(rig.texts(30).await.len(), 30);
    second.stop().await;
    let options = SchedulerOptions {
        max_index_age,
        ..rig.options(folders[0].path())
    };
    let third = rig.start(options).await;
    rig.put(vec![rig.delayed(0, "last", 0)]).await;
    assert_eq!(rig.texts(1).await, BTreeMap::from([("last".to_owned(), 1)]));
    let counts = third.stop().await;
    assert_eq!(counts.cold.load(Relaxed), cold);
}

/// A second member comes while records wait, and the first goes.
pub async fn rebalances(rig: &Rig, folders: [&Folder; 2]) {
    let first = rig.start(rig.options(folders[0].path())).await;
    let start = now();
    let text = |n: i32| format!("moved {n}");
    let records = (0..200).map(|n| {
        let at = start + 2_000 + i64::from(n) * 40;
        rig.delayed(n % rig.partitions, &text(n), at)
    });
    rig.put(records.collect()).await;
    first.ingested(200).await;
    let second = rig.start(rig.options(folders[1].path())).await;
    let both = async {
        while second.counts.delivered.load(Relaxed) < 10 {
            sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, both)
        .await
        .expect("the second delivers");
    let first = first.stop().await;
    let texts = rig.texts(200).await;
    let expected: BTreeMap<_, _> = (0..200).map(|n| (text(n), 1)).collect();
    assert_eq!(
        texts, expected,
        "an orderly rebalance delivers nothing twice"
    );
    let second = second.stop().await;
    assert_eq!(first.early.load(Relaxed) + second.early.load(Relaxed), 0);
    assert!(second.cold.load(Relaxed) > 0);
    assert_eq!(rig.waiting().await, BTreeMap::new());
}

/// Without a changelog: one static member, which no other folder can stand in for.
pub async fn local(rig: &Rig, folders: [&Folder; 2]) {
    let local = |folder: &Folder, instance: Option<&str>, accept_loss: bool| {
        let mut options = rig.options(folder.path());
        options.durability = ScheduleDurability::Local { accept_loss };
        if let Some(instance) = instance {
            options.consumer.set("group.instance.id", instance);
        }
        options
    };
    assert!(
        local(folders[0], None, false)
            .durability
            .to_string()
            .contains("lost")
    );
    let error = Scheduler::start(local(folders[0], None, false)).await;
    let error = error.unwrap_err();
    assert!(error.message().contains("group.instance.id"), "{error}");

    let first = rig.start(local(folders[0], Some("one"), false)).await;
    let at = now() + 20_000;
    let text = |n: i32| format!("local {n}");
    let records = (0..20).map(|n| rig.delayed(n % rig.partitions, &text(n), at));
    rig.put(records.collect()).await;
    first.ingested(20).await;
    sleep(Duration::from_millis(500)).await;
    // A second member is refused, and the first goes on.
    let second = rig.start(local(folders[1], Some("two"), false)).await;
    let error = second.ended().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.message().contains("one member"), "{error}");
    first.stop().await;
    // A static member is only gone when its session has ended.
    sleep(Duration::from_secs(4)).await;
    // So is another folder in its place, but for who accepts the loss.
    let other = rig.start(local(folders[1], Some("one"), false)).await;
    let error = other.ended().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.message().contains("another folder"), "{error}");
    let again = rig.start(local(folders[0], Some("one"), false)).await;
    let expected: BTreeMap<_, _> = (0..20).map(|n| (text(n), 1)).collect();
    assert_eq!(rig.texts(20).await, expected);
    let counts = again.stop().await;
    assert_eq!(counts.ingested.load(Relaxed), 0);
    let accepting = rig.start(local(folders[1], Some("one"), true)).await;
    rig.put(vec![rig.delayed(0, "new", 0)]).await;
    assert_eq!(rig.texts(1).await, BTreeMap::from([("new".to_owned(), 1)]));
    accepting.stop().await;
}

/// A target that is not there holds nothing else up, and gets its records once it is there.
pub async fn missing_target(rig: &Rig, folder: &Folder) {
    let missing = format!("{}.missing", rig.topic);
    let mut options = rig.options(folder.path());
    options.rules = DeliverRules::new([rig.target(), missing.clone()]).unwrap();
    options
        .producer
        .set("topic.metadata.propagation.max.ms", "200");
    let running = rig.start(options).await;
    let at = now() + 500;
    let mut records = Vec::new();
    for n in 0..20 {
        let mut record = rig.delayed(0, &format!("record {n}"), at);
        if n % 2 == 1 {
            record.headers.remove(b"deliver-to");
            record.headers.push("deliver-to", Some(missing.clone()));
        }
        records.push(record);
    }
    rig.put(records).await;
    let texts = rig.texts(10).await;
    let expected: BTreeMap<_, _> = (0..10).map(|n| (format!("record {}", 2 * n), 1)).collect();
    assert_eq!(texts, expected);
    assert_eq!(
        rig.waiting().await.len(),
        10,
        "one entry each of what is left"
    );
    let mut settings = Settings::new();
    settings.set("bootstrap.servers", &rig.servers);
    let topic = vec![NewTopic::new(&missing, 1)];
    create_topics(&settings, topic, PATIENCE).await.unwrap();
    let late = async {
        while running.counts.delivered.load(Relaxed) < 20 {
            sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, late)
        .await
        .expect("the rest");
    let counts = running.stop().await;
    assert!(counts.retried.load(Relaxed) >= 10);
    assert_eq!(counts.dead_lettered.load(Relaxed), 0);
    assert_eq!(rig.waiting().await, BTreeMap::new());
}

/// Topics that would lose something are refused before anything is done.
pub async fn refuses_topics(rig: &Rig, folder: &Folder) {
    let mut settings = Settings::new();
    settings.set("bootstrap.servers", &rig.servers);
    let refusal = async |name: &str, partitions: i32, config: &[(&str, &str)]| {
        let topic = format!("{}.{name}", rig.topic);
        let mut changelog = NewTopic::new(format!("{topic}.schedule"), partitions);
        for (name, value) in config {
            let (name, value) = ((*name).to_owned(), (*value).to_owned());
            changelog.config.insert(name, value);
        }
        let topics = vec![NewTopic::new(&topic, 2), changelog];
        create_topics(&settings, topics, PATIENCE).await.unwrap();
        let options = SchedulerOptions {
            topic,
            ..rig.options(folder.path())
        };
        let error = Scheduler::start(options).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        error.message().to_owned()
    };
    let compact = ("cleanup.policy", "compact");
    let text = refusal("parts", 3, &[compact]).await;
    assert!(text.contains("3 partitions"), "{text}");
    let text = refusal("deletes", 2, &[]).await;
    assert!(text.contains("cleanup.policy=delete"), "{text}");
    let text = refusal("forgets", 2, &[compact, ("delete.retention.ms", "60000")]).await;
    assert!(
        text.contains("=60000") && text.contains("43200000"),
        "{text}"
    );
    let missing = SchedulerOptions {
        topic: format!("{}.nowhere", rig.topic),
        ..rig.options(folder.path())
    };
    let error = Scheduler::start(missing).await.unwrap_err();
    assert!(error.message().contains("does not exist"), "{error}");
}
