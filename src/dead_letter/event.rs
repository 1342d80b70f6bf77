//! What makes a dead letter a CloudEvent in binary mode (CloudEvents 1.0, Kafka protocol binding).

use crate::headers::{HeaderView, Headers};

use super::fact::Field;
use super::info::DeadLetterInfo;

const TYPE: &str = "kafka-chain.dead-letter";

/// Adds the attributes of an event to `out`, unless the record is an event already: then it keeps
/// its own, and the extensions say what became of it. Attributes that `own` has are not repeated.
pub(super) fn add_attributes(out: &mut Headers, own: HeaderView<'_>, info: &DeadLetterInfo) {
    if is_event(own) {
        return;
    }
    let source = format!(
        "/kafka/groups/{}",
        info.group().map_or_else(|| "-".to_owned(), percent_encoded)
    );
    let attributes = [
        ("ce_specversion", Some("1.0".to_owned())),
        ("ce_id", Some(id(info))),
        ("ce_source", Some(source)),
        ("ce_type", Some(TYPE.to_owned())),
        ("ce_time", info.failed_at().and_then(rfc3339)),
    ];
    for (name, value) in attributes {
        if let (Some(value), None) = (value, own.get_last(name).flatten()) {
            out.push(name, Some(value));
        }
    }
}

/// The indices of the attributes that [`add_attributes`] put on a record. They came behind its own
/// headers, the version first, which a record with a version of its own would not have got.
pub(super) fn added(headers: HeaderView<'_>) -> Vec<usize> {
    let mut names = vec!["ce_specversion", "ce_id", "ce_source", "ce_type", "ce_time"];
    let version = (0..headers.len()).rev().find(|index| {
        headers
            .get(*index)
            .is_some_and(|(name, _)| name == b"ce_specversion")
    });
    let mut found = Vec::new();
    let mut ours = false;
    for index in version.unwrap_or(headers.len())..headers.len() {
        let Some((name, value)) = headers.get(index) else {
            continue;
        };
        if let Some(at) = names.iter().position(|one| one.as_bytes() == name) {
            ours |= names.remove(at) == "ce_type" && value == Some(TYPE.as_bytes());
            found.push(index);
        }
    }
    // A record that had a type and no version keeps ours: it looks like any event.
    if !ours {
        found.clear();
    }
    found
}

fn id(info: &DeadLetterInfo) -> String {
    let place = [Field::Topic, Field::Partition, Field::Offset].map(|field| {
        let text = info.text(field).map(str::to_owned);
        text.or_else(|| info.number(field).map(|number| number.to_string()))
            .unwrap_or_default()
    });
    place.join("-")
}

fn is_event(own: HeaderView<'_>) -> bool {
    const MEDIA_TYPE: &[u8] = b"application/cloudevents";
    let structured = own
        .get_last("content-type")
        .flatten()
        .and_then(|media_type| media_type.get(..MEDIA_TYPE.len()))
        .is_some_and(|start| start.eq_ignore_ascii_case(MEDIA_TYPE));
    structured || own.get_last("ce_specversion").flatten().is_some()
}

/// All but the unreserved characters of RFC 3986 as `%XX`.
fn percent_encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// The instant in UTC as RFC 3339 has it; `None` outside its years 1970 to 9999.
fn rfc3339(millis: i64) -> Option<String> {
    const DAY: i64 = 86_400_000;
    if !(0..=253_402_300_799_999).contains(&millis) {
        return None;
    }
    // Days since 0000-03-01: years that begin in March end with the leap day.
    let (days, time) = (millis / DAY + 719_468, millis % DAY);
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next_year) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    Some(format!(
        "{:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:03}Z",
        era * 400 + year + next_year,
        time / 3_600_000,
        time / 60_000 % 60,
        time / 1000 % 60,
        time % 1000,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_written_as_rfc_3339() {
        for (millis, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (951_868_799_999, "2000-02-29T23:59:59.999Z"),
            (1_522_900_584_000, "2018-04-05T03:56:24.000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(rfc3339(millis).as_deref(), Some(text));
        }
        assert_eq!(rfc3339(-1), None);
        assert_eq!(rfc3339(i64::MAX), None);
    }

    #[test]
    fn a_group_is_percent_encoded() {
        assert_eq!(percent_encoded("a b/ü~"), "a%20b%2F%C3%BC~");
    }
}
