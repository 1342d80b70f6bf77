use super::pass;
use crate::answer::{Answer, BoxFuture};
use crate::backoff::{Backoff, RetryEvent, RetryObserver, SharedBackoff, cut};
use crate::component::Component;
use crate::deserializer::{Deserializer, Input};
use crate::error::{Error, Result, StageName};
use crate::matcher::{Matcher, SharedMatcher};
use crate::serializer::{Encoded, Give, Serializer, Target};
use crate::status::{ErrorKind, Status};
use crate::tree::Tree;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::borrow::Cow;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep};

/// Calls its delegate again after each wait of a backoff, while its matcher takes the error
/// (KIP-873, `RetryDeserializer`). Works in both directions.
///
/// Takes Temporary errors, or what its [matcher](Self::matcher) takes. When it gives up, Temporary
/// becomes Exhausted, and the error tells the attempts (the first call counts) and the elapsed time.
/// Of nested retries the outermost that tried again writes these.
///
/// An error of kind [`ErrorKind::Config`] is never tried again, whatever the matcher: a chain that is
/// wired wrongly must stop, not be called for ever.
///
/// Waits are timers of tokio: they block no thread, and dropping the answer ends them. Without a
/// tokio runtime whose timer is enabled a retry cannot wait; that is an error of kind Config.
#[derive(Clone, Debug)]
pub struct Retry<D> {
    delegate: D,
    pub(super) policy: Policy,
}

#[derive(Clone)]
pub(super) struct Policy {
    name: StageName,
    pub(super) matcher: Option<SharedMatcher>,
    backoff: SharedBackoff,
    pub(super) attempt_timeout: Option<Duration>,
    pub(super) time_limit: Option<Duration>,
    seeds: Arc<AtomicU64>,
    pub(super) observer: Option<Arc<dyn RetryObserver>>,
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policy")
            .field("name", &self.name)
            .field("matcher", &self.matcher)
            .field("backoff", &self.backoff)
            .field("attempt_timeout", &self.attempt_timeout)
            .field("time_limit", &self.time_limit)
            .finish_non_exhaustive()
    }
}

impl<D> Retry<D> {
    /// Around `delegate`, waiting as `backoff` says.
    pub fn new(delegate: D, backoff: SharedBackoff) -> Self {
        let policy = Policy {
            name: Cow::Borrowed("retry"),
            matcher: None,
            backoff,
            attempt_timeout: None,
            time_limit: None,
            seeds: Arc::new(AtomicU64::new(rand::random())),
            observer: None,
        };
        Retry { delegate, policy }
    }

    /// Tries again on the errors that `matcher` takes, instead of Temporary ones. An error that is
    /// taken but not Temporary keeps its status when the retry gives up.
    #[must_use]
    pub fn matcher(mut self, matcher: impl Matcher + 'static) -> Self {
        self.policy.matcher = Some(SharedMatcher::new(matcher));
        self
    }

    /// Ends an attempt that takes longer, with a Temporary error of kind Timeout. Only an attempt
    /// that waits can be ended; one that blocks its thread cannot.
    #[must_use]
    pub fn attempt_timeout(mut self, limit: Duration) -> Self {
        self.policy.attempt_timeout = Some(limit);
        self
    }

    /// Starts no attempt later than `limit` after the first failure. The wait that would end later is
    /// cut to end there, and the attempt after it is the last: a limit shorter than the first wait
    /// still leaves one retry, and so does a limit of zero, at once. It does not end an attempt that is
    /// running: [`attempt_timeout`](Self::attempt_timeout) does.
    #[must_use]
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.policy.time_limit = Some(limit);
        self
    }

    /// Makes the jitter repeatable.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.policy.seeds = Arc::new(AtomicU64::new(seed));
        self
    }

    /// Tells `observer` of each retry.
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn RetryObserver>) -> Self {
        self.policy.observer = Some(observer);
        self
    }

    /// The same part under a label, which its stage path and its print show.
    #[must_use]
    pub fn labelled(mut self, label: impl Into<StageName>) -> Self {
        self.policy.name = label.into();
        self
    }

    /// What it wraps.
    pub fn get_ref(&self) -> &D {
        &self.delegate
    }

    /// What it wraps, by value.
    pub fn into_inner(self) -> D {
        self.delegate
    }
}

impl Policy {
    fn takes(&self, error: &Error) -> bool {
        error.kind() != ErrorKind::Config
            && match &self.matcher {
                Some(matcher) => matcher.matches(error),
                None => error.status() == Status::Temporary,
            }
    }

    /// Goes on after an answer that was not a ready success.
    #[inline(never)]
    fn go_on<'a, T: Send + 'a>(
        &'a self,
        first: Answer<'a, T>,
        again: impl Fn() -> Answer<'a, T> + Send + 'a,
    ) -> Answer<'a, T> {
        match first {
            Answer::Ready(Ok(value)) => Answer::Ready(Ok(value)),
            Answer::Ready(Err(error)) if !self.takes(&error) => {
                Answer::Ready(Err(error.at(self.name.clone())))
            }
            first => Answer::pending(self.drive(first, again)),
        }
    }

    async fn drive<'a, T: Send + 'a>(
        &'a self,
        first: Answer<'a, T>,
        again: impl Fn() -> Answer<'a, T> + Send + 'a,
    ) -> Result<T> {
        let started = Instant::now();
        let mut first_failure = None;
        let mut rng = None;
        let mut attempts = 1_u32;
        let mut answer = first;
        loop {
            let error = match self.attempt(answer).await {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            let now = Instant::now();
            let failing_since = *first_failure.get_or_insert(now);
            let wait = if self.takes(&error) {
                let rng = rng.get_or_insert_with(|| {
                    StdRng::seed_from_u64(self.seeds.fetch_add(1, Ordering::Relaxed))
                });
                self.wait(attempts, rng.random(), now.duration_since(failing_since))
            } else {
                return Err(self.finish(error, attempts, now.duration_since(started)));
            };
            let Some(wait) = wait else {
                let status = match error.status() {
                    Status::Temporary => Status::Exhausted,
                    status => status,
                };
                let error = error.with_status(status);
                return Err(self.finish(error, attempts, now.duration_since(started)));
            };
            let sleep = timer(wait).map_err(|error| error.at(self.name.clone()))?;
            if let Some(observer) = &self.observer {
                let stage = &*self.name;
                observer.retrying(&RetryEvent {
                    stage,
                    error: &error,
                    attempts,
                    wait,
                });
            }
            drop(error);
            sleep.await;
            attempts = attempts.saturating_add(1);
            answer = again();
        }
    }

    /// The wait before the next attempt, or `None` to give up.
    fn wait(&self, attempts: u32, chance: f64, failing_for: Duration) -> Option<Duration> {
        let wait = cut(self.backoff.wait(attempts, chance)?);
        let Some(limit) = self.time_limit else {
            return Some(wait);
        };
        let left = limit.saturating_sub(failing_for);
        // The first retry is made whatever the limit.
        (attempts == 1 || !left.is_zero()).then(|| wait.min(left))
    }

    async fn attempt<'a, T: Send + 'a>(&self, answer: Answer<'a, T>) -> Result<T> {
        let future = match answer {
            Answer::Ready(result) => return result,
            Answer::Pending(future) => future,
        };
        match self.attempt_timeout {
            Some(limit) => within(limit, future).await,
            None => future.await,
        }
    }

    /// Errors of a retry that never tried again keep the attempts of a retry inside.
    fn finish(&self, error: Error, attempts: u32, elapsed: Duration) -> Error {
        let error = if attempts > 1 || error.attempts() == 1 {
            error.with_attempts(attempts, elapsed)
        } else {
            error
        };
        error.at(self.name.clone())
    }
}

async fn within<T>(limit: Duration, mut future: BoxFuture<'_, Result<T>>) -> Result<T> {
    let mut limit_reached = Box::pin(timer(limit)?);
    std::future::poll_fn(|cx| {
        if let std::task::Poll::Ready(result) = future.as_mut().poll(cx) {
            return std::task::Poll::Ready(result);
        }
        limit_reached.as_mut().poll(cx).map(|()| {
            Err(Error::timeout(format!(
                "the attempt took longer than its limit of {limit:?}"
            )))
        })
    })
    .await
}

/// A timer of tokio's, or the error that says there is none.
fn timer(wait: Duration) -> Result<Sleep> {
    let no_timer = || Error::config("a retry waits on a tokio runtime with its timer enabled");
    tokio::runtime::Handle::try_current().map_err(|_| no_timer())?;
    // A runtime built without `enable_time` cannot be told apart but by this panic of tokio's.
    catch_unwind(AssertUnwindSafe(|| sleep(wait))).map_err(|_| no_timer())
}

#[deny(clippy::missing_trait_methods)]
impl<D: Component> Component for Retry<D> {
    fn close(&self) -> Answer<'_, ()> {
        self.delegate.close()
    }

    fn describe(&self) -> Tree {
        let label = (self.policy.name != "retry").then(|| self.policy.name.to_string());
        Tree::of("retry", [self.delegate.describe()]).labelled(label)
    }
}

#[deny(clippy::missing_trait_methods)]
impl<D: Deserializer> Deserializer for Retry<D> {
    type Output = D::Output;

    #[inline]
    fn deserialize<'a>(&'a self, input: Input<'a>) -> Answer<'a, D::Output> {
        let kept = input.clone();
        pass(&self.delegate, input, |answer| {
            let again = move || self.delegate.deserialize(kept.clone());
            self.policy.go_on(answer, again)
        })
    }
}

#[deny(clippy::missing_trait_methods)]
impl<S: Serializer> Serializer for Retry<S> {
    type Input = S::Input;

    #[inline]
    fn serialize<'a>(
        &'a self,
        value: <S::Input as Give>::Given<'a>,
        target: &'a Target<'a>,
    ) -> Answer<'a, Encoded> {
        let kept = value.clone();
        let mut answer = self.delegate.serialize(value, target);
        if !matches!(answer, Answer::Ready(Ok(_))) {
            let again = move || self.delegate.serialize(kept.clone(), target);
            answer = self.policy.go_on(answer, again);
        }
        answer
    }
}
