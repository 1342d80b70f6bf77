//! Where a dead letter goes: pure rules for topic and partition.

use crate::error::{Error, Result};
use crate::transport::MAX_TOPIC_NAME;
pub(super) use crate::transport::check_topic_name as check_topic;

/// Where dead letters go when nothing else is said.
pub const DEFAULT_DESTINATION: &str = "${topic}.dead-letter";

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
            super::text::line(topic, MAX_TOPIC_NAME),
            super::text::line(template, MAX_TOPIC_NAME),
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
        if name.len() > MAX_TOPIC_NAME {
            break;
        }
        rest = after;
    }
    name.push_str(rest);
    fits(&name, topic).map_err(|why| refuse(&why))?;
    Ok(name)
}

/// Whether dead letters of `topic` may go to the topic `name`, whoever chose it.
///
/// # Errors
/// Of kind [`Config`](crate::ErrorKind::Config), as those of [`destination`].
pub fn check_destination(name: &str, topic: &str) -> Result<()> {
    fits(name, topic).map_err(|why| {
        Error::config(format!(
            "dead letters of `{}` have no topic: {why} (chosen: `{}`)",
            super::text::line(topic, MAX_TOPIC_NAME),
            super::text::line(name, MAX_TOPIC_NAME),
        ))
    })
}

fn fits(name: &str, topic: &str) -> std::result::Result<(), String> {
    check_topic(name).map_err(|why| format!("its name {why}"))?;
    match name == topic {
        true => Err("it would be the topic itself".to_owned()),
        false => Ok(()),
    }
}

/// The partition of the dead letter of a record of partition `source`, when the dead-letter topic
/// has so many `partitions`: the same number if there is one, else `None`, and the key decides.
/// So too when nobody knows how many there are.
pub fn partition(source: i32, partitions: Option<i32>) -> Option<i32> {
    partitions
        .is_some_and(|count| (0..count).contains(&source))
        .then_some(source)
}
