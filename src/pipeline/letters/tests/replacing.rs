//! Topics, rights and brokers that are missing, and come.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_right_that_is_given_is_seen_without_a_restart_and_costs_others_nothing() {
    let closed = Topic {
        granted: false,
        ..Topic::of(1)
    };
    let cluster = Cluster::with(&[("closed", closed), ("open", Topic::of(1))]);
    let writer = writer(&cluster).route(|failed| {
        let open = failed.record.offset >= 100;
        Some(if open { "open" } else { "closed" }.to_owned())
    });
    acknowledged(writer.write(&failed(100, "v")).await);
    let error = held(writer.write(&failed(0, "v")).await);
    assert_eq!(WriteFailure::of(&error), Some(WriteFailure::Unauthorized));
    assert!(error.message().contains("closed"), "{error}");
    cluster.set("closed", Topic::of(1));
    // The client remembers, and no other is started so soon.
    held(writer.write(&failed(0, "v")).await);
    assert_eq!(cluster.starts(), 1);
    advance(BETWEEN_STARTS).await;
    acknowledged(writer.write(&failed(0, "v")).await);
    assert_eq!(cluster.starts(), 2);
    acknowledged(writer.write(&failed(101, "v")).await);
    let clients = |topic: &str| {
        let state = cluster.state();
        let queued = state
            .queued
            .iter()
            .filter(|(_, record)| record.topic == topic);
        queued.map(|(client, _)| *client).collect::<Vec<_>>()
    };
    assert_eq!(clients("closed"), [1, 1, 2]);
    assert_eq!(clients("open"), [1, 1], "its client stays the same");
}

#[tokio::test(start_paused = true)]
async fn however_often_it_fails_a_client_is_started_once_a_second() {
    let closed = Topic {
        granted: false,
        ..Topic::of(1)
    };
    let cluster = Cluster::with(&[(DEAD, closed)]);
    let writer = writer(&cluster);
    let began = Instant::now();
    for n in 0..1_000 {
        held(writer.write(&failed(n, "v")).await);
    }
    let seconds = usize::try_from(began.elapsed().as_secs()).unwrap();
    let starts = cluster.starts();
    assert!(
        (seconds / 2..=seconds + 1).contains(&starts),
        "{starts} in {seconds} s"
    );
}

#[tokio::test(start_paused = true)]
async fn a_fatal_error_replaces_the_client_of_every_topic() {
    let cluster = Cluster::with(&[("a", Topic::of(1)), ("b", Topic::of(1))]);
    let writer = writer(&cluster)
        .route(|failed| Some(if failed.record.offset == 0 { "a" } else { "b" }.to_owned()));
    acknowledged(writer.write(&failed(1, "v")).await);
    cluster.state().next = Some(Error::unavailable("fatal").with_source(WriteFailure::Fatal));
    held(writer.write(&failed(0, "v")).await);
    advance(BETWEEN_STARTS).await;
    acknowledged(writer.write(&failed(0, "v")).await);
    acknowledged(writer.write(&failed(1, "v")).await);
    assert_eq!(cluster.starts(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_start_holds_and_is_tried_again() {
    let cluster = Cluster::with(&[(DEAD, Topic::of(1))]);
    let writer = writer(&cluster);
    cluster.state().next = Some(Error::unavailable("fatal").with_source(WriteFailure::Fatal));
    held(writer.write(&failed(0, "v")).await);
    cluster.state().refuses_to_start = true;
    advance(BETWEEN_STARTS).await;
    let error = held(writer.write(&failed(0, "v")).await);
    assert!(error.message().contains("certificate"), "{error}");
    cluster.state().refuses_to_start = false;
    advance(BETWEEN_STARTS).await;
    acknowledged(writer.write(&failed(0, "v")).await);
}

/// FC-024.
#[tokio::test(start_paused = true)]
async fn a_missing_topic_is_named_and_found_once_it_exists() {
    let cluster = Cluster::default();
    let writer = writer(&cluster);
    let writes: Vec<_> = (0..500)
        .map(|n| tokio::spawn(writer.write(&failed(n, "v"))))
        .collect();
    for write in writes {
        let error = held(write.await.unwrap());
        assert_eq!(error.message(), format!("topic {DEAD} does not exist"));
    }
    let state = cluster.state().looks;
    assert_eq!(state, 1, "those that wait share one look");
    assert!(cluster.state().queued.is_empty(), "nothing is sent there");
    cluster.set(DEAD, Topic::of(1));
    acknowledged(writer.write(&failed(0, "v")).await);
    assert_eq!(cluster.starts(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_topic_that_is_deleted_and_comes_back_is_noticed() {
    let cluster = Cluster::with(&[(DEAD, Topic::of(1))]);
    let writer = writer(&cluster);
    acknowledged(writer.write(&failed(0, "v")).await);
    cluster.state().topics.clear();
    held(writer.write(&failed(1, "v")).await);
    let error = held(writer.write(&failed(1, "v")).await);
    assert!(error.message().contains("does not exist"), "{error}");
    cluster.set(DEAD, Topic::of(1));
    acknowledged(writer.write(&failed(1, "v")).await);
}

/// FC-030: what was only queued is not written.
#[tokio::test(start_paused = true)]
async fn nothing_counts_as_written_before_it_is_acknowledged() {
    let cluster = Cluster::with(&[(DEAD, Topic::of(1))]);
    let writer = writer(&cluster);
    acknowledged(writer.write(&failed(0, "v")).await);
    cluster.state().down = true;
    let error = held(writer.write(&failed(1, "v")).await);
    assert!(error.message().contains(DEAD), "{error}");
    assert_eq!(
        cluster.state().queued.len(),
        2,
        "what was known was believed"
    );
    // Dropped in flight: it may be there or not, and nobody was told that it is.
    let mut write = writer.write(&failed(2, "v"));
    let early = timeout(UNANSWERED / 2, &mut write).await;
    assert!(early.is_err());
    drop(write);
    // Closed in flight.
    cluster.state().down = false;
    acknowledged(writer.write(&failed(2, "v")).await);
    cluster.state().down = true;
    let write = tokio::spawn(writer.write(&failed(3, "v")));
    tokio::task::yield_now().await;
    let closed = writer.producer().close(Duration::from_secs(1)).await;
    assert!(closed.is_err(), "what was queued is not acknowledged");
    held(write.await.unwrap());
    let error = held(writer.write(&failed(3, "v")).await);
    assert!(error.message().contains("closed"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn those_that_wait_for_a_cluster_that_is_down_wait_once() {
    let cluster = Cluster::with(&[(DEAD, Topic::of(1))]);
    cluster.state().down = true;
    let writer = writer(&cluster);
    let writes: Vec<_> = (0..100)
        .map(|n| tokio::spawn(writer.write(&failed(n, "v"))))
        .collect();
    for write in writes {
        let error = timeout(UNANSWERED * 2, write).await.unwrap().unwrap();
        assert!(held(error).message().contains(DEAD));
    }
    assert_eq!(cluster.state().looks, 1);
    cluster.state().down = false;
    acknowledged(writer.write(&failed(0, "v")).await);
}
