//! The bytes in hand and where they come from.

use crate::headers::{HeaderView, Size};
use crate::record::{Part, Record};
use bytes::Bytes;
use std::fmt;

/// Where a payload comes from: the record and which half of it. Decorators never alter it.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The record as consumed.
    pub record: &'a Record<'a>,
    /// The half the chain is reading.
    pub part: Part,
}

impl<'a> Context<'a> {
    /// The record's headers.
    pub fn headers(&self) -> HeaderView<'a> {
        self.record.headers
    }

    /// The raw payload of this half, as the first stage of a chain gets it.
    pub fn payload(&self) -> Payload<'a> {
        Payload::from(self.record.part(self.part))
    }
}

/// The bytes in hand. Cloning is free, or a reference count.
#[derive(Clone, Default)]
pub enum Payload<'a> {
    /// No bytes: a null key, a tombstone. Not the same as empty.
    #[default]
    Null,
    /// Bytes that live in the record.
    Borrowed(&'a [u8]),
    /// Bytes that a stage made.
    Shared(Bytes),
}

impl<'a> Payload<'a> {
    /// The bytes, or `None` for null.
    #[inline]
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Payload::Null => None,
            Payload::Borrowed(bytes) => Some(bytes),
            Payload::Shared(bytes) => Some(bytes),
        }
    }

    /// Owned bytes, or `None` for null; copies only borrowed ones.
    pub fn into_bytes(self) -> Option<Bytes> {
        match self {
            Payload::Null => None,
            Payload::Borrowed(bytes) => Some(Bytes::copy_from_slice(bytes)),
            Payload::Shared(bytes) => Some(bytes),
        }
    }

    /// Whether there are no bytes at all.
    #[inline]
    pub fn is_null(&self) -> bool {
        matches!(self, Payload::Null)
    }
}

impl<'a> From<Option<&'a [u8]>> for Payload<'a> {
    #[inline]
    fn from(bytes: Option<&'a [u8]>) -> Self {
        bytes.map_or(Payload::Null, Payload::Borrowed)
    }
}

impl<'a> From<&'a [u8]> for Payload<'a> {
    #[inline]
    fn from(bytes: &'a [u8]) -> Self {
        Payload::Borrowed(bytes)
    }
}

impl From<Bytes> for Payload<'_> {
    #[inline]
    fn from(bytes: Bytes) -> Self {
        Payload::Shared(bytes)
    }
}

impl From<Option<Bytes>> for Payload<'_> {
    #[inline]
    fn from(bytes: Option<Bytes>) -> Self {
        bytes.map_or(Payload::Null, Payload::Shared)
    }
}

impl fmt::Debug for Payload<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({:?})", Size(self.as_bytes().map(<[u8]>::len)))
    }
}
