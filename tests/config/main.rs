//! Chains from properties: KIP-873's keys, the one-line form, mistakes, explain.

mod custom;
#[cfg(feature = "cloudevents")]
mod kip873;
mod mistakes;
mod nesting;
mod support;
