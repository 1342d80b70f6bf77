//! Staging against a model of what a reader of committed records may see.

use super::*;
use bytes::Bytes;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// A partition and the number of its ownership.
type Owned = (u8, u32);

const ALL: StagingRoom = StagingRoom {
    records: usize::MAX,
    bytes: usize::MAX,
};

fn record(text: String) -> OutgoingRecord {
    OutgoingRecord {
        topic: "out".to_owned(),
        value: Some(Bytes::from(text)),
        ..OutgoingRecord::default()
    }
}

fn effect(partition: u8, offset: i64, count: usize) -> Arc<[OutgoingRecord]> {
    let text = |index| record(format!("{partition}:{offset}:{index}"));
    (0..count).map(text).collect()
}

fn texts<P>(batch: &StagedBatch<P>) -> Vec<String> {
    let text = |record: &OutgoingRecord| {
        String::from_utf8(record.value.clone().unwrap().to_vec()).unwrap()
    };
    batch.records().map(text).collect()
}

fn staging(room: StagingRoom) -> Staging<Owned> {
    let mut staging = Staging::new(room);
    staging.add_partition((0, 1));
    staging
}

#[test]
fn only_what_lies_below_the_mark_is_taken_and_an_abort_brings_it_again() {
    let mut staging = staging(ALL);
    for offset in [7, 3, 5] {
        let staged = staging.stage(&(0, 1), offset, &effect(0, offset, 2), false);
        assert_eq!(staged, Staged::Done);
    }
    let batch = staging.take([((0, 1), 6)], ALL);
    assert_eq!(texts(&batch), ["0:3:0", "0:3:1", "0:5:0", "0:5:1"]);
    assert_eq!(batch.offsets().collect::<Vec<_>>(), [(&(0, 1), 6)]);
    assert_eq!(batch.source(3), Some((&(0, 1), 5, 1)));
    assert_eq!(batch.source(4), None);
    assert!(
        staging.take([((0, 1), 6)], ALL).is_empty(),
        "it is under way"
    );
    staging.aborted(&batch);
    let again = staging.take([((0, 1), 6)], ALL);
    assert_eq!(texts(&again), texts(&batch));
    staging.committed(&again);
    assert!(staging.take([((0, 1), 6)], ALL).is_empty());
    assert_eq!(staging.len(), 2);
    assert_eq!(staging.committed_offset(&(0, 1)), Some(6));
}

#[test]
fn a_mark_that_moved_is_committed_without_effects_too() {
    let mut staging = staging(ALL);
    let batch = staging.take([((0, 1), 4)], ALL);
    assert_eq!((texts(&batch).len(), batch.is_empty()), (0, false));
    staging.committed(&batch);
    assert!(staging.take([((0, 1), 4)], ALL).is_empty());
}

/// FC-069: what is late of an ownership that ended finds no place, and what was staged is gone.
#[test]
fn a_lost_partition_is_dropped_and_its_late_effects_are_refused() {
    let mut staging = staging(ALL);
    staging.stage(&(0, 1), 1, &effect(0, 1, 1), false);
    let batch = staging.take([((0, 1), 2)], ALL);
    staging.drop_partition(&(0, 1));
    staging.add_partition((0, 2));
    let late = staging.stage(&(0, 1), 2, &effect(0, 2, 1), true);
    assert_eq!(late, Staged::Ended);
    staging.committed(&batch);
    assert!(staging.is_empty());
    assert_eq!(staging.committed_offset(&(0, 2)), None);
    assert!(staging.take([((0, 1), 9)], ALL).is_empty());
}

#[test]
fn without_room_only_what_the_mark_waits_for_is_admitted() {
    let mut staging = staging(StagingRoom {
        records: 2,
        bytes: 1_000_000,
    });
    let mut stage = |offset, must| staging.stage(&(0, 1), offset, &effect(0, offset, 1), must);
    assert_eq!(stage(8, false), Staged::Done);
    assert_eq!(stage(9, false), Staged::Done);
    assert_eq!(stage(7, false), Staged::Full);
    assert_eq!(stage(6, true), Staged::Done);
    assert_eq!(
        stage(9, false),
        Staged::Done,
        "staged again, it takes no more"
    );
    assert_eq!(staging.len(), 3);
    let batch = staging.take([((0, 1), 10)], ALL);
    staging.committed(&batch);
    assert!(staging.has_room(&(0, 1)) && staging.bytes == 0);
}

#[test]
fn a_partition_that_fills_the_room_leaves_the_others_their_share() {
    let mut staging = staging(StagingRoom {
        records: 48,
        bytes: usize::MAX,
    });
    staging.add_partition((1, 1));
    staging.add_partition((2, 1));
    let mut fill = |partition: u8| {
        let mut offsets = 0..1_000_i64;
        let mut stage = |offset| {
            let effect = effect(partition, offset, 1);
            staging.stage(&(partition, 1), offset, &effect, false) == Staged::Done
        };
        offsets.find(|offset| !stage(*offset))
    };
    assert_eq!([fill(0), fill(1), fill(2)], [Some(48), Some(2), Some(2)]);
}

#[test]
fn a_batch_that_is_cut_commits_up_to_what_stays_behind() {
    let mut staging = staging(ALL);
    for offset in [2, 4, 6] {
        staging.stage(&(0, 1), offset, &effect(0, offset, 1), false);
    }
    let one = StagingRoom {
        records: 1,
        bytes: usize::MAX,
    };
    let mut offsets = Vec::new();
    loop {
        let batch = staging.take([((0, 1), 9)], one);
        if batch.is_empty() {
            break;
        }
        assert_eq!(texts(&batch).len(), 1);
        offsets.extend(batch.offsets().map(|(_, offset)| offset));
        staging.committed(&batch);
    }
    assert_eq!(offsets, [4, 6, 9]);
}

#[test]
fn a_record_is_replaced_but_not_under_way() {
    let mut staging = staging(ALL);
    staging.stage(&(0, 1), 1, &effect(0, 1, 2), false);
    let batch = staging.take([((0, 1), 2)], ALL);
    assert!(!staging.replace(&(0, 1), 1, record("short".to_owned())));
    staging.aborted(&batch);
    assert!(!staging.replace(&(0, 1), 2, record("none".to_owned())));
    assert!(staging.replace(&(0, 1), 1, record("short".to_owned())));
    staging.add_bytes(&(0, 1), 1, 1_000);
    let batch = staging.take([((0, 1), 2)], ALL);
    assert_eq!(texts(&batch), ["short"]);
    staging.committed(&batch);
    assert_eq!((staging.records, staging.bytes), (0, 0));
}

/// What happens to a pipeline, as far as its staging is concerned.
#[derive(Clone, Debug)]
enum Step {
    /// The record at the partition's next offset, or one of those unfinished, is finished.
    Finish {
        partition: u8,
        nth: usize,
        effects: usize,
    },
    Take {
        most: usize,
    },
    Commit,
    Abort,
    Lose {
        partition: u8,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let partition = 0..3_u8;
    prop_oneof![
        6 => (partition.clone(), 0..5_usize, 0..3_usize)
            .prop_map(|(partition, nth, effects)| Step::Finish { partition, nth, effects }),
        3 => (1..8_usize).prop_map(|most| Step::Take { most }),
        2 => Just(Step::Commit),
        1 => Just(Step::Abort),
        1 => partition.prop_map(|partition| Step::Lose { partition }),
    ]
}

/// A partition as its group sees it, whoever owns it.
#[derive(Default)]
struct Model {
    ownership: u32,
    committed: i64,
    finished: BTreeSet<i64>,
    mark: i64,
    output: Vec<String>,
    /// What each record would write, once.
    effects: BTreeMap<i64, usize>,
}

proptest! {
    /// Each record's effects are in the committed output exactly once if and only if its offset is
    /// below the committed one, in the order of the partition; whatever is aborted, lost or late.
    #[test]
    fn the_committed_output_is_that_of_the_committed_offsets(
        steps in proptest::collection::vec(step(), 1..120)
    ) {
        let mut staging = Staging::new(ALL);
        let mut models: Vec<Model> = (0..3).map(|_| Model::default()).collect();
        let mut batch: Option<StagedBatch<Owned>> = None;
        for partition in 0..3 {
            staging.add_partition((partition, 0));
        }
        for step in steps {
            match step {
                Step::Finish { partition, nth, effects } => {
                    let model = &mut models[usize::from(partition)];
                    let open: Vec<i64> = (model.mark..)
                        .filter(|offset| !model.finished.contains(offset))
                        .take(5)
                        .collect();
                    let offset = open[nth];
                    // The same record makes the same effects whenever it is handled.
                    let count = *model.effects.entry(offset).or_insert(effects);
                    let owned = (partition, model.ownership);
                    if count > 0 {
                        let staged =
                            staging.stage(&owned, offset, &effect(partition, offset, count), false);
                        prop_assert_eq!(staged, Staged::Done);
                    }
                    if let Some(stale) = model.ownership.checked_sub(1) {
                        let late = effect(partition, offset, 1);
                        let staged = staging.stage(&(partition, stale), offset, &late, true);
                        prop_assert_eq!(staged, Staged::Ended);
                    }
                    model.finished.insert(offset);
                    while model.finished.contains(&model.mark) {
                        model.mark += 1;
                    }
                }
                Step::Take { most } if batch.is_none() => {
                    let marks: Vec<(Owned, i64)> = (0..3)
                        .zip(&models)
                        .filter(|(_, model)| model.mark > model.committed)
                        .map(|(partition, model)| ((partition, model.ownership), model.mark))
                        .collect();
                    let room = StagingRoom { records: most, bytes: usize::MAX };
                    batch = Some(staging.take(marks, room)).filter(|batch| !batch.is_empty());
                }
                Step::Commit => {
                    let Some(batch) = batch.take() else { continue };
                    // A transaction that commits for an ownership that ended is refused as a whole.
                    let fenced = batch.offsets().any(|((partition, ownership), _)| {
                        models[usize::from(*partition)].ownership != *ownership
                    });
                    if fenced {
                        staging.aborted(&batch);
                        continue;
                    }
                    for text in texts(&batch) {
                        let partition: usize = text[..1].parse().unwrap();
                        models[partition].output.push(text);
                    }
                    for ((partition, _), offset) in batch.offsets() {
                        let model = &mut models[usize::from(*partition)];
                        prop_assert!(offset > model.committed, "offsets rise");
                        model.committed = offset;
                    }
                    staging.committed(&batch);
                }
                Step::Abort => {
                    if let Some(batch) = batch.take() {
                        staging.aborted(&batch);
                    }
                }
                Step::Lose { partition } => {
                    let model = &mut models[usize::from(partition)];
                    staging.drop_partition(&(partition, model.ownership));
                    model.ownership += 1;
                    staging.add_partition((partition, model.ownership));
                    model.finished.clear();
                    model.mark = model.committed;
                }
                Step::Take { .. } => {}
            }
            for (partition, model) in (0..3_u8).zip(&models) {
                let below = model.effects.range(..model.committed);
                let expected: Vec<String> = below
                    .flat_map(|(offset, count)| {
                        (0..*count).map(move |index| format!("{partition}:{offset}:{index}"))
                    })
                    .collect();
                prop_assert_eq!(&model.output, &expected);
            }
        }
        for (partition, model) in (0..3_u8).zip(&models) {
            staging.drop_partition(&(partition, model.ownership));
        }
        prop_assert!(staging.is_empty() && staging.bytes == 0, "nothing is left over");
    }
}
