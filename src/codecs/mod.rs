//! The formats: what turns the bytes of a record into a value and back.

#[cfg(feature = "cloudevents")]
pub mod cloudevents;
