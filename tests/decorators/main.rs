//! What the decorators promise, told as stories: exception handling, retry, pipe, and the stage
//! around each leaf.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed test is what a failed unwrap means"
)]

mod exception_handling;
mod paths;
mod pipe;
mod pipe_serializer;
mod retry;
mod retry_limits;
mod retry_model;
mod secrets;
mod stage;
mod support;
