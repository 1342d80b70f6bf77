//! Placeholders in values, as Kafka's configuration providers write them.
//!
//! What counts as one is Kafka's pattern `\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}`: provider, path if
//! there are two colons, and the rest.

use std::collections::HashMap;

use super::{Problem, ProblemKind, Properties, Property, Report};

/// How much placeholders may put in, all together, in bytes (16 MiB).
pub const MAX_RESOLVED_BYTES: usize = 16 * 1024 * 1024;

/// The longest name of a provider.
const MAX_PROVIDER_BYTES: usize = 64;

const KNOWN: &str = "the known ones are env (${env:NAME}) and file (${file:/path:key})";

/// See [`Properties::resolve`].
pub(super) fn resolve(
    properties: Properties,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Properties, Report> {
    let mut resolved = Properties::new();
    let mut sources = Sources {
        env,
        files: HashMap::new(),
        left: MAX_RESOLVED_BYTES,
        report: Report::new(),
    };
    let Properties {
        entries, warnings, ..
    } = properties;
    for mut property in entries.into_values() {
        if let Some(value) = sources.expand(&property) {
            property.value = value;
            property.secret = true;
        }
        resolved.put(property);
    }
    resolved.warnings = warnings;
    sources.report.into_result(resolved)
}

struct Sources<'a> {
    env: &'a dyn Fn(&str) -> Option<String>,
    /// None for a file that could not be read, which is in the report then.
    files: HashMap<String, Option<Properties>>,
    /// Bytes that may still be put in.
    left: usize,
    report: Report,
}

impl Sources<'_> {
    /// The value with its placeholders replaced; None if it has none.
    fn expand(&mut self, property: &Property) -> Option<String> {
        let mut expanded = String::new();
        let mut rest = property.value.as_str();
        let mut found = false;
        while let Some(start) = rest.find("${") {
            let (before, from_start) = rest.split_at(start);
            let Some((whole, after)) = from_start.split_once('}') else {
                break;
            };
            expanded.push_str(before);
            match placeholder(whole) {
                Some((provider, rest)) => {
                    found = true;
                    match self.look_up(provider, rest, property.secret) {
                        Ok(value) => expanded.push_str(&value),
                        Err(message) => self.report.push(
                            Problem::of(ProblemKind::Placeholder, message)
                                .key(&property.key)
                                .at(&property.origin),
                        ),
                    }
                }
                None => {
                    expanded.push_str(whole);
                    expanded.push('}');
                }
            }
            rest = after;
        }
        expanded.push_str(rest);
        found.then_some(expanded)
    }

    fn look_up(&mut self, provider: &str, rest: &str, secret: bool) -> Result<String, String> {
        let (path, name) = match rest.split_once(':') {
            Some((path, name)) => (path, name),
            None => ("", rest),
        };
        let value = match provider {
            "env" if !path.is_empty() => Err("${env:NAME} takes no path".to_owned()),
            "env" => (self.env)(name)
                .ok_or_else(|| format!("environment variable {name} is not set, or not Unicode")),
            "file" if path.is_empty() => Err("${file:/path:key} needs a path".to_owned()),
            "file" => self.look_up_in_file(path, name),
            // In a secret, what looks like a provider may be part of the secret.
            _ if secret => Err(format!("a placeholder of an unknown provider; {KNOWN}")),
            _ => Err(format!("no provider {provider:?}; {KNOWN}")),
        }?;
        self.left = self
            .left
            .checked_sub(value.len())
            .ok_or_else(|| format!("placeholders put in more than {MAX_RESOLVED_BYTES} bytes"))?;
        Ok(value)
    }

    fn look_up_in_file(&mut self, path: &str, key: &str) -> Result<String, String> {
        if !self.files.contains_key(path) {
            let read = match Properties::from_file(path) {
                Ok(properties) => Some(properties),
                Err(problems) => {
                    self.report.append(problems);
                    None
                }
            };
            self.files.insert(path.to_owned(), read);
        }
        match self.files.get(path) {
            Some(Some(properties)) => properties
                .value(key)
                .map(str::to_owned)
                .ok_or_else(|| format!("file {path} has no key {key}")),
            _ => Err(format!("file {path} cannot be used")),
        }
    }
}

/// The provider and the rest of `${provider:rest`. None for other text: without a colon, or with
/// something before it that cannot be meant as a provider's name, which Kafka leaves alone as well.
fn placeholder(text: &str) -> Option<(&str, &str)> {
    let (provider, rest) = text.strip_prefix("${")?.split_once(':')?;
    let name = provider.trim();
    let is_part = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    let is_name = !name.is_empty() && name.len() <= MAX_PROVIDER_BYTES && name.bytes().all(is_part);
    is_name.then_some((provider, rest))
}
