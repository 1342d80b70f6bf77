//! Which topics a pipeline reads and needs: pure, and on an embedded broker.
#![cfg(feature = "kafka")]

mod fitting;
mod starting;
mod subscribing;
