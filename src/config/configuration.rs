//! What a set of properties says.

use super::built::Yields;
use super::chain::{Chain, SerializerChain};
use super::explain::{Lint, NodeInfo, Source, align, draw, role};
use super::registry::Registry;
use super::spec::Direction;
use crate::deserializer::Deserializer;
use crate::properties::{Problem, Properties, Report};
use crate::record::Part;
use crate::serializer::Serializer;
use crate::tree::Tree;
use crate::value::Value;
use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

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

pub(super) type Readers = BTreeMap<&'static str, (Arc<dyn Deserializer<Output = Value>>, Yields)>;
pub(super) type Writers = BTreeMap<&'static str, Arc<dyn Serializer<Input = Value>>>;

/// What a set of properties says: chains, the client's settings, and everybody else's.
pub struct Configuration {
    pub(super) registry: Registry,
    pub(super) sections: Vec<NodeInfo>,
    pub(super) roles: Vec<RoleChain>,
    pub(super) readers: Readers,
    pub(super) writers: Writers,
    pub(super) client: Properties,
    pub(super) own: Properties,
    pub(super) application: Properties,
    pub(super) warnings: Vec<Problem>,
    pub(super) lints: Vec<Lint>,
}

impl fmt::Debug for Configuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Configuration")
            .field("roles", &self.roles)
            .finish_non_exhaustive()
    }
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
    pub fn client(&self) -> &Properties {
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
        for info in self.sections.iter().filter(|_| !self.own.is_empty()) {
            let shown = info.settings.iter().map(|setting| {
                let line = format!("  {} = {}", setting.key, setting.value);
                (line, setting.source.to_string())
            });
            let read = |key: &str| info.settings.iter().any(|setting| setting.key == key);
            let others = self.own.iter().filter(|own| !read(&own.key));
            let others = others.map(|property| {
                let origin = property.origin.to_string();
                (format!("  {} = {}", property.key, property.shown()), origin)
            });
            section(&mut rows, &info.type_name, shown.chain(others).collect());
        }
        let client = self.client.iter().map(|property| {
            let origin = property.origin.to_string();
            (format!("  {} = {}", property.key, property.shown()), origin)
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
