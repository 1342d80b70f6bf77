//! What a person needs to see of a configuration: the tree, each value with its source, the lints.

use super::spec::Direction;
use crate::properties::{Origin, Properties};
use crate::record::Part;
use std::fmt::{self, Write};
use std::time::Duration;

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Written in a file, or set in code.
    Origin(Origin),
    /// Nobody set it.
    Default,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Origin(origin) => write!(f, "{origin}"),
            Source::Default => f.write_str("default"),
        }
    }
}

/// A value that a part was built with.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The key below the part's prefix.
    pub key: String,
    /// The value as it may be shown: secrets are redacted.
    pub value: String,
    /// Where it comes from.
    pub source: Source,
}

/// A part of a chain as it was built.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NodeInfo {
    /// The type's kebab name.
    pub type_name: String,
    /// The label a user gave it.
    pub label: Option<String>,
    /// Where it was named.
    pub source: Source,
    /// The values it was built with, in the order it read them.
    pub settings: Vec<Setting>,
    /// What it wraps, in the direction of the data.
    pub delegates: Vec<NodeInfo>,
    /// The longest it may wait before it gives up; `None` when it does not wait.
    pub longest_wait: Option<Duration>,
}

impl NodeInfo {
    /// Whether the part is of this type.
    pub fn is(&self, type_name: &str) -> bool {
        self.type_name == type_name
    }

    /// Whether this part or one below it is of this type.
    pub fn contains(&self, type_name: &str) -> bool {
        self.is(type_name)
            || self
                .delegates
                .iter()
                .any(|delegate| delegate.contains(type_name))
    }

    /// The type and label as they are written.
    pub fn head(&self) -> String {
        match &self.label {
            Some(label) => format!("{}#{label}", self.type_name),
            None => self.type_name.clone(),
        }
    }
}

/// What a lint sees beside its own node.
#[derive(Debug)]
#[non_exhaustive]
pub struct LintView<'a> {
    /// The parts around this one, outermost first.
    pub around: &'a [&'a NodeInfo],
    /// The whole configuration.
    pub properties: &'a Properties,
    /// Which way the chain goes.
    pub direction: Direction,
}

/// A configuration that works but likely not as meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lint {
    /// The role, such as `value.deserializer`.
    pub role: String,
    /// The part, as it is written.
    pub node: String,
    /// What is likely wrong and what to do.
    pub message: String,
}

impl fmt::Display for Lint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.role, self.node, self.message)
    }
}

pub(crate) fn role(part: Part, direction: Direction) -> String {
    format!("{}.{}", part.as_str(), direction.as_str())
}

/// Lines of a tree, aligned: what on the left, where from on the right.
pub(crate) fn draw(root: &NodeInfo, out: &mut Vec<(String, String)>) {
    out.push((format!("  {}", root.head()), root.source.to_string()));
    draw_below(root, "  ", out);
}

fn draw_below(node: &NodeInfo, indent: &str, out: &mut Vec<(String, String)>) {
    let last_delegate = node.delegates.len().checked_sub(1);
    let bar = if last_delegate.is_some() { "│" } else { " " };
    for setting in &node.settings {
        let line = format!("{indent}{bar}    {} = {}", setting.key, setting.value);
        out.push((line, setting.source.to_string()));
    }
    for (index, delegate) in node.delegates.iter().enumerate() {
        let last = Some(index) == last_delegate;
        let branch = if last { "└─" } else { "├─" };
        out.push((
            format!("{indent}{branch} {}", delegate.head()),
            delegate.source.to_string(),
        ));
        let below = format!("{indent}{}", if last { "   " } else { "│  " });
        draw_below(delegate, &below, out);
    }
}

/// Puts the right-hand column where it can be read.
pub(crate) fn align(rows: &[(String, String)]) -> String {
    const WIDEST: usize = 72;
    let width = |text: &str| text.chars().count();
    let column = rows
        .iter()
        .map(|(left, _)| width(left))
        .filter(|w| *w <= WIDEST)
        .max()
        .unwrap_or(0);
    let mut text = String::new();
    for (left, right) in rows {
        let gap = column.saturating_sub(width(left)) + 3;
        let _ = if right.is_empty() {
            writeln!(text, "{left}")
        } else {
            writeln!(text, "{left}{:gap$}{right}", "")
        };
    }
    text
}
