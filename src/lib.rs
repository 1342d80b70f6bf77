//! kafka-chain.

pub mod properties;
