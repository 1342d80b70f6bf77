//! Where letters go, in which order, and what they tell.

use super::*;

/// The first poll is all that the worker gives each write before the next one.
#[tokio::test(start_paused = true)]
async fn letters_are_written_in_the_order_of_their_first_polls() {
    let cluster = Cluster::with(&[(DEAD, Topic::of(1))]);
    let writer = writer(&cluster);
    // The second round finds the topic known; both use up a task's budget many times over.
    for round in 0..2 {
        let mut writes = Vec::new();
        for n in 0..1_000 {
            let mut write = writer.write(&failed(round * 1_000 + n, "v"));
            let mut context = Context::from_waker(Waker::noop());
            assert!(write.as_mut().poll(&mut context).is_pending());
            writes.push(write);
        }
        if round == 1 {
            assert_eq!(cluster.state().queued.len(), 2_000, "all at once");
        }
        // Polled the other way round from then on.
        for write in writes
            .into_iter()
            .rev()
            .map(tokio::spawn)
            .collect::<Vec<_>>()
        {
            acknowledged(write.await.unwrap());
        }
    }
    assert_eq!(
        offsets(&cluster.written()),
        (0..2_000).collect::<Vec<_>>(),
        "in order"
    );
    assert_eq!(cluster.state().looks, 1);
}

#[tokio::test(start_paused = true)]
async fn a_known_topic_is_queued_for_by_the_first_poll() {
    let cluster = Cluster::with(&[(DEAD, Topic::of(1))]);
    let writer = writer(&cluster);
    acknowledged(writer.write(&failed(0, "v")).await);
    let mut write = writer.write(&failed(1, "v"));
    let mut context = Context::from_waker(Waker::noop());
    assert!(matches!(write.as_mut().poll(&mut context), Poll::Pending));
    assert_eq!(cluster.state().queued.len(), 2);
}

/// FC-022: no such partition there, or no longer.
#[tokio::test(start_paused = true)]
async fn the_partition_is_the_sources_where_there_is_one() {
    let cluster = Cluster::with(&[(DEAD, Topic::of(6))]);
    let writer = writer(&cluster);
    let of_five = || {
        let mut failed = failed(0, "v");
        Arc::make_mut(&mut failed.record).partition = 5;
        failed
    };
    acknowledged(writer.write(&of_five()).await);
    cluster.set(DEAD, Topic::of(1));
    acknowledged(writer.write(&of_five()).await);
    assert_eq!(cluster.state().looks, 2);
    cluster.set(DEAD, Topic::of(6));
    acknowledged(writer.write(&of_five()).await);
    sleep(Duration::from_secs(61)).await;
    acknowledged(writer.write(&of_five()).await);
    let partitions: Vec<_> = cluster.written().iter().map(|r| r.partition).collect();
    assert_eq!(partitions, [Some(5), None, None, Some(5)]);
}

#[tokio::test(start_paused = true)]
async fn a_route_may_choose_but_never_the_topic_the_record_came_from() {
    let cluster = Cluster::with(&[("chosen", Topic::of(1)), (DEAD, Topic::of(1))]);
    let route = |failed: &Failed| match failed.record.offset {
        0 => Some("chosen".to_owned()),
        1 => None,
        2 => Some("orders".to_owned()),
        _ => Some("no such name".to_owned()),
    };
    let writer = writer(&cluster).route(route);
    acknowledged(writer.write(&failed(0, "v")).await);
    acknowledged(writer.write(&failed(1, "v")).await);
    let topics: Vec<_> = cluster.written().into_iter().map(|r| r.topic).collect();
    assert_eq!(topics, ["chosen", DEAD]);
    for offset in [2, 3] {
        let written = writer.write(&failed(offset, "v")).await;
        assert!(matches!(written, Written::Refused(_)), "{written:?}");
        assert!(writer.rung(&failed(offset, "v"), Rung::Full).is_err());
    }
    assert_eq!(cluster.state().queued.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn what_a_handler_gave_up_is_told_as_the_handlers() {
    let cluster = Cluster::with(&[(DEAD, Topic::of(1))]);
    let mut settings = settings();
    settings.dialects = vec![Dialect::KafkaChain, Dialect::Connect];
    let failed = Failed {
        origin: Origin::Handler,
        error: Arc::new(Error::unavailable("down").at("handler")),
        attempts: 7,
        ..failed(0, "v")
    };
    acknowledged(writer_with(&cluster, &settings).write(&failed).await);
    let record = cluster.written().remove(0);
    let header = |name: &str| record.headers.view().get_last(name).flatten();
    assert_eq!(header("kafka-chain-part"), Some(&b"handler"[..]));
    assert_eq!(header("kafka-chain-attempts"), Some(&b"7"[..]));
    assert_eq!(header("__connect.errors.stage"), Some(&b"TASK_PUT"[..]));
    let (_, info) = read(record.headers.view()).unwrap();
    assert_eq!((info.part(), info.attempts()), (None, Some(7)));
}

#[tokio::test(start_paused = true)]
async fn what_a_handler_produces_is_written_in_order_or_held_as_one() {
    let largest = Topic {
        largest: 1_000,
        ..Topic::of(1)
    };
    let cluster = Cluster::with(&[("out", largest)]);
    let producer = cluster.producer();
    let out = |topic: &str, value: String| OutgoingRecord {
        topic: topic.to_owned(),
        value: Some(value.into()),
        ..OutgoingRecord::default()
    };
    let all: Arc<[_]> = (0..100).map(|n| out("out", n.to_string())).collect();
    acknowledged(producer.write_all(all).await);
    let values: Vec<_> = cluster.written().into_iter().map(|r| r.value).collect();
    let expected: Vec<_> = (0..100).map(|n| Some(Bytes::from(n.to_string()))).collect();
    assert_eq!(values, expected);

    // A neighbour that is too large is no fault of the others.
    cluster.state().written.clear();
    let mixed = [out("out", "x".repeat(5_000)), out("out", "small".into())];
    let written = producer.write_all(mixed.into()).await;
    let Written::Failed(error) = written else {
        panic!("{written:?}");
    };
    assert_eq!(WriteFailure::of(&error), Some(WriteFailure::TooLarge));
    assert_eq!(cluster.written().len(), 1);

    // What is there is not written again.
    cluster.state().written.clear();
    let missing = [
        out("none", "1".into()),
        out("out", "2".into()),
        out("none", "3".into()),
    ];
    let Written::Partly(left, error) = producer.write_all(missing.into()).await else {
        panic!("all or nothing");
    };
    assert!(error.message().contains("none"), "{error}");
    assert_eq!(*left, [out("none", "1".into()), out("none", "3".into())]);
    let error = held(producer.write_all(Arc::clone(&left)).await);
    assert!(error.message().contains("none"), "{error}");
    cluster.set("none", Topic::of(1));
    tokio::time::sleep(Duration::from_secs(2)).await;
    acknowledged(producer.write_all(left).await);
    let values: Vec<_> = cluster.written().into_iter().map(|r| r.value).collect();
    assert_eq!(values, ["2", "1", "3"].map(|v| Some(Bytes::from(v))));
    acknowledged(producer.write_all([].into()).await);
    producer.flush(Duration::from_secs(1)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn topics_that_nobody_writes_to_are_forgotten() {
    let cluster = Cluster::default();
    let producer = cluster.producer();
    for n in 0..5_000 {
        cluster.set(&format!("t{n}"), Topic::of(1));
        let partitions = producer.partitions(&format!("t{n}")).await.unwrap();
        assert_eq!(partitions, Some(1));
    }
    assert!(producer.remembered() <= 1_000);
}

#[tokio::test(start_paused = true)]
async fn a_record_that_came_again_is_given_up_where_it_was_consumed_first() {
    let cluster = Cluster::with(&[(DEAD, Topic::of(6))]);
    let again = || {
        let mut failed = failed(900, "v");
        let record = Arc::make_mut(&mut failed.record);
        record.topic = "orders.shop.retry".to_owned();
        for (name, text) in [
            ("kafka-chain-retry-topic", "orders"),
            ("kafka-chain-retry-partition", "4"),
            ("kafka-chain-retry-offset", "7"),
            ("kafka-chain-retry-attempt", "3"),
        ] {
            record.headers.push(name, Some(text));
        }
        failed
    };
    acknowledged(writer(&cluster).write(&again()).await);
    let record = cluster.written().remove(0);
    assert_eq!((record.topic.as_str(), record.partition), (DEAD, Some(4)));
    let (_, info) = read(record.headers.view()).unwrap();
    assert_eq!((info.topic(), info.offset()), (Some("orders"), Some(7)));
    assert_eq!(info.attempts(), Some(3));
    for back in ["orders", "orders.shop.retry"] {
        let looping = writer(&cluster).route(move |_| Some(back.to_owned()));
        let written = looping.write(&again()).await;
        assert!(matches!(written, Written::Refused(_)), "{written:?}");
    }
}

/// FC-028: the default is one topic for each source, and the group is told; a template parts groups.
#[tokio::test(start_paused = true)]
async fn letters_of_two_groups_are_told_apart_and_can_be_kept_apart() {
    let cluster = Cluster::default();
    for topic in [DEAD, "orders.a.dead", "orders.b.dead"] {
        cluster.set(topic, Topic::of(1));
    }
    for template in ["${topic}.dead-letter", "${topic}.${group}.dead"] {
        for group in ["a", "b"] {
            let mut settings = settings();
            settings.group = Some(group.to_owned());
            settings.template = template.to_owned();
            acknowledged(
                writer_with(&cluster, &settings)
                    .write(&failed(0, "v"))
                    .await,
            );
        }
    }
    let told = |record: &OutgoingRecord| {
        let (_, info) = read(record.headers.view()).unwrap();
        (record.topic.clone(), info.group().unwrap().to_owned())
    };
    let all: Vec<_> = cluster.written().iter().map(told).collect();
    let expected = [
        (DEAD, "a"),
        (DEAD, "b"),
        ("orders.a.dead", "a"),
        ("orders.b.dead", "b"),
    ];
    assert_eq!(
        all,
        expected.map(|(topic, group)| (topic.into(), group.into()))
    );
}
