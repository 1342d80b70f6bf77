//! The decorators: exception handling, retry and pipe, around any delegate.
//!
//! Right order: `exception-handling(retry(pipe(aes-gcm, json)))`. Retry sees the temporary errors
//! first and turns them into exhausted ones; exception handling takes what is left.
//!
//! Wrong order: `retry(exception-handling(…))`. Exception handling turns errors into values, so the
//! retry around it never sees one.

mod exception_handling;
mod pipe;
mod pipe_keys;
mod retry;
mod retry_keys;

pub use exception_handling::{Erased, ExceptionHandling, Mode, Typed};
pub use pipe::{IntoPipe, Pipe, Piped};
pub use retry::Retry;

pub(crate) use exception_handling::spec as exception_handling_spec;
pub(crate) use pipe_keys::spec as pipe_spec;
pub(crate) use retry_keys::spec as retry_spec;

use crate::answer::Answer;
use crate::backoff::{Backoff, SharedBackoff};
use crate::deserializer::{BoxDeserializer, Deserializer, Input};
use crate::serializer::{BoxSerializer, Serializer};

/// Builds chains in the direction of the data: `aes_gcm.pipe(json).retry(backoff).handle_exceptions()`.
pub trait ChainExt: Sized {
    /// Gives the bytes that this part yields to `to`.
    fn pipe<B>(self, to: B) -> Pipe<Self, B> {
        Pipe::new(self, to)
    }

    /// Calls this part again, after each wait of `backoff`, while it fails temporarily.
    fn retry(self, backoff: impl Backoff + 'static) -> Retry<Self> {
        Retry::new(self, SharedBackoff::new(backoff))
    }

    /// Turns permanent and exhausted errors of this part into values.
    fn handle_exceptions(self) -> ExceptionHandling<Self> {
        ExceptionHandling::new(self)
    }

    /// The same deserializer, whose type is known at run time only.
    fn boxed(self) -> BoxDeserializer<Self::Output>
    where
        Self: Deserializer + 'static,
    {
        Box::new(self)
    }

    /// The same serializer, whose type is known at run time only.
    fn boxed_serializer(self) -> BoxSerializer<Self::Input>
    where
        Self: Serializer + 'static,
    {
        Box::new(self)
    }
}

impl<T> ChainExt for T {}

/// Answers what `delegate` answers at once and well; anything else goes on with `otherwise`.
///
/// The way of a decorator that alters no value: the input is handed on and the answer is written
/// once, where it is wanted, instead of being moved from layer to layer.
#[inline]
fn pass<'a, D: Deserializer>(
    delegate: &'a D,
    input: Input<'a>,
    otherwise: impl FnOnce(Answer<'a, D::Output>) -> Answer<'a, D::Output>,
) -> Answer<'a, D::Output> {
    let mut answer = delegate.deserialize(input);
    if !matches!(answer, Answer::Ready(Ok(_))) {
        answer = otherwise(answer);
    }
    answer
}
