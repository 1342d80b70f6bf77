//! Writing dead letters, and what handlers produce: through one producer, which is replaced while the
//! pipeline runs when a topic or a right was missing.

mod client;
mod fleet;
mod ladder;
mod line;
mod producer;
mod settings;
mod writer;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;

pub use producer::PipelineProducer;
pub(super) use producer::is_refused;
pub use settings::{DeadLetterSettings, letter_producer_settings};
pub use writer::DeadLetterWriter;
