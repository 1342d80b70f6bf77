//! A partition whose log is another: it is lost, and assigned anew, in one assignment of the group.

use super::context::GroupContext;
use super::events::{AssignedPartition, GroupEvent};
use super::member::Member;
use super::period::{OwnedPartition, PartitionReader, Period, Remains};
use super::rebalance::committed;
use super::table::Place;
use crate::error::{Error, Result};
use crate::transport::kafka::ffi::SharedConsumer;
use rdkafka::TopicPartitionList;
use rdkafka::topic_partition_list::Offset;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tokio::sync::oneshot;

/// How long after a failure the committed offset is looked up again.
const AGAIN: Duration = Duration::from_secs(1);

/// An ownership that begins once the committed offset is known.
pub(super) struct Restart {
    place: Place,
    remains: Remains,
    committed: oneshot::Receiver<Option<i64>>,
}

impl Member {
    /// Has readers go on, or begins other ownerships. `doubts` were told before everything was
    /// polled, if it was.
    pub(super) fn settle_doubts(
        &mut self,
        doubts: Vec<OwnedPartition>,
        polled_all: bool,
    ) -> Result<()> {
        for doubt in doubts {
            let Some(period) = self.shared.table.current(&doubt) else {
                continue;
            };
            // What is told must not grow beyond what has room; when there is some, the bell rings.
            if !polled_all || !self.all_told() {
                self.shared.news.put_doubt(&doubt);
                if !polled_all {
                    self.shared.bell.ring();
                }
            } else if period.is_of_another_log() {
                self.restart(&period)?;
            }
        }
        Ok(())
    }

    fn restart(&mut self, period: &Arc<Period>) -> Result<()> {
        let remains = period.remains();
        let OwnedPartition {
            topic, partition, ..
        } = &period.owned;
        let place = (Arc::clone(topic), *partition);
        self.lose(std::slice::from_ref(period));
        let (found, committed) = oneshot::channel();
        let (consumer, bell) = (Arc::clone(&self.consumer), Arc::clone(&self.shared.bell));
        let asked = place.clone();
        thread::Builder::new()
            .name("kafka-committed".to_owned())
            .spawn(move || {
                look_up(&consumer, &asked, found);
                bell.ring();
            })
            .map_err(|cause| Error::unavailable("could not start a thread").with_source(cause))?;
        self.rebalancing.restarts.push(Restart {
            place,
            remains,
            committed,
        });
        Ok(())
    }

    /// Begins the ownerships of which everything is known.
    pub(super) fn finish_restarts(&mut self) -> Result<()> {
        for mut restart in std::mem::take(&mut self.rebalancing.restarts) {
            match restart.committed.try_recv() {
                Ok(committed) => self.begin_anew(restart, committed)?,
                Err(oneshot::error::TryRecvError::Empty) => self.rebalancing.restarts.push(restart),
                // The consumer is over.
                Err(oneshot::error::TryRecvError::Closed) => {}
            }
        }
        Ok(())
    }

    /// Where a log was cut, what is committed lies below the first record that was written anew; what
    /// the ended ownership had not finished lies between them, and comes again. An offset beyond that
    /// record is of a log that is gone.
    fn begin_anew(&mut self, restart: Restart, committed: Option<i64>) -> Result<()> {
        let Restart { place, remains, .. } = restart;
        let owned = OwnedPartition {
            topic: place.0,
            partition: place.1,
            ownership: self.rebalancing.next_ownership(),
        };
        let first = remains.first();
        let start = committed.filter(|committed| first.is_some_and(|first| *committed <= first));
        let period = self.open(&owned, Some(remains))?;
        if let Some(start) = start.filter(|start| first.is_some_and(|first| *start < first)) {
            period.go_back(start);
        }
        self.tell(GroupEvent::Assigned(vec![AssignedPartition {
            partition: owned,
            start,
            reader: PartitionReader::new(period),
        }]));
        Ok(())
    }

    /// A rebalance decides over these.
    pub(super) fn drop_restarts(&mut self, places: &[Place]) {
        let restarts = &mut self.rebalancing.restarts;
        restarts.retain(|restart| !places.contains(&restart.place));
    }
}

/// Blocks until the answer is certain, or nobody waits for it any more.
fn look_up(
    consumer: &SharedConsumer<GroupContext>,
    (topic, partition): &Place,
    found: oneshot::Sender<Option<i64>>,
) {
    while !found.is_closed() {
        let mut list = TopicPartitionList::with_capacity(1);
        list.add_partition(topic, *partition);
        if let Some(list) = committed(consumer, list) {
            let element = list.find_partition(topic, *partition);
            let offset = element.and_then(|element| match element.offset() {
                Offset::Offset(offset) => Some(offset),
                _ => None,
            });
            // The loop may have gone on without it.
            let _ = found.send(offset);
            return;
        }
        thread::sleep(AGAIN);
    }
}
