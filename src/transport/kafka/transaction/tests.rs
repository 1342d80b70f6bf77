//! Against the mock cluster, with faults that it is told to make. It isolates nothing: what is visible
//! is for tests on real Kafka.

use super::*;
use crate::status::{ErrorKind, Status};
use crate::transport::WriteFailure;
use crate::transport::kafka::ffi::MockCluster;
use bytes::Bytes;
use rdkafka::types::RDKafkaRespErr as Response;
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(40);

/// Numbers of requests in Kafka's protocol.
const PRODUCE: i16 = 0;
const INIT_PRODUCER_ID: i16 = 22;
const ADD_PARTITIONS: i16 = 24;
const END_TXN: i16 = 26;

struct Rig {
    cluster: MockCluster,
    settings: Settings,
}

fn rig() -> Rig {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic("out", 1).unwrap();
    let servers = cluster.bootstrap_servers();
    let settings = [
        ("bootstrap.servers", servers.as_str()),
        ("transaction.timeout.ms", "3000"),
        ("reconnect.backoff.ms", "10"),
        ("reconnect.backoff.max.ms", "50"),
    ];
    Rig {
        settings: settings.into_iter().collect(),
        cluster,
    }
}

impl Rig {
    fn sink(&self) -> TransactionalSink {
        TransactionalSink::start(&self.settings, "shop.one").unwrap()
    }

    fn fail(&self, request: i16, errors: &[Response]) {
        self.cluster.fail_requests(request, errors);
    }
}

fn record(topic: &str) -> OutgoingRecord {
    OutgoingRecord {
        topic: topic.to_owned(),
        partition: Some(0),
        value: Some(Bytes::from_static(b"secret")),
        ..OutgoingRecord::default()
    }
}

async fn write(sink: &TransactionalSink, records: usize) -> Result<(), TransactionError> {
    let work = Transaction {
        records: (0..records).map(|_| record("out")).collect(),
        ..Transaction::default()
    };
    timeout(PATIENCE, sink.transact(work)).await.unwrap()
}

#[tokio::test]
async fn what_passes_is_tried_again() {
    use Response::*;
    let rig = rig();
    let moves = [
        RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS,
        RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE,
    ];
    rig.fail(INIT_PRODUCER_ID, &moves);
    let sink = rig.sink();
    write(&sink, 2).await.unwrap();
    rig.fail(ADD_PARTITIONS, &[RD_KAFKA_RESP_ERR_CONCURRENT_TRANSACTIONS]);
    rig.fail(END_TXN, &moves);
    write(&sink, 2).await.unwrap();
}

#[tokio::test]
async fn an_abort_leaves_the_producer_as_it_was() {
    use Response::*;
    let rig = rig();
    let sink = rig.sink();
    write(&sink, 1).await.unwrap();
    rig.fail(
        ADD_PARTITIONS,
        &[RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED],
    );
    let error = write(&sink, 3).await.unwrap_err();
    let TransactionError::Aborted { error, .. } = error else {
        panic!("{error:?}");
    };
    assert!(!format!("{error:?}").contains("secret"));
    write(&sink, 1).await.unwrap();
    rig.fail(PRODUCE, &[RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE]);
    let error = write(&sink, 1).await.unwrap_err();
    let TransactionError::Aborted { error, record } = error else {
        panic!("{error:?}");
    };
    assert_eq!((record, error.status()), (Some(0), Status::Permanent));
    assert_eq!(WriteFailure::of(&error), Some(WriteFailure::TooLarge));
    write(&sink, 1).await.unwrap();
}

/// From the commit on it is not known what became of it.
#[tokio::test]
async fn an_error_of_the_commit_leaves_it_in_doubt() {
    use Response::*;
    let rig = rig();
    let sink = rig.sink();
    rig.fail(END_TXN, &[RD_KAFKA_RESP_ERR_PRODUCER_FENCED]);
    let error = write(&sink, 1).await.unwrap_err();
    assert!(matches!(error, TransactionError::InDoubt(_)), "{error:?}");
    let error = write(&sink, 1).await.unwrap_err();
    assert!(matches!(error, TransactionError::Fatal(_)), "{error:?}");
    write(&rig.sink(), 1).await.unwrap();
}

#[tokio::test]
async fn an_id_that_may_not_be_used_is_fatal() {
    let rig = rig();
    let denied = Response::RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED;
    rig.fail(INIT_PRODUCER_ID, &[denied]);
    let error = write(&rig.sink(), 0).await.unwrap_err();
    let TransactionError::Fatal(error) = error else {
        panic!("{error:?}");
    };
    assert_eq!(error.kind(), ErrorKind::Config);
}

#[tokio::test]
async fn without_a_broker_each_transaction_ends_within_its_time() {
    let rig = rig();
    let sink = rig.sink();
    write(&sink, 1).await.unwrap();
    rig.cluster.set_broker(1, false).unwrap();
    let error = write(&sink, 1).await.unwrap_err();
    assert_eq!(error.error().status(), Status::Temporary, "{error:?}");
    rig.cluster.set_broker(1, true).unwrap();
    let again = async {
        let mut sink = sink;
        while let Err(error) = write(&sink, 1).await {
            if !matches!(error, TransactionError::Aborted { .. }) {
                sink = rig.sink();
            }
        }
    };
    timeout(PATIENCE, again).await.expect("it comes back");
}

#[tokio::test]
async fn wrong_settings_are_told_at_once() {
    for (name, value) in [("acks", "0"), ("linger.ms", "soon")] {
        let mut settings = rig().settings;
        settings.set(name, value);
        let error = TransactionalSink::start(&settings, "shop.one").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.message().contains(name), "{error}");
    }
    let error = TransactionalSink::start(&rig().settings, "").unwrap_err();
    assert!(error.message().contains("transactional.id"), "{error}");
}

#[tokio::test]
async fn offsets_need_their_group() {
    let rig = rig();
    let owned = crate::transport::kafka::OwnedPartition {
        topic: "in".into(),
        partition: 0,
        ownership: 1,
    };
    let work = Transaction {
        offsets: vec![Commit::new(owned, 1)],
        ..Transaction::default()
    };
    let error = timeout(PATIENCE, rig.sink().transact(work)).await.unwrap();
    assert_eq!(error.unwrap_err().error().kind(), ErrorKind::Config);
}
