//! The driver's side of a worker process.

use crate::rig::{Options, say, signal, within};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A partition and an offset.
pub(crate) type Place = (i32, i64);

/// What a worker told, but for its single records.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub(crate) at: Instant,
    pub(crate) what: String,
    pub(crate) words: Vec<String>,
}

impl Told {
    pub(crate) fn number<T: std::str::FromStr>(&self, index: usize) -> T {
        let word = self.words.get(index).and_then(|word| word.parse().ok());
        word.unwrap_or_else(|| panic!("no number {index} in {self:?}"))
    }

    /// Partitions, with the number of their ownership.
    pub(crate) fn partitions(&self) -> Vec<(i32, u64)> {
        let read = |word: &String| {
            let (partition, ownership) = word.split_once('/')?;
            Some((partition.parse().ok()?, ownership.parse().ok()?))
        };
        let all: Option<Vec<(i32, u64)>> = self.words.iter().map(read).collect();
        all.unwrap_or_else(|| panic!("no partitions in {self:?}"))
    }
}

/// What is known of a worker.
#[derive(Debug, Default)]
pub(crate) struct Known {
    pub(crate) handled: u64,
    /// With the handler.
    pub(crate) in_flight: BTreeSet<Place>,
    /// Partition, offset and ownership, in the order in which records were handled.
    pub(crate) order: Vec<(i32, i64, u64)>,
    pub(crate) told: Vec<Told>,
}

impl Known {
    fn hear(&mut self, line: &str) {
        let mut words = line.split(' ');
        let what = words.next().unwrap_or_default().to_owned();
        let words = words.map(str::to_owned).collect();
        let at = Instant::now();
        let told = Told { at, what, words };
        match told.what.as_str() {
            "start" => {
                self.in_flight.insert((told.number(0), told.number(1)));
            }
            "done" => {
                let (partition, offset) = (told.number(0), told.number(1));
                self.in_flight.remove(&(partition, offset));
                self.handled += 1;
                self.order.push((partition, offset, told.number(2)));
            }
            what => {
                if what == "judged" {
                    self.in_flight.remove(&(told.number(0), told.number(1)));
                }
                self.told.push(told);
            }
        }
    }

    /// How often it told that since then.
    pub(crate) fn count(&self, what: &str, since: Instant) -> usize {
        let later = self.told.iter().filter(|told| told.at >= since);
        later.filter(|told| told.what == what).count()
    }

    /// How many partitions it has.
    pub(crate) fn owns(&self) -> usize {
        let mut owned = BTreeSet::new();
        for told in &self.told {
            match told.what.as_str() {
                "assigned" => owned.extend(told.partitions()),
                "revoked" | "lost" => {
                    for partition in told.partitions() {
                        owned.remove(&partition);
                    }
                }
                _ => {}
            }
        }
        owned.len()
    }
}

pub(crate) struct Worker {
    pub(crate) name: String,
    child: Child,
    /// Its end ends the worker.
    _input: Option<ChildStdin>,
    known: Arc<Mutex<Known>>,
    reader: Option<JoinHandle<()>>,
}

/// How workers are started.
pub(crate) struct Crew<'o> {
    options: &'o Options,
    servers: String,
    topic: String,
    outputs: String,
    properties: String,
    orders: Vec<String>,
}

impl<'o> Crew<'o> {
    /// A group that consumes `topic` and writes to `<topic>.outputs`.
    pub(crate) fn new(options: &'o Options, servers: &str, topic: &str) -> Self {
        Crew {
            options,
            servers: servers.to_owned(),
            topic: topic.to_owned(),
            outputs: format!("{topic}.outputs"),
            properties: String::new(),
            orders: Vec::new(),
        }
    }

    /// More properties, one a line.
    pub(crate) fn properties(mut self, more: &str) -> Self {
        self.properties.push_str(more);
        self.properties.push('\n');
        self
    }

    /// An order, as `name=value`.
    pub(crate) fn order(mut self, order: String) -> Self {
        self.orders.push(order);
        self
    }

    pub(crate) fn start(&self, name: &str) -> Worker {
        self.start_with(name, "")
    }

    /// Starts a worker with properties of its own.
    pub(crate) fn start_with(&self, name: &str, own: &str) -> Worker {
        let path = |kind| {
            self.options
                .folder
                .join(format!("{}-{name}.{kind}", self.topic))
        };
        let text = format!(
            "bootstrap.servers={}\ngroup.id={}\nclient.id={name}\ntopics={}\nvalue.deserializer=shop\n{}\n{own}\n",
            self.servers, self.topic, self.topic, self.properties
        );
        std::fs::write(path("properties"), text).expect("the folder can be written");
        let errors = File::options()
            .create(true)
            .append(true)
            .open(path("errors"));
        let story = File::options().create(true).append(true).open(path("told"));
        let mut story = BufWriter::new(story.expect("the folder can be written"));
        let mut child = Command::new(std::env::current_exe().expect("this program has a path"))
            .arg("work")
            .arg(path("properties"))
            .arg(format!("outputs={}", self.outputs))
            .args(&self.orders)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors.expect("the folder can be written"))
            .spawn()
            .expect("a worker can be started");
        let output = child.stdout.take().expect("standard output is a pipe");
        let known = Arc::new(Mutex::new(Known::default()));
        let hearing = Arc::clone(&known);
        let reader = std::thread::spawn(move || {
            let mut output = BufReader::new(output);
            let mut line = String::new();
            // A line without its end was cut off by a SIGKILL.
            while output.read_line(&mut line).is_ok() && line.ends_with('\n') {
                let _ = story.write_all(line.as_bytes());
                lock(&hearing).hear(line.trim_end());
                line.clear();
            }
        });
        Worker {
            name: name.to_owned(),
            _input: child.stdin.take(),
            child,
            known,
            reader: Some(reader),
        }
    }
}

impl Worker {
    pub(crate) fn known(&self) -> MutexGuard<'_, Known> {
        lock(&self.known)
    }

    pub(crate) fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// SIGKILL; how many records were with its handler then.
    pub(crate) fn kill(&mut self) -> usize {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.hear_out();
        self.known().in_flight.len()
    }

    /// SIGTERM; whether it ended well, and in time.
    pub(crate) fn stop(&mut self) -> bool {
        signal("TERM", &self.child.id().to_string());
        let began = Instant::now();
        let ended = within(Duration::from_secs(45), || !self.is_running());
        let well = ended && self.child.wait().is_ok_and(|status| status.success());
        if !ended {
            let _ = self.child.kill();
        }
        self.hear_out();
        if began.elapsed() > Duration::from_secs(3) {
            say(format!("{} took {:?} to end", self.name, began.elapsed()));
        }
        if !well {
            say(format!(
                "{} did not end well: {:?}",
                self.name,
                self.known().told.last()
            ));
        }
        well
    }

    fn hear_out(&mut self) {
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.hear_out();
    }
}

fn lock(known: &Mutex<Known>) -> MutexGuard<'_, Known> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}
