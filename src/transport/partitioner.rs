//! The partition of a key, as the Java client chooses it.

use crate::answer::BoxFuture;
use crate::error::Result;
use std::sync::Arc;

/// Knows how many partitions topics have.
pub trait Partitions: Send + Sync {
    /// How many partitions `topic` has; `None` when it does not exist.
    ///
    /// # Errors
    /// Temporary when nobody answers.
    fn partitions<'a>(&'a self, topic: &'a str) -> BoxFuture<'a, Result<Option<i32>>>;
}

impl<P: Partitions + ?Sized> Partitions for Arc<P> {
    fn partitions<'a>(&'a self, topic: &'a str) -> BoxFuture<'a, Result<Option<i32>>> {
        (**self).partitions(topic)
    }
}

/// The partition of `key` among `partitions` (read as at least 1): the Java client's, and
/// librdkafka's with `partitioner=murmur2_random`.
pub fn partition_of(key: &[u8], partitions: i32) -> i32 {
    let positive = murmur2(key) & 0x7fff_ffff;
    let partition = positive % partitions.max(1).unsigned_abs();
    i32::try_from(partition).unwrap_or(0)
}

/// MurmurHash2 in 32 bits with the seed of Kafka's clients.
fn murmur2(key: &[u8]) -> u32 {
    const MIX: u32 = 0x5bd1_e995;
    let mut hash = 0x9747_b28c_u32 ^ (key.len() as u32);
    let (words, rest) = key.as_chunks::<4>();
    for word in words {
        let mut word = u32::from_le_bytes(*word).wrapping_mul(MIX);
        word ^= word >> 24;
        hash = hash.wrapping_mul(MIX) ^ word.wrapping_mul(MIX);
    }
    for (place, byte) in rest.iter().enumerate().rev() {
        hash ^= u32::from(*byte) << (8 * place);
    }
    if !rest.is_empty() {
        hash = hash.wrapping_mul(MIX);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(MIX);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values of the Java client's own tests.
    #[test]
    fn the_hash_is_the_java_clients() {
        for (key, hash) in [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            (
                "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8",
                -58_897_971,
            ),
            ("abc", 479_470_107),
        ] {
            assert_eq!(murmur2(key.as_bytes()).cast_signed(), hash, "{key}");
        }
    }

    #[test]
    fn every_key_has_a_partition_that_exists() {
        for n in 0..1_000_u32 {
            let key = n.to_be_bytes();
            let key = key.get(..n as usize % 5).unwrap();
            assert!((0..7).contains(&partition_of(key, 7)));
            assert_eq!(partition_of(key, 1), 0);
            assert_eq!(partition_of(key, 0), 0);
        }
    }
}
