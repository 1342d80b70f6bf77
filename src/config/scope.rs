//! What a backoff's factory sees of the configuration: its parameters.

use super::node::Node;
use super::spec::KeySpec;
use std::str::FromStr;

/// The parameters of a backoff: the keys below `backoff.<name>.` of its node.
#[derive(Debug)]
pub struct Scope<'n, 'w, 'a> {
    node: &'n mut Node<'w, 'a>,
    prefix: String,
    keys: &'static [KeySpec],
}

impl<'n, 'w, 'a> Scope<'n, 'w, 'a> {
    pub(super) fn new(
        node: &'n mut Node<'w, 'a>,
        prefix: String,
        keys: &'static [KeySpec],
    ) -> Self {
        Scope { node, prefix, keys }
    }

    fn spec(&self, key: &str) -> Option<&'static KeySpec> {
        self.keys.iter().find(|spec| spec.name == key)
    }

    fn full(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }

    /// Whether the key was set, not defaulted.
    pub fn is_set(&mut self, key: &str) -> bool {
        let (full, spec) = (self.full(key), self.spec(key));
        self.node.find(&full, spec).is_some()
    }

    /// The value of a parameter, trimmed.
    pub fn text(&mut self, key: &str) -> Option<String> {
        let (full, spec) = (self.full(key), self.spec(key));
        self.node.read(&full, spec).map(|(text, _)| text)
    }

    /// The value of a parameter as a `T` for which `valid` holds; see [`Node::parse`].
    pub fn parse<T: FromStr>(
        &mut self,
        key: &str,
        what: &str,
        valid: impl Fn(&T) -> bool,
    ) -> Option<Option<T>> {
        let (full, spec) = (self.full(key), self.spec(key));
        self.node.parse_with(&full, spec, what, valid)
    }

    /// Reports a mistake in a parameter.
    pub fn problem(&mut self, key: &str, message: impl Into<String>) {
        let full = self.full(key);
        self.node.problem(&full, message);
    }
}
