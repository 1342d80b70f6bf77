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
    /// What the wake-up is given: it must be there until that is taken away.
    _wake: Arc<Notify>,
    /// `consumer`'s.
    client: NonNull<sys::rd_kafka_t>,
    topic: CString,
    partition: i32,
    /// Last: the consumer must outlive its queue.
    consumer: Arc<dyn Any + Send + Sync>,
}

// SAFETY: librdkafka locks its queues.
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
                _wake: wake,
                client,
                topic,
                partition,
                consumer: Arc::clone(consumer) as Arc<dyn Any + Send + Sync>,
            })
        }
    }

    /// Gives `each` what is there now, `max` at most; an error comes with its offset, which at the
    /// end of the partition is the next one. Never waits. Answers how much that was: less
    /// than `max` means that the queue was seen empty.
    ///
    /// With `enable.partition.eof` there is to be no pause and no rebalance: taken from here, an end
    /// counts as a record in librdkafka's position, from which it goes on after either, so that the
    /// next record is skipped.
    pub(in crate::transport::kafka) fn take(
        &self,
        max: usize,
        mut each: impl FnMut(Result<OwnedMessage, (RDKafkaErrorCode, i64)>),
    ) -> usize {
        let mut pointers = vec![null_mut::<sys::rd_kafka_message_t>(); max];
        // SAFETY: the queue is alive, and there is room for as many pointers as said.
        let count = unsafe {
            sys::rd_kafka_consume_batch_queue(
                self.queue.as_ptr(),
                0,
                pointers.as_mut_ptr(),
                pointers.len(),
            )
        };
        let count = usize::try_from(count).unwrap_or(0);
        for pointer in pointers.into_iter().take(count) {
            let Some(native) = NonNull::new(pointer) else {
                continue;
            };
            // SAFETY: the first `count` pointers are messages that are ours now, each given to one
            // OwnedMessage, or read and destroyed.
            unsafe {
                match RDKafkaErrorCode::from(native.as_ref().err) {
                    RDKafkaErrorCode::NoError => {
                        each(Ok(OwnedMessage::taken(native, Arc::clone(&self.consumer))));
                    }
                    code => {
                        let offset = native.as_ref().offset;
                        sys::rd_kafka_message_destroy(native.as_ptr());
                        each(Err((code, offset)));
                    }
                }
            }
        }
        count
    }

    /// Behind what was taken, records and the markers of transactions; none before the first.
    pub(in crate::transport::kafka) fn position(&self) -> Option<i64> {
        // SAFETY: the client is alive as long as `consumer`, and the list and its one element, ours
        // alone, until it is destroyed.
        unsafe {
            let list = NonNull::new(sys::rd_kafka_topic_partition_list_new(1))?;
            let element = sys::rd_kafka_topic_partition_list_add(
                list.as_ptr(),
                self.topic.as_ptr(),
                self.partition,
            );
            let code = sys::rd_kafka_position(self.client.as_ptr(), list.as_ptr());
            let offset = (*element).offset;
            sys::rd_kafka_topic_partition_list_destroy(list.as_ptr());
            // librdkafka's sentinels are negative.
            (super::checked(code).is_ok() && offset >= 0).then_some(offset)
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
