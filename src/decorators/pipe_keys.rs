//! What properties say of a pipe, and what is likely wrong about it.

use super::pipe::Pipe;
use crate::config::{BuiltWriter, Direction, KeySpec, TypeSpec, Writer};

const KEYS: &[KeySpec] = &[
    KeySpec::part(
        "from",
        "What comes first in the direction of the data; yields bytes.",
    ),
    KeySpec::part("to", "What goes on with the bytes of `from`."),
];

/// The type as properties name it.
pub(crate) fn spec() -> TypeSpec {
    TypeSpec::new("pipe")
        .doc("Gives the bytes that `from` yields to `to`.")
        .class_stem("org.apache.kafka.common.serialization.Pipe")
        .keys(KEYS)
        .reads(|node| {
            let (from, to) = (node.delegate("from"), node.delegate("to"));
            let (from, to) = (from?, to?);
            if !from.yields.may_be_bytes() {
                let (tree, found) = (from.stage.describe(), from.yields.name());
                let message =
                    format!("the `from` of a pipe must yield bytes, but `{tree}` yields {found}");
                node.wrong_delegate("from", message);
                return None;
            }
            let pipe = named(Pipe::new(from.stage, to.stage), node.label());
            Some(node.built_value(Box::new(pipe), to.yields))
        })
        .writes(|node| {
            let (from, to) = (node.delegate_writer("from"), node.delegate_writer("to"));
            let (from, to) = (from?, to?);
            let to = match to.stage {
                Writer::Bytes(to) => to,
                Writer::Value(to) => {
                    let message = format!(
                        "the `to` of a pipe is given bytes, but `{}` writes values",
                        to.describe()
                    );
                    node.wrong_delegate("to", message);
                    return None;
                }
            };
            let stage = match from.stage {
                Writer::Value(from) => {
                    Writer::Value(Box::new(named(Pipe::new(from, to), node.label())))
                }
                Writer::Bytes(from) => {
                    Writer::Bytes(Box::new(named(Pipe::new(from, to), node.label())))
                }
            };
            Some(BuiltWriter { stage })
        })
        .lints(|pipe, view| {
            let handling = "exception-handling";
            let [from, to] = pipe.delegates.as_slice() else {
                return Vec::new();
            };
            let escapes = view.direction == Direction::Deserializer
                && from.contains(handling)
                && !to.contains(handling)
                && !view.around.iter().any(|node| node.is(handling));
            if !escapes {
                return Vec::new();
            }
            vec![format!(
                "errors of its `to`, `{}`, escape: no exception-handling takes them. Put it around \
                 the pipe: exception-handling(… pipe(…, {}))",
                to.head(),
                to.head()
            )]
        })
}

fn named<A, B>(pipe: Pipe<A, B>, label: Option<&str>) -> Pipe<A, B> {
    match label {
        Some(label) => pipe.labelled(label),
        None => pipe,
    }
}
