//! When commits are sent, and who is told what became of them; apart from librdkafka.

use super::commit::{Commit, CommitError, CommitResults};
use super::context::CommitAnswer;
use super::period::OwnedPartition;
use super::table::Place;
use rdkafka::error::RDKafkaErrorCode as Code;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// The wait after a commit that failed, doubled while failures repeat.
const WAITS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));

/// How long an answer is waited for. librdkafka answers by itself, after `session.timeout.ms` at
/// the latest when it finds no coordinator, and after `socket.timeout.ms` when that is silent.
const ANSWER: Duration = Duration::from_secs(120);

/// The most requests that wait here; further ones wait in their channel.
const WAITING: usize = 64;

struct Request {
    commits: Vec<Commit>,
    reply: oneshot::Sender<CommitResults>,
}

struct InFlight {
    sent: BTreeMap<Place, Commit>,
    requests: Vec<Request>,
    since: Instant,
}

/// One commit at a time, with everything in it that waits; after a failure only when some time has
/// passed and polls have been made, for it may take those to become a member again.
#[derive(Default)]
pub(super) struct Committer {
    waiting: VecDeque<Request>,
    in_flight: Option<InFlight>,
    not_before: Option<Instant>,
    wait: Duration,
}

impl Committer {
    pub(super) fn has_room(&self) -> bool {
        self.waiting.len() < WAITING
    }

    /// Whether nothing waits and nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.in_flight.is_none()
    }

    pub(super) fn add(&mut self, commits: Vec<Commit>, reply: oneshot::Sender<CommitResults>) {
        self.waiting.push_back(Request { commits, reply });
    }

    /// When there will be something to do that no answer brings about.
    pub(super) fn due(&self) -> Option<Instant> {
        match (&self.in_flight, self.waiting.is_empty()) {
            (Some(in_flight), _) => in_flight.since.checked_add(ANSWER),
            (None, false) => self.not_before,
            (None, true) => None,
        }
    }

    /// What is to be sent now: of each partition that is still owned the highest offset asked for.
    /// To be called once a poll cycle.
    pub(super) fn next(
        &mut self,
        now: Instant,
        owns: impl Fn(&OwnedPartition) -> bool,
    ) -> Option<Vec<Commit>> {
        let overdue = |in_flight: &InFlight| now.duration_since(in_flight.since) >= ANSWER;
        if self.in_flight.as_ref().is_some_and(overdue) {
            self.failed(now, Code::OperationTimedOut);
        }
        let early = self.not_before.is_some_and(|instant| now < instant);
        if self.in_flight.is_some() || early || self.waiting.is_empty() {
            return None;
        }
        let requests: Vec<Request> = self.waiting.drain(..).collect();
        let mut sent: BTreeMap<Place, Commit> = BTreeMap::new();
        for commit in requests.iter().flat_map(|request| &request.commits) {
            if commit.offset < 0 || !owns(&commit.partition) {
                continue;
            }
            let key = (
                Arc::clone(&commit.partition.topic),
                commit.partition.partition,
            );
            let highest = sent.entry(key).or_insert_with(|| commit.clone());
            if highest.offset <= commit.offset {
                *highest = commit.clone();
            }
        }
        let list: Vec<Commit> = sent.values().cloned().collect();
        self.in_flight = Some(InFlight {
            sent,
            requests,
            since: now,
        });
        if list.is_empty() {
            self.finish(|_| Code::NoError);
            return None;
        }
        Some(list)
    }

    /// The commit under way came to nothing as a whole.
    pub(super) fn failed(&mut self, now: Instant, code: Code) {
        self.hold_back(now, code != Code::NoError);
        self.finish(|_| code);
    }

    /// An answer came; one to a commit that was given up is ignored.
    pub(super) fn answered(&mut self, now: Instant, answer: &CommitAnswer) {
        let ours = self.in_flight.as_ref().is_some_and(|in_flight| {
            in_flight.sent.len() == answer.offsets.len()
                && answer.offsets.iter().all(|(topic, partition, offset, _)| {
                    let sent = in_flight.sent.get(&(Arc::clone(topic), *partition));
                    sent.is_some_and(|commit| commit.offset == *offset)
                })
        });
        if !ours {
            return;
        }
        let single = |code: &Code| !matches!(code, Code::NoError | Code::NoOffset);
        let some = answer.offsets.iter().any(|(.., code)| single(code));
        self.hold_back(now, some || single(&answer.overall));
        self.finish(|commit| {
            // An error of the whole is one of each, unless it only sums up those of some.
            if !some {
                return answer.overall;
            }
            answer
                .offsets
                .iter()
                .find(|(topic, partition, ..)| {
                    *topic == commit.partition.topic && *partition == commit.partition.partition
                })
                .map_or(Code::NoError, |(.., code)| *code)
        });
    }

    fn hold_back(&mut self, now: Instant, failed: bool) {
        self.wait = match failed {
            true => (self.wait * 2).clamp(WAITS.0, WAITS.1),
            false => Duration::ZERO,
        };
        self.not_before = failed.then(|| now.checked_add(self.wait)).flatten();
    }

    fn finish(&mut self, code: impl Fn(&Commit) -> Code) {
        let Some(InFlight { sent, requests, .. }) = self.in_flight.take() else {
            return;
        };
        for Request { commits, reply } in requests {
            let result = |commit: Commit| {
                let key = (
                    Arc::clone(&commit.partition.topic),
                    commit.partition.partition,
                );
                let of_now = |sent: &&Commit| sent.partition == commit.partition;
                match sent.get(&key).filter(of_now) {
                    Some(_) => {
                        let code = code(&commit);
                        CommitError::of(commit, code)
                    }
                    None if commit.offset < 0 => CommitError::of(commit, Code::InvalidArgument),
                    None => Err(CommitError::not_owned(commit)),
                }
            };
            // Whoever asked may have gone.
            let _ = reply.send(commits.into_iter().map(result).collect());
        }
    }
}

#[cfg(test)]
mod tests;
