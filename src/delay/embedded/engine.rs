//! The thread that has the file: runs calls in turn, and makes those that ask for it durable
//! together.

use super::disk::{Disk, Fault};
use crate::error::{Error, Result};
use redb::WriteTransaction;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

/// How many calls wait. A call is bounded itself, see [`Engine::submit`].
const QUEUE: usize = 16;

/// The most weight that one commit makes durable: larger ones let the file grow.
const GROUP: usize = 4_096;

/// What a file is for: what is kept in memory beside it.
pub(super) trait State: Send + Sized + 'static {
    /// What was written by another format than this one is refused.
    const FORMAT: u64;

    /// Reads what is kept in memory. What it writes is durable before anything else happens.
    fn load(transaction: &WriteTransaction) -> Result<Self, Fault>;

    /// Writes what changed with every commit, and answers whether anything was changed since the
    /// last.
    fn save(&mut self, transaction: &WriteTransaction) -> Result<bool, Fault>;

    /// Whether anything was changed since the last commit.
    fn is_dirty(&self) -> bool;
}

/// When a call is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// When it ran. What it wrote is durable within the interval, or lost with a crash.
    AtOnce,
    /// When what it wrote is durable.
    Durable,
}

/// Where a file is and how it is worked on.
#[derive(Clone, Debug)]
pub(super) struct EngineOptions {
    pub(super) file: PathBuf,
    pub(super) cache_bytes: usize,
    /// How long what was answered at once may wait for its commit.
    pub(super) interval: Duration,
}

/// Runs calls on the thread of its own. Dropping it commits and closes the file in the background.
pub(super) struct Engine<S> {
    calls: mpsc::Sender<Box<dyn Run<S>>>,
    closed: oneshot::Receiver<()>,
}

trait Run<S>: Send {
    fn run(&mut self, state: &mut S, transaction: &WriteTransaction) -> Result<(), Fault>;
    fn answer(self: Box<Self>, outcome: Result<()>);
    fn when(&self) -> Answer;
    fn weight(&self) -> usize;
}

struct Call<W, T> {
    work: Option<W>,
    done: Option<T>,
    reply: oneshot::Sender<Result<T>>,
    when: Answer,
    weight: usize,
}

impl<S, W, T> Run<S> for Call<W, T>
where
    W: FnOnce(&mut S, &WriteTransaction) -> Result<T, Fault> + Send,
    T: Send,
{
    fn run(&mut self, state: &mut S, transaction: &WriteTransaction) -> Result<(), Fault> {
        if let Some(work) = self.work.take() {
            self.done = Some(work(state, transaction)?);
        }
        Ok(())
    }

    fn answer(self: Box<Self>, outcome: Result<()>) {
        let Call { done, reply, .. } = *self;
        let lost = || Error::unavailable("the call did not run");
        // Whoever asked may have gone.
        let _ = reply.send(outcome.and_then(|()| done.ok_or_else(lost)));
    }

    fn when(&self) -> Answer {
        self.when
    }

    fn weight(&self) -> usize {
        self.weight
    }
}

impl<S: State> Engine<S> {
    /// Opens the file; there when it is ready.
    ///
    /// # Errors
    /// Kind Config when another process has the file or it is of another format; Permanent when it
    /// is damaged; Temporary when the disk fails.
    pub(super) async fn open(options: EngineOptions) -> Result<Self> {
        let (calls, take) = mpsc::channel(QUEUE);
        let (opened, ready) = oneshot::channel();
        let (closing, closed) = oneshot::channel();
        let spawned = thread::Builder::new()
            .name("delay-embedded".to_owned())
            .spawn(move || {
                serve::<S>(options, take, opened);
                let _ = closing.send(());
            });
        spawned.map_err(|cause| {
            Error::unavailable("could not start the thread of the delay store").with_source(cause)
        })?;
        let over = || Error::unavailable("the thread of the delay store ended");
        ready.await.map_err(|_| over())??;
        Ok(Engine { calls, closed })
    }

    /// Hands `work` over; it runs after all that was handed over before. `weight` is about how many
    /// rows it writes, at most a few hundred.
    ///
    /// Work that fails takes back everything since the last commit, of other calls too.
    pub(super) async fn submit<T: Send + 'static>(
        &self,
        when: Answer,
        weight: usize,
        work: impl FnOnce(&mut S, &WriteTransaction) -> Result<T, Fault> + Send + 'static,
    ) -> oneshot::Receiver<Result<T>> {
        let (reply, answer) = oneshot::channel();
        let call = Call {
            work: Some(work),
            done: None,
            reply,
            when,
            weight,
        };
        // Closed: the reply goes with the call, and the answer is the error of `answered`.
        let _ = self.calls.send(Box::new(call)).await;
        answer
    }

    /// Hands `work` over and waits for its answer.
    pub(super) async fn call<T: Send + 'static>(
        &self,
        when: Answer,
        weight: usize,
        work: impl FnOnce(&mut S, &WriteTransaction) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T> {
        answered(self.submit(when, weight, work).await).await
    }

    /// Commits, closes the file and waits for that.
    pub(super) async fn close(self) {
        drop(self.calls);
        // An error means that the thread is gone, which is as good.
        let _ = self.closed.await;
    }
}

/// The answer to what was submitted.
pub(super) async fn answered<T>(answer: oneshot::Receiver<Result<T>>) -> Result<T> {
    match answer.await {
        Ok(answer) => answer,
        Err(_) => Err(Error::unavailable("the delay store is closed")),
    }
}

struct Server<S> {
    options: EngineOptions,
    open: Option<Disk<S>>,
    /// Those whose work ran and is not durable yet.
    waiting: Vec<Box<dyn Run<S>>>,
    dirty_since: Option<Instant>,
}

fn serve<S: State>(
    options: EngineOptions,
    mut calls: mpsc::Receiver<Box<dyn Run<S>>>,
    opened: oneshot::Sender<Result<()>>,
) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(cause) => {
            let error = Error::unavailable("could not start the clock of the delay store");
            let _ = opened.send(Err(error.with_source(cause)));
            return;
        }
    };
    let mut server = Server {
        options,
        open: None,
        waiting: Vec::new(),
        dirty_since: None,
    };
    let ready = contained(|| server.reopen());
    let failed = ready.is_err();
    let _ = opened.send(ready);
    if failed {
        return;
    }
    loop {
        let due = (server.dirty_since).map(|since| since + server.options.interval);
        let next = runtime.block_on(async {
            match due {
                None => Some(calls.recv().await),
                Some(due) => timeout_at(due, calls.recv()).await.ok(),
            }
        });
        match next {
            Some(Some(call)) => server.group(call, &mut calls),
            Some(None) => break,
            None => server.commit(),
        }
    }
    server.commit();
}

/// What `work` answers; its panic, which a damaged file may cause, as an error.
fn contained<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        Err(Error::permanent(
            "the file of the delay store could not be read: it may be damaged",
        ))
    })
}

impl<S: State> Server<S> {
    fn reopen(&mut self) -> Result<()> {
        self.open = None;
        self.open = Some(Disk::open(&self.options.file, self.options.cache_bytes)?);
        Ok(())
    }

    /// Runs `call` and what has come meanwhile, and commits if anybody waits for that.
    fn group(&mut self, call: Box<dyn Run<S>>, calls: &mut mpsc::Receiver<Box<dyn Run<S>>>) {
        let (mut next, mut weight) = (Some(call), 0);
        while let Some(call) = next {
            weight += call.weight().max(1);
            self.run(call);
            next = match weight < GROUP {
                true => calls.try_recv().ok(),
                false => None,
            };
        }
        let late = (self.dirty_since).is_some_and(|since| since.elapsed() >= self.options.interval);
        if late || !self.waiting.is_empty() {
            self.commit();
        }
    }

    fn run(&mut self, mut call: Box<dyn Run<S>>) {
        let ran = contained(|| {
            if self.open.is_none() {
                self.reopen()?;
            }
            let Some(disk) = &mut self.open else {
                return Err(Error::unavailable("the delay store is closed"));
            };
            disk.with(|state, transaction| call.run(state, transaction))
        });
        match ran {
            Ok(()) if call.when() == Answer::Durable => self.waiting.push(call),
            Ok(()) => call.answer(Ok(())),
            Err(error) => {
                let text = error.to_string();
                call.answer(Err(error));
                self.fail(&text);
                return;
            }
        }
        if self.dirty_since.is_none() && self.open.as_ref().is_some_and(Disk::is_dirty) {
            self.dirty_since = Some(Instant::now());
        }
    }

    fn commit(&mut self) {
        let committed = contained(|| match &mut self.open {
            Some(disk) => disk.commit(),
            None => Ok(()),
        });
        match committed {
            Ok(()) => {
                self.dirty_since = None;
                for call in self.waiting.drain(..) {
                    call.answer(Ok(()));
                }
            }
            Err(error) => self.fail(&error.to_string()),
        }
    }

    /// Nothing since the last commit has happened; the file is opened anew by the next call.
    fn fail(&mut self, why: &str) {
        self.dirty_since = None;
        self.open = None;
        for call in self.waiting.drain(..) {
            call.answer(Err(Error::unavailable(why.to_owned())));
        }
    }
}

#[cfg(test)]
mod tests;
