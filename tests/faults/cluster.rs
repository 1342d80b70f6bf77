//! One broker of a test's own, to be killed and frozen.

use crate::rig::{Options, client, rig, say, signal, value_in};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use std::path::PathBuf;
use std::time::Duration;

pub(crate) struct Cluster {
    folder: PathBuf,
    pub(crate) servers: String,
    pid: String,
}

impl Cluster {
    pub(crate) fn start(options: &Options) -> Self {
        let mut cluster = Cluster {
            folder: options.folder.join("kafka"),
            servers: String::new(),
            pid: String::new(),
        };
        cluster.launch();
        say(format!("Kafka is at {}", cluster.servers));
        cluster
    }

    fn launch(&mut self) {
        let line = rig(&["kafka-start", self.folder()]);
        self.servers = value_in(&line, "bootstrap");
        self.pid = value_in(&line, "pid");
    }

    fn folder(&self) -> &str {
        self.folder.to_str().expect("the folder's name is text")
    }

    /// SIGKILL.
    pub(crate) fn kill(&self) {
        rig(&["kafka-kill", self.folder()]);
    }

    /// Starts it again, with its data; there when it answers.
    pub(crate) fn restart(&mut self) {
        self.launch();
    }

    /// SIGSTOP.
    pub(crate) fn freeze(&self) {
        signal("STOP", &self.pid);
    }

    /// SIGCONT.
    pub(crate) fn thaw(&self) {
        signal("CONT", &self.pid);
    }

    pub(crate) fn create(&self, topic: &str, partitions: i32, config: &[(&str, &str)]) {
        let admin: AdminClient<DefaultClientContext> = client(&self.servers, &[])
            .create()
            .expect("an admin client can be made");
        let mut new = NewTopic::new(topic, partitions, TopicReplication::Fixed(1));
        for (name, value) in config {
            new = new.set(name, value);
        }
        let options = AdminOptions::new().operation_timeout(Some(Duration::from_secs(20)));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime can be made");
        let results = runtime
            .block_on(admin.create_topics(&[new], &options))
            .expect("topics can be created");
        for result in results {
            result.unwrap_or_else(|(name, code)| panic!("could not create {name}: {code}"));
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        rig(&["kafka-kill", self.folder()]);
    }
}
