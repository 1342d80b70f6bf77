//! From properties to chains: names to factories, keys to parts, and what a person needs to see.
//!
//! This floor knows contracts and no part: each part brings its [`TypeSpec`], and the roof
//! (`builtin.rs`) lists them.

mod built;
mod chain;
mod configuration;
mod erase;
mod explain;
mod instance;
mod keys;
mod leaf;
mod lookup;
mod names;
mod node;
mod registry;
mod scope;
mod section;
mod sort;
mod spec;
mod wiring;

pub use built::{Built, BuiltWriter, TypeOf, Writer, Yields};
pub use chain::{Chain, SerializerChain};
pub use configuration::{Configuration, RoleChain};
pub use erase::{Erase, EraseBytesWriter, EraseWriter};
pub use explain::{Lint, LintView, NodeInfo, Setting, Source};
pub use keys::{ClientKey, ClientKeys, OwnKey};
pub(crate) use node::MAX_MILLIS;
pub use node::Node;
pub use registry::Registry;
pub use scope::Scope;
pub use section::SectionSpec;
pub use spec::{BackoffSpec, Direction, KeySpec, TypeSpec};
