use super::pass;
use crate::answer::{Answer, BoxFuture};
use crate::component::Component;
use crate::deserializer::{Deserializer, Input};
use crate::error::{Error, Result, StageName};
use crate::outcome::Outcome;
use crate::payload::{Context, Payload};
use crate::serializer::{Encoded, Give, Serializer, Target};
use crate::tree::Tree;
use crate::value::Value;
use bytes::Bytes;
use std::borrow::Cow;

/// Gives the bytes that `from` yields to `to` (KIP-873, `PipeDeserializer` and `PipeSerializer`).
///
/// One type for both directions: `from` always comes first in the direction of the data. Reading,
/// `aes_gcm.pipe(json)` decrypts and then parses; writing, `json.pipe(aes_gcm)` formats and then
/// encrypts, and the headers that `from` added are kept.
///
/// A failure of `from` short-circuits, and so does a [`Failure`](crate::Failure) value from an exception handling
/// inside it. A null goes through to `to`: a tombstone is data. A `from` that yields no bytes does
/// not compile, and is refused when a chain is built from properties:
///
/// ```compile_fail
/// use kafka_chain::{deserialize_with, Deserializer};
/// use kafka_chain::decorators::ChainExt;
///
/// let number = deserialize_with(|_| Ok(Some(1_u64)));
/// let text = deserialize_with(|_| Ok(Some(String::new())));
/// fn is_deserializer(_: impl Deserializer) {}
/// is_deserializer(number.pipe(text));
/// ```
#[derive(Clone, Debug)]
pub struct Pipe<A, B> {
    from: A,
    to: B,
    label: Option<String>,
    from_name: StageName,
    to_name: StageName,
}

impl<A, B> Pipe<A, B> {
    /// `from`, whose bytes `to` reads.
    pub const fn new(from: A, to: B) -> Self {
        let (from_name, to_name) = (Cow::Borrowed("pipe.from"), Cow::Borrowed("pipe.to"));
        Pipe {
            from,
            to,
            label: None,
            from_name,
            to_name,
        }
    }

    /// The same part under a label, which its stage path and its print show.
    #[must_use]
    pub fn labelled(mut self, label: impl Into<String>) -> Self {
        let label = label.into();
        self.from_name = format!("{label}.from").into();
        self.to_name = format!("{label}.to").into();
        self.label = Some(label);
        self
    }

    /// The half that comes first in the direction of the data.
    pub fn from_ref(&self) -> &A {
        &self.from
    }

    /// The half that comes second in the direction of the data.
    pub fn to_ref(&self) -> &B {
        &self.to
    }

    /// Both halves, by value.
    pub fn into_inner(self) -> (A, B) {
        (self.from, self.to)
    }

    // What a ready success does not need stays out of line, so that the rest is inlined.

    #[cold]
    fn failed_from(&self, error: Error) -> Error {
        error.at(self.from_name.clone())
    }

    #[cold]
    fn failed_to(&self, error: Error) -> Error {
        error.at(self.to_name.clone())
    }

    #[cold]
    fn no_bytes(&self, found: &str) -> Error {
        let message = format!("a pipe's `from` must yield bytes, not {found}");
        self.failed_from(Error::config(message))
    }
}

#[deny(clippy::missing_trait_methods)]
impl<A: Component, B: Component> Component for Pipe<A, B> {
    fn close(&self) -> Answer<'_, ()> {
        let (from, to) = (self.from.close(), self.to.close());
        match (from, to) {
            (Answer::Ready(from), Answer::Ready(to)) => Answer::Ready(from.and(to)),
            (from, to) => Answer::pending(async move {
                let from = from.await;
                let to = to.await;
                from.and(to)
            }),
        }
    }

    fn describe(&self) -> Tree {
        Tree::of("pipe", [self.from.describe(), self.to.describe()]).labelled(self.label.clone())
    }
}

impl<A, B> Pipe<A, B>
where
    A: Deserializer,
    A::Output: IntoPipe<B::Output>,
    B: Deserializer,
{
    #[inline]
    fn second<'a>(
        &'a self,
        first: A::Output,
        context: &'a Context<'a>,
    ) -> Answer<'a, <A::Output as IntoPipe<B::Output>>::Output> {
        let payload = match first.into_pipe() {
            Piped::Payload(payload) => payload,
            Piped::Done(output) => return Answer::Ready(Ok(output)),
            Piped::NotBytes(found) => return Answer::Ready(Err(self.no_bytes(found))),
        };
        let input = Input { payload, context };
        A::Output::pass(&self.to, input, |answer| self.go_on(answer))
    }

    #[inline(never)]
    fn first_later<'a>(
        &'a self,
        future: BoxFuture<'a, Result<A::Output>>,
        context: &'a Context<'a>,
    ) -> Answer<'a, <A::Output as IntoPipe<B::Output>>::Output> {
        Answer::pending(async move {
            match future.await {
                Ok(first) => self.second(first, context).await,
                Err(error) => Err(self.failed_from(error)),
            }
        })
    }

    /// Goes on after an answer of `to` that was not a ready success.
    #[inline(never)]
    fn go_on<'a>(
        &'a self,
        answer: Answer<'a, B::Output>,
    ) -> Answer<'a, <A::Output as IntoPipe<B::Output>>::Output> {
        answer.map_result(|result| match result {
            Ok(value) => Ok(A::Output::joined(value)),
            Err(error) => Err(self.failed_to(error)),
        })
    }
}

#[deny(clippy::missing_trait_methods)]
impl<A, B> Deserializer for Pipe<A, B>
where
    A: Deserializer,
    A::Output: IntoPipe<B::Output>,
    B: Deserializer,
{
    type Output = <A::Output as IntoPipe<B::Output>>::Output;

    #[inline]
    fn deserialize<'a>(&'a self, input: Input<'a>) -> Answer<'a, Self::Output> {
        let context = input.context;
        match self.from.deserialize(input) {
            Answer::Ready(Ok(first)) => self.second(first, context),
            Answer::Ready(Err(error)) => Answer::Ready(Err(self.failed_from(error))),
            Answer::Pending(future) => self.first_later(future, context),
        }
    }
}

impl<A, B> Pipe<A, B>
where
    A: Serializer,
    B: Serializer<Input = [u8]>,
{
    fn write_second<'a>(
        &'a self,
        first: Result<Encoded>,
        target: &'a Target<'a>,
    ) -> Answer<'a, Encoded> {
        let first = match first {
            Ok(first) => first,
            Err(error) => return Answer::Ready(Err(error.at(self.from_name.clone()))),
        };
        let mut headers = first.headers;
        self.to
            .serialize(Payload::from(first.payload), target)
            .map_result(move |second| {
                let second = second.map_err(|error| error.at(self.to_name.clone()))?;
                headers.append(second.headers);
                Ok(Encoded {
                    payload: second.payload,
                    headers,
                })
            })
    }
}

#[deny(clippy::missing_trait_methods)]
impl<A, B> Serializer for Pipe<A, B>
where
    A: Serializer,
    B: Serializer<Input = [u8]>,
{
    type Input = A::Input;

    fn serialize<'a>(
        &'a self,
        value: <A::Input as Give>::Given<'a>,
        target: &'a Target<'a>,
    ) -> Answer<'a, Encoded> {
        match self.from.serialize(value, target) {
            Answer::Ready(first) => self.write_second(first, target),
            Answer::Pending(future) => {
                Answer::pending(async move { self.write_second(future.await, target).await })
            }
        }
    }
}

/// What the `from` of a pipe yields, taken apart.
#[derive(Debug)]
pub enum Piped<O> {
    /// The bytes that `to` reads.
    Payload(Payload<'static>),
    /// A failure: the answer of the whole pipe.
    Done(O),
    /// No bytes, but this: the chain is wired wrongly.
    NotBytes(&'static str),
}

/// What may stand in a pipe's `from`, whose `to` yields a `T`: bytes, an [`Outcome`] of such, or the
/// [`Value`] of an erased chain.
#[diagnostic::on_unimplemented(
    message = "the `from` of a pipe yields `{Self}`, which is not bytes",
    label = "a pipe's `from` must yield `Option<Bytes>`, an `Outcome` of it, or `Value`",
    note = "put a stage that yields bytes first, as in `aes_gcm.pipe(json)`"
)]
pub trait IntoPipe<T> {
    /// What the pipe answers.
    type Output: Send;
    /// The bytes for `to`, or the answer that needs none.
    fn into_pipe(self) -> Piped<Self::Output>;
    /// What `to` yielded, as the pipe answers it.
    fn joined(value: T) -> Self::Output;

    /// Answers what `to` answers at once and well; anything else goes on with `otherwise`.
    #[inline]
    fn pass<'a>(
        to: &'a impl Deserializer<Output = T>,
        input: Input<'a>,
        otherwise: impl FnOnce(Answer<'a, T>) -> Answer<'a, Self::Output>,
    ) -> Answer<'a, Self::Output> {
        match to.deserialize(input) {
            Answer::Ready(Ok(value)) => Answer::Ready(Ok(Self::joined(value))),
            answer => otherwise(answer),
        }
    }
}

impl<T: Send> IntoPipe<T> for Option<Bytes> {
    type Output = T;

    #[inline]
    fn into_pipe(self) -> Piped<T> {
        Piped::Payload(Payload::from(self))
    }

    #[inline]
    fn joined(value: T) -> T {
        value
    }

    #[inline]
    fn pass<'a>(
        to: &'a impl Deserializer<Output = T>,
        input: Input<'a>,
        otherwise: impl FnOnce(Answer<'a, T>) -> Answer<'a, T>,
    ) -> Answer<'a, T> {
        pass(to, input, otherwise)
    }
}

impl<T, A: IntoPipe<T>> IntoPipe<T> for Outcome<A> {
    type Output = Outcome<A::Output>;

    #[inline]
    fn into_pipe(self) -> Piped<Self::Output> {
        match self.map(A::into_pipe) {
            Ok(Piped::Payload(payload)) => Piped::Payload(payload),
            Ok(Piped::Done(output)) => Piped::Done(Ok(output)),
            Ok(Piped::NotBytes(found)) => Piped::NotBytes(found),
            Err(failure) => Piped::Done(Err(failure)),
        }
    }

    #[inline]
    fn joined(value: T) -> Self::Output {
        Ok(A::joined(value))
    }
}

impl IntoPipe<Value> for Value {
    type Output = Value;

    #[inline]
    fn into_pipe(self) -> Piped<Value> {
        match self {
            Value::Bytes(bytes) => Piped::Payload(Payload::Shared(bytes)),
            Value::Null => Piped::Payload(Payload::Null),
            Value::Failed(failure) => Piped::Done(Value::Failed(failure)),
            other => Piped::NotBytes(other.type_name()),
        }
    }

    #[inline]
    fn joined(value: Value) -> Value {
        value
    }

    #[inline]
    fn pass<'a>(
        to: &'a impl Deserializer<Output = Value>,
        input: Input<'a>,
        otherwise: impl FnOnce(Answer<'a, Value>) -> Answer<'a, Value>,
    ) -> Answer<'a, Value> {
        pass(to, input, otherwise)
    }
}
