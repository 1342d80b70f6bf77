//! Codecs: one format a file, both directions in it.
//!
//! The codecs of Kafka's own types write what Java's serializers write and read what they read,
//! byte for byte. Null gives null in both directions, and empty is not null. None of them waits,
//! quotes a payload in an error, or allocates more than a small multiple of what it was given.

pub mod bytes;
mod charset;
#[cfg(feature = "cloudevents")]
pub mod cloudevents;
#[cfg(feature = "encryption")]
pub mod encryption;
pub mod json;
#[cfg(feature = "encryption")]
mod key_cache;
#[cfg(feature = "encryption")]
mod key_file;
#[cfg(feature = "encryption")]
mod keys;
pub mod list;
pub mod primitives;
pub mod string;

pub use self::bytes::{BytesCodec, bytes};
pub use self::list::{EntrySize, List, ListEntry, list};
pub use self::primitives::{
    BooleanCodec, DoubleCodec, FloatCodec, IntegerCodec, LongCodec, ShortCodec, UuidCodec,
    VoidCodec, boolean, double, entry_size, float, integer, long, short, uuid, void,
};
pub use self::string::{StringCodec, string};
