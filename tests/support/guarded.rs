//! A Kafka of its own whose users may do only what ACLs say.
#![allow(dead_code, unreachable_pub, reason = "each test takes what it needs")]

use kafka_chain::transport::Settings;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

/// A broker with a second listener, where `u1` … `u9` may do only what they are allowed to; stopped
/// when dropped. Who connects to the first may do anything.
pub struct Guarded {
    folder: PathBuf,
    pub servers: String,
    pub users: String,
}

impl Guarded {
    /// Nothing, after saying so, where there is no Kafka to be started.
    pub fn start(name: &str) -> Option<Self> {
        let folder = format!("{name}-{}", std::process::id());
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(folder);
        let Some(line) = rig(&["kafka-start", folder.to_str().unwrap(), "--users"]) else {
            assert!(std::env::var_os("CI").is_none(), "Kafka did not start");
            println!("SKIPPED: scripts/rig could not start a Kafka with users");
            return None;
        };
        let word = |name: &str| {
            let mut words = line.split_whitespace();
            words
                .find_map(|word| word.strip_prefix(name))
                .unwrap()
                .to_owned()
        };
        Some(Guarded {
            servers: word("bootstrap="),
            users: word("users="),
            folder,
        })
    }

    /// The settings of who may do anything.
    pub fn admin(&self) -> Settings {
        [("bootstrap.servers", self.servers.as_str())]
            .into_iter()
            .collect()
    }

    /// The settings of a user.
    pub fn user(&self, user: &str) -> Settings {
        [
            ("bootstrap.servers", self.users.as_str()),
            ("security.protocol", "SASL_PLAINTEXT"),
            ("sasl.mechanism", "PLAIN"),
            ("sasl.username", user),
            ("sasl.password", user),
        ]
        .into_iter()
        .collect()
    }

    /// Gives a user rights such as `Read on Topic:orders`; a name that ends in `*` is a prefix.
    pub fn allow<R: AsRef<str>>(&self, user: &str, rights: impl IntoIterator<Item = R>) {
        let mut calls: BTreeMap<(String, bool), Vec<String>> = BTreeMap::new();
        for right in rights {
            let (operation, resource) = right.as_ref().split_once(" on ").unwrap();
            let (kind, name) = resource.split_once(':').unwrap();
            let kind = match kind {
                "Topic" => "--topic",
                "Group" => "--group",
                "TransactionalId" => "--transactional-id",
                kind => panic!("an unknown resource {kind}"),
            };
            let prefixed = name.ends_with('*');
            let call = calls.entry((operation.to_owned(), prefixed)).or_default();
            call.extend([kind.to_owned(), name.trim_end_matches('*').to_owned()]);
        }
        for ((operation, prefixed), resources) in calls {
            let principal = format!("User:{user}");
            let pattern = if prefixed { "prefixed" } else { "literal" };
            let mut arguments = vec![
                "kafka-tool",
                "acls",
                "--bootstrap-server",
                &self.servers,
                "--add",
                "--allow-principal",
                &principal,
                "--operation",
                &operation,
                "--resource-pattern-type",
                pattern,
            ];
            arguments.extend(resources.iter().map(String::as_str));
            rig(&arguments).unwrap();
        }
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
