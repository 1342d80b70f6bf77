//! A group's members on the embedded broker: rebalances, pauses, commits, the end.
#![cfg(feature = "kafka")]

#[path = "support/group.rs"]
mod group;

use group::{PATIENCE, assigned, churn, fill, next, revoked, settings, start, take};
use kafka_chain::transport::Settings;
use kafka_chain::transport::kafka::{
    Commit, CommitFailure, EmbeddedBroker, GroupConsumer, GroupEvent, GroupOptions, KafkaSink,
};
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};

const EAGER: &[(&str, &str)] = &[
    ("session.timeout.ms", "1100"),
    ("heartbeat.interval.ms", "50"),
];
const COOPERATIVE: &[(&str, &str)] = &[
    ("session.timeout.ms", "3000"),
    ("heartbeat.interval.ms", "50"),
    ("partition.assignment.strategy", "cooperative-sticky"),
];
const KIP_848: &[(&str, &str)] = &[("group.protocol", "consumer")];

struct Rig {
    broker: EmbeddedBroker,
    sink: KafkaSink,
}

fn rig(topic: &str, partitions: i32) -> Rig {
    let broker = EmbeddedBroker::start(1).unwrap();
    broker.create_topic(topic, partitions).unwrap();
    let mut settings = Settings::new();
    settings
        .set("bootstrap.servers", broker.bootstrap_servers())
        .set("linger.ms", "0");
    let sink = KafkaSink::start(&settings).unwrap();
    Rig { broker, sink }
}

impl Rig {
    fn settings(&self, group: &str, more: &[(&str, &str)]) -> Settings {
        settings(&self.broker.bootstrap_servers(), group, more)
    }
}

async fn churned(topic: &str, protocol: &[(&str, &str)], rounds: usize, pause: u64) {
    let rig = rig(topic, 4);
    let settings = rig.settings(topic, protocol);
    let pause = Duration::from_millis(pause);
    let (twice, ownerships) = churn(&rig.sink, &settings, topic, 4, rounds, pause).await;
    println!("{topic}: {ownerships} ownerships, {twice} records twice");
    assert!(ownerships > 4, "partitions have moved");
}

/// FC-066, FC-070.
#[tokio::test]
async fn an_eager_group_loses_nothing_while_members_come_and_go() {
    churned("eager", EAGER, 10, 400).await;
}

/// FC-066, FC-070.
#[tokio::test]
async fn a_cooperative_group_loses_nothing_while_members_come_and_go() {
    churned("cooperative", COOPERATIVE, 2, 3500).await;
}

/// FC-066, FC-070.
#[tokio::test]
async fn a_kip_848_group_loses_nothing_while_members_come_and_go() {
    churned("kip848", KIP_848, 10, 400).await;
}

/// FC-070: what waited before the member joined comes in order and without a hole.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backlog_is_read_in_order_from_its_beginning() {
    let rig = rig("backlog", 4);
    for partition in 0..4 {
        fill(&rig.sink, "backlog", partition, 1000).await;
    }
    let mut consumer = start(&rig.settings("backlog", EAGER), "backlog");
    let partitions = assigned(&mut consumer).await;
    assert_eq!(partitions.len(), 4);
    let mut readers = tokio::task::JoinSet::new();
    for mut partition in partitions {
        assert_eq!(partition.start, None, "nothing was committed yet");
        readers.spawn(async move { take(&mut partition.reader, 1000).await });
    }
    while let Some(offsets) = readers.join_next().await {
        assert!(offsets.unwrap().into_iter().eq(0..1000));
    }
    consumer.close(Vec::new(), PATIENCE).await;
}

/// FC-077: commits at the end are there for the next member, with their metadata kept apart from
/// what was only read.
#[tokio::test]
async fn the_next_member_begins_at_what_was_committed() {
    let rig = rig("resume", 1);
    fill(&rig.sink, "resume", 0, 10).await;
    let settings = rig.settings("resume", EAGER);

    let mut first = start(&settings, "resume");
    let mut partition = assigned(&mut first).await.remove(0);
    assert_eq!(
        take(&mut partition.reader, 8).await,
        [0, 1, 2, 3, 4, 5, 6, 7]
    );
    let mut commit = Commit::new(partition.partition.clone(), 3);
    commit.metadata = Some("of mine".to_owned());
    assert_eq!(first.handle().commit(vec![commit]).await, [Ok(())]);
    let last = vec![Commit::new(partition.partition.clone(), 5)];
    assert_eq!(first.close(last, PATIENCE).await, [Ok(())]);
    assert!(partition.reader.next_batch(1).await.is_none());

    let mut second = start(&settings, "resume");
    let mut again = assigned(&mut second).await.remove(0);
    assert_eq!(again.start, Some(5));
    assert_eq!(take(&mut again.reader, 5).await, [5, 6, 7, 8, 9]);
    let handle = second.handle();
    second.close(Vec::new(), PATIENCE).await;
    let late = handle.commit(vec![Commit::new(again.partition, 9)]).await;
    let failure = late[0].as_ref().unwrap_err().failure;
    assert_eq!(failure, CommitFailure::NotOwned);
    assert_eq!(handle.owned(), []);
}

/// FC-067: records that come before the owner is ready wait for it.
#[tokio::test]
async fn nothing_is_read_before_the_owner_is_ready() {
    let rig = rig("ready", 1);
    fill(&rig.sink, "ready", 0, 50).await;
    let settings = rig.settings("ready", EAGER);
    let mut first = start(&settings, "ready");
    let mut slow = assigned(&mut first).await.remove(0);
    sleep(Duration::from_millis(500)).await;
    assert_eq!(take(&mut slow.reader, 5).await, [0, 1, 2, 3, 4]);
    first.close(Vec::new(), PATIENCE).await;

    // Given back before its owner was ready: nothing is handled, nothing is lost.
    let mut second = start(&settings, "ready");
    let mut never = assigned(&mut second).await.remove(0);
    let third = start(&settings, "ready");
    let revoked = revoked(&mut second).await;
    assert_eq!(revoked.partitions, [never.partition.clone()]);
    assert!(never.reader.next_batch(10).await.is_none());
    revoked.done();
    let mut members = [second, third];
    let mut partition = loop {
        let [second, third] = &mut members;
        let event = tokio::select! {
            event = second.next_event() => event,
            event = third.next_event() => event,
        };
        match event.unwrap() {
            GroupEvent::Assigned(mut partitions) if !partitions.is_empty() => {
                break partitions.remove(0);
            }
            GroupEvent::Assigned(_) => {}
            event => panic!("{event:?}"),
        }
    };
    assert!(take(&mut partition.reader, 50).await.into_iter().eq(0..50));
}

/// FC-068: a worker that ended when idle is replaced, and an idle one is woken.
#[tokio::test]
async fn an_idle_partition_delivers_again_to_another_reader_too() {
    let rig = rig("idle", 2);
    let mut consumer = start(&rig.settings("idle", EAGER), "idle");
    let mut partitions = assigned(&mut consumer).await;
    partitions.sort_by(|a, b| a.partition.cmp(&b.partition));
    let mut kept = partitions.pop().unwrap();
    let dropped = partitions.pop().unwrap().partition;
    let handle = consumer.handle();

    fill(&rig.sink, "idle", 0, 3).await;
    let mut reader = handle.reader(&dropped).unwrap();
    assert_eq!(take(&mut reader, 2).await, [0, 1]);
    drop(reader);
    let waiting = tokio::spawn(async move { take(&mut kept.reader, 1).await });
    sleep(Duration::from_millis(1200)).await;
    fill(&rig.sink, "idle", 0, 1).await;
    fill(&rig.sink, "idle", 1, 1).await;
    let mut reader = handle.reader(&dropped).unwrap();
    assert_eq!(take(&mut reader, 2).await, [2, 3]);
    assert_eq!(waiting.await.unwrap(), [0]);
    assert_eq!(handle.owned().len(), 2);
}

/// FC-068: a rebalance while all partitions are idle. FC-062: a partition paused in an ownership
/// that has ended is read again when it comes back.
#[tokio::test]
async fn a_paused_partition_that_comes_back_is_not_paused() {
    for (topic, protocol) in [("back-eager", EAGER), ("back-848", KIP_848)] {
        let rig = rig(topic, 2);
        let settings = rig.settings(topic, protocol);
        let mut first = start(&settings, topic);
        let handle = first.handle();
        let partitions = assigned(&mut first).await;
        assert_eq!(partitions.len(), 2);
        for partition in &partitions {
            assert!(handle.pause(&partition.partition, true).await.unwrap());
        }
        let mut second = start(&settings, topic);
        let gone = revoked(&mut first).await;
        let moved = gone.partitions.clone();
        gone.done();
        while handle.owns(&moved[0]) {
            sleep(Duration::from_millis(1)).await;
        }
        assert!(!assigned(&mut second).await.is_empty());
        while handle.owned().is_empty() {
            assert!(matches!(next(&mut first).await, GroupEvent::Assigned(_)));
        }
        assert!(
            !handle.pause(&moved[0], false).await.unwrap(),
            "no longer ours"
        );
        second.close(Vec::new(), PATIENCE).await;
        // An eager group gives back what it kept, too.
        let mut back = loop {
            match next(&mut first).await {
                GroupEvent::Assigned(partitions) => {
                    let of_moved = |p: &kafka_chain::transport::kafka::AssignedPartition| {
                        p.partition.partition == moved[0].partition
                    };
                    if handle.owned().len() == 2
                        && let Some(found) = partitions.into_iter().find(of_moved)
                    {
                        break found;
                    }
                }
                GroupEvent::Revoked(revoked) => revoked.done(),
                // The mock cluster may forget a member that is slow to rejoin.
                GroupEvent::Lost(_) => {}
                event => panic!("{event:?}"),
            }
        };
        assert!(back.partition.ownership > moved[0].ownership);
        fill(&rig.sink, topic, back.partition.partition, 3).await;
        assert_eq!(take(&mut back.reader, 3).await, [0, 1, 2]);
    }
}

/// FC-066: partitions that are kept keep their state, the user's pause among it, and are read on.
#[tokio::test]
async fn a_pause_survives_a_rebalance_in_which_the_partition_is_kept() {
    let rig = rig("kept", 4);
    let settings = rig.settings("kept", KIP_848);
    let mut first = start(&settings, "kept");
    let handle = first.handle();
    let partitions = assigned(&mut first).await;
    assert_eq!(partitions.len(), 4);
    for partition in &partitions {
        handle.pause(&partition.partition, true).await.unwrap();
    }
    let mut second = start(&settings, "kept");
    let gone = revoked(&mut first).await;
    assert_eq!(gone.partitions.len(), 2, "only what the other member gets");
    let moved = gone.partitions.clone();
    gone.done();
    assert_eq!(assigned(&mut second).await.len(), 2);
    let mut kept: Vec<_> = partitions
        .into_iter()
        .filter(|partition| !moved.contains(&partition.partition))
        .collect();
    assert_eq!(kept.len(), 2);
    for partition in &mut kept {
        assert!(handle.owns(&partition.partition), "in the same ownership");
        fill(&rig.sink, "kept", partition.partition.partition, 5).await;
        let none = timeout(Duration::from_millis(500), partition.reader.next_batch(5)).await;
        assert!(none.is_err(), "still paused");
        handle.pause(&partition.partition, false).await.unwrap();
        assert_eq!(take(&mut partition.reader, 5).await, [0, 1, 2, 3, 4]);
    }
}

/// FC-062's other half: pausing and resuming gives every record once, in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pausing_and_resuming_loses_and_repeats_nothing() {
    let rig = rig("pauses", 1);
    fill(&rig.sink, "pauses", 0, 20_000).await;
    let mut consumer = start(&rig.settings("pauses", EAGER), "pauses");
    let handle = consumer.handle();
    let mut partition = assigned(&mut consumer).await.remove(0);
    let owned = partition.partition.clone();
    let pausing = tokio::spawn(async move {
        for _ in 0..40 {
            handle.pause(&owned, true).await.unwrap();
            sleep(Duration::from_millis(1)).await;
            handle.pause(&owned, false).await.unwrap();
            sleep(Duration::from_millis(10)).await;
        }
    });
    let mut offsets = Vec::new();
    while offsets.len() < 20_000 {
        offsets.extend(take(&mut partition.reader, 50.min(20_000 - offsets.len())).await);
        tokio::task::yield_now().await;
    }
    assert!(offsets.into_iter().eq(0..20_000));
    pausing.await.unwrap();
}

/// A partition is given back when its owner has answered, or when it took too long.
#[tokio::test]
async fn a_revoked_partition_is_drained_within_a_limit() {
    let rig = rig("drain", 2);
    let settings = rig.settings("drain", KIP_848);
    let mut options = GroupOptions::default();
    options.drain = Duration::from_millis(300);
    let mut first = GroupConsumer::start(&settings, &["drain"], &options).unwrap();
    let handle = first.handle();
    assert_eq!(assigned(&mut first).await.len(), 2);
    let mut second = start(&settings, "drain");
    let unanswered = revoked(&mut first).await;
    let moved = unanswered.partitions[0].clone();
    assert!(handle.owns(&moved), "ours until it is given back");
    assert_eq!(
        handle.commit(vec![Commit::new(moved.clone(), 7)]).await,
        [Ok(())]
    );
    let theirs = assigned(&mut second).await.remove(0);
    assert!(Instant::now() >= unanswered.deadline);
    assert_eq!(theirs.partition.partition, moved.partition);
    assert_eq!(theirs.start, Some(7), "committed while it was drained");
    assert!(!handle.owns(&moved));
    // The one that comes too late for its ownership.
    let late = handle.commit(vec![Commit::new(moved, 9)]).await;
    assert!(late[0].is_err());
}

/// What is not taken is not fetched: the queue has its limit.
#[tokio::test]
async fn back_pressure_reaches_the_broker() {
    let rig = rig("pressure", 1);
    // A fetch answers with whole batches: these are small ones.
    for _ in 0..50 {
        fill(&rig.sink, "pressure", 0, 100).await;
    }
    let limits = [
        ("queued.max.messages.kbytes", "8"),
        ("max.partition.fetch.bytes", "4096"),
        ("session.timeout.ms", "1100"),
    ];
    let mut consumer = start(&rig.settings("pressure", &limits), "pressure");
    let mut partition = assigned(&mut consumer).await.remove(0);
    sleep(Duration::from_secs(1)).await;
    let batch = partition.reader.next_batch(5000).await.unwrap();
    assert!(
        batch.len() < 2500,
        "{} records were fetched ahead",
        batch.len()
    );
    let taken = batch.len();
    drop(batch);
    let rest = take(&mut partition.reader, 5000 - taken).await;
    assert_eq!(rest.last(), Some(&4999));
}

/// A handler that never returns keeps its record; the group is left all the same.
#[tokio::test]
async fn closing_does_not_wait_for_records_in_hand() {
    let rig = rig("stuck", 1);
    fill(&rig.sink, "stuck", 0, 3).await;
    let settings = rig.settings("stuck", EAGER);
    let mut first = start(&settings, "stuck");
    let mut partition = assigned(&mut first).await.remove(0);
    let stuck = partition.reader.next_batch(1).await.unwrap();
    let last = vec![Commit::new(partition.partition, 1)];
    let closed = timeout(PATIENCE, first.close(last, Duration::from_secs(5))).await;
    assert_eq!(closed.unwrap(), [Ok(())]);
    // The group was left: the next member need not wait for the session to end.
    let mut second = start(&settings, "stuck");
    let mut next = assigned(&mut second).await.remove(0);
    assert_eq!(take(&mut next.reader, 2).await, [1, 2]);
    assert_eq!(stuck[0].record().value.unwrap().len(), 29, "still readable");
}

/// FC-047: a handler, and a runtime of one thread, blocked beyond every timeout costs no rebalance.
#[tokio::test]
async fn a_blocked_runtime_costs_no_rebalance() {
    let rig = rig("blocked", 1);
    fill(&rig.sink, "blocked", 0, 2).await;
    let timeouts = [
        ("session.timeout.ms", "1100"),
        ("heartbeat.interval.ms", "50"),
        ("max.poll.interval.ms", "1200"),
    ];
    let mut consumer = start(&rig.settings("blocked", &timeouts), "blocked");
    let mut partition = assigned(&mut consumer).await.remove(0);
    let first = partition.reader.next_batch(1).await.unwrap();
    std::thread::sleep(Duration::from_secs(4));
    let commit = Commit::new(partition.partition.clone(), 1);
    assert_eq!(consumer.handle().commit(vec![commit]).await, [Ok(())]);
    assert_eq!(take(&mut partition.reader, 1).await, [1]);
    let event = timeout(Duration::from_millis(100), consumer.next_event()).await;
    assert!(event.is_err(), "{event:?}");
    assert_eq!(first[0].record().offset, 0);
}

/// FC-048: polling goes on without a broker, records flow when it is back, and the end is bounded.
#[tokio::test]
async fn a_dead_broker_stops_neither_polling_nor_closing() {
    let rig = rig("dead", 1);
    fill(&rig.sink, "dead", 0, 1).await;
    let mut consumer = start(
        &rig.settings("dead", &[("session.timeout.ms", "20000")]),
        "dead",
    );
    let handle = consumer.handle();
    let mut partition = assigned(&mut consumer).await.remove(0);
    assert_eq!(take(&mut partition.reader, 1).await, [0]);
    rig.broker.take_down(1).unwrap();
    let down = Instant::now();
    let committing = tokio::spawn({
        let (handle, commit) = (handle.clone(), Commit::new(partition.partition.clone(), 1));
        async move { handle.commit(vec![commit]).await }
    });
    sleep(Duration::from_secs(1)).await;
    assert!(handle.last_poll_age() < down.elapsed());
    assert!(handle.take_warning().is_some(), "the outage is noted");
    assert!(!committing.is_finished());
    rig.broker.bring_up(1).unwrap();
    fill(&rig.sink, "dead", 0, 1).await;
    assert_eq!(take(&mut partition.reader, 1).await, [1]);
    assert_eq!(
        timeout(PATIENCE, committing).await.unwrap().unwrap(),
        [Ok(())]
    );

    rig.broker.take_down(1).unwrap();
    let last = vec![Commit::new(partition.partition, 2)];
    let closing = consumer.close(last, Duration::from_secs(2));
    let results = timeout(Duration::from_secs(20), closing).await.unwrap();
    assert!(results[0].is_err());
}
