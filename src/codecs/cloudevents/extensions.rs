//! Extension attributes: names of the producer's choosing, with values of a few types.

use super::attributes::{SpecVersion, check_extension, check_name};
use super::canonical;
use super::error::{EventError, Reason};
use crate::headers::{HeaderRef, HeaderView};
use std::borrow::Cow;
use std::fmt;

/// How many extensions are compared with each other one by one, to find repeated names.
pub(super) const FEW: usize = 16;

/// The value of an extension.
///
/// Headers and JSON carry no types but these: a URI, a time or, in binary mode, a number, arrives
/// as [`String`](ExtensionValue::String), and its reader says what it should be (see
/// [`canonical`](super::canonical)).
#[derive(Clone, PartialEq, Eq)]
pub enum ExtensionValue<'a> {
    /// Text.
    String(Cow<'a, str>),
    /// A number of 32 bits.
    Integer(i32),
    /// True or false.
    Boolean(bool),
    /// Bytes, which are written as base64 and read as its text.
    Bytes(Cow<'a, [u8]>),
}

impl ExtensionValue<'_> {
    /// The same value, borrowed from this one.
    pub fn borrowed(&self) -> ExtensionValue<'_> {
        match self {
            ExtensionValue::String(text) => ExtensionValue::String(Cow::Borrowed(text)),
            ExtensionValue::Integer(number) => ExtensionValue::Integer(*number),
            ExtensionValue::Boolean(flag) => ExtensionValue::Boolean(*flag),
            ExtensionValue::Bytes(bytes) => ExtensionValue::Bytes(Cow::Borrowed(bytes)),
        }
    }

    /// The number, also from its canonical text.
    pub fn as_integer(&self) -> Option<i32> {
        match self {
            ExtensionValue::Integer(number) => Some(*number),
            ExtensionValue::String(text) => canonical::parse_integer(text),
            _ => None,
        }
    }

    /// The flag, also from its canonical text.
    pub fn as_boolean(&self) -> Option<bool> {
        match self {
            ExtensionValue::Boolean(flag) => Some(*flag),
            ExtensionValue::String(text) => canonical::boolean(text).ok(),
            _ => None,
        }
    }
}

impl<'a> ExtensionValue<'a> {
    /// The canonical text, as binary mode writes it.
    pub fn into_text(self) -> Cow<'a, str> {
        match self {
            ExtensionValue::String(text) => text,
            ExtensionValue::Integer(number) => Cow::Owned(number.to_string()),
            ExtensionValue::Boolean(true) => Cow::Borrowed("true"),
            ExtensionValue::Boolean(false) => Cow::Borrowed("false"),
            ExtensionValue::Bytes(bytes) => Cow::Owned(canonical::format_binary(&bytes)),
        }
    }
}

impl fmt::Debug for ExtensionValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExtensionValue::String(text) => write!(f, "string({})", text.len()),
            ExtensionValue::Integer(_) => f.write_str("integer"),
            ExtensionValue::Boolean(_) => f.write_str("boolean"),
            ExtensionValue::Bytes(bytes) => write!(f, "bytes({})", bytes.len()),
        }
    }
}

impl<'a> From<&'a str> for ExtensionValue<'a> {
    fn from(text: &'a str) -> Self {
        ExtensionValue::String(Cow::Borrowed(text))
    }
}

impl From<String> for ExtensionValue<'_> {
    fn from(text: String) -> Self {
        ExtensionValue::String(Cow::Owned(text))
    }
}

impl From<i32> for ExtensionValue<'_> {
    fn from(number: i32) -> Self {
        ExtensionValue::Integer(number)
    }
}

impl From<bool> for ExtensionValue<'_> {
    fn from(flag: bool) -> Self {
        ExtensionValue::Boolean(flag)
    }
}

impl<'a> From<&'a [u8]> for ExtensionValue<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        ExtensionValue::Bytes(Cow::Borrowed(bytes))
    }
}

/// How many headers [`At`] points to.
pub(super) const INLINE: usize = 4;

/// Where in a record's headers the extensions are.
#[derive(Clone, Copy, Default)]
pub(super) struct At {
    indices: [u16; INLINE],
    len: u8,
}

impl At {
    /// Remembers one more; `false` if it is one too many or too far away.
    #[inline]
    pub(super) fn push(&mut self, index: usize) -> bool {
        match (
            self.indices.get_mut(usize::from(self.len)),
            u16::try_from(index),
        ) {
            (Some(slot), Ok(index)) => {
                *slot = index;
                self.len += 1;
                true
            }
            _ => false,
        }
    }
}

pub(super) type Named<'a> = (Cow<'a, str>, ExtensionValue<'a>);

/// The extensions of an event: checked, each name once.
#[derive(Clone)]
pub(super) enum Extensions<'a> {
    /// Left where they are: headers that were found valid, none of them twice.
    Headers(HeaderView<'a>, At),
    /// Collected.
    List(Vec<Named<'a>>),
}

impl<'a> Extensions<'a> {
    /// Checks a list and refuses repeated names.
    pub(super) fn checked(list: Vec<Named<'a>>, version: SpecVersion) -> Result<Self, EventError> {
        for (name, value) in &list {
            if version.defines(name.as_bytes()) {
                return Err(EventError::of(
                    Reason::InvalidName,
                    name,
                    "is no extension: the specification defines it",
                ));
            }
            check_name(version, name)?;
            check_extension(name, value)?;
        }
        Self::distinct(list)
    }

    /// Refuses repeated names in a list that is checked otherwise.
    pub(super) fn distinct(mut list: Vec<Named<'a>>) -> Result<Self, EventError> {
        match repeated(&mut list) {
            None => Ok(Extensions::List(list)),
            Some(name) => Err(EventError::of(
                Reason::DuplicateAttribute,
                &name,
                "is there twice",
            )),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, ExtensionValue<'_>)> {
        let (headers, list) = match self {
            Extensions::Headers(headers, at) => (Some((*headers, at)), &[][..]),
            Extensions::List(list) => (None, list.as_slice()),
        };
        let headers = headers.into_iter().flat_map(|(headers, at)| {
            let indices = at.indices.iter().take(usize::from(at.len));
            indices.filter_map(move |&index| of_header(headers.get(usize::from(index))?))
        });
        let list = list.iter().map(|(name, value)| (&**name, value.borrowed()));
        headers.chain(list)
    }
}

/// The extension that a header is.
#[inline]
fn of_header<'a>((name, value): HeaderRef<'a>) -> Option<(&'a str, ExtensionValue<'a>)> {
    let name = std::str::from_utf8(name.strip_prefix(b"ce_")?).ok()?;
    let text = std::str::from_utf8(value?).ok()?;
    Some((name, ExtensionValue::String(Cow::Borrowed(text))))
}

/// A name that the list has twice. Sorts a long list, so that no input makes this slow.
fn repeated(list: &mut [Named<'_>]) -> Option<String> {
    if list.len() > FEW {
        list.sort_by(|(a, _), (b, _)| a.cmp(b));
        let pair = list.windows(2).find(|pair| match pair {
            [(a, _), (b, _)] => a == b,
            _ => false,
        });
        return pair?.first().map(|(name, _)| name.to_string());
    }
    let mut rest = &*list;
    while let Some(((name, _), after)) = rest.split_first() {
        if after.iter().any(|(other, _)| other == name) {
            return Some(name.to_string());
        }
        rest = after;
    }
    None
}
