//! What a factory builds, and what it says of it.

use super::erase::EraseBytesWriter;
use crate::deserializer::BoxDeserializer;
use crate::serializer::BoxSerializer;
use crate::tree::Tree;
use crate::value::Value;
use bytes::Bytes;
use std::any::{Any, TypeId};
use std::fmt;

/// A Rust type with its name for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeOf {
    /// The type.
    pub id: TypeId,
    /// Its name.
    pub name: &'static str,
}

impl TypeOf {
    /// The type `T`.
    pub fn of<T: Any>() -> Self {
        TypeOf {
            id: TypeId::of::<T>(),
            name: std::any::type_name::<T>(),
        }
    }
}

/// What an erased part yields, so that a pipe and a [`Chain`](super::Chain) are checked when the
/// chain is built, not at the first record.
#[derive(Clone, Debug)]
pub enum Yields {
    /// Known at run time only.
    Any,
    /// One value, which can be taken as any of these types.
    OneOf(Vec<TypeOf>),
}

impl Yields {
    /// A `T`.
    pub fn of<T: Any>() -> Self {
        Yields::OneOf(vec![TypeOf::of::<T>()])
    }

    /// Whether a `T` can come out.
    pub fn may_be<T: Any>(&self) -> bool {
        match self {
            Yields::Any => true,
            Yields::OneOf(types) => types.iter().any(|known| known.id == TypeId::of::<T>()),
        }
    }

    /// Whether bytes can come out, so that a pipe can go on with them.
    pub fn may_be_bytes(&self) -> bool {
        self.may_be::<Bytes>()
    }

    /// The type in words.
    pub fn name(&self) -> &'static str {
        match self {
            Yields::Any => "any type",
            Yields::OneOf(types) => types.first().map_or("nothing", |first| first.name),
        }
    }
}

/// A deserializer as a factory builds it.
pub struct Built {
    /// The part.
    pub stage: BoxDeserializer<Value>,
    /// What it yields.
    pub yields: Yields,
}

impl fmt::Debug for Built {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Built({}, {:?})", self.stage.describe(), self.yields)
    }
}

/// A serializer as a factory builds it: of values, or from bytes to bytes.
pub enum Writer {
    /// Writes a value.
    Value(BoxSerializer<Value>),
    /// Turns bytes into bytes; may stand in a pipe's `to`.
    Bytes(BoxSerializer<[u8]>),
}

/// A serializer as a factory builds it.
pub struct BuiltWriter {
    /// The part.
    pub stage: Writer,
}

impl BuiltWriter {
    /// The part as it prints.
    pub fn describe(&self) -> Tree {
        match &self.stage {
            Writer::Value(stage) => stage.describe(),
            Writer::Bytes(stage) => stage.describe(),
        }
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Writer::Value(_) => "Value",
            Writer::Bytes(_) => "Bytes",
        })
    }
}

impl fmt::Debug for BuiltWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tree = self.describe();
        write!(f, "BuiltWriter({tree})")
    }
}

impl Yields {
    /// Any of these types.
    pub fn one_of(types: impl IntoIterator<Item = TypeOf>) -> Self {
        Yields::OneOf(types.into_iter().collect())
    }
}

impl BuiltWriter {
    /// The serializer of values, whatever it was.
    pub fn into_value(self) -> BoxSerializer<Value> {
        match self.stage {
            Writer::Value(stage) => stage,
            Writer::Bytes(stage) => Box::new(EraseBytesWriter(stage)),
        }
    }
}
