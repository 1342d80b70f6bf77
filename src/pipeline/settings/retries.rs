//! What properties say of retries.

use super::choice;
use crate::backoff::{List, SharedBackoff};
use crate::config::{MAX_MILLIS, Node};
use crate::pipeline::queue::Order;
use std::time::Duration;

/// What the keys of retries say.
#[derive(Clone)]
pub(super) struct RetryKeys {
    pub(super) backoff: SharedBackoff,
    pub(super) topics: Vec<(String, Duration)>,
}

pub(super) fn read_retries(node: &mut Node<'_, '_>) -> Option<Option<RetryKeys>> {
    let backoff = node.backoff("retry.delay");
    let Some(text) = node.text("retry.topics") else {
        let none = Vec::new();
        return Some(backoff?.map(|backoff| RetryKeys {
            backoff,
            topics: none,
        }));
    };
    if backoff?.is_some() {
        node.problem("retry.delay", "retry.topics says the delays already");
        return None;
    }
    let mut delays = Vec::new();
    for part in text.split(',') {
        match delay(part.trim()) {
            Some(delay) => delays.push((part.trim().to_owned(), delay)),
            None => {
                let message = format!(
                    "`{}` is no delay such as 500ms, 5s, 1m, 2h or 1d",
                    part.trim()
                );
                node.problem("retry.topics", message);
                return None;
            }
        }
    }
    match List::new(delays.iter().map(|(_, delay)| *delay)) {
        Ok(list) => Some(Some(RetryKeys {
            backoff: SharedBackoff::new(list),
            topics: delays,
        })),
        Err(error) => {
            node.problem("retry.topics", error.to_string());
            None
        }
    }
}

/// A whole number and a unit, above zero and below a hundred years.
fn delay(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    let millis = number.parse::<u64>().ok()?.checked_mul(factor)?;
    (1..=MAX_MILLIS)
        .contains(&millis)
        .then(|| Duration::from_millis(millis))
}

pub(super) fn check_order(
    node: &mut Node<'_, '_>,
    order: Option<Order>,
    retries: Option<&Option<RetryKeys>>,
) -> Option<()> {
    let relaxed = choice(node, "retry.order", |name| match name {
        "strict" => Some(false),
        "relaxed" => Some(true),
        _ => None,
    })?;
    let keeps = matches!(order, Some(Order::Partition | Order::Key));
    if keeps && !relaxed && retries.is_some_and(Option::is_some) {
        let message = "a record that is put aside comes after later ones of its partition and key: \
                       admit that with retry.order=relaxed, or set processing.order=unordered";
        node.problem("retry.order", message);
        return None;
    }
    Some(())
}
