//! How often the same thing is said.

use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;

/// Between two of the same kind and stage.
const GAP: Duration = Duration::from_secs(1);

/// How many kinds and stages are told apart; the rest share one turn.
const KNOWN: usize = 64;

const REST: (&str, &str) = ("other", "other");

/// Lets one warning a second through, by kind and stage, and counts the others.
#[derive(Debug, Default)]
pub(in crate::pipeline) struct Limiter {
    known: HashMap<(String, String), Turn>,
}

#[derive(Debug)]
struct Turn {
    last: Instant,
    suppressed: u64,
}

impl Limiter {
    /// How many were suppressed since the last one, if this one may be said.
    pub(in crate::pipeline) fn allows(
        &mut self,
        kind: &str,
        stage: &str,
        now: Instant,
    ) -> Option<u64> {
        let mut key = (kind.to_owned(), stage.to_owned());
        if self.known.len() >= KNOWN && !self.known.contains_key(&key) {
            key = (REST.0.to_owned(), REST.1.to_owned());
        }
        let Some(turn) = self.known.get_mut(&key) else {
            let suppressed = 0;
            let turn = Turn {
                last: now,
                suppressed,
            };
            self.known.insert(key, turn);
            return Some(suppressed);
        };
        if now.saturating_duration_since(turn.last) < GAP {
            turn.suppressed += 1;
            return None;
        }
        turn.last = now;
        Some(std::mem::take(&mut turn.suppressed))
    }

    /// What was suppressed and has waited for its turn: kind, stage, how many.
    pub(in crate::pipeline) fn overdue(&mut self, now: Instant) -> Vec<(String, String, u64)> {
        let mut overdue = Vec::new();
        self.known.retain(|(kind, stage), turn| {
            if now.saturating_duration_since(turn.last) < GAP {
                return true;
            }
            let suppressed = std::mem::take(&mut turn.suppressed);
            if suppressed > 0 {
                turn.last = now;
                overdue.push((kind.clone(), stage.clone(), suppressed));
            }
            suppressed > 0
        });
        overdue
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_a_second_by_kind_and_stage_and_the_rest_is_counted() {
        let mut limiter = Limiter::default();
        let start = Instant::now();
        let after = |millis| start + Duration::from_millis(millis);
        assert_eq!(limiter.allows("decrypt", "aes-gcm", start), Some(0));
        for millis in [0, 1, 500, 999] {
            assert_eq!(limiter.allows("decrypt", "aes-gcm", after(millis)), None);
        }
        assert_eq!(limiter.allows("decrypt", "kms", after(1)), Some(0));
        assert_eq!(limiter.allows("schema", "aes-gcm", after(1)), Some(0));
        assert_eq!(limiter.allows("decrypt", "aes-gcm", after(1000)), Some(4));
        assert_eq!(limiter.allows("decrypt", "aes-gcm", after(1001)), None);
        assert_eq!(limiter.overdue(after(1500)), []);
        let told = limiter.overdue(after(2001));
        assert_eq!(told, [("decrypt".to_owned(), "aes-gcm".to_owned(), 1)]);
        assert_eq!(limiter.overdue(after(9000)), []);
        assert!(limiter.known.is_empty(), "what is quiet is forgotten");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_remembered_has_an_end() {
        let mut limiter = Limiter::default();
        let now = Instant::now();
        let said = (0..10_000)
            .filter(|n| limiter.allows("other", &n.to_string(), now).is_some())
            .count();
        assert_eq!(said, KNOWN + 1);
        assert_eq!(limiter.known.len(), KNOWN + 1);
    }
}
