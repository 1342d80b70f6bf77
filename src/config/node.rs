//! What a factory sees of the configuration: its own node, and only its own keys.

use super::built::{Built, BuiltWriter};
use super::explain::{NodeInfo, Setting, Source};
use super::names::{is_class, nearest, simple_class};
use super::scope::Scope;
use super::spec::{Direction, KeySpec, TypeSpec};
use super::wiring::Wiring;
use crate::backoff::{RetryObserver, SharedBackoff};
use crate::matcher::{self, Matcher, SharedMatcher};
use crate::properties::{Origin, Problem, Property, REDACTED};
use crate::record::Part;
use crate::tree::Tree;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// The longest time a key in milliseconds may say: a hundred years.
pub(crate) const MAX_MILLIS: u64 = 100 * 366 * 24 * 60 * 60 * 1000;

/// One part of a chain that is being built.
///
/// Getters answer `None` after reporting what is wrong, and `Some(None)` for a key that is absent
/// and has no default. To report all mistakes at once, a factory calls all its getters before it
/// gives up on one.
#[derive(Debug)]
pub struct Node<'w, 'a> {
    pub(super) wiring: &'w mut Wiring<'a>,
    pub(super) spec: TypeSpec,
    pub(super) tree: Tree,
    pub(super) origin: Origin,
    pub(super) depth: usize,
    pub(super) info: NodeInfo,
    /// Its keys stand without a prefix.
    pub(super) is_section: bool,
}

impl<'a> Node<'_, 'a> {
    /// The half of the record that the chain reads or writes.
    pub fn role(&self) -> Part {
        self.wiring.part
    }

    /// Which way the chain goes.
    pub fn direction(&self) -> Direction {
        self.wiring.direction
    }

    /// What the part is called in stage paths and keys: its label, else its type's name.
    pub fn name(&self) -> &str {
        self.info.label.as_deref().unwrap_or(&self.spec.name)
    }

    /// The label a user gave the part.
    pub fn label(&self) -> Option<&str> {
        self.info.label.as_deref()
    }

    fn key_spec(&self, key: &str) -> Option<&'static KeySpec> {
        self.spec.keys.iter().find(|spec| spec.name == key)
    }

    /// Every spelling of a key of this node, the one that counts most first.
    fn spellings(&self, key: &str, spec: Option<&KeySpec>) -> Vec<String> {
        if self.is_section {
            return vec![key.to_owned()];
        }
        let (role, direction) = (self.wiring.part.as_str(), self.wiring.direction.as_str());
        let mut keys = vec![format!("{role}.{direction}.{}.{key}", self.name())];
        if self.info.label.is_none() {
            let flat = self.spec.flat_name();
            keys.push(format!("{role}.{flat}.{direction}.{key}"));
            keys.push(format!("{flat}.{direction}.{key}"));
            let kafka = spec.map_or(&[][..], |spec| spec.kafka);
            keys.extend(kafka.iter().map(|template| fill(template, role, direction)));
        }
        keys
    }

    pub(super) fn find(&mut self, key: &str, spec: Option<&KeySpec>) -> Option<&'a Property> {
        let properties = self.wiring.properties;
        let found = self
            .spellings(key, spec)
            .iter()
            .find_map(|key| properties.get(key))?;
        self.wiring.used.insert(found.key.clone());
        Some(found)
    }

    /// Reports a mistake in the value of `key`; where the key is absent, at the part itself.
    pub fn problem(&mut self, key: &str, message: impl Into<String>) {
        let spec = self.key_spec(key);
        let problem = Problem::new(message);
        let problem = match self.find(key, spec) {
            Some(property) => problem.key(&property.key).at(&property.origin),
            None => {
                let spelling = self
                    .spellings(key, spec)
                    .pop()
                    .unwrap_or_else(|| key.to_owned());
                problem.key(spelling).at(&self.origin)
            }
        };
        self.wiring.report.push(problem);
    }

    fn note(&mut self, key: &str, value: impl Into<String>, source: Source) {
        let setting = Setting {
            key: key.to_owned(),
            value: value.into(),
            source,
        };
        self.info.settings.push(setting);
    }

    /// Shows the last value under the name it goes by, whatever class named it.
    fn renote(&mut self, value: String) {
        if let Some(setting) = self.info.settings.last_mut() {
            setting.value = value;
        }
    }

    pub(super) fn read(
        &mut self,
        key: &str,
        spec: Option<&'static KeySpec>,
    ) -> Option<(String, bool)> {
        if let Some(property) = self.find(key, spec) {
            let source = Source::Origin(property.origin.clone());
            self.note(key, property.shown(), source);
            return Some((property.value.trim().to_owned(), property.secret));
        }
        let default = spec.and_then(|spec| spec.default)?;
        self.note(key, default, Source::Default);
        Some((default.to_owned(), false))
    }

    pub(super) fn parse_with<T: FromStr>(
        &mut self,
        key: &str,
        spec: Option<&'static KeySpec>,
        what: &str,
        valid: impl Fn(&T) -> bool,
    ) -> Option<Option<T>> {
        let Some((text, secret)) = self.read(key, spec) else {
            return Some(None);
        };
        match text.parse::<T>() {
            Ok(value) if valid(&value) => Some(Some(value)),
            _ if secret => {
                self.problem(key, format!("the value must be {what}"));
                None
            }
            _ => {
                self.problem(key, format!("`{text}` is not {what}"));
                None
            }
        }
    }

    /// The value of a key, trimmed as Kafka does.
    pub fn text(&mut self, key: &str) -> Option<String> {
        let spec = self.key_spec(key);
        self.read(key, spec).map(|(text, _)| text)
    }

    /// Whether the key was set, not defaulted.
    pub fn is_set(&mut self, key: &str) -> bool {
        let spec = self.key_spec(key);
        self.find(key, spec).is_some()
    }

    /// The value of a key as a `T` for which `valid` holds; `what` says in words what it must be.
    pub fn parse<T: FromStr>(
        &mut self,
        key: &str,
        what: &str,
        valid: impl Fn(&T) -> bool,
    ) -> Option<Option<T>> {
        let spec = self.key_spec(key);
        self.parse_with(key, spec, what, valid)
    }

    /// The value of a key in milliseconds.
    pub fn millis(&mut self, key: &str) -> Option<Option<Duration>> {
        let what = "a number of milliseconds above 0";
        let millis = self.parse::<u64>(key, what, |millis| (1..=MAX_MILLIS).contains(millis))?;
        Some(millis.map(Duration::from_millis))
    }

    /// The matcher that `key` names.
    pub fn matcher(&mut self, key: &str) -> Option<Option<SharedMatcher>> {
        let Some(text) = self.text(key) else {
            return Some(None);
        };
        let registry = self.wiring.registry;
        let named = |tree: &Tree| {
            let is_named = |(name, _): &&(String, SharedMatcher)| is_class(&tree.name, name);
            let found: Vec<_> = registry.matchers.iter().filter(is_named).collect();
            match found.as_slice() {
                [] => None,
                [_] if !tree.delegates.is_empty() => None,
                [(_, matcher)] => Some(Ok(matcher.clone())),
                several => {
                    let names: Vec<_> = several.iter().map(|(name, _)| name.as_str()).collect();
                    let names = names.join(" or ");
                    Some(Err(format!(
                        "`{}` may be {names}: write the full name",
                        tree.name
                    )))
                }
            }
        };
        let names: Vec<_> = registry
            .matchers
            .iter()
            .map(|(name, _)| simple_class(name))
            .collect();
        let parsed = text.parse::<Tree>().map_err(|error| error.to_string());
        match parsed.and_then(|tree| matcher::from_tree(&tree, &named, &names)) {
            Ok(matcher) => {
                self.renote(matcher.describe().to_string());
                Some(Some(matcher))
            }
            Err(message) => {
                self.problem(key, message);
                None
            }
        }
    }

    /// The backoff that `key` names, with its parameters.
    pub fn backoff(&mut self, key: &str) -> Option<Option<SharedBackoff>> {
        let Some(text) = self.text(key) else {
            return Some(None);
        };
        let registry = self.wiring.registry;
        let found = registry.backoffs.iter().find(|spec| {
            spec.name == text || spec.classes.iter().any(|class| is_class(&text, class))
        });
        let Some(spec) = found else {
            let names: Vec<_> = registry
                .backoffs
                .iter()
                .map(|spec| spec.name.as_str())
                .collect();
            let near = nearest(&text, names.iter().copied());
            let mut message = format!(
                "there is no backoff `{text}`; there are {}",
                names.join(", ")
            );
            if let Some(near) = near {
                message.push_str(&format!("; did you mean `{near}`?"));
            }
            self.problem(key, message);
            return None;
        };
        self.renote(spec.name.clone());
        let prefix = format!("{key}.{}.", spec.name);
        (spec.build.clone())(&mut Scope::new(self, prefix, spec.keys)).map(Some)
    }

    /// Says how long this part may wait at the most before it gives up, for the lint.
    pub fn longest_wait(&mut self, wait: Option<Duration>) {
        self.info.longest_wait = wait;
    }

    /// Who is told of retries.
    pub fn retry_observer(&self) -> Option<Arc<dyn RetryObserver>> {
        self.wiring.registry.retry_observer.clone()
    }

    /// The delegate that the expression or `key` names, built as a deserializer.
    pub fn delegate(&mut self, key: &str) -> Option<Built> {
        self.child(key, |spec, node| (spec.read.clone()?)(node))
    }

    /// The delegate that the expression or `key` names, built as a serializer.
    pub fn delegate_writer(&mut self, key: &str) -> Option<BuiltWriter> {
        self.child(key, |spec, node| (spec.write.clone()?)(node))
    }

    fn child<B>(
        &mut self,
        key: &str,
        build: fn(&TypeSpec, &mut Node<'_, 'a>) -> Option<B>,
    ) -> Option<B> {
        let (tree, origin, named_by) = self.child_tree(key)?;
        let (built, info) = self
            .wiring
            .node(&tree, &origin, &named_by, self.depth + 1, build)?;
        self.info.delegates.push(info);
        Some(built)
    }

    fn child_tree(&mut self, key: &str) -> Option<(Tree, Origin, String)> {
        let index = self.spec.parts().position(|part| part.name == key)?;
        let spec = self.key_spec(key);
        let spellings = self.spellings(key, spec);
        if let Some(tree) = self.tree.delegates.get(index).cloned() {
            let properties = self.wiring.properties;
            let is_secret = |known: &Property| known.secret && known.origin == self.origin;
            let shown = match properties.iter().any(is_secret) {
                true => REDACTED.to_owned(),
                false => tree.to_string(),
            };
            let flat = format!("{}.", self.spec.flat_name());
            let twice = spellings.iter().filter(|key| !key.starts_with(&flat));
            if let Some(property) = twice.filter_map(|key| properties.get(key)).next() {
                self.wiring.used.insert(property.key.clone());
                self.wiring.report.push(
                    Problem::new(format!(
                        "the {key} of `{}` is `{}` already, in the expression at {}",
                        self.name(),
                        shown,
                        self.origin
                    ))
                    .key(&property.key)
                    .at(&property.origin),
                );
                return None;
            }
            let named_by = self.wiring.role();
            return Some((tree, self.origin.clone(), named_by));
        }
        let Some(property) = self.find(key, spec) else {
            let written: Vec<_> = spellings.iter().map(|key| format!("`{key}`")).collect();
            let problem = Problem::new(format!(
                "`{}` has no {key}: name it in the expression or by {}",
                self.name(),
                written.join(" or ")
            ));
            let problem = problem.key(self.wiring.role()).at(&self.origin);
            self.wiring.missing(problem, spellings);
            return None;
        };
        match property.value.trim().parse::<Tree>() {
            Ok(tree) => Some((tree, property.origin.clone(), property.key.clone())),
            Err(error) => {
                let problem = Problem::new(error.to_string());
                self.wiring
                    .report
                    .push(problem.key(&property.key).at(&property.origin));
                None
            }
        }
    }

    /// Reports that a delegate yields something else than this part can go on with.
    pub fn wrong_delegate(&mut self, key: &str, message: impl Into<String>) {
        let message = message.into();
        let by_expression = self
            .spec
            .parts()
            .position(|part| part.name == key)
            .is_some_and(|index| index < self.tree.delegates.len());
        if by_expression {
            let problem = Problem::new(message)
                .key(self.wiring.role())
                .at(&self.origin);
            self.wiring.report.push(problem);
        } else {
            self.problem(key, message);
        }
    }
}

pub(crate) fn fill(template: &str, role: &str, direction: &str) -> String {
    template
        .replace("{role}", role)
        .replace("{direction}", direction)
}
