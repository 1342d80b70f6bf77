//! Dead-letter headers read back.

use crate::headers::HeaderView;

use super::dialects::{Dialect, VALUE_LEFT_OUT};
use super::fact::{Field, Role};
use super::info::DeadLetterInfo;
use super::translate::understood;

/// What the headers of a dead letter say, in the first of [`Dialect::ALL`] that names a topic, else
/// in the first that says anything; `None` when they are no dead letter's.
///
/// Headers are anybody's: one that cannot be read, is out of range or null counts as absent, texts
/// are read up to [`READ_LIMIT`](super::READ_LIMIT), and of headers that repeat the newest counts.
pub fn read(headers: HeaderView<'_>) -> Option<(Dialect, DeadLetterInfo)> {
    let mut known = Dialect::ALL
        .into_iter()
        .filter_map(|dialect| Some((dialect, read_as(dialect, headers)?)));
    let first = known.next()?;
    if first.1.topic().is_some() {
        return Some(first);
    }
    let better = known.find(|(_, info)| info.topic().is_some());
    Some(better.unwrap_or(first))
}

/// What the headers of a dead letter say in `dialect`; `None` when they say nothing in it.
pub fn read_as(dialect: Dialect, headers: HeaderView<'_>) -> Option<DeadLetterInfo> {
    let info = raw(dialect, headers, Which::Newest);
    let foreign = |field: Field| {
        dialect
            .header(field)
            .is_none_or(|header| header.role == Role::Foreign)
    };
    if info.iter().all(|(field, _)| foreign(field)) {
        return None;
    }
    let mut info = understood(dialect, info);
    let size = headers.get_last(VALUE_LEFT_OUT.name);
    if let Some(size) = size.and_then(|size| VALUE_LEFT_OUT.decode(size)) {
        info.set(Field::ValueLeftOut, size);
    }
    Some(info)
}

/// Which of headers that repeat.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    Newest,
    Oldest,
}

/// The fields of the dialect's table as they stand in the headers.
pub(super) fn raw(dialect: Dialect, headers: HeaderView<'_>, which: Which) -> DeadLetterInfo {
    let last = dialect.newest_first() == (which == Which::Oldest);
    let mut info = DeadLetterInfo::new();
    let mut seen: Vec<Field> = Vec::new();
    for index in 0..headers.len() {
        let index = if last {
            headers.len() - 1 - index
        } else {
            index
        };
        let Some((name, value)) = headers.get(index) else {
            continue;
        };
        let Some(header) = dialect.header_named(name) else {
            continue;
        };
        // The one that counts may be unreadable; an older one does not take its place.
        if seen.contains(&header.field) {
            continue;
        }
        seen.push(header.field);
        if let Some(fact) = header.decode(value) {
            info.set(header.field, fact);
        }
    }
    info
}
