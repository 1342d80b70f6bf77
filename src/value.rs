//! The value of a chain built from configuration, whose types are known at run time only.

use crate::outcome::Failure;
use bytes::Bytes;
use std::any::{Any, TypeId};
use std::fmt;

/// What a stage of an erased chain yields.
///
/// `Debug` shows the variant and sizes, never the data.
#[non_exhaustive]
pub enum Value {
    /// No value: a null key, a tombstone.
    Null,
    /// Bytes.
    Bytes(Bytes),
    /// Text.
    Text(String),
    /// Kafka's `Short`.
    Short(i16),
    /// Kafka's `Integer`.
    Integer(i32),
    /// Kafka's `Long`.
    Long(i64),
    /// Kafka's `Float`.
    Float(f32),
    /// Kafka's `Double`.
    Double(f64),
    /// Kafka's `Boolean`.
    Boolean(bool),
    /// Kafka's `UUID`.
    Uuid(uuid::Uuid),
    /// The entries of Kafka's `List`, nulls included.
    List(Vec<Value>),
    /// A JSON document.
    Json(serde_json::Value),
    /// A CloudEvent, boxed because it is large.
    #[cfg(feature = "cloudevents")]
    CloudEvent(Box<cloudevents::Event>),
    /// An inner exception handling took an error.
    Failed(Box<Failure>),
    /// A type that a user registered.
    Other(Box<dyn Any + Send + Sync>),
}

impl Value {
    /// What it is, for messages.
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bytes(_) => "bytes",
            Value::Text(_) => "string",
            Value::Short(_) => "short",
            Value::Integer(_) => "integer",
            Value::Long(_) => "long",
            Value::Float(_) => "float",
            Value::Double(_) => "double",
            Value::Boolean(_) => "boolean",
            Value::Uuid(_) => "uuid",
            Value::List(_) => "list",
            Value::Json(_) => "json",
            #[cfg(feature = "cloudevents")]
            Value::CloudEvent(_) => "cloudevent",
            Value::Failed(_) => "failure",
            Value::Other(_) => "a registered type",
        }
    }

    /// A value of any type: of one that has a variant as that, of another as [`Value::Other`].
    #[inline]
    pub fn of<T: Any + Send + Sync>(value: T) -> Value {
        macro_rules! variants {
            ($value:ident, $($variant:ident),*) => {$(
                let $value = match same($value) {
                    Ok(found) => return Value::$variant(found),
                    Err(other) => other,
                };
            )*};
        }
        variants!(
            value, Bytes, Text, Short, Integer, Long, Float, Double, Boolean, Uuid, List, Json,
            Failed
        );
        #[cfg(feature = "cloudevents")]
        variants!(value, CloudEvent);
        #[cfg(feature = "cloudevents")]
        let value = match same::<T, cloudevents::Event>(value) {
            Ok(event) => return Value::CloudEvent(Box::new(event)),
            Err(other) => other,
        };
        same::<T, Value>(value).unwrap_or_else(|other| Value::Other(Box::new(other)))
    }

    /// The value as a `T`, borrowed, if that is what it is.
    pub fn get<T: Any>(&self) -> Option<&T> {
        match self {
            Value::Null => None,
            Value::Bytes(v) => cast_ref(v),
            Value::Text(v) => cast_ref(v),
            Value::Short(v) => cast_ref(v),
            Value::Integer(v) => cast_ref(v),
            Value::Long(v) => cast_ref(v),
            Value::Float(v) => cast_ref(v),
            Value::Double(v) => cast_ref(v),
            Value::Boolean(v) => cast_ref(v),
            Value::Uuid(v) => cast_ref(v),
            Value::List(v) => cast_ref(v),
            Value::Json(v) => cast_ref(v),
            #[cfg(feature = "cloudevents")]
            Value::CloudEvent(v) => cast_ref(&**v).or_else(|| cast_ref(v)),
            Value::Failed(v) => cast_ref(v),
            Value::Other(v) => v.downcast_ref(),
        }
        .or_else(|| cast_ref(self))
    }

    /// The value as a `T`, or the value back when it is something else. Allocates nothing.
    ///
    /// A boxed CloudEvent is taken as `Event` or as `Box<Event>`; a registered type by its own
    /// type; `Value` itself is always possible.
    #[inline]
    pub fn take<T: Any>(self) -> Result<T, Value> {
        match self {
            Value::Bytes(v) => cast(v, Value::Bytes),
            Value::Text(v) => cast(v, Value::Text),
            Value::Short(v) => cast(v, Value::Short),
            Value::Integer(v) => cast(v, Value::Integer),
            Value::Long(v) => cast(v, Value::Long),
            Value::Float(v) => cast(v, Value::Float),
            Value::Double(v) => cast(v, Value::Double),
            Value::Boolean(v) => cast(v, Value::Boolean),
            Value::Uuid(v) => cast(v, Value::Uuid),
            Value::List(v) => cast(v, Value::List),
            Value::Json(v) => cast(v, Value::Json),
            #[cfg(feature = "cloudevents")]
            Value::CloudEvent(v) if is::<T, cloudevents::Event>() => {
                cast(*v, |v| Value::CloudEvent(Box::new(v)))
            }
            #[cfg(feature = "cloudevents")]
            Value::CloudEvent(v) => cast(v, Value::CloudEvent),
            Value::Failed(v) => cast(v, Value::Failed),
            Value::Other(v) => v.downcast::<T>().map(|v| *v).map_err(Value::Other),
            Value::Null => Err(Value::Null),
        }
        .or_else(|value| cast(value, |value| value))
    }
}

#[cfg(feature = "cloudevents")]
fn is<T: Any, U: Any>() -> bool {
    TypeId::of::<T>() == TypeId::of::<U>()
}

/// The same for references.
fn cast_ref<V: Any, T: Any>(value: &V) -> Option<&T> {
    (value as &dyn Any).downcast_ref()
}

/// `value` as a `T` if that is what it is, else `back` of it.
#[inline]
fn cast<V: Any, T: Any>(value: V, back: impl FnOnce(V) -> Value) -> Result<T, Value> {
    same(value).map_err(back)
}

/// `value` as a `U` if that is its type. Which it is the compiler knows, and removes the rest.
#[inline]
fn same<T: Any, U: Any>(value: T) -> Result<U, T> {
    if TypeId::of::<T>() != TypeId::of::<U>() {
        return Err(value);
    }
    let mut slot = Some(value);
    let taken = (&mut slot as &mut dyn Any)
        .downcast_mut::<Option<U>>()
        .and_then(Option::take);
    match (taken, slot) {
        (Some(taken), _) => Ok(taken),
        (None, Some(value)) => Err(value),
        (None, None) => unreachable!("a slot is emptied only by taking what was in it"),
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Bytes(bytes) => write!(f, "bytes({})", bytes.len()),
            Value::Text(text) => write!(f, "string({})", text.len()),
            Value::List(list) => f.debug_list().entries(list).finish(),
            Value::Failed(failure) => write!(f, "failure({failure})"),
            other => f.write_str(other.type_name()),
        }
    }
}

macro_rules! from {
    ($($type:ty => $variant:ident),* $(,)?) => {$(
        impl From<$type> for Value {
            #[inline]
            fn from(value: $type) -> Self {
                Value::$variant(value)
            }
        }
    )*};
}

from! {
    Bytes => Bytes, String => Text, i16 => Short, i32 => Integer, i64 => Long, f32 => Float,
    f64 => Double, bool => Boolean, uuid::Uuid => Uuid, Vec<Value> => List,
    serde_json::Value => Json, Box<Failure> => Failed,
}

#[cfg(feature = "cloudevents")]
impl From<cloudevents::Event> for Value {
    fn from(event: cloudevents::Event) -> Self {
        Value::CloudEvent(Box::new(event))
    }
}

#[cfg(feature = "cloudevents")]
impl From<Box<cloudevents::Event>> for Value {
    fn from(event: Box<cloudevents::Event>) -> Self {
        Value::CloudEvent(event)
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    #[inline]
    fn from(value: Option<T>) -> Self {
        value.map_or(Value::Null, Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_taken_as_what_it_is_and_given_back_otherwise() {
        assert_eq!(Value::Long(7).take::<i64>().ok(), Some(7));
        assert!(matches!(Value::Long(7).take::<i32>(), Err(Value::Long(7))));
        assert!(matches!(
            Value::Text("a".into()).take::<Value>(),
            Ok(Value::Text(_))
        ));
        #[derive(Debug, PartialEq)]
        struct Order(u8);
        assert_eq!(
            Value::Other(Box::new(Order(1))).take::<Order>().ok(),
            Some(Order(1))
        );
        assert!(matches!(
            Value::Other(Box::new(Order(1))).take::<u8>(),
            Err(Value::Other(_))
        ));
        assert!(matches!(Value::Null.take::<i64>(), Err(Value::Null)));
    }

    #[test]
    fn debug_shows_no_data() {
        let list = Value::List(vec![
            Value::Text("hunter2".into()),
            Value::Long(42),
            Value::Null,
        ]);
        assert_eq!(format!("{list:?}"), "[string(7), long, null]");
    }
}
