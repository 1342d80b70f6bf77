//! Where a dead letter goes: pure rules for topic and partition.

use crate::error::{Error, Result};

/// Where dead letters go when nothing else is said.
pub const DEFAULT_DESTINATION: &str = "${topic}.dead-letter";

/// The longest name of a topic, in bytes (`Topic.MAX_NAME_LENGTH` of Kafka's clients).
const MAX_TOPIC: usize = 249;

/// Whether Kafka takes `name` as the name of a topic: 1 to 249 of `[A-Za-z0-9._-]`, and not `.` or
/// `..` (`Topic.validate` of Kafka's clients).
///
/// # Errors
/// Which rule is broken, as what the name is or has.
pub fn check_topic(name: &str) -> Result<(), &'static str> {
    if name.is_empty() {
        return Err("is empty");
    }
    if name.len() > MAX_TOPIC {
        return Err("is longer than 249 characters");
    }
    if name == "." || name == ".." {
        return Err("is `.` or `..`");
    }
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if !name.bytes().all(legal) {
        return Err("has a character other than letters, digits, `.`, `_` and `-`");
    }
    Ok(())
}

/// The topic of the dead letters of `topic`, from a template in which `${topic}` and `${group}`
/// stand for their names.
///
/// # Errors
/// Of kind [`Config`](crate::ErrorKind::Config): another placeholder, `${group}` without a group, a
/// name that Kafka does not take, or the topic the records come from, where a dead letter would
/// be consumed and fail for ever.
pub fn destination(template: &str, topic: &str, group: Option<&str>) -> Result<String> {
    let refuse = |why: &str| {
        Error::config(format!(
            "dead letters of `{}` have no topic: {why} (template `{}`)",
            super::text::line(topic, MAX_TOPIC),
            super::text::line(template, MAX_TOPIC),
        ))
    };
    let mut name = String::new();
    let mut rest = template;
    while let Some((plain, after)) = rest.split_once("${") {
        name.push_str(plain);
        let Some((placeholder, after)) = after.split_once('}') else {
            return Err(refuse("a `${` is never closed"));
        };
        name.push_str(match (placeholder, group) {
            ("topic", _) => topic,
            ("group", Some(group)) => group,
            ("group", None) => return Err(refuse("there is no group for `${group}`")),
            _ => return Err(refuse("it knows `${topic}` and `${group}` only")),
        });
        if name.len() > MAX_TOPIC {
            break;
        }
        rest = after;
    }
    name.push_str(rest);
    if let Err(why) = check_topic(&name) {
        return Err(refuse(&format!("its name {why}")));
    }
    if name == topic {
        return Err(refuse("it would be the topic itself"));
    }
    Ok(name)
}

/// The partition of the dead letter of a record of partition `source`, when the dead-letter topic
/// has so many `partitions`: the same number if there is one, else `None`, and the key decides.
/// So too when nobody knows how many there are.
pub fn partition(source: i32, partitions: Option<i32>) -> Option<i32> {
    partitions
        .is_some_and(|count| (0..count).contains(&source))
        .then_some(source)
}
