//! kafka-chain.
