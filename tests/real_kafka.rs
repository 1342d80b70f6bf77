//! The transport on real Apache Kafka: what the embedded broker cannot show.
#![cfg(feature = "kafka")]

mod kafka_support;
#[path = "support/real.rs"]
mod real;

use bytes::Bytes;
use kafka_chain::transport::kafka::{KafkaSink, KafkaSource, NewTopic, create_topics};
use kafka_chain::transport::{Settings, producer_settings};
use kafka_support::{next, settings, value};
use std::time::Duration;

/// On a real broker: the embedded one has no admin API.
#[tokio::test]
async fn topics_are_created_once_and_an_existing_one_is_left_alone() {
    let Some(servers) = real::kafka() else { return };
    let settings = settings(&servers, &[("group.id", "created")]);
    let id = std::process::id();
    let (one, two) = (format!("created-{id}-1"), format!("created-{id}-2"));
    let limit = Duration::from_secs(20);
    create_topics(&settings, vec![NewTopic::new(&one, 3)], limit)
        .await
        .unwrap();
    let both = vec![NewTopic::new(&one, 5), NewTopic::new(&two, 2)];
    create_topics(&settings, both, limit).await.unwrap();

    let sink = KafkaSink::start(&producer_settings(&settings, &Settings::new())).unwrap();
    assert_eq!(sink.topic_partitions(&one).await.unwrap(), Some(3));
    assert_eq!(sink.topic_partitions(&two).await.unwrap(), Some(2));
    assert_eq!(sink.topic_partitions("created-never").await.unwrap(), None);

    let mut out = value(&one, "v");
    out.headers.push(&[0xFF, b'n'][..], None::<Bytes>);
    sink.send(out.clone()).await.unwrap();
    let mut source = KafkaSource::start(&settings, &[&one]).unwrap();
    let got = next(&mut source).await;
    assert_eq!(got.record().headers.to_owned(), out.headers);
    source.store(&got).unwrap();
    source.commit().await.unwrap();
    source.close().await;
}
