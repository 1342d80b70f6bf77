//! The writing half of the contract: a value and where it goes, to bytes and headers.

use crate::answer::{Answer, BoxFuture};
use crate::component::Component;
use crate::error::Result;
use crate::headers::{HeaderView, Headers};
use crate::payload::Payload;
use crate::record::Part;
use crate::stage::{Stage, contained};
use crate::tree::Tree;
use bytes::Bytes;
use std::sync::Arc;

/// How a type is given to a serializer: by reference, where `None` is a null; bytes as a
/// [`Payload`], which can also be shared.
pub trait Give {
    /// What the serializer gets.
    type Given<'a>: Clone + Send + Sync
    where
        Self: 'a;
}

impl<T: Sync> Give for T {
    type Given<'a>
        = Option<&'a T>
    where
        T: 'a;
}

impl Give for [u8] {
    type Given<'a> = Payload<'a>;
}

/// Where a serialized payload goes.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The topic the record is sent to.
    pub topic: &'a str,
    /// Which half of the record is written.
    pub part: Part,
    /// The headers that the record has already.
    pub headers: HeaderView<'a>,
}

impl<'a> Target<'a> {
    /// A target without headers.
    pub const fn new(topic: &'a str, part: Part) -> Self {
        Target {
            topic,
            part,
            headers: HeaderView::empty(),
        }
    }
}

/// What a serializer made. `Debug` shows sizes, never the bytes.
#[derive(Clone, Default, PartialEq)]
pub struct Encoded {
    /// The bytes; `None` is a null (a tombstone).
    pub payload: Option<Bytes>,
    /// The headers to add to the record, in order.
    pub headers: Headers,
}

impl Encoded {
    /// Bytes, or a null, that bring no headers.
    pub const fn of(payload: Option<Bytes>) -> Self {
        Encoded {
            payload,
            headers: Headers::new(),
        }
    }
}

impl std::fmt::Debug for Encoded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Encoded")
            .field("payload", &Payload::from(self.payload.clone()))
            .field("headers", &self.headers)
            .finish()
    }
}

impl From<Bytes> for Encoded {
    fn from(payload: Bytes) -> Self {
        Encoded::of(Some(payload))
    }
}

impl From<Vec<u8>> for Encoded {
    fn from(payload: Vec<u8>) -> Self {
        Encoded::of(Some(payload.into()))
    }
}

/// A chain, or a part of one, that writes.
///
/// It returns what it adds instead of writing into what it was given, so that an attempt that
/// failed leaves nothing behind.
pub trait Serializer: Component {
    /// What is written: a type, or `[u8]` for a stage that turns bytes into bytes.
    type Input: Give + ?Sized;

    /// Writes `value` for `target`. A null is data: every codec turns it into a null payload.
    ///
    /// # Errors
    /// The error says whether trying again helps; it quotes no payload.
    fn serialize<'a>(
        &'a self,
        value: <Self::Input as Give>::Given<'a>,
        target: &'a Target<'a>,
    ) -> Answer<'a, Encoded>;
}

/// A serializer whose type is known at run time only.
pub type BoxSerializer<T> = Box<dyn Serializer<Input = T>>;

macro_rules! forward {
    ($($pointer:ty),*) => {$(
        #[deny(clippy::missing_trait_methods)]
        impl<S: Serializer + ?Sized> Serializer for $pointer {
            type Input = S::Input;

            #[inline]
            fn serialize<'a>(
                &'a self,
                value: <S::Input as Give>::Given<'a>,
                target: &'a Target<'a>,
            ) -> Answer<'a, Encoded> {
                (**self).serialize(value, target)
            }
        }
    )*};
}

forward!(Box<S>, Arc<S>, &S);

#[deny(clippy::missing_trait_methods)]
impl<S: Serializer> Serializer for Stage<S> {
    type Input = S::Input;

    #[inline]
    fn serialize<'a>(
        &'a self,
        value: <S::Input as Give>::Given<'a>,
        target: &'a Target<'a>,
    ) -> Answer<'a, Encoded> {
        contained(&self.name, move || self.delegate.serialize(value, target))
    }
}

/// A stage of a plain function that writes a `T`. It prints as `<closure>`; panics are contained.
pub fn serialize_with<T, F>(function: F) -> Stage<SerializeWith<T, F>>
where
    T: Sync + 'static,
    F: for<'a> Fn(Option<&'a T>, &'a Target<'a>) -> Result<Encoded> + Send + Sync,
{
    Stage::new("closure", SerializeWith(function, std::marker::PhantomData))
}

/// A stage of a function that turns bytes into bytes, with a boxed future.
pub fn serialize_bytes_with_future<F>(function: F) -> Stage<SerializeBytesWithFuture<F>>
where
    F: for<'a> Fn(Payload<'a>, &'a Target<'a>) -> BoxFuture<'a, Result<Encoded>> + Send + Sync,
{
    Stage::new("closure", SerializeBytesWithFuture(function))
}

/// See [`serialize_with`].
pub struct SerializeWith<T, F>(F, std::marker::PhantomData<fn(&T)>);

impl<T, F> std::fmt::Debug for SerializeWith<T, F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SerializeWith")
    }
}

impl<T, F: Send + Sync> Component for SerializeWith<T, F> {
    fn describe(&self) -> Tree {
        Tree::opaque("closure")
    }
}

impl<T, F> Serializer for SerializeWith<T, F>
where
    T: Sync + 'static,
    F: for<'a> Fn(Option<&'a T>, &'a Target<'a>) -> Result<Encoded> + Send + Sync,
{
    type Input = T;

    fn serialize<'a>(
        &'a self,
        value: Option<&'a T>,
        target: &'a Target<'a>,
    ) -> Answer<'a, Encoded> {
        Answer::Ready((self.0)(value, target))
    }
}

/// See [`serialize_bytes_with_future`].
pub struct SerializeBytesWithFuture<F>(F);

impl<F> std::fmt::Debug for SerializeBytesWithFuture<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SerializeBytesWithFuture")
    }
}

impl<F: Send + Sync> Component for SerializeBytesWithFuture<F> {
    fn describe(&self) -> Tree {
        Tree::opaque("closure")
    }
}

impl<F> Serializer for SerializeBytesWithFuture<F>
where
    F: for<'a> Fn(Payload<'a>, &'a Target<'a>) -> BoxFuture<'a, Result<Encoded>> + Send + Sync,
{
    type Input = [u8];

    fn serialize<'a>(&'a self, value: Payload<'a>, target: &'a Target<'a>) -> Answer<'a, Encoded> {
        Answer::Pending((self.0)(value, target))
    }
}
