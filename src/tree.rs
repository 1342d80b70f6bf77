//! The one-line form of a chain: `exception-handling(retry(pipe(aes-gcm, cloudevents)))`.

use std::fmt;
use std::str::FromStr;

/// How deep a chain may nest, the innermost part counted.
pub const MAX_DEPTH: usize = 32;

/// How long the one-line form of a chain may be, in bytes.
pub const MAX_LENGTH: usize = 64 * 1024;

/// A chain as a tree of type names, as it is written in properties and as it prints itself.
///
/// Grammar: `tree = name ['#' label] ['(' tree {',' tree} ')']`, where a name is of
/// `[A-Za-z0-9_.$-]` and a label of `[A-Za-z0-9_-]`; spaces are free; at most [`MAX_DEPTH`] deep.
/// What a tree of plain names prints parses to the same tree.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tree {
    /// The type: a name as it was written, or `<name>` for a part that has none in properties.
    pub name: String,
    /// The name a user gave this part, to tell it from another of its type.
    pub label: Option<String>,
    /// What it wraps, in the direction of the data.
    pub delegates: Vec<Tree>,
}

impl Tree {
    /// A part without delegates.
    pub fn leaf(name: impl Into<String>) -> Self {
        Tree {
            name: name.into(),
            label: None,
            delegates: Vec::new(),
        }
    }

    /// A part around `delegates`.
    pub fn of(name: impl Into<String>, delegates: impl IntoIterator<Item = Tree>) -> Self {
        Tree {
            name: name.into(),
            label: None,
            delegates: delegates.into_iter().collect(),
        }
    }

    /// A part that properties cannot name, such as a closure: prints as `<name>`.
    ///
    /// Of a Rust path only the last segment is shown.
    pub fn opaque(name: &str) -> Self {
        let plain = name.split('<').next().unwrap_or(name);
        let last = plain
            .rsplit("::")
            .find(|part| !part.is_empty())
            .unwrap_or(plain);
        Tree::leaf(format!("<{last}>"))
    }

    /// The same part under a label.
    #[must_use]
    pub fn labelled(mut self, label: Option<String>) -> Self {
        self.label = label;
        self
    }

    /// What the part is called in stage paths and keys: its label, else its name.
    pub fn node_name(&self) -> &str {
        self.label.as_deref().unwrap_or(&self.name)
    }

    /// The name and label as they are written: `retry#kms`.
    pub fn head(&self) -> String {
        match &self.label {
            Some(label) => format!("{}#{label}", self.name),
            None => self.name.clone(),
        }
    }

    /// The deepest nesting, 1 for a leaf.
    pub fn depth(&self) -> usize {
        1 + self.delegates.iter().map(Tree::depth).max().unwrap_or(0)
    }
}

impl fmt::Display for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if let Some(label) = &self.label {
            write!(f, "#{label}")?;
        }
        for (index, delegate) in self.delegates.iter().enumerate() {
            write!(f, "{}{delegate}", if index == 0 { "(" } else { ", " })?;
        }
        if !self.delegates.is_empty() {
            f.write_str(")")?;
        }
        Ok(())
    }
}

/// Why a text is not the one-line form of a chain, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} at character {position}")]
pub struct TreeError {
    /// What is wrong.
    pub message: String,
    /// Where, counted in characters from 1.
    pub position: usize,
}

impl FromStr for Tree {
    type Err = TreeError;

    fn from_str(text: &str) -> Result<Self, TreeError> {
        if text.len() > MAX_LENGTH {
            let message = format!("the expression is longer than {MAX_LENGTH} bytes");
            return Err(TreeError {
                message,
                position: 1,
            });
        }
        let mut parser = Parser { text, rest: text };
        let tree = parser.tree(1)?;
        match parser.peek() {
            None => Ok(tree),
            Some(')') => Err(parser.error("this `)` closes nothing")),
            Some(other) => Err(parser.error(format!("unexpected `{other}` after the chain"))),
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    rest: &'a str,
}

impl Parser<'_> {
    fn error(&self, message: impl Into<String>) -> TreeError {
        let consumed = self
            .text
            .get(..self.text.len() - self.rest.len())
            .unwrap_or(self.text);
        TreeError {
            message: message.into(),
            position: consumed.chars().count() + 1,
        }
    }

    /// The next character that is not blank, left in place.
    fn peek(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start();
        self.rest.chars().next()
    }

    fn eat(&mut self, expected: char) -> bool {
        let found = self.peek() == Some(expected);
        if found {
            self.rest = self.rest.strip_prefix(expected).unwrap_or(self.rest);
        }
        found
    }

    fn word(&mut self, allowed: fn(char) -> bool) -> String {
        self.peek();
        let end = self.rest.find(|c| !allowed(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word.to_owned()
    }

    fn tree(&mut self, depth: usize) -> Result<Tree, TreeError> {
        if depth > MAX_DEPTH {
            return Err(self.error(format!("the chain nests deeper than {MAX_DEPTH}")));
        }
        let name = self.word(|c| c.is_ascii_alphanumeric() || "_.$-".contains(c));
        if name.is_empty() {
            return Err(match self.peek() {
                Some(other) => self.error(format!("expected a type name, found `{other}`")),
                None => self.error("expected a type name, found the end"),
            });
        }
        let label = if self.eat('#') {
            let label = self.word(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
            if label.is_empty() {
                return Err(self.error("expected a label of letters, digits, `_` or `-` after `#`"));
            }
            Some(label)
        } else {
            None
        };
        let mut delegates = Vec::new();
        if self.eat('(') {
            loop {
                delegates.push(self.tree(depth + 1)?);
                if self.eat(',') {
                    continue;
                }
                if self.eat(')') {
                    break;
                }
                return Err(match self.peek() {
                    Some(other) => self.error(format!("expected `,` or `)`, found `{other}`")),
                    None => self.error("a `(` is never closed"),
                });
            }
        }
        Ok(Tree {
            name,
            label,
            delegates,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<Tree, String> {
        text.parse::<Tree>().map_err(|error| error.to_string())
    }

    #[test]
    fn spaces_are_free_and_labels_are_kept() {
        let tree = parse(" retry # kms ( pipe( aes-gcm ,\tcloudevents ) ) ").unwrap();
        assert_eq!(tree.to_string(), "retry#kms(pipe(aes-gcm, cloudevents))");
        assert_eq!(tree.node_name(), "kms");
        assert_eq!(tree.depth(), 3);
    }

    #[test]
    fn mistakes_say_what_and_where() {
        let cases = [
            ("", "expected a type name, found the end at character 1"),
            ("retry()", "expected a type name, found `)` at character 7"),
            ("retry(json", "a `(` is never closed at character 11"),
            ("retry(json))", "this `)` closes nothing at character 12"),
            ("pipe(a b)", "expected `,` or `)`, found `b` at character 8"),
            ("pipe(a,)", "expected a type name, found `)` at character 8"),
            (
                "retry#(a)",
                "expected a label of letters, digits, `_` or `-` after `#` at character 7",
            ),
            ("é", "expected a type name, found `é` at character 1"),
        ];
        for (text, message) in cases {
            assert_eq!(parse(text).unwrap_err(), message, "{text}");
        }
    }

    #[test]
    fn thirty_two_deep_is_allowed_and_one_more_is_not() {
        let nest = |depth: usize| format!("{}x{}", "r(".repeat(depth - 1), ")".repeat(depth - 1));
        assert_eq!(parse(&nest(32)).unwrap().depth(), 32);
        assert!(parse(&nest(33)).unwrap_err().contains("deeper than 32"));
        assert!(
            parse(&"r(".repeat(30_000))
                .unwrap_err()
                .contains("deeper than 32")
        );
    }

    #[test]
    fn a_rust_type_prints_by_its_last_segment() {
        assert_eq!(
            Tree::opaque("my::keys::Vault<alloc::string::String>").to_string(),
            "<Vault>"
        );
    }

    fn trees() -> impl Strategy<Value = Tree> {
        let head = (
            "[A-Za-z0-9_.$-]{1,12}",
            proptest::option::of("[A-Za-z0-9_-]{1,8}"),
        );
        let leaf = head
            .clone()
            .prop_map(|(name, label)| Tree::leaf(name).labelled(label));
        leaf.prop_recursive(6, 48, 4, move |inner| {
            (head.clone(), proptest::collection::vec(inner, 0..4))
                .prop_map(|((name, label), delegates)| Tree::of(name, delegates).labelled(label))
        })
    }

    proptest! {
        #[test]
        fn what_a_tree_prints_parses_to_the_same_tree(tree in trees()) {
            prop_assert_eq!(parse(&tree.to_string()).unwrap(), tree);
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,64}") {
            let _ = parse(&text);
        }
    }
}
