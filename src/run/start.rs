//! The begin and the end of a run.

use std::path::PathBuf;
use std::sync::Arc;

use chrono::Utc;
use tokio::sync::mpsc::UnboundedSender;

use super::charts::Charts;
use super::engine::{self, Seen};
use super::error::RunError;
use super::journal::Journal;
use super::site::Site;
use super::stop::Stop;
use crate::error_chain::chain;
use crate::gates::{self, Evidence};
use crate::helm::Helm;
use crate::record::{
    Entry, Event, FolderError, LoadedRun, Outcome, RunFile, RunFolder, SCHEMA_VERSION,
};
use crate::scenario::Plan;

/// What the user decides about a run beyond its plan.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunOptions {
    /// Leave everything as it is when the run ends before its plan does.
    pub keep: bool,
}

/// A run that has a folder.
#[derive(Debug)]
pub struct Run {
    pub(super) plan: Plan,
    pub(super) charts: Charts,
    pub(super) journal: Arc<Journal>,
    pub(super) file: RunFile,
}

/// A run that is over.
#[derive(Debug)]
pub struct Finished {
    /// Its folder.
    pub folder: PathBuf,
    /// What the folder holds; [`None`] when it cannot be read any more.
    pub left: Option<LoadedRun>,
    /// The exit code (`design.md` 4).
    pub exit: u8,
    /// What ended it early.
    pub error: Option<RunError>,
}

impl Run {
    /// Begins a run in this folder. Its log is sent to `listener`.
    ///
    /// # Errors
    ///
    /// [`FolderError`] when the folder cannot be written.
    pub fn begin(
        plan: Plan,
        charts: Charts,
        folder: RunFolder,
        listener: UnboundedSender<Entry>,
    ) -> Result<Self, FolderError> {
        let file = RunFile {
            schema_version: SCHEMA_VERSION,
            run: folder.name(),
            started_at: Utc::now(),
            charts: charts.records(),
            plan: plan.clone(),
            environment: None,
            outcome: None,
        };
        let journal = Journal::new(folder, listener);
        journal.write_run(&file)?;
        journal.tell(Event::RunStarted {
            run: file.run.clone(),
            steps: u32::try_from(plan.steps.len()).unwrap_or(u32::MAX),
        });
        journal.check()?;
        Ok(Self {
            plan,
            charts,
            journal: Arc::new(journal),
            file,
        })
    }

    /// Its name: that of its folder.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.file.run
    }

    /// Its folder.
    #[must_use]
    pub fn folder(&self) -> PathBuf {
        self.journal.folder(|folder| folder.path().to_owned())
    }

    /// The place for transcripts and logs.
    #[must_use]
    pub fn logs_dir(&self) -> PathBuf {
        self.journal.folder(RunFolder::logs_dir)
    }

    /// Tells what is prepared before the first step.
    pub fn preparing(&self, what: &str) {
        self.journal.tell(Event::Preparing {
            what: what.to_owned(),
        });
    }

    /// Executes the plan, and judges what was seen. Whatever happens, the folder holds all of it.
    pub async fn execute(
        mut self,
        site: Site,
        helm: Helm,
        stop: &Stop,
        options: RunOptions,
    ) -> Finished {
        let seen = engine::execute(&mut self, site, helm, stop, options).await;
        self.finish(seen)
    }

    /// Ends a run whose plan was never begun, for example since its control plane did not start.
    #[must_use]
    pub fn abandon(self, error: RunError) -> Finished {
        self.finish(Seen {
            error: Some(error),
            ..Seen::default()
        })
    }

    /// Judges what is in the folder, as anybody can do again later, and writes the outcome.
    fn finish(mut self, mut seen: Seen) -> Finished {
        let mut left = match self.journal.folder(RunFolder::load) {
            Ok(left) => Some(left),
            Err(failure) => {
                // What went wrong first is what is told.
                seen.error.get_or_insert(failure.into());
                None
            }
        };
        let checks = match &left {
            Some(left) if !left.steps.is_empty() => gates::evaluate(&Evidence {
                run: &self.file,
                steps: &left.steps,
                snapshots: &left.snapshots,
                events: &left.events,
            }),
            _ => Vec::new(),
        };
        let told = seen.error.as_ref().map(|error| chain(error));
        let outcome = Outcome {
            at: Utc::now(),
            exit: match &seen.error {
                Some(error) => error.exit(),
                None => gates::exit_code(&checks),
            },
            aborted: told.or(seen.skipped),
            checks,
        };
        self.file.outcome = Some(outcome.clone());
        if let Some(left) = &mut left {
            left.run.clone_from(&self.file);
        }
        let exit = outcome.exit;
        self.journal.tell(Event::RunFinished {
            outcome: Box::new(outcome),
        });
        let written = self.journal.write_run(&self.file);
        if let Err(failure) = written.and_then(|()| self.journal.check()) {
            seen.error.get_or_insert(failure.into());
        }
        Finished {
            folder: self.folder(),
            exit: seen.error.as_ref().map_or(exit, RunError::exit),
            left,
            error: seen.error,
        }
    }
}
