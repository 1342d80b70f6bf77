//! What the pipeline keeps resident while it reads a topic again and again.

use crate::common::{Order, PARTITIONS, fill, number};
use crate::ours::{Count, configuration, run};
use crate::{fresh, median, verdict};
use kafka_chain::Error;
use kafka_chain::pipeline::{HandlerContext, Pipeline, handle_with};
use std::hint::black_box;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long the handler blocks at the first record of each partition, where it does.
const BLOCKS: Duration = Duration::from_secs(60);

fn resident(process: u32) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: f64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib / 1024.0)
}

/// Reads all records with one group after the other, until it is killed.
pub(crate) async fn role(topic: &str, group: &str, records: u64, blocks: bool) {
    for pass in 0_u64.. {
        let configuration = configuration(topic, &format!("{group}-{pass}"), "");
        let count = Count::quiet(records);
        let counting = Arc::clone(&count);
        let pipeline = Pipeline::builder(&configuration)
            .and_then(|builder| builder.values::<Order>())
            .expect("a builder")
            .handler(handle_with(move |order: Order, _: &HandlerContext<'_>| {
                let first = blocks && order.id < PARTITIONS as u64;
                black_box(order);
                let counting = Arc::clone(&counting);
                async move {
                    if first {
                        tokio::time::sleep(BLOCKS).await;
                    }
                    counting.one();
                    Ok::<(), Error>(())
                }
            }))
            .expect("a pipeline");
        run(pipeline, &count).await;
    }
}

/// `docs/operations.md`, "Memory": librdkafka's queues, what is taken and unfinished, one broker's
/// answers, and the program itself.
fn formula() -> f64 {
    let partition = 4.0 + 1.0 + 16.0;
    f64::from(PARTITIONS) * partition + 16.0 + 32.0
}

/// Minute 10 to minute 2, or to the fifth of `BENCH_MINUTES`.
pub(crate) async fn compare() {
    let minutes = number("BENCH_MINUTES", 10);
    let records = number("BENCH_RECORDS", 2_000_000);
    let topic = fresh("memory");
    fill(&topic, records, PARTITIONS, 0).await;
    let mut worst = (0.0_f64, 0.0_f64);
    for role in ["memory", "memory-blocked"] {
        let program = std::env::current_exe().expect("this program");
        let mut process = Command::new(program)
            .args([
                "--role",
                role,
                &topic,
                &format!("{topic}-{role}"),
                &records.to_string(),
            ])
            .stdout(Stdio::null())
            .spawn()
            .expect("a process");
        let began = Instant::now();
        let whole = Duration::from_secs(60 * minutes);
        let mut samples = Vec::new();
        while began.elapsed() < whole {
            tokio::time::sleep(Duration::from_millis(250)).await;
            let resident = resident(process.id()).expect("a process that runs");
            samples.push((began.elapsed(), resident));
        }
        process.kill().expect("a process that runs");
        process.wait().expect("an end");
        // The median of a fifth of the time that ends there: within a pass it goes up and down.
        let until = |end: Duration| {
            let from = end.saturating_sub(whole / 5);
            let within = samples.iter().filter(|(at, _)| (from..=end).contains(at));
            median(within.map(|(_, resident)| *resident).collect())
        };
        let (early, late) = (until(whole / 5), until(whole));
        let peak = samples
            .iter()
            .map(|(_, resident)| *resident)
            .fold(0.0, f64::max);
        println!(
            "{role}: {early:.1} MiB at minute {}, {late:.1} MiB at minute {minutes}, peak {peak:.1} of {:.0} MiB",
            minutes as f64 / 5.0,
            formula()
        );
        worst = (worst.0.max(late / early), worst.1.max(peak / formula()));
    }
    let met = worst.0 <= 1.05 && worst.1 <= 1.0;
    println!("peak to the formula {:.2} target<=1", worst.1);
    verdict("pipeline-memory", worst.0, "<=1.05", met);
}
