//! The forwarder on a real Kafka, beside the loops of the article on delay queues, which is where
//! most people begin: as they are written (they lose records), and with only that repaired.
//!
//! `forwarder NAME` runs one part, `forwarder` lists the names. All clients are in this process, on
//! the Kafka at `KAFKA_BOOTSTRAP_SERVERS`.

mod article;
mod baseline;
mod load;

use article::Sample;
use kafka_chain::config::Registry;
use kafka_chain::delay::topic::DelayTiers;
use kafka_chain::forwarder::{Forwarder, delay_topics};
use kafka_chain::properties::Properties;
use kafka_chain::transport::Settings;
use kafka_chain::transport::kafka::{KafkaSink, NewTopic, create_topics};
use load::{Load, Measured};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::time::sleep;

const PARTITIONS: i32 = 4;

fn servers() -> String {
    std::env::var("KAFKA_BOOTSTRAP_SERVERS").expect("KAFKA_BOOTSTRAP_SERVERS names a Kafka")
}

fn number(name: &str, default: u64) -> u64 {
    let value = std::env::var(name).ok();
    value.map_or(default, |text| text.parse().expect("a number"))
}

fn settings(more: &[(&str, &str)]) -> Settings {
    let mut all: Settings = more.iter().copied().collect();
    all.set("bootstrap.servers", servers());
    all
}

fn producer() -> KafkaSink {
    KafkaSink::start(&settings(&[("linger.ms", "0")])).expect("a producer")
}

/// A delay topic of this many milliseconds, its target and its dead letters, all new.
struct Topics {
    tiers: DelayTiers,
    delay: String,
    target: String,
}

async fn topics(name: &str, millis: u64, partitions: i32) -> Topics {
    let name = format!("{name}-{:x}", rand::random::<u32>());
    let tiers = DelayTiers::new(&name, [Duration::from_millis(millis)]).expect("tiers");
    let delay = tiers.tiers()[0].topic.clone();
    let target = format!("{name}-target");
    let mut all = delay_topics(&tiers, partitions);
    // The article goes by the producer's timestamp; the clock is the same.
    all.iter_mut().for_each(|topic| {
        topic.config.remove("message.timestamp.type");
    });
    all.push(NewTopic::new(&target, partitions));
    all.push(NewTopic::new(format!("{delay}.dead-letter"), 1));
    let limit = Duration::from_secs(20);
    create_topics(&settings(&[]), all, limit)
        .await
        .expect("topics");
    Topics {
        tiers,
        delay,
        target,
    }
}

fn forwarder(topics: &Topics) -> Forwarder {
    let text = format!(
        "bootstrap.servers={}\ngroup.id=f-{:x}\ndeliver.allow={}\n",
        servers(),
        rand::random::<u32>(),
        topics.target,
    );
    let properties: Properties = text.parse().expect("properties");
    let configuration = Registry::builtin()
        .configure(&properties)
        .expect("no mistake");
    let builder = Forwarder::builder(&configuration).expect("a builder");
    builder
        .tiers(topics.tiers.clone())
        .build()
        .expect("a forwarder")
}

/// Records a second of a backlog that is due.
async fn drained(topics: &Topics, records: u64) -> f64 {
    let forwarder = forwarder(topics);
    let (counts, handle) = (forwarder.counts(), forwarder.handle());
    let running = tokio::spawn(forwarder.run());
    while counts.forwarded.load(Ordering::Relaxed) == 0 {
        sleep(Duration::from_millis(1)).await;
    }
    let (began, cpu_began) = (Instant::now(), cpu());
    while counts.forwarded.load(Ordering::Relaxed) < records {
        assert!(!running.is_finished(), "the forwarder ended");
        sleep(Duration::from_millis(1)).await;
    }
    // Until what was written is acknowledged and committed.
    handle.stop();
    running.await.expect("no panic").expect("no error");
    let elapsed = began.elapsed().as_secs_f64();
    let cpu = (cpu() - cpu_began) * 1e6 / records as f64;
    println!("{cpu:.1} us of client CPU a record");
    records as f64 / elapsed
}

/// CPU time of this process, in seconds.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("/proc");
    let fields = stat
        .rsplit(')')
        .next()
        .expect("a command")
        .split_whitespace();
    let ticks = fields
        .skip(11)
        .take(2)
        .map(|text| text.parse::<f64>().expect("ticks"));
    ticks.sum::<f64>() / 100.0
}

/// A figure to its target; below 1 it falls short.
struct Margin(&'static str, f64);

fn at_most(name: &'static str, figure: f64, target: f64) -> Margin {
    println!("{name} {figure:.2} target<={target}");
    Margin(
        name,
        if figure <= 0.0 {
            f64::INFINITY
        } else {
            target / figure
        },
    )
}

fn at_least(name: &'static str, figure: f64, target: f64) -> Margin {
    println!("{name} {figure:.1} target>={target}");
    Margin(name, figure / target)
}

fn none(name: &'static str, count: usize) -> Margin {
    println!("{name} {count} target=0");
    Margin(name, if count == 0 { f64::INFINITY } else { 0.0 })
}

async fn drain() -> Vec<Margin> {
    let records = number("BENCH_RECORDS", 200_000);
    let rounds = number("BENCH_PAIRS", 3);
    let topics = topics("drain", 1, PARTITIONS).await;
    load::fill(&topics.delay, &topics.target, records).await;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 1..=rounds {
        let rate = drained(&topics, records).await;
        let repaired = article::drain(&topics.delay, 1, Duration::from_secs(4)).await;
        println!(
            "round {round}: forwarder {rate:.0}/s, article with its loss repaired {repaired:.0}/s"
        );
        ours.push(rate);
        theirs.push(repaired);
    }
    let (ours, theirs) = (median(ours), median(theirs));
    vec![
        at_least("drain, records a second", ours, 50_000.0),
        at_least("drain, to the article repaired", ours / theirs, 30.0),
    ]
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

/// What a forwarder makes of a load.
async fn measured(name: &str, load: Load) -> Measured {
    let topics = topics("late", 2_000, PARTITIONS).await;
    let forwarder = forwarder(&topics);
    let (counts, handle) = (forwarder.counts(), forwarder.handle());
    let running = tokio::spawn(forwarder.run());
    let measured = load::run(&load, &topics.delay, &topics.target).await;
    assert_eq!(counts.early.load(Ordering::Relaxed), 0);
    handle.stop();
    running.await.expect("no panic").expect("no error");
    println!("{name}: {measured}");
    measured
}

async fn late() -> Vec<Margin> {
    let load = |mixed, seconds| Load {
        rate: 2_000,
        seconds,
        delay: 2_000,
        mixed,
        envelope: false,
    };
    // The broker's compiler is busy with the first of any kind.
    measured("to warm up", load(true, 5)).await;
    let seconds = number("BENCH_SECONDS", 8);
    let mut found: [Vec<Measured>; 3] = Default::default();
    for _ in 0..number("BENCH_PAIRS", 3) {
        let bare = load::bare(&load(false, seconds)).await;
        println!("bare produce to consume: {bare}");
        found[0].push(bare);
        found[1].push(measured("fixed delay", load(false, seconds)).await);
        found[2].push(measured("mixed heads", load(true, seconds)).await);
    }
    let [bare, fixed, mixed] = found.map(|all| Medians::of(&all));
    vec![
        at_most("late, p50 over bare, ms", fixed.p50 - bare.p50, 5.0),
        at_most("late, p99 over bare, ms", fixed.p99 - bare.p99, 20.0),
        at_most("mixed heads, p50 over bare, ms", mixed.p50 - bare.p50, 5.0),
        at_most("mixed heads, p99 over bare, ms", mixed.p99 - bare.p99, 20.0),
        none("early", fixed.early + mixed.early),
        none("lost", fixed.lost + mixed.lost),
    ]
}

/// The medians of several runs, in milliseconds, and what they lost in all.
struct Medians {
    p50: f64,
    p99: f64,
    early: usize,
    lost: usize,
}

impl Medians {
    fn of(all: &[Measured]) -> Self {
        Medians {
            p50: median(all.iter().map(|one| one.p50).collect()),
            p99: median(all.iter().map(|one| one.p99).collect()),
            early: all.iter().map(|one| one.early).sum(),
            lost: all.iter().map(|one| one.lost).sum(),
        }
    }
}

/// The article's two samples as they are written, beside ours.
async fn samples() {
    for rate in [100, 2_000] {
        let load = Load {
            rate,
            seconds: number("BENCH_SECONDS", 10),
            delay: 1_500,
            mixed: false,
            envelope: true,
        };
        for sample in Sample::ALL {
            let topics = topics("sample", 1_500, PARTITIONS).await;
            let running = article::Running::start(&topics.delay, 1_500, sample);
            let measured = load::run(&load, &topics.delay, &topics.target).await;
            running.stop().await;
            println!("{} at {rate}/s: {measured}", sample.name());
        }
        let topics = topics("sample", 1_500, PARTITIONS).await;
        let forwarder = forwarder(&topics);
        let handle = forwarder.handle();
        let running = tokio::spawn(forwarder.run());
        let measured = load::run(&load, &topics.delay, &topics.target).await;
        handle.stop();
        running.await.expect("no panic").expect("no error");
        println!("forwarder at {rate}/s: {measured}");
    }
}

/// How often threads that are not librdkafka's went to sleep, by name.
fn switches() -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    for task in std::fs::read_dir("/proc/self/task")
        .expect("/proc")
        .flatten()
    {
        let read = |file| std::fs::read_to_string(task.path().join(file)).unwrap_or_default();
        let name = read("comm").trim().to_owned();
        let count = read("status")
            .lines()
            .find_map(|line| {
                line.strip_prefix("voluntary_ctxt_switches:")?
                    .trim()
                    .parse()
                    .ok()
            })
            .unwrap_or(0);
        if !name.starts_with("rdk:") {
            *all.entry(name).or_default() += count;
        }
    }
    all
}

/// A forwarder that holds records for an hour.
async fn idle() -> Vec<Margin> {
    let topics = topics("idle", 3_600_000, PARTITIONS).await;
    load::fill(&topics.delay, &topics.target, 1_000).await;
    let forwarder = forwarder(&topics);
    let (counts, handle) = (forwarder.counts(), forwarder.handle());
    let running = tokio::spawn(forwarder.run());
    sleep(Duration::from_secs(10)).await;
    let seconds = number("BENCH_SECONDS", 20);
    let (before, looks) = (switches(), counts.looks());
    sleep(Duration::from_secs(seconds)).await;
    let after = switches();
    let looks = counts.looks() - looks;
    println!("looks at the clock: {:.2}/s", looks as f64 / seconds as f64);
    let mut polling: f64 = 0.0;
    for (name, count) in after {
        let rate = (count - before.get(&name).copied().unwrap_or(0)) as f64 / seconds as f64;
        println!("thread {name}: {rate:.2} sleeps/s");
        if name == "kafka-group" {
            polling = rate;
        }
    }
    handle.stop();
    running.await.expect("no panic").expect("no error");
    // A second that is counted from the first wake to the last has one wake more.
    let slack = 1.0 + 2.0 / seconds as f64;
    vec![
        at_most(
            "idle, wakes of the alarm a second",
            looks as f64 / seconds as f64,
            slack,
        ),
        at_most("idle, wakes of the polling thread a second", polling, slack),
    ]
}

fn main() {
    let name = std::env::args()
        .skip(1)
        .find(|argument| !argument.starts_with("--"));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let all = ["baseline", "drain", "late", "samples", "idle"];
    let Some(name) = name else {
        println!("{}", all.join("\n"));
        return;
    };
    let mut margins = Vec::new();
    for part in all.iter().filter(|part| name == "all" || name == **part) {
        println!("\n{part}");
        margins.extend(runtime.block_on(async {
            match *part {
                "baseline" => {
                    baseline::print().await;
                    Vec::new()
                }
                "drain" => drain().await,
                "late" => late().await,
                "samples" => {
                    samples().await;
                    Vec::new()
                }
                _ => idle().await,
            }
        }));
    }
    let worst = margins
        .iter()
        .min_by(|one, other| one.1.total_cmp(&other.1));
    let Margin(what, margin) = worst.unwrap_or(&Margin("nothing", f64::INFINITY));
    println!(
        "\nthe worst to its target: {what}\nforwarder ratio={margin:.2} target=>=1 {}",
        if *margin >= 1.0 { "met" } else { "short" }
    );
}
