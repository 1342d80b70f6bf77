//! Rebalances of a group on the embedded broker.
#![cfg(feature = "kafka")]

#[path = "support/group.rs"]
mod group;

use group::{
    COOPERATIVE, EAGER, KIP_848, PATIENCE, assigned, churn, fill, next, revoked, rig, start, take,
};
use kafka_chain::transport::kafka::{
    AssignedPartition, Commit, GroupConsumer, GroupEvent, GroupOptions,
};
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};

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
                    let of_moved =
                        |p: &AssignedPartition| p.partition.partition == moved[0].partition;
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
