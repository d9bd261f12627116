//! The log of a run: every entry is on disk before anybody sees it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use chrono::Utc;
use tokio::sync::mpsc::UnboundedSender;
use tokio_util::sync::CancellationToken;

use crate::record::{Entry, Event, FolderError, Ledger, RunFile, RunFolder, Snapshot};

/// Writes the run's folder, and tells whoever listens.
///
/// Entries are told from where nothing can be done about a full disk, for example from a wait that
/// reports its state. So the first failure is kept, and ends the run where it can end.
#[derive(Debug)]
pub(super) struct Journal {
    begun: Instant,
    state: Mutex<State>,
    broken: CancellationToken,
    listener: UnboundedSender<Entry>,
}

#[derive(Debug)]
struct State {
    folder: RunFolder,
    failure: Option<FolderError>,
}

impl Journal {
    pub(super) fn new(folder: RunFolder, listener: UnboundedSender<Entry>) -> Self {
        let failure = None;
        Self {
            begun: Instant::now(),
            state: Mutex::new(State { folder, failure }),
            broken: CancellationToken::new(),
            listener,
        }
    }

    /// When the run began, by a clock that never jumps.
    pub(super) fn begun(&self) -> Instant {
        self.begun
    }

    /// Appends an event to the log and shows it.
    pub(super) fn tell(&self, event: Event) {
        let mut state = self.state();
        let entry = Entry {
            at: Utc::now(),
            at_ms: u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX),
            event,
        };
        let appended = state.folder.append(&entry);
        self.keep(&mut state, appended);
        // Nobody has to listen.
        let _ = self.listener.send(entry);
    }

    /// Something is waited for.
    pub(super) fn waiting(
        &self,
        step: u32,
        what: &str,
        state: String,
        progress: Option<(u64, u64)>,
    ) {
        self.tell(Event::Waiting {
            step,
            what: what.to_owned(),
            state,
            progress,
        });
    }

    /// Resolves when the folder cannot be written any more.
    pub(super) async fn broken(&self) {
        self.broken.cancelled().await;
    }

    /// The first failure, if there was one.
    ///
    /// # Errors
    ///
    /// That failure, once.
    pub(super) fn check(&self) -> Result<(), FolderError> {
        self.state().failure.take().map_or(Ok(()), Err)
    }

    pub(super) fn write_run(&self, run: &RunFile) -> Result<(), FolderError> {
        self.state().folder.write_run(run)
    }

    pub(super) fn write_ledger(&self, ledger: &Ledger) -> Result<(), FolderError> {
        self.state().folder.write_ledger(ledger)
    }

    pub(super) fn write_text(&self, name: &str, text: &str) -> Result<(), FolderError> {
        self.state().folder.write_text(name, text)
    }

    /// Writes a snapshot and returns its name in the folder.
    pub(super) fn write_snapshot(&self, snapshot: &Snapshot) -> Result<String, FolderError> {
        self.state().folder.write_snapshot(snapshot)
    }

    /// Looks at the folder.
    pub(super) fn folder<T>(&self, look: impl FnOnce(&RunFolder) -> T) -> T {
        look(&self.state().folder)
    }

    fn keep(&self, state: &mut State, outcome: Result<(), FolderError>) {
        if let Err(error) = outcome {
            state.failure.get_or_insert(error);
            self.broken.cancel();
        }
    }

    /// What is guarded is whole after every use, so that a panic elsewhere cannot spoil it.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
