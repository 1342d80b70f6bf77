//! A record that is held is tried from memory: no position is moved back.

use super::support::{Rig, Seen, Started, builder, until, values};
use kafka_chain::config::Configuration;
use kafka_chain::pipeline::{HandlerContext, PipelineEvent, handle_with};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A member whose handler finds its service down for partition 0 from offset 7 on, until it is up.
fn member(
    configuration: &Configuration,
    name: &'static str,
    (up, revoked): (&Arc<AtomicBool>, &Arc<AtomicBool>),
    (tried, done): (&Seen, &Seen),
) -> Started {
    let (up, revoked) = (Arc::clone(up), Arc::clone(revoked));
    let (tried, done) = (tried.clone(), done.clone());
    let pipeline = builder(configuration)
        .values::<String>()
        .unwrap()
        .observer(move |event: &PipelineEvent<'_>| {
            if matches!(event, PipelineEvent::Revoked(_)) {
                revoked.store(true, Ordering::Release);
            }
        })
        .handler(handle_with(
            move |order: String, context: &HandlerContext<'_>| {
                let record = context.record();
                let down = record.partition == 0 && record.offset >= 7;
                let down = down && !up.load(Ordering::Acquire);
                if record.partition == 0 {
                    tried.push(format!("{name} {}", record.offset));
                }
                if !down {
                    done.push(order);
                }
                async move {
                    match down {
                        true => Err("the service is down"),
                        false => Ok(()),
                    }
                }
            },
        ))
        .unwrap();
    Started::of(pipeline)
}

fn offsets(tried: &Seen, name: &str) -> Vec<i64> {
    let lines = tried.all();
    let of_name = lines.iter().filter_map(|line| line.split_once(' '));
    of_name
        .filter(|(by, _)| *by == name)
        .map(|(_, offset)| offset.parse().unwrap())
        .collect()
}

/// FC-075: nothing of the partition beyond the held record is handled before it, nothing is skipped,
/// and there is no seek that could fail.
#[tokio::test]
async fn a_held_record_comes_before_all_behind_it() {
    let rig = Rig::new(&["orders", "orders.dead-letter"]);
    rig.produce("orders", &values(0..36)).await;
    let configuration = rig.configuration("handler.attempts=1");
    let (up, revoked) = (Arc::default(), Arc::default());
    let (tried, done) = (Seen::default(), Seen::default());
    let only = member(&configuration, "only", (&up, &revoked), (&tried, &done));
    until("it was tried three times", || {
        offsets(&tried, "only").iter().filter(|o| **o == 7).count() >= 3
    })
    .await;
    up.store(true, Ordering::Release);
    done.wait_for(36).await;
    only.stop().await;
    let mut tried = offsets(&tried, "only");
    assert!(tried.is_sorted(), "{tried:?}");
    tried.dedup();
    assert_eq!(tried, (0..12).collect::<Vec<i64>>());
}

/// FC-075: given back while a record is held, the partition goes on there with its next owner.
#[tokio::test]
async fn a_held_record_goes_with_its_partition() {
    let rig = Rig::new(&["orders", "orders.dead-letter"]);
    rig.produce("orders", &values(0..36)).await;
    let configuration = rig.configuration("handler.attempts=1\ndrain.timeout.ms=500");
    let (up, revoked) = (Arc::default(), Arc::default());
    let (tried, done) = (Seen::default(), Seen::default());
    let first = member(&configuration, "first", (&up, &revoked), (&tried, &done));
    until("it was tried", || offsets(&tried, "first").contains(&7)).await;
    let none = Arc::default();
    let second = member(&configuration, "second", (&up, &none), (&tried, &done));
    until("the first gave its partitions back", || {
        revoked.load(Ordering::Acquire)
    })
    .await;
    up.store(true, Ordering::Release);
    done.wait_for(36).await;
    let all: BTreeSet<String> = values(0..36).into_iter().collect();
    assert_eq!(done.set(), all);
    first.stop().await;
    second.stop().await;
    // Whoever had it: 7 before all behind it, and none of them left out.
    let lines = tried.all();
    let mut tried: Vec<i64> = lines
        .iter()
        .map(|line| line.split_once(' ').unwrap().1.parse().unwrap())
        .filter(|offset: &i64| *offset >= 7)
        .collect();
    tried.dedup();
    assert_eq!(tried, (7..12).collect::<Vec<i64>>());
}

/// A pause so long that librdkafka pauses as well, and throws away what it fetched ahead.
#[tokio::test]
async fn a_long_pause_skips_and_repeats_nothing() {
    let rig = Rig::new(&["orders", "orders.dead-letter"]);
    rig.produce("orders", &values(0..30)).await;
    let configuration = rig.configuration("");
    let seen = Seen::default();
    let by_handler = seen.clone();
    let pipeline = builder(&configuration)
        .values::<String>()
        .unwrap()
        .handler(handle_with(move |order: String, _: &HandlerContext<'_>| {
            by_handler.push(order);
            async { Ok::<(), kafka_chain::Error>(()) }
        }))
        .unwrap();
    let started = Started::of(pipeline);
    seen.wait_for(30).await;
    started.handle.pause("orders", 0);
    rig.produce("orders", &values(30..60)).await;
    seen.wait_for(50).await;
    tokio::time::sleep(std::time::Duration::from_secs(13)).await;
    rig.produce("orders", &values(60..63)).await;
    seen.wait_for(52).await;
    assert_eq!(seen.all().len(), 52);
    started.handle.resume("orders", 0);
    seen.wait_for(63).await;
    started.stop().await;
    assert_eq!(seen.all().len(), 63);
}
