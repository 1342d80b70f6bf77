//! A partition of a consumer group as a worker's source.

use super::source::{PartitionSource, Room, SourceRecord, Taken, weight};
use crate::record::Record;
use crate::transport::kafka::{KafkaRecord, PartitionReader, ReadTo};
use std::collections::VecDeque;
use std::task::{Context, Poll, ready};

/// What a record is taken to weigh before one was seen.
const FIRST_GUESS: usize = 1024;

impl SourceRecord for KafkaRecord {
    #[inline]
    fn record(&self) -> Record<'_> {
        KafkaRecord::record(self)
    }

    fn has_readable_headers(&self) -> bool {
        KafkaRecord::has_readable_headers(self)
    }
}

/// Takes from a [`PartitionReader`], which counts records, as many bytes as there is room for.
pub(super) struct KafkaPartition {
    reader: PartitionReader,
    /// Taken from the reader beyond the room in bytes; at most one batch.
    ahead: VecDeque<KafkaRecord>,
    batch: Vec<KafkaRecord>,
    /// What a record weighed lately, in bytes.
    weight: usize,
}

impl KafkaPartition {
    pub(super) fn new(reader: PartitionReader) -> Self {
        KafkaPartition {
            reader,
            ahead: VecDeque::new(),
            batch: Vec::new(),
            weight: FIRST_GUESS,
        }
    }

    /// Hands out what there is room for: at least one, if there is one.
    fn hand_out(&mut self, room: Room, into: &mut Vec<KafkaRecord>) {
        let (mut records, mut bytes) = (0, 0_usize);
        while records < room.records.max(1) && bytes < room.bytes.max(1) {
            let Some(next) = self.ahead.pop_front() else {
                break;
            };
            bytes = bytes.saturating_add(weight(&next.record()));
            records += 1;
            into.push(next);
        }
        if let Some(weight) = bytes.checked_div(records) {
            self.weight = weight.max(1);
        }
    }
}

impl PartitionSource for KafkaPartition {
    type Record = KafkaRecord;

    fn poll_take(
        &mut self,
        cx: &mut Context<'_>,
        room: Room,
        into: &mut Vec<KafkaRecord>,
    ) -> Poll<Taken> {
        if self.ahead.is_empty() {
            let by_weight = (room.bytes / self.weight).saturating_add(1);
            let max = room.records.min(by_weight).max(1);
            match ready!(self.reader.poll_take(cx, max, &mut self.batch)) {
                None => return Poll::Ready(Taken::Over),
                Some(ReadTo::End(position)) if self.batch.is_empty() => {
                    return Poll::Ready(Taken::Position(position));
                }
                Some(_) => self.ahead.extend(self.batch.drain(..)),
            }
        }
        self.hand_out(room, into);
        Poll::Ready(Taken::Records)
    }
}
