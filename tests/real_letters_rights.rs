//! Dead letters on a real Kafka that asks for rights.
#![cfg(feature = "kafka")]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod kafka_support;
#[path = "support/letters.rs"]
mod letters;
#[path = "support/real.rs"]
mod real;

use kafka_chain::pipeline::{DeadLetterSettings, DeadLetterWriter, Written};
use kafka_chain::transport::kafka::{NewTopic, create_topics};
use kafka_chain::transport::{Settings, WriteFailure};
use kafka_support::{PATIENCE, settings};
use letters::{acknowledged, failed, held, read_all, until_acknowledged};
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

/// A broker of its own with ACLs, stopped when dropped.
struct Guarded {
    folder: PathBuf,
    servers: String,
}

impl Guarded {
    fn start() -> Option<Self> {
        real::kafka()?;
        let folder = format!("acls-{}", std::process::id());
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(folder);
        let dir = folder.to_str().unwrap();
        let Some(line) = rig(&["kafka-start", dir, "--acls"]) else {
            assert!(std::env::var_os("CI").is_none(), "Kafka did not start");
            println!("SKIPPED: scripts/rig could not start a Kafka with ACLs");
            return None;
        };
        let servers = line.split_whitespace().next().unwrap();
        let servers = servers.strip_prefix("bootstrap=").unwrap().to_owned();
        Some(Guarded { folder, servers })
    }

    fn settings(&self, more: &[(&str, &str)]) -> Settings {
        settings(&self.servers, more)
    }

    /// `--add` or `--remove` the denial of an operation on a topic.
    fn denial(&self, action: &str, operation: &str, topic: &str) {
        let arguments = [
            "kafka-tool",
            "acls",
            "--bootstrap-server",
            &self.servers,
            action,
            "--force",
            "--deny-principal",
            "User:ANONYMOUS",
            "--operation",
            operation,
            "--topic",
            topic,
        ];
        rig(&arguments).unwrap();
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let _ = rig(&["kafka-stop", self.folder.to_str().unwrap()]);
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn rig(arguments: &[&str]) -> Option<String> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/rig");
    let output = Command::new(script).args(arguments).output().ok()?;
    if !output.status.success() {
        println!("{}", String::from_utf8_lossy(&output.stderr));
    }
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then_some(text)
}

/// A right that is taken away holds records and is named; given back it is seen without a restart,
/// though librdkafka's producer remembers that it was missing.
#[tokio::test]
async fn a_missing_right_is_named_and_seen_when_it_is_given() {
    let Some(guarded) = Guarded::start() else {
        return;
    };
    let topics = ["closed.dead-letter", "open.dead-letter"].map(|name| NewTopic::new(name, 1));
    create_topics(&guarded.settings(&[]), topics.into(), PATIENCE)
        .await
        .unwrap();
    let settings = DeadLetterSettings::new(guarded.settings(&[]));
    let writer = DeadLetterWriter::start(&settings).unwrap();
    // Without Write a write is refused, without all of them the look before it.
    for operation in ["Write", "All"] {
        acknowledged(writer.write(&failed("closed", 0, "v")).await);
        guarded.denial("--add", operation, "closed.dead-letter");
        // The broker applies it a moment later.
        let error = loop {
            match writer.write(&failed("closed", 0, "v")).await {
                Written::Acknowledged => {}
                written => break held(written),
            }
        };
        assert_eq!(WriteFailure::of(&error), Some(WriteFailure::Unauthorized));
        let right = "Write on Topic:closed.dead-letter";
        assert!(error.message().contains(right), "{error}");
        acknowledged(writer.write(&failed("open", 0, "v")).await);
        guarded.denial("--remove", operation, "closed.dead-letter");
        let began = Instant::now();
        until_acknowledged(&writer, &failed("closed", 0, "v")).await;
        println!(
            "{operation}: written {:?} after it was allowed",
            began.elapsed()
        );
    }
    let reader = guarded.settings(&[("group.id", "open"), ("auto.offset.reset", "earliest")]);
    assert_eq!(read_all(&reader, "open.dead-letter", 2).await.len(), 2);
}
