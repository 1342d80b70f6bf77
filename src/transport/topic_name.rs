//! The names that Kafka takes for topics.

/// The longest name of a topic, in bytes (`Topic.MAX_NAME_LENGTH` of Kafka's clients).
pub const MAX_TOPIC_NAME: usize = 249;

/// Whether Kafka takes `name` as the name of a topic: 1 to 249 of `[A-Za-z0-9._-]`, and not `.` or
/// `..` (`Topic.validate` of Kafka's clients).
///
/// # Errors
/// Which rule is broken, in words that follow the name: `is empty`.
pub fn check_topic_name(name: &str) -> Result<(), &'static str> {
    if name.is_empty() {
        return Err("is empty");
    }
    if name.len() > MAX_TOPIC_NAME {
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
