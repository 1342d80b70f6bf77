//! What a part says about itself: its names, its keys, how it is built, and its lint.

use super::built::{Built, BuiltWriter};
use super::explain::{LintView, NodeInfo};
use super::node::Node;
use super::scope::Scope;
use crate::backoff::SharedBackoff;
use std::fmt;
use std::sync::Arc;

/// Which way a chain goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// From bytes to a value.
    Deserializer,
    /// From a value to bytes.
    Serializer,
}

impl Direction {
    /// `deserializer` or `serializer`, as it stands in keys.
    pub const fn as_str(self) -> &'static str {
        match self {
            Direction::Deserializer => "deserializer",
            Direction::Serializer => "serializer",
        }
    }

    /// The other way.
    pub const fn other(self) -> Self {
        match self {
            Direction::Deserializer => Direction::Serializer,
            Direction::Serializer => Direction::Deserializer,
        }
    }
}

/// A key that a part reads, for checking, for `explain` and for the documentation.
#[derive(Clone, Copy, Debug)]
pub struct KeySpec {
    /// The key below the part's prefix, such as `backoff` or `key.file`.
    pub name: &'static str,
    /// What the value is, in words: `part`, `milliseconds`, `text`.
    pub kind: &'static str,
    /// The value when the key is absent; `None` when it is required or simply off.
    pub default: Option<&'static str>,
    /// What it does.
    pub doc: &'static str,
    /// Keys of Kafka's own that are read when no other spelling is there, with `{role}` for `key`
    /// or `value` and `{direction}` for `deserializer` or `serializer`.
    pub kafka: &'static [&'static str],
}

impl KeySpec {
    /// The kind of a key that names a delegate.
    pub const PART: &'static str = "part";

    /// The kind of a key that names a backoff, whose parameters stand below it.
    pub const BACKOFF: &'static str = "backoff";

    /// A key that names a delegate.
    pub const fn part(name: &'static str, doc: &'static str) -> Self {
        KeySpec::new(name, KeySpec::PART, doc)
    }

    /// A key without default.
    pub const fn new(name: &'static str, kind: &'static str, doc: &'static str) -> Self {
        KeySpec {
            name,
            kind,
            default: None,
            doc,
            kafka: &[],
        }
    }

    /// The same key with a default.
    #[must_use]
    pub const fn or(mut self, default: &'static str) -> Self {
        self.default = Some(default);
        self
    }

    /// The same key, read from Kafka's own keys too.
    #[must_use]
    pub const fn kafka(mut self, keys: &'static [&'static str]) -> Self {
        self.kafka = keys;
        self
    }

    /// Whether the key names a delegate.
    pub fn is_part(&self) -> bool {
        self.kind == KeySpec::PART
    }
}

pub(crate) type ReadFactory = Arc<dyn Fn(&mut Node<'_, '_>) -> Option<Built> + Send + Sync>;
pub(crate) type WriteFactory = Arc<dyn Fn(&mut Node<'_, '_>) -> Option<BuiltWriter> + Send + Sync>;

/// A type that chains can name. A factory that answers `None` has reported why on its [`Node`].
#[derive(Clone)]
pub struct TypeSpec {
    pub(crate) name: String,
    pub(crate) classes: Vec<(String, Option<Direction>)>,
    pub(crate) doc: &'static str,
    pub(crate) keys: &'static [KeySpec],
    pub(crate) read: Option<ReadFactory>,
    pub(crate) write: Option<WriteFactory>,
    pub(crate) lint: Option<fn(&NodeInfo, &LintView<'_>) -> Vec<String>>,
    /// Registered by an application: its other direction may join later.
    pub(crate) is_users: bool,
}

impl TypeSpec {
    /// A type under its kebab name, such as `exception-handling`.
    pub fn new(name: impl Into<String>) -> Self {
        TypeSpec {
            name: name.into(),
            classes: Vec::new(),
            doc: "",
            keys: &[],
            read: None,
            write: None,
            lint: None,
            is_users: false,
        }
    }

    /// What it does, in a line.
    #[must_use]
    pub fn doc(mut self, doc: &'static str) -> Self {
        self.doc = doc;
        self
    }

    /// Java classes by their stem: `…serialization.Retry` stands for `RetryDeserializer` and
    /// `RetrySerializer`.
    #[must_use]
    pub fn class_stem(mut self, stem: &str) -> Self {
        self.classes
            .push((format!("{stem}Deserializer"), Some(Direction::Deserializer)));
        self.classes
            .push((format!("{stem}Serializer"), Some(Direction::Serializer)));
        self
    }

    /// One more class name, for one direction or for both.
    #[must_use]
    pub fn class(mut self, name: impl Into<String>, direction: Option<Direction>) -> Self {
        self.classes.push((name.into(), direction));
        self
    }

    /// The keys it reads. Those of kind [`KeySpec::PART`] are its delegates, in the order of the
    /// one-line form.
    #[must_use]
    pub fn keys(mut self, keys: &'static [KeySpec]) -> Self {
        self.keys = keys;
        self
    }

    /// How its deserializer is built.
    #[must_use]
    pub fn reads(
        mut self,
        factory: impl Fn(&mut Node<'_, '_>) -> Option<Built> + Send + Sync + 'static,
    ) -> Self {
        self.read = Some(Arc::new(factory));
        self
    }

    /// How its serializer is built.
    #[must_use]
    pub fn writes(
        mut self,
        factory: impl Fn(&mut Node<'_, '_>) -> Option<BuiltWriter> + Send + Sync + 'static,
    ) -> Self {
        self.write = Some(Arc::new(factory));
        self
    }

    /// What `explain` warns of.
    #[must_use]
    pub fn lints(mut self, lint: fn(&NodeInfo, &LintView<'_>) -> Vec<String>) -> Self {
        self.lint = Some(lint);
        self
    }

    /// Its kebab name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it does.
    pub fn summary(&self) -> &'static str {
        self.doc
    }

    /// The keys it reads.
    pub fn key_specs(&self) -> &'static [KeySpec] {
        self.keys
    }

    /// The Java class names that name it.
    pub fn class_names(&self) -> impl Iterator<Item = &str> {
        self.classes.iter().map(|(name, _)| name.as_str())
    }

    /// Whether it can be built in this direction.
    pub fn goes(&self, direction: Direction) -> bool {
        match direction {
            Direction::Deserializer => self.read.is_some(),
            Direction::Serializer => self.write.is_some(),
        }
    }

    /// The name as it stands in flat keys: `exception.handling` of `exception-handling`.
    pub(crate) fn flat_name(&self) -> String {
        self.name.replace('-', ".")
    }

    pub(crate) fn parts(&self) -> impl Iterator<Item = &'static KeySpec> {
        self.keys.iter().filter(|key| key.is_part())
    }
}

impl fmt::Debug for TypeSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TypeSpec({})", self.name)
    }
}

type BackoffFactory = Arc<dyn Fn(&mut Scope<'_, '_, '_>) -> Option<SharedBackoff> + Send + Sync>;

/// A backoff that properties can name.
#[derive(Clone)]
pub struct BackoffSpec {
    pub(crate) name: String,
    pub(crate) classes: Vec<String>,
    pub(crate) doc: &'static str,
    pub(crate) keys: &'static [KeySpec],
    pub(crate) build: BackoffFactory,
}

impl BackoffSpec {
    /// A backoff under its name; its parameters stand below `backoff.<name>.`.
    pub fn new(
        name: impl Into<String>,
        build: impl Fn(&mut Scope<'_, '_, '_>) -> Option<SharedBackoff> + Send + Sync + 'static,
    ) -> Self {
        let build = Arc::new(build);
        BackoffSpec {
            name: name.into(),
            classes: Vec::new(),
            doc: "",
            keys: &[],
            build,
        }
    }

    /// A Java class that names it.
    #[must_use]
    pub fn class(mut self, name: &str) -> Self {
        self.classes.push(name.to_owned());
        self
    }

    /// What it does, in a line.
    #[must_use]
    pub fn doc(mut self, doc: &'static str) -> Self {
        self.doc = doc;
        self
    }

    /// The parameters it reads.
    #[must_use]
    pub fn keys(mut self, keys: &'static [KeySpec]) -> Self {
        self.keys = keys;
        self
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it does.
    pub fn summary(&self) -> &'static str {
        self.doc
    }

    /// The parameters it reads.
    pub fn key_specs(&self) -> &'static [KeySpec] {
        self.keys
    }
}

impl fmt::Debug for BackoffSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BackoffSpec({})", self.name)
    }
}
