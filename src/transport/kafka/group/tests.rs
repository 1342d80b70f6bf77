//! Against the mock cluster, with faults that it is told to make.

use super::*;
use crate::record::OutgoingRecord;
use crate::transport::kafka::KafkaSink;
use crate::transport::kafka::ffi::MockCluster;
use rdkafka::types::RDKafkaRespErr as Response;
use tokio::time::{sleep, timeout};

const PATIENCE: Duration = Duration::from_secs(120);

/// Numbers of requests in Kafka's protocol.
const FETCH: i16 = 1;
const OFFSET_COMMIT: i16 = 8;
const HEARTBEAT: i16 = 12;

struct Rig {
    cluster: MockCluster,
    consumer: GroupConsumer,
    partition: AssignedPartition,
}

async fn fill(cluster: &MockCluster, topic: &str, records: usize) {
    let mut own = Settings::new();
    own.set("bootstrap.servers", cluster.bootstrap_servers());
    let sink = KafkaSink::start(&own).unwrap();
    for _ in 0..records {
        let record = OutgoingRecord {
            topic: topic.to_owned(),
            partition: Some(0),
            ..OutgoingRecord::default()
        };
        sink.send(record).await.unwrap();
    }
}

async fn event(consumer: &mut GroupConsumer) -> GroupEvent {
    timeout(PATIENCE, consumer.next_event())
        .await
        .unwrap()
        .unwrap()
}

async fn assigned(consumer: &mut GroupConsumer) -> AssignedPartition {
    match event(consumer).await {
        GroupEvent::Assigned(mut partitions) if partitions.len() == 1 => partitions.remove(0),
        event => panic!("{event:?}"),
    }
}

async fn rig(topic: &str, records: usize) -> Rig {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic(topic, 1).unwrap();
    let settings: Settings = [
        ("bootstrap.servers", cluster.bootstrap_servers().as_str()),
        // Long enough for a machine that is busy: a member that is late loses its partition. And short:
        // who was thrown out is waited for that long before another assignment.
        ("session.timeout.ms", "6000"),
        // On the one broker's connection a fetch that waits keeps everything behind it waiting, the
        // search for a coordinator too; and librdkafka, once that has failed, may search for it many
        // times, for its retried commit meets the coordinator's connection before that is up.
        ("fetch.wait.max.ms", "10"),
        ("heartbeat.interval.ms", "50"),
        ("statistics.interval.ms", "50"),
        ("group.id", topic),
    ]
    .into_iter()
    .collect();
    fill(&cluster, topic, records).await;
    let mut consumer = GroupConsumer::start(&settings, &[topic], &GroupOptions::default()).unwrap();
    let partition = assigned(&mut consumer).await;
    Rig {
        cluster,
        consumer,
        partition,
    }
}

async fn offsets(reader: &mut PartitionReader, count: usize) -> Vec<i64> {
    let mut offsets = Vec::new();
    while offsets.len() < count {
        let batch = timeout(PATIENCE, reader.next_batch(count - offsets.len()));
        let batch = batch.await.unwrap().unwrap();
        offsets.extend(batch.iter().map(|record| record.record().offset));
    }
    offsets
}

/// Follows rebalances until the partition is ours again.
async fn reassigned(consumer: &mut GroupConsumer) -> AssignedPartition {
    loop {
        match event(consumer).await {
            GroupEvent::Assigned(mut partitions) if partitions.len() == 1 => {
                return partitions.remove(0);
            }
            GroupEvent::Assigned(_) | GroupEvent::Lost(_) => {}
            GroupEvent::Revoked(revoked) => revoked.done(),
            event => panic!("{event:?}"),
        }
    }
}

/// FC-071: consuming goes on through refused commits.
#[tokio::test]
async fn a_refused_commit_is_classified_and_stops_nothing() {
    let mut rig = rig("refused", 10).await;
    let handle = rig.consumer.handle();
    let owned = rig.partition.partition.clone();
    let cases = [
        (
            Response::RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS,
            CommitFailure::Rebalancing,
        ),
        (
            Response::RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED,
            CommitFailure::Refused,
        ),
        (
            Response::RD_KAFKA_RESP_ERR_OFFSET_METADATA_TOO_LARGE,
            CommitFailure::Refused,
        ),
        // The client itself may wait, and try again.
        (
            Response::RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT,
            CommitFailure::Timeout,
        ),
        (
            Response::RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS,
            CommitFailure::Coordinator,
        ),
        (
            Response::RD_KAFKA_RESP_ERR_NOT_COORDINATOR,
            CommitFailure::Coordinator,
        ),
    ];
    for (offset, (response, failure)) in (1..).zip(cases) {
        rig.cluster.fail_requests(OFFSET_COMMIT, &[response]);
        let commit = Commit::new(owned.clone(), offset);
        let results = timeout(PATIENCE, handle.commit(vec![commit.clone()]));
        if let Err(error) = results.await.unwrap().remove(0) {
            assert_eq!(error.failure, failure, "{error}");
            assert!(error.to_string().contains("refused [0]"), "{error}");
        } else {
            assert!(failure.try_again(), "{response:?}");
        }
        assert_eq!(offsets(&mut rig.partition.reader, 1).await, [offset - 1]);
        assert_eq!(handle.commit(vec![commit]).await, [Ok(())], "{response:?}");
    }
    assert!(handle.owns(&owned));
}

/// FC-071: after these the client joins the group anew; offsets of the ownership that this ended
/// are never sent again.
#[tokio::test]
async fn a_commit_of_a_wrong_generation_is_dropped_with_its_ownership() {
    let mut rig = rig("generation", 10).await;
    let handle = rig.consumer.handle();
    for (response, failure) in [
        (
            Response::RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION,
            CommitFailure::Generation,
        ),
        (
            Response::RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID,
            CommitFailure::Generation,
        ),
    ] {
        let old = rig.partition.partition.clone();
        rig.cluster.fail_requests(OFFSET_COMMIT, &[response]);
        let results = handle.commit(vec![Commit::new(old.clone(), 9)]);
        let error = timeout(PATIENCE, results).await.unwrap().remove(0);
        assert_eq!(error.unwrap_err().failure, failure);
        rig.partition = reassigned(&mut rig.consumer).await;
        assert_eq!(rig.partition.start, None, "{response:?}");
        let late = handle.commit(vec![Commit::new(old, 9)]).await;
        let failure = late[0].as_ref().unwrap_err().failure;
        assert_eq!(failure, CommitFailure::NotOwned);
        assert_eq!(offsets(&mut rig.partition.reader, 3).await, [0, 1, 2]);
    }
    let commit = Commit::new(rig.partition.partition.clone(), 3);
    assert_eq!(handle.commit(vec![commit]).await, [Ok(())]);
}

/// FC-074: a caller that asks again at once makes few tries, the loop polls between them, and the
/// member rejoins.
#[tokio::test]
async fn a_commit_that_keeps_failing_is_not_sent_in_a_tight_loop() {
    let mut rig = rig("tight", 1).await;
    let handle = rig.consumer.handle();
    let unknown = [Response::RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID; 3];
    rig.cluster.fail_requests(OFFSET_COMMIT, &unknown);
    let began = Instant::now();
    let mut sent = 0;
    loop {
        let commit = Commit::new(rig.partition.partition.clone(), 1);
        match handle.commit(vec![commit]).await.remove(0) {
            Ok(()) => break,
            Err(error) if error.failure == CommitFailure::NotOwned => {
                rig.partition = reassigned(&mut rig.consumer).await;
            }
            Err(error) => {
                assert_eq!(error.failure, CommitFailure::Generation, "{error}");
                sent += 1;
            }
        }
        assert!(began.elapsed() < PATIENCE);
    }
    assert_eq!(sent, 3);
    // 100, 200 and 400 ms lie between the tries.
    assert!(began.elapsed() >= Duration::from_millis(700));
}

/// FC-069: partitions lost are forgotten; nothing of them is committed; when they come back they
/// begin where the broker says.
#[tokio::test]
async fn lost_partitions_are_not_committed() {
    let mut rig = rig("lost", 11).await;
    let handle = rig.consumer.handle();
    let old = rig.partition.partition.clone();
    assert_eq!(offsets(&mut rig.partition.reader, 10).await.len(), 10);
    let five = Commit::new(old.clone(), 5);
    assert_eq!(handle.commit(vec![five]).await, [Ok(())]);

    let unknown = [Response::RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID];
    rig.cluster.fail_requests(HEARTBEAT, &unknown);
    match event(&mut rig.consumer).await {
        GroupEvent::Lost(lost) => assert_eq!(lost, std::slice::from_ref(&old)),
        event => panic!("{event:?}"),
    }
    assert!(!handle.owns(&old));
    assert!(rig.partition.reader.next_batch(1).await.is_none());
    let late = handle.commit(vec![Commit::new(old.clone(), 10)]).await;
    let failure = late[0].as_ref().unwrap_err().failure;
    assert_eq!(failure, CommitFailure::NotOwned);

    let mut again = assigned(&mut rig.consumer).await;
    assert!(again.partition.ownership > old.ownership);
    let late = handle.commit(vec![Commit::new(old, 10)]).await;
    assert!(late[0].is_err(), "the earlier ownership stays ended");
    assert_eq!(again.start, Some(5));
    assert_eq!(offsets(&mut again.reader, 6).await, [5, 6, 7, 8, 9, 10]);
}

/// FC-061: the lag of what is ours, and of nothing else.
#[tokio::test]
async fn the_lag_falls_to_nothing_and_goes_with_the_partition() {
    let mut rig = rig("lag", 8).await;
    let handle = rig.consumer.handle();
    let all = offsets(&mut rig.partition.reader, 8).await;
    assert_eq!(all.len(), 8);
    let zero = async {
        while handle.lags().first().is_none_or(|lag| lag.lag != 0) {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, zero).await.unwrap();
    rig.consumer.close(Vec::new(), PATIENCE).await;
    assert_eq!(handle.lags(), []);
}

/// Deleted records, as the mock cannot delete: a committed offset beyond the end is as lost.
#[tokio::test]
async fn an_offset_reset_is_told() {
    let mut rig = rig("reset", 3).await;
    let beyond = Commit::new(rig.partition.partition.clone(), 100);
    assert_eq!(rig.consumer.handle().commit(vec![beyond]).await, [Ok(())]);
    let unknown = [Response::RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID];
    rig.cluster.fail_requests(HEARTBEAT, &unknown);
    assert!(matches!(
        event(&mut rig.consumer).await,
        GroupEvent::Lost(_)
    ));
    let mut again = assigned(&mut rig.consumer).await;
    assert_eq!(again.start, Some(100));
    match event(&mut rig.consumer).await {
        GroupEvent::OffsetReset(text) => assert!(text.contains("reset [0]"), "{text}"),
        event => panic!("{event:?}"),
    }
    assert_eq!(offsets(&mut again.reader, 3).await, [0, 1, 2]);
}

/// The position is lost in the midst of reading, and the beginning takes its place: of the ownership
/// nothing is committed any more, and everything comes in the next.
#[tokio::test]
async fn a_reset_to_what_was_given_begins_another_ownership() {
    let mut rig = rig("anew", 5).await;
    let handle = rig.consumer.handle();
    let old = rig.partition.partition.clone();
    assert_eq!(offsets(&mut rig.partition.reader, 5).await, [0, 1, 2, 3, 4]);
    // The first answer at the end is the end's to librdkafka, whatever error is in it.
    let errors = [
        Response::RD_KAFKA_RESP_ERR_NO_ERROR,
        Response::RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE,
    ];
    rig.cluster.fail_requests(FETCH, &errors);
    // Whoever reads sees it.
    let reading = tokio::spawn(async move {
        let more = rig.partition.reader.next_batch(1).await;
        assert!(more.is_none(), "it ends without a record of the new");
    });
    match event(&mut rig.consumer).await {
        GroupEvent::OffsetReset(text) => assert!(text.contains("anew [0]"), "{text}"),
        event => panic!("{event:?}"),
    }
    match event(&mut rig.consumer).await {
        GroupEvent::Lost(lost) => assert_eq!(lost, std::slice::from_ref(&old)),
        event => panic!("{event:?}"),
    }
    timeout(PATIENCE, reading).await.unwrap().unwrap();
    let mut again = assigned(&mut rig.consumer).await;
    assert!(again.partition.ownership > old.ownership);
    assert_eq!(again.start, None);
    let late = handle.commit(vec![Commit::new(old, 5)]).await;
    assert!(late[0].is_err(), "the earlier ownership is over");
    assert_eq!(offsets(&mut again.reader, 5).await, [0, 1, 2, 3, 4]);
    fill(&rig.cluster, "anew", 2).await;
    assert_eq!(offsets(&mut again.reader, 2).await, [5, 6]);
    let new = Commit::new(again.partition.clone(), 3);
    assert_eq!(handle.commit(vec![new]).await, [Ok(())]);
}

/// What was committed and what was not lie below the place to which the reset goes: what was not comes
/// again.
#[tokio::test]
async fn the_next_ownership_begins_no_later_than_what_is_committed() {
    let mut rig = rig("below", 9).await;
    let handle = rig.consumer.handle();
    let old = rig.partition.partition.clone();
    assert_eq!(offsets(&mut rig.partition.reader, 9).await.len(), 9);
    assert_eq!(
        handle.commit(vec![Commit::new(old.clone(), 3)]).await,
        [Ok(())]
    );
    let period = handle.shared.table.current(&old).unwrap();
    // As a log does that was cut there: librdkafka goes back by itself.
    period.lose_position(9);
    period.seek(6);
    let ended = tokio::spawn(async move { rig.partition.reader.next_batch(1).await.is_none() });
    let lost = event(&mut rig.consumer).await;
    assert!(matches!(lost, GroupEvent::Lost(_)), "{lost:?}");
    assert!(timeout(PATIENCE, ended).await.unwrap().unwrap());
    let mut again = assigned(&mut rig.consumer).await;
    assert_eq!(again.start, Some(3));
    assert_eq!(offsets(&mut again.reader, 6).await, [3, 4, 5, 6, 7, 8]);
    // Passed: from here on what comes again is dropped as ever.
    fill(&rig.cluster, "below", 1).await;
    assert_eq!(offsets(&mut again.reader, 1).await, [9]);
    handle
        .shared
        .table
        .current(&again.partition)
        .unwrap()
        .seek(4);
    fill(&rig.cluster, "below", 1).await;
    assert_eq!(offsets(&mut again.reader, 1).await, [10]);
    assert!(handle.owns(&again.partition));
}

/// An error that passes is no record: what is written after it comes, through a pause too.
#[tokio::test]
async fn a_passing_error_of_a_partition_skips_no_record() {
    let mut rig = rig("passing", 3).await;
    let handle = rig.consumer.handle();
    assert_eq!(offsets(&mut rig.partition.reader, 3).await, [0, 1, 2]);
    for offset in [3, 4] {
        let told = async {
            loop {
                // A fetch that a pause made void may take one with it.
                let unknown = [Response::RD_KAFKA_RESP_ERR_UNKNOWN];
                rig.cluster.fail_requests(FETCH, &unknown);
                let batch = rig.partition.reader.next_batch(1);
                let none = timeout(Duration::from_millis(200), batch).await;
                assert!(none.is_err(), "nothing is there");
                if handle.take_warning().is_some() {
                    break;
                }
            }
        };
        timeout(PATIENCE, told).await.unwrap();
        let owned = &rig.partition.partition;
        assert!(handle.pause(owned, true).await.unwrap());
        fill(&rig.cluster, "passing", 1).await;
        assert!(handle.pause(owned, false).await.unwrap());
        assert_eq!(offsets(&mut rig.partition.reader, 1).await, [offset]);
    }
}
