//! Crashes at random moments.

use crate::support::{Desk, Log, Rig, Script, attempts, json, millis, settings};
use kafka_chain::Error;
use kafka_chain::pipeline::{Order, Single, WorkerSettings, Written};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeSet;
use tokio::time::sleep;

/// At whatever moment the worker is dropped, with failures and slow dead letters about, each record is
/// finished or lies at or beyond the mark, and those handled more than once lie beyond a mark.
#[tokio::test(start_paused = true)]
async fn a_crash_at_any_moment_loses_nothing() {
    for seed in 0..300_u64 {
        let log = Log::of((0..200).filter(|offset| offset % 11 != 4));
        let mut chance = StdRng::seed_from_u64(seed);
        let order = Order::ALL[usize::try_from(seed).unwrap() % 3];
        let (mut from, mut done, mut crashes) = (0, BTreeSet::new(), 0);
        loop {
            let salt = chance.random_range(0..1_000_i64);
            let script = Script::new(move |offset, attempt| async move {
                sleep(millis(u64::try_from((offset * 7 + salt) % 13).unwrap())).await;
                match (offset * 31 + i64::from(attempt) * 17 + salt) % 23 {
                    0 => Err(Error::permanent("bad")),
                    1 | 2 => Err(Error::temporary("down")),
                    _ => Ok(()),
                }
            });
            let desk = Desk::answering(|failed| {
                let slow = millis(u64::try_from(failed.record.offset % 5).unwrap() * 40);
                Box::pin(async move {
                    sleep(slow).await;
                    Written::Acknowledged
                })
            });
            let settings = WorkerSettings {
                order,
                max_in_flight: 20,
                max_uncommitted: 50,
                attempts: attempts(3, millis(20)),
                ..settings()
            };
            let work = Single::new(json(), script.clone());
            let rig = Rig::with(log.source(from), work, settings, desk);
            let last = crashes == 4;
            if last {
                let _ = log.clone().end();
                let ended = rig.over().await;
                assert_eq!(ended.mark.unwrap_or(from), 200, "seed {seed}");
                done.extend(script.offsets());
                break;
            }
            sleep(millis(chance.random_range(0..400))).await;
            rig.task.abort();
            let mark = rig.mark.get().unwrap_or(from);
            let called = script.offsets();
            let below = log_offsets().filter(|offset| *offset < mark && *offset >= from);
            for offset in below {
                assert!(
                    called.contains(&offset),
                    "seed {seed}: {offset} was skipped"
                );
            }
            let beyond: BTreeSet<_> = called.iter().filter(|at| **at >= mark).collect();
            assert!(
                beyond.len() <= 50,
                "seed {seed}: {} beyond the mark",
                beyond.len()
            );
            done.extend(called);
            from = mark;
            crashes += 1;
        }
        assert!(
            log_offsets().all(|offset| done.contains(&offset)),
            "seed {seed}"
        );
    }
}

fn log_offsets() -> impl Iterator<Item = i64> {
    (0..200).filter(|offset| offset % 11 != 4)
}
