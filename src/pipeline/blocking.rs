//! Handlers that block, on threads of their own.

use super::contain::panicked;
use super::handler::{Handler, HandlerContext, HandlerError, Outputs};
use crate::error::{Error, Result};
use std::collections::HashSet;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use tokio::sync::{Notify, Semaphore, oneshot};

/// Handles one value and may block its thread.
///
/// A call cannot be cancelled: no time limit ends it, its slot of the pool stays taken until it
/// returns, and what it returns counts however late. Where its partition was given up meanwhile, the
/// result is dropped; should the record come back to this process before the call is over, it waits for
/// that, so that no record is ever handled twice at once.
pub trait SyncHandler<T>: Send + Sync + 'static {
    /// What it fails with.
    type Error: HandlerError;

    /// Handles `value`. The record of `context` is a copy.
    ///
    /// # Errors
    /// As for [`Handler::handle`].
    fn handle(&self, value: T, context: &HandlerContext<'_>) -> Result<(), Self::Error>;
}

impl<T, E, F> SyncHandler<T> for F
where
    F: Fn(T, &HandlerContext<'_>) -> Result<(), E> + Send + Sync + 'static,
    E: HandlerError,
{
    type Error = E;

    fn handle(&self, value: T, context: &HandlerContext<'_>) -> Result<(), E> {
        self(value, context)
    }
}

type Call = Box<dyn FnOnce() + Send>;

/// A fixed number of threads for handlers that block; shared by all partitions.
///
/// Dropping it ends each thread after the call it is in.
#[derive(Clone)]
pub struct SyncPool {
    slots: Arc<Semaphore>,
    calls: Sender<Call>,
    running: Arc<Running>,
}

impl SyncPool {
    /// Starts `threads` (at least one) threads.
    ///
    /// # Errors
    /// Temporary, of kind Unavailable, when the system gives no more threads.
    pub fn start(threads: usize) -> Result<Self> {
        let threads = threads.max(1);
        let (calls, next) = channel::<Call>();
        let next = Arc::new(Mutex::new(next));
        for index in 0..threads {
            let next = Arc::clone(&next);
            thread::Builder::new()
                .name(format!("handler-{index}"))
                .spawn(move || work(&next))
                .map_err(|cause| {
                    Error::unavailable("could not start a thread for a handler").with_source(cause)
                })?;
        }
        Ok(SyncPool {
            slots: Arc::new(Semaphore::new(threads)),
            calls,
            running: Arc::default(),
        })
    }

    /// How many threads are free.
    pub fn free(&self) -> usize {
        self.slots.available_permits()
    }
}

impl fmt::Debug for SyncPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SyncPool({} free)", self.free())
    }
}

fn work(next: &Mutex<Receiver<Call>>) {
    loop {
        let call = next.lock().unwrap_or_else(PoisonError::into_inner).recv();
        match call {
            Ok(call) => call(),
            Err(_) => return,
        }
    }
}

type Place = (String, i32, i64);

/// The records that a thread is handling.
#[derive(Default)]
struct Running {
    places: Mutex<HashSet<Place>>,
    left: Notify,
}

impl Running {
    fn insert(&self, place: &Place) -> bool {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        places.insert(place.clone())
    }

    /// Waits until the record is handled by nobody, and takes it.
    async fn enter(self: &Arc<Self>, place: Place) -> Turn {
        loop {
            let mut left = pin!(self.left.notified());
            left.as_mut().enable();
            if self.insert(&place) {
                return Turn(Arc::clone(self), place);
            }
            left.await;
        }
    }
}

struct Turn(Arc<Running>, Place);

impl Drop for Turn {
    fn drop(&mut self) {
        let mut places = self.0.places.lock().unwrap_or_else(PoisonError::into_inner);
        places.remove(&self.1);
        drop(places);
        self.0.left.notify_waiters();
    }
}

/// The handler of [`blocking`].
#[derive(Debug)]
pub struct Blocking<H> {
    handler: Arc<H>,
    pool: SyncPool,
}

/// A handler whose calls run on `pool`. Each call copies its record.
pub fn blocking<H>(pool: &SyncPool, handler: H) -> Blocking<H> {
    Blocking {
        handler: Arc::new(handler),
        pool: pool.clone(),
    }
}

impl<T: Send + 'static, H: SyncHandler<T>> Handler<T> for Blocking<H> {
    type Error = Error;

    async fn handle(&self, value: T, context: &HandlerContext<'_>) -> Result<()> {
        let gone = || Error::config("the threads of the handler are gone");
        let (record, attempt) = (context.record().to_owned(), context.attempt());
        let place = (record.topic.clone(), record.partition, record.offset);
        let turn = self.pool.running.enter(place).await;
        let slots = Arc::clone(&self.pool.slots);
        let slot = slots.acquire_owned().await.map_err(|_| gone())?;
        let handler = Arc::clone(&self.handler);
        let (give, result) = oneshot::channel();
        let call = move || {
            let handled = catch_unwind(AssertUnwindSafe(|| {
                let (record, outputs) = (record.as_record(), Outputs::new());
                let context = HandlerContext::new(&record, attempt, &outputs);
                let handled = handler.handle(value, &context);
                handled.map_err(HandlerError::into_error)?;
                Ok(outputs.into_records())
            }));
            drop((turn, slot));
            // Nobody may be waiting any more.
            let _ = give.send(handled.unwrap_or_else(|panic| Err(panicked(panic))));
        };
        self.pool.calls.send(Box::new(call)).map_err(|_| gone())?;
        context.send_all(result.await.map_err(|_| gone())??);
        Ok(())
    }

    fn is_cancellable(&self) -> bool {
        false
    }
}
