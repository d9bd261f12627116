//! The folder of a run (`design.md` 5): written so that a kill at any moment leaves what readers accept.
//!
//! Whole files are replaced at once: a reader sees the old one or the new one. The log grows by whole
//! lines, each of them one write; what a kill cut off is a last line without an end, which readers drop
//! and the next writer removes. So nothing that was whole is ever half of something.

mod load;

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Component, Path, PathBuf};

use chrono::{DateTime, Utc};
use serde::Serialize;

pub use self::load::LoadedRun;
use super::{Entry, Ledger, RunFile, SCHEMA_VERSION, Snapshot};
use crate::host::files::{self, FileError};

const RUN: &str = "run.json";
const EVENTS: &str = "events.jsonl";
const LEDGER: &str = "ledger.json";
const SNAPSHOTS: &str = "snapshots";
const SCRAPES: &str = "scrapes";
const LOGS: &str = "logs";

/// Letters of the short id: without those that are taken for others.
const LETTERS: &[u8] = b"23456789abcdefghjkmnpqrstuvwxyz";
/// Their number: a billion ids for runs of the same scenario in the same second.
const ID_LENGTH: usize = 6;
/// So many names are tried, for the case that a folder of the same name exists.
const ATTEMPTS: usize = 16;

/// A run's folder cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// It cannot be created.
    #[error("cannot create the folder {}", path.display())]
    Create {
        /// The folder.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file that grows cannot be written. It is as long as it was before.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file cannot be replaced. It is as it was before.
    #[error(transparent)]
    Replace(#[from] FileError),
    /// A file or folder cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A value cannot be written as JSON.
    #[error("cannot write {} as JSON", path.display())]
    Encode {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: serde_json::Error,
    },
    /// There is no `run.json`.
    #[error("{} is not the folder of a run: it has no run.json", path.display())]
    NotARun {
        /// The folder.
        path: PathBuf,
    },
    /// A later version of this program wrote it.
    #[error(
        "{} has schema version {found}, and this program reads up to {SCHEMA_VERSION}",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u64,
    },
    /// It is not what it should be.
    #[error("{} is damaged", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// The name leads out of the folder, or names no file.
    #[error("`{name}` is not the name of a file in the folder of a run")]
    Name {
        /// The name.
        name: String,
    },
}

impl FolderError {
    /// The one thing to do about it, if there is one.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Create { path, source } | Self::Write { path, source } => {
                write_hint(source.kind(), path)
            }
            Self::Replace(error) => write_hint(error.kind(), error.path()),
            Self::Read { path, source } => (source.kind() == io::ErrorKind::PermissionDenied)
                .then(|| format!("check the owner and the mode of {}", path.display())),
            Self::NotARun { .. } => Some("aibom-qual runs list".to_owned()),
            Self::Newer { .. } => {
                Some("use the version of aibom-qual that wrote it, or a later one".to_owned())
            }
            Self::Damaged { .. } => {
                Some("copy the folder once more from where the run took place".to_owned())
            }
            Self::Encode { .. } | Self::Name { .. } => None,
        }
    }
}

fn write_hint(kind: io::ErrorKind, path: &Path) -> Option<String> {
    let folder = path.parent().unwrap_or(path).display();
    match kind {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Some(format!(
            "free some space on the disk that holds {folder}, or choose another --out"
        )),
        io::ErrorKind::PermissionDenied => {
            Some(format!("check the owner and the mode of {folder}"))
        }
        io::ErrorKind::ReadOnlyFilesystem => Some(format!(
            "{folder} is mounted read-only: choose another --out"
        )),
        _ => None,
    }
}

/// The folder of one run.
#[derive(Debug)]
pub struct RunFolder {
    root: PathBuf,
    /// Open from the first append on.
    log: Option<File>,
}

impl RunFolder {
    /// Creates the folder `<UTC time>-<scenario>-<short id>` below `parent`, which is created as well.
    /// Only its owner can enter it, and nobody else has got the same one.
    ///
    /// # Errors
    ///
    /// [`FolderError::Create`] names the folder.
    pub fn create(parent: &Path, scenario: &str, now: DateTime<Utc>) -> Result<Self, FolderError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| FolderError::Create { path, source }
        };
        std::fs::create_dir_all(parent).map_err(failed(parent))?;
        let mut private = DirBuilder::new();
        private.mode(0o700);
        let mut attempt = 1;
        let root = loop {
            let root = parent.join(name(scenario, now, &short_id()));
            match private.create(&root) {
                Ok(()) => break root,
                Err(error)
                    if error.kind() == io::ErrorKind::AlreadyExists && attempt < ATTEMPTS =>
                {
                    attempt += 1;
                }
                Err(error) => return Err(failed(&root)(error)),
            }
        };
        for folder in [SNAPSHOTS, SCRAPES, LOGS].map(|folder| root.join(folder)) {
            private.create(&folder).map_err(failed(&folder))?;
        }
        Ok(Self { root, log: None })
    }

    /// Opens the folder of an earlier run. Nothing is written by it.
    ///
    /// # Errors
    ///
    /// [`FolderError::NotARun`], or [`FolderError::Newer`] when a later version of this program wrote it.
    pub fn open(path: &Path) -> Result<Self, FolderError> {
        let folder = Self {
            root: path.to_owned(),
            log: None,
        };
        folder.check_version()?;
        Ok(folder)
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// The name of the run: that of its folder.
    #[must_use]
    pub fn name(&self) -> String {
        let name = self.root.file_name().unwrap_or(self.root.as_os_str());
        name.to_string_lossy().into_owned()
    }

    /// Where raw readings of metrics lie.
    #[must_use]
    pub fn scrapes_dir(&self) -> PathBuf {
        self.root.join(SCRAPES)
    }

    /// Where logs and transcripts lie.
    #[must_use]
    pub fn logs_dir(&self) -> PathBuf {
        self.root.join(LOGS)
    }

    /// Appends one line to `events.jsonl`. It is with the operating system when this returns, so that a
    /// kill of this process cannot take it back.
    ///
    /// # Errors
    ///
    /// [`FolderError::Write`]; the log is then as long as it was before.
    pub fn append(&mut self, entry: &Entry) -> Result<(), FolderError> {
        let path = self.root.join(EVENTS);
        let mut line = serde_json::to_vec(entry).map_err(|source| FolderError::Encode {
            path: path.clone(),
            source,
        })?;
        line.push(b'\n');
        let failed = |source| FolderError::Write {
            path: path.clone(),
            source,
        };
        let mut log = match &self.log {
            Some(log) => log,
            None => &*self.log.insert(open_log(&path).map_err(failed)?),
        };
        let length = log.metadata().map_err(failed)?.len();
        log.write_all(&line).map_err(|error| {
            // What did get onto a full disk would spoil the next line.
            let _ = log.set_len(length);
            failed(error)
        })
    }

    /// Replaces `run.json`.
    ///
    /// # Errors
    ///
    /// The file is then as it was before.
    pub fn write_run(&self, run: &RunFile) -> Result<(), FolderError> {
        self.write_json(RUN, run)
    }

    /// Replaces `ledger.json`.
    ///
    /// # Errors
    ///
    /// The file is then as it was before.
    pub fn write_ledger(&self, ledger: &Ledger) -> Result<(), FolderError> {
        self.write_json(LEDGER, ledger)
    }

    /// Writes the snapshot of a step, compressed, and returns its name in the folder.
    ///
    /// # Errors
    ///
    /// An earlier snapshot of the step is then as it was before.
    pub fn write_snapshot(&self, snapshot: &Snapshot) -> Result<String, FolderError> {
        let name = format!("{SNAPSHOTS}/{:02}-step.json.zst", snapshot.step);
        let path = self.root.join(&name);
        let bytes = compressed(snapshot).map_err(|source| FolderError::Write {
            path: path.clone(),
            source,
        })?;
        files::write_atomic(&path, &bytes, files::PUBLIC)?;
        Ok(name)
    }

    /// Replaces a text file of this name, for example `timeline.md` or `logs/plane.txt`.
    ///
    /// # Errors
    ///
    /// [`FolderError::Name`] when the name leads out of the folder. The file is as it was before.
    pub fn write_text(&self, name: &str, text: &str) -> Result<(), FolderError> {
        let path = self.file(name)?;
        Ok(files::write_atomic(&path, text.as_bytes(), files::PUBLIC)?)
    }

    fn write_json(&self, name: &str, value: &impl Serialize) -> Result<(), FolderError> {
        let path = self.root.join(name);
        let mut text = serde_json::to_vec_pretty(value).map_err(|source| FolderError::Encode {
            path: path.clone(),
            source,
        })?;
        text.push(b'\n');
        Ok(files::write_atomic(&path, &text, files::PUBLIC)?)
    }

    /// The path of a file that somebody names; folders of runs are passed on, so that a name in one is
    /// not to be trusted.
    fn file(&self, name: &str) -> Result<PathBuf, FolderError> {
        let mut parts = Path::new(name).components().peekable();
        let named = parts.peek().is_some();
        if named && parts.all(|part| matches!(part, Component::Normal(_))) {
            Ok(self.root.join(name))
        } else {
            Err(FolderError::Name {
                name: name.to_owned(),
            })
        }
    }
}

/// Opens the log for appending, without the last line if a kill cut it short.
fn open_log(path: &Path) -> io::Result<File> {
    let mut log = OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .open(path)?;
    let length = log.metadata()?.len();
    let Some(last) = length.checked_sub(1) else {
        return Ok(log);
    };
    let mut end = [0];
    log.seek(SeekFrom::Start(last))?;
    log.read_exact(&mut end)?;
    if end != *b"\n" {
        let mut text = Vec::new();
        log.seek(SeekFrom::Start(0))?;
        log.read_to_end(&mut text)?;
        log.set_len(whole_lines(&text).len() as u64)?;
    }
    Ok(log)
}

/// What lies before the end of the last whole line, that end included.
fn whole_lines(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|byte| *byte == b'\n');
    &text[..end.map_or(0, |end| end + 1)]
}

fn compressed(snapshot: &Snapshot) -> io::Result<Vec<u8>> {
    let mut encoder = zstd::Encoder::new(Vec::new(), zstd::DEFAULT_COMPRESSION_LEVEL)?;
    // So that damage is noticed where it happens to be valid JSON.
    encoder.include_checksum(true)?;
    serde_json::to_writer(&mut encoder, snapshot)?;
    encoder.finish()
}

fn name(scenario: &str, now: DateTime<Utc>, id: &str) -> String {
    // A scenario's name may be anything; that of a folder, and of an argument, may not.
    let plain = |letter: char| match letter {
        '.' | '_' | '-' => letter,
        _ if letter.is_ascii_alphanumeric() => letter,
        _ => '-',
    };
    let scenario: String = scenario.chars().map(plain).collect();
    format!("{}-{scenario}-{id}", now.format("%Y%m%dT%H%M%SZ"))
}

fn short_id() -> String {
    let letter = || char::from(LETTERS[fastrand::usize(..LETTERS.len())]);
    std::iter::repeat_with(letter).take(ID_LENGTH).collect()
}

#[cfg(test)]
mod tests;
