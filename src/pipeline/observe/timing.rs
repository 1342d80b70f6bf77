//! How long chains and handlers take.

use super::names;
use metrics::Histogram;
use std::fmt;
use std::time::Duration;
use tokio::time::Instant;

/// Measures chains and handlers, when it is asked to: three readings of the clock a record and two
/// recorded values, some 100 ns. Off unless `metrics.timing=true`, for the facade does not tell
/// whether a recorder is installed.
#[derive(Clone, Default)]
pub struct Timing(Option<Histograms>);

#[derive(Clone)]
struct Histograms {
    chain: Histogram,
    handler: Histogram,
}

impl Timing {
    /// Measures nothing.
    pub fn off() -> Self {
        Timing(None)
    }

    /// Records into the recorder that is installed now.
    pub fn on() -> Self {
        Timing(Some(Histograms {
            chain: names::CHAIN_SECONDS.as_histogram(&[]),
            handler: names::HANDLER_SECONDS.as_histogram(&[]),
        }))
    }

    /// The time now, if it matters.
    pub(in crate::pipeline) fn start(&self) -> Option<Instant> {
        self.0.as_ref().map(|_| Instant::now())
    }

    /// A chain has answered; the time now.
    pub(in crate::pipeline) fn chain(&self, since: Option<Instant>) -> Option<Instant> {
        self.record(since, |histograms| &histograms.chain)
    }

    /// The handler has answered.
    pub(in crate::pipeline) fn handler(&self, since: Option<Instant>) {
        self.record(since, |histograms| &histograms.handler);
    }

    fn record(
        &self,
        since: Option<Instant>,
        which: impl Fn(&Histograms) -> &Histogram,
    ) -> Option<Instant> {
        let (histograms, since) = (self.0.as_ref()?, since?);
        let now = Instant::now();
        let took: Duration = now.saturating_duration_since(since);
        which(histograms).record(took.as_secs_f64());
        Some(now)
    }
}

impl fmt::Debug for Timing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Timing").field(&self.0.is_some()).finish()
    }
}
