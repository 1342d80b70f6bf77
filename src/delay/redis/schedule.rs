use super::{CALL_BYTES, RedisStore, number, strange};
use crate::clock::{Clock, SystemClock};
use crate::delay::item::{full, millis, taken, too_far};
use crate::delay::{
    DelayId, Delayed, Limits, MAX_SCHEDULE, OnDuplicate, Receipt, Scheduled, When, wire,
};
use crate::error::{Error, Result};
use ::redis::aio::ConnectionLike;
use bytes::Bytes;

impl<C: ConnectionLike + Clone + Send + Sync + 'static> RedisStore<C> {
    pub(super) async fn schedule_all(&self, batch: Vec<Delayed>) -> Vec<Result<Receipt>> {
        let mut answers: Vec<Option<Result<Receipt>>> = Vec::with_capacity(batch.len());
        let mut chunk = Vec::new();
        let (mut bytes, mut down) = (0, false);
        for item in batch {
            let prepared = match down {
                true => Err(Error::unavailable(
                    "Redis did not take the records before this one",
                )),
                false => self.prepare(item),
            };
            let item = match prepared {
                Ok(item) => item,
                Err(error) => {
                    answers.push(Some(Err(error)));
                    continue;
                }
            };
            if chunk.len() >= MAX_SCHEDULE || (bytes > 0 && bytes + item.record.len() > CALL_BYTES)
            {
                down = self.send(std::mem::take(&mut chunk), &mut answers).await;
                bytes = 0;
            }
            bytes += item.record.len();
            chunk.push((answers.len(), item));
            answers.push(None);
        }
        if !chunk.is_empty() && !down {
            self.send(std::mem::take(&mut chunk), &mut answers).await;
        }
        let unsent = || Err(Error::unavailable("Redis did not take the record"));
        answers
            .into_iter()
            .map(|answer| answer.unwrap_or_else(unsent))
            .collect()
    }

    fn prepare(&self, item: Delayed) -> Result<Prepared> {
        let max = millis(self.shared.limits.max_delay);
        let (kind, millis) = match item.when {
            When::At(at) => ("a", at.max(0)),
            When::After(delay) => ("d", millis(delay)),
        };
        let record = wire::encode(&item.record, self.shared.limits.max_record_bytes)?;
        if kind == "d" && millis > max {
            return Err(too_far(max));
        }
        let now = SystemClock.now();
        let fresh = item.id.is_none();
        Ok(Prepared {
            id: item.id.unwrap_or_else(|| self.shared.ids.next(now)),
            fresh,
            kind,
            millis,
            on_duplicate: item.on_duplicate,
            record,
        })
    }

    /// Sends one chunk and fills in its answers; whether Redis is down.
    async fn send(
        &self,
        chunk: Vec<(usize, Prepared)>,
        answers: &mut [Option<Result<Receipt>>],
    ) -> bool {
        let limits = &self.shared.limits;
        let mut arguments = vec![
            number(millis(limits.max_delay)),
            number(limits.capacity as i64),
        ];
        for (_, item) in &chunk {
            arguments.extend(item.arguments());
        }
        let script = &self.shared.scripts.schedule;
        let mut said: Result<Vec<String>> = self.call(script, arguments.clone()).await;
        // A call that was cut off may have been done: under the same ids a second does no harm.
        let harmless =
            (chunk.iter()).all(|(_, item)| item.fresh || item.on_duplicate != OnDuplicate::Refuse);
        if said.is_err() && harmless {
            said = self.call(script, arguments).await;
        }
        let down = said.is_err();
        let mut words = said.unwrap_or_default().into_iter();
        let mut scheduled = false;
        for (place, item) in chunk {
            let answer = match (words.next(), words.next()) {
                (Some(word), Some(at)) => item.answer(&word, &at, limits),
                _ => Err(Error::unavailable("Redis did not take the record")),
            };
            scheduled |= answer.is_ok();
            if let Some(slot) = answers.get_mut(place) {
                *slot = Some(answer);
            }
        }
        if scheduled {
            self.shared.nearer.notify_waiters();
        }
        down
    }
}

/// An item as the script takes it.
struct Prepared {
    id: DelayId,
    fresh: bool,
    kind: &'static str,
    millis: i64,
    on_duplicate: OnDuplicate,
    record: Bytes,
}

impl Prepared {
    fn arguments(&self) -> [Vec<u8>; 5] {
        let policy = match self.on_duplicate {
            _ if self.fresh => "k",
            OnDuplicate::Keep => "k",
            OnDuplicate::Replace => "r",
            OnDuplicate::Earliest => "e",
            OnDuplicate::Refuse => "x",
        };
        [
            self.id.as_str().into(),
            self.kind.into(),
            number(self.millis),
            policy.into(),
            self.record.to_vec(),
        ]
    }

    fn answer(self, word: &str, at: &str, limits: &Limits) -> Result<Receipt> {
        let scheduled = match word {
            "new" => Scheduled::New,
            // A fresh id is kept only when the first of two calls was done.
            "kept" if self.fresh => Scheduled::New,
            "kept" => Scheduled::Kept,
            "replaced" => Scheduled::Replaced,
            "far" => return Err(too_far(millis(limits.max_delay))),
            "taken" => return Err(taken()),
            "full" => return Err(full()),
            _ => return Err(strange()),
        };
        Ok(Receipt {
            id: self.id,
            deliver_at: at.parse().map_err(|_| strange())?,
            scheduled,
        })
    }
}
