use super::{CALL_BYTES, RedisStore, number, read, strange, text};
use crate::delay::claim::{LEASES_ENDED, cut_reason};
use crate::delay::item::{millis, too_far};
use crate::delay::{
    Attempt, Cancelled, Claim, Claimed, Cursor, DelayId, Due, Finished, Lease, Listed, Listing,
    MAX_SCHEDULE, Page, Release, Released, Rescheduled, Stats, When, check_claim, wire,
};
use crate::error::Result;
use ::redis::Script;
use ::redis::aio::ConnectionLike;
use bytes::Bytes;
use std::time::Duration;

impl<C: ConnectionLike + Clone + Send + Sync + 'static> RedisStore<C> {
    pub(super) async fn claim(&self, claim: Claim) -> Result<Due> {
        check_claim(claim)?;
        let arguments = [
            number(claim.max as i64),
            number(millis(claim.lease)),
            number(self.shared.limits.max_attempts.into()),
            number(4 * CALL_BYTES as i64),
            LEASES_ENDED.into(),
        ];
        let said: Vec<Vec<u8>> = self.call(&self.shared.scripts.claim, arguments).await?;
        let mut said = said.into_iter();
        let now = read(&said.next())?;
        let next = match said.next() {
            Some(next) if next.is_empty() => None,
            next => Some(read(&next)?),
        };
        let token = u64::try_from(read(&said.next())?).map_err(|_| strange())?;
        let (mut items, mut broken) = (Vec::new(), Vec::new());
        while let Some(id) = said.next() {
            let lease = Lease {
                id: text(id).and_then(DelayId::new)?,
                token,
            };
            let (deliver_at, attempt) = (read(&said.next())?, read(&said.next())?);
            match wire::decode(Bytes::from(said.next().ok_or_else(strange)?)) {
                Ok(record) => items.push(Claimed {
                    lease,
                    deliver_at,
                    attempt: u32::try_from(attempt).map_err(|_| strange())?,
                    record,
                }),
                Err(error) => broken.push(Release {
                    lease,
                    delay: Duration::ZERO,
                    attempt: Attempt::Last,
                    reason: error.message().to_owned().into(),
                }),
            }
        }
        if !broken.is_empty() {
            self.release_all(broken).await?;
        }
        Ok(Due { items, now, next })
    }

    pub(super) async fn finish(
        &self,
        script: &Script,
        first: Option<Vec<u8>>,
        leases: Vec<Lease>,
    ) -> Result<Vec<Finished>> {
        let mut finished = Vec::with_capacity(leases.len());
        for chunk in leases.chunks(MAX_SCHEDULE) {
            let leases = (chunk.iter())
                .flat_map(|lease| [lease.id.as_str().into(), lease.token.to_string().into()]);
            let said: Vec<u8> = self
                .call(script, first.clone().into_iter().chain(leases))
                .await?;
            if said.len() != chunk.len() {
                return Err(strange());
            }
            finished.extend(said.iter().map(|done| match done {
                b'1' => Finished::Done,
                _ => Finished::Stale,
            }));
        }
        Ok(finished)
    }

    pub(super) async fn release_all(&self, releases: Vec<Release>) -> Result<Vec<Released>> {
        let limits = &self.shared.limits;
        let mut answers = Vec::with_capacity(releases.len());
        for chunk in releases.chunks(MAX_SCHEDULE) {
            let mut arguments = vec![number(limits.max_attempts.into())];
            for release in chunk {
                let mode = match release.attempt {
                    Attempt::Free => "f",
                    Attempt::Counted => "c",
                    Attempt::Last => "l",
                };
                arguments.extend([
                    release.lease.id.as_str().into(),
                    release.lease.token.to_string().into(),
                    number(millis(release.delay.min(limits.max_delay))),
                    mode.into(),
                    cut_reason(release.reason.clone()).into_owned().into_bytes(),
                ]);
            }
            let said: Vec<String> = self.call(&self.shared.scripts.release, arguments).await?;
            if said.len() != chunk.len() {
                return Err(strange());
            }
            for word in said {
                answers.push(match word.as_str() {
                    "stale" => Released::Stale,
                    "dead" => Released::Dead,
                    at => Released::Waiting(at.parse().map_err(|_| strange())?),
                });
            }
        }
        self.shared.nearer.notify_waiters();
        Ok(answers)
    }

    pub(super) async fn cancel_all(&self, ids: Vec<DelayId>) -> Result<Vec<Cancelled>> {
        let mut answers = Vec::with_capacity(ids.len());
        for chunk in ids.chunks(MAX_SCHEDULE) {
            let ids = chunk.iter().map(|id| id.as_str().into());
            let said: Vec<u8> = self.call(&self.shared.scripts.cancel, ids).await?;
            if said.len() != chunk.len() {
                return Err(strange());
            }
            answers.extend(said.iter().map(|answer| match answer {
                b'r' => Cancelled::Removed,
                b'f' => Cancelled::InFlight,
                _ => Cancelled::Unknown,
            }));
        }
        Ok(answers)
    }

    pub(super) async fn reschedule_one(&self, id: DelayId, when: When) -> Result<Rescheduled> {
        let max = millis(self.shared.limits.max_delay);
        let (kind, millis) = match when {
            When::At(at) => ("a", at.max(0)),
            When::After(delay) => ("d", millis(delay)),
        };
        let arguments = [number(max), id.as_str().into(), kind.into(), number(millis)];
        let said: String = self
            .call(&self.shared.scripts.reschedule, arguments)
            .await?;
        self.shared.nearer.notify_waiters();
        match said.as_str() {
            "far" => Err(too_far(max)),
            "flying" => Ok(Rescheduled::InFlight),
            "unknown" => Ok(Rescheduled::Unknown),
            at => Ok(Rescheduled::At(at.parse().map_err(|_| strange())?)),
        }
    }

    pub(super) async fn page(&self, listing: Listing) -> Result<Page> {
        let key = match listing.listed {
            Listed::Waiting => "w",
            Listed::InFlight => "f",
            Listed::Dead => "d",
        };
        let mut arguments = vec![key.into(), number(listing.limit() as i64)];
        if let Some(Cursor { at, id }) = &listing.after {
            arguments.extend([number(*at), id.as_str().into()]);
        }
        let said: Vec<String> = self.call(&self.shared.scripts.list, arguments).await?;
        let mut said = said.into_iter();
        let more = said.next().as_deref() == Some("1");
        let mut items = Vec::new();
        while let (Some(id), Some(at), Some(reason)) = (said.next(), said.next(), said.next()) {
            let cursor = Cursor {
                at: at.parse().map_err(|_| strange())?,
                id: DelayId::new(id)?,
            };
            let dead = listing.listed == Listed::Dead;
            items.push((cursor, dead.then_some(reason.into())));
        }
        let last = items.last().map(|(cursor, _)| cursor.clone());
        Ok(Page {
            items,
            next: last.filter(|_| more),
        })
    }

    pub(super) async fn count(&self) -> Result<Stats> {
        let said: Vec<String> = self.call(&self.shared.scripts.stats, []).await?;
        let mut said = said.into_iter();
        let mut number = || said.next().and_then(|number| number.parse().ok());
        let held = (number(), number(), number());
        let (Some(waiting), Some(in_flight), Some(dead)) = held else {
            return Err(strange());
        };
        let next_due = said.next().and_then(|due| due.parse().ok());
        let mut stats = Stats {
            waiting,
            in_flight,
            dead,
            next_due,
            ..Stats::default()
        };
        while let (Some(name), Some(value)) = (said.next(), said.next()) {
            let value = value.parse().map_err(|_| strange())?;
            match name.as_str() {
                "scheduled" => stats.scheduled = value,
                "completed" => stats.completed = value,
                "expired" => stats.expired = value,
                "stale" => stats.stale = value,
                "early" => stats.early = value,
                _ => {}
            }
        }
        Ok(stats)
    }
}
