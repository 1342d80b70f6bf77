use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
enum Step {
    Insert(i64),
    Remove(prop::sample::Index),
    Pop(usize),
    /// The clock moves by this much.
    Clock(i64),
}

fn step() -> impl Strategy<Value = Step> {
    let span = prop_oneof![-70..70_i64, -5_000..5_000_i64, -(1_i64 << 50)..1 << 50];
    prop_oneof![
        4 => span.prop_map(Step::Insert),
        1 => any::<prop::sample::Index>().prop_map(Step::Remove),
        3 => (1..5_usize).prop_map(Step::Pop),
        3 => prop_oneof![4 => 0..100_i64, 2 => 0..10_000_i64, 1 => -5_000..0_i64, 1 => 0..1_i64 << 40]
            .prop_map(Step::Clock),
    ]
}

proptest! {
    /// FC-101: the clock may step back, too.
    #[test]
    fn the_wheel_does_what_a_sorted_map_does(
        start in 0..2_000_000_000_000_i64, steps in proptest::collection::vec(step(), 1..120),
    ) {
        let mut wheel = Wheel::new(64);
        let mut model: BTreeMap<u32, (i64, Key)> = BTreeMap::new();
        let (mut now, mut made) = (start, 0_u32);
        for step in steps {
            match step {
                Step::Insert(delay) => {
                    let due = (now + delay).clamp(0, MAX_INSTANT);
                    match wheel.insert(due, made) {
                        Ok(key) => { model.insert(made, (due, key)); }
                        Err(_) => prop_assert_eq!(model.len(), 64),
                    }
                    made += 1;
                }
                Step::Remove(which) => if !model.is_empty() {
                    let number = *which.get(&model.keys().copied().collect::<Vec<_>>());
                    let (_, key) = model.remove(&number).unwrap();
                    prop_assert_eq!(wheel.get(key), Some(&number));
                    prop_assert_eq!(wheel.remove(key), Some(number));
                    prop_assert_eq!(wheel.remove(key), None);
                },
                Step::Pop(times) => for _ in 0..times {
                    let due_in_model = model.values().any(|(due, _)| *due <= now);
                    let popped = wheel.pop(now);
                    prop_assert_eq!(popped.is_some(), due_in_model);
                    if let Some((due, number)) = popped {
                        prop_assert!(due <= now);
                        prop_assert_eq!(model.remove(&number).unwrap().0, due);
                    }
                },
                Step::Clock(by) => now = (now + by).clamp(0, MAX_INSTANT),
            }
            prop_assert_eq!(wheel.len(), model.len());
            let first = model.values().map(|(due, _)| *due).min();
            prop_assert_eq!(wheel.next().is_some(), first.is_some());
            prop_assert_eq!(wheel.iter().count(), model.len());
        }
        let mut left: Vec<_> = std::iter::from_fn(|| wheel.pop(MAX_INSTANT)).collect();
        left.sort_unstable_by_key(|(_, number)| *number);
        let expected: Vec<_> = model.into_iter().map(|(number, (due, _))| (due, number)).collect();
        prop_assert_eq!(left, expected);
    }

    #[test]
    fn entries_come_out_by_time_then_in_the_order_they_went_in(
        delays in proptest::collection::vec(prop_oneof![1..50_i64, 1..100_000_i64], 1..200),
    ) {
        let now = 1_800_000_000_123;
        let mut wheel = Wheel::new(1_000);
        assert_eq!(wheel.pop(now), None);
        let mut expected: Vec<_> = delays.iter().map(|delay| now + delay).zip(0..).collect();
        for (due, number) in &expected {
            wheel.insert(*due, *number).unwrap();
        }
        expected.sort();
        let popped: Vec<_> = std::iter::from_fn(|| wheel.pop(now + 100_000)).collect();
        prop_assert_eq!(popped, expected);
    }

    #[test]
    fn waiting_for_the_next_instant_reaches_an_entry_in_few_turns(due in 1..MAX_INSTANT) {
        let mut wheel = Wheel::new(1);
        wheel.insert(due, ()).unwrap();
        let mut now = 0;
        for _ in 0..9 {
            now = wheel.next().unwrap();
            prop_assert!(now <= due);
            if wheel.pop(now).is_some() {
                break;
            }
        }
        prop_assert_eq!((now, wheel.len()), (due, 0));
    }
}

#[test]
fn a_full_wheel_gives_the_value_back_and_an_old_key_names_nothing() {
    let mut wheel = Wheel::new(1);
    let first = wheel.insert(5, "a").unwrap();
    assert_eq!(wheel.insert(6, "b"), Err("b"));
    assert_eq!(wheel.pop(5), Some((5, "a")));
    let second = wheel.insert(6, "b").unwrap();
    assert_eq!(wheel.remove(first), None);
    assert_eq!(wheel.get(second), Some(&"b"));
    assert_eq!(wheel.pop(5), None);
}

#[test]
fn removed_entries_leave_a_bounded_litter() {
    let mut wheel = Wheel::new(1_000);
    for number in 0..100_000 {
        let key = wheel.insert(1_000_000 + number, number).unwrap();
        assert_eq!(wheel.remove(key), Some(number));
    }
    assert!(wheel.gone <= LITTER && wheel.next().is_none());
    let bytes = wheel.allocated_bytes();
    assert!(bytes < 200_000, "{bytes} bytes");
}

#[test]
fn an_entry_with_an_eight_byte_value_takes_at_most_64_bytes() {
    let mut wheel = Wheel::new(2_000_000);
    for number in 0..1_000_000_u64 {
        wheel
            .insert(number as i64 * 37 % 86_400_000, number)
            .unwrap();
    }
    let each = wheel.allocated_bytes() as f64 / 1_000_000.0;
    assert!(each <= 64.0, "{each} bytes");
}
