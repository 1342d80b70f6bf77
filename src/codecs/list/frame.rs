//! The bytes around the entries, read and written.

use crate::error::{Error, Result};
use crate::headers::Headers;
use crate::payload::Payload;
use crate::serializer::Encoded;

const CONSTANT: u8 = 0;
const VARIABLE: u8 = 1;
const NULL_LENGTH: i32 = -1;

/// The entries of a list that are still to be read.
pub(super) struct Entries<'a> {
    rest: Payload<'a>,
    /// How many there are.
    pub(super) left: usize,
    index: usize,
    form: Form,
}

enum Form {
    Variable,
    /// The size of an entry, and the indexes of nulls still to come, the next one last.
    Constant {
        size: usize,
        nulls: Vec<i32>,
    },
}

impl<'a> Entries<'a> {
    /// Reads everything before the entries. What this accepts has room for all its entries: a list
    /// of `n` takes at least `4 * n` bytes, or `n` times the entry's size less the nulls.
    pub(super) fn read(payload: Payload<'a>, entry_size: Option<usize>) -> Result<Option<Self>> {
        let Some(bytes) = payload.as_bytes() else {
            return Ok(None);
        };
        let length = bytes.len();
        let (form, left, rest) = match bytes.split_first() {
            Some((&CONSTANT, rest)) => {
                let Some(size) = entry_size else {
                    return Err(malformed(
                        "the constant-size form, which its entries do not have",
                    ));
                };
                read_constant(rest, size)?
            }
            Some((&VARIABLE, rest)) => {
                let (count, rest) = take_count(rest, "number of entries")?;
                if count > rest.len() / 4 {
                    return Err(too_short("entries", count, rest.len()));
                }
                (Form::Variable, count, rest.len())
            }
            Some(_) => return Err(malformed("the first byte is neither 0 nor 1")),
            None => return Err(malformed("no bytes at all, where a list has at least 5")),
        };
        let mut rest_of = payload;
        take(&mut rest_of, length - rest)?;
        Ok(Some(Entries {
            rest: rest_of,
            left,
            index: 0,
            form,
        }))
    }

    pub(super) fn next(&mut self) -> Option<Result<Payload<'a>>> {
        self.left = self.left.checked_sub(1)?;
        let index = self.index;
        self.index += 1;
        Some(match &mut self.form {
            Form::Constant { size, nulls } => {
                let is_next = |null: &i32| usize::try_from(*null) == Ok(index);
                match nulls.last().is_some_and(is_next) {
                    true => {
                        nulls.pop();
                        Ok(Payload::Null)
                    }
                    false => take(&mut self.rest, *size),
                }
            }
            Form::Variable => self.next_variable(),
        })
    }

    fn next_variable(&mut self) -> Result<Payload<'a>> {
        let head = take(&mut self.rest, 4)?;
        let (length, _) = take_int(head.as_bytes().unwrap_or_default(), "length of an entry")?;
        if length == NULL_LENGTH {
            return Ok(Payload::Null);
        }
        match usize::try_from(length) {
            Ok(length) => take(&mut self.rest, length),
            Err(_) => Err(malformed("the length of an entry is negative and not -1")),
        }
    }
}

fn read_constant(bytes: &[u8], size: usize) -> Result<(Form, usize, usize)> {
    let (count, mut rest) = take_count(bytes, "number of nulls")?;
    if count > rest.len() / 4 {
        return Err(too_short("indexes of nulls", count, rest.len()));
    }
    let mut nulls = Vec::with_capacity(count);
    for _ in 0..count {
        let (index, after) = take_int(rest, "index of a null")?;
        nulls.push(index);
        rest = after;
    }
    let (entries, rest) = take_count(rest, "number of entries")?;
    nulls.retain(|index| usize::try_from(*index).is_ok_and(|index| index < entries));
    nulls.sort_unstable_by(|a, b| b.cmp(a));
    nulls.dedup();
    let with_bytes = entries.saturating_sub(nulls.len());
    if with_bytes > rest.len() / size {
        return Err(too_short("entries", with_bytes, rest.len()));
    }
    Ok((Form::Constant { size, nulls }, entries, rest.len()))
}

/// Takes the first `count` bytes off `payload`; shares or borrows, never copies.
fn take<'a>(payload: &mut Payload<'a>, count: usize) -> Result<Payload<'a>> {
    let taken = match payload {
        Payload::Borrowed(bytes) => bytes.split_at_checked(count).map(|(head, rest)| {
            *bytes = rest;
            Payload::Borrowed(head)
        }),
        Payload::Shared(bytes) if count <= bytes.len() => {
            Some(Payload::Shared(bytes.split_to(count)))
        }
        _ => None,
    };
    let found = payload.as_bytes().map_or(0, <[u8]>::len);
    taken.ok_or_else(|| malformed(format!("an entry of {count} bytes, where {found} are left")))
}

fn take_int<'b>(bytes: &'b [u8], what: &str) -> Result<(i32, &'b [u8])> {
    match bytes.split_first_chunk() {
        Some((int, rest)) => Ok((i32::from_be_bytes(*int), rest)),
        None => Err(malformed(format!("it ends within the {what}"))),
    }
}

fn take_count<'b>(bytes: &'b [u8], what: &str) -> Result<(usize, &'b [u8])> {
    let (count, rest) = take_int(bytes, what)?;
    match usize::try_from(count) {
        Ok(count) => Ok((count, rest)),
        Err(_) => Err(malformed(format!("the {what} is negative"))),
    }
}

#[cold]
fn too_short(what: &str, count: usize, left: usize) -> Error {
    malformed(format!(
        "{count} {what} do not fit into the {left} bytes that are left"
    ))
}

#[cold]
fn malformed(what: impl std::fmt::Display) -> Error {
    Error::malformed(format!("list: {what}"))
}

/// The part of a list that is written: its entries, without what comes before them.
pub(super) struct Written {
    entry_size: Option<usize>,
    count: usize,
    nulls: Vec<usize>,
    body: Vec<u8>,
    headers: Headers,
}

impl Written {
    pub(super) fn new(entry_size: Option<usize>, count: usize) -> Self {
        Written {
            entry_size,
            count: 0,
            nulls: Vec::new(),
            body: Vec::with_capacity(count.saturating_mul(entry_size.unwrap_or(4))),
            headers: Headers::new(),
        }
    }

    pub(super) fn push(&mut self, entry: Encoded) -> Result<()> {
        match (self.entry_size, &entry.payload) {
            (Some(_), None) => self.nulls.push(self.count),
            (Some(size), Some(bytes)) if bytes.len() != size => {
                return Err(Error::schema(format!(
                    "list: an entry of {} bytes among entries of {size}",
                    bytes.len()
                )));
            }
            (Some(_), Some(_)) => {}
            (None, None) => self.body.extend(NULL_LENGTH.to_be_bytes()),
            (None, Some(bytes)) => self.body.extend(int(bytes.len())?),
        }
        self.body
            .extend_from_slice(&entry.payload.unwrap_or_default());
        self.headers.append(entry.headers);
        self.count += 1;
        Ok(())
    }

    pub(super) fn finish(self) -> Result<Encoded> {
        let mut bytes = Vec::with_capacity(9 + 4 * self.nulls.len() + self.body.len());
        if self.entry_size.is_some() {
            bytes.push(CONSTANT);
            bytes.extend(int(self.nulls.len())?);
            for index in self.nulls {
                bytes.extend(int(index)?);
            }
        } else {
            bytes.push(VARIABLE);
        }
        bytes.extend(int(self.count)?);
        bytes.extend(self.body);
        Ok(Encoded {
            payload: Some(bytes.into()),
            headers: self.headers,
        })
    }
}

fn int(number: usize) -> Result<[u8; 4]> {
    i32::try_from(number).map(i32::to_be_bytes).map_err(|_| {
        Error::schema(format!(
            "list: {number} entries or bytes are more than the format can count"
        ))
    })
}
