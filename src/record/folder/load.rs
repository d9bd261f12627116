//! Reading a run's folder back.
//!
//! Only `run.json` decides whether there is a run at all. Whatever else is missing, cut short or
//! damaged is a problem that is told, together with what was done about it: most runs that somebody
//! wants to look into did not end well.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{EVENTS, FolderError, LEDGER, RUN, RunFolder, whole_lines};
use crate::record::{Entry, Event, Ledger, RunFile, SCHEMA_VERSION, Snapshot, StepRecord};

/// Everything that a run left behind, as far as it can be read.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadedRun {
    /// `run.json`.
    pub run: RunFile,
    /// The steps that have an end, in order. Of a step that was done again only the last time counts.
    pub steps: Vec<StepRecord>,
    /// Snapshots, by step.
    pub snapshots: BTreeMap<u32, Snapshot>,
    /// The log.
    pub events: Vec<Entry>,
    /// What is missing or damaged, and what was done about it, one line each.
    pub problems: Vec<String>,
}

impl RunFolder {
    /// Reads everything.
    ///
    /// # Errors
    ///
    /// When `run.json` is missing, damaged, or of a later version. All else is a line of
    /// [`LoadedRun::problems`].
    pub fn load(&self) -> Result<LoadedRun, FolderError> {
        let mut run = self.read_run()?;
        let mut problems = Vec::new();
        let events = self.events(&mut problems)?;
        let steps = steps(&events);
        if let Some(unfinished) = unfinished(&events) {
            problems.push(format!(
                "{unfinished} has no end: the run ended in it, or is still in it"
            ));
        }
        if run.outcome.is_none() {
            run.outcome = events.iter().rev().find_map(|entry| match &entry.event {
                Event::RunFinished { outcome } => Some(outcome.as_ref().clone()),
                _ => None,
            });
            if run.outcome.is_some() {
                problems.push(format!("{RUN} has no outcome; that of {EVENTS} is used"));
            }
        }
        let mut snapshots = BTreeMap::new();
        for record in &steps {
            let Some(name) = &record.snapshot else {
                continue;
            };
            match self.read_snapshot(name) {
                Ok(snapshot) => {
                    snapshots.insert(record.step, snapshot);
                }
                Err(error) => problems.push(format!(
                    "step {} is told without its snapshot: {}",
                    record.step,
                    crate::error_chain::chain(&error)
                )),
            }
        }
        Ok(LoadedRun {
            run,
            steps,
            snapshots,
            events,
            problems,
        })
    }

    /// Reads `run.json`.
    ///
    /// # Errors
    ///
    /// See [`RunFolder::load`].
    pub fn read_run(&self) -> Result<RunFile, FolderError> {
        self.check_version()?;
        read_json(&self.root.join(RUN))
    }

    /// Reads `ledger.json`; [`None`] when the run ended before it made anything.
    ///
    /// # Errors
    ///
    /// When it is damaged: what the run made is not known then.
    pub fn read_ledger(&self) -> Result<Option<Ledger>, FolderError> {
        match read_json(&self.root.join(LEDGER)) {
            Err(FolderError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Ok(None)
            }
            read => read.map(Some),
        }
    }

    /// Reads a snapshot by its name in the folder.
    ///
    /// # Errors
    ///
    /// When the name leads out of the folder, or the file is missing or damaged.
    pub fn read_snapshot(&self, name: &str) -> Result<Snapshot, FolderError> {
        let path = self.file(name)?;
        let failed = |source| FolderError::Read {
            path: path.clone(),
            source,
        };
        let file = File::open(&path).map_err(failed)?;
        let decoder = zstd::Decoder::new(file).map_err(failed)?;
        // Read from the stream, so that the text of a large snapshot is never held as a whole.
        serde_json::from_reader(BufReader::new(decoder)).map_err(|source| FolderError::Damaged {
            path: path.clone(),
            source,
        })
    }

    /// The runs below a folder, oldest first by their names. A folder without a log and without
    /// `run.json` is none; without the folder there are none.
    ///
    /// # Errors
    ///
    /// When the folder cannot be read.
    pub fn list(parent: &Path) -> Result<Vec<Self>, FolderError> {
        let failed = |source| FolderError::Read {
            path: parent.to_owned(),
            source,
        };
        let entries = match std::fs::read_dir(parent) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(failed)?,
        };
        let mut runs = Vec::new();
        for entry in entries {
            let root = entry.map_err(failed)?.path();
            if [RUN, EVENTS].iter().any(|name| root.join(name).is_file()) {
                runs.push(Self { root, log: None });
            }
        }
        runs.sort_by(|one, other| one.root.cmp(&other.root));
        Ok(runs)
    }

    /// Refuses what a later version wrote, before its other fields are looked at.
    pub(super) fn check_version(&self) -> Result<(), FolderError> {
        let path = self.root.join(RUN);
        let run: Value = match read_json(&path) {
            Err(FolderError::Read { source, .. })
                if matches!(
                    source.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                return Err(FolderError::NotARun {
                    path: self.root.clone(),
                });
            }
            read => read?,
        };
        match run["schemaVersion"].as_u64() {
            Some(found) if found > u64::from(SCHEMA_VERSION) => {
                Err(FolderError::Newer { path, found })
            }
            // The typed reader says what is wrong with a version that is no number.
            _ => Ok(()),
        }
    }

    fn events(&self, problems: &mut Vec<String>) -> Result<Vec<Entry>, FolderError> {
        let path = self.root.join(EVENTS);
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                problems.push(format!("{EVENTS} is missing: no step is known"));
                return Ok(Vec::new());
            }
            Err(source) => return Err(FolderError::Read { path, source }),
        };
        let whole = whole_lines(&text);
        if whole.len() < text.len() {
            let torn = text.len() - whole.len();
            problems.push(format!(
                "the last line of {EVENTS} has no end: its {torn} bytes are left out"
            ));
        }
        let mut events = Vec::new();
        let lines = whole.split(|byte| *byte == b'\n');
        for (index, line) in lines.enumerate().filter(|(_, line)| !line.is_empty()) {
            match serde_json::from_slice(line) {
                Ok(entry) => events.push(entry),
                Err(error) => problems.push(format!(
                    "line {} of {EVENTS} is damaged and left out: {error}",
                    index + 1
                )),
            }
        }
        Ok(events)
    }
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, FolderError> {
    let text = std::fs::read(path).map_err(|source| FolderError::Read {
        path: path.to_owned(),
        source,
    })?;
    serde_json::from_slice(&text).map_err(|source| FolderError::Damaged {
        path: path.to_owned(),
        source,
    })
}

fn steps(events: &[Entry]) -> Vec<StepRecord> {
    let mut steps = BTreeMap::new();
    for entry in events {
        if let Event::StepFinished { record } = &entry.event {
            steps.insert(record.step, record.as_ref().clone());
        }
    }
    steps.into_values().collect()
}

/// The step that began and has no end, in words.
fn unfinished(events: &[Entry]) -> Option<String> {
    let mut open = None;
    for entry in events {
        match &entry.event {
            Event::StepStarted { step, action, .. } => open = Some((step, action)),
            Event::StepFinished { .. } => open = None,
            _ => {}
        }
    }
    open.map(|(step, action)| format!("step {step} ({action})"))
}
