//! Whose key is it? Every property is a chain's, the client's, the pipeline's or the application's;
//! what is nobody's is a mistake.

use super::configuration::RoleChain;
use super::explain::NodeInfo;
use super::names::nearest;
use super::node::fill;
use super::registry::Registry;
use super::spec::{Direction, KeySpec, TypeSpec};
use crate::properties::{Problem, Properties, Property, Report};
use crate::record::Part;
use crate::tree::Tree;
use std::collections::BTreeSet;

/// What the Kafka client says of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientKey {
    /// It takes the key as it is.
    Known,
    /// It takes the key under another name or with another value.
    Translated {
        /// The client's name for it.
        key: String,
        /// The value as the client reads it.
        value: String,
    },
    /// It knows the key, but the value or the key cannot be honoured; why, and what to do.
    Refused(String),
    /// The key means nothing to this client and is left out; why.
    Dropped(String),
    /// It does not know the key.
    Unknown,
}

/// Which keys the Kafka client knows.
pub trait ClientKeys: Send + Sync {
    /// What the client says of this key with this value.
    fn check(&self, key: &str, value: &str) -> ClientKey;

    /// The names it knows, to suggest one.
    fn names(&self) -> Vec<String>;
}

/// A key that is neither a chain's nor the client's.
#[derive(Clone, Copy, Debug)]
pub struct OwnKey {
    /// The key; one that ends in `.` is a prefix.
    pub name: &'static str,
    /// The value when it is absent.
    pub default: Option<&'static str>,
    /// What it does.
    pub doc: &'static str,
}

impl OwnKey {
    fn owns(&self, key: &str) -> bool {
        if self.name.ends_with('.') {
            key.starts_with(self.name)
        } else {
            key == self.name
        }
    }
}

const ROLES: [(Part, Direction); 4] = [
    (Part::Key, Direction::Deserializer),
    (Part::Value, Direction::Deserializer),
    (Part::Key, Direction::Serializer),
    (Part::Value, Direction::Serializer),
];

pub(super) struct Sorted {
    pub(super) client: Properties,
    pub(super) own: Properties,
    pub(super) application: Properties,
    pub(super) warnings: Vec<Problem>,
}

impl Sorted {
    /// Gives the client `value` under `key`, which `property` says.
    fn set(&mut self, key: &str, value: &str, property: &Property) {
        let mut set = Property::new(key, value, property.origin.clone());
        set.secret |= property.secret;
        self.client.put(set);
    }
}

/// Where a key of the chains belongs by its spelling alone.
enum Place<'r> {
    /// `value.deserializer.<name>.<key>`: the name of a node and the key below it.
    Role { role: String },
    /// `retry.deserializer.<key>`, of a type that reads it.
    Flat { spec: &'r TypeSpec },
    /// The same of a type that does not read it.
    FlatUnknown {
        spec: &'r TypeSpec,
        direction: Direction,
    },
    /// One of Kafka's own keys that a type reads.
    Kafka,
    /// The key of a role.
    Root,
}

fn place<'r>(registry: &'r Registry, key: &str) -> Option<Place<'r>> {
    for (part, direction) in ROLES {
        let (part, direction_name) = (part.as_str(), direction.as_str());
        let role = format!("{part}.{direction_name}");
        if key == role {
            return Some(Place::Root);
        }
        for spec in &registry.types {
            let kafka = spec.keys.iter().flat_map(|key| key.kafka);
            if kafka
                .into_iter()
                .any(|template| fill(template, part, direction_name) == key)
            {
                return Some(Place::Kafka);
            }
        }
        if key
            .strip_prefix(&role)
            .is_some_and(|rest| rest.starts_with('.'))
        {
            return Some(Place::Role { role });
        }
        for spec in &registry.types {
            let flat = format!("{}.{direction_name}.", spec.flat_name());
            if key
                .strip_prefix(part)
                .and_then(|rest| rest.strip_prefix('.'))
                .is_some_and(|rest| rest.starts_with(&flat))
            {
                return Some(Place::Role { role });
            }
            if let Some(below) = key.strip_prefix(&flat) {
                let known = below_keys(registry, spec).any(|name| name == below);
                return Some(if known {
                    Place::Flat { spec }
                } else {
                    Place::FlatUnknown { spec, direction }
                });
            }
        }
    }
    None
}

/// The keys of a type, those of its backoffs included.
fn below_keys<'r>(registry: &'r Registry, spec: &'r TypeSpec) -> impl Iterator<Item = String> + 'r {
    spec.keys.iter().flat_map(move |key| {
        let params = (key.kind == KeySpec::BACKOFF).then(|| {
            registry.backoffs.iter().flat_map(move |backoff| {
                backoff
                    .keys
                    .iter()
                    .map(move |param| format!("{}.{}.{}", key.name, backoff.name, param.name))
            })
        });
        std::iter::once(key.name.to_owned()).chain(params.into_iter().flatten())
    })
}

pub(super) fn sort(
    registry: &Registry,
    properties: &Properties,
    used: &BTreeSet<String>,
    roles: &[RoleChain],
    report: &mut Report,
) -> Sorted {
    let mut sorted = Sorted {
        client: Properties::new(),
        own: Properties::new(),
        application: Properties::new(),
        warnings: Vec::new(),
    };
    let all = all_keys(registry, roles);
    for property in properties.iter() {
        let key = property.key.as_str();
        let problem = |message: String| Problem::new(message).key(key).at(&property.origin);
        if used.contains(key) {
            // A part may read a key that is the client's too, such as `retry.backoff.ms`.
            if let Some(client) = &registry.client
                && client.check(key, &property.value) == ClientKey::Known
            {
                sorted.set(key, &property.value, property);
            }
            continue;
        }
        if registry
            .application_prefixes
            .iter()
            .any(|prefix| key.starts_with(prefix))
        {
            sorted.application.put(property.clone());
            continue;
        }
        if registry.own_keys.iter().any(|own| own.owns(key)) {
            sorted.own.put(property.clone());
            continue;
        }
        match place(registry, key) {
            Some(Place::Root) => {}
            Some(Place::Role { role }) => {
                let chain = roles.iter().find(|chain| chain.role() == role);
                let message = match chain {
                    Some(chain) => {
                        format!("no part of the {role} `{}` reads this key", chain.tree)
                    }
                    None => format!("no part of the {role} reads this key"),
                };
                let candidates = chain
                    .map(|chain| role_keys(registry, chain))
                    .unwrap_or_default();
                // Of a chain that could not be built the parts are known by name only.
                if chain.is_some() || !names_a_part(properties, key) {
                    report.push(with_nearest(problem(message), key, &candidates));
                }
            }
            Some(Place::Flat { spec }) => {
                let message = format!("no chain has a `{}` that reads this key", spec.name);
                sorted.warnings.push(problem(message));
            }
            Some(Place::Kafka) => {
                sorted
                    .warnings
                    .push(problem("no chain has a part that reads this key".into()));
            }
            Some(Place::FlatUnknown { spec, direction }) => {
                let message = format!("`{}` has no such key", spec.name);
                let flat = format!("{}.{}.", spec.flat_name(), direction.as_str());
                let candidates: Vec<_> = below_keys(registry, spec)
                    .map(|below| format!("{flat}{below}"))
                    .collect();
                report.push(with_nearest(problem(message), key, &candidates));
            }
            None => match client_key(registry, property, &all) {
                ClientKey::Known => {
                    sorted.set(key, &property.value, property);
                }
                ClientKey::Translated { key, value } => {
                    sorted.set(&key, &value, property);
                }
                ClientKey::Refused(reason) => report.push(problem(reason)),
                ClientKey::Dropped(reason) => sorted.warnings.push(problem(reason)),
                ClientKey::Unknown => {
                    let message = "neither a chain, the pipeline nor librdkafka knows this key";
                    report.push(with_nearest(problem(message.into()), key, &all));
                }
            },
        }
    }
    sorted
}

fn client_key(registry: &Registry, property: &Property, all: &[String]) -> ClientKey {
    match &registry.client {
        Some(client) => client.check(&property.key, &property.value),
        // Nobody can say which keys the client knows; what looks like a chain's is a slip.
        None => match nearest(&property.key, all.iter().map(String::as_str)) {
            Some(_) => ClientKey::Unknown,
            None => ClientKey::Known,
        },
    }
}

/// Whether `value.deserializer.<name>.…` has the name of a part that some expression mentions.
fn names_a_part(properties: &Properties, key: &str) -> bool {
    fn mentions(tree: &Tree, name: &str) -> bool {
        tree.node_name() == name || tree.delegates.iter().any(|tree| mentions(tree, name))
    }
    let Some(name) = key.split('.').nth(2) else {
        return false;
    };
    let expressions = properties
        .iter()
        .filter(|property| property.key.contains("serializer") && !property.secret);
    expressions
        .filter_map(|property| property.value.trim().parse::<Tree>().ok())
        .any(|tree| mentions(&tree, name))
}

fn with_nearest(problem: Problem, key: &str, candidates: &[String]) -> Problem {
    match nearest(key, candidates.iter().map(String::as_str)) {
        Some(best) => problem.suggest(best),
        None => problem,
    }
}

/// Every key that the parts of a chain read under its role.
fn role_keys(registry: &Registry, chain: &RoleChain) -> Vec<String> {
    fn walk(registry: &Registry, role: &str, node: &NodeInfo, keys: &mut Vec<String>) {
        if let Some(spec) = registry
            .types
            .iter()
            .find(|spec| spec.name == node.type_name)
        {
            let name = node.label.as_deref().unwrap_or(&node.type_name);
            keys.extend(below_keys(registry, spec).map(|below| format!("{role}.{name}.{below}")));
        }
        for delegate in &node.delegates {
            walk(registry, role, delegate, keys);
        }
    }
    let mut keys = Vec::new();
    walk(registry, &chain.role(), &chain.info, &mut keys);
    keys
}

/// Every key that anybody knows, to suggest the nearest.
fn all_keys(registry: &Registry, roles: &[RoleChain]) -> Vec<String> {
    let mut keys: Vec<String> = Vec::new();
    for (part, direction) in ROLES {
        let (part, direction) = (part.as_str(), direction.as_str());
        keys.push(format!("{part}.{direction}"));
        for spec in &registry.types {
            let kafka = spec.keys.iter().flat_map(|key| key.kafka);
            keys.extend(kafka.map(|template| fill(template, part, direction)));
        }
    }
    for direction in [Direction::Deserializer, Direction::Serializer] {
        for spec in registry.types.iter().filter(|spec| spec.goes(direction)) {
            let flat = format!("{}.{}.", spec.flat_name(), direction.as_str());
            keys.extend(below_keys(registry, spec).map(|below| format!("{flat}{below}")));
        }
    }
    keys.extend(roles.iter().flat_map(|chain| role_keys(registry, chain)));
    keys.extend(registry.own_keys.iter().map(|own| own.name.to_owned()));
    keys.extend(registry.client.iter().flat_map(|client| client.names()));
    keys
}
