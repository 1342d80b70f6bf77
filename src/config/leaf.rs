//! How a factory hands over what it built: named in stage paths, contained, printing itself.

use super::built::{Built, BuiltWriter, Writer, Yields};
use super::erase::{Erase, EraseWriter};
use super::node::Node;
use crate::deserializer::{BoxDeserializer, Deserializer};
use crate::serializer::{Give, Serializer};
use crate::stage::Stage;
use crate::tree::Tree;
use crate::value::Value;
use std::any::Any;

impl Node<'_, '_> {
    /// The node as it prints, around these delegates.
    fn head(&self) -> Tree {
        Tree::leaf(&self.spec.name).labelled(self.info.label.clone())
    }

    /// A leaf that reads a `T`: named in stage paths and contained.
    pub fn built<D, T>(&self, leaf: D) -> Built
    where
        D: Deserializer<Output = Option<T>> + 'static,
        T: Any + Send + Sync,
    {
        let stage = Stage::new(self.name().to_owned(), leaf).described(self.head());
        Built {
            stage: Box::new(Erase(stage)),
            yields: Yields::of::<T>(),
        }
    }

    /// A part that yields values itself, such as a decorator, which names itself in stage paths.
    pub fn built_value(&self, stage: BoxDeserializer<Value>, yields: Yields) -> Built {
        Built { stage, yields }
    }

    /// A leaf around delegates, such as a list: named in stage paths, contained, printing `tree`.
    pub fn built_as<D, T>(&self, leaf: D, tree: Tree) -> Built
    where
        D: Deserializer<Output = Option<T>> + 'static,
        T: Any + Send + Sync,
    {
        let tree = Tree {
            name: self.spec.name.clone(),
            ..tree
        }
        .labelled(self.info.label.clone());
        let stage = Stage::new(self.name().to_owned(), leaf).described(tree);
        Built {
            stage: Box::new(Erase(stage)),
            yields: Yields::of::<T>(),
        }
    }

    /// A leaf that writes a `T`.
    pub fn built_writer<S, T>(&self, leaf: S) -> BuiltWriter
    where
        S: Serializer<Input = T> + 'static,
        T: Any + Send + Sync,
        T: for<'g> Give<Given<'g> = Option<&'g T>>,
    {
        let stage = Stage::new(self.name().to_owned(), leaf).described(self.head());
        BuiltWriter {
            stage: Writer::Value(Box::new(EraseWriter(stage))),
        }
    }

    /// A leaf around delegates that writes a `T`, printing `tree`.
    pub fn built_writer_as<S, T>(&self, leaf: S, tree: Tree) -> BuiltWriter
    where
        S: Serializer<Input = T> + 'static,
        T: Any + Send + Sync,
        T: for<'g> Give<Given<'g> = Option<&'g T>>,
    {
        let tree = Tree {
            name: self.spec.name.clone(),
            ..tree
        }
        .labelled(self.info.label.clone());
        let stage = Stage::new(self.name().to_owned(), leaf).described(tree);
        BuiltWriter {
            stage: Writer::Value(Box::new(EraseWriter(stage))),
        }
    }

    /// A leaf that turns bytes into bytes.
    pub fn built_bytes_writer<S>(&self, leaf: S) -> BuiltWriter
    where
        S: Serializer<Input = [u8]> + 'static,
    {
        let stage = Stage::new(self.name().to_owned(), leaf).described(self.head());
        BuiltWriter {
            stage: Writer::Bytes(Box::new(stage)),
        }
    }
}
