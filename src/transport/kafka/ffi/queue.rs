//! One partition's own queue, read in batches; and commits that nobody waits for.

use super::{OwnedMessage, SharedConsumer};
use rdkafka::TopicPartitionList;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka_sys as sys;
use std::any::Any;
use std::ffi::{CString, c_void};
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;
use tokio::sync::Notify;

/// The queue of one partition, taken off the consumer's own queue.
///
/// All queues of a partition are one inside librdkafka: the earlier must be dropped before a later
/// one is opened, for a drop takes the wake-up away.
pub(in crate::transport::kafka) struct PartitionQueue {
    queue: NonNull<sys::rd_kafka_queue_t>,
    /// The consumer's own, alive as long as that.
    client: NonNull<sys::rd_kafka_t>,
    /// The partition alone, to ask where it is.
    place: TopicPartitionList,
    /// What the wake-up is given: it must be there until that is taken away.
    _wake: Arc<Notify>,
    /// Last: the consumer must outlive its queue.
    consumer: Arc<dyn Any + Send + Sync>,
}

/// How many pointers to messages are on the stack at once.
const CHUNK: usize = 128;

// SAFETY: librdkafka locks its queues, and its client is made for many threads.
unsafe impl Send for PartitionQueue {}
// SAFETY: as above.
unsafe impl Sync for PartitionQueue {}

impl PartitionQueue {
    /// Splits the partition off. To be called before the partition is assigned: fetching looks
    /// once, when it starts, whether its records are to go to the consumer's queue.
    ///
    /// `wake` is notified whenever something comes into the empty queue.
    pub(in crate::transport::kafka) fn open<C: ConsumerContext + 'static>(
        consumer: &Arc<SharedConsumer<C>>,
        topic: &str,
        partition: i32,
        wake: Arc<Notify>,
    ) -> Option<Self> {
        let mut place = TopicPartitionList::with_capacity(1);
        place.add_partition(topic, partition);
        let topic = CString::new(topic).ok()?;
        let client = NonNull::new(consumer.get()?.client().native_ptr())?;
        // SAFETY: the client is alive and the name is copied; the queue is ours to destroy. The
        // wake-up is given a pointer that `_wake` keeps valid until drop has taken it away.
        unsafe {
            let queue =
                sys::rd_kafka_queue_get_partition(client.as_ptr(), topic.as_ptr(), partition);
            let queue = NonNull::new(queue)?;
            sys::rd_kafka_queue_forward(queue.as_ptr(), null_mut());
            let opaque = Arc::as_ptr(&wake).cast_mut().cast::<c_void>();
            sys::rd_kafka_queue_cb_event_enable(queue.as_ptr(), Some(notify), opaque);
            Some(PartitionQueue {
                queue,
                client,
                place,
                _wake: wake,
                consumer: Arc::clone(consumer) as Arc<dyn Any + Send + Sync>,
            })
        }
    }

    /// Gives `each` what is there now, `max` at most; never waits, allocates nothing. Answers how much
    /// that was: less than `max` means that the queue was seen empty. With an error comes the offset
    /// at which it arose.
    ///
    /// librdkafka takes what it gives here for a record of that offset, an error too, and goes on
    /// after it when a pause ends: an error must be followed by [`seek`](Self::seek). For the same
    /// reason news of the end (`enable.partition.eof`) must be off.
    pub(in crate::transport::kafka) fn take(
        &self,
        max: usize,
        mut each: impl FnMut(Result<OwnedMessage, (RDKafkaErrorCode, i64)>),
    ) -> usize {
        let mut taken = 0;
        while taken < max {
            let wanted = CHUNK.min(max - taken);
            let mut pointers = [null_mut::<sys::rd_kafka_message_t>(); CHUNK];
            // SAFETY: the queue is alive, and there is room for at least as many pointers as said.
            let count = unsafe {
                sys::rd_kafka_consume_batch_queue(
                    self.queue.as_ptr(),
                    0,
                    pointers.as_mut_ptr(),
                    wanted,
                )
            };
            let count = usize::try_from(count).unwrap_or(0);
            for pointer in pointers.into_iter().take(count) {
                let Some(native) = NonNull::new(pointer) else {
                    continue;
                };
                // SAFETY: the first `count` pointers are messages that are ours now, each given to
                // one OwnedMessage, or read and destroyed.
                unsafe {
                    let (code, offset) = (native.as_ref().err, native.as_ref().offset);
                    match RDKafkaErrorCode::from(code) {
                        RDKafkaErrorCode::NoError => {
                            each(Ok(OwnedMessage::taken(native, Arc::clone(&self.consumer))));
                        }
                        code => {
                            sys::rd_kafka_message_destroy(native.as_ptr());
                            each(Err((code, offset)));
                        }
                    }
                }
            }
            taken += count;
            if count < wanted {
                break;
            }
        }
        taken
    }

    /// The offset after everything that was taken, the markers of transactions included, which
    /// [`take`](Self::take) passes over in silence. `None` before something was taken; before the
    /// assignment has begun it may be that of an earlier one. No request.
    pub(in crate::transport::kafka) fn position(&mut self) -> Option<i64> {
        let list = self.place.ptr();
        // SAFETY: client and list are alive, and the list has one element.
        let offset = unsafe {
            sys::rd_kafka_position(self.client.as_ptr(), list);
            list.as_ref()?.elems.as_ref()?.offset
        };
        (offset >= 0).then_some(offset)
    }

    /// Has it go on at this offset, and forget what was fetched. Only asks for it: never waits.
    pub(in crate::transport::kafka) fn seek(&mut self, offset: i64) {
        let list = self.place.ptr();
        // SAFETY: client and list are alive, and the list has one element; the answer, which is
        // only that it was asked for, is null or an error that we own.
        unsafe {
            let Some(place) = list.as_ref().and_then(|list| list.elems.as_mut()) else {
                return;
            };
            place.offset = offset;
            let error = sys::rd_kafka_seek_partitions(self.client.as_ptr(), list, 0);
            if !error.is_null() {
                sys::rd_kafka_error_destroy(error);
            }
        }
    }
}

/// librdkafka calls this with the queue's lock held: it only notifies.
unsafe extern "C" fn notify(_: *mut sys::rd_kafka_t, wake: *mut c_void) {
    // SAFETY: the pointer that `open` gave, valid until `drop` has taken this away.
    unsafe { &*wake.cast::<Notify>() }.notify_one();
}

impl Drop for PartitionQueue {
    fn drop(&mut self) {
        // SAFETY: alive until destroyed here. Taking the wake-up away waits for the lock under
        // which it is called, so it does not run afterwards.
        unsafe {
            sys::rd_kafka_queue_cb_event_enable(self.queue.as_ptr(), None, null_mut());
            sys::rd_kafka_queue_destroy(self.queue.as_ptr());
        }
    }
}

/// Sends a commit; the answer comes to the context's `commit_callback` with a later poll. (rdkafka's
/// own asynchronous commit has no answer.)
pub(in crate::transport::kafka) fn commit<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    offsets: &TopicPartitionList,
) -> Result<(), RDKafkaErrorCode> {
    let client = consumer.client().native_ptr();
    // SAFETY: client and list are alive, and the list is copied. The answer's queue is counted by
    // librdkafka, so our handle of it can go at once.
    let code = unsafe {
        let queue = sys::rd_kafka_queue_get_consumer(client);
        if queue.is_null() {
            return Err(RDKafkaErrorCode::UnknownGroup);
        }
        let code = sys::rd_kafka_commit_queue(client, offsets.ptr(), queue, None, null_mut());
        sys::rd_kafka_queue_destroy(queue);
        code
    };
    super::checked(code)
}
