//! What was consumed: a record, its headers, and the bytes in hand.

use bytes::Bytes;
use std::fmt;

/// Which half of a record a chain reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// The record's key.
    Key,
    /// The record's value.
    Value,
}

impl Part {
    /// `key` or `value`, the role prefix of property keys.
    pub const fn as_str(self) -> &'static str {
        match self {
            Part::Key => "key",
            Part::Value => "value",
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A record's timestamp in milliseconds since the Unix epoch, with who set it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Timestamp {
    /// The broker gave none.
    #[default]
    NotAvailable,
    /// Set by the producer.
    CreateTime(i64),
    /// Set by the broker when it appended the record.
    LogAppendTime(i64),
}

impl Timestamp {
    /// The milliseconds, if there are any.
    pub const fn millis(self) -> Option<i64> {
        match self {
            Timestamp::NotAvailable => None,
            Timestamp::CreateTime(millis) | Timestamp::LogAppendTime(millis) => Some(millis),
        }
    }

    /// The type under the name Kafka's tools use: `CreateTime`, `LogAppendTime` or
    /// `NoTimestampType`.
    pub const fn type_name(self) -> &'static str {
        match self {
            Timestamp::NotAvailable => "NoTimestampType",
            Timestamp::CreateTime(_) => "CreateTime",
            Timestamp::LogAppendTime(_) => "LogAppendTime",
        }
    }
}

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
struct Size(Option<usize>);

impl fmt::Debug for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(len) => write!(f, "{len} bytes"),
            None => f.write_str("null"),
        }
    }
}

/// A record as consumed, borrowed from whoever holds it.
#[derive(Clone, Copy)]
pub struct Record<'a> {
    /// The topic it was read from.
    pub topic: &'a str,
    /// The partition it was read from.
    pub partition: i32,
    /// Its offset in that partition.
    pub offset: i64,
    /// Its timestamp.
    pub timestamp: Timestamp,
    /// The raw key; null is not empty.
    pub key: Option<&'a [u8]>,
    /// The raw value; null (a tombstone) is not empty.
    pub value: Option<&'a [u8]>,
    /// All headers in order.
    pub headers: HeaderView<'a>,
}

impl<'a> Record<'a> {
    /// A record that came from no topic: for decoding bytes at hand. The other fields are public.
    pub const fn of_value(value: Option<&'a [u8]>) -> Self {
        Record {
            topic: "",
            partition: 0,
            offset: 0,
            timestamp: Timestamp::NotAvailable,
            key: None,
            value,
            headers: HeaderView::empty(),
        }
    }

    /// The raw bytes of one half.
    pub const fn part(&self, part: Part) -> Option<&'a [u8]> {
        match part {
            Part::Key => self.key,
            Part::Value => self.value,
        }
    }

    /// The context of one half, to deserialize it.
    pub const fn context(&'a self, part: Part) -> Context<'a> {
        Context { record: self, part }
    }

    /// A copy that owns everything.
    pub fn to_owned(&self) -> OwnedRecord {
        OwnedRecord {
            topic: self.topic.to_owned(),
            partition: self.partition,
            offset: self.offset,
            timestamp: self.timestamp,
            key: self.key.map(Bytes::copy_from_slice),
            value: self.value.map(Bytes::copy_from_slice),
            headers: self.headers.to_owned(),
        }
    }
}

impl fmt::Debug for Record<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record")
            .field("topic", &self.topic)
            .field("partition", &self.partition)
            .field("offset", &self.offset)
            .field("timestamp", &self.timestamp)
            .field("key", &Size(self.key.map(<[u8]>::len)))
            .field("value", &Size(self.value.map(<[u8]>::len)))
            .field("headers", &self.headers)
            .finish()
    }
}

/// A [`Record`] that owns its bytes. `Debug` shows sizes, never payloads.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct OwnedRecord {
    /// The topic it was read from.
    pub topic: String,
    /// The partition it was read from.
    pub partition: i32,
    /// Its offset in that partition.
    pub offset: i64,
    /// Its timestamp.
    pub timestamp: Timestamp,
    /// The raw key; null is not empty.
    pub key: Option<Bytes>,
    /// The raw value; null (a tombstone) is not empty.
    pub value: Option<Bytes>,
    /// All headers in order.
    pub headers: Headers,
}

impl OwnedRecord {
    /// The raw bytes of one half.
    pub fn part_bytes(&self, part: Part) -> Option<&[u8]> {
        match part {
            Part::Key => self.key.as_deref(),
            Part::Value => self.value.as_deref(),
        }
    }

    /// The record, borrowed.
    pub fn as_record(&self) -> Record<'_> {
        Record {
            topic: &self.topic,
            partition: self.partition,
            offset: self.offset,
            timestamp: self.timestamp,
            key: self.key.as_deref(),
            value: self.value.as_deref(),
            headers: self.headers.view(),
        }
    }
}

impl fmt::Debug for OwnedRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_record().fmt(f)
    }
}

/// Where a payload comes from: the record and which half of it. Decorators never alter it.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The record as consumed.
    pub record: &'a Record<'a>,
    /// The half the chain is reading.
    pub part: Part,
}

impl<'a> Context<'a> {
    /// The record's headers.
    pub fn headers(&self) -> HeaderView<'a> {
        self.record.headers
    }

    /// The raw payload of this half, as the first stage of a chain gets it.
    pub fn payload(&self) -> Payload<'a> {
        Payload::from(self.record.part(self.part))
    }
}

/// The bytes in hand. Cloning is free, or a reference count.
#[derive(Clone, Default)]
pub enum Payload<'a> {
    /// No bytes: a null key, a tombstone. Not the same as empty.
    #[default]
    Null,
    /// Bytes that live in the record.
    Borrowed(&'a [u8]),
    /// Bytes that a stage made.
    Shared(Bytes),
}

impl<'a> Payload<'a> {
    /// The bytes, or `None` for null.
    #[inline]
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Payload::Null => None,
            Payload::Borrowed(bytes) => Some(bytes),
            Payload::Shared(bytes) => Some(bytes),
        }
    }

    /// Owned bytes, or `None` for null; copies only borrowed ones.
    pub fn into_bytes(self) -> Option<Bytes> {
        match self {
            Payload::Null => None,
            Payload::Borrowed(bytes) => Some(Bytes::copy_from_slice(bytes)),
            Payload::Shared(bytes) => Some(bytes),
        }
    }

    /// Whether there are no bytes at all.
    #[inline]
    pub fn is_null(&self) -> bool {
        matches!(self, Payload::Null)
    }
}

impl<'a> From<Option<&'a [u8]>> for Payload<'a> {
    #[inline]
    fn from(bytes: Option<&'a [u8]>) -> Self {
        bytes.map_or(Payload::Null, Payload::Borrowed)
    }
}

impl<'a> From<&'a [u8]> for Payload<'a> {
    #[inline]
    fn from(bytes: &'a [u8]) -> Self {
        Payload::Borrowed(bytes)
    }
}

impl From<Bytes> for Payload<'_> {
    #[inline]
    fn from(bytes: Bytes) -> Self {
        Payload::Shared(bytes)
    }
}

impl From<Option<Bytes>> for Payload<'_> {
    #[inline]
    fn from(bytes: Option<Bytes>) -> Self {
        bytes.map_or(Payload::Null, Payload::Shared)
    }
}

impl fmt::Debug for Payload<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({:?})", Size(self.as_bytes().map(<[u8]>::len)))
    }
}
