//! From properties to chains: names to factories, keys to parts, and what a person needs to see.
//!
//! This floor knows contracts and no part: each part brings its [`TypeSpec`], and the roof
//! (`builtin.rs`) lists them.

mod chain;
mod erase;
mod explain;
mod keys;
mod names;
mod node;
mod registry;
mod spec;
mod wiring;

pub use chain::{Chain, SerializerChain};
pub use erase::{Erase, EraseBytesWriter, EraseWriter};
pub use explain::{Lint, LintView, NodeInfo, Setting, Source};
pub use keys::{ClientKey, ClientKeys, OwnKey};
pub use node::{Node, Scope};
pub use registry::Registry;
pub use spec::{
    BackoffSpec, Built, BuiltWriter, Direction, KeySpec, TypeOf, TypeSpec, Writer, Yields,
};
pub use wiring::{Configuration, RoleChain};
