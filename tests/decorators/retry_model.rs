//! A retry against a model of a few lines, on random answers.

use crate::support::{Leaf, Step, Waits, ms, read};
use kafka_chain::decorators::ChainExt;
use kafka_chain::matcher::{self, SharedMatcher};
use kafka_chain::{ErrorKind, Status};
use proptest::prelude::*;
use std::time::Duration;

/// A success or the status of an error, and how long it takes; `None` is at once.
type Told = (Result<(), Status>, Option<Duration>);

#[derive(Clone, Debug)]
enum Takes {
    Default,
    All,
    None,
    Only(Status),
    AllBut(Status),
}

impl Takes {
    fn matcher(&self) -> Option<SharedMatcher> {
        match self {
            Takes::Default => None,
            Takes::All => Some(matcher::all()),
            Takes::None => Some(matcher::none()),
            Takes::Only(status) => Some(matcher::status(*status)),
            Takes::AllBut(status) => Some(matcher::not(matcher::status(*status))),
        }
    }

    fn takes(&self, status: Status) -> bool {
        match self {
            Takes::Default => status == Status::Temporary,
            Takes::All => true,
            Takes::None => false,
            Takes::Only(only) => status == *only,
            Takes::AllBut(but) => status != *but,
        }
    }
}

fn statuses() -> impl Strategy<Value = Status> {
    prop_oneof![4 => Just(Status::Temporary), 1 => Just(Status::Permanent), 1 => Just(Status::Exhausted)]
}

fn tolds() -> impl Strategy<Value = Told> {
    let result = prop_oneof![1 => Just(Ok(())), 4 => statuses().prop_map(Err)];
    (result, proptest::option::of((0_u64..30).prop_map(ms)))
}

fn takes() -> impl Strategy<Value = Takes> {
    prop_oneof![
        3 => Just(Takes::Default),
        1 => Just(Takes::All),
        1 => Just(Takes::None),
        1 => statuses().prop_map(Takes::Only),
        1 => statuses().prop_map(Takes::AllBut),
    ]
}

#[derive(Debug, PartialEq)]
struct Story {
    /// When each call starts.
    starts: Vec<Duration>,
    /// Status, attempts and elapsed time of the error, if it ends in one.
    end: Result<(), (Status, u32, Duration)>,
}

const WAITS: [u64; 4] = [3, 50, 7, 20];

fn model(told: &[Told], takes: &Takes) -> Story {
    let (mut now, mut starts) = (Duration::ZERO, Vec::new());
    loop {
        let (result, delay) = told[starts.len().min(told.len() - 1)];
        starts.push(now);
        now += delay.unwrap_or_default();
        let attempts = starts.len();
        let status = match result {
            Ok(()) => {
                return Story {
                    starts,
                    end: Ok(()),
                };
            }
            Err(status) => status,
        };
        let status = match (takes.takes(status), WAITS.get(attempts - 1)) {
            (true, Some(wait)) => {
                now += ms(*wait);
                continue;
            }
            (true, None) if status == Status::Temporary => Status::Exhausted,
            _ => status,
        };
        let end = Err((status, attempts as u32, now));
        return Story { starts, end };
    }
}

fn tell(told: &[Told], takes: &Takes, limit: Option<Duration>) -> Story {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    runtime.unwrap().block_on(async {
        let leaf = Leaf::new(told.iter().map(|(result, delay)| {
            let step = match result {
                Ok(()) => Step::Echo,
                Err(status) => Step::Fail(ErrorKind::Other, *status),
            };
            match delay {
                Some(delay) => step.later(*delay),
                None => step,
            }
        }));
        let mut chain = leaf.named("leaf").retry(Waits(WAITS));
        if let Some(matcher) = takes.matcher() {
            chain = chain.matcher(matcher);
        }
        if let Some(limit) = limit {
            chain = chain.time_limit(limit);
        }
        let answer = read(&chain, b"x").await;
        assert_eq!(leaf.running(), 0);
        let end = match answer {
            Ok(_) => Ok(()),
            Err(error) => Err((error.status(), error.attempts(), error.elapsed())),
        };
        let starts = leaf.times();
        Story { starts, end }
    })
}

proptest! {
    #[test]
    fn calls_status_attempts_and_times_are_those_of_the_model(
        told in proptest::collection::vec(tolds(), 1..7),
        takes in takes(),
    ) {
        prop_assert_eq!(tell(&told, &takes, None), model(&told, &takes));
    }

    #[test]
    fn a_time_limit_only_cuts_waits_and_the_end(
        told in proptest::collection::vec(tolds(), 1..7),
        takes in takes(),
        limit in (0_u64..90).prop_map(ms),
    ) {
        let free = model(&told, &takes);
        let limited = tell(&told, &takes, Some(limit));
        let last = told[0].1.unwrap_or_default() + limit;
        prop_assert!(limited.starts.iter().all(|start| *start <= last), "{limited:?}");
        prop_assert!(limited.starts.len() <= free.starts.len());
        prop_assert!(limited.starts.len() >= free.starts.len().min(2), "a retry is left");
        let cut = limited.starts.iter().zip(&free.starts).position(|(l, f)| l != f);
        if let Some(cut) = cut {
            prop_assert_eq!(limited.starts[cut], last, "a wait is cut to end at the limit");
            prop_assert_eq!(limited.starts.len(), cut + 1, "and the attempt after it is the last");
        }
    }
}
