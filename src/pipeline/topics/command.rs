//! Remedies as commands, ready to be pasted.

use super::check::{Remedy, TopicProblem};
use crate::transport::Settings;
use crate::transport::kafka::NewTopic;
use std::fmt::Write;

/// Writes the commands that mend problems, for Kafka's own tools.
#[derive(Clone, Debug)]
pub struct Commands {
    servers: String,
    /// Whether the cluster wants more than its address, which the tools read from a file.
    secured: bool,
}

impl Commands {
    /// For the cluster that these settings reach.
    pub fn of(settings: &Settings) -> Self {
        let protocol = settings.get("security.protocol").unwrap_or("plaintext");
        Commands {
            servers: settings
                .get("bootstrap.servers")
                .unwrap_or_default()
                .to_owned(),
            secured: !protocol.eq_ignore_ascii_case("plaintext"),
        }
    }

    /// The command that mends a problem, where one does. A right is given to the principal that
    /// stands for `User:NAME` in it.
    pub fn command(&self, problem: &TopicProblem) -> Option<String> {
        Some(match problem.remedy.as_ref()? {
            Remedy::Create(topic) => self.create(topic),
            Remedy::Partitions { topic, partitions } => format!(
                "{} --alter --topic {} --partitions {partitions}",
                self.tool("kafka-topics.sh"),
                quoted(topic)
            ),
            Remedy::Config { topic, name, value } => format!(
                "{} --alter --entity-type topics --entity-name {} --add-config {}",
                self.tool("kafka-configs.sh"),
                quoted(topic),
                quoted(&format!("{name}={value}"))
            ),
            Remedy::Right { topic, operation } => format!(
                "{} --add --allow-principal User:NAME --operation {operation} --topic {}",
                self.tool("kafka-acls.sh"),
                quoted(topic)
            ),
        })
    }

    /// The command that creates a topic.
    pub fn create(&self, topic: &NewTopic) -> String {
        let mut command = format!(
            "{} --create --topic {} --partitions {}",
            self.tool("kafka-topics.sh"),
            quoted(&topic.name),
            topic.partitions
        );
        if topic.replication > 0 {
            let _ = write!(command, " --replication-factor {}", topic.replication);
        }
        for (name, value) in &topic.config {
            let _ = write!(command, " --config {}", quoted(&format!("{name}={value}")));
        }
        command
    }

    /// A problem and, below it, its command.
    pub fn tell(&self, problem: &TopicProblem) -> String {
        match self.command(problem) {
            Some(command) => format!("{problem}\n    {command}"),
            None => problem.to_string(),
        }
    }

    fn tool(&self, name: &str) -> String {
        let secured = match self.secured {
            true => " --command-config client.properties",
            false => "",
        };
        format!(
            "{name} --bootstrap-server {}{secured}",
            quoted(&self.servers)
        )
    }
}

/// For a shell.
fn quoted(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-,:=/".contains(&byte);
    match !text.is_empty() && text.bytes().all(plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}
