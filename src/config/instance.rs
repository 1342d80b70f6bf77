//! A role that was given its deserializer in code.

use super::configuration::RoleChain;
use super::explain::{NodeInfo, Source};
use super::registry::{Instance, Registry};
use super::spec::Direction;
use super::wiring::Wiring;
use crate::properties::{Origin, Problem};

/// The chain of a role that was given as an instance, for which its properties count no more.
pub(super) fn given_instance(
    wiring: &mut Wiring<'_>,
    warnings: &mut Vec<Problem>,
) -> Option<(RoleChain, Instance)> {
    let (part, direction) = (wiring.part, wiring.direction);
    let given = wiring
        .registry
        .instances
        .iter()
        .find(|(known, _)| *known == part);
    let (_, instance) = given.filter(|_| direction == Direction::Deserializer)?;
    let role = wiring.role();
    for property in wiring.properties.iter() {
        let below = property
            .key
            .strip_prefix(&role)
            .is_some_and(|rest| rest.starts_with('.'));
        // `value.retry.deserializer.backoff` is of this role too.
        let flat = property
            .key
            .strip_prefix(part.as_str())
            .and_then(|rest| rest.strip_prefix('.'))
            .is_some_and(|rest| is_flat(wiring.registry, direction, rest));
        if property.key == role || below || flat {
            wiring.used.insert(property.key.clone());
            let message = "left out: this role was given a deserializer in code";
            warnings.push(
                Problem::new(message)
                    .key(&property.key)
                    .at(&property.origin),
            );
        }
    }
    let tree = instance.0.describe();
    let info = NodeInfo {
        type_name: tree.to_string(),
        label: None,
        source: Source::Origin(Origin::code()),
        settings: Vec::new(),
        delegates: Vec::new(),
        longest_wait: None,
    };
    Some((
        RoleChain {
            part,
            direction,
            tree,
            info,
            is_set: true,
        },
        instance.clone(),
    ))
}

/// Whether `key` begins as the flat keys of some type do.
fn is_flat(registry: &Registry, direction: Direction, key: &str) -> bool {
    registry.types.iter().any(|spec| {
        let rest = key
            .strip_prefix(&spec.flat_name())
            .and_then(|rest| rest.strip_prefix('.'));
        rest.is_some_and(|rest| rest.starts_with(direction.as_str()))
    })
}
