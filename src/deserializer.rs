//! The reading half of the contract: bytes and where they come from, to a value.

use crate::answer::{Answer, BoxFuture};
use crate::component::Component;
use crate::error::Result;
use crate::payload::{Context, Payload};
use crate::record::{Part, Record};
use crate::stage::{Stage, contained};
use crate::tree::Tree;
use std::sync::Arc;

/// What a stage is given, by value: the bytes in hand and where they come from.
#[derive(Clone, Debug)]
pub struct Input<'a> {
    /// The bytes in hand: the record's own in the first stage, those of the stage before in others.
    pub payload: Payload<'a>,
    /// The record and which half of it; the same in every stage.
    pub context: &'a Context<'a>,
}

impl<'a> Input<'a> {
    /// The input of the first stage of a chain.
    #[inline]
    pub fn of(context: &'a Context<'a>) -> Self {
        Input {
            payload: context.payload(),
            context,
        }
    }
}

/// A chain, or a part of one, that reads.
///
/// Object safe: one trait serves typed chains and chains built from configuration, stages that
/// answer at once and stages that wait. A null payload is data, never an error: decoders yield
/// `Option<T>`.
///
/// To write one without this trait see [`deserialize_with`] and [`deserialize_with_future`].
pub trait Deserializer: Component {
    /// What is read.
    type Output: Send;

    /// Reads `input`.
    ///
    /// # Errors
    /// The error says whether trying again helps ([`Error::status`](crate::Error::status)); it quotes no payload.
    fn deserialize<'a>(&'a self, input: Input<'a>) -> Answer<'a, Self::Output>;
}

/// A deserializer whose type is known at run time only.
pub type BoxDeserializer<T> = Box<dyn Deserializer<Output = T>>;

macro_rules! forward {
    ($($pointer:ty),*) => {$(
        #[deny(clippy::missing_trait_methods)]
        impl<D: Deserializer + ?Sized> Deserializer for $pointer {
            type Output = D::Output;

            #[inline]
            fn deserialize<'a>(&'a self, input: Input<'a>) -> Answer<'a, D::Output> {
                (**self).deserialize(input)
            }
        }
    )*};
}

forward!(Box<D>, Arc<D>, &D);

#[deny(clippy::missing_trait_methods)]
impl<D: Deserializer> Deserializer for Stage<D> {
    type Output = D::Output;

    #[inline]
    fn deserialize<'a>(&'a self, input: Input<'a>) -> Answer<'a, D::Output> {
        contained(&self.name, move || self.delegate.deserialize(input))
    }
}

/// Reads half of `record` with `deserializer`: the way to call a chain.
///
/// # Errors
/// What the chain answers.
pub async fn deserialize<D: Deserializer + ?Sized>(
    deserializer: &D,
    record: &Record<'_>,
    part: Part,
) -> Result<D::Output> {
    let context = record.context(part);
    deserializer.deserialize(Input::of(&context)).await
}

/// A stage of a plain function: `deserialize_with(|input| Ok(input.payload.as_bytes().map(...)))`.
///
/// Give the closure where it is called, so that its lifetimes are inferred. It prints as
/// `<closure>`; [`Stage::named`] gives it a name. Panics are contained.
pub fn deserialize_with<T, F>(function: F) -> Stage<DeserializeWith<F>>
where
    T: Send,
    F: for<'a> Fn(Input<'a>) -> Result<T> + Send + Sync,
{
    Stage::new("closure", DeserializeWith(function))
}

/// A stage of a function that returns a boxed future.
///
/// ```
/// use kafka_chain::{deserialize_with_future, Input};
///
/// let length = deserialize_with_future(|input: Input<'_>| {
///     Box::pin(async move { Ok(input.payload.as_bytes().map(<[u8]>::len)) })
/// });
/// # let _ = length;
/// ```
pub fn deserialize_with_future<T, F>(function: F) -> Stage<DeserializeWithFuture<F>>
where
    T: Send,
    F: for<'a> Fn(Input<'a>) -> BoxFuture<'a, Result<T>> + Send + Sync,
{
    Stage::new("closure", DeserializeWithFuture(function))
}

/// See [`deserialize_with`].
#[derive(Clone, Copy)]
pub struct DeserializeWith<F>(F);

impl<F> std::fmt::Debug for DeserializeWith<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DeserializeWith")
    }
}

impl<F: Send + Sync> Component for DeserializeWith<F> {
    fn describe(&self) -> Tree {
        Tree::opaque("closure")
    }
}

impl<T, F> Deserializer for DeserializeWith<F>
where
    T: Send,
    F: for<'a> Fn(Input<'a>) -> Result<T> + Send + Sync,
{
    type Output = T;

    #[inline]
    fn deserialize<'a>(&'a self, input: Input<'a>) -> Answer<'a, T> {
        Answer::Ready((self.0)(input))
    }
}

/// See [`deserialize_with_future`].
#[derive(Clone, Copy)]
pub struct DeserializeWithFuture<F>(F);

impl<F> std::fmt::Debug for DeserializeWithFuture<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DeserializeWithFuture")
    }
}

impl<F: Send + Sync> Component for DeserializeWithFuture<F> {
    fn describe(&self) -> Tree {
        Tree::opaque("closure")
    }
}

impl<T, F> Deserializer for DeserializeWithFuture<F>
where
    T: Send,
    F: for<'a> Fn(Input<'a>) -> BoxFuture<'a, Result<T>> + Send + Sync,
{
    type Output = T;

    fn deserialize<'a>(&'a self, input: Input<'a>) -> Answer<'a, T> {
        Answer::Pending((self.0)(input))
    }
}
