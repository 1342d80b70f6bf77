//! The chains of a configuration as the reader of a pipeline.

use super::reader::{Halves, Reader, Shape};
use crate::answer::Answer;
use crate::config::Chain;
use crate::deserializer::{Deserializer, Input};
use crate::error::Result;
use crate::outcome::{Failure, Outcome};
use crate::value::Value;
use std::any::Any;
use std::fmt;
use std::marker::PhantomData;

/// Reads the key with its chain, where one is configured, and gives the value: a record whose key
/// cannot be read fails, though its key is not handed over.
pub struct ChainReader<T, S> {
    key: Option<Chain<Value>>,
    value: Chain<T>,
    shape: PhantomData<fn() -> S>,
}

impl<T, S> ChainReader<T, S> {
    pub(super) fn new(key: Option<Chain<Value>>, value: Chain<T>) -> Self {
        ChainReader {
            key,
            value,
            shape: PhantomData,
        }
    }
}

impl<T: Any + Send, S: Shape<T>> ChainReader<T, S> {
    #[inline]
    fn value<'a>(&'a self, halves: &'a Halves<'a>) -> Answer<'a, Outcome<S::Value>> {
        let context = &halves.value;
        self.value
            .deserialize(Input::of(context))
            .map_result(move |read| Ok(S::shape(read?, context)))
    }

    /// The failure of a key, if it has one; what its chain declined fails with the key's half.
    fn failed<K>(read: Result<Outcome<K>>, halves: &Halves<'_>) -> Option<Box<Failure>> {
        match read {
            Ok(Ok(_)) => None,
            Ok(Err(failure)) => Some(failure),
            Err(error) => Some(Failure::new(error, &halves.key)),
        }
    }
}

impl<T: Any + Send, S: Shape<T>> Reader for ChainReader<T, S> {
    type Value = S::Value;

    #[inline]
    fn read<'a>(&'a self, halves: &'a Halves<'a>) -> Answer<'a, Outcome<S::Value>> {
        let Some(key) = &self.key else {
            return self.value(halves);
        };
        let shaped = |failure| Ok(S::shape(Err(failure), &halves.key));
        match key.deserialize(Input::of(&halves.key)) {
            Answer::Ready(read) => match Self::failed(read, halves) {
                None => self.value(halves),
                Some(failure) => Answer::Ready(shaped(failure)),
            },
            Answer::Pending(reading) => Answer::pending(async move {
                match Self::failed(reading.await, halves) {
                    None => self.value(halves).await,
                    Some(failure) => shaped(failure),
                }
            }),
        }
    }
}

impl<T, S> fmt::Debug for ChainReader<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("ChainReader");
        debug.field("key", &self.key).field("value", &self.value);
        debug.finish()
    }
}

/// A record's key and value, both read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<K, V> {
    /// The key; `None` is a null.
    pub key: Option<K>,
    /// The value; `None` is a null.
    pub value: Option<V>,
}

/// Reads both halves of a record; see [`Entry`].
#[derive(Debug)]
pub struct EntryReader<K, V> {
    key: Chain<K>,
    value: Chain<V>,
}

impl<K, V> EntryReader<K, V> {
    pub(super) fn new(key: Chain<K>, value: Chain<V>) -> Self {
        EntryReader { key, value }
    }
}

impl<K: Any + Send, V: Any + Send> Reader for EntryReader<K, V> {
    type Value = Entry<K, V>;

    fn read<'a>(&'a self, halves: &'a Halves<'a>) -> Answer<'a, Outcome<Entry<K, V>>> {
        let value = move || self.value.deserialize(Input::of(&halves.value));
        let key = match self.key.deserialize(Input::of(&halves.key)) {
            Answer::Ready(read) => read,
            Answer::Pending(reading) => {
                return Answer::pending(async move {
                    match key_of(reading.await, halves) {
                        Ok(key) => Ok(value().await?.map(|value| Entry { key, value })),
                        Err(failure) => Ok(Err(failure)),
                    }
                });
            }
        };
        match key_of(key, halves) {
            Ok(key) => value().map_result(|read| Ok(read?.map(|value| Entry { key, value }))),
            Err(failure) => Answer::ok(Err(failure)),
        }
    }
}

fn key_of<K>(read: Result<Outcome<Option<K>>>, halves: &Halves<'_>) -> Outcome<Option<K>> {
    read.unwrap_or_else(|error| Err(Failure::new(error, &halves.key)))
}
