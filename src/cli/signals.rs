//! The first signal asks for an orderly end, the second one ends at once.

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::exit::{Exit, Failure};

/// Signals that ask this process to stop.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    /// Installs the handlers.
    ///
    /// # Errors
    ///
    /// When the kernel refuses.
    pub(crate) fn install() -> Result<Self, Failure> {
        let one = |kind| {
            signal(kind).map_err(|error| Failure {
                exit: Exit::CouldNotRun,
                message: format!("cannot watch for signals: {error}"),
                hint: None,
            })
        };
        Ok(Self {
            interrupt: one(SignalKind::interrupt())?,
            terminate: one(SignalKind::terminate())?,
            hangup: one(SignalKind::hangup())?,
        })
    }

    /// Waits for one of them.
    pub(crate) async fn received(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }

    /// From here on the next signal ends the process at once. Its children die with it, and the next
    /// command clears its folder.
    pub(crate) fn end_on_next(mut self) {
        tokio::spawn(async move {
            self.received().await;
            std::process::exit(i32::from(Exit::Interrupted as u8));
        });
    }
}
