//! SIGTERM and Ctrl-C.

use crate::error::{Error, Result};

/// The signals that ask a process to end.
pub(super) struct Signals {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
}

fn refused(cause: std::io::Error) -> Error {
    Error::config("could not listen for signals").with_source(cause)
}

impl Signals {
    /// From here on the process is not ended by them.
    #[cfg(unix)]
    pub(super) fn listen() -> Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Signals {
            terminate: signal(SignalKind::terminate()).map_err(refused)?,
            interrupt: signal(SignalKind::interrupt()).map_err(refused)?,
        })
    }

    /// The next one.
    #[cfg(unix)]
    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    /// From here on the process is not ended by them.
    #[cfg(not(unix))]
    pub(super) fn listen() -> Result<Self> {
        Ok(Signals {})
    }

    /// The next one.
    #[cfg(not(unix))]
    pub(super) async fn next(&mut self) {
        if let Err(cause) = tokio::signal::ctrl_c().await {
            drop(refused(cause));
            std::future::pending::<()>().await;
        }
    }
}
