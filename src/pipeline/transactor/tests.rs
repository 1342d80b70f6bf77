//! The transactor on a broker that fails as it is told to.

mod fake;

use super::*;
use crate::pipeline::ledger::{Ledger, Ownership, TopicPartition};
use crate::transport::WriteFailure;
use bytes::Bytes;
use fake::{Broker, Fake, Fate, Owned};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

const TICK: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(600);

struct Rig {
    fake: Fake,
    transactor: Transactor<Owned>,
    ledger: Ledger,
    task: JoinHandle<()>,
}

impl Rig {
    fn new(records: usize) -> Self {
        let (fake, room) = (
            Fake::default(),
            StagingRoom {
                records,
                ..StagingRoom::default()
            },
        );
        let transactor = Transactor::new(room);
        let task = tokio::spawn(transactor.clone().run(fake.clone(), TICK));
        Rig {
            fake,
            transactor,
            ledger: Ledger::new(),
            task,
        }
    }

    fn assign(&mut self, owned: Owned) -> MarkCell {
        let place = TopicPartition::new("in", i32::from(owned.0));
        let ownership = Ownership::of(u64::from(owned.1));
        let mark = self.ledger.assign_as(place, ownership);
        self.transactor.assign(owned, mark.clone());
        mark
    }

    async fn stage(&self, owned: Owned, offset: i64) {
        let staged = self
            .transactor
            .stage(&owned, offset, effect(owned, offset), None);
        let staged = timeout(PATIENCE, staged).await.unwrap();
        assert!(matches!(staged, Written::Acknowledged), "{staged:?}");
    }

    async fn until(&self, is_so: impl Fn(&Broker) -> bool) {
        let waiting = async {
            while !is_so(&self.fake.broker()) {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(PATIENCE, waiting)
            .await
            .expect("it never came to pass");
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn record(text: String) -> OutgoingRecord {
    OutgoingRecord {
        topic: "out".to_owned(),
        value: Some(Bytes::from(text)),
        ..OutgoingRecord::default()
    }
}

fn effect(owned: Owned, offset: i64) -> Arc<[OutgoingRecord]> {
    Arc::from([record(format!("{}@{offset}.", owned.0))])
}

#[tokio::test(start_paused = true)]
async fn what_lies_below_the_mark_is_written_once_and_what_lies_beyond_waits() {
    let mut rig = Rig::new(100);
    let mark = rig.assign((0, 1));
    for offset in [0, 1, 3] {
        rig.stage((0, 1), offset).await;
    }
    mark.raise(2);
    rig.until(|broker| broker.transactions == 1).await;
    sleep(TICK * 10).await;
    let broker = rig.fake.broker();
    assert_eq!(broker.output, ["0@0.", "0@1."]);
    assert_eq!((broker.offsets[&(0, 1)], broker.transactions), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn an_abort_a_fatal_error_and_a_doubt_are_replayed_or_not() {
    let fates = [
        Fate::Abort,
        Fate::Refuse,
        Fate::Fatal,
        Fate::Doubt(false),
        Fate::Doubt(true),
    ];
    for fate in fates {
        let mut rig = Rig::new(100);
        rig.fake.broker().fates.push_back(fate);
        let mark = rig.assign((0, 1));
        rig.stage((0, 1), 0).await;
        mark.raise(1);
        assert!(rig.transactor.flush(&[(0, 1)], PATIENCE).await, "{fate:?}");
        let broker = rig.fake.broker();
        assert_eq!(broker.output, ["0@0."], "{fate:?}");
        let replaced = matches!(fate, Fate::Fatal | Fate::Doubt(_));
        assert_eq!(broker.renewed > 0, replaced, "{fate:?}");
    }
}

/// A record that cannot be written holds its own partition, after what comes before it.
#[tokio::test(start_paused = true)]
async fn others_go_on_while_one_partition_holds() {
    for blame in [true, false] {
        let mut rig = Rig::new(1_000);
        match blame {
            true => rig.fake.broker().bad = Some(("0@3.", WriteFailure::UnknownTopic)),
            false => rig.fake.broker().denied = Some("0@3."),
        }
        let marks: Vec<MarkCell> = (0..3).map(|p| rig.assign((p, 1))).collect();
        for offset in 0..10 {
            for partition in 0..3 {
                rig.stage((partition, 1), offset).await;
            }
        }
        marks.iter().for_each(|mark| mark.raise(10));
        let others = [(1, 1), (2, 1)];
        assert!(rig.transactor.flush(&others, Duration::from_secs(10)).await);
        rig.until(|broker| broker.offsets.get(&(0, 1)) == Some(&3))
            .await;
        assert!(
            !rig.transactor
                .flush(&[(0, 1)], Duration::from_secs(10))
                .await
        );
        let count = rig.fake.broker().transactions;
        sleep(Duration::from_secs(10)).await;
        let tries = rig.fake.broker().transactions - count;
        assert!(
            (5..20).contains(&tries),
            "it is tried once a second: {tries}"
        );
        assert_eq!(rig.fake.broker().unwritten > 0, blame);

        rig.fake.broker().bad = None;
        rig.fake.broker().denied = None;
        assert!(rig.transactor.flush(&[(0, 1)], PATIENCE).await);
        let broker = rig.fake.broker();
        let of_0 = broker.output.iter().filter(|text| text.starts_with("0@"));
        let expected: Vec<String> = (0..10).map(|offset| format!("0@{offset}.")).collect();
        assert_eq!(of_0.cloned().collect::<Vec<_>>(), expected);
        assert_eq!(broker.output.len(), 30);
    }
}

fn instead(make: impl Fn(usize) -> Option<OutgoingRecord> + Send + Sync + 'static) -> Instead {
    Instead {
        make: Arc::new(move |step, _| Box::pin(std::future::ready(make(step)))),
        bytes: 10,
        told: false,
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_too_large_is_shortened_and_then_held() {
    let mut rig = Rig::new(100);
    rig.fake.broker().bad = Some(("large", WriteFailure::TooLarge));
    let mark = rig.assign((0, 1));
    let shorten = instead(|step| {
        (step < 3).then(|| {
            record(match step {
                1 => "still large".to_owned(),
                _ => "short".to_owned(),
            })
        })
    });
    let large: Arc<[OutgoingRecord]> = Arc::from([record("large".to_owned())]);
    let staged = rig
        .transactor
        .stage(&(0, 1), 0, Arc::clone(&large), Some(shorten));
    assert!(matches!(staged.await, Written::Acknowledged));
    mark.raise(1);
    assert!(rig.transactor.flush(&[(0, 1)], PATIENCE).await);
    {
        let broker = rig.fake.broker();
        assert_eq!(broker.output, ["short"]);
        assert_eq!((broker.transactions, broker.unwritten), (3, 0));
    }

    let none = instead(|_| None);
    let staged = rig.transactor.stage(&(0, 1), 1, large, Some(none));
    assert!(matches!(staged.await, Written::Acknowledged));
    mark.raise(2);
    assert!(
        !rig.transactor
            .flush(&[(0, 1)], Duration::from_secs(5))
            .await
    );
    assert!(rig.fake.broker().unwritten > 0);
    assert_eq!(rig.transactor.uncommitted(&[(0, 1)]), 1);
}

/// Records beyond the mark fill the room, and the one that the mark waits for comes last.
#[tokio::test(start_paused = true)]
async fn a_full_room_makes_others_wait_but_not_the_one_that_all_wait_for() {
    let mut rig = Rig::new(3);
    let mark = rig.assign((0, 1));
    mark.set_oldest(Some(0));
    for offset in [1, 2, 3] {
        rig.stage((0, 1), offset).await;
    }
    let later = rig.transactor.stage(&(0, 1), 4, effect((0, 1), 4), None);
    let later = tokio::spawn(later);
    sleep(TICK * 20).await;
    assert!(!later.is_finished());
    rig.stage((0, 1), 0).await;
    mark.raise(4);
    mark.set_oldest(Some(4));
    let staged = timeout(PATIENCE, later).await.unwrap().unwrap();
    assert!(matches!(staged, Written::Acknowledged));
    mark.raise(5);
    assert!(rig.transactor.flush(&[(0, 1)], PATIENCE).await);
    assert_eq!(rig.fake.broker().output.len(), 5);
}

/// One record after the other, each the one that the mark waits for: it is bounded all the same while
/// nothing can be written, and the other partition goes on.
#[tokio::test(start_paused = true)]
async fn in_order_a_partition_that_cannot_be_written_stages_within_the_room() {
    let mut rig = Rig::new(16);
    rig.fake.broker().bad = Some(("0@0.", WriteFailure::UnknownTopic));
    let marks = [rig.assign((0, 1)), rig.assign((1, 1))];
    let mut waiting = None;
    for offset in 0..100 {
        marks[0].set_oldest(Some(offset));
        let staged = (rig.transactor).stage(&(0, 1), offset, effect((0, 1), offset), None);
        let mut staged = tokio::spawn(staged);
        if timeout(TICK * 5, &mut staged).await.is_err() {
            waiting = Some((offset, staged));
            break;
        }
        marks[0].raise(offset + 1);
    }
    let (stuck, staged) = waiting.expect("all were staged");
    assert_eq!(stuck, 16);
    for offset in 0..100 {
        marks[1].set_oldest(Some(offset));
        rig.stage((1, 1), offset).await;
        marks[1].raise(offset + 1);
    }
    assert!(rig.transactor.flush(&[(1, 1)], PATIENCE).await);
    assert!(!staged.is_finished());
    rig.fake.broker().bad = None;
    let written = timeout(PATIENCE, staged).await.unwrap().unwrap();
    assert!(matches!(written, Written::Acknowledged), "{written:?}");
    marks[0].raise(17);
    assert!(rig.transactor.flush(&[(0, 1)], PATIENCE).await);
    let broker = rig.fake.broker();
    let of_0 = broker.output.iter().filter(|text| text.starts_with("0@"));
    assert_eq!(of_0.count(), 17);
}

/// FC-069.
#[tokio::test(start_paused = true)]
async fn a_partition_that_is_forgotten_writes_nothing_any_more() {
    let mut rig = Rig::new(1);
    let mark = rig.assign((0, 1));
    rig.stage((0, 1), 0).await;
    let waiting = rig.transactor.stage(&(0, 1), 1, effect((0, 1), 1), None);
    let waiting = tokio::spawn(waiting);
    sleep(TICK).await;
    rig.transactor.forget(&(0, 1));
    mark.raise(2);
    let staged = timeout(PATIENCE, waiting).await.unwrap().unwrap();
    assert!(matches!(staged, Written::Held(_)), "{staged:?}");
    sleep(TICK * 10).await;
    assert_eq!(rig.fake.broker().transactions, 0);
    assert!(
        rig.transactor.flush(&[(0, 1)], Duration::ZERO).await,
        "nothing is open"
    );
    assert!(rig.transactor.partitions().is_empty());
}

/// In 300 random runs each record is in the output once, in the order of its partition, whatever
/// becomes of the transactions.
#[tokio::test(start_paused = true)]
async fn whatever_fails_each_effect_is_written_once_and_in_order() {
    for seed in 0..300 {
        let mut chance = StdRng::seed_from_u64(seed);
        let mut rig = Rig::new(20);
        for _ in 0..40 {
            let fate = match chance.random_range(0..6) {
                0 => Fate::Abort,
                1 => Fate::Refuse,
                2 => Fate::Fatal,
                3 => Fate::Doubt(false),
                4 => Fate::Doubt(true),
                _ => Fate::Commit,
            };
            rig.fake.broker().fates.push_back(fate);
        }
        let marks: Vec<MarkCell> = (0..3).map(|p| rig.assign((p, 1))).collect();
        for offset in 0..40_i64 {
            for (partition, mark) in (0..).zip(&marks) {
                mark.set_oldest(Some(offset));
                rig.stage((partition, 1), offset).await;
                mark.raise(offset + 1);
            }
            if chance.random_bool(0.3) {
                sleep(Duration::from_millis(chance.random_range(0..300))).await;
            }
        }
        let all = [(0, 1), (1, 1), (2, 1)];
        assert!(rig.transactor.flush(&all, PATIENCE).await, "seed {seed}");
        let broker = rig.fake.broker();
        for partition in 0..3 {
            let prefix = format!("{partition}@");
            let of_it = broker
                .output
                .iter()
                .filter(|text| text.starts_with(&prefix));
            let expected: Vec<String> = (0..40).map(|n| format!("{prefix}{n}.")).collect();
            assert_eq!(of_it.cloned().collect::<Vec<_>>(), expected, "seed {seed}");
        }
    }
}
