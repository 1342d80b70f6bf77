//! Which names chains may use.

use super::built::Yields;
use super::configuration::Configuration;
use super::erase::Erase;
use super::keys::{ClientKeys, OwnKey};
use super::names::kebab;
use super::node::Node;
use super::section::SectionSpec;
use super::spec::{BackoffSpec, Direction, TypeSpec};
use super::wiring;
use crate::backoff::RetryObserver;
use crate::deserializer::Deserializer;
use crate::matcher::{Matcher, SharedMatcher};
use crate::properties::{Charset, Problem, Properties, Report};
use crate::record::Part;
use crate::serializer::{Give, Serializer};
use crate::value::Value;
use std::any::Any;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// The names that properties may use: types, matchers, backoffs, and keys of others.
///
/// `Registry::builtin()` knows the parts of this crate; a user's own join by name or by Java class
/// name. What is registered later wins over what has the same name.
#[derive(Clone, Default)]
pub struct Registry {
    pub(super) types: Vec<TypeSpec>,
    pub(super) backoffs: Vec<BackoffSpec>,
    pub(super) matchers: Vec<(String, SharedMatcher)>,
    pub(super) own_keys: Vec<OwnKey>,
    pub(super) sections: Vec<SectionSpec>,
    pub(super) application_prefixes: Vec<String>,
    pub(super) client: Option<Arc<dyn ClientKeys>>,
    pub(super) instances: Vec<(Part, Instance)>,
    pub(super) retry_observer: Option<Arc<dyn RetryObserver>>,
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.types.iter().map(TypeSpec::name).collect();
        f.debug_struct("Registry")
            .field("types", &names)
            .finish_non_exhaustive()
    }
}

/// A deserializer that was given, not named.
pub(super) type Instance = (Arc<dyn Deserializer<Output = Value>>, Yields);

impl Registry {
    /// A registry that knows no name.
    pub fn empty() -> Self {
        Self::default()
    }

    /// Adds a type.
    #[must_use]
    pub fn with_type(mut self, spec: TypeSpec) -> Self {
        self.types.retain(|known| known.name != spec.name);
        self.types.push(spec);
        self
    }

    /// Adds a deserializer of one's own under a kebab name or a Java class name, from which it gets
    /// its node name: `com.example.AesGcmDeserializer` is `aes-gcm`.
    ///
    /// The factory reads the keys it needs from its [`Node`] and answers `None` after reporting a
    /// mistake there.
    #[must_use]
    pub fn with_deserializer<D, T>(
        self,
        name: &str,
        factory: impl Fn(&mut Node<'_, '_>) -> Option<D> + Send + Sync + 'static,
    ) -> Self
    where
        D: Deserializer<Output = Option<T>> + 'static,
        T: Any + Send + Sync,
    {
        let spec = self
            .user_type(name, Direction::Deserializer)
            .reads(move |node| {
                let leaf = factory(node)?;
                Some(node.built(leaf))
            });
        self.with_type(spec)
    }

    /// Adds a serializer of one's own; see [`Registry::with_deserializer`].
    #[must_use]
    pub fn with_serializer<S, T>(
        self,
        name: &str,
        factory: impl Fn(&mut Node<'_, '_>) -> Option<S> + Send + Sync + 'static,
    ) -> Self
    where
        S: Serializer<Input = T> + 'static,
        T: Any + Send + Sync,
        T: for<'g> Give<Given<'g> = Option<&'g T>>,
    {
        let spec = self
            .user_type(name, Direction::Serializer)
            .writes(move |node| {
                let leaf = factory(node)?;
                Some(node.built_writer(leaf))
            });
        self.with_type(spec)
    }

    /// Adds a serializer of one's own that turns bytes into bytes, for a pipe's `to`.
    #[must_use]
    pub fn with_bytes_serializer<S>(
        self,
        name: &str,
        factory: impl Fn(&mut Node<'_, '_>) -> Option<S> + Send + Sync + 'static,
    ) -> Self
    where
        S: Serializer<Input = [u8]> + 'static,
    {
        let spec = self
            .user_type(name, Direction::Serializer)
            .writes(move |node| {
                let leaf = factory(node)?;
                Some(node.built_bytes_writer(leaf))
            });
        self.with_type(spec)
    }

    /// The type of this name, to complete by another direction, or a new one. A class whose kebab
    /// name another type has goes by its full name.
    pub(crate) fn user_type(&self, name: &str, direction: Direction) -> TypeSpec {
        let is_class_name = name.contains(['.', '$']);
        let node_name = if is_class_name {
            kebab(name)
        } else {
            name.to_owned()
        };
        let twin = |spec: &&TypeSpec| {
            let same = match is_class_name {
                true => spec.classes.iter().any(|(class, _)| is_twin(class, name)),
                false => spec.name == node_name,
            };
            spec.is_users && same && !spec.goes(direction)
        };
        if let Some(twin) = self.types.iter().find(twin) {
            return match is_class_name {
                true => twin.clone().class(name, Some(direction)),
                false => twin.clone(),
            };
        }
        if !is_class_name {
            return TypeSpec {
                is_users: true,
                ..TypeSpec::new(node_name)
            };
        }
        let again = |spec: &&TypeSpec| spec.classes.iter().any(|(class, _)| class == name);
        let taken = self.types.iter().any(|spec| spec.name == node_name);
        let own_name = match self.types.iter().find(again) {
            Some(again) if again.is_users => again.name.clone(),
            _ if taken => name.to_owned(),
            _ => node_name,
        };
        let spec = TypeSpec {
            is_users: true,
            ..TypeSpec::new(own_name)
        };
        spec.class(name, Some(direction))
    }

    /// Reads keys or values with this very deserializer. It wins over the properties of that role,
    /// which are left out with a warning.
    #[must_use]
    pub fn with_instance<D, T>(mut self, part: Part, deserializer: D) -> Self
    where
        D: Deserializer<Output = Option<T>> + 'static,
        T: Any + Send + Sync,
    {
        self.instances.retain(|(known, _)| *known != part);
        self.instances
            .push((part, (Arc::new(Erase(deserializer)), Yields::of::<T>())));
        self
    }

    /// Lets another class name stand for a type, such as a team's own decryption class for
    /// `aes-gcm`.
    ///
    /// # Panics
    /// Never; an alias of a type that is not registered is ignored by lookups, which then name the
    /// known types.
    #[must_use]
    pub fn with_alias(mut self, class: &str, type_name: &str) -> Self {
        if let Some(spec) = self.types.iter_mut().find(|spec| spec.name == type_name) {
            spec.classes.push((class.to_owned(), None));
        }
        self
    }

    /// Adds a matcher under a name or a Java class name.
    #[must_use]
    pub fn with_matcher(mut self, name: &str, matcher: impl Matcher + 'static) -> Self {
        self.matchers.retain(|(known, _)| known != name);
        self.matchers
            .push((name.to_owned(), SharedMatcher::new(matcher)));
        self
    }

    /// Adds a backoff.
    #[must_use]
    pub fn with_backoff(mut self, spec: BackoffSpec) -> Self {
        self.backoffs.retain(|known| known.name != spec.name);
        self.backoffs.push(spec);
        self
    }

    /// Adds a key that is neither a chain's nor the client's, such as the pipeline's.
    #[must_use]
    pub fn with_own_key(mut self, key: OwnKey) -> Self {
        self.own_keys.push(key);
        self
    }

    /// Declares that keys with this prefix are the application's own business.
    #[must_use]
    pub fn with_application_prefix(mut self, prefix: &str) -> Self {
        self.application_prefixes.push(prefix.to_owned());
        self
    }

    /// Says which keys the Kafka client knows; without, every other key is taken for the client's.
    #[must_use]
    pub fn with_client_keys(mut self, client: impl ClientKeys + 'static) -> Self {
        self.client = Some(Arc::new(client));
        self
    }

    /// Tells `observer` of every retry in chains that are built from now on.
    #[must_use]
    pub fn with_retry_observer(mut self, observer: impl RetryObserver + 'static) -> Self {
        self.retry_observer = Some(Arc::new(observer));
        self
    }

    /// Builds all chains of `properties` and checks every key.
    ///
    /// Placeholders are resolved before, by [`Properties::resolve`].
    ///
    /// # Errors
    /// All mistakes in one go, each with file, line, key and reason.
    pub fn configure(&self, properties: &Properties) -> Result<Configuration, Report> {
        wiring::configure(self, properties)
    }

    /// Reads a properties file, resolves its placeholders, builds all chains and checks every key.
    ///
    /// # Errors
    /// All mistakes in one go: of syntax, placeholders, chains and keys.
    pub fn load(&self, path: impl AsRef<Path>) -> Result<Configuration, Report> {
        let (properties, mut syntax) = Properties::read_file(path.as_ref(), Charset::Utf8)?;
        let configured = self.resolve_and_configure(properties);
        if syntax.is_empty() {
            return configured;
        }
        if let Err(others) = configured {
            let lines: Vec<_> = syntax
                .iter()
                .filter_map(|known| known.origin.clone())
                .collect();
            // What is said of an entry that could not be read would only confuse.
            let about_others = |problem: &&Problem| {
                problem
                    .origin
                    .as_ref()
                    .is_none_or(|origin| !lines.contains(origin))
            };
            syntax.extend(others.iter().filter(about_others).cloned());
        }
        Err(syntax)
    }

    /// [`configure`](Self::configure) after resolving placeholders; the mistakes of both in one report.
    ///
    /// # Errors
    /// All mistakes in one go.
    pub fn resolve_and_configure(&self, properties: Properties) -> Result<Configuration, Report> {
        let mut unresolved = match properties.clone().resolve() {
            Ok(resolved) => return self.configure(&resolved),
            Err(report) => report,
        };
        if let Err(others) = self.configure(&properties) {
            let keys: Vec<_> = unresolved
                .iter()
                .filter_map(|known| known.key.clone())
                .collect();
            // What is said of a value that could not be resolved would only confuse.
            let is_about = |key: &str, unresolved: &String| {
                let rest = key.strip_prefix(unresolved.as_str());
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            };
            let about_others = |problem: &&Problem| {
                let key = problem.key.as_deref();
                key.is_none_or(|key| !keys.iter().any(|unresolved| is_about(key, unresolved)))
            };
            unresolved.extend(others.iter().filter(about_others).cloned());
        }
        Err(unresolved)
    }

    /// The types, as the documentation lists them.
    pub fn types(&self) -> &[TypeSpec] {
        &self.types
    }

    /// The backoffs, as the documentation lists them.
    pub fn backoffs(&self) -> &[BackoffSpec] {
        &self.backoffs
    }

    /// The keys that are neither a chain's nor the client's.
    pub fn own_keys(&self) -> &[OwnKey] {
        &self.own_keys
    }
}

/// Whether two classes are the two directions of one type: alike but for their ending.
fn is_twin(one: &str, other: &str) -> bool {
    let stem = |class: &str| {
        let stem = class
            .strip_suffix("Deserializer")
            .or_else(|| class.strip_suffix("Serializer"));
        stem.map(str::to_owned)
    };
    one != other && stem(one).is_some() && stem(one) == stem(other)
}
