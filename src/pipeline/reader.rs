//! From a record to what its handler takes.

use crate::answer::Answer;
use crate::deserializer::{Deserializer, Input};
use crate::error::{Error, Result};
use crate::outcome::{Failure, Outcome};
use crate::payload::Context;
use crate::record::{Part, Record};
use std::fmt;
use std::marker::PhantomData;

/// The two halves of a record, for the chains that read them.
#[derive(Clone, Copy, Debug)]
pub struct Halves<'a> {
    /// The key and where it comes from.
    pub key: Context<'a>,
    /// The value and where it comes from.
    pub value: Context<'a>,
}

impl<'a> Halves<'a> {
    /// The halves of `record`.
    pub const fn of(record: &'a Record<'a>) -> Self {
        Halves {
            key: record.context(Part::Key),
            value: record.context(Part::Value),
        }
    }

    /// The record.
    pub const fn record(&self) -> &'a Record<'a> {
        self.value.record
    }
}

/// Reads what a handler takes. A failing record is read again before each further attempt, so values
/// need not be clonable.
pub trait Reader: Send + Sync + 'static {
    /// What the handler takes.
    type Value: Send + 'static;

    /// Reads a record.
    ///
    /// # Errors
    /// An error is taken as one of the value's chain; a [`Failure`] knows its half.
    fn read<'a>(&'a self, halves: &'a Halves<'a>) -> Answer<'a, Outcome<Self::Value>>;
}

/// What is made of a chain's answer.
pub trait Shape<T>: Send + Sync + 'static {
    /// What the handler takes.
    type Value: Send + 'static;

    /// Makes it.
    ///
    /// # Errors
    /// The failure, unless the handler takes failures.
    fn shape(read: Outcome<Option<T>>, context: &Context<'_>) -> Outcome<Self::Value>;
}

/// A value; a null is a Permanent failure of kind Schema.
#[derive(Clone, Copy, Debug)]
pub struct Required;

/// A value or a null.
#[derive(Clone, Copy, Debug)]
pub struct Nullable;

/// A value, a null or a failure.
#[derive(Clone, Copy, Debug)]
pub struct Seeing;

impl<T: Send + 'static> Shape<T> for Required {
    type Value = T;

    fn shape(read: Outcome<Option<T>>, context: &Context<'_>) -> Outcome<T> {
        read?.ok_or_else(|| Failure::new(Error::schema("the value is null"), context))
    }
}

impl<T: Send + 'static> Shape<T> for Nullable {
    type Value = Option<T>;

    fn shape(read: Outcome<Option<T>>, _: &Context<'_>) -> Outcome<Option<T>> {
        read
    }
}

impl<T: Send + 'static> Shape<T> for Seeing {
    type Value = Outcome<Option<T>>;

    fn shape(read: Outcome<Option<T>>, _: &Context<'_>) -> Outcome<Self::Value> {
        Ok(read)
    }
}

/// Reads the values of records with a chain.
pub struct ValueReader<D, T, S> {
    chain: D,
    types: PhantomData<fn() -> (T, S)>,
}

/// For a handler of `T`: a null value is a failure.
pub fn values<D, T>(chain: D) -> ValueReader<D, T, Required>
where
    D: Deserializer<Output = Outcome<Option<T>>>,
{
    ValueReader::new(chain)
}

/// For a handler of `Option<T>`: a null value is `None`.
pub fn nullable_values<D, T>(chain: D) -> ValueReader<D, T, Nullable>
where
    D: Deserializer<Output = Outcome<Option<T>>>,
{
    ValueReader::new(chain)
}

/// For a handler of `Outcome<Option<T>>`, which sees what the chain's exception handling took. What it
/// answers is all that is judged then: a failure that it accepts is finished.
pub fn outcomes<D, T>(chain: D) -> ValueReader<D, T, Seeing>
where
    D: Deserializer<Output = Outcome<Option<T>>>,
{
    ValueReader::new(chain)
}

impl<D, T, S> ValueReader<D, T, S> {
    fn new(chain: D) -> Self {
        ValueReader {
            chain,
            types: PhantomData,
        }
    }
}

impl<D, T, S> Reader for ValueReader<D, T, S>
where
    D: Deserializer<Output = Outcome<Option<T>>> + 'static,
    T: Send + 'static,
    S: Shape<T>,
{
    type Value = S::Value;

    #[inline]
    fn read<'a>(&'a self, halves: &'a Halves<'a>) -> Answer<'a, Outcome<S::Value>> {
        let context = &halves.value;
        self.chain
            .deserialize(Input::of(context))
            .map_result(move |read| Ok(S::shape(read?, context)))
    }
}

impl<D: fmt::Debug, T, S> fmt::Debug for ValueReader<D, T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ValueReader").field(&self.chain).finish()
    }
}

/// The reader of [`read_with`].
pub struct ReadWith<F>(F);

/// Reads records with a function.
pub fn read_with<F, T>(read: F) -> ReadWith<F>
where
    F: Fn(&Record<'_>) -> Result<T> + Send + Sync + 'static,
{
    ReadWith(read)
}

impl<F, T> Reader for ReadWith<F>
where
    F: Fn(&Record<'_>) -> Result<T> + Send + Sync + 'static,
    T: Send + 'static,
{
    type Value = T;

    #[inline]
    fn read<'a>(&'a self, halves: &'a Halves<'a>) -> Answer<'a, Outcome<T>> {
        Answer::Ready((self.0)(halves.record()).map(Ok))
    }
}

impl<F> fmt::Debug for ReadWith<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReadWith")
    }
}
