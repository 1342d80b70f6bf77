//! The headers of a record: an ordered multi-map of name → bytes or null.

use bytes::Bytes;
use std::fmt;

/// One header as seen on a record: its name (bytes, for Kafka does not promise UTF-8) and its
/// value, where null is not empty.
pub type HeaderRef<'a> = (&'a [u8], Option<&'a [u8]>);

/// Where the headers of a record are held. A transport implements this over what its client
/// library holds, so that reading a header copies nothing.
pub trait HeaderSource: Sync {
    /// The header at `index`, in the order of the record; `None` past the end.
    fn get(&self, index: usize) -> Option<HeaderRef<'_>>;

    /// How many headers there are.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The last header of this name: `None` when absent, `Some(None)` when its value is null.
    ///
    /// Names are compared byte for byte, case included, as Kafka does.
    fn get_last(&self, name: &[u8]) -> Option<Option<&[u8]>> {
        (0..self.len())
            .rev()
            .find_map(|index| match self.get(index) {
                Some((found, value)) if found == name => Some(value),
                _ => None,
            })
    }
}

impl HeaderSource for () {
    fn get(&self, _: usize) -> Option<HeaderRef<'_>> {
        None
    }

    fn len(&self) -> usize {
        0
    }
}

impl<N: AsRef<[u8]> + Sync, V: AsRef<[u8]> + Sync> HeaderSource for [(N, Option<V>)] {
    fn get(&self, index: usize) -> Option<HeaderRef<'_>> {
        self.get(index)
            .map(|(name, value)| (name.as_ref(), value.as_ref().map(AsRef::as_ref)))
    }

    fn len(&self) -> usize {
        self.len()
    }
}

impl<N: AsRef<[u8]> + Sync, V: AsRef<[u8]> + Sync, const COUNT: usize> HeaderSource
    for [(N, Option<V>); COUNT]
{
    fn get(&self, index: usize) -> Option<HeaderRef<'_>> {
        HeaderSource::get(self.as_slice(), index)
    }

    fn len(&self) -> usize {
        COUNT
    }
}

/// A borrowed, ordered view of a record's headers. Copying it is free.
#[derive(Clone, Copy)]
pub struct HeaderView<'a>(&'a (dyn HeaderSource + 'a));

impl<'a> HeaderView<'a> {
    /// A view of `source`.
    pub fn new(source: &'a (dyn HeaderSource + 'a)) -> Self {
        HeaderView(source)
    }

    /// No headers.
    pub const fn empty() -> HeaderView<'static> {
        HeaderView(&())
    }

    /// The header at `index`, in the order of the record.
    pub fn get(self, index: usize) -> Option<HeaderRef<'a>> {
        self.0.get(index)
    }

    /// How many headers there are.
    pub fn len(self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The last header of this name: absent, null and empty are three answers (`None`,
    /// `Some(None)`, `Some(Some(b""))`).
    pub fn get_last(self, name: impl AsRef<[u8]>) -> Option<Option<&'a [u8]>> {
        self.0.get_last(name.as_ref())
    }

    /// All headers in the order of the record, nulls and repeats included.
    pub fn iter(self) -> impl Iterator<Item = HeaderRef<'a>> {
        (0..self.0.len()).filter_map(move |index| self.0.get(index))
    }

    /// An owned copy.
    pub fn to_owned(self) -> Headers {
        let mut headers = Headers::with_capacity(self.len());
        for (name, value) in self.iter() {
            headers.push(
                Bytes::copy_from_slice(name),
                value.map(Bytes::copy_from_slice),
            );
        }
        headers
    }
}

impl Default for HeaderView<'_> {
    fn default() -> Self {
        Self::empty()
    }
}

impl fmt::Debug for HeaderView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        debug_headers(self.iter(), f)
    }
}

/// An owned, ordered multi-map of name → bytes or null.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Headers(Vec<(Bytes, Option<Bytes>)>);

impl Headers {
    /// No headers.
    pub const fn new() -> Self {
        Headers(Vec::new())
    }

    /// No headers yet, with room for `capacity`.
    pub fn with_capacity(capacity: usize) -> Self {
        Headers(Vec::with_capacity(capacity))
    }

    /// Adds a header after all others; a name may repeat.
    pub fn push(&mut self, name: impl Into<Bytes>, value: Option<impl Into<Bytes>>) {
        self.0.push((name.into(), value.map(Into::into)));
    }

    /// Removes every header of this name.
    pub fn remove(&mut self, name: impl AsRef<[u8]>) {
        self.0.retain(|(found, _)| found != name.as_ref());
    }

    /// Adds all headers of `other` after ours, in their order.
    ///
    /// Allocates nothing when either has none.
    pub fn append(&mut self, mut other: Headers) {
        if self.0.is_empty() {
            *self = other;
        } else {
            self.0.append(&mut other.0);
        }
    }

    /// A borrowed view.
    pub fn view(&self) -> HeaderView<'_> {
        HeaderView(self)
    }

    /// Name and value of each header, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&Bytes, Option<&Bytes>)> {
        self.0.iter().map(|(name, value)| (name, value.as_ref()))
    }
}

impl HeaderSource for Headers {
    fn get(&self, index: usize) -> Option<HeaderRef<'_>> {
        HeaderSource::get(self.0.as_slice(), index)
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

impl<N: Into<Bytes>, V: Into<Bytes>> FromIterator<(N, Option<V>)> for Headers {
    fn from_iter<I: IntoIterator<Item = (N, Option<V>)>>(headers: I) -> Self {
        Headers(
            headers
                .into_iter()
                .map(|(n, v)| (n.into(), v.map(Into::into)))
                .collect(),
        )
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        debug_headers(self.view().iter(), f)
    }
}

/// Prints names and value lengths: header values are payload too.
fn debug_headers<'a>(
    headers: impl Iterator<Item = HeaderRef<'a>>,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    f.debug_map()
        .entries(headers.map(|(name, value)| {
            (
                String::from_utf8_lossy(name).into_owned(),
                Size(value.map(<[u8]>::len)),
            )
        }))
        .finish()
}

/// How many bytes there are, for a `Debug` that may not show them.
pub(crate) struct Size(pub(crate) Option<usize>);

impl fmt::Debug for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(len) => write!(f, "{len} bytes"),
            None => f.write_str("null"),
        }
    }
}
