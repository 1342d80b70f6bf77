//! What a dialect says in its own way, and back.

use super::dialects::Dialect;
use super::fact::Field;
use super::info::DeadLetterInfo;
use std::borrow::Cow;

/// The exceptions through which Spring looks at the cause (`DeadLetterRecordManager`).
const SPRING_WRAPPERS: [&str; 2] = ["ListenerExecutionFailedException", "TimestampedException"];

/// The plain fields of an exception and those of a key's.
const OF_KEY: [(Field, Field); 3] = [
    (Field::ExceptionClass, Field::KeyExceptionClass),
    (Field::Message, Field::KeyMessage),
    (Field::Trace, Field::KeyTrace),
];

const STAGES: [(&str, &str); 3] = [
    ("key", "KEY_CONVERTER"),
    ("value", "VALUE_CONVERTER"),
    ("handler", "TASK_PUT"),
];

/// `info` as `dialect` tells it.
pub(super) fn told(dialect: Dialect, mut info: Cow<'_, DeadLetterInfo>) -> Cow<'_, DeadLetterInfo> {
    match dialect {
        Dialect::Spring => to_spring(info.to_mut()),
        Dialect::Connect => to_connect(info.to_mut()),
        Dialect::Streams => {
            if let Some(class) = info.text(Field::ExceptionClass) {
                let exception = match info.message() {
                    Some(message) => format!("{class}: {message}"),
                    None => class.to_owned(),
                };
                info.to_mut().set(Field::Exception, exception);
            }
        }
        _ => {}
    }
    info
}

/// `info` as everybody tells it, from what the headers of `dialect` say.
pub(super) fn understood(dialect: Dialect, mut info: DeadLetterInfo) -> DeadLetterInfo {
    match dialect {
        Dialect::Spring => from_spring(&mut info),
        Dialect::Connect => {
            let stage = info.text(Field::ConnectStage);
            if let Some((part, _)) = STAGES.iter().find(|(_, name)| stage == Some(name)) {
                info.set(Field::Part, *part);
            }
        }
        Dialect::Streams => {
            if let Some(exception) = info.remove(Field::Exception) {
                let text = exception.text().unwrap_or_default();
                let class = text.split_once(": ").map_or(text, |(class, _)| class);
                info.set(Field::ExceptionClass, class);
            }
        }
        _ => {}
    }
    info
}

fn to_spring(info: &mut DeadLetterInfo) {
    // Spring writes -1 where there is no timestamp.
    if info.get(Field::Timestamp).is_none() && info.get(Field::TimestampType).is_some() {
        info.set(Field::Timestamp, -1);
    }
    if let (Some(message), Some(root)) = (info.message(), info.text(Field::CauseMessage)) {
        let both = format!("{message}; {root}");
        info.set(Field::Message, both);
    }
    let class = info.text(Field::ExceptionClass).map(str::to_owned);
    if let Some(class) = class {
        let unwraps = SPRING_WRAPPERS.iter().any(|name| class.ends_with(name));
        if !unwraps || info.get(Field::CauseClass).is_none() {
            info.set(Field::CauseClass, class);
        }
    }
    if info.text(Field::Part) == Some("key") {
        for (plain, of_key) in OF_KEY {
            if let Some(fact) = info.remove(plain) {
                info.set(of_key, fact);
            }
        }
    }
}

fn from_spring(info: &mut DeadLetterInfo) {
    let has = |fields: [Field; 3]| fields.iter().any(|field| info.get(*field).is_some());
    if has(OF_KEY.map(|(_, of_key)| of_key)) && !has(OF_KEY.map(|(plain, _)| plain)) {
        for (plain, of_key) in OF_KEY {
            if let Some(fact) = info.remove(of_key) {
                info.set(plain, fact);
            }
        }
        info.set(Field::Part, "key");
    }
    // The class itself stands there when there is no cause.
    if info.get(Field::CauseClass) == info.get(Field::ExceptionClass) {
        info.remove(Field::CauseClass);
    }
}

fn to_connect(info: &mut DeadLetterInfo) {
    if let (None, Some(group)) = (info.get(Field::ConnectorName), info.get(Field::Group)) {
        let group = group.clone();
        info.set(Field::ConnectorName, group);
    }
    let part = info.text(Field::Part);
    let stage = STAGES.iter().find(|(name, _)| part == Some(name));
    if let (None, Some((_, stage))) = (info.get(Field::ConnectStage), stage) {
        info.set(Field::ConnectStage, *stage);
    }
}
