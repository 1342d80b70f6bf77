//! Lists in the format of Kafka's `ListSerializer` (KIP-466).
//!
//! ```text
//! constant: 00, int32 number of nulls, their int32 indexes, int32 number of entries, entries
//! variable: 01, int32 number of entries, for each int32 length (-1 is null) and bytes
//! ```
//!
//! Entries of a constant size have no length of their own and nulls among them no bytes. The first
//! byte says which form it is when read; what the entries are says it when written.
//!
//! Where released Java clients are at fault this follows their later corrections: a last entry cut
//! short is an error (Java filled it with zeros) and an empty one is read (Java could not;
//! KAFKA-20769), counts and lengths are held against the bytes that are there before anything is
//! allocated, and entries without a constant size in the constant form are an error. As in Java,
//! bytes after the last entry and indexes of nulls outside the list mean nothing.

mod entry;
mod frame;

pub use self::entry::{EntrySize, ListEntry};

use self::frame::{Entries, Written};
use super::primitives;
use crate::answer::{Answer, BoxFuture};
use crate::component::Component;
use crate::config::{KeySpec, Node, TypeSpec};
use crate::deserializer::{Deserializer, Input};
use crate::error::Result;
use crate::payload::Context;
use crate::serializer::{Encoded, Serializer, Target};
use crate::stage::Stage;
use crate::tree::Tree;

/// A list of what the delegate reads or writes.
///
/// Reading calls the delegate once an entry, in order, with a part of the payload that is not
/// copied, and with a null for an entry that is null. An error of an entry is the list's.
#[derive(Clone, Debug)]
pub struct List<C> {
    delegate: C,
    entry_size: Option<usize>,
}

/// The stage `list` around a codec of Kafka's or another list.
pub fn list<C: EntrySize>(delegate: C) -> Stage<List<C>> {
    let entry_size = delegate.entry_size();
    List::new(delegate, entry_size).stage()
}

impl<C> List<C> {
    /// A list around any delegate.
    ///
    /// `entry_size` is the number of bytes of every entry if Kafka writes this type without
    /// lengths, as [`entry_size`](super::entry_size) knows it by name; 0 is read as `None`.
    pub fn new(delegate: C, entry_size: Option<usize>) -> Self {
        let entry_size = entry_size.filter(|size| *size > 0);
        List {
            delegate,
            entry_size,
        }
    }

    /// This list as the stage `list`.
    pub fn stage(self) -> Stage<Self> {
        Stage::new("list", self)
    }
}

#[deny(clippy::missing_trait_methods)]
impl<C: Component> Component for List<C> {
    fn close(&self) -> Answer<'_, ()> {
        self.delegate.close()
    }

    fn describe(&self) -> Tree {
        Tree::of("list", [self.delegate.describe()])
    }
}

impl<D: Deserializer> Deserializer for List<D> {
    type Output = Option<Vec<D::Output>>;

    fn deserialize<'a>(&'a self, input: Input<'a>) -> Answer<'a, Self::Output> {
        let mut entries = match Entries::read(input.payload, self.entry_size) {
            Ok(Some(entries)) => entries,
            Ok(None) => return Answer::ok(None),
            Err(error) => return Answer::err(error),
        };
        let mut list = Vec::with_capacity(entries.left);
        while let Some(entry) = entries.next() {
            let answer = match entry {
                Ok(payload) => self.delegate.deserialize(Input {
                    payload,
                    context: input.context,
                }),
                Err(error) => return Answer::err(error),
            };
            match answer {
                Answer::Ready(Ok(value)) => list.push(value),
                Answer::Ready(Err(error)) => return Answer::err(error),
                Answer::Pending(first) => {
                    return Answer::pending(self.read_on(first, list, entries, input.context));
                }
            }
        }
        Answer::ok(Some(list))
    }
}

impl<D: Deserializer> List<D> {
    async fn read_on<'a>(
        &'a self,
        first: BoxFuture<'a, Result<D::Output>>,
        mut list: Vec<D::Output>,
        mut entries: Entries<'a>,
        context: &'a Context<'a>,
    ) -> Result<Option<Vec<D::Output>>> {
        list.push(first.await?);
        while let Some(entry) = entries.next() {
            let payload = entry?;
            list.push(
                self.delegate
                    .deserialize(Input { payload, context })
                    .await?,
            );
        }
        Ok(Some(list))
    }
}

impl<S> Serializer for List<S>
where
    S: Serializer,
    S::Input: ListEntry + 'static,
{
    type Input = Vec<<S::Input as ListEntry>::Owned>;

    fn serialize<'a>(
        &'a self,
        value: Option<&'a Self::Input>,
        target: &'a Target<'a>,
    ) -> Answer<'a, Encoded> {
        let Some(entries) = value else {
            return Answer::ok(Encoded::of(None));
        };
        let mut written = Written::new(self.entry_size, entries.len());
        for (index, entry) in entries.iter().enumerate() {
            match self.delegate.serialize(S::Input::give(entry), target) {
                Answer::Ready(Ok(encoded)) => {
                    if let Err(error) = written.push(encoded) {
                        return Answer::err(error);
                    }
                }
                Answer::Ready(Err(error)) => return Answer::err(error),
                Answer::Pending(first) => {
                    let rest = entries.get(index + 1..).unwrap_or_default();
                    return Answer::pending(self.write_on(first, written, rest, target));
                }
            }
        }
        Answer::Ready(written.finish())
    }
}

impl<S> List<S>
where
    S: Serializer,
    S::Input: ListEntry + 'static,
{
    async fn write_on<'a>(
        &'a self,
        first: BoxFuture<'a, Result<Encoded>>,
        mut written: Written,
        rest: &'a [<S::Input as ListEntry>::Owned],
        target: &'a Target<'a>,
    ) -> Result<Encoded> {
        written.push(first.await?)?;
        for entry in rest {
            let answer = self.delegate.serialize(S::Input::give(entry), target);
            written.push(answer.await?)?;
        }
        written.finish()
    }
}

const KEYS: &[KeySpec] = &[
    KeySpec::part("delegate", "What each entry is.").kafka(&["default.list.{role}.serde.inner"]),
    KeySpec::new(
        "type",
        "class",
        "A list class of Java's; read and checked, and nothing else.",
    )
    .kafka(&["default.list.{role}.serde.type"]),
];

/// The list classes of Java's that Kafka's own documentation and users name.
const LIST_CLASSES: [&str; 6] = [
    "java.util.List",
    "java.util.ArrayList",
    "java.util.LinkedList",
    "java.util.Vector",
    "java.util.Stack",
    "java.util.concurrent.CopyOnWriteArrayList",
];

/// The type as properties name it.
pub(crate) fn spec() -> TypeSpec {
    TypeSpec::new("list")
        .doc("Entries of one type, in the format of Kafka's lists (KIP-466).")
        .class_stem("org.apache.kafka.common.serialization.List")
        .class(
            "org.apache.kafka.common.serialization.Serdes.ListSerde",
            None,
        )
        .keys(KEYS)
        .reads(|node| {
            let (class, inner) = (checked_class(node), node.delegate("delegate"));
            let (_, inner) = (class?, inner?);
            let tree = inner.stage.describe();
            let size = primitives::entry_size(&tree.name);
            Some(node.built_as(List::new(inner.stage, size), Tree::of("list", [tree])))
        })
        .writes(|node| {
            let (class, inner) = (checked_class(node), node.delegate_writer("delegate"));
            let (_, inner) = (class?, inner?.into_value());
            let tree = inner.describe();
            let size = primitives::entry_size(&tree.name);
            Some(node.built_writer_as(List::new(inner, size), Tree::of("list", [tree])))
        })
        .lints(|list, _| {
            let handles = list
                .delegates
                .iter()
                .any(|entry| entry.contains("exception-handling"));
            if !handles {
                return Vec::new();
            }
            vec![
                "failures of its entries become entries: the record counts as read. To have the \
                 record fail, put exception-handling around the list"
                    .to_owned(),
            ]
        })
}

fn checked_class(node: &mut Node<'_, '_>) -> Option<()> {
    match node.text("type") {
        Some(class) if !LIST_CLASSES.contains(&class.as_str()) => {
            node.problem(
                "type",
                format!(
                    "`{class}` is not a list class of Java's, such as {}",
                    LIST_CLASSES[1]
                ),
            );
            None
        }
        _ => Some(()),
    }
}
