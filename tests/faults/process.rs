//! The driver's side of a process that tells, one line each, what it does.

use crate::rig::{Options, say, signal, within};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// What is known of a process by what it told.
pub(crate) trait Hear: Default + Send + 'static {
    fn hear(&mut self, line: &str);
}

pub(crate) struct Process<T> {
    pub(crate) name: String,
    child: Child,
    /// Its end ends the process.
    _input: Option<ChildStdin>,
    known: Arc<Mutex<T>>,
    reader: Option<JoinHandle<()>>,
}

impl<T: Hear> Process<T> {
    /// Starts this program again with these words.
    pub(crate) fn start(options: &Options, name: &str, words: &[&str]) -> Self {
        let errors = options.folder.join(format!("{name}.errors"));
        let errors = File::options().create(true).append(true).open(errors);
        let mut child = Command::new(std::env::current_exe().expect("this program has a path"))
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors.expect("the folder can be written"))
            .spawn()
            .expect("a process can be started");
        let output = child.stdout.take().expect("standard output is a pipe");
        let known = Arc::new(Mutex::new(T::default()));
        let hearing = Arc::clone(&known);
        let reader = std::thread::spawn(move || {
            let mut output = BufReader::new(output);
            let mut line = String::new();
            // A line without its end was cut off by a SIGKILL.
            while output.read_line(&mut line).is_ok() && line.ends_with('\n') {
                lock(&hearing).hear(line.trim_end());
                line.clear();
            }
        });
        Process {
            name: name.to_owned(),
            _input: child.stdin.take(),
            child,
            known,
            reader: Some(reader),
        }
    }

    pub(crate) fn known(&self) -> MutexGuard<'_, T> {
        lock(&self.known)
    }

    pub(crate) fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Stops it, by SIGSTOP, at a moment when it is so; false when that takes longer than `limit`.
    #[cfg(feature = "redis")]
    pub(crate) fn freeze_when(&mut self, limit: Duration, is_so: impl Fn(&T) -> bool) -> bool {
        let pid = self.child.id().to_string();
        within(limit, || {
            if !is_so(&self.known()) {
                return false;
            }
            signal("STOP", &pid);
            // What it told before is on its way.
            std::thread::sleep(Duration::from_millis(10));
            let stays = is_so(&self.known());
            if !stays {
                signal("CONT", &pid);
            }
            stays
        })
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.hear_out();
    }

    /// SIGTERM; whether it ended well, and in time.
    pub(crate) fn stop(&mut self) -> bool {
        signal("TERM", &self.child.id().to_string());
        let ended = within(Duration::from_secs(45), || !self.is_running());
        let well = ended && self.child.wait().is_ok_and(|status| status.success());
        self.kill();
        if !well {
            say(format!("{} did not end well", self.name));
        }
        well
    }

    fn hear_out(&mut self) {
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

impl<T> Drop for Process<T> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

/// In such a process: ends it with its driver, whose end closes standard input.
pub(crate) fn end_with_driver() {
    std::thread::spawn(|| {
        let _ = std::io::Read::read_to_end(&mut std::io::stdin(), &mut Vec::new());
        std::process::exit(9);
    });
}

/// In such a process: one write a line, so that what was told before a SIGKILL is there.
pub(crate) fn tell(line: std::fmt::Arguments<'_>) {
    let line = format!("{line}").replace('\n', " ") + "\n";
    let _ = std::io::Write::write_all(&mut std::io::stdout().lock(), line.as_bytes());
}

fn lock<T>(known: &Mutex<T>) -> MutexGuard<'_, T> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}
