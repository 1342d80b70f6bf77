//! The fuzz targets on a stable toolchain: every file of the corpus, then mutations of them.
//!
//! `KAFKA_CHAIN_FUZZ_CASES` says how many of these each target runs (without it 20,000 of a quick
//! target and fewer of a slow one), `KAFKA_CHAIN_FUZZ_SECONDS` for how long at the most, and
//! `KAFKA_CHAIN_FUZZ_SEED` which. An input that fails is saved, and the message says where.

#[path = "support/fuzz/mod.rs"]
mod fuzz;

#[path = "support/mutate.rs"]
mod mutate;

use fuzz::FuzzTarget;
use mutate::Mutator;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Targets run one after the other: each counts what the whole process allocates.
static ALONE: Mutex<()> = Mutex::new(());

/// From how many bytes on what an input takes is more than what every input takes.
const LONG: usize = 512;

fn number(variable: &str, default: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text.parse().expect(variable),
        Err(_) => default,
    }
}

/// The corpus of a target by file name, so that a seed means the same everywhere.
fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fuzz/corpus")
        .join(name);
    let files = std::fs::read_dir(&folder).into_iter().flatten();
    let mut files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    files
        .iter()
        .map(|file| std::fs::read(file).unwrap())
        .collect()
}

/// Runs one input; saves it when it fails.
fn run(target: &FuzzTarget, input: &[u8]) -> usize {
    let run = catch_unwind(AssertUnwindSafe(|| target.run(input)));
    run.unwrap_or_else(|_| {
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("fuzz-{}", target.name));
        std::fs::write(&file, input).unwrap();
        panic!(
            "{} fails on an input that is now in {}",
            target.name,
            file.display()
        );
    })
}

fn smoke(name: &str) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let target = fuzz::target(name);
    let corpus = corpus(name);
    let (cases, seed) = (
        number("KAFKA_CHAIN_FUZZ_CASES", 20_000 / target.cost),
        number("KAFKA_CHAIN_FUZZ_SEED", 1),
    );
    let seconds = Duration::from_secs(number("KAFKA_CHAIN_FUZZ_SECONDS", u64::MAX));
    let began = Instant::now();
    let mut ratio = 0;
    let mut note = |bytes: usize, input: &[u8]| {
        if input.len() >= LONG {
            ratio = ratio.max(bytes / input.len());
        }
    };
    for input in std::iter::once(&Vec::new()).chain(&corpus) {
        note(run(target, input), input);
    }
    let mut mutator = Mutator::new(&corpus, seed, target.max_len);
    let mut done = 0;
    while done < cases && began.elapsed() < seconds {
        let input = mutator.input();
        note(run(target, input), input);
        done += 1;
    }
    println!(
        "{name}: {} files and {done} mutations of seed {seed} in {:.1?}; long inputs took up to \
         {ratio} bytes a byte",
        corpus.len(),
        began.elapsed(),
    );
}

macro_rules! targets {
    ($($name:ident),* $(,)?) => {
        $(
            #[test]
            fn $name() {
                smoke(stringify!($name));
            }
        )*

        /// A target that is listed runs here too.
        #[test]
        fn no_target_is_left_out() {
            let here = [$(stringify!($name)),*];
            let listed: Vec<_> = fuzz::TARGETS.iter().map(|target| target.name).collect();
            assert_eq!(here[..], listed);
        }
    };
}

targets!(
    properties,
    configuration,
    chain_expression,
    matcher,
    primitives,
    string,
    json,
    list,
    cloudevents_binary,
    cloudevents_structured,
    dead_letter_headers,
    aes_gcm,
    key_file,
);
