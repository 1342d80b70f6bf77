//! Which errors a decorator takes.

use crate::error::Error;
use crate::status::{ErrorKind, Status};
use crate::tree::Tree;
use std::fmt;
use std::sync::Arc;

/// Which errors a decorator takes; pluggable, also by name in properties.
///
/// KIP-873 calls it a functional interface, so any `Fn(&Error) -> bool` is one.
pub trait Matcher: Send + Sync {
    /// Whether the decorator takes `error`.
    fn matches(&self, error: &Error) -> bool;

    /// The matcher as properties write it: `any(status(exhausted), not(kind(decrypt)))`.
    fn describe(&self) -> Tree {
        Tree::opaque("matcher")
    }
}

impl<F: Fn(&Error) -> bool + Send + Sync> Matcher for F {
    fn matches(&self, error: &Error) -> bool {
        self(error)
    }

    fn describe(&self) -> Tree {
        Tree::opaque("closure")
    }
}

/// A matcher that can be shared and whose type is known at run time only.
#[derive(Clone)]
pub struct SharedMatcher(Arc<dyn Matcher>);

impl SharedMatcher {
    /// Shares `matcher`.
    pub fn new(matcher: impl Matcher + 'static) -> Self {
        SharedMatcher(Arc::new(matcher))
    }
}

#[deny(clippy::missing_trait_methods)]
impl Matcher for SharedMatcher {
    #[inline]
    fn matches(&self, error: &Error) -> bool {
        self.0.matches(error)
    }

    fn describe(&self) -> Tree {
        self.0.describe()
    }
}

impl fmt::Debug for SharedMatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.describe())
    }
}

#[derive(Clone, Debug)]
enum Rule {
    All,
    None,
    Status(Status),
    Kind(ErrorKind),
    Any(Vec<SharedMatcher>),
    Both(Vec<SharedMatcher>),
    Not(SharedMatcher),
}

impl Matcher for Rule {
    fn matches(&self, error: &Error) -> bool {
        match self {
            Rule::All => true,
            Rule::None => false,
            Rule::Status(status) => error.status() == *status,
            Rule::Kind(kind) => error.kind() == *kind,
            Rule::Any(list) => list.iter().any(|matcher| matcher.matches(error)),
            Rule::Both(list) => list.iter().all(|matcher| matcher.matches(error)),
            Rule::Not(matcher) => !matcher.matches(error),
        }
    }

    fn describe(&self) -> Tree {
        let each = |list: &[SharedMatcher]| list.iter().map(Matcher::describe).collect::<Vec<_>>();
        match self {
            Rule::All => Tree::leaf("all"),
            Rule::None => Tree::leaf("none"),
            Rule::Status(status) => Tree::of("status", [Tree::leaf(status.as_str())]),
            Rule::Kind(kind) => Tree::of("kind", [Tree::leaf(kind.as_str())]),
            Rule::Any(list) => Tree::of("any", each(list)),
            Rule::Both(list) => Tree::of("all", each(list)),
            Rule::Not(matcher) => Tree::of("not", [matcher.describe()]),
        }
    }
}

/// Every error: KIP-873's `MatchAllExceptions`.
pub fn all() -> SharedMatcher {
    SharedMatcher::new(Rule::All)
}

/// No error.
pub fn none() -> SharedMatcher {
    SharedMatcher::new(Rule::None)
}

/// Errors of this status.
pub fn status(status: Status) -> SharedMatcher {
    SharedMatcher::new(Rule::Status(status))
}

/// Errors of this kind.
pub fn kind(kind: ErrorKind) -> SharedMatcher {
    SharedMatcher::new(Rule::Kind(kind))
}

/// Errors that one of `matchers` takes.
pub fn any_of(matchers: impl IntoIterator<Item = SharedMatcher>) -> SharedMatcher {
    SharedMatcher::new(Rule::Any(matchers.into_iter().collect()))
}

/// Errors that each of `matchers` takes.
pub fn all_of(matchers: impl IntoIterator<Item = SharedMatcher>) -> SharedMatcher {
    SharedMatcher::new(Rule::Both(matchers.into_iter().collect()))
}

/// Errors that `matcher` does not take.
pub fn not(matcher: SharedMatcher) -> SharedMatcher {
    SharedMatcher::new(Rule::Not(matcher))
}

/// Errors that `predicate` takes, printed as `<name>`.
pub fn predicate(
    name: &str,
    predicate: impl Fn(&Error) -> bool + Send + Sync + 'static,
) -> SharedMatcher {
    struct Named<F>(Tree, F);
    impl<F: Fn(&Error) -> bool + Send + Sync> Matcher for Named<F> {
        fn matches(&self, error: &Error) -> bool {
            (self.1)(error)
        }

        fn describe(&self) -> Tree {
            self.0.clone()
        }
    }
    SharedMatcher::new(Named(Tree::opaque(name), predicate))
}

/// The matcher that a tree of the built-in words says: `all`, `none`, `status(…)`, `kind(…)`,
/// `any(…, …)`, `all(…, …)`, `not(…)`; what `named` knows comes before them. `names` are the names
/// that it knows, for the message about an unknown one.
///
/// # Errors
/// A sentence that says what is wrong and what would be right.
pub fn from_tree(
    tree: &Tree,
    named: &dyn Fn(&Tree) -> Option<Result<SharedMatcher, String>>,
    names: &[&str],
) -> Result<SharedMatcher, String> {
    if let Some(label) = &tree.label {
        return Err(format!(
            "a matcher takes no label, but `{}` has `#{label}`",
            tree.name
        ));
    }
    let inner = || -> Result<Vec<_>, String> {
        tree.delegates
            .iter()
            .map(|inner| from_tree(inner, named, names))
            .collect()
    };
    let word = || match tree.delegates.as_slice() {
        [word] if word.delegates.is_empty() && word.label.is_none() => Ok(word.name.as_str()),
        _ => Err(format!(
            "`{}` takes one word, as in `{0}({1})`",
            tree.name,
            example(&tree.name)
        )),
    };
    if let Some(found) = named(tree) {
        return found;
    }
    match (tree.name.as_str(), tree.delegates.len()) {
        ("all", 0) => Ok(all()),
        ("none", 0) => Ok(none()),
        ("none", _) => Err("`none` takes no arguments".to_owned()),
        ("any", 0) => Err("`any` needs at least one matcher, as in `any(kind(decrypt))`".into()),
        ("any", _) => inner().map(any_of),
        ("all", _) => inner().map(all_of),
        ("not", _) => match tree.delegates.as_slice() {
            [inner] => from_tree(inner, named, names).map(not),
            _ => Err("`not` takes one matcher, as in `not(kind(decrypt))`".to_owned()),
        },
        ("status", _) => {
            let word = word()?;
            Status::from_name(word)
                .map(status)
                .ok_or_else(|| unknown("status", word, Status::ALL.map(Status::as_str).as_slice()))
        }
        ("kind", _) => {
            let word = word()?;
            ErrorKind::from_name(word).map(kind).ok_or_else(|| {
                unknown(
                    "kind",
                    word,
                    ErrorKind::ALL.map(ErrorKind::as_str).as_slice(),
                )
            })
        }
        _ => {
            let mut known = vec!["all", "none", "status", "kind", "any", "not"];
            known.extend_from_slice(names);
            Err(unknown("matcher", &tree.name, &known))
        }
    }
}

fn example(name: &str) -> &'static str {
    if name == "status" {
        "exhausted"
    } else {
        "decrypt"
    }
}

fn unknown(what: &str, word: &str, known: &[&str]) -> String {
    let simple = word.rsplit(['.', '$']).next().unwrap_or(word);
    let near = known.iter().map(|name| (strsim::jaro(simple, name), name));
    let near = near.max_by(|a, b| a.0.total_cmp(&b.0));
    let suggestion = match near {
        Some((nearness, name)) if nearness > 0.8 => format!("; did you mean `{name}`?"),
        _ => String::new(),
    };
    let known = known.join(", ");
    format!("there is no {what} `{word}`; there are {known}{suggestion}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<SharedMatcher, String> {
        from_tree(&text.parse().unwrap(), &|_| None, &[])
    }

    #[test]
    fn words_say_which_errors_are_taken_and_print_as_written() {
        let temporary = Error::unavailable("down");
        let exhausted = Error::unavailable("down").with_status(Status::Exhausted);
        let decrypt = Error::decrypt("tag");
        let table = [
            ("all", [true, true, true]),
            ("none", [false, false, false]),
            ("status(exhausted)", [false, true, false]),
            ("kind(unavailable)", [true, true, false]),
            ("not(kind(decrypt))", [true, true, false]),
            ("any(status(exhausted), kind(decrypt))", [false, true, true]),
            (
                "all(status(temporary), kind(unavailable))",
                [true, false, false],
            ),
        ];
        for (text, expected) in table {
            let matcher = parse(text).unwrap();
            let taken = [&temporary, &exhausted, &decrypt].map(|error| matcher.matches(error));
            assert_eq!(taken, expected, "{text}");
            assert_eq!(matcher.describe().to_string(), text);
        }
    }

    #[test]
    fn a_wrong_word_names_the_right_ones() {
        let cases = [
            (
                "kind(decript)",
                "there is no kind `decript`; there are malformed, unsupported",
            ),
            (
                "status(fatal)",
                "there is no status `fatal`; there are temporary, permanent",
            ),
            (
                "kind(decrypt#x)",
                "`kind` takes one word, as in `kind(decrypt)`",
            ),
            ("kind", "`kind` takes one word, as in `kind(decrypt)`"),
            ("not(all, none)", "`not` takes one matcher"),
            (
                "every",
                "there is no matcher `every`; there are all, none, status",
            ),
            ("all#x", "a matcher takes no label"),
        ];
        for (text, message) in cases {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with(message), "{text}: {error}");
        }
    }

    #[test]
    fn a_function_is_a_matcher() {
        let quick = |error: &Error| error.attempts() < 3;
        assert!(SharedMatcher::new(quick).matches(&Error::decrypt("tag")));
        assert_eq!(predicate("quick", quick).describe().to_string(), "<quick>");
    }
}
