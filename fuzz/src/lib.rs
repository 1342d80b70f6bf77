//! The fuzz targets, each of which has its body in `tests/support/fuzz/`.

#[path = "../../tests/support/fuzz/mod.rs"]
mod fuzz;

/// Runs a target on an input.
pub fn run(target: &str, input: &[u8]) {
    fuzz::target(target).run(input);
}
