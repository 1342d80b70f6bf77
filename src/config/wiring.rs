//! Builds all chains of a configuration, collecting every mistake.

use super::built::{Built, BuiltWriter};
use super::configuration::{Configuration, Readers, RoleChain, Writers};
use super::explain::{Lint, LintView, NodeInfo, Source, role};
use super::instance::given_instance;
use super::lookup::Named;
use super::node::Node;
use super::registry::Registry;
use super::section;
use super::sort;
use super::spec::{Direction, TypeSpec};
use crate::properties::{Origin, Problem, Properties, Report};
use crate::record::Part;
use crate::tree::{MAX_DEPTH, Tree};
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
    /// Parts that are missing, with the keys that would name them. Where a key that nobody knows is
    /// a slip of one, that is said of the slip, and not of the part once more.
    pub(super) missing: Vec<(Problem, Vec<String>)>,
    /// Every node of this chain by its name, with where it was named.
    pub(super) named: BTreeMap<String, String>,
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

    /// Reports a part that none of `keys` names, unless one of them is suggested for a slip.
    pub(super) fn missing(&mut self, problem: Problem, keys: Vec<String>) {
        self.missing.push((problem, keys));
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
            is_section: false,
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

pub(super) fn configure(
    registry: &Registry,
    properties: &Properties,
) -> Result<Configuration, Report> {
    let mut report = Report::new();
    let mut used = BTreeSet::new();
    let (mut roles, mut lints) = (Vec::new(), Vec::new());
    let (mut superseded, mut missing) = (Vec::new(), Vec::new());
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
                missing: Vec::new(),
                named: BTreeMap::new(),
            };
            if let Some((chain, instance)) = given_instance(&mut wiring, &mut superseded) {
                readers.insert(part.as_str(), instance);
                roles.push(chain);
            } else if let Some((chain, built)) = build_role(&mut wiring) {
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
            missing.append(&mut wiring.missing);
        }
    }
    let sections = section::check(registry, properties, &mut report);
    let sorted = sort::sort(registry, properties, &used, &roles, &mut report);
    for (problem, keys) in missing {
        let is_slip = |known: &Problem| {
            known
                .suggestion
                .as_ref()
                .is_some_and(|suggested| keys.contains(suggested))
        };
        if !report.iter().any(is_slip) {
            report.push(problem);
        }
    }
    let mut warnings: Vec<_> = properties.warnings().to_vec();
    warnings.extend(superseded);
    warnings.extend(sorted.warnings);
    for problem in report.iter_mut().chain(&mut warnings) {
        let property = problem.key.as_ref().and_then(|key| properties.get(key));
        if let Some(property) = property.filter(|property| property.secret) {
            problem.hide(&property.value);
        }
    }
    let (client, own, application) = (sorted.client, sorted.own, sorted.application);
    report.into_result(Configuration {
        registry: registry.clone(),
        sections,
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
