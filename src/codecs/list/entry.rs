//! What a list needs to know about its entries.

use super::List;
use crate::codecs::primitives::{
    BooleanCodec, DoubleCodec, FloatCodec, IntegerCodec, LongCodec, ShortCodec, UuidCodec,
    VoidCodec, entry_size,
};
use crate::codecs::{BytesCodec, StringCodec};
use crate::payload::Payload;
use crate::serializer::Give;
use crate::stage::Stage;
use crate::value::Value;
use bytes::Bytes;
use std::sync::Arc;

/// Whether Kafka writes entries of this type without lengths in a list, and how many bytes each
/// has then.
pub trait EntrySize {
    /// The bytes of every entry; `None` when each is written with its length.
    fn entry_size(&self) -> Option<usize> {
        None
    }
}

macro_rules! entry_sizes {
    ($($codec:ty => $name:literal),*) => {$(
        impl EntrySize for $codec {
            fn entry_size(&self) -> Option<usize> {
                entry_size($name)
            }
        }
    )*};
}

entry_sizes!(
    ShortCodec => "short", IntegerCodec => "integer", LongCodec => "long", FloatCodec => "float",
    DoubleCodec => "double"
);

impl EntrySize for UuidCodec {
    fn entry_size(&self) -> Option<usize> {
        self.size()
    }
}

impl EntrySize for BooleanCodec {}
impl EntrySize for VoidCodec {}
impl EntrySize for BytesCodec {}
impl EntrySize for StringCodec {}
impl<C> EntrySize for List<C> {}

impl<C: EntrySize> EntrySize for Stage<C> {
    fn entry_size(&self) -> Option<usize> {
        self.get_ref().entry_size()
    }
}

impl<C: EntrySize + ?Sized> EntrySize for Arc<C> {
    fn entry_size(&self) -> Option<usize> {
        (**self).entry_size()
    }
}

/// A type that can be an entry of a list that is written.
///
/// A type of your own has `type Owned = Option<Self>` and `owned.as_ref()`.
pub trait ListEntry: Give {
    /// An entry as the list holds it, null or not.
    type Owned: Send + Sync + 'static;

    /// The entry as its serializer is given it.
    fn give(entry: &Self::Owned) -> Self::Given<'_>;
}

macro_rules! list_entries {
    ($($type:ty),*) => {$(
        impl ListEntry for $type {
            type Owned = Option<$type>;

            fn give(entry: &Self::Owned) -> Option<&$type> {
                entry.as_ref()
            }
        }
    )*};
}

list_entries!(
    i16,
    i32,
    i64,
    f32,
    f64,
    bool,
    String,
    uuid::Uuid,
    std::convert::Infallible
);

/// Lists in a list.
impl<T: Send + Sync + 'static> ListEntry for Vec<T> {
    type Owned = Option<Vec<T>>;

    fn give(entry: &Self::Owned) -> Option<&Vec<T>> {
        entry.as_ref()
    }
}

impl ListEntry for [u8] {
    type Owned = Option<Bytes>;

    fn give(entry: &Self::Owned) -> Payload<'_> {
        Payload::from(entry.as_deref())
    }
}

/// Entries whose type is known at run time only: [`Value::Null`] is a null.
impl ListEntry for Value {
    type Owned = Value;

    fn give(entry: &Value) -> Option<&Value> {
        Some(entry).filter(|entry| !matches!(entry, Value::Null))
    }
}
