//! Builds all chains of a configuration, collecting every mistake.

use super::chain::{Chain, SerializerChain};
use super::explain::{Lint, LintView, NodeInfo, Source, align, draw, role};
use super::keys;
use super::names::is_slip;
use super::node::Node;
use super::registry::{Named, Registry};
use super::spec::{Built, BuiltWriter, Direction, TypeSpec, Yields};
use crate::deserializer::Deserializer;
use crate::properties::{Origin, Problem, Properties, Report};
use crate::record::Part;
use crate::serializer::Serializer;
use crate::tree::{MAX_DEPTH, Tree};
use crate::value::Value;
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// The chain that a role has without `<role>.deserializer` or `<role>.serializer`.
const DEFAULT: &str = "bytes";

/// One chain that is being built.
pub(super) struct Wiring<'a> {
    pub(super) registry: &'a Registry,
    pub(super) properties: &'a Properties,
    pub(super) part: Part,
    pub(super) direction: Direction,
    pub(super) used: BTreeSet<String>,
    pub(super) report: Report,
    /// Every node of this chain by its name, with where it was named.
    named: BTreeMap<String, String>,
}

impl fmt::Debug for Wiring<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Wiring({})", self.role())
    }
}

impl<'a> Wiring<'a> {
    pub(super) fn role(&self) -> String {
        role(self.part, self.direction)
    }

    /// Whether one of `keys` was likely meant by a key that nothing knows; that key is reported as
    /// unknown, so the missing part is not reported once more.
    pub(super) fn misspelt(&self, keys: &[String]) -> bool {
        self.properties.iter().any(|property| {
            keys.iter().any(|key| is_slip(&property.key, key))
                && !keys::is_known(self.registry, &property.key, &property.value)
        })
    }

    fn reject(&mut self, problem: Problem, key: &str, origin: &Origin) {
        self.report.push(problem.key(key).at(origin));
    }

    /// Builds the node that `tree` names, written under `key` at `origin`.
    pub(super) fn node<B>(
        &mut self,
        tree: &Tree,
        origin: &Origin,
        key: &str,
        depth: usize,
        build: fn(&TypeSpec, &mut Node<'_, 'a>) -> Option<B>,
    ) -> Option<(B, NodeInfo)> {
        if depth > MAX_DEPTH {
            let message = format!("the chain nests deeper than {MAX_DEPTH}");
            self.reject(Problem::new(message), key, origin);
            return None;
        }
        let registry = self.registry;
        let spec = match registry.type_named(&tree.name, self.direction) {
            Named::Type(spec) => spec,
            Named::Wrong {
                message,
                suggestion,
            } => {
                let problem = Problem::new(message);
                let problem = match suggestion {
                    Some(suggestion) => problem.suggest(suggestion),
                    None => problem,
                };
                self.reject(problem, key, origin);
                return None;
            }
        };
        self.claim_name(spec, tree, origin, key)?;
        let (takes, given) = (spec.parts().count(), tree.delegates.len());
        if given > takes {
            let message = match takes {
                0 => format!("`{}` wraps nothing, but {given} were given", spec.name),
                _ => format!("`{}` takes {takes}, but {given} were given", spec.name),
            };
            self.reject(Problem::new(message), key, origin);
            return None;
        }
        let info = NodeInfo {
            type_name: spec.name.clone(),
            label: tree.label.clone(),
            source: Source::Origin(origin.clone()),
            settings: Vec::new(),
            delegates: Vec::new(),
            longest_wait: None,
        };
        let mut node = Node {
            wiring: self,
            spec: spec.clone(),
            tree: tree.clone(),
            origin: origin.clone(),
            depth,
            info,
        };
        let built = build(spec, &mut node);
        let info = node.info;
        built.map(|built| (built, info))
    }

    /// Makes sure that the node's name is its own within the chain: its keys hang on it.
    fn claim_name(
        &mut self,
        spec: &TypeSpec,
        tree: &Tree,
        origin: &Origin,
        key: &str,
    ) -> Option<()> {
        if let Some(label) = &tree.label {
            let is_type = self
                .registry
                .types
                .iter()
                .find(|known| known.name == *label);
            let message = if let Some(known) = is_type {
                Some(format!(
                    "the label `{label}` is the name of the type `{}`",
                    known.name
                ))
            } else {
                let mut keys = self.registry.types.iter().flat_map(|known| known.keys);
                keys.find(|known| known.name.split('.').next() == Some(label))
                    .map(|known| {
                        format!("the label `{label}` is taken by the key `{}`", known.name)
                    })
            };
            if let Some(message) = message {
                self.reject(
                    Problem::new(format!("{message}: choose another")),
                    key,
                    origin,
                );
                return None;
            }
        }
        let name = tree.label.clone().unwrap_or_else(|| spec.name.clone());
        let place = format!("{key} at {origin}");
        let before = self.named.insert(name.clone(), place.clone());
        let indistinct = tree.label.is_none() && spec.keys.is_empty();
        match before {
            Some(before) if !indistinct => {
                let places = if before == place {
                    format!("twice in {place}")
                } else {
                    format!("in {before} and again in {place}")
                };
                let message = format!(
                    "`{name}` stands {places}: name one, as in `{}#other`, and its keys are \
                     `{}.other.…`",
                    spec.name,
                    self.role()
                );
                self.reject(Problem::new(message), key, origin);
                None
            }
            _ => Some(()),
        }
    }
}

/// The chain of one role, with what `explain` shows of it.
#[derive(Debug)]
#[non_exhaustive]
pub struct RoleChain {
    /// The half of the record.
    pub part: Part,
    /// Which way it goes.
    pub direction: Direction,
    /// The chain as it prints.
    pub tree: Tree,
    /// Each part with its values and their sources.
    pub info: NodeInfo,
    /// Whether a key names it; else it is the default, `bytes`.
    pub is_set: bool,
}

impl RoleChain {
    /// The key that names it, such as `value.deserializer`.
    pub fn role(&self) -> String {
        role(self.part, self.direction)
    }
}

type Readers = BTreeMap<&'static str, (Arc<dyn Deserializer<Output = Value>>, Yields)>;
type Writers = BTreeMap<&'static str, Arc<dyn Serializer<Input = Value>>>;

/// What a set of properties says: chains, the client's settings, and everybody else's.
pub struct Configuration {
    roles: Vec<RoleChain>,
    readers: Readers,
    writers: Writers,
    client: BTreeMap<String, String>,
    own: Properties,
    application: Properties,
    warnings: Vec<Problem>,
    lints: Vec<Lint>,
}

impl fmt::Debug for Configuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Configuration")
            .field("roles", &self.roles)
            .finish_non_exhaustive()
    }
}

pub(super) fn configure(
    registry: &Registry,
    properties: &Properties,
) -> Result<Configuration, Report> {
    let mut report = Report::new();
    let mut used = BTreeSet::new();
    let (mut roles, mut lints) = (Vec::new(), Vec::new());
    let (mut readers, mut writers) = (Readers::new(), Writers::new());
    for direction in [Direction::Deserializer, Direction::Serializer] {
        for part in [Part::Key, Part::Value] {
            let mut wiring = Wiring {
                registry,
                properties,
                part,
                direction,
                used: BTreeSet::new(),
                report: Report::new(),
                named: BTreeMap::new(),
            };
            if let Some((chain, built)) = build_role(&mut wiring) {
                lint(registry, properties, &chain, &mut lints);
                match built {
                    Either::Reader(built) => {
                        readers.insert(part.as_str(), (Arc::from(built.stage), built.yields));
                    }
                    Either::Writer(built) => {
                        writers.insert(part.as_str(), Arc::from(built.into_value()));
                    }
                }
                roles.push(chain);
            }
            used.append(&mut wiring.used);
            report.append(wiring.report);
        }
    }
    let sorted = keys::sort(registry, properties, &used, &roles, &mut report);
    let mut warnings: Vec<_> = properties.warnings().to_vec();
    warnings.extend(sorted.warnings);
    let (client, own, application) = (sorted.client, sorted.own, sorted.application);
    report.into_result(Configuration {
        roles,
        readers,
        writers,
        client,
        own,
        application,
        warnings,
        lints,
    })
}

enum Either {
    Reader(Built),
    Writer(BuiltWriter),
}

fn build_role(wiring: &mut Wiring<'_>) -> Option<(RoleChain, Either)> {
    let (key, part, direction) = (wiring.role(), wiring.part, wiring.direction);
    let property = wiring.properties.get(&key);
    let (text, origin) = match property {
        Some(property) => {
            wiring.used.insert(key.clone());
            (property.value.trim().to_owned(), property.origin.clone())
        }
        None if wiring
            .registry
            .types
            .iter()
            .any(|spec| spec.name == DEFAULT) =>
        {
            (DEFAULT.to_owned(), Origin::code())
        }
        None => return None,
    };
    let tree = match text.parse::<Tree>() {
        Ok(tree) => tree,
        Err(_) if text.is_empty() => Tree::leaf(""),
        Err(error) => {
            wiring.reject(Problem::new(error.to_string()), &key, &origin);
            return None;
        }
    };
    let (built, mut info, tree) = match direction {
        Direction::Deserializer => {
            let build = |spec: &TypeSpec, node: &mut Node<'_, '_>| (spec.read.clone()?)(node);
            let (built, info) = wiring.node(&tree, &origin, &key, 1, build)?;
            let tree = built.stage.describe();
            (Either::Reader(built), info, tree)
        }
        Direction::Serializer => {
            let build = |spec: &TypeSpec, node: &mut Node<'_, '_>| (spec.write.clone()?)(node);
            let (built, info) = wiring.node(&tree, &origin, &key, 1, build)?;
            let tree = built.describe();
            (Either::Writer(built), info, tree)
        }
    };
    if property.is_none() {
        info.source = Source::Default;
    }
    Some((
        RoleChain {
            part,
            direction,
            tree,
            info,
            is_set: property.is_some(),
        },
        built,
    ))
}

fn lint(registry: &Registry, properties: &Properties, chain: &RoleChain, lints: &mut Vec<Lint>) {
    fn walk<'n>(
        registry: &Registry,
        properties: &Properties,
        chain: &RoleChain,
        node: &'n NodeInfo,
        around: &mut Vec<&'n NodeInfo>,
        lints: &mut Vec<Lint>,
    ) {
        let view = LintView {
            around,
            properties,
            direction: chain.direction,
        };
        let spec = registry
            .types
            .iter()
            .find(|spec| spec.name == node.type_name);
        if let Some(lint) = spec.and_then(|spec| spec.lint) {
            lints.extend(lint(node, &view).into_iter().map(|message| Lint {
                role: chain.role(),
                node: node.head(),
                message,
            }));
        }
        around.push(node);
        for delegate in &node.delegates {
            walk(registry, properties, chain, delegate, around, lints);
        }
        around.pop();
    }
    walk(
        registry,
        properties,
        chain,
        &chain.info,
        &mut Vec::new(),
        lints,
    );
}

impl Configuration {
    /// The chain that reads keys or values, as one of `T`.
    ///
    /// # Errors
    /// When what the chain yields is not a `T`.
    pub fn deserializer<T: Any + Send>(&self, part: Part) -> Result<Chain<T>, Report> {
        let key = role(part, Direction::Deserializer);
        let Some((root, yields)) = self.readers.get(part.as_str()) else {
            return Err(Problem::new("no chain is configured").key(key).into());
        };
        if !Chain::<T>::accepts(yields) {
            let message = format!(
                "the chain yields {}, but {} is read from it",
                yields.name(),
                std::any::type_name::<T>()
            );
            let origin = self
                .roles
                .iter()
                .find(|chain| chain.role() == key)
                .and_then(|chain| match &chain.info.source {
                    Source::Origin(origin) => Some(origin),
                    Source::Default => None,
                });
            let problem = Problem::new(message).key(key);
            return Err(match origin {
                Some(origin) => problem.at(origin),
                None => problem,
            }
            .into());
        }
        Ok(Chain::new(Arc::clone(root), part))
    }

    /// The chain that writes keys or values.
    ///
    /// # Errors
    /// When there is none, which the built-in registry never lets happen.
    pub fn serializer(&self, part: Part) -> Result<SerializerChain, Report> {
        match self.writers.get(part.as_str()) {
            Some(root) => Ok(SerializerChain::new(Arc::clone(root), part)),
            None => {
                let key = role(part, Direction::Serializer);
                Err(Problem::new("no chain is configured").key(key).into())
            }
        }
    }

    /// The settings for librdkafka: every key that is nobody else's, Java's names translated.
    pub fn client(&self) -> &BTreeMap<String, String> {
        &self.client
    }

    /// The keys that were registered as neither a chain's nor the client's.
    pub fn own(&self) -> &Properties {
        &self.own
    }

    /// The keys below the prefixes that the application declared.
    pub fn application(&self) -> &Properties {
        &self.application
    }

    /// What works but may not be meant: keys set twice, keys that no chain reads.
    pub fn warnings(&self) -> &[Problem] {
        &self.warnings
    }

    /// What is likely wrong in how the chains are put together.
    pub fn lints(&self) -> &[Lint] {
        &self.lints
    }

    /// The chain of each role.
    pub fn roles(&self) -> &[RoleChain] {
        &self.roles
    }

    /// The whole configuration for a person: each chain as a tree, each value with its source, then
    /// the client's settings, warnings and lints. Secrets are redacted.
    pub fn explain(&self) -> String {
        let mut rows = Vec::new();
        let blank = |rows: &mut Vec<(String, String)>| {
            if !rows.is_empty() {
                rows.push((String::new(), String::new()));
            }
        };
        for chain in self
            .roles
            .iter()
            .filter(|chain| chain.is_set || chain.direction == Direction::Deserializer)
        {
            blank(&mut rows);
            rows.push((format!("{} = {}", chain.role(), chain.tree), String::new()));
            draw(&chain.info, &mut rows);
        }
        let own = self.own.iter().map(|property| {
            let origin = property.origin.to_string();
            (format!("  {} = {}", property.key, property.shown()), origin)
        });
        section(&mut rows, "pipeline", own.collect());
        let client = self.client.iter().map(|(key, value)| {
            (
                format!("  {key} = {}", crate::properties::redacted(key, value)),
                String::new(),
            )
        });
        section(&mut rows, "librdkafka", client.collect());
        let lines = |texts: Vec<String>| {
            texts
                .into_iter()
                .map(|text| (format!("  {text}"), String::new()))
                .collect()
        };
        section(
            &mut rows,
            "warnings",
            lines(self.warnings.iter().map(|w| w.to_string()).collect()),
        );
        section(
            &mut rows,
            "lints",
            lines(self.lints.iter().map(|l| l.to_string()).collect()),
        );
        align(&rows)
    }
}

fn section(rows: &mut Vec<(String, String)>, title: &str, lines: Vec<(String, String)>) {
    if lines.is_empty() {
        return;
    }
    if !rows.is_empty() {
        rows.push((String::new(), String::new()));
    }
    rows.push((title.to_owned(), String::new()));
    rows.extend(lines);
}
