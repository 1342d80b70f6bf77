//! What a fault test is run with: its options, its folder, its processes, and waiting.

use rdkafka::ClientConfig;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) long: bool,
    pub(crate) no_commits: bool,
    /// Without what keeps records safe, so that some must be lost.
    pub(crate) careless: bool,
    /// With times that are sooner than what is checked, so that some must be early.
    pub(crate) too_soon: bool,
    /// For everything that is written.
    pub(crate) folder: PathBuf,
}

impl Options {
    pub(crate) fn read(words: &[&str]) -> Result<Self, String> {
        let mut options = Options {
            long: false,
            no_commits: false,
            careless: false,
            too_soon: false,
            folder: std::env::temp_dir().join(format!("kafka-chain-faults-{}", std::process::id())),
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match *word {
                "--long" => options.long = true,
                "--no-commits" => options.no_commits = true,
                "--careless" => options.careless = true,
                "--too-soon" => options.too_soon = true,
                "--folder" => {
                    options.folder = words.next().ok_or("--folder needs a folder")?.into();
                }
                _ => return Err(format!("`{word}` is not an option")),
            }
        }
        std::fs::create_dir_all(&options.folder).map_err(|error| error.to_string())?;
        Ok(options)
    }

    /// One of two sizes.
    pub(crate) fn of<T>(&self, long: T, short: T) -> T {
        if self.long { long } else { short }
    }
}

/// Tells how far it is.
pub(crate) fn say(text: impl std::fmt::Display) {
    static BEGAN: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    let began = BEGAN.get_or_init(Instant::now);
    eprintln!("{:6.1}  {text}", began.elapsed().as_secs_f64());
}

/// `scripts/rig`, and what it prints.
pub(crate) fn rig(words: &[&str]) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/rig");
    let output = Command::new(script)
        .args(words)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .expect("scripts/rig can be run");
    assert!(output.status.success(), "scripts/rig {}", words.join(" "));
    String::from_utf8(output.stdout).expect("scripts/rig prints text")
}

/// The value of `name` in a line of `name=value`s.
pub(crate) fn value_in(line: &str, name: &str) -> String {
    let mut words = line.split_whitespace();
    let found = words.find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    found
        .unwrap_or_else(|| panic!("no {name} in {line}"))
        .to_owned()
}

/// Sends a signal, by its name.
pub(crate) fn signal(name: &str, pid: &str) {
    let status = Command::new("kill").args(["-s", name, pid]).status();
    assert!(
        status.is_ok_and(|status| status.success()),
        "kill -s {name} {pid}"
    );
}

/// Settings of a client of the test's own, which shares no code with what is tested.
pub(crate) fn client(servers: &str, more: &[(&str, &str)]) -> ClientConfig {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", servers)
        .set("reconnect.backoff.max.ms", "500")
        .set("log_level", "2");
    for (name, value) in more {
        config.set(*name, *value);
    }
    config
}

/// Waits until it is so; false when that takes longer than `limit`.
pub(crate) fn within(limit: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    loop {
        if is_so() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn pause(seconds: f64) {
    std::thread::sleep(Duration::from_secs_f64(seconds));
}
