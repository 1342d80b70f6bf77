use super::*;
use crate::headers::Headers;
use crate::record::{OwnedRecord, Timestamp};

const NOW: i64 = 1_800_000_000_000;

fn record(offset: i64, headers: &[(&str, &str)]) -> OwnedRecord {
    let bytes = |text: &str| Bytes::copy_from_slice(text.as_bytes());
    OwnedRecord {
        topic: "later".to_owned(),
        offset,
        timestamp: Timestamp::CreateTime(NOW),
        value: Some(bytes("v")),
        headers: (headers.iter())
            .map(|(name, value)| (bytes(name), Some(bytes(value))))
            .collect::<Headers>(),
        ..OwnedRecord::default()
    }
}

fn at(offset: i64, at: i64) -> OwnedRecord {
    record(
        offset,
        &[("deliver-after", &at.to_string()), ("deliver-to", "orders")],
    )
}

fn planned(records: &[OwnedRecord], covered: &mut Covered) -> Plan {
    let rules = DeliverRules::parse("orders").unwrap().reading(["later"]);
    let records = records.iter().map(|record| (record.as_record(), true));
    plan(records, covered, &rules, 1_000, NOW)
}

fn keys(plan: &Plan) -> Vec<(i64, i64, i64)> {
    (plan.runs.iter())
        .map(|run| (run.key.at, run.key.first, run.key.last))
        .collect()
}

fn key(at: i64, first: i64, last: i64) -> RunKey {
    RunKey { at, first, last }
}

#[test]
fn consecutive_records_of_one_time_are_one_run() {
    let records: Vec<_> = [(0, 5), (1, 5), (2, 6), (3, 5), (5, 5), (6, 5)]
        .map(|(offset, due)| at(offset, NOW + due))
        .into();
    let plan = planned(&records, &mut Covered::default());
    let expected = [(5, 0, 1), (6, 2, 2), (5, 3, 3), (5, 5, 6)];
    assert_eq!(keys(&plan), expected.map(|(at, a, b)| (NOW + at, a, b)));
    let out = plan.runs[0].outgoing().unwrap();
    assert_eq!(out.len(), 2);
    assert_eq!(out[0].topic, "orders");
    assert_eq!(out[0].headers.iter().count(), 0);
}

#[test]
fn what_cannot_be_delivered_is_refused_with_the_reason() {
    let later = NOW + 400 * 86_400_000;
    let records = [
        at(0, NOW),
        record(1, &[("deliver-after", "5")]),
        record(2, &[("deliver-after", "soon"), ("deliver-to", "orders")]),
        record(3, &[("deliver-after", "5"), ("deliver-to", "others")]),
        record(4, &[("deliver-after", "5"), ("deliver-to", "later")]),
        record(5, &[("deliver-after", "5"), ("deliver-to", "__offsets")]),
        at(6, later),
        at(7, NOW),
    ];
    let plan = planned(&records, &mut Covered::default());
    assert_eq!(keys(&plan), [(NOW, 0, 0), (NOW, 7, 7)]);
    let reasons = [
        "no topic",
        "deliver-after",
        "allow",
        "cycle",
        "internal",
        "maximum",
    ];
    assert_eq!(plan.refused.len(), reasons.len());
    for ((place, error), (n, reason)) in plan.refused.iter().zip((1..).zip(reasons)) {
        assert_eq!(*place, n);
        assert!(error.message().contains(reason), "{error}");
    }
}

#[test]
fn a_record_without_a_time_is_due_at_once_and_one_too_large_refused() {
    let mut large = at(1, NOW);
    large.value = Some(vec![0; 1_000].into());
    let plan = planned(
        &[record(0, &[("deliver-to", "orders")]), large],
        &mut Covered::default(),
    );
    assert_eq!(keys(&plan), [(0, 0, 0)]);
    assert!(
        plan.refused[0].1.message().contains("1000"),
        "{:?}",
        plan.refused
    );
}

#[test]
fn what_was_taken_in_is_not_taken_in_again() {
    let mut covered = Covered::below(2);
    covered.add(key(NOW, 0, 1));
    covered.add(key(NOW, 3, 4));
    covered.add(key(NOW, 3, 6));
    covered.add(key(NOW + 1, 8, 8));
    let records: Vec<_> = (0..10).map(|offset| at(offset, NOW)).collect();
    let plan = planned(&records, &mut covered);
    // 2 was not, and 8 is another record than the one that was.
    assert_eq!(keys(&plan), [(NOW, 2, 2), (NOW, 7, 9)]);
    assert_eq!(plan.known, 6);
    assert!(covered.runs.len() <= 1, "what was passed is forgotten");
    let refused = planned(&[record(1, &[])], &mut Covered::below(2));
    assert!(refused.refused.is_empty(), "it is a dead letter already");
}
