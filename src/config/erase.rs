//! From typed parts to the parts of an erased chain, whose values are known at run time only.

use crate::answer::Answer;
use crate::component::Component;
use crate::deserializer::{Deserializer, Input};
use crate::error::Error;
use crate::payload::Payload;
use crate::serializer::{Encoded, Give, Serializer, Target};
use crate::tree::Tree;
use crate::value::Value;
use std::any::Any;

/// A typed deserializer in an erased chain: what it yields travels as a [`Value`].
#[derive(Clone, Copy, Debug)]
pub struct Erase<D>(pub D);

#[deny(clippy::missing_trait_methods)]
impl<D: Component> Component for Erase<D> {
    fn close(&self) -> Answer<'_, ()> {
        self.0.close()
    }

    fn describe(&self) -> Tree {
        self.0.describe()
    }
}

#[deny(clippy::missing_trait_methods)]
impl<D, T> Deserializer for Erase<D>
where
    D: Deserializer<Output = Option<T>>,
    T: Any + Send + Sync,
{
    type Output = Value;

    #[inline]
    fn deserialize<'a>(&'a self, input: Input<'a>) -> Answer<'a, Value> {
        match self.0.deserialize(input) {
            Answer::Ready(Ok(value)) => Answer::Ready(Ok(erase(value))),
            Answer::Ready(Err(error)) => Answer::Ready(Err(error)),
            Answer::Pending(future) => Answer::pending(async move { Ok(erase(future.await?)) }),
        }
    }
}

#[inline]
fn erase<T: Any + Send + Sync>(value: Option<T>) -> Value {
    match value {
        Some(value) => Value::of(value),
        None => Value::Null,
    }
}

/// A typed serializer in an erased chain: takes the [`Value`] of its type, and null.
#[derive(Clone, Copy, Debug)]
pub struct EraseWriter<S>(pub S);

#[deny(clippy::missing_trait_methods)]
impl<S: Component> Component for EraseWriter<S> {
    fn close(&self) -> Answer<'_, ()> {
        self.0.close()
    }

    fn describe(&self) -> Tree {
        self.0.describe()
    }
}

#[deny(clippy::missing_trait_methods)]
impl<S, T> Serializer for EraseWriter<S>
where
    S: Serializer<Input = T>,
    T: Any + Send + Sync,
    T: for<'a> Give<Given<'a> = Option<&'a T>>,
{
    type Input = Value;

    fn serialize<'a>(
        &'a self,
        value: Option<&'a Value>,
        target: &'a Target<'a>,
    ) -> Answer<'a, Encoded> {
        match value {
            None | Some(Value::Null) => self.0.serialize(None, target),
            Some(value) => match value.get::<T>() {
                Some(typed) => self.0.serialize(Some(typed), target),
                None => {
                    let wanted = std::any::type_name::<T>();
                    let given = value.type_name();
                    let message = format!("the serializer writes {wanted}, but was given {given}");
                    Answer::err(Error::schema(message))
                }
            },
        }
    }
}

/// A bytes → bytes serializer at the start of an erased chain: takes bytes, text, and null.
#[derive(Clone, Copy, Debug)]
pub struct EraseBytesWriter<S>(pub S);

#[deny(clippy::missing_trait_methods)]
impl<S: Component> Component for EraseBytesWriter<S> {
    fn close(&self) -> Answer<'_, ()> {
        self.0.close()
    }

    fn describe(&self) -> Tree {
        self.0.describe()
    }
}

#[deny(clippy::missing_trait_methods)]
impl<S: Serializer<Input = [u8]>> Serializer for EraseBytesWriter<S> {
    type Input = Value;

    fn serialize<'a>(
        &'a self,
        value: Option<&'a Value>,
        target: &'a Target<'a>,
    ) -> Answer<'a, Encoded> {
        let payload = match value {
            None | Some(Value::Null) => Payload::Null,
            Some(Value::Bytes(bytes)) => Payload::Shared(bytes.clone()),
            Some(Value::Text(text)) => Payload::Borrowed(text.as_bytes()),
            Some(other) => {
                let given = other.type_name();
                let message = format!("the serializer writes bytes, but was given {given}");
                return Answer::err(Error::schema(message));
            }
        };
        self.0.serialize(payload, target)
    }
}
