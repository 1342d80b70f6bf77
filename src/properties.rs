//! Java `.properties`: what users configure Kafka clients with, read as `java.util.Properties.load`
//! reads it, with the file and line of each entry kept.
//!
//! Where the reading differs from Java's, it does so on purpose:
//!
//! * All malformed `\u` escapes of a file are reported, each with its line; Java stops at the first.
//! * An escape that is half of a surrogate pair is an error: a Rust string cannot hold it.
//! * Bytes that are not UTF-8 are an error with [`Charset::Utf8`]; Java's reader puts U+FFFD there.
//! * A byte order mark never becomes part of a key with [`Charset::Utf8`], nor in any file read by
//!   [`Properties::from_file_with`]. [`Properties::parse`] with [`Charset::Iso8859_1`] keeps it as
//!   three characters, as Java does.
//!
//! ```
//! use kafka_chain::properties::Properties;
//!
//! let properties: Properties = "group.id=orders\nsasl.password = ${env:PW}".parse()?;
//! let properties = properties.resolve_with(&|name| (name == "PW").then(|| "hunter2".into()))?;
//! assert_eq!(properties.value("sasl.password"), Some("hunter2"));
//! assert!(!format!("{properties:?}").contains("hunter2"));
//! # Ok::<(), kafka_chain::properties::Report>(())
//! ```

mod escape;
mod parse;
mod placeholders;
mod report;
mod secrets;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

pub use placeholders::MAX_RESOLVED_BYTES;
pub use report::{MAX_PROBLEMS, Origin, Problem, ProblemKind, Report};
pub use secrets::{REDACTED, is_secret_key, redacted};

/// The largest file that [`Properties::from_file`] reads, in bytes (4 MiB).
pub const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;

const UTF8_BOM: &[u8] = b"\xef\xbb\xbf";
const UTF16_BOMS: [&[u8]; 2] = [b"\xfe\xff", b"\xff\xfe"];

/// How the bytes of a `.properties` file become characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Charset {
    /// UTF-8, checked; a byte order mark at the start is dropped.
    #[default]
    Utf8,
    /// ISO-8859-1, as Java's `Properties.load(InputStream)` reads: every byte is one character.
    Iso8859_1,
}

/// One entry of [`Properties`].
///
/// `Debug` shows the value as [`Property::shown`] does.
#[derive(Clone, PartialEq, Eq)]
pub struct Property {
    /// The key, escapes decoded.
    pub key: String,
    /// The value, escapes decoded; blanks at its end are kept. Not for printing.
    pub value: String,
    /// Where the entry was written.
    pub origin: Origin,
    /// Whether the value must not be printed: [`is_secret_key`] says so, or it came from a
    /// placeholder.
    pub secret: bool,
}

impl Property {
    /// An entry that is secret if its key says so.
    pub fn new(key: impl Into<String>, value: impl Into<String>, origin: Origin) -> Self {
        let key = key.into();
        let secret = is_secret_key(&key);
        Self {
            key,
            value: value.into(),
            origin,
            secret,
        }
    }

    /// The value as it may be printed: [`REDACTED`] if it is secret, else what [`redacted`] leaves.
    pub fn shown(&self) -> Cow<'_, str> {
        if self.secret {
            Cow::Borrowed(REDACTED)
        } else {
            redacted(&self.key, &self.value)
        }
    }
}

impl fmt::Debug for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Property")
            .field("key", &secrets::shown_key(&self.key))
            .field("value", &self.shown())
            .field("origin", &format_args!("{}", self.origin))
            .finish()
    }
}

/// Entries in the order they were written; of entries with equal keys the last one counts, at the
/// last one's place. Keys are case-sensitive.
#[derive(Clone, Default)]
pub struct Properties {
    entries: BTreeMap<u64, Property>,
    places: HashMap<String, u64>,
    next_place: u64,
    warnings: Vec<Problem>,
}

impl Properties {
    /// No entries.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads a whole file that is in memory already. `file_name` is what origins and errors say.
    ///
    /// Time and memory are linear in the input.
    ///
    /// # Errors
    ///
    /// Every malformed `\u` escape ([`ProblemKind::MalformedUnicodeEscape`]), every half of a
    /// surrogate pair ([`ProblemKind::UnpairedSurrogate`]) and every line that is not UTF-8
    /// ([`ProblemKind::InvalidUtf8`]).
    pub fn parse(
        bytes: &[u8],
        charset: Charset,
        file_name: impl Into<Arc<str>>,
    ) -> Result<Self, Report> {
        parse::parse(bytes, charset, file_name.into())
    }

    /// Reads a UTF-8 file: [`Properties::from_file_with`] and [`Charset::Utf8`].
    ///
    /// # Errors
    ///
    /// As [`Properties::from_file_with`].
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, Report> {
        Self::from_file_with(path, Charset::Utf8)
    }

    /// Reads a file; origins name it as `path` does. A UTF-8 byte order mark is dropped whatever
    /// the charset, with a warning if the charset is not UTF-8.
    ///
    /// # Errors
    ///
    /// [`ProblemKind::Io`] if the file cannot be read, is larger than [`MAX_FILE_BYTES`] or starts
    /// with the byte order mark of UTF-16; otherwise as [`Properties::parse`].
    pub fn from_file_with(path: impl AsRef<Path>, charset: Charset) -> Result<Self, Report> {
        let (properties, report) = Self::read_file(path.as_ref(), charset)?;
        report.into_result(properties)
    }

    /// The entries of a file with the mistakes of its syntax.
    pub(crate) fn read_file(path: &Path, charset: Charset) -> Result<(Self, Report), Report> {
        let origin = Origin {
            file: path.display().to_string().into(),
            line: None,
        };
        let refused =
            |message: String| Report::from(Problem::of(ProblemKind::Io, message).at(&origin));
        let mut bytes = Vec::new();
        File::open(path)
            .and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes))
            .map_err(|error| refused(format!("cannot be read: {error}")))?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(refused(format!("is larger than {MAX_FILE_BYTES} bytes")));
        }
        if UTF16_BOMS.iter().any(|bom| bytes.starts_with(bom)) {
            return Err(refused("is UTF-16; save it as UTF-8".into()));
        }
        let content = bytes.strip_prefix(UTF8_BOM);
        let marked = content.is_some();
        let content = content.unwrap_or(&bytes);
        let (mut read, report) = parse::parse_all(content, charset, origin.file.clone());
        if marked && charset != Charset::Utf8 {
            let message = "starts with the byte order mark of UTF-8 but is read as ISO-8859-1";
            read.warn(Problem::new(message).at(&origin));
        }
        Ok((read, report))
    }

    /// The entry of a key.
    pub fn get(&self, key: &str) -> Option<&Property> {
        self.entries.get(self.places.get(key)?)
    }

    /// The value of a key.
    pub fn value(&self, key: &str) -> Option<&str> {
        self.get(key).map(|property| property.value.as_str())
    }

    /// Whether there is an entry with this key.
    pub fn contains(&self, key: &str) -> bool {
        self.places.contains_key(key)
    }

    /// The entries in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Property> + ExactSizeIterator {
        self.entries.values()
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Sets a value by program; its origin prints as `<code>`. Replaces an entry silently.
    pub fn set(&mut self, key: impl Into<String>, value: impl Into<String>) {
        self.set_at(key, value, Origin::code());
    }

    /// Sets a value and says where it comes from. Replaces an entry silently.
    pub fn set_at(&mut self, key: impl Into<String>, value: impl Into<String>, origin: Origin) {
        self.put(Property::new(key, value, origin));
    }

    /// Takes an entry as it is, its mark as secret too, and returns the one it replaces.
    pub fn put(&mut self, property: Property) -> Option<Property> {
        let place = self.next_place;
        self.next_place += 1;
        let replaced = self
            .places
            .insert(property.key.clone(), place)
            .and_then(|earlier| self.entries.remove(&earlier));
        self.entries.insert(place, property);
        replaced
    }

    /// Takes out the entry of a key.
    pub fn remove(&mut self, key: &str) -> Option<Property> {
        let place = self.places.remove(key)?;
        self.entries.remove(&place)
    }

    /// Adds the entries and warnings of `other`, whose entries win.
    pub fn merge(&mut self, other: Properties) {
        for property in other.entries.into_values() {
            self.put(property);
        }
        for warning in other.warnings {
            self.warn(warning);
        }
    }

    /// What is allowed but likely a mistake, such as a key that a file has twice (the first
    /// [`MAX_PROBLEMS`]).
    pub fn warnings(&self) -> &[Problem] {
        &self.warnings
    }

    fn warn(&mut self, warning: Problem) {
        if self.warnings.len() < MAX_PROBLEMS {
            self.warnings.push(warning);
        }
    }

    /// Replaces `${env:NAME}` by an environment variable and `${file:/path:key}` by a value of
    /// another UTF-8 `.properties` file, in every value, as Kafka's configuration providers do
    /// (KIP-297, KIP-421, and KIP-887 for `env`). What is put in is not looked at again, and a
    /// value that had a placeholder is secret from then on. `${name}` without a colon, and braces with
    /// anything but a name before the colon, are left as they are.
    ///
    /// # Errors
    ///
    /// All placeholders that name something missing or a provider that is not known
    /// ([`ProblemKind::Placeholder`]), and what is wrong with the files they name. More than
    /// [`MAX_RESOLVED_BYTES`] put in is refused.
    pub fn resolve(self) -> Result<Self, Report> {
        self.resolve_with(&|name| std::env::var(name).ok())
    }

    /// [`Properties::resolve`] with environment variables looked up through `env`.
    ///
    /// # Errors
    ///
    /// As [`Properties::resolve`].
    pub fn resolve_with(self, env: &dyn Fn(&str) -> Option<String>) -> Result<Self, Report> {
        placeholders::resolve(self, env)
    }

    /// The entries as Java's `Properties.store(OutputStream)` writes them, in order and without the
    /// date comment: one line each, ended by `\n`, ASCII only. Secrets are written out.
    pub fn to_java_string(&self) -> String {
        let mut text = String::new();
        for property in self.iter() {
            escape::escape(&property.key, true, &mut text);
            text.push('=');
            escape::escape(&property.value, false, &mut text);
            text.push('\n');
        }
        text
    }
}

impl fmt::Debug for Properties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self
            .iter()
            .map(|entry| (secrets::shown_key(&entry.key), entry.shown()));
        f.debug_map().entries(shown).finish()
    }
}

/// Entries set by program, as [`Properties::set`] sets them.
impl<K: Into<String>, V: Into<String>> FromIterator<(K, V)> for Properties {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let mut properties = Self::new();
        for (key, value) in pairs {
            properties.set(key, value);
        }
        properties
    }
}

/// Reads `.properties` text; origins name it `<text>`.
impl FromStr for Properties {
    type Err = Report;

    fn from_str(text: &str) -> Result<Self, Report> {
        Self::parse(text.as_bytes(), Charset::Utf8, "<text>")
    }
}
