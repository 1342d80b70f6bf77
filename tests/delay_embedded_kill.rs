//! Processes with an embedded store, killed.
#![cfg(feature = "embedded")]

#[path = "support/folder.rs"]
mod folder;

use folder::Folder;
use kafka_chain::OutgoingRecord;
use kafka_chain::delay::embedded::{EmbeddedOptions, EmbeddedStore};
use kafka_chain::delay::{
    DelayAdmin, DelayId, DelaySink, Delayed, Listed, Listing, OnDuplicate, When,
};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

fn named(millis: u64, text: &str) -> Delayed {
    let record = OutgoingRecord {
        topic: "topic".to_owned(),
        value: Some(text.to_owned().into()),
        ..OutgoingRecord::default()
    };
    let when = When::After(Duration::from_millis(millis));
    Delayed::new(when, record).with_id(DelayId::new(text).unwrap(), OnDuplicate::Keep)
}

/// What a process of its own does: says which records are durable, until it is killed.
#[tokio::test]
async fn as_a_child() {
    let Some(folder) = std::env::var_os("KAFKA_CHAIN_CHILD") else {
        return;
    };
    let store = match EmbeddedStore::open(EmbeddedOptions::new(&folder)).await {
        Ok(store) => Arc::new(store),
        Err(error) => return println!("refused {error}"),
    };
    let mut schedulers = tokio::task::JoinSet::new();
    for scheduler in 0..4 {
        let store = Arc::clone(&store);
        schedulers.spawn(async move {
            for round in 0_u64.. {
                let name = |n: u64| format!("{scheduler}.{round}.{n}");
                let batch = (0..50).map(|n| named(n * 100_000, &name(n)));
                for answer in store.schedule(batch.collect()).await {
                    println!("durable {}", answer.unwrap().id);
                }
            }
        });
    }
    schedulers.join_next().await;
}

fn child(folder: &Path) -> std::process::Child {
    std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "as_a_child", "--nocapture", "--test-threads=1"])
        .env("KAFKA_CHAIN_CHILD", folder)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap()
}

fn lines(child: &mut std::process::Child) -> impl Iterator<Item = String> + use<> {
    use std::io::BufRead;
    let out = std::io::BufReader::new(child.stdout.take().unwrap());
    out.lines().map_while(std::io::Result::ok)
}

/// Killed at random, five times: whatever was answered is there, and nobody else's folder is taken.
#[tokio::test]
async fn what_was_answered_survives_sigkill() {
    let folder = Folder::new("killed");
    let mut durable = BTreeSet::new();
    for round in 0..5_u64 {
        let mut killed = child(folder.path());
        let mut heard = lines(&mut killed);
        // The test runner's own line may stand before ours.
        let id = |line: &str| Some(line.split_once("durable ")?.1.to_owned());
        durable.extend(heard.by_ref().filter_map(|line| id(&line)).take(1));
        if round == 0 {
            let mut second = child(folder.path());
            let told: Vec<String> = lines(&mut second).collect();
            let refused = told.iter().find(|line| line.contains("refused"));
            assert!(refused.unwrap().contains("open in another process"));
            second.wait().unwrap();
        }
        std::thread::sleep(Duration::from_millis(100 + round * 37));
        killed.kill().unwrap();
        killed.wait().unwrap();
        // What was cut off by the kill counts as not told.
        let mut rest: Vec<String> = heard.collect();
        rest.pop();
        durable.extend(rest.iter().filter_map(|line| id(line)));
    }
    let options = EmbeddedOptions::new(folder.path());
    let store = EmbeddedStore::open(options).await.unwrap();
    let mut found = BTreeSet::new();
    let mut after = None;
    loop {
        let listing = Listing {
            listed: Listed::Waiting,
            after,
            limit: 1_000,
        };
        let page = store.list(listing).await.unwrap();
        found.extend(page.items.iter().map(|(cursor, _)| cursor.id.to_string()));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert!(durable.len() > 500, "{}", durable.len());
    let lost: Vec<_> = durable.difference(&found).collect();
    assert_eq!(lost, Vec::<&String>::new());
}
