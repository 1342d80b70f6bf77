//! A run: consecutive records of a partition that are due at one time, as the changelog and the
//! index keep them.
//!
//! The changelog's key is text, `time:first-last` in decimal (milliseconds since the epoch and two
//! offsets); its value is version 1: `1`, a u32 count, then each record as a u32 length and its
//! [wire](crate::delay::wire) form, integers big-endian. A null value takes the run back. The key
//! has the last offset because two owners may cut the same records into different runs, and one of
//! them taking its run back must not take the other's.

use crate::delay::embedded::runs::RunKey;
use crate::delay::wire;
use crate::error::{Error, Result};
use crate::record::OutgoingRecord;
use bytes::{Buf, BufMut, Bytes, BytesMut};

const VERSION: u8 = 1;

/// The most records of a run.
pub(super) const RUN_RECORDS: usize = 500;

/// The size from which on a run takes no more records, in bytes.
pub(super) const RUN_BYTES: usize = 256 << 10;

/// Records as they are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) key: RunKey,
    /// In wire form, one for each offset.
    pub(super) records: Vec<Bytes>,
}

impl Run {
    /// A run of one record.
    pub(super) fn one(at: i64, offset: i64, record: Bytes) -> Self {
        Run {
            key: RunKey {
                at,
                first: offset,
                last: offset,
            },
            records: vec![record],
        }
    }

    fn size(&self) -> usize {
        self.records.iter().map(|record| record.len() + 4).sum()
    }

    /// Whether a record may follow.
    pub(super) fn takes(&self, at: i64, offset: i64, len: usize) -> bool {
        self.key.at == at
            && self.key.last.checked_add(1) == Some(offset)
            && self.records.len() < RUN_RECORDS
            && self.size() + len <= RUN_BYTES
    }

    pub(super) fn push(&mut self, record: Bytes) {
        self.key.last = self.key.last.saturating_add(1);
        self.records.push(record);
    }

    /// Both halves; `None` of one record.
    pub(super) fn halves(mut self) -> Option<(Run, Run)> {
        let half = self.records.len() / 2;
        if half == 0 {
            return None;
        }
        let tail = self.records.split_off(half);
        let middle = (self.key.first).saturating_add(i64::try_from(half).ok()?);
        let second = RunKey {
            first: middle,
            ..self.key
        };
        self.key.last = middle.saturating_sub(1);
        let tail = Run {
            key: second,
            records: tail,
        };
        Some((self, tail))
    }

    /// The value of its entry in the changelog.
    pub(super) fn value(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(5 + self.size());
        out.put_u8(VERSION);
        // At most RUN_RECORDS; a record's length is below u32::MAX by the wire form.
        out.put_u32(self.records.len() as u32);
        for record in &self.records {
            out.put_u32(record.len() as u32);
            out.put_slice(record);
        }
        out.freeze()
    }

    /// The run of an entry.
    ///
    /// # Errors
    /// Permanent: the value is not what [`value`](Self::value) makes of this key.
    pub(super) fn read(key: RunKey, mut value: Bytes) -> Result<Self> {
        let broken = || Error::malformed("a run is cut short or broken");
        let version = value.try_get_u8().map_err(|_| broken())?;
        if version != VERSION {
            return Err(Error::unsupported(format!("a run is of version {version}")));
        }
        let count = value.try_get_u32().map_err(|_| broken())?;
        let expected = key.last.saturating_sub(key.first).saturating_add(1);
        if i64::from(count) != expected || count as usize > value.len() / 4 {
            return Err(broken());
        }
        let mut records = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let len = value.try_get_u32().map_err(|_| broken())? as usize;
            if len > value.len() {
                return Err(broken());
            }
            records.push(value.split_to(len));
        }
        match value.is_empty() {
            true => Ok(Run { key, records }),
            false => Err(broken()),
        }
    }

    /// What is to be delivered, in the order of offsets.
    ///
    /// # Errors
    /// Permanent: a record is broken.
    pub(super) fn outgoing(&self) -> Result<Vec<OutgoingRecord>> {
        self.records.iter().cloned().map(wire::decode).collect()
    }
}

/// A run's key in the changelog.
pub(super) fn key_text(key: RunKey) -> String {
    let RunKey { at, first, last } = key;
    format!("{at}:{first}-{last}")
}

/// Reads a key of the changelog.
pub(super) fn read_key(key: &[u8]) -> Option<RunKey> {
    let text = std::str::from_utf8(key).ok()?;
    let (at, offsets) = text.split_once(':')?;
    let (first, last) = offsets.split_once('-')?;
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse().ok()).flatten()
    };
    let key = RunKey {
        at: number(at)?,
        first: number(first)?,
        last: number(last)?,
    };
    (key.first <= key.last).then_some(key)
}

/// A run in the index: its own time beside that at which it is looked at next, which is later after
/// a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) at: i64,
    /// From when on its delivery is late: its time, or when it was taken in after that.
    pub(super) since: i64,
    /// How often its delivery has failed.
    pub(super) attempts: u32,
    pub(super) value: Bytes,
}

impl Stored {
    pub(super) fn new(run: &Run, since: i64) -> Self {
        Stored {
            at: run.key.at,
            since: since.max(run.key.at),
            attempts: 0,
            value: run.value(),
        }
    }

    pub(super) fn row(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(20 + self.value.len());
        out.put_i64(self.at);
        out.put_i64(self.since);
        out.put_u32(self.attempts);
        out.put_slice(&self.value);
        out.freeze()
    }

    pub(super) fn read(mut row: Bytes) -> Option<Self> {
        Some(Stored {
            at: row.try_get_i64().ok()?,
            since: row.try_get_i64().ok()?,
            attempts: row.try_get_u32().ok()?,
            value: row,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn run(at: i64, first: i64, records: Vec<Vec<u8>>) -> Run {
        let mut records = records.into_iter().map(Bytes::from);
        let mut run = Run::one(at, first, records.next().unwrap_or_default());
        records.for_each(|record| run.push(record));
        run
    }

    fn records() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let record = proptest::collection::vec(any::<u8>(), 0..20);
        proptest::collection::vec(record, 1..20)
    }

    proptest! {
        #[test]
        fn a_run_comes_back(at in 0..i64::MAX, first in 0..i64::MAX / 2, records in records()) {
            let run = run(at, first, records);
            prop_assert_eq!(read_key(key_text(run.key).as_bytes()), Some(run.key));
            prop_assert_eq!(&Run::read(run.key, run.value()).unwrap(), &run);
            let stored = Stored { attempts: 7, ..Stored::new(&run, 3) };
            prop_assert_eq!(Stored::read(stored.row()), Some(stored));
            let value = run.value();
            for cut in 0..value.len() {
                prop_assert!(Run::read(run.key, value.slice(..cut)).is_err());
            }
            let longer = RunKey { last: run.key.last + 1, ..run.key };
            prop_assert!(Run::read(longer, value).is_err());
        }

        #[test]
        fn halves_are_the_whole(first in 0..1_000_i64, records in records()) {
            let run = run(5, first, records);
            match run.clone().halves() {
                None => prop_assert_eq!(run.records.len(), 1),
                Some((a, b)) => {
                    prop_assert_eq!(a.key.last + 1, b.key.first);
                    prop_assert_eq!((a.key.first, b.key.last), (run.key.first, run.key.last));
                    prop_assert_eq!([a.records, b.records].concat(), run.records);
                }
            }
        }

        #[test]
        fn any_bytes_are_a_run_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = read_key(&bytes);
            let key = RunKey { at: 0, first: 0, last: 1 };
            let _ = Run::read(key, Bytes::from(bytes));
        }
    }

    #[test]
    fn a_key_is_read_strictly() {
        for key in [
            "",
            "1:2",
            "1:2-",
            "1:3-2",
            "-1:2-3",
            "1:2-3 ",
            "+1:2-3",
            "1:2-9223372036854775808",
        ] {
            assert_eq!(read_key(key.as_bytes()), None, "{key}");
        }
    }

    #[test]
    fn a_run_takes_what_follows_at_the_same_time() {
        let run = run(10, 5, vec![vec![0]]);
        assert!(run.takes(10, 6, 1));
        assert!(!run.takes(11, 6, 1) && !run.takes(10, 7, 1) && !run.takes(10, 5, 1));
        assert!(!run.takes(10, 6, RUN_BYTES));
    }
}
