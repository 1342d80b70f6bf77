use crate::answer::BoxFuture;
use crate::delay::alarm::Alarm;
use crate::delay::topic::Moves;
use crate::pipeline::Gate;
use crate::record::Record;
use std::sync::Arc;

/// Opens for a record when it is to be moved.
pub(super) struct DueGate {
    moves: Arc<Moves>,
    alarm: Alarm,
}

impl DueGate {
    pub(super) fn new(moves: Arc<Moves>, alarm: Alarm) -> Self {
        DueGate { moves, alarm }
    }
}

impl Gate for DueGate {
    fn opens_at(&self, record: &Record<'_>) -> Option<i64> {
        self.moves.wait(record, self.now())
    }

    fn now(&self) -> i64 {
        self.alarm.clock().now()
    }

    fn reached(&self, at: i64) -> BoxFuture<'static, ()> {
        self.alarm.reached(at)
    }
}
