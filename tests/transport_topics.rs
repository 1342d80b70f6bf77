//! What the embedded broker tells of its topics.
#![cfg(feature = "kafka")]

use kafka_chain::transport::Settings;
use kafka_chain::transport::kafka::{EmbeddedBroker, TopicAdmin, TopicConfigs, TopicState};
use std::time::{Duration, Instant};

fn settings(servers: &str) -> Settings {
    [("bootstrap.servers", servers), ("group.id", "g")]
        .into_iter()
        .collect()
}

#[tokio::test]
async fn metadata_suffices_where_there_is_no_admin_api() {
    let broker = EmbeddedBroker::start(3).unwrap();
    for name in ["orders", "bills"] {
        broker.create_topic(name, 4).unwrap();
    }
    let settings = settings(&broker.bootstrap_servers());
    let admin = TopicAdmin::start(&settings, Duration::from_secs(20))
        .await
        .unwrap();
    assert_eq!(admin.list().await.unwrap(), ["bills", "orders"]);
    let names = ["orders", "never"].map(str::to_owned);
    let began = Instant::now();
    let found = admin.describe(&names).await.unwrap();
    println!("described in {:?}", began.elapsed());
    let orders = found[0].details().unwrap();
    assert_eq!(
        (orders.partitions, &orders.configs),
        (4, &TopicConfigs::Unknown)
    );
    assert!(matches!(found[1].state, TopicState::Missing), "{found:?}");
    assert_eq!(
        admin.list().await.unwrap(),
        ["bills", "orders"],
        "asking creates nothing"
    );
}

/// More than are looked up one by one.
#[tokio::test]
async fn many_topics_are_found_in_the_list_of_all() {
    let broker = EmbeddedBroker::start(1).unwrap();
    let mut names: Vec<String> = (0..20).map(|number| format!("t{number}")).collect();
    for name in &names {
        broker.create_topic(name, 2).unwrap();
    }
    names.push("never".to_owned());
    let settings = settings(&broker.bootstrap_servers());
    let admin = TopicAdmin::start(&settings, Duration::from_secs(20))
        .await
        .unwrap();
    let found = admin.describe(&names).await.unwrap();
    let (never, there) = found.split_last().unwrap();
    assert!(matches!(never.state, TopicState::Missing));
    assert!(
        there
            .iter()
            .all(|topic| topic.details().unwrap().partitions == 2)
    );
    let same: Vec<&String> = found.iter().map(|topic| &topic.name).collect();
    assert_eq!(same, names.iter().collect::<Vec<_>>());
}

#[tokio::test]
async fn nobody_to_ask_is_an_error_in_time() {
    let settings = settings("127.0.0.1:1");
    let admin = TopicAdmin::start(&settings, Duration::from_millis(300))
        .await
        .unwrap();
    assert!(admin.list().await.is_err());
    let error = admin.describe(&["orders".to_owned()]).await.unwrap_err();
    assert!(error.message().contains("orders"), "{error}");
}
