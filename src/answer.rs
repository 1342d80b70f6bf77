//! One colour of function: an answer that is there at once, or when a future is done.

use crate::error::{Error, Result};
use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::task::{Context, Poll};

/// A future that answers later.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What a stage answers: at once, or when a future is done.
///
/// A codec answers [`Answer::Ready`] and allocates nothing; only a stage that really waits (a key
/// service, a backoff) boxes a future. `Answer` can be awaited as it is.
///
/// Dropping a pending answer stops it: nothing of it runs on in the background.
#[must_use = "an answer does nothing until it is awaited"]
pub enum Answer<'a, T> {
    /// The answer itself.
    Ready(Result<T>),
    /// The answer comes when this is done.
    Pending(BoxFuture<'a, Result<T>>),
}

impl<'a, T> Answer<'a, T> {
    /// A value, at once.
    #[inline]
    pub fn ok(value: T) -> Self {
        Answer::Ready(Ok(value))
    }

    /// An error, at once.
    #[inline]
    pub fn err(error: Error) -> Self {
        Answer::Ready(Err(error))
    }

    /// The answer of `future`.
    pub fn pending(future: impl Future<Output = Result<T>> + Send + 'a) -> Self {
        Answer::Pending(Box::pin(future))
    }

    /// Turns the result into another; a ready answer stays ready.
    #[inline]
    pub fn map_result<U>(self, f: impl FnOnce(Result<T>) -> Result<U> + Send + 'a) -> Answer<'a, U>
    where
        T: 'a,
    {
        match self {
            Answer::Ready(result) => Answer::Ready(f(result)),
            Answer::Pending(future) => Answer::pending(async move { f(future.await) }),
        }
    }

    /// The result if it is there already, else the answer back.
    pub fn now(self) -> std::result::Result<Result<T>, Self> {
        match self {
            Answer::Ready(result) => Ok(result),
            pending => Err(pending),
        }
    }
}

impl<T> From<Result<T>> for Answer<'_, T> {
    #[inline]
    fn from(result: Result<T>) -> Self {
        Answer::Ready(result)
    }
}

impl<T> fmt::Debug for Answer<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Answer::Ready(Ok(_)) => "Ready(Ok)",
            Answer::Ready(Err(_)) => "Ready(Err)",
            Answer::Pending(_) => "Pending",
        })
    }
}

impl<'a, T> IntoFuture for Answer<'a, T> {
    type Output = Result<T>;
    type IntoFuture = AnswerFuture<'a, T>;

    fn into_future(self) -> AnswerFuture<'a, T> {
        AnswerFuture(Some(self))
    }
}

/// The future of an [`Answer`].
#[must_use = "futures do nothing unless polled"]
pub struct AnswerFuture<'a, T>(Option<Answer<'a, T>>);

// The answer inside is never pinned in place: a pending one is a pinned box of its own.
impl<T> Unpin for AnswerFuture<'_, T> {}

impl<T> Future for AnswerFuture<'_, T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T>> {
        match self.0.take() {
            Some(Answer::Ready(result)) => Poll::Ready(result),
            Some(Answer::Pending(mut future)) => {
                let poll = future.as_mut().poll(cx);
                if poll.is_pending() {
                    self.0 = Some(Answer::Pending(future));
                }
                poll
            }
            None => Poll::Ready(Err(Error::config(
                "an answer was polled after it was given",
            ))),
        }
    }
}

impl<T> fmt::Debug for AnswerFuture<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AnswerFuture").field(&self.0).finish()
    }
}
