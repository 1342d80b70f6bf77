//! Whose key is it, by its spelling? A chain's, the client's, the consumer's or the application's.

use super::node::fill;
use super::registry::Registry;
use super::spec::{Direction, KeySpec, TypeSpec};
use crate::record::Part;

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
    /// Whether the client's own keys stand below this prefix.
    pub is_client: bool,
}

impl OwnKey {
    pub(super) fn owns(&self, key: &str) -> bool {
        if self.name.ends_with('.') {
            key.starts_with(self.name)
        } else {
            key == self.name
        }
    }
}

pub(super) const ROLES: [(Part, Direction); 4] = [
    (Part::Key, Direction::Deserializer),
    (Part::Value, Direction::Deserializer),
    (Part::Key, Direction::Serializer),
    (Part::Value, Direction::Serializer),
];

/// Where a key of the chains belongs by its spelling alone.
pub(super) enum Place<'r> {
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

pub(super) fn place<'r>(registry: &'r Registry, key: &str) -> Option<Place<'r>> {
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
pub(super) fn below_keys<'r>(
    registry: &'r Registry,
    spec: &'r TypeSpec,
) -> impl Iterator<Item = String> + 'r {
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
