//! Batches of events in JSON (json-format.md section 4), for values that a producer put there
//! although Kafka has no batch mode.

use super::error::{EventError, Reason, json_position};
use super::structured;
use super::view::EventView;
use crate::error::Result;
use serde_json::value::RawValue;

/// Splits a batch into the JSON text of its events, which are not looked into.
///
/// # Errors
/// Malformed, if the value is not an array in JSON.
pub fn split_batch(value: &[u8]) -> Result<Vec<&str>> {
    Ok(try_split(value)?.into_iter().map(RawValue::get).collect())
}

/// Reads every event of a batch: all of them, or an error of the first that is none.
///
/// # Errors
/// Malformed, if the value is not an array in JSON; what [`EventView::read`] answers for one of
/// the events; Unsupported, if their `specversion` is not the same.
pub fn read_batch(value: &[u8]) -> Result<Vec<EventView<'_>>> {
    let mut events: Vec<EventView<'_>> = Vec::new();
    for text in try_split(value)? {
        let event = structured::read_text(text.get())?;
        let same = |first: &EventView<'_>| first.specversion() == event.specversion();
        if !events.first().is_none_or(same) {
            return Err(EventError::of(
                Reason::UnknownSpecVersion,
                "specversion",
                "is another than that of the batch",
            )
            .into());
        }
        events.push(event);
    }
    Ok(events)
}

fn try_split(value: &[u8]) -> std::result::Result<Vec<&RawValue>, EventError> {
    let text = std::str::from_utf8(value)
        .map_err(|error| structured::not_utf8(value, error.valid_up_to()))?;
    serde_json::from_str(text).map_err(|error| {
        let message = format!("not a batch in JSON: {}", json_position(&error));
        EventError::new(Reason::InvalidJson, message)
    })
}
