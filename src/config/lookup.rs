//! From a name as it was written to the type it means, or to what would have been right.

use super::names::{
    by_nearness, is_class, is_slip, likely_kebab, nearest, normal_class, simple_class,
};
use super::registry::Registry;
use super::spec::{Direction, TypeSpec};

/// What a type's name means.
pub(super) enum Named<'r> {
    Type(&'r TypeSpec),
    Wrong {
        message: String,
        suggestion: Option<String>,
    },
}

impl Registry {
    pub(super) fn type_named(&self, written: &str, direction: Direction) -> Named<'_> {
        let matching: Vec<_> = self
            .types
            .iter()
            .filter_map(|spec| {
                if spec.name == written {
                    return Some((spec, None));
                }
                let mut classes = spec
                    .classes
                    .iter()
                    .filter(|(class, _)| is_class(written, class));
                classes.next().map(|(_, direction)| (spec, *direction))
            })
            .collect();
        match matching.as_slice() {
            [] => self.unknown(written, direction),
            [(spec, None)] if !spec.goes(direction) => Named::Wrong {
                message: one_way(spec, direction),
                suggestion: None,
            },
            [(_, Some(class))] if *class != direction => {
                let (is, wanted) = (class.as_str(), direction.as_str());
                Named::Wrong {
                    message: format!("`{written}` is a {is}, but a {wanted} is named here"),
                    suggestion: other_way(written, *class),
                }
            }
            [(spec, _)] if !spec.goes(direction) => Named::Wrong {
                message: one_way(spec, direction),
                suggestion: None,
            },
            [(spec, _)] => Named::Type(spec),
            several => {
                let classes: Vec<_> = several
                    .iter()
                    .flat_map(|(spec, _)| spec.classes.iter())
                    .filter(|(class, _)| is_class(written, class))
                    .map(|(class, _)| class.as_str())
                    .collect();
                let message = format!(
                    "`{written}` may be {}: write the full name",
                    classes.join(" or ")
                );
                Named::Wrong {
                    message,
                    suggestion: None,
                }
            }
        }
    }

    fn unknown(&self, written: &str, direction: Direction) -> Named<'_> {
        if written.is_empty() {
            let names = self.names(direction, "").join(", ");
            let message = format!("the type is empty; there are {names}");
            return Named::Wrong {
                message,
                suggestion: None,
            };
        }
        let classes: Vec<_> = self
            .types
            .iter()
            .filter(|spec| spec.goes(direction))
            .flat_map(|spec| spec.classes.iter())
            .filter(|(_, of)| of.is_none_or(|of| of == direction))
            .map(|(class, _)| class.as_str())
            .collect();
        let by_class = written.contains(['.', '$']).then(|| {
            let simple = simple_class(written);
            let alike = |class: &&&str| is_slip(simple, simple_class(class));
            nearest(
                &normal_class(written),
                classes.iter().filter(alike).copied(),
            )
            .or_else(|| classes.iter().find(alike).copied())
        });
        let simple = || nearest(written, classes.iter().map(|class| simple_class(class)));
        let kebabs = self.names(direction, &likely_kebab(written));
        let suggestion = match by_class {
            Some(found) => found.map(str::to_owned),
            None => nearest(written, kebabs.iter().copied())
                .or_else(simple)
                .map(str::to_owned),
        };
        let message = format!(
            "there is no {} `{written}`; there are {} (a type of your own must be registered)",
            direction.as_str(),
            kebabs.join(", ")
        );
        Named::Wrong {
            message,
            suggestion,
        }
    }

    /// The names of the types that go this way, the nearest to `word` first.
    fn names(&self, direction: Direction, word: &str) -> Vec<&str> {
        let going = self.types.iter().filter(|spec| spec.goes(direction));
        by_nearness(word, going.map(|spec| spec.name.as_str()))
    }
}

fn one_way(spec: &TypeSpec, direction: Direction) -> String {
    format!(
        "`{}` is no {}; it is a {} only",
        spec.name,
        direction.as_str(),
        direction.other().as_str()
    )
}

fn other_way(written: &str, is: Direction) -> Option<String> {
    let (from, to) = match is {
        Direction::Deserializer => ("Deserializer", "Serializer"),
        Direction::Serializer => ("Serializer", "Deserializer"),
    };
    written.strip_suffix(from).map(|stem| format!("{stem}{to}"))
}
