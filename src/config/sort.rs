//! Gives every property to its owner; what is nobody's is a mistake.

use super::configuration::RoleChain;
use super::explain::NodeInfo;
use super::keys::{ClientKey, OwnKey, Place, ROLES, below_keys, place};
use super::lookup::Named;
use super::names::nearest;
use super::node::fill;
use super::registry::Registry;
use super::spec::{Direction, TypeSpec};
use crate::properties::{MAX_PROBLEMS, Problem, Properties, Property, Report};
use crate::tree::Tree;
use std::collections::BTreeSet;

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
        if let Some(before) = self.client.put(set) {
            let message = format!(
                "the client's `{key}` is set at {} already; this one counts",
                before.origin
            );
            self.warnings.push(
                Problem::new(message)
                    .key(&property.key)
                    .at(&property.origin),
            );
        }
    }

    /// Does what the client said of `property`, whose key has `prefix` before the client's.
    fn say(&mut self, said: ClientKey, prefix: &str, property: &Property, report: &mut Report) {
        let problem = |message: String| {
            Problem::new(message)
                .key(&property.key)
                .at(&property.origin)
        };
        let (key, value) = match said {
            ClientKey::Known => {
                let key = property.key.strip_prefix(prefix).unwrap_or(&property.key);
                (key.to_owned(), property.value.trim().to_owned())
            }
            ClientKey::Translated { key, value } => (key, value),
            // What the client says of a value may quote it.
            ClientKey::Refused(_) if property.secret => {
                let message = "the client does not take this key with this value";
                return report.push(problem(message.into()));
            }
            ClientKey::Refused(reason) => return report.push(problem(reason)),
            ClientKey::Dropped(reason) => return self.warnings.push(problem(reason)),
            ClientKey::Unknown => return,
        };
        if prefix.is_empty() {
            return self.set(&key, &value, property);
        }
        let mut own = property.clone();
        (own.key, own.value) = (format!("{prefix}{key}"), value);
        self.own.put(own);
    }
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
        let value = property.value.trim();
        let problem = |message: String| Problem::new(message).key(key).at(&property.origin);
        if used.contains(key) {
            // A part may read a key that is the client's too, such as `retry.backoff.ms`.
            if let Some(client) = &registry.client
                && client.check(key, value) == ClientKey::Known
            {
                sorted.set(key, value, property);
            }
            continue;
        }
        let is_applications = |prefix: &String| key.starts_with(prefix);
        if registry.application_prefixes.iter().any(is_applications) {
            sorted.application.put(property.clone());
            continue;
        }
        if let Some(own) = registry.own_keys.iter().find(|own| own.owns(key)) {
            own_key(registry, own, property, &mut sorted, report);
            continue;
        }
        if registry.is_below_backoff(key) {
            let mut own = property.clone();
            own.value = value.to_owned();
            sorted.own.put(own);
            continue;
        }
        match place(registry, key) {
            Some(Place::Root) => {}
            Some(Place::Role { role }) => {
                let chain = roles.iter().find(|chain| chain.role() == role);
                role_key(registry, properties, property, &role, chain, report);
            }
            Some(Place::Flat { spec }) => {
                let message = format!("no chain has a `{}` that reads this key", spec.name);
                sorted.warnings.push(problem(message));
            }
            Some(Place::Kafka) => {
                let message = "no chain has a part that reads this key";
                sorted.warnings.push(problem(message.into()));
            }
            Some(Place::FlatUnknown { spec, direction }) => {
                let message = format!("`{}` has no such key", spec.name);
                let flat = format!("{}.{}.", spec.flat_name(), direction.as_str());
                let candidates: Vec<_> = below_keys(registry, spec)
                    .map(|below| format!("{flat}{below}"))
                    .collect();
                suggest(report, problem(message), key, &candidates);
            }
            None => match client_key(registry, key, value, &all) {
                ClientKey::Unknown => {
                    let message = "neither a chain, the pipeline nor librdkafka knows this key";
                    suggest(report, problem(message.into()), key, &all);
                }
                said => sorted.say(said, "", property, report),
            },
        }
    }
    sorted
}

/// A key of the consumer's own, perhaps with one of the client's below it.
fn own_key(
    registry: &Registry,
    own: &OwnKey,
    property: &Property,
    sorted: &mut Sorted,
    report: &mut Report,
) {
    let below = property
        .key
        .strip_prefix(own.name)
        .filter(|_| own.is_client);
    let (Some(below), Some(client)) = (below, &registry.client) else {
        let mut own = property.clone();
        own.value = property.value.trim().to_owned();
        sorted.own.put(own);
        return;
    };
    match client.check(below, property.value.trim()) {
        ClientKey::Unknown => {
            let message = format!("librdkafka does not know `{below}`");
            let problem = Problem::new(message)
                .key(&property.key)
                .at(&property.origin);
            let names: Vec<_> = client
                .names()
                .iter()
                .map(|name| format!("{}{name}", own.name))
                .collect();
            suggest(report, problem, &property.key, &names);
        }
        said => sorted.say(said, own.name, property, report),
    }
}

/// A key with a role in front that no part of that role read.
fn role_key(
    registry: &Registry,
    properties: &Properties,
    property: &Property,
    role: &str,
    chain: Option<&RoleChain>,
    report: &mut Report,
) {
    let key = property.key.as_str();
    let problem = |message: String| Problem::new(message).key(key).at(&property.origin);
    let Some(chain) = chain else {
        // Of a chain that could not be built the parts are known by name only.
        if let Some(candidates) = keys_of_named_part(registry, properties, role, key) {
            let message = format!("no part of the {role} reads this key");
            suggest(report, problem(message), key, &candidates);
        }
        return;
    };
    let candidates = role_keys(registry, chain);
    if candidates.iter().any(|known| known == key) {
        let message = "another key counts instead: of a part that is set twice the more exact \
                       spelling, and of backoffs the one that is chosen";
        report.push(problem(message.into()));
        return;
    }
    let is_secret = properties.get(role).is_some_and(|root| root.secret);
    let message = match is_secret {
        true => format!("no part of the {role} reads this key"),
        false => format!("no part of the {role} `{}` reads this key", chain.tree),
    };
    suggest(report, problem(message), key, &candidates);
}

fn client_key(registry: &Registry, key: &str, value: &str, all: &[String]) -> ClientKey {
    match &registry.client {
        Some(client) => client.check(key, value),
        // Nobody can say which keys the client knows; what looks like a chain's is a slip.
        None => match nearest(key, all.iter().map(String::as_str)) {
            Some(_) => ClientKey::Unknown,
            None => ClientKey::Known,
        },
    }
}

/// The keys that could be meant by `value.deserializer.<name>.…` where that chain could not be
/// built; `None` when the key is a good one, or of a part of which nobody knows what it is.
fn keys_of_named_part(
    registry: &Registry,
    properties: &Properties,
    role: &str,
    key: &str,
) -> Option<Vec<String>> {
    fn type_of<'t>(tree: &'t Tree, name: &str) -> Option<&'t str> {
        if tree.node_name() == name {
            return Some(&tree.name);
        }
        tree.delegates.iter().find_map(|tree| type_of(tree, name))
    }
    let direction = match role.ends_with(Direction::Serializer.as_str()) {
        true if !role.ends_with(Direction::Deserializer.as_str()) => Direction::Serializer,
        _ => Direction::Deserializer,
    };
    let Some(below) = key
        .strip_prefix(role)
        .and_then(|rest| rest.strip_prefix('.'))
    else {
        // `value.retry.deserializer.backoff`: the type stands in the key.
        let (part, _) = role.split_once('.')?;
        let flat = key.strip_prefix(part)?.strip_prefix('.')?;
        let prefixed = |spec: &TypeSpec| format!("{}.{}.", spec.flat_name(), direction.as_str());
        let of_type = |spec: &&TypeSpec| flat.starts_with(&prefixed(spec));
        let spec = registry.types.iter().find(of_type)?;
        let keys: Vec<_> = below_keys(registry, spec)
            .map(|below| format!("{part}.{}{below}", prefixed(spec)))
            .collect();
        return (!keys.iter().any(|known| known == key)).then_some(keys);
    };
    let Some((name, below)) = below.split_once('.') else {
        return Some(Vec::new());
    };
    let mentioned = properties
        .iter()
        .filter(|property| property.key.contains("serializer") && !property.secret)
        .filter_map(|property| property.value.trim().parse::<Tree>().ok())
        .find_map(|tree| type_of(&tree, name).map(str::to_owned));
    let written = mentioned.as_deref().unwrap_or(name);
    match registry.type_named(written, direction) {
        Named::Type(spec) => {
            let known = below_keys(registry, spec).any(|known| known == below);
            let keys = below_keys(registry, spec).map(|below| format!("{role}.{name}.{below}"));
            (!known).then(|| keys.collect())
        }
        Named::Wrong { .. } if mentioned.is_some() => None,
        Named::Wrong { .. } => Some(Vec::new()),
    }
}

/// Reports `problem` with the nearest of `candidates`, as long as anybody will read it.
fn suggest(report: &mut Report, problem: Problem, key: &str, candidates: &[String]) {
    let near = match report.len() < MAX_PROBLEMS {
        true => nearest(
            key,
            candidates
                .iter()
                .map(String::as_str)
                .filter(|known| *known != key),
        ),
        false => None,
    };
    report.push(match near {
        Some(best) => problem.suggest(best),
        None => problem,
    });
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
