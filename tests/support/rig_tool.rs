//! Kafka's own command-line tools, through `scripts/rig`.
#![allow(dead_code, unreachable_pub, reason = "each test takes what it needs")]

use std::process::Command;

/// Runs a command line such as `kafka-topics.sh --bootstrap-server …`, as it would be pasted into a
/// shell. False, after saying so, where the tools cannot be had.
pub fn run(command: &str) -> bool {
    let (tool, arguments) = command.split_once(' ').unwrap();
    let tool = match tool {
        "kafka-topics.sh" => "topics",
        "kafka-configs.sh" => "kafka.admin.ConfigCommand",
        "kafka-acls.sh" => "acls",
        tool => panic!("an unknown tool {tool}"),
    };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/rig");
    if !Command::new(script)
        .arg("kafka-jars")
        .output()
        .is_ok_and(|jars| jars.status.success())
    {
        assert!(std::env::var_os("CI").is_none(), "no Kafka tools");
        println!("SKIPPED: scripts/rig has no Kafka tools");
        return false;
    }
    let line = format!("'{script}' kafka-tool {tool} {arguments}");
    let output = Command::new("bash").args(["-c", &line]).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (told, wrong) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{command}\n{told}\n{wrong}");
    true
}
