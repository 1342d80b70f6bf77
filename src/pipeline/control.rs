//! How the loop tells a worker to go on, to hold, or to end.

use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// What a worker is told.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Orders {
    pub(super) ending: Option<Ending>,
    pub(super) paused: bool,
    /// Raised by each resume, so that none is overlooked.
    pub(super) resumes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Take nothing more, let what runs finish until then.
    Drain(Instant),
    /// Drop everything: the partition is another's.
    Lose,
}

/// The loop's end. Dropping it is [`lose`](Self::lose).
#[derive(Debug)]
pub struct WorkerControl(watch::Sender<Orders>);

/// The worker's end.
#[derive(Clone, Debug)]
pub(super) struct WorkerOrders(watch::Receiver<Orders>);

pub(super) fn control() -> (WorkerControl, WorkerOrders) {
    let (give, take) = watch::channel(Orders::default());
    (WorkerControl(give), WorkerOrders(take))
}

impl WorkerControl {
    /// The partition is given back, or all stops: nothing is taken or tried again, work in flight and
    /// writes under way finish within `limit`, the rest is abandoned unmarked.
    pub fn drain(&self, limit: Duration) {
        let until = Instant::now() + limit;
        self.0.send_modify(|orders| {
            orders.ending = match orders.ending {
                Some(Ending::Lose) => Some(Ending::Lose),
                Some(Ending::Drain(earlier)) => Some(Ending::Drain(earlier.min(until))),
                None => Some(Ending::Drain(until)),
            };
        });
    }

    /// The partition is another's already: everything is dropped, nothing is marked any more.
    pub fn lose(&self) {
        self.0
            .send_modify(|orders| orders.ending = Some(Ending::Lose));
    }

    /// The user's own pause: nothing is taken, started or probed until [`resume`](Self::resume).
    pub fn pause(&self) {
        self.0.send_modify(|orders| orders.paused = true);
    }

    /// Ends the user's own pause, and any pause and streak of the partition: what is held is tried
    /// again at once.
    pub fn resume(&self) {
        self.0.send_modify(|orders| {
            orders.paused = false;
            orders.resumes = orders.resumes.wrapping_add(1);
        });
    }
}

impl WorkerOrders {
    /// The orders now.
    pub(super) fn now(&mut self) -> Orders {
        let orders = *self.0.borrow_and_update();
        match self.0.has_changed() {
            Ok(_) => orders,
            Err(_) => Orders {
                ending: Some(Ending::Lose),
                ..orders
            },
        }
    }

    /// Whether there are orders that [`now`](Self::now) has not told yet.
    pub(super) fn are_new(&self) -> bool {
        self.0.has_changed().unwrap_or(true)
    }

    /// Waits until [`are_new`](Self::are_new).
    pub(super) async fn changed(&mut self) {
        // An error says that the other end is gone, which is an order too.
        let _ = self.0.changed().await;
        self.0.mark_changed();
    }

    /// Waits until the worker is to end.
    pub(super) async fn ending(&self) {
        let mut orders = self.0.clone();
        let _ = orders.wait_for(|orders| orders.ending.is_some()).await;
    }
}
