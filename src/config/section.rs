//! Keys that belong to no chain: those of the pipeline and of other users of a configuration.

use super::configuration::Configuration;
use super::explain::{NodeInfo, Source};
use super::keys::OwnKey;
use super::names::nearest;
use super::node::Node;
use super::registry::Registry;
use super::spec::{Direction, KeySpec, TypeSpec};
use super::wiring::Wiring;
use crate::properties::{Origin, Problem, Properties, Report};
use crate::record::Part;
use crate::tree::Tree;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

type Check = Arc<dyn Fn(&mut Node<'_, '_>) + Send + Sync>;

/// Keys that are read together and stand without a prefix, such as the pipeline's. A key of kind
/// [`KeySpec::BACKOFF`] has the parameters of the backoffs below it.
#[derive(Clone)]
pub struct SectionSpec {
    name: &'static str,
    keys: &'static [KeySpec],
    check: Check,
}

impl SectionSpec {
    /// A section whose values are read by `read`, which reports what is wrong and is called when
    /// properties are configured; [`Configuration::section`] calls it again for what it answers.
    pub fn new<T>(
        name: &'static str,
        keys: &'static [KeySpec],
        read: impl Fn(&mut Node<'_, '_>) -> Option<T> + Send + Sync + 'static,
    ) -> Self {
        let check = Arc::new(move |node: &mut Node<'_, '_>| {
            read(node);
        });
        SectionSpec { name, keys, check }
    }

    /// What `explain` calls it.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The keys it reads.
    pub fn key_specs(&self) -> &'static [KeySpec] {
        self.keys
    }
}

impl fmt::Debug for SectionSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SectionSpec({})", self.name)
    }
}

impl Registry {
    /// Adds the keys of a section.
    #[must_use]
    pub fn with_section(mut self, section: SectionSpec) -> Self {
        for key in section.keys {
            self = self.with_own_key(OwnKey {
                name: key.name,
                default: key.default,
                doc: key.doc,
                is_client: false,
            });
        }
        self.sections.retain(|known| known.name != section.name);
        self.sections.push(section);
        self
    }

    /// The sections.
    pub fn sections(&self) -> &[SectionSpec] {
        &self.sections
    }

    /// Whether `key` stands below a section's key of a backoff.
    pub(super) fn is_below_backoff(&self, key: &str) -> bool {
        let keys = self.sections.iter().flat_map(|section| section.keys);
        keys.filter(|spec| spec.kind == KeySpec::BACKOFF)
            .any(|spec| below(key, spec.name).is_some())
    }
}

fn below<'k>(key: &'k str, of: &str) -> Option<&'k str> {
    key.strip_prefix(of)?.strip_prefix('.')
}

/// Has every section read and checked; how its values are shown.
pub(super) fn check(
    registry: &Registry,
    properties: &Properties,
    report: &mut Report,
) -> Vec<NodeInfo> {
    let mut infos = Vec::new();
    for section in &registry.sections {
        let (info, found) = read(registry, properties, section.name, section.keys, |node| {
            (section.check)(node);
            Some(())
        });
        infos.push(info);
        report.append(found.report);
        let parameters = section
            .keys
            .iter()
            .filter(|key| key.kind == KeySpec::BACKOFF);
        for spec in parameters {
            unread(registry, properties, spec, &found.used, report);
        }
    }
    infos
}

/// Parameters of a backoff that nobody read: of another backoff, or of none.
fn unread(
    registry: &Registry,
    properties: &Properties,
    spec: &KeySpec,
    used: &BTreeSet<String>,
    report: &mut Report,
) {
    let known: Vec<String> = registry
        .backoffs
        .iter()
        .flat_map(|backoff| {
            let params = backoff.keys.iter();
            params.map(|param| format!("{}.{}.{}", spec.name, backoff.name, param.name))
        })
        .collect();
    for property in properties.iter() {
        if below(&property.key, spec.name).is_none() || used.contains(&property.key) {
            continue;
        }
        let is_known = known.contains(&property.key);
        let message = match is_known {
            true => format!("`{}` names another backoff", spec.name),
            false => "no backoff has this parameter".to_owned(),
        };
        let problem = Problem::new(message)
            .key(&property.key)
            .at(&property.origin);
        let near = nearest(&property.key, known.iter().map(String::as_str));
        report.push(match near.filter(|_| !is_known) {
            Some(near) => problem.suggest(near),
            None => problem,
        });
    }
}

struct Found<T> {
    value: Option<T>,
    used: BTreeSet<String>,
    report: Report,
}

fn read<T>(
    registry: &Registry,
    properties: &Properties,
    name: &str,
    keys: &'static [KeySpec],
    read: impl FnOnce(&mut Node<'_, '_>) -> Option<T>,
) -> (NodeInfo, Found<T>) {
    let mut wiring = Wiring {
        registry,
        properties,
        part: Part::Value,
        direction: Direction::Deserializer,
        used: BTreeSet::new(),
        report: Report::new(),
        missing: Vec::new(),
        named: BTreeMap::new(),
    };
    let mut node = Node {
        wiring: &mut wiring,
        spec: TypeSpec::new(name).keys(keys),
        tree: Tree::leaf(name),
        origin: Origin::code(),
        depth: 1,
        info: NodeInfo {
            type_name: name.to_owned(),
            label: None,
            source: Source::Default,
            settings: Vec::new(),
            delegates: Vec::new(),
            longest_wait: None,
        },
        is_section: true,
    };
    let value = read(&mut node);
    let info = node.info;
    let Wiring { used, report, .. } = wiring;
    let found = Found {
        value,
        used,
        report,
    };
    (info, found)
}

impl Configuration {
    /// Reads a section's values.
    ///
    /// # Errors
    /// All mistakes in one go.
    pub fn section<T>(
        &self,
        section: &SectionSpec,
        reader: impl FnOnce(&mut Node<'_, '_>) -> Option<T>,
    ) -> Result<T, Report> {
        let (_, found) = read(
            &self.registry,
            &self.own,
            section.name,
            section.keys,
            reader,
        );
        match found.value {
            Some(value) if found.report.is_empty() => Ok(value),
            _ if found.report.is_empty() => {
                Err(Problem::new("a value that is needed is missing").into())
            }
            _ => Err(found.report),
        }
    }
}
