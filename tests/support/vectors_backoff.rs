//! Runs one case of `backoff.json` through the public API.

use kafka_chain::Error;
use kafka_chain::backoff::{Backoff, Exponential, Kafka};
use serde_json::{Value as Json, json};
use std::time::Duration;

/// Runs `case`; the error says what was expected and what came.
///
/// An expected error accepts any refusal. Where the case lists alternatives, one of them will do.
pub(crate) fn run(case: &Json) -> Result<(), String> {
    let input = &case["input"];
    let got = match text(&input["op"])? {
        "kafka_backoff" => kafka_backoff(input),
        "kip580_schedule" => kip580_schedule(input),
        "kip580_config" => kafka_config(input, "retry"),
        "reconnect_config" => kafka_config(input, "reconnect"),
        "asl_retry" => asl_retry(input),
        "asl_sequence" => asl_sequence(input),
        "retry_deserializer" => retry_deserializer(input),
        "retry_deserializer_total" => retry_deserializer_total(input),
        op => return Err(format!("unknown operation {op}")),
    };
    let got = match got {
        Ok(got) => got,
        Err(Stop::Case(message)) => return Err(message),
        Err(Stop::Refused(message)) => json!({ "error": message }),
    };
    let alternatives = case["alternatives"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    if std::iter::once(&case["expect"])
        .chain(alternatives)
        .any(|wanted| agrees(wanted, &got))
    {
        return Ok(());
    }
    Err(format!("expected {}, got {got}", case["expect"]))
}

/// Why a case gives no wait: the library refused, or the case itself makes no sense here.
enum Stop {
    Refused(String),
    Case(String),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::Refused(error.to_string())
    }
}

impl From<String> for Stop {
    fn from(message: String) -> Self {
        Stop::Case(message)
    }
}

fn text(value: &Json) -> Result<&str, String> {
    value
        .as_str()
        .ok_or_else(|| format!("{value} is not a string"))
}

/// A number, as a number or in a string.
fn number(value: &Json) -> Result<f64, String> {
    let parsed = match value.as_str() {
        Some(text) => text.parse().ok(),
        None => value.as_f64(),
    };
    parsed.ok_or_else(|| format!("{value} is not a number"))
}

fn integer(value: &Json) -> Result<i64, String> {
    let parsed = match value.as_str() {
        Some(text) => text.parse().ok(),
        None => value.as_i64(),
    };
    parsed.ok_or_else(|| format!("{value} is not an integer"))
}

fn count<T: TryFrom<i64>>(value: &Json) -> Result<T, String> {
    T::try_from(integer(value)?).map_err(|_| format!("{value} is out of range"))
}

/// What is wanted may be a wait or the bounds of one; what came is the shortest and longest wait.
fn agrees(wanted: &Json, got: &Json) -> bool {
    if wanted.get("error").is_some() || got.get("error").is_some() {
        return wanted.get("error").is_some() == got.get("error").is_some();
    }
    if let (Some(wanted), Some(got)) = (list(wanted, "decisions"), list(got, "decisions")) {
        return wanted.len() == got.len() && wanted.iter().zip(got).all(|(w, g)| agrees(w, g));
    }
    let tolerance = number(&wanted["tolerance_seconds"]).unwrap_or(1e-9);
    let Some(members) = wanted.as_object() else {
        return false;
    };
    members.iter().all(|(name, value)| match name.as_str() {
        "tolerance_seconds" => true,
        "delay_ms" => {
            whole(value) == whole(&got["shortest_ms"]) && whole(value).is_some() && same_ends(got)
        }
        "min_ms" if got.get("shortest_ms").is_some() => {
            reaches(&got["shortest_ms"], value, 1.0) && whole(&got["shortest_ms"]) >= whole(value)
        }
        "max_ms" if got.get("longest_ms").is_some() => {
            reaches(&got["longest_ms"], value, 1.0) && whole(&got["longest_ms"]) <= whole(value)
        }
        "delay_seconds" | "min_seconds" => reaches(&got["shortest_seconds"], value, tolerance),
        "max_seconds" => reaches(&got["longest_seconds"], value, tolerance),
        "total_delay_seconds" => reaches(&got[name.as_str()], value, 1e-6),
        name => got.get(name) == Some(value),
    }) && (members.get("delay_seconds").is_none() || same_ends(got))
}

fn list<'a>(value: &'a Json, name: &str) -> Option<&'a Vec<Json>> {
    value.get(name)?.as_array()
}

fn whole(value: &Json) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

fn reaches(got: &Json, wanted: &Json, tolerance: f64) -> bool {
    match (number(got), number(wanted)) {
        (Ok(got), Ok(wanted)) => (got - wanted).abs() <= tolerance,
        _ => false,
    }
}

fn same_ends(got: &Json) -> bool {
    got.get("shortest_ms") == got.get("longest_ms")
        && got.get("shortest_seconds") == got.get("longest_seconds")
}

/// The wait before this retry at the lowest and at the highest chance. Chances between must not be
/// outside.
fn waits(backoff: &dyn Backoff, retry: u32) -> Result<Option<(Duration, Duration)>, String> {
    let (Some(shortest), Some(longest)) = (backoff.wait(retry, 0.0), backoff.wait(retry, 1.0))
    else {
        return Ok(None);
    };
    for step in 0..=16 {
        match backoff.wait(retry, f64::from(step) / 16.0) {
            Some(wait) if (shortest..=longest).contains(&wait) => {}
            other => return Err(format!("{other:?} is outside {shortest:?} to {longest:?}")),
        }
    }
    Ok(Some((shortest, longest)))
}

fn in_millis(backoff: &dyn Backoff, retry: u32) -> Result<Json, Stop> {
    let (shortest, longest) =
        waits(backoff, retry)?.ok_or_else(|| format!("there is no retry {retry}"))?;
    let millis = |wait: Duration| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
    Ok(json!({ "shortest_ms": millis(shortest), "longest_ms": millis(longest) }))
}

fn in_seconds(backoff: &dyn Backoff, retry: u32) -> Result<Json, Stop> {
    Ok(match waits(backoff, retry)? {
        None => json!({ "retry": false }),
        Some((shortest, longest)) => json!({
            "retry": true,
            "shortest_seconds": shortest.as_secs_f64(),
            "longest_seconds": longest.as_secs_f64(),
        }),
    })
}

/// Kafka counts failures before this one, from 0; here retries are counted from 1, and 0 is read as
/// the first.
fn kafka_backoff(input: &Json) -> Result<Json, Stop> {
    let backoff = Kafka::exponential(
        count(&input["initial_ms"])?,
        count(&input["multiplier"])?,
        count(&input["max_ms"])?,
        number(&input["jitter"])?,
    )?;
    in_millis(&backoff, count(&json!(integer(&input["attempts"])? + 1))?)
}

fn kafka_of(input: &Json, prefix: &str) -> Result<Kafka, Stop> {
    let value = |suffix: &str| match input["config"].get(format!("{prefix}.{suffix}")) {
        Some(value) => integer(value).map(Some),
        None => Ok(None),
    };
    Ok(Kafka::from_config(
        value("backoff.ms")?,
        value("backoff.max.ms")?,
    )?)
}

fn kafka_config(input: &Json, prefix: &str) -> Result<Json, Stop> {
    let kafka = kafka_of(input, prefix)?;
    Ok(json!({
        "initial_ms": kafka.initial_ms(),
        "max_ms": kafka.max_ms(),
        "mode": if kafka.is_constant() { "constant" } else { "exponential" },
    }))
}

fn kip580_schedule(input: &Json) -> Result<Json, Stop> {
    let kafka = kafka_of(input, "retry")?.jitter(number(&input["jitter"])?)?;
    let failures: u32 = count(&input["failures"])?;
    let before: Duration = (1..=failures)
        .filter_map(|retry| kafka.wait(retry, 1.0))
        .sum();
    let mut got = in_millis(&kafka, failures + 1)?;
    if let Some(got) = got.as_object_mut() {
        let before = u64::try_from(before.as_millis()).unwrap_or(u64::MAX);
        got.insert("elapsed_before_ms".into(), json!(before));
    }
    Ok(got)
}

fn asl_policy(policy: &Json) -> Result<Exponential, Stop> {
    let mut backoff = Exponential::new();
    if let Some(value) = policy.get("IntervalSeconds") {
        backoff = backoff.interval_seconds(number(value)?)?;
    }
    if let Some(value) = policy.get("MaxAttempts") {
        backoff = backoff.max_attempts(count(value).map_err(Stop::Refused)?)?;
    }
    if let Some(value) = policy.get("BackoffRate") {
        backoff = backoff.backoff_rate(number(value)?)?;
    }
    if let Some(value) = policy.get("MaxDelaySeconds") {
        backoff = backoff.max_delay_seconds(number(value)?)?;
    }
    if let Some(value) = policy.get("JitterStrategy") {
        backoff = backoff.jitter(text(value)?.parse()?);
    }
    Ok(backoff)
}

fn asl_retry(input: &Json) -> Result<Json, Stop> {
    in_seconds(&asl_policy(&input["policy"])?, count(&input["failures"])?)
}

/// The first retrier that takes an error decides, by its own count of failures.
fn asl_sequence(input: &Json) -> Result<Json, Stop> {
    let mut retriers = Vec::new();
    for retrier in list(input, "retriers")
        .map(Vec::as_slice)
        .unwrap_or_default()
    {
        retriers.push((retrier["ErrorEquals"].clone(), asl_policy(retrier)?, 0));
    }
    let mut decisions = Vec::new();
    for error in list(input, "errors").map(Vec::as_slice).unwrap_or_default() {
        let takes = |names: &Json| {
            let names = names.as_array().map(Vec::as_slice).unwrap_or_default();
            names
                .iter()
                .any(|name| name == error || name == "States.ALL")
        };
        decisions.push(match retriers.iter_mut().find(|(names, ..)| takes(names)) {
            Some((_, backoff, failures)) => {
                *failures += 1;
                in_seconds(backoff, *failures)?
            }
            None => json!({ "retry": false }),
        });
    }
    Ok(json!({ "decisions": decisions }))
}

/// The backoff of KIP-873's own keys.
fn exponential_of(input: &Json) -> Result<Exponential, Stop> {
    let value = |suffix: &str| {
        let key = format!("retry.deserializer.backoff.exponential.{suffix}");
        input["config"].get(&key).map(|value| (value, key))
    };
    let refused = |key: String| move |error: String| Stop::Refused(format!("{key}: {error}"));
    let mut backoff = Exponential::new();
    if let Some((value, key)) = value("intervalSeconds") {
        backoff = backoff.interval_seconds(number(value).map_err(refused(key))?)?;
    }
    if let Some((value, key)) = value("maxAttempts") {
        backoff = backoff.max_attempts(count(value).map_err(refused(key))?)?;
    }
    if let Some((value, key)) = value("backoffRate") {
        backoff = backoff.backoff_rate(number(value).map_err(refused(key))?)?;
    }
    Ok(backoff)
}

fn retry_deserializer(input: &Json) -> Result<Json, Stop> {
    in_seconds(&exponential_of(input)?, count(&input["failures"])?)
}

fn retry_deserializer_total(input: &Json) -> Result<Json, Stop> {
    let backoff = exponential_of(input)?;
    let total = kafka_chain::backoff::worst_case(&backoff)
        .ok_or_else(|| "the backoff does not end".to_owned())?;
    Ok(json!({ "total_delay_seconds": total.as_secs_f64(), "retries": backoff.retries() }))
}
