//! What is wrong with a configuration, and where.

use std::fmt;
use std::sync::{Arc, LazyLock};

use super::secrets::{REDACTED, shown_key};

/// How many problems a [`Report`] keeps; further ones are only counted.
pub const MAX_PROBLEMS: usize = 1000;

static CODE: LazyLock<Arc<str>> = LazyLock::new(|| "<code>".into());

/// Where a value was written. Prints as `consumer.properties:12`, as `consumer.properties` without a
/// line, and as `<code>` for a value that was set by program.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    /// The file as the user named it.
    pub file: Arc<str>,
    /// The physical line, from 1.
    pub line: Option<u32>,
}

impl Origin {
    /// The origin of what a program sets.
    pub fn code() -> Self {
        Self {
            file: CODE.clone(),
            line: None,
        }
    }

    /// A whole file.
    pub fn file(name: impl Into<Arc<str>>) -> Self {
        Self {
            file: name.into(),
            line: None,
        }
    }

    /// A line of a file, from 1.
    pub fn line(file: impl Into<Arc<str>>, line: u32) -> Self {
        Self {
            file: file.into(),
            line: Some(line),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", OneLine(&self.file))?;
        match self.line {
            Some(line) => write!(f, ":{line}"),
            None => Ok(()),
        }
    }
}

/// What a [`Problem`] is about, for programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProblemKind {
    /// `\u` without four hexadecimal digits after it.
    MalformedUnicodeEscape,
    /// A `\u` escape that is half of a surrogate pair.
    UnpairedSurrogate,
    /// Bytes that are not UTF-8.
    InvalidUtf8,
    /// A file that cannot be read, or not as text.
    Io,
    /// A key that a file has more than once.
    DuplicateKey,
    /// A placeholder that cannot be replaced.
    Placeholder,
    /// Anything else.
    #[default]
    Other,
}

/// One mistake of a configuration. Prints on one line, `Debug` too:
/// `consumer.properties:12: retry.deseriailzer.delegate: no part reads this key; did you mean
/// retry.deserializer.delegate?`
///
/// A message never holds a value that may be secret: whoever writes one quotes values only through
/// [`Property::shown`](super::Property::shown) or [`redacted`](super::redacted).
#[derive(Clone, PartialEq, Eq)]
pub struct Problem {
    /// What it is about.
    pub kind: ProblemKind,
    /// Where it is.
    pub origin: Option<Origin>,
    /// The key it is about.
    pub key: Option<String>,
    /// What is wrong.
    pub message: String,
    /// What was perhaps meant.
    pub suggestion: Option<String>,
}

impl Problem {
    /// A problem of kind [`ProblemKind::Other`].
    pub fn new(message: impl Into<String>) -> Self {
        Self::of(ProblemKind::Other, message)
    }

    /// A problem of a kind.
    pub fn of(kind: ProblemKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            origin: None,
            key: None,
            message: message.into(),
            suggestion: None,
        }
    }

    /// Says which key it is about.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Says where it is.
    #[must_use]
    pub fn at(mut self, origin: &Origin) -> Self {
        self.origin = Some(origin.clone());
        self
    }

    /// Says what was perhaps meant.
    #[must_use]
    pub fn suggest(mut self, suggestion: impl Into<String>) -> Self {
        self.suggestion = Some(suggestion.into());
        self
    }

    /// Puts [`REDACTED`] where the message quotes `value` or a part of it, between backticks.
    pub(crate) fn hide(&mut self, value: &str) {
        let whole = format!("`{}`", value.trim());
        let message = self.message.replace(&whole, &format!("`{REDACTED}`"));
        let parts = message.split('`').enumerate().map(|(index, part)| {
            let is_quoted = index % 2 == 1 && !part.is_empty();
            let is_secret = is_quoted && value.contains(part);
            if is_secret { REDACTED } else { part }
        });
        self.message = parts.collect::<Vec<_>>().join("`");
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(origin) = &self.origin {
            write!(f, "{origin}: ")?;
        }
        if let Some(key) = &self.key {
            write!(f, "{}: ", OneLine(shown_key(key)))?;
        }
        write!(f, "{}", OneLine(&self.message))?;
        match &self.suggestion {
            Some(suggestion) => write!(f, "; did you mean {}?", OneLine(suggestion)),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Problem {}

/// Text whose control characters are written as escapes, so that it stays on its line.
struct OneLine<'a>(&'a str);

impl fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        while let Some(at) = rest.find(char::is_control) {
            let (plain, from_control) = rest.split_at(at);
            let mut chars = from_control.chars();
            let escaped = chars.next().map(char::escape_default);
            write!(f, "{plain}")?;
            escaped.map_or(Ok(()), |escaped| write!(f, "{escaped}"))?;
            rest = chars.as_str();
        }
        f.write_str(rest)
    }
}

/// All mistakes of a configuration in one go. Prints, `Debug` too, as a header line and one indented
/// line for each problem, by file and line.
///
/// Equal problems are kept once, and no more than [`MAX_PROBLEMS`] of them: further ones are counted,
/// without looking whether they are equal.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Report {
    problems: Vec<Problem>,
    unlisted: usize,
}

impl Report {
    /// No problems.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a problem, unless there is an equal one.
    pub fn push(&mut self, problem: Problem) {
        if self.problems.len() >= MAX_PROBLEMS {
            self.unlisted = self.unlisted.saturating_add(1);
        } else if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    /// The problems, to change their texts.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Problem> {
        self.problems.iter_mut()
    }

    /// Adds all problems of another report.
    pub fn append(&mut self, other: Report) {
        self.extend(other.problems);
        self.unlisted = self.unlisted.saturating_add(other.unlisted);
    }

    /// Whether there are no problems.
    pub fn is_empty(&self) -> bool {
        self.problems.is_empty()
    }

    /// How many problems there are, those included that are only counted.
    pub fn len(&self) -> usize {
        self.problems.len().saturating_add(self.unlisted)
    }

    /// The problems kept, sorted by file and line; those without an origin come last.
    pub fn iter(&self) -> impl Iterator<Item = &Problem> {
        let mut sorted: Vec<&Problem> = self.problems.iter().collect();
        sorted.sort_by_key(|problem| {
            let origin = problem.origin.as_ref();
            (
                origin.is_none(),
                origin.map(|origin| (&origin.file, origin.line)),
            )
        });
        sorted.into_iter()
    }

    /// `value`, if there are no problems.
    ///
    /// # Errors
    ///
    /// This report, if there are.
    pub fn into_result<T>(self, value: T) -> Result<T, Report> {
        if self.is_empty() {
            Ok(value)
        } else {
            Err(self)
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.len() {
            1 => write!(f, "1 mistake in the configuration:")?,
            count => write!(f, "{count} mistakes in the configuration:")?,
        }
        for problem in self.iter() {
            write!(f, "\n  {problem}")?;
        }
        match self.unlisted {
            0 => Ok(()),
            count => write!(f, "\n  ... and {count} more"),
        }
    }
}

impl fmt::Debug for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Report {}

impl Extend<Problem> for Report {
    fn extend<I: IntoIterator<Item = Problem>>(&mut self, problems: I) {
        for problem in problems {
            self.push(problem);
        }
    }
}

impl FromIterator<Problem> for Report {
    fn from_iter<I: IntoIterator<Item = Problem>>(problems: I) -> Self {
        let mut report = Self::new();
        report.extend(problems);
        report
    }
}

impl From<Problem> for Report {
    fn from(problem: Problem) -> Self {
        Self::from_iter([problem])
    }
}
