//! Exactly once on Kafka: one transactional producer a pipeline.

use super::ledger::MarkCell;
use super::observer::{PipelineEvent, PipelineObserver};
use super::settings::PipelineSettings;
use super::source::{Destination, Event};
use super::staging::StagingRoom;
use super::too_large::TooLarge;
use super::transactor::{Transactions, Transactor, TransactorEvent};
use crate::error::{Error, Result};
use crate::record::OutgoingRecord;
use crate::transport::kafka::{
    Commit, GroupHandle, OwnedPartition, Transaction, TransactionalSink,
};
use crate::transport::{Settings, TransactionError, WriteFailure, producer_settings};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// What is staged, and how it is to be written.
pub(super) struct ExactlyOncePlan {
    pub(super) transactor: Transactor<OwnedPartition>,
    producer: Settings,
    transactional_id: String,
    too_large: TooLarge,
    interval: Duration,
}

impl ExactlyOncePlan {
    /// # Errors
    /// Kind Config, when the consumer would not wait for transactions that are not over: it could begin
    /// before what another member is about to commit.
    pub(super) fn new(settings: &PipelineSettings, client: &Settings) -> Result<Self> {
        if client.get("isolation.level") == Some("read_uncommitted") {
            return Err(Error::config(
                "isolation.level=read_uncommitted cannot be exactly_once: a partition would be taken over \
                 at an offset that a transaction is about to move",
            ));
        }
        let mut producer = producer_settings(client, &settings.producer);
        // What a topic takes is for its broker to say; batches are limited all the same.
        producer.set_default("message.max.bytes", "100000000");
        Ok(ExactlyOncePlan {
            transactor: Transactor::new(StagingRoom::default()),
            producer,
            transactional_id: transactional_id(client, settings.instance.as_deref()),
            too_large: settings.dead_letter_too_large,
            interval: settings.commit_interval,
        })
    }
}

/// `<group>.<instance>`: who of the group it is says `group.instance.id`, else a property, else chance.
/// An instance that starts again under its name need not wait until the transaction that it left open
/// times out.
pub(super) fn transactional_id(client: &Settings, instance: Option<&str>) -> String {
    let group = client.get("group.id").unwrap_or_default();
    let named = |name: &&str| !name.is_empty();
    let by_group = client.get("group.instance.id").filter(named);
    match by_group.or(instance.filter(named)) {
        Some(instance) => format!("{group}.{instance}"),
        None => format!("{group}.{:032x}", rand::random::<u128>()),
    }
}

/// A running transactor; dropping it aborts what is under way.
pub(super) struct ExactlyOnce {
    transactor: Transactor<OwnedPartition>,
    refused: Refused,
    task: JoinHandle<()>,
}

/// What stops the pipeline.
#[derive(Clone, Default)]
struct Refused(Arc<Mutex<Option<Error>>>);

impl ExactlyOnce {
    /// # Errors
    /// Kind Config when settings of the producer are refused.
    pub(super) fn start(
        plan: ExactlyOncePlan,
        group: GroupHandle,
        observer: Arc<dyn PipelineObserver>,
    ) -> Result<Self> {
        let refused = Refused::default();
        let backend = KafkaTransactions {
            sink: Mutex::new(Arc::new(TransactionalSink::start(
                &plan.producer,
                &plan.transactional_id,
            )?)),
            producer: plan.producer,
            group,
            observer,
            too_large: plan.too_large,
            refused: refused.clone(),
        };
        let task = plan.transactor.clone().run(backend, plan.interval);
        Ok(ExactlyOnce {
            transactor: plan.transactor,
            refused,
            task: tokio::spawn(task),
        })
    }

    pub(super) fn assign(&self, partition: &OwnedPartition, mark: MarkCell) {
        self.transactor.assign(partition.clone(), mark);
    }

    pub(super) fn forget(&self, partition: &OwnedPartition) {
        self.transactor.forget(partition);
    }

    /// The partitions that wait until what is staged for an offset of theirs can be written.
    pub(super) fn held(&self) -> BTreeMap<OwnedPartition, i64> {
        self.transactor.held()
    }

    /// The partitions of which something finished waits to be committed.
    pub(super) fn due(&self) -> Vec<OwnedPartition> {
        let mut partitions = self.transactor.partitions();
        let is_due = |partition: &OwnedPartition| {
            self.transactor.uncommitted(std::slice::from_ref(partition)) > 0
        };
        partitions.retain(is_due);
        partitions
    }

    /// Why the pipeline is to stop, once.
    pub(super) fn take_refused(&self) -> Option<Error> {
        self.refused.lock().take()
    }

    /// Commits what these partitions finished, until `until`, and forgets them.
    pub(super) fn give_back(
        &self,
        partitions: Vec<OwnedPartition>,
        until: Instant,
    ) -> impl Future<Output = ()> + Send + 'static {
        let transactor = self.transactor.clone();
        async move {
            let limit = until.saturating_duration_since(Instant::now());
            transactor.flush(&partitions, limit).await;
            for partition in &partitions {
                transactor.forget(partition);
            }
        }
    }

    /// Commits everything that is finished; how many partitions that was not possible for.
    pub(super) async fn finish(&self, limit: Duration) -> usize {
        let partitions = self.transactor.partitions();
        match self.transactor.flush(&partitions, limit).await {
            true => 0,
            false => self.transactor.uncommitted(&partitions),
        }
    }
}

impl Drop for ExactlyOnce {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Refused {
    fn lock(&self) -> MutexGuard<'_, Option<Error>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct KafkaTransactions {
    sink: Mutex<Arc<TransactionalSink>>,
    producer: Settings,
    group: GroupHandle,
    observer: Arc<dyn PipelineObserver>,
    too_large: TooLarge,
    refused: Refused,
}

impl KafkaTransactions {
    fn sink(&self) -> MutexGuard<'_, Arc<TransactionalSink>> {
        self.sink.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Transactions for KafkaTransactions {
    type Partition = OwnedPartition;

    async fn transact(
        &self,
        records: Vec<OutgoingRecord>,
        offsets: Vec<(OwnedPartition, i64)>,
    ) -> Result<(), TransactionError> {
        let sink = Arc::clone(&self.sink());
        let commit = |(partition, offset)| Commit::new(partition, offset);
        let work = Transaction {
            records,
            offsets: offsets.into_iter().map(commit).collect(),
            group: Some(self.group.group_metadata()),
        };
        sink.transact(work).await
    }

    async fn renew(&self) -> Result<()> {
        let id = self.sink().transactional_id().to_owned();
        let new = Arc::new(TransactionalSink::start(&self.producer, &id)?);
        *self.sink() = Arc::clone(&new);
        let ready = new.transact(Transaction::default()).await;
        ready.map_err(TransactionError::into_error)
    }

    async fn committed(&self, partitions: &[OwnedPartition]) -> Result<Vec<Option<i64>>> {
        self.group.committed(partitions).await
    }

    fn tell(&self, event: TransactorEvent<'_, OwnedPartition>) {
        match event {
            TransactorEvent::Committed { partitions } => {
                self.observer
                    .event(&PipelineEvent::Committed { partitions });
            }
            TransactorEvent::Failed(error) => self.observer.event(&PipelineEvent::Warning(error)),
            TransactorEvent::Refused {
                partition,
                offset,
                error,
            } => {
                let to = Destination::Output;
                let event = Event::Unwritten { offset, to, error };
                self.observer
                    .event(&PipelineEvent::Record { partition, event });
            }
            TransactorEvent::Unwritten {
                partition,
                offset,
                error,
            } => {
                let to = Destination::Transaction;
                let event = Event::Unwritten { offset, to, error };
                let event = PipelineEvent::Record { partition, event };
                self.observer.event(&event);
                let too_large = WriteFailure::of(error) == Some(WriteFailure::TooLarge);
                if too_large && self.too_large == TooLarge::Stop {
                    let text = error.message().to_owned();
                    let stops = Error::new(error.kind(), error.status(), text);
                    let at = format!("{}-{}@{offset}", partition.topic, partition.partition);
                    self.refused.lock().get_or_insert(stops.at(at));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_is_named_by_its_group_by_a_property_or_by_chance() {
        let mut client = Settings::new();
        client.set("group.id", "shop");
        assert_eq!(transactional_id(&client, Some("a")), "shop.a");
        let ids = [(); 2].map(|()| transactional_id(&client, None));
        assert!(ids[0] != ids[1] && ids[0].starts_with("shop."), "{ids:?}");
        client.set("group.instance.id", "one");
        assert_eq!(transactional_id(&client, Some("a")), "shop.one");
    }
}
