//! Chains from properties: KIP-873's keys, the one-line form, mistakes, explain.

mod beside;
mod custom;
#[cfg(feature = "cloudevents")]
mod kip873;
mod mistakes;
mod nesting;

mod support;
