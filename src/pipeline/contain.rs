//! Containing panics of users' code, and ending what takes too long.

use crate::error::{Error, Result};
use crate::status::{ErrorKind, Status};
use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;
use tokio::task::JoinError;
use tokio::time::{Sleep, sleep};

/// The result of `future`; a panic of its polls or of its drop is an error.
///
/// Temporary, unlike the panic of a chain's leaf: a handler's panic counts as a failed attempt. Its
/// text is dropped, for it may quote the payload.
pub(super) async fn contained<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    let mut slot = pin!(Some(future));
    let polled = poll_fn(|cx| {
        let poll = catch_unwind(AssertUnwindSafe(|| match slot.as_mut().as_pin_mut() {
            Some(future) => future.poll(cx),
            None => Poll::Ready(Err(panicked(Box::new(())))),
        }));
        poll.unwrap_or_else(|panic| Poll::Ready(Err(panicked(panic))))
    })
    .await;
    let dropped = catch_unwind(AssertUnwindSafe(|| slot.as_mut().set(None)));
    dropped.map_err(panicked).and(polled)
}

/// The error of a panic; drops what it carried, whose own drop may panic once more.
#[cold]
pub(super) fn panicked(panic: Box<dyn Any + Send>) -> Error {
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        std::mem::forget(again);
    }
    Error::new(ErrorKind::Panic, Status::Temporary, "it panicked")
}

/// That a task of ours is gone, and nothing of the text of its panic.
#[cold]
pub(super) fn gone(what: &str, cause: JoinError) -> Error {
    let end = match cause.try_into_panic() {
        Ok(panic) => {
            drop(panicked(panic));
            "it panicked"
        }
        Err(_) => "it was cancelled",
    };
    Error::config(format!("{what} is gone: {end}"))
}

/// The output of `future`, or an error when it takes longer than `limit`. A future that is ready at
/// once costs no timer.
pub(super) async fn within<F: Future>(limit: Option<Duration>, future: F) -> Result<F::Output> {
    let mut future = pin!(future);
    let Some(limit) = limit else {
        return Ok(future.await);
    };
    let mut timer: Option<Pin<Box<Sleep>>> = None;
    poll_fn(|cx| {
        if let Poll::Ready(output) = future.as_mut().poll(cx) {
            return Poll::Ready(Ok(output));
        }
        let timer = timer.get_or_insert_with(|| Box::pin(sleep(limit)));
        timer.as_mut().poll(cx).map(|()| {
            Err(Error::timeout(format!(
                "the handler took longer than its limit of {limit:?}"
            )))
        })
    })
    .await
}
