//! A chain that was built from configuration, as its user sees it.

use super::built::Yields;
use crate::answer::Answer;
use crate::component::Component;
use crate::deserializer::{Deserializer, Input};
use crate::error::{Error, Result};
use crate::outcome::Outcome;
use crate::record::{Part, Record};
use crate::serializer::{Encoded, Serializer, Target};
use crate::tree::Tree;
use crate::value::Value;
use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// A deserializer built from configuration, yielding `T`.
///
/// `T` may be what the chain yields (`Bytes`, `String`, `i64`, `serde_json::Value`, `Event`, a type
/// that was registered) or [`Value`]. That it fits was checked when the chain was built. It answers
/// an [`Outcome`]: a value, a null (`None`), or the failure that an exception handling in the chain
/// took. Prints as its tree.
pub struct Chain<T> {
    root: Arc<dyn Deserializer<Output = Value>>,
    part: Part,
    yields: PhantomData<fn() -> T>,
}

impl<T> Clone for Chain<T> {
    fn clone(&self) -> Self {
        Chain {
            root: Arc::clone(&self.root),
            ..*self
        }
    }
}

impl<T: Any + Send> Chain<T> {
    pub(super) fn new(root: Arc<dyn Deserializer<Output = Value>>, part: Part) -> Self {
        Chain {
            root,
            part,
            yields: PhantomData,
        }
    }

    pub(super) fn accepts(yields: &Yields) -> bool {
        yields.may_be::<T>() || std::any::TypeId::of::<T>() == std::any::TypeId::of::<Value>()
    }

    /// The half of a record that it reads.
    pub fn part(&self) -> Part {
        self.part
    }

    /// Reads its half of `record`.
    ///
    /// # Errors
    /// An error that no exception handling in the chain took.
    pub async fn read(&self, record: &Record<'_>) -> Result<Outcome<Option<T>>> {
        let context = record.context(self.part);
        self.deserialize(Input::of(&context)).await
    }
}

#[inline]
fn typed<T: Any>(value: Value) -> Result<Outcome<Option<T>>> {
    match value {
        // A registered type first: nothing but its own box is between it and the caller.
        Value::Other(other) => match other.downcast::<T>() {
            Ok(value) => Ok(Ok(Some(*value))),
            Err(other) => rest(Value::Other(other)),
        },
        value => rest(value),
    }
}

fn rest<T: Any>(value: Value) -> Result<Outcome<Option<T>>> {
    // `Value` itself is asked for by those who want to see nulls and failures as they are.
    let wants_value = std::any::TypeId::of::<T>() == std::any::TypeId::of::<Value>();
    match value {
        Value::Failed(failure) => Ok(Err(failure)),
        Value::Null if !wants_value => Ok(Ok(None)),
        value => match value.take::<T>() {
            Ok(value) => Ok(Ok(Some(value))),
            Err(other) => Err(unlike(&other, std::any::type_name::<T>())),
        },
    }
}

#[cold]
fn unlike(yielded: &Value, wanted: &str) -> Error {
    let yielded = yielded.type_name();
    Error::config(format!(
        "the chain yielded {yielded}, but {wanted} is read from it"
    ))
}

#[deny(clippy::missing_trait_methods)]
impl<T: Send> Component for Chain<T> {
    fn close(&self) -> Answer<'_, ()> {
        self.root.close()
    }

    fn describe(&self) -> Tree {
        self.root.describe()
    }
}

#[deny(clippy::missing_trait_methods)]
impl<T: Any + Send> Deserializer for Chain<T> {
    type Output = Outcome<Option<T>>;

    #[inline]
    fn deserialize<'a>(&'a self, input: Input<'a>) -> Answer<'a, Self::Output> {
        match self.root.deserialize(input) {
            Answer::Ready(Ok(value)) => Answer::Ready(typed(value)),
            Answer::Ready(Err(error)) => Answer::Ready(Err(error)),
            Answer::Pending(future) => Answer::pending(async move { typed(future.await?) }),
        }
    }
}

impl<T> fmt::Display for Chain<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.root.describe().fmt(f)
    }
}

impl<T> fmt::Debug for Chain<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Chain({}: {self})", self.part)
    }
}

/// A serializer built from configuration, of [`Value`]s. Prints as its tree.
#[derive(Clone)]
pub struct SerializerChain {
    root: Arc<dyn Serializer<Input = Value>>,
    part: Part,
}

impl SerializerChain {
    pub(super) fn new(root: Arc<dyn Serializer<Input = Value>>, part: Part) -> Self {
        SerializerChain { root, part }
    }

    /// Writes `value` as its half of a record for `topic`. A [`Value::Null`] is a null.
    ///
    /// # Errors
    /// What the chain answers; a value of a type that the chain does not write is of kind Schema.
    pub async fn write(&self, topic: &str, value: &Value) -> Result<Encoded> {
        self.root
            .serialize(Some(value), &Target::new(topic, self.part))
            .await
    }
}

#[deny(clippy::missing_trait_methods)]
impl Component for SerializerChain {
    fn close(&self) -> Answer<'_, ()> {
        self.root.close()
    }

    fn describe(&self) -> Tree {
        self.root.describe()
    }
}

#[deny(clippy::missing_trait_methods)]
impl Serializer for SerializerChain {
    type Input = Value;

    fn serialize<'a>(
        &'a self,
        value: Option<&'a Value>,
        target: &'a Target<'a>,
    ) -> Answer<'a, Encoded> {
        self.root.serialize(value, target)
    }
}

impl fmt::Display for SerializerChain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.root.describe().fmt(f)
    }
}

impl fmt::Debug for SerializerChain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SerializerChain({}: {self})", self.part)
    }
}
