//! The one wrapper around each leaf: it names the leaf in stage paths and contains its panics.

use crate::answer::{Answer, BoxFuture};
use crate::component::Component;
use crate::error::{Error, Result, StageName};
use crate::status::{ErrorKind, Status};
use crate::tree::Tree;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

/// A leaf of a chain, named and contained.
///
/// A panic of the leaf, in its call, in a poll or in the drop of its future, becomes a Permanent
/// error of kind [`ErrorKind::Panic`] at this stage. The panic's text is dropped, for it may quote
/// the payload; the process's panic hook still prints it.
#[derive(Clone, Debug)]
pub struct Stage<D> {
    pub(crate) name: StageName,
    pub(crate) delegate: D,
    tree: Option<Tree>,
}

impl<D> Stage<D> {
    /// Wraps a leaf under this name.
    pub fn new(name: impl Into<StageName>, delegate: D) -> Self {
        Stage {
            name: name.into(),
            delegate,
            tree: None,
        }
    }

    /// The same leaf under another name, which its stage path and its print show.
    #[must_use]
    pub fn named(self, name: impl Into<StageName>) -> Self {
        let name = name.into();
        let tree = Some(Tree::opaque(&name));
        Stage { name, tree, ..self }
    }

    /// The same leaf, printing as `tree`.
    #[must_use]
    pub fn described(self, tree: Tree) -> Self {
        Stage {
            tree: Some(tree),
            ..self
        }
    }

    /// The leaf.
    pub fn get_ref(&self) -> &D {
        &self.delegate
    }

    /// The leaf itself, no longer contained.
    pub fn into_inner(self) -> D {
        self.delegate
    }
}

#[deny(clippy::missing_trait_methods)]
impl<D: Component> Component for Stage<D> {
    fn close(&self) -> Answer<'_, ()> {
        contained(&self.name, || self.delegate.close())
    }

    fn describe(&self) -> Tree {
        self.tree
            .clone()
            .unwrap_or_else(|| self.delegate.describe())
    }
}

/// Calls a leaf; whatever it does, an answer comes back.
#[inline]
pub(crate) fn contained<'a, T: Send + 'a>(
    name: &'a StageName,
    call: impl FnOnce() -> Answer<'a, T>,
) -> Answer<'a, T> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Answer::Ready(Ok(value))) => Answer::Ready(Ok(value)),
        Ok(Answer::Ready(Err(error))) => Answer::Ready(Err(failed(name, error))),
        Ok(Answer::Pending(future)) => waiting(name, future),
        Err(panic) => Answer::Ready(Err(panicked(name, panic))),
    }
}

// What a ready success does not need stays out of line, so that a whole chain of it is inlined.

#[cold]
fn failed(name: &StageName, error: Error) -> Error {
    error.at(name.clone())
}

#[inline(never)]
fn waiting<'a, T: Send + 'a>(
    name: &'a StageName,
    future: BoxFuture<'a, Result<T>>,
) -> Answer<'a, T> {
    Answer::pending(Contained {
        name,
        future: Some(future),
    })
}

#[cold]
fn panicked(name: &StageName, panic: Box<dyn std::any::Any + Send>) -> Error {
    swallow(panic);
    Error::new(ErrorKind::Panic, Status::Permanent, "the stage panicked").at(name.clone())
}

/// Drops a panic's payload, whose own drop may panic once more.
fn swallow(panic: Box<dyn std::any::Any + Send>) {
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        std::mem::forget(again);
    }
}

struct Contained<'a, T> {
    name: &'a StageName,
    future: Option<BoxFuture<'a, Result<T>>>,
}

impl<T> Unpin for Contained<'_, T> {}

impl<T> Contained<'_, T> {
    fn drop_future(&mut self) -> Option<Error> {
        let future = self.future.take()?;
        catch_unwind(AssertUnwindSafe(|| drop(future)))
            .err()
            .map(|p| panicked(self.name, p))
    }
}

impl<T> Future for Contained<'_, T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T>> {
        let this = &mut *self;
        let Some(future) = this.future.as_mut() else {
            return Poll::Ready(Err(Error::config("a stage was polled after its answer")));
        };
        let polled = match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(result)) => result.map_err(|error| error.at(this.name.clone())),
            Err(panic) => Err(panicked(this.name, panic)),
        };
        // The future goes before its answer is used: what its drop does belongs to this stage.
        match this.drop_future() {
            Some(panic) if polled.is_ok() => Poll::Ready(Err(panic)),
            _ => Poll::Ready(polled),
        }
    }
}

impl<T> Drop for Contained<'_, T> {
    fn drop(&mut self) {
        self.drop_future();
    }
}
