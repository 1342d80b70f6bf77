//! A group's members on the embedded broker: rebalances, pauses, commits, the end.
#![cfg(feature = "kafka")]

#[path = "support/group.rs"]
mod group;

use group::{EAGER, PATIENCE, assigned, fill, revoked, rig, start, take};
use kafka_chain::transport::kafka::{Commit, CommitFailure, GroupEvent};
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};

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
        ("session.timeout.ms", "6000"),
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
        ("session.timeout.ms", "3000"),
        ("heartbeat.interval.ms", "50"),
        ("max.poll.interval.ms", "3200"),
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

/// A record written while the partition pauses at its end comes after the pause: news of the end
/// must not move the place where librdkafka goes on.
#[tokio::test]
async fn a_pause_at_the_end_skips_nothing() {
    let rig = rig("end", 1);
    fill(&rig.sink, "end", 0, 3).await;
    let mut consumer = start(&rig.settings("end", EAGER), "end");
    let handle = consumer.handle();
    let mut one = assigned(&mut consumer).await.remove(0);
    assert_eq!(take(&mut one.reader, 3).await, [0, 1, 2]);
    // Long enough for librdkafka to fetch again and find the end.
    let none = timeout(Duration::from_millis(1500), one.reader.next_batch(1)).await;
    assert!(none.is_err());
    for offset in [3, 4] {
        assert!(handle.pause(&one.partition, true).await.unwrap());
        fill(&rig.sink, "end", 0, 1).await;
        assert!(handle.pause(&one.partition, false).await.unwrap());
        assert_eq!(take(&mut one.reader, 1).await, [offset]);
    }
}
